/* The search walks from several starts, and the exact generator judges every step:
 *
 *   starts   keep-all; keep nothing; checkpoints: forward cut into segments where little crosses,
 *            with what crosses kept or not, and replays retained by segment or by node
 *   down     at the peak, another order of backward where that lowers it, else let the idle value
 *            go that frees most bytes for each second of computing it again; a notch at a time
 *   up       keep again what fits under the peak, dearest seconds first
 *
 * Everything is a function of the graph, the kernels' predicted seconds and the effort. */
#include "plan/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"
#include "plan/moves.h"

typedef struct search {
  const ull__schedule_model *model;
  ull__ladder *ladder;
  ull__schedule schedule;
  uint32_t effort;
  uint64_t *crossing;       /* by forward node: bytes made up to it and read by forward after it */
  ull__node_id *old_order;  /* scratch */
  ull__node_id *best_order; /* of the smallest schedule */
  bool has_order;
  uint32_t *last_read; /* by root: the last forward node that reads it */
} search;

static bool exhausted(const search *s) {
  return s->ladder->evaluated >= s->effort;
}

static ull_status evaluate(search *s, const ull__decisions *decisions) {
  s->ladder->evaluated++;
  return ull__schedule_generate(s->model, decisions, &s->schedule);
}

/* Records the schedule just evaluated unless a rung is both as fast and as small. */
static ull_status record(search *s, const ull__decisions *decisions) {
  ull__ladder *ladder = s->ladder;
  for (size_t r = 0; r < ladder->count; r++)
    if (ladder->rungs[r].seconds <= s->schedule.seconds &&
        ladder->rungs[r].peak_bytes <= s->schedule.peak_bytes)
      return ULL_OK;
  ull__rung rung = {.seconds = s->schedule.seconds, .peak_bytes = s->schedule.peak_bytes};
  ULL__TRY(ull__decisions_copy(s->model, decisions, &rung.decisions));
  ull_status status =
      ull__vector_grow((void **)&ladder->rungs, &ladder->capacity, ladder->count, 1, sizeof rung);
  if (status == ULL_OK)
    ladder->rungs[ladder->count++] = rung;
  else
    ull__decisions_free(&rung.decisions);
  return status;
}

static double recompute_seconds(const search *s, ull__value_id root) {
  return s->model->lowered->nodes[s->model->producer[root]].kernel.seconds;
}

/* ---- 1. downwards: moves at the peak ---- */

#define HELD_TRIED 3
#define FRUITLESS_MOST 12

/* How far a walk down has come. Several executions often reach the same peak: getting rid of one is
 * progress. */
typedef struct depth {
  uint64_t peak_bytes;
  uint32_t peak_count;
} depth;

static depth depth_of(const ull__schedule *s) {
  return (depth){s->peak_bytes, s->peak_count};
}

static bool is_deeper(depth a, depth b) {
  return a.peak_bytes < b.peak_bytes ||
         (a.peak_bytes == b.peak_bytes && a.peak_count < b.peak_count);
}

/* Tries other orders of backward around the peak; keeps the first that lowers it. The schedule is
 * that of `decisions` when this returns. */
static ull_status improve_order(search *s, ull__decisions *decisions, bool *improved) {
  ull__value_id held[HELD_TRIED];
  depth before = depth_of(&s->schedule);
  uint32_t orders = s->model->node_count - s->model->forward_end;
  uint32_t count = ull__find_held(s->model, &s->schedule, held, HELD_TRIED);
  bool stale = false;
  *improved = false;
  for (uint32_t h = 0; h < ULL__ORDER_MOVES * count && !*improved && !exhausted(s); h++) {
    bool moved;
    if (stale) ULL__TRY(evaluate(s, decisions));
    stale = false;
    memcpy(s->old_order, decisions->order, orders * sizeof *s->old_order);
    ULL__TRY(ull__reorder_held(s->model, &s->schedule, decisions, held[h / ULL__ORDER_MOVES],
                               (ull__order_move)(h % ULL__ORDER_MOVES), &moved));
    if (!moved) continue;
    ULL__TRY(evaluate(s, decisions));
    *improved = is_deeper(depth_of(&s->schedule), before);
    if (*improved) break;
    memcpy(decisions->order, s->old_order, orders * sizeof *s->old_order);
    stale = true;
  }
  return stale ? evaluate(s, decisions) : ULL_OK;
}

