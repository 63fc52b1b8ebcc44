/* The search for the bound: for every value of forward that a node needs, the least that making it
 * late or holding it can take, worked out node by node in the graph's order.
 *
 *   least(n) = max over sets A of nodes that must have run before n, of
 *                min(making it after all of A and before n;
 *                    for each a of A: max(running a while the value is held, least(a)))
 *
 * The sets tried are those a that rule most out, one more each time. Sharing in place is granted
 * wherever it is not ruled out, so that sums are never too large. */
#include "plan/bound.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/bound_internal.h"

#define MOST_AFTER 8u /* the largest of the sets above */

typedef struct prover {
  const ull__schedule_model *model;
  const ull__must *must;
  ull__node_id *latest;   /* ull__must_latest of every node, behind each other */
  uint32_t *first_latest; /* by node, and one more */
  uint64_t *least;        /* by node, for one value */
  bool *visited;
} prover;

static ull__company late_company(ull__node_id before, const ull__node_id *after, uint32_t count) {
  return (ull__company){.crossed = before, .arriving = true, .after = after, .after_count = count};
}

static uint64_t made_late(const prover *p, ull__value_id root, const ull__company *late) {
  return ull__must_live_bytes(p->must, p->model->producer[root], late, NULL);
}

static uint64_t held_over(const prover *p, ull__value_id root, ull__node_id n) {
  const ull__held held = {root, ULL__NONE};
  ull__company c = {.crossed = n, .held = &held, .held_count = 1};
  return ull__must_live_bytes(p->must, n, &c, NULL);
}

/* ---- the least for one value ---- */

typedef struct choice {
  ull__node_id after[MOST_AFTER];
  uint32_t count;
  uint64_t least;
} choice;

/* What ran before the node, that which rules most out in front. */
static uint32_t list_after(const prover *p, ull__value_id root, ull__node_id n,
                           ull__node_id after[MOST_AFTER], uint64_t ruled[MOST_AFTER]) {
  uint32_t count = 0;
  for (uint32_t i = p->first_latest[n]; i < p->first_latest[n + 1]; i++) {
    ull__node_id a = p->latest[i];
    uint64_t bytes = held_over(p, root, a);
    if (bytes < p->least[a]) bytes = p->least[a];
    uint32_t place = count < MOST_AFTER ? count++ : MOST_AFTER;
    while (place > 0 && ruled[place - 1] < bytes) {
      if (place < MOST_AFTER) {
        ruled[place] = ruled[place - 1];
        after[place] = after[place - 1];
      }
      place--;
    }
    if (place == MOST_AFTER) continue;
    ruled[place] = bytes;
    after[place] = a;
  }
  return count;
}

static choice choose(const prover *p, ull__value_id root, ull__node_id n) {
  choice best = {.count = 0};
  uint64_t ruled[MOST_AFTER];
  uint32_t count = list_after(p, root, n, best.after, ruled);
  for (uint32_t k = 0; k <= count; k++) {
    if (k > 0 && ruled[k - 1] <= best.least) break;
    ull__company late = late_company(n, best.after, k);
    uint64_t least = made_late(p, root, &late);
    if (k > 0 && ruled[k - 1] < least) least = ruled[k - 1];
    if (least <= best.least) continue;
    best.least = least;
    best.count = k;
  }
  return best;
}

static void find_least(prover *p, ull__value_id root) {
  for (ull__node_id n = 0; n < p->model->node_count; n++)
    if (p->must->once[n]) p->least[n] = choose(p, root, n).least;
}

/* Whether some node that runs once reads the value whatever form it runs in. */
static bool is_needed(const prover *p, ull__node_id n, ull__value_id root) {
  return p->must->once[n] && p->model->droppable[root] && !p->model->resident[root] &&
         ull__must_use(p->must, n, root);
}

static void consider(ull__bound *best, uint64_t bytes, ull__node_id node, ull__value_id needed) {
  if (bytes <= best->bytes) return;
  best->bytes = bytes;
  best->node = node;
  best->needed = needed;
}

static void consider_value(prover *p, ull__value_id root, ull__bound *best) {
  bool known = false;
  for (ull__node_id n = p->model->forward_end; n < p->model->node_count; n++) {
    if (!is_needed(p, n, root)) continue;
    if (!known) find_least(p, root);
    known = true;
    consider(best, p->least[n], n, root);
  }
}

/* ---- the proof ---- */

static int compare_values(const void *a, const void *b) {
  const ull__live_value *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->reason != y->reason) return x->reason < y->reason ? -1 : 1;
  return (x->root > y->root) - (x->root < y->root);
}

ull_status ull__bound_add_case(ull__bound *out, const ull__must *must, ull__node_id n,
                               ull__node_id before, const ull__company *c) {
  ull__live_values values = {0};
  ull__bound_case entry = {
      .before = before, .order = {ULL__NONE, ULL__NONE}, .holds = c->held_count > 0};
  ull__must_live_bytes(must, n, c, &entry.node);
  entry.first_value = (uint32_t)out->values.count;
  ull_status status = ull__must_live(must, entry.node, c, &values, &entry.bytes);
  entry.value_count = (uint32_t)values.count;
  if (values.count > 1) qsort(values.items, values.count, sizeof *values.items, compare_values);
  for (size_t v = 0; v < values.count && status == ULL_OK; v++)
    status = ull__vector_push(&out->values, values.items[v]);
  entry.first_after = (uint32_t)out->afters.count;
  entry.after_count = c->after_count;
  for (uint32_t i = 0; i < c->after_count && status == ULL_OK; i++)
    status = ull__vector_push(&out->afters, c->after[i]);
  ull__vector_free(&values);
  return status == ULL_OK ? ull__vector_push(&out->cases, entry) : status;
}

