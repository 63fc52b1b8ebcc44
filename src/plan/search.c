/* The search walks from several starts, and the exact generator judges every step:
 *
 *   starts   keep-all; keep nothing, with and without what a block begins with (search_smallest.c);
 *            checkpoints: forward cut into segments where little crosses, with what crosses kept or
 *            not, and replays retained by segment or by node
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
#include "plan/search_internal.h"

bool ull__search_exhausted(const ull__search_state *s) {
  return s->ladder->evaluated >= s->effort;
}

ull_status ull__search_evaluate(ull__search_state *s, const ull__decisions *decisions) {
  s->ladder->evaluated++;
  return ull__schedule_generate(s->model, decisions, &s->schedule);
}

/* Whether the rung makes the schedule just evaluated superfluous. */
static bool is_as_good(const ull__rung *rung, const ull__schedule *schedule,
                       uint64_t height_bytes) {
  if (rung->seconds > schedule->seconds) return false;
  if (height_bytes == 0) return rung->peak_bytes <= schedule->peak_bytes;
  return rung->height_bytes > 0 && rung->height_bytes <= height_bytes;
}

ull_status ull__search_record(ull__search_state *s, const ull__decisions *decisions,
                              uint64_t height_bytes) {
  ull__ladder *ladder = s->ladder;
  for (size_t r = 0; r < ladder->count; r++)
    if (is_as_good(&ladder->rungs[r], &s->schedule, height_bytes)) return ULL_OK;
  ull__rung rung = {.seconds = s->schedule.seconds,
                    .peak_bytes = s->schedule.peak_bytes,
                    .height_bytes = height_bytes};
  ULL__TRY(ull__decisions_copy(s->model, decisions, &rung.decisions));
  ull_status status =
      ull__vector_grow((void **)&ladder->rungs, &ladder->capacity, ladder->count, 1, sizeof rung);
  if (status == ULL_OK)
    ladder->rungs[ladder->count++] = rung;
  else
    ull__decisions_free(&rung.decisions);
  return status;
}

static double recompute_seconds(const ull__search_state *s, ull__value_id root) {
  return s->model->lowered->nodes[s->model->producer[root]].kernel.seconds;
}

/* ---- checkpoints ---- */

