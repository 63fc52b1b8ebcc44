/* Three sources of rungs, all judged by the exact generator:
 *
 *   1. From keep-all downwards: at the peak, drop the idle kept value that frees most bytes for
 * each second of computing it again, until the peak has fallen by a notch; repeat until nothing
 * idle is left there.
 *   2. Checkpoints: cut forward into segments where little crosses, keep what crosses and drop the
 * rest, with replays retained by segment, or by node.
 *   3. From each of those upwards: keep again what fits under its peak, dearest seconds first.
 *
 * Everything is a function of the graph, the kernels' predicted seconds and the effort. */
#include "plan/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"

typedef struct search {
  const ull__schedule_model *model;
  ull__ladder *ladder;
  ull__schedule schedule;
  uint32_t effort;
  uint64_t *crossing;  /* by forward node: bytes made up to it and read by forward after it */
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

/* ---- 1. downwards from keep-all ---- */

static bool is_operand_at(const search *s, uint32_t execution, uint32_t instance) {
  const ull__execution *e = &s->schedule.executions[execution];
  uint32_t operands = e->input_count + e->output_count + e->has_workspace;
  for (uint32_t i = 0; i < operands; i++) {
    const ull__operand *operand = &s->schedule.operands[e->first_operand + i];
    if (operand->kind == ULL__OPERAND_INSTANCE && operand->index == instance) return true;
  }
  return false;
}

/* Whether forward still reads it at or after the peak: then dropping it for backward frees nothing
 * there. */
static bool forward_needs_after(const search *s, ull__value_id root, uint32_t execution) {
  ull__node_id node = s->schedule.executions[execution].node;
  return node != ULL__NONE && node < s->model->forward_end &&
         !s->schedule.executions[execution].recomputed && s->last_read[root] > node;
}

/* The best idle kept value at the peak; ULL__NONE where there is none. */
static ull__value_id find_candidate(const search *s, const ull__decisions *decisions) {
  uint32_t peak = s->schedule.peak_execution;
  ull__value_id best = ULL__NONE;
  double best_score = -1;
  for (size_t i = 0; i < s->schedule.instance_count; i++) {
    const ull__instance *instance = &s->schedule.instances[i];
    ull__value_id root = instance->value;
    if (instance->first >= peak || instance->last <= peak || root == ULL__NONE) continue;
    if (!s->model->droppable[root] || !decisions->keep[root]) continue;
    if (is_operand_at(s, peak, (uint32_t)i) || forward_needs_after(s, root, peak)) continue;
    double score = (double)s->model->bytes[root] / (recompute_seconds(s, root) + 1e-9);
    if (score <= best_score) continue;
    best_score = score;
    best = root;
  }
  return best;
}

static ull_status descend(search *s, ull__decisions *decisions) {
  ULL__TRY(evaluate(s, decisions));
  ULL__TRY(record(s, decisions));
  uint64_t notch = s->schedule.peak_bytes / 64;
  uint64_t floor = s->schedule.peak_bytes;
  while (!exhausted(s)) {
    ull__value_id root = find_candidate(s, decisions);
    if (root == ULL__NONE) break;
    uint64_t freed = 0;
    while (root != ULL__NONE && freed < notch) {
      freed += s->model->bytes[root];
      decisions->keep[root] = false;
      root = find_candidate(s, decisions);
    }
    ULL__TRY(evaluate(s, decisions));
    if (s->schedule.peak_bytes < floor) {
      floor = s->schedule.peak_bytes;
      ULL__TRY(record(s, decisions));
    }
  }
  return ULL_OK;
}

/* ---- 2. checkpoints ---- */

static ull_status find_crossings(search *s) {
  const ull__schedule_model *m = s->model;
  s->crossing = ull__alloc(m->forward_end + 1, sizeof *s->crossing);
  s->last_read = ull__alloc(m->value_count, sizeof *s->last_read);
  if (!s->crossing || !s->last_read) return ULL_ERROR_OUT_OF_MEMORY;
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

/* Evaluates a start, records it, and climbs from it. */
static ull_status explore(search *s, ull__decisions *decisions) {
  if (exhausted(s)) return ULL_OK;
  ULL__TRY(evaluate(s, decisions));
  ULL__TRY(record(s, decisions));
  for (uint32_t round = 0; round < 3 && !exhausted(s); round++) ULL__TRY(ascend(s, decisions));
  return ULL_OK;
}

static ull_status explore_segments(search *s, ull__decisions *decisions, uint32_t *cuts, bool keep,
                                   bool by_node) {
  if (keep)
    keep_crossing(s, cuts, decisions);
  else
    keep_nothing(s, decisions);
  for (ull__node_id n = 0; n < s->model->forward_end; n++)
    decisions->segment[n] = by_node ? n : cuts[n];
  return explore(s, decisions);
}

static ull_status explore_checkpoints(search *s) {
  static const uint32_t counts[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64};
  ull__decisions decisions = {0};
  uint32_t *cuts = ull__alloc(s->model->node_count, sizeof *cuts);
  ull_status status = cuts ? ull__decisions_create(s->model, &decisions) : ULL_ERROR_OUT_OF_MEMORY;
  for (size_t c = 0; c < sizeof counts / sizeof *counts && status == ULL_OK; c++) {
    if (counts[c] > s->model->forward_end) break;
    cut_segments(s, counts[c], cuts);
    for (uint32_t variant = 0; variant < 4 && status == ULL_OK; variant++)
      status = explore_segments(s, &decisions, cuts, variant & 1, variant & 2);
  }
  ull__decisions_free(&decisions);
  ull__free(cuts);
  return status;
}

/* The schedule that keeps nothing comes first, so that no effort is too small for it. */
static ull_status explore_smallest(search *s) {
  ull__decisions decisions = {0};
  uint32_t *cuts = ull__alloc(s->model->node_count, sizeof *cuts);
  ull_status status = cuts ? ull__decisions_create(s->model, &decisions) : ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK) {
    keep_nothing(s, &decisions);
    for (ull__node_id n = 0; n < s->model->forward_end; n++) decisions.segment[n] = n;
    status = evaluate(s, &decisions);
    if (status == ULL_OK) status = record(s, &decisions);
    for (uint32_t round = 0; round < 3 && status == ULL_OK && !exhausted(s); round++)
      status = ascend(s, &decisions);
  }
  ull__decisions_free(&decisions);
  ull__free(cuts);
  return status;
}

static ull_status descend_from_keep_all(search *s) {
  ull__decisions decisions = {0};
  ULL__TRY(ull__decisions_create(s->model, &decisions));
  ull_status status = descend(s, &decisions);
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
  ULL__TRY(explore_checkpoints(s));
  return descend_from_keep_all(s);
}

ull_status ull__search(const ull__schedule_model *model, uint32_t effort, ull__ladder *ladder) {
  search s = {.model = model, .ladder = ladder, .effort = effort};
  ull_status status = search_all(&s);
  ull__schedule_free(&s.schedule);
  ull__free(s.crossing);
  ull__free(s.last_read);
  return status;
}