/* Tries to hold on to what the replay at the peak would otherwise make again. As improve_order. */
static ull_status improve_retention(search *s, ull__decisions *decisions, bool *improved) {
  ull__retention tried[HELD_TRIED];
  depth before = depth_of(&s->schedule);
  uint32_t count = ull__find_retentions(s->model, &s->schedule, decisions, tried, HELD_TRIED);
  bool stale = false;
  *improved = false;
  for (uint32_t r = 0; r < count && !*improved && !exhausted(s); r++) {
    ull__node_id node = tried[r].node;
    uint32_t segment = decisions->segment[node];
    bool fleeting = decisions->fleeting[node];
    decisions->segment[node] = tried[r].segment;
    decisions->fleeting[node] = false;
    ULL__TRY(evaluate(s, decisions));
    *improved = is_deeper(depth_of(&s->schedule), before);
    stale = !*improved;
    if (*improved) break;
    decisions->segment[node] = segment;
    decisions->fleeting[node] = fleeting;
  }
  return stale ? evaluate(s, decisions) : ULL_OK;
}

/* Applies moves until they should have freed a notch. False where there was none. */
static bool free_notch(search *s, ull__decisions *decisions, uint64_t notch) {
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
static ull_status step_down(search *s, ull__decisions *decisions, uint64_t notch, bool *stepped) {
  ULL__TRY(improve_retention(s, decisions, stepped));
  if (*stepped || exhausted(s)) return ULL_OK;
  ULL__TRY(improve_order(s, decisions, stepped));
  if (*stepped || exhausted(s)) return ULL_OK;
  *stepped = free_notch(s, decisions, notch);
  return *stepped ? evaluate(s, decisions) : ULL_OK;
}

/* As far down as moves lead, within `most` evaluations. Leaves `decisions` at the lowest peak,
 * evaluated. */
static ull_status descend(search *s, ull__decisions *decisions, uint32_t most) {
  ull__decisions best = {0};
  depth deepest = depth_of(&s->schedule);
  uint64_t notch = deepest.peak_bytes / 64;
  uint32_t until = s->ladder->evaluated + most, fruitless = 0;
  bool stepped = deepest.peak_bytes != UINT64_MAX;
  ull_status status = ull__decisions_copy(s->model, decisions, &best);
  while (status == ULL_OK && stepped && fruitless < FRUITLESS_MOST) {
    if (exhausted(s) || s->ladder->evaluated >= until || s->schedule.peak_bytes == UINT64_MAX)
      break;
    status = step_down(s, decisions, notch, &stepped);
    bool deeper = is_deeper(depth_of(&s->schedule), deepest);
    fruitless = deeper ? 0 : fruitless + 1;
    if (status != ULL_OK || !deeper) continue;
    deepest = depth_of(&s->schedule);
    ull__decisions_assign(s->model, decisions, &best);
    status = record(s, decisions);
  }
  if (status == ULL_OK && is_deeper(deepest, depth_of(&s->schedule))) {
    ull__decisions_assign(s->model, &best, decisions);
    status = evaluate(s, decisions);
  }
  ull__decisions_free(&best);
  return status;
}

/* ---- 2. checkpoints ---- */

static ull_status find_crossings(search *s) {
  const ull__schedule_model *m = s->model;
  s->crossing = ull__alloc(m->forward_end + 1, sizeof *s->crossing);
  s->last_read = ull__alloc(m->value_count, sizeof *s->last_read);
  s->old_order = ull__alloc(m->node_count - m->forward_end, sizeof *s->old_order);
  s->best_order = ull__alloc(m->node_count - m->forward_end, sizeof *s->best_order);
  if (!s->crossing || !s->last_read || !s->old_order || !s->best_order)
    return ULL_ERROR_OUT_OF_MEMORY;
  for (ull__node_id n = 0; n < m->forward_end; n++) {
    const ull__node *node = ull__graph_node(m->lowered->graph, n);
    for (uint32_t i = 0; i < node->input_count && !m->skipped[n]; i++)
      if (node->inputs[i] != ULL__NONE) s->last_read[m->root[node->inputs[i]]] = n;
  }
  for (ull__value_id v = 0; v < m->value_count; v++) {
    if (!m->droppable[v]) continue;
    for (ull__node_id n = m->producer[v]; n < s->last_read[v]; n++) s->crossing[n] += m->bytes[v];
  }
  return ULL_OK;
}

/* Cuts forward into `count` segments of about equal bytes made, each cut moved to where least
 * crosses nearby. */
static void cut_segments(const search *s, uint32_t count, uint32_t *segment) {
  const ull__schedule_model *m = s->model;
  uint32_t nodes = m->forward_end;
  uint32_t cut = 0, number = 0;
  for (uint32_t k = 1; k <= count; k++) {
    uint32_t until = nodes;
    if (k < count) {
      uint32_t target = (uint32_t)((uint64_t)nodes * k / count), reach = nodes / (2 * count) + 1;
      uint32_t from = target > reach ? target - reach : 0,
               to = target + reach < nodes ? target + reach : nodes;
      until = target;
      for (uint32_t n = from; n < to; n++)
        if (n > cut && s->crossing[n - 1] < s->crossing[until - 1]) until = n;
    }
    if (until <= cut) continue;
    for (uint32_t n = cut; n < until; n++) segment[n] = number;
    cut = until;
    number++;
  }
}

static void keep_crossing(const search *s, const uint32_t *segment, ull__decisions *decisions) {
  const ull__schedule_model *m = s->model;
  for (ull__value_id v = 0; v < m->value_count; v++)
    if (m->droppable[v]) decisions->keep[v] = segment[s->last_read[v]] > segment[m->producer[v]];
}

static void keep_nothing(const search *s, ull__decisions *decisions) {
  for (ull__value_id v = 0; v < s->model->value_count; v++)
    if (s->model->droppable[v]) decisions->keep[v] = false;
}

/* ---- 3. upwards: keep again what fits under a peak ---- */

typedef struct candidate {
  ull__value_id root;
  double score;
} candidate;

static int compare_candidates(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return (x->root > y->root) - (x->root < y->root);
}

/* Seconds spent on making each dropped value again, for each byte that keeping it would cost. */
static ull_status list_dropped(search *s, const ull__decisions *decisions, candidate **list,
                               uint32_t *count, uint32_t *first, uint32_t *last) {
  const ull__schedule_model *m = s->model;
  double *spent = ull__alloc(m->value_count, sizeof *spent);
  *list = ull__alloc(m->value_count, sizeof **list);
  if (!spent || !*list) {
    ull__free(spent);
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  memset(first, 0xFF, m->value_count * sizeof *first);
  for (size_t i = 0; i < s->schedule.instance_count; i++) {
    const ull__instance *instance = &s->schedule.instances[i];
    ull__value_id root = instance->value;
    if (root == ULL__NONE) continue;
    if (first[root] != UINT32_MAX && m->producer[root] != ULL__NONE)
      spent[root] += recompute_seconds(s, root);
    if (first[root] == UINT32_MAX) first[root] = instance->first;
    last[root] = instance->last;
  }
  *count = 0;
  for (ull__value_id v = 0; v < m->value_count; v++)
    if (m->droppable[v] && !decisions->keep[v] && spent[v] > 0)
      (*list)[(*count)++] = (candidate){v, spent[v] / (double)m->bytes[v]};
  qsort(*list, *count, sizeof **list, compare_candidates);
  ull__free(spent);
  return ULL_OK;
}

/* Adds the value to the profile from its first to its last life if it stays under `limit`. */
static bool fits_profile(uint64_t *live, uint32_t first, uint32_t last, uint64_t bytes,
                         uint64_t limit) {
  for (uint32_t e = first; e <= last; e++)
    if (live[e] + bytes > limit) return false;
  for (uint32_t e = first; e <= last; e++) live[e] += bytes;
  return true;
}

static ull_status try_ascent(search *s, ull__decisions *decisions, const candidate *list,
                             uint32_t *accepted, uint32_t count, uint64_t limit) {
  while (count > 0 && !exhausted(s)) {
    for (uint32_t i = 0; i < count; i++) decisions->keep[list[accepted[i]].root] = true;
    ULL__TRY(evaluate(s, decisions));
    if (s->schedule.peak_bytes <= limit) return record(s, decisions);
    for (uint32_t i = 0; i < count; i++) decisions->keep[list[accepted[i]].root] = false;
    count /= 2;
  }
  return ULL_OK;
}

static ull_status ascend(search *s, ull__decisions *decisions) {
  uint64_t limit = s->schedule.peak_bytes;
  uint32_t values = s->model->value_count, count = 0, taken = 0;
  candidate *list = NULL;
  uint32_t *first = ull__alloc(values, sizeof *first), *last = ull__alloc(values, sizeof *last);
  uint32_t *accepted = ull__alloc(values, sizeof *accepted);
  ull_status status = first && last && accepted
                          ? list_dropped(s, decisions, &list, &count, first, last)
                          : ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count && status == ULL_OK; i++) {
    ull__value_id v = list[i].root;
    if (fits_profile(s->schedule.live, first[v], last[v], s->model->bytes[v], limit))
      accepted[taken++] = i;
  }
  if (status == ULL_OK) status = try_ascent(s, decisions, list, accepted, taken, limit);
  ull__free(list);
  ull__free(first);
  ull__free(last);
  ull__free(accepted);
  return status;
}

/* ---- 4. the starts ---- */

/* Evaluates a start, walks down from it, and climbs again from where that ended. */
static ull_status explore(search *s, ull__decisions *decisions, uint32_t most) {
  if (exhausted(s)) return ULL_OK;
  ULL__TRY(evaluate(s, decisions));
  if (s->schedule.peak_bytes == UINT64_MAX) return ULL_OK;
  ULL__TRY(record(s, decisions));
  for (uint32_t round = 0; round < 2 && !exhausted(s); round++) ULL__TRY(ascend(s, decisions));
  ULL__TRY(descend(s, decisions, most));
  for (uint32_t round = 0; round < 3 && !exhausted(s); round++) ULL__TRY(ascend(s, decisions));
  return ULL_OK;
}

static ull_status start_from(const search *s, ull__decisions *out) {
  ULL__TRY(ull__decisions_create(s->model, out));
  uint32_t count = s->model->node_count - s->model->forward_end;
  if (s->has_order) memcpy(out->order, s->best_order, count * sizeof *out->order);
  return ULL_OK;
}

static ull_status explore_segments(search *s, uint32_t *cuts, bool keep, bool by_node) {
  ull__decisions decisions = {0};
  ULL__TRY(start_from(s, &decisions));
  if (keep)
    keep_crossing(s, cuts, &decisions);
  else
    keep_nothing(s, &decisions);
  for (ull__node_id n = 0; n < s->model->forward_end; n++)
    decisions.segment[n] = by_node ? n : cuts[n];
  ull_status status = explore(s, &decisions, s->effort / 50 + 8);
  ull__decisions_free(&decisions);
  return status;
}

static ull_status explore_checkpoints(search *s) {
  static const uint32_t counts[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64};
  uint32_t *cuts = ull__alloc(s->model->node_count, sizeof *cuts);
  ull_status status = cuts ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  for (size_t c = 0; c < sizeof counts / sizeof *counts && status == ULL_OK; c++) {
    if (counts[c] > s->model->forward_end) break;
    cut_segments(s, counts[c], cuts);
    for (uint32_t variant = 0; variant < 4 && status == ULL_OK; variant++)
      status = explore_segments(s, cuts, variant & 1, variant & 2);
  }
  ull__free(cuts);
  return status;
}

/* The schedule that keeps nothing comes first, so that no effort is too small for it, and its walk
 * down finds the order of backward that the other starts begin with. */
static ull_status explore_smallest(search *s) {
  ull__decisions decisions = {0};
  ULL__TRY(ull__decisions_create(s->model, &decisions));
  keep_nothing(s, &decisions);
  for (ull__node_id n = 0; n < s->model->forward_end; n++) decisions.segment[n] = n;
  ull_status status = evaluate(s, &decisions);
  if (status == ULL_OK && s->schedule.peak_bytes != UINT64_MAX) {
    status = record(s, &decisions);
    if (status == ULL_OK) status = descend(s, &decisions, s->effort / 6 + 8);
    memcpy(s->best_order, decisions.order,
           (s->model->node_count - s->model->forward_end) * sizeof *s->best_order);
    s->has_order = true;
    for (uint32_t round = 0; round < 3 && status == ULL_OK && !exhausted(s); round++)
      status = ascend(s, &decisions);
  }
  ull__decisions_free(&decisions);
  return status;
}

static ull_status explore_keep_all(search *s, bool reordered) {
  ull__decisions decisions = {0};
  if (reordered)
    ULL__TRY(start_from(s, &decisions));
  else
    ULL__TRY(ull__decisions_create(s->model, &decisions));
  ull_status status = explore(s, &decisions, s->effort / 4 + 8);
  ull__decisions_free(&decisions);
  return status;
}

static ull_status search_all(search *s) {
  ULL__TRY(find_crossings(s));
  ull__decisions keep_all = {0};
  ULL__TRY(ull__decisions_create(s->model, &keep_all));
  ull_status status = evaluate(s, &keep_all);
  if (status == ULL_OK) status = record(s, &keep_all);
  ull__decisions_free(&keep_all);
  if (status != ULL_OK || s->model->forward_end == s->model->node_count) return status;
  ULL__TRY(explore_smallest(s));
  ULL__TRY(explore_keep_all(s, false));
  ULL__TRY(explore_keep_all(s, true));
  return explore_checkpoints(s);
}

ull_status ull__search(const ull__schedule_model *model, uint32_t effort, ull__ladder *ladder) {
  search s = {.model = model, .ladder = ladder, .effort = effort};
  ull_status status = search_all(&s);
  ull__schedule_free(&s.schedule);
  ull__free(s.crossing);
  ull__free(s.old_order);
  ull__free(s.best_order);
  ull__free(s.last_read);
  return status;
}