static ull_status prove(const prover *p, ull__node_id n, ull__bound *out) {
  if (p->visited[n]) return ULL_OK;
  p->visited[n] = true;
  choice best = choose(p, out->needed, n);
  ull__company late = late_company(n, best.after, best.count);
  ULL__TRY(ull__bound_add_case(out, p->must, p->model->producer[out->needed], n, &late));
  for (uint32_t i = 0; i < best.count; i++) {
    ull__node_id a = best.after[i];
    const ull__held needed = {out->needed, out->node};
    ull__company held = {.crossed = a, .held = &needed, .held_count = 1};
    if (held_over(p, out->needed, a) < out->bytes) {
      ULL__TRY(prove(p, a, out));
    } else if (!p->visited[a]) {
      ULL__TRY(ull__bound_add_case(out, p->must, a, ULL__NONE, &held));
      p->visited[a] = true;
    }
  }
  return ULL_OK;
}

static int compare_cases(const void *a, const void *b) {
  const ull__bound_case *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return (x->first_value > y->first_value) - (x->first_value < y->first_value);
}

static ull_status find_proof(prover *p, ull__bound *out) {
  ull__company alone = {.crossed = out->node};
  if (out->node == ULL__NONE) return ULL_OK;
  if (out->needed == ULL__NONE)
    return ull__bound_add_case(out, p->must, out->node, ULL__NONE, &alone);
  return prove(p, out->node, out);
}

/* ---- the search ---- */

static ull_status find_latest(prover *p) {
  ULL__VECTOR(ull__node_id) all = {0};
  uint32_t nodes = p->model->node_count;
  ull__node_id *own = ull__alloc(nodes, sizeof *own);
  ull_status status = own ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  for (ull__node_id n = 0; n < nodes && status == ULL_OK; n++) {
    uint32_t count = p->must->once[n] ? ull__must_latest(p->must, n, own) : 0;
    p->first_latest[n] = (uint32_t)all.count;
    for (uint32_t i = 0; i < count && status == ULL_OK; i++)
      status = ull__vector_push(&all, own[i]);
  }
  p->first_latest[nodes] = (uint32_t)all.count;
  p->latest = all.items;
  ull__free(own);
  return status;
}

/* Some node that runs once, or an output, cannot do without it. */
static bool always_runs(const prover *p, ull__node_id n) {
  const ull__graph *graph = p->model->lowered->graph;
  bool runs = p->must->once[n];
  for (ull__node_id m = n + 1; m < p->model->node_count && !runs; m++)
    runs = p->must->once[m] && ull__must_precede(p->must, n, m);
  for (uint32_t i = 0; i < ull__graph_output_count(graph) && !runs; i++) {
    ull__node_id maker = ull__graph_value(graph, ull__graph_output(graph, i)->value)->producer;
    runs = maker != ULL__NONE && (maker == n || ull__must_precede(p->must, n, maker));
  }
  return runs && !p->model->skipped[n];
}

static ull_status search(prover *p, uint64_t target_bytes, ull__bound *out) {
  uint32_t nodes = p->model->node_count;
  p->first_latest = ull__alloc(nodes + 1, sizeof *p->first_latest);
  p->least = ull__alloc(nodes, sizeof *p->least);
  p->visited = ull__alloc(nodes, sizeof *p->visited);
  if (!p->first_latest || !p->least || !p->visited) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(find_latest(p));
  for (ull__node_id n = 0; n < nodes; n++) {
    ull__company alone = {.crossed = n};
    if (always_runs(p, n))
      consider(out, ull__must_live_bytes(p->must, n, &alone, NULL), n, ULL__NONE);
  }
  for (ull__value_id v = 0; v < p->model->value_count; v++)
    if (p->model->droppable[v]) consider_value(p, v, out);
  if (out->needed != ULL__NONE) find_least(p, out->needed);
  bool proved;
  ULL__TRY(ull__bound_by_limit(p->must, target_bytes, out, &proved));
  if (!proved) ULL__TRY(find_proof(p, out));
  if (out->cases.count > 1)
    qsort(out->cases.items, out->cases.count, sizeof *out->cases.items, compare_cases);
  return ULL_OK;
}

ull_status ull__bound_find(const ull__schedule_model *model, uint64_t target_bytes,
                           ull__bound *out) {
  ull__must *must = NULL;
  *out = (ull__bound){.node = ULL__NONE, .needed = ULL__NONE};
  ULL__TRY(ull__must_create(model, &must));
  prover p = {.model = model, .must = must};
  ull_status status = search(&p, target_bytes, out);
  ull__free(p.latest);
  ull__free(p.first_latest);
  ull__free(p.least);
  ull__free(p.visited);
  ull__must_destroy(must);
  return status;
}

void ull__bound_free(ull__bound *bound) {
  ull__vector_free(&bound->cases);
  ull__vector_free(&bound->values);
  ull__vector_free(&bound->afters);
}
