/* Ways down: moves at the peak of a schedule, one after the other, judged by the exact generator.
 */
#include <string.h>

#include "base/error.h"
#include "plan/moves.h"
#include "plan/search_internal.h"

#define HELD_TRIED 3
#define FRUITLESS_MOST 12

ull__depth ull__depth_of(const ull__schedule *s) {
  return (ull__depth){s->peak_bytes, s->peak_count};
}

bool ull__is_deeper(ull__depth a, ull__depth b) {
  return a.peak_bytes < b.peak_bytes ||
         (a.peak_bytes == b.peak_bytes && a.peak_count < b.peak_count);
}

ull_status ull__search_improve_order(ull__search_state *s, ull__decisions *decisions,
                                     bool *improved) {
  ull__value_id held[HELD_TRIED];
  ull__depth before = ull__depth_of(&s->schedule);
  uint32_t orders = s->model->node_count - s->model->forward_end;
  uint32_t count = ull__find_held(s->model, &s->schedule, held, HELD_TRIED);
  bool stale = false;
  *improved = false;
  for (uint32_t h = 0; h < ULL__ORDER_MOVES * count && !*improved && !ull__search_exhausted(s);
       h++) {
    bool moved;
    if (stale) ULL__TRY(ull__search_evaluate(s, decisions));
    stale = false;
    memcpy(s->old_order, decisions->order, orders * sizeof *s->old_order);
    ULL__TRY(ull__reorder_held(s->model, &s->schedule, decisions, held[h / ULL__ORDER_MOVES],
                               (ull__order_move)(h % ULL__ORDER_MOVES), &moved));
    if (!moved) continue;
    ULL__TRY(ull__search_evaluate(s, decisions));
    *improved = ull__is_deeper(ull__depth_of(&s->schedule), before);
    if (*improved) break;
    memcpy(decisions->order, s->old_order, orders * sizeof *s->old_order);
    stale = true;
  }
  return stale ? ull__search_evaluate(s, decisions) : ULL_OK;
}

/* Tries to hold on to what the replay at the peak would otherwise make again. As improve_order. */
static ull_status improve_retention(ull__search_state *s, ull__decisions *decisions,
                                    bool *improved) {
  ull__retention tried[HELD_TRIED];
  ull__depth before = ull__depth_of(&s->schedule);
  uint32_t count = ull__find_retentions(s->model, &s->schedule, decisions, tried, HELD_TRIED);
  bool stale = false;
  *improved = false;
  for (uint32_t r = 0; r < count && !*improved && !ull__search_exhausted(s); r++) {
    ull__node_id node = tried[r].node;
    uint32_t hold = decisions->hold[node];
    bool fleeting = decisions->fleeting[node];
    decisions->hold[node] = tried[r].hold;
    decisions->fleeting[node] = false;
    ULL__TRY(ull__search_evaluate(s, decisions));
    *improved = ull__is_deeper(ull__depth_of(&s->schedule), before);
    stale = !*improved;
    if (*improved) break;
    decisions->hold[node] = hold;
    decisions->fleeting[node] = fleeting;
  }
  return stale ? ull__search_evaluate(s, decisions) : ULL_OK;
}

/* Applies moves until they should have freed a notch. False where there was none. */
static bool free_notch(ull__search_state *s, ull__decisions *decisions, uint64_t notch) {
  ull__forward_reads reads = {s->last_read};
  ull__move move;
  uint64_t freed = 0;
  while (freed < notch && ull__find_move(s->model, &s->schedule, decisions, &reads, &move)) {
    ull__apply_move(s->model, &move, decisions);
    freed += s->model->bytes[move.root];
  }
  return freed > 0;
}

/* One step down from the schedule of `decisions`, which is evaluated. False where no move is left.
 */
static ull_status step_down(ull__search_state *s, ull__decisions *decisions, uint64_t notch,
                            bool *stepped) {
  ULL__TRY(improve_retention(s, decisions, stepped));
  if (*stepped || ull__search_exhausted(s)) return ULL_OK;
  ULL__TRY(ull__search_improve_order(s, decisions, stepped));
  if (*stepped || ull__search_exhausted(s)) return ULL_OK;
  *stepped = free_notch(s, decisions, notch);
  return *stepped ? ull__search_evaluate(s, decisions) : ULL_OK;
}

ull_status ull__search_descend(ull__search_state *s, ull__decisions *decisions, uint32_t most) {
  ull__decisions best = {0};
  ull__depth deepest = ull__depth_of(&s->schedule);
  uint64_t notch = deepest.peak_bytes / 64;
  uint32_t until = s->ladder->evaluated + most, fruitless = 0;
  bool stepped = deepest.peak_bytes != UINT64_MAX;
  ull_status status = ull__decisions_copy(s->model, decisions, &best);
  while (status == ULL_OK && stepped && fruitless < FRUITLESS_MOST) {
    if (ull__search_exhausted(s) || s->ladder->evaluated >= until ||
        s->schedule.peak_bytes == UINT64_MAX)
      break;
    status = step_down(s, decisions, notch, &stepped);
    bool deeper = ull__is_deeper(ull__depth_of(&s->schedule), deepest);
    fruitless = deeper ? 0 : fruitless + 1;
    if (status != ULL_OK || !deeper) continue;
    deepest = ull__depth_of(&s->schedule);
    ull__decisions_assign(s->model, decisions, &best);
    status = ull__search_record(s, decisions, 0);
  }
  if (status == ULL_OK && ull__is_deeper(deepest, ull__depth_of(&s->schedule))) {
    ull__decisions_assign(s->model, &best, decisions);
    status = ull__search_evaluate(s, decisions);
  }
  ull__decisions_free(&best);
  return status;
}
