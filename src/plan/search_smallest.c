/* The low end of the ladder: schedules that keep nothing and replay what backward asks for.
 *
 * What such a schedule holds is what replays leave behind. Two starts hold what a block of forward
 * begins with, the only value that crosses into it, while backward works through that block: made
 * while little else lives, it spares the block's replays from going further back. From each start
 * single changes at the peak go down until none helps: something idle goes and is made again, or
 * something made again and again stays from an earlier replay on. Here packing decides as well: a
 * schedule filled to its peak packs badly, so filling it stops where the packed arena would grow.
 */
#include <string.h>

#include "base/error.h"
#include "plan/moves.h"
#include "plan/search_internal.h"

#define CHANGES_TRIED 48
#define ASCENTS 3u

static void apply_change(const ull__schedule_model *model, const ull__replay_change *change,
                         ull__decisions *decisions) {
  const ull__node *node = ull__graph_node(model->lowered->graph, change->node);
  decisions->hold[change->node] = change->hold;
  decisions->fleeting[change->node] = change->fleeting;
  for (uint32_t o = 0; o < node->output_count && change->drop; o++) {
    ull__value_id root = model->root[node->outputs[o]];
    if (model->droppable[root]) decisions->keep[root] = false;
  }
}

/* Tries single changes at the peak; keeps the first that lowers it. The schedule is that of
 * `decisions` when this returns. */
static ull_status improve_replays(ull__search_state *s, ull__decisions *decisions,
                                  ull__decisions *before, bool *improved) {
  ull__replay_change changes[CHANGES_TRIED];
  ull__depth depth = ull__depth_of(&s->schedule);
  uint32_t count =
      ull__find_replay_changes(s->model, &s->schedule, decisions, changes, CHANGES_TRIED);
  *improved = false;
  ull__decisions_assign(s->model, decisions, before);
  for (uint32_t c = 0; c < count && !ull__search_exhausted(s); c++) {
    apply_change(s->model, &changes[c], decisions);
    ULL__TRY(ull__search_evaluate(s, decisions));
    *improved = ull__is_deeper(ull__depth_of(&s->schedule), depth);
    if (*improved) return ULL_OK;
    ull__decisions_assign(s->model, before, decisions);
  }
  return count > 0 ? ull__search_evaluate(s, decisions) : ULL_OK;
}

/* Down from the schedule of `decisions`, which is evaluated, until no change helps. */
static ull_status squeeze(ull__search_state *s, ull__decisions *decisions, uint32_t most) {
  ull__decisions scratch = {0};
  uint32_t until = s->ladder->evaluated + most;
  bool improved = true;
  ull_status status = ull__decisions_create(s->model, &scratch);
  while (status == ULL_OK && improved && s->ladder->evaluated < until) {
    if (ull__search_exhausted(s)) break;
    status = improve_replays(s, decisions, &scratch, &improved);
    if (status == ULL_OK && !improved) status = ull__search_improve_order(s, decisions, &improved);
    if (status == ULL_OK && improved) status = ull__search_record(s, decisions, 0);
  }
  ull__decisions_free(&scratch);
  return status;
}

/* ---- starts ---- */

typedef enum beginning {
  START_BARE,        /* holds nothing from replay to replay but what was asked for */
  START_BLOCKS,      /* holds what a block begins with while backward is inside the block */
  START_BLOCKS_ENDS, /* from where backward asks for what the block makes */
  START_COUNT
} beginning;

/* Whether what the node makes is all that crosses from before to behind it. */
static bool is_waist(const ull__search_state *s, ull__node_id n) {
  const ull__schedule_model *m = s->model;
  const ull__node *node = ull__graph_node(m->lowered->graph, n);
  for (uint32_t o = 0; o < node->output_count && !m->skipped[n]; o++) {
    ull__value_id root = m->root[node->outputs[o]];
    if (m->droppable[root] && m->bytes[root] == s->crossing[n]) return true;
  }
  return false;
}