static ull_status find_crossings(ull__search_state *s) {
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
static void cut_segments(const ull__search_state *s, uint32_t count, uint32_t *segment) {
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

static void keep_crossing(const ull__search_state *s, const uint32_t *segment,
                          ull__decisions *decisions) {
  const ull__schedule_model *m = s->model;
  for (ull__value_id v = 0; v < m->value_count; v++)
    if (m->droppable[v]) decisions->keep[v] = segment[s->last_read[v]] > segment[m->producer[v]];
}

void ull__search_keep_nothing(const ull__search_state *s, ull__decisions *decisions) {
  for (ull__value_id v = 0; v < s->model->value_count; v++)
    if (s->model->droppable[v]) decisions->keep[v] = false;
}

/* ---- upwards: keep again what fits under a peak ---- */

#define PACKINGS_TRIED 3u

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
static ull_status list_dropped(ull__search_state *s, const ull__decisions *decisions,
                               candidate **list, uint32_t *count, uint32_t *first, uint32_t *last) {
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

static void keep_first(ull__decisions *decisions, const candidate *list, const uint32_t *accepted,
                       uint32_t count, uint32_t kept) {
  for (uint32_t i = 0; i < count; i++) decisions->keep[list[accepted[i]].root] = i < kept;
}

static ull_status try_ascent(ull__search_state *s, ull__decisions *decisions, const candidate *list,
                             const uint32_t *accepted, uint32_t count, uint64_t limit) {
  for (uint32_t kept = count; kept > 0 && !ull__search_exhausted(s); kept /= 2) {
    keep_first(decisions, list, accepted, count, kept);
    ULL__TRY(ull__search_evaluate(s, decisions));
    if (s->schedule.peak_bytes <= limit) return ull__search_record(s, decisions, 0);
    keep_first(decisions, list, accepted, count, 0);
  }
  return ULL_OK;
}

/* Whether the schedule just evaluated stays within peak and packed height. */
static ull_status packs_within(const ull__search_state *s, uint64_t peak_bytes,
                               uint64_t height_bytes, bool *within) {
  uint64_t packed;
  *within = s->schedule.peak_bytes <= peak_bytes;
  if (!*within) return ULL_OK;
  ULL__TRY(ull__schedule_pack(&s->schedule, NULL, &packed));
  *within = packed <= height_bytes;
  return ULL_OK;
}

/* Packing is dear: a few tries between what packs and what does not. */
static ull_status try_packed_ascent(ull__search_state *s, ull__decisions *decisions,
                                    const candidate *list, const uint32_t *accepted, uint32_t count,
                                    uint64_t limit, uint64_t height_bytes) {
  uint32_t good = 0, bad = count + 1, kept = count;
  for (uint32_t t = 0; t < PACKINGS_TRIED && good + 1 < bad && !ull__search_exhausted(s); t++) {
    bool within;
    keep_first(decisions, list, accepted, count, kept);
    ULL__TRY(ull__search_evaluate(s, decisions));
    ULL__TRY(packs_within(s, limit, height_bytes, &within));
    if (within) ULL__TRY(ull__search_record(s, decisions, height_bytes));
    if (within)
      good = kept;
    else
      bad = kept;
    kept = (good + bad) / 2;
  }
  keep_first(decisions, list, accepted, count, good);
  return ULL_OK;
}

ull_status ull__search_ascend(ull__search_state *s, ull__decisions *decisions,
                              uint64_t height_bytes) {
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
  if (status == ULL_OK && height_bytes == 0)
    status = try_ascent(s, decisions, list, accepted, taken, limit);
  else if (status == ULL_OK)
    status = try_packed_ascent(s, decisions, list, accepted, taken, limit, height_bytes);
  ull__free(list);
  ull__free(first);
  ull__free(last);
  ull__free(accepted);
  return status;
}

/* ---- the starts ---- */

/* Evaluates a start, walks down from it, and climbs again from where that ended. */
static ull_status explore(ull__search_state *s, ull__decisions *decisions, uint32_t most) {
  if (ull__search_exhausted(s)) return ULL_OK;
  ULL__TRY(ull__search_evaluate(s, decisions));
  if (s->schedule.peak_bytes == UINT64_MAX) return ULL_OK;
  ULL__TRY(ull__search_record(s, decisions, 0));
  for (uint32_t round = 0; round < 2 && !ull__search_exhausted(s); round++)
    ULL__TRY(ull__search_ascend(s, decisions, 0));
  ULL__TRY(ull__search_descend(s, decisions, most));
  for (uint32_t round = 0; round < 3 && !ull__search_exhausted(s); round++)
    ULL__TRY(ull__search_ascend(s, decisions, 0));
  return ULL_OK;
}

static ull_status start_from(const ull__search_state *s, ull__decisions *out) {
  ULL__TRY(ull__decisions_create(s->model, out));
  uint32_t count = s->model->node_count - s->model->forward_end;
  if (s->best_bytes != UINT64_MAX) memcpy(out->order, s->best_order, count * sizeof *out->order);
  return ULL_OK;
}

static ull_status explore_segments(ull__search_state *s, uint32_t *cuts, bool keep, bool by_node) {
  ull__decisions decisions = {0};
  ULL__TRY(start_from(s, &decisions));
  if (keep)
    keep_crossing(s, cuts, &decisions);
  else
    ull__search_keep_nothing(s, &decisions);
  for (ull__node_id n = 0; n < s->model->forward_end; n++)
    decisions.segment[n] = decisions.hold[n] = by_node ? n : cuts[n];
  ull_status status = explore(s, &decisions, s->effort / 50 + 8);
  ull__decisions_free(&decisions);
  return status;
}

static ull_status explore_checkpoints(ull__search_state *s) {
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

static ull_status explore_keep_all(ull__search_state *s, bool reordered) {
  ull__decisions decisions = {0};
  if (reordered)
    ULL__TRY(start_from(s, &decisions));
  else
    ULL__TRY(ull__decisions_create(s->model, &decisions));
  ull_status status = explore(s, &decisions, s->effort / 4 + 8);
  ull__decisions_free(&decisions);
  return status;
}

static ull_status search_all(ull__search_state *s) {
  ULL__TRY(find_crossings(s));
  ull__decisions keep_all = {0};
  ULL__TRY(ull__decisions_create(s->model, &keep_all));
  ull_status status = ull__search_evaluate(s, &keep_all);
  if (status == ULL_OK) status = ull__search_record(s, &keep_all, 0);
  ull__decisions_free(&keep_all);
  if (status != ULL_OK || s->model->forward_end == s->model->node_count) return status;
  ULL__TRY(ull__search_smallest(s));
  ULL__TRY(explore_keep_all(s, false));
  ULL__TRY(explore_keep_all(s, true));
  return explore_checkpoints(s);
}

ull_status ull__search(const ull__schedule_model *model, uint32_t effort, ull__ladder *ladder) {
  ull__search_state s = {
      .model = model, .ladder = ladder, .effort = effort, .best_bytes = UINT64_MAX};
  ull_status status = search_all(&s);
  ull__schedule_free(&s.schedule);
  ull__free(s.crossing);
  ull__free(s.old_order);
  ull__free(s.best_order);
  ull__free(s.last_read);
  return status;
}