static void hold_waists(const ull__search_state *s, bool ends, ull__decisions *decisions) {
  ull__node_id waist = ULL__NONE;
  for (ull__node_id n = 0; n < s->model->forward_end; n++) {
    if (!is_waist(s, n)) continue;
    if (waist != ULL__NONE) decisions->hold[waist] = ends ? n : n - 1;
    waist = n;
  }
  if (waist != ULL__NONE) decisions->hold[waist] = s->model->forward_end;
}

static void begin(const ull__search_state *s, beginning start, ull__decisions *decisions) {
  ull__decisions_reset(s->model, decisions);
  ull__search_keep_nothing(s, decisions);
  for (ull__node_id n = 0; n < s->model->forward_end; n++)
    decisions->segment[n] = decisions->hold[n] = n;
  if (start != START_BARE) hold_waists(s, start == START_BLOCKS_ENDS, decisions);
}

/* Of schedules with the same peak, the fastest. */
static void note_smallest(ull__search_state *s, const ull__decisions *decisions,
                          ull__decisions *smallest) {
  const ull__schedule *found = &s->schedule;
  bool as_small = found->peak_bytes == s->best_bytes && found->seconds < s->best_seconds;
  if (found->peak_bytes >= s->best_bytes && !as_small) return;
  s->best_bytes = found->peak_bytes;
  s->best_seconds = found->seconds;
  ull__decisions_assign(s->model, decisions, smallest);
  memcpy(s->best_order, decisions->order,
         (s->model->node_count - s->model->forward_end) * sizeof *s->best_order);
}

/* Fills the smallest schedule as far as its packed arena does not grow. */
static ull_status fill(ull__search_state *s, ull__decisions *decisions) {
  uint64_t height;
  if (s->schedule.peak_bytes == UINT64_MAX) return ULL_OK;
  ULL__TRY(ull__schedule_pack(&s->schedule, NULL, &height));
  ULL__TRY(ull__search_record(s, decisions, height));
  return ull__search_exhausted(s) ? ULL_OK : ull__search_ascend(s, decisions, height);
}

static ull_status explore(ull__search_state *s, beginning start, ull__decisions *decisions,
                          ull__decisions *smallest) {
  begin(s, start, decisions);
  ULL__TRY(ull__search_evaluate(s, decisions));
  if (s->schedule.peak_bytes == UINT64_MAX) return ULL_OK;
  ULL__TRY(ull__search_record(s, decisions, 0));
  if (start == START_BARE)
    ULL__TRY(ull__search_descend(s, decisions, s->effort / 6 + 8));
  else
    ULL__TRY(squeeze(s, decisions, s->effort / 6 + 8));
  note_smallest(s, decisions, smallest);
  for (uint32_t round = 0; round < ASCENTS && !ull__search_exhausted(s); round++)
    ULL__TRY(ull__search_ascend(s, decisions, 0));
  return ULL_OK;
}

static ull_status explore_all(ull__search_state *s, ull__decisions *decisions,
                              ull__decisions *smallest) {
  for (beginning start = START_BARE; start < START_COUNT; start++) {
    if (start != START_BARE && ull__search_exhausted(s)) break;
    ULL__TRY(explore(s, start, decisions, smallest));
  }
  if (s->best_bytes == UINT64_MAX || ull__search_exhausted(s)) return ULL_OK;
  ULL__TRY(ull__search_evaluate(s, smallest));
  return fill(s, smallest);
}

ull_status ull__search_smallest(ull__search_state *s) {
  ull__decisions decisions = {0}, smallest = {0};
  ull_status status = ull__decisions_create(s->model, &decisions);
  if (status == ULL_OK) status = ull__decisions_create(s->model, &smallest);
  if (status == ULL_OK) status = explore_all(s, &decisions, &smallest);
  ull__decisions_free(&decisions);
  ull__decisions_free(&smallest);
  return status;
}
