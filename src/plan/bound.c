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
#include "base/checked.h"
#include "base/error.h"
#include "memory/packing.h"

#define MOST_AFTER 8u /* the largest of the sets above */

typedef ULL__VECTOR(ull__bound_value) value_list;

typedef struct prover {
  const ull__schedule_model *model;
  const ull__must *must;
  ull__node_id *latest;   /* ull__must_latest of every node, behind each other */
  uint32_t *first_latest; /* by node, and one more */
  uint64_t *least;        /* by node, for one value */
  bool *visited;
} prover;

/* ---- what is live while a node runs ---- */

/* What is live beside a launch: what crosses, and one value that is held. */
typedef struct company {
  ull__node_id crossed; /* the node whose crossings these are */
  bool arriving;        /* it has not run: what it reads is live too, if made before one of these */
  const ull__node_id *after;
  uint32_t after_count;
  ull__value_id held;  /* ULL__NONE for none */
  ull__node_id holder; /* for which it is held */
} company;

static const ull__node *node_of(const prover *p, ull__node_id n) {
  return ull__graph_node(p->model->lowered->graph, n);
}

static bool reads_root(const prover *p, ull__node_id n, ull__value_id root) {
  const ull__node *node = node_of(p, n);
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != ULL__NONE && p->model->root[node->inputs[i]] == root) return true;
  return false;
}

static bool is_made_once(const prover *p, ull__value_id root) {
  if (p->model->resident[root]) return false;
  ull__node_id maker = p->model->producer[root];
  return maker == ULL__NONE || p->must->once[maker];
}

/* Of something made once: whether it is there by then. */
static bool is_made(const prover *p, const company *c, ull__value_id root) {
  ull__node_id maker = p->model->producer[root];
  bool made = !c->arriving || maker == ULL__NONE;
  for (uint32_t i = 0; i < c->after_count && !made; i++)
    made = maker == c->after[i] || ull__must_precede(p->must, maker, c->after[i]);
  return made;
}

/* Something made once that the crossed node reads itself, before it runs. */
static bool arrives(const prover *p, const company *c, ull__value_id root) {
  return c->arriving && is_made_once(p, root) && ull__must_use(p->must, c->crossed, root) &&
         is_made(p, c, root);
}

static bool crosses(const prover *p, const company *c, ull__value_id root) {
  const ull__must *must = p->must;
  for (uint32_t i = must->first_crossing[c->crossed]; i < must->first_crossing[c->crossed + 1]; i++)
    if (must->crossings[i].root == root) return is_made(p, c, root);
  return arrives(p, c, root);
}

static ull_status add_value(const prover *p, value_list *list, uint64_t *sum,
                            ull__bound_value value) {
  *sum += value.bytes;
  if (value.root != ULL__NONE) value.maker = p->model->producer[value.root];
  return list ? ull__vector_push(list, value) : ULL_OK;
}

/* Operands of the launch; outputs take the place of inputs that are free to go. */
static ull_status add_launch(const prover *p, ull__node_id n, const company *c, value_list *list,
                             uint64_t *sum) {
  const ull__schedule_model *m = p->model;
  const ull__node *node = node_of(p, n);
  const ull__lowered_node *lowered = &m->lowered->nodes[n];
  uint64_t workspace = ull__align_up(lowered->kernel.workspace_bytes, ULL__PACKING_ALIGNMENT);
  uint32_t taken = 0;
  if (workspace > 0)
    ULL__TRY(add_value(p, list, sum,
                       (ull__bound_value){ULL__NONE, ULL__LIVE_WORKSPACE, workspace, n, n}));
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == ULL__NONE) continue;
    ull__value_id root = m->root[node->inputs[i]];
    bool seen = m->resident[root];
    for (uint32_t j = 0; j < i && !seen; j++)
      seen = node->inputs[j] != ULL__NONE && m->root[node->inputs[j]] == root;
    if (seen) continue;
    ULL__TRY(add_value(p, list, sum,
                       (ull__bound_value){root, ULL__LIVE_READ, m->bytes[root], ULL__NONE, n}));
  }
  const ull__node *stands_for =
      node->alternative_of == ULL__NONE ? node : node_of(p, node->alternative_of);
  for (uint32_t o = 0; o < node->output_count; o++) {
    ull__value_id root = m->root[stands_for->outputs[o]];
    if (m->resident[root] || root != stands_for->outputs[o]) continue;
    bool shares = false;
    for (uint32_t i = 0; i < node->input_count && !shares; i++) {
      bool allowed = (lowered->may_overwrite[o] >> i & 1) && !(taken >> i & 1);
      if (!allowed || node->inputs[i] == ULL__NONE) continue;
      ull__value_id input = m->root[node->inputs[i]];
      shares = !m->resident[input] && m->bytes[input] == m->bytes[root] && input != c->held &&
               !crosses(p, c, input);
      if (shares) taken |= 1u << i;
    }
    if (!shares)
      ULL__TRY(add_value(p, list, sum,
                         (ull__bound_value){root, ULL__LIVE_WRITTEN, m->bytes[root], n, n}));
  }
  return ULL_OK;
}

static ull_status add_crossing(const prover *p, ull__value_id root, ull__node_id reader,
                               value_list *list, uint64_t *sum) {
  uint64_t bytes = p->model->bytes[root];
  return add_value(p, list, sum,
                   (ull__bound_value){root, ULL__LIVE_CROSSING, bytes, ULL__NONE, reader});
}

/* Index of the input that is the first with this storage. */
static uint32_t first_with(const prover *p, const ull__node *node, ull__value_id root) {
  uint32_t i = 0;
  while (node->inputs[i] == ULL__NONE || p->model->root[node->inputs[i]] != root) i++;
  return i;
}

static ull_status add_company(const prover *p, ull__node_id n, const company *c, value_list *list,
                              uint64_t *sum) {
  const ull__must *must = p->must;
  uint32_t from = must->first_crossing[c->crossed], to = must->first_crossing[c->crossed + 1];
  for (uint32_t i = from; i < to; i++) {
    ull__value_id root = must->crossings[i].root;
    if (!reads_root(p, n, root) && is_made(p, c, root))
      ULL__TRY(add_crossing(p, root, must->crossings[i].reader, list, sum));
  }
  const ull__node *crossed = node_of(p, c->crossed);
  for (uint32_t i = 0; i < crossed->input_count && c->arriving; i++) {
    if (crossed->inputs[i] == ULL__NONE) continue;
    ull__value_id root = p->model->root[crossed->inputs[i]];
    bool seen = first_with(p, crossed, root) < i || reads_root(p, n, root);
    for (uint32_t k = from; k < to && !seen; k++) seen = must->crossings[k].root == root;
    if (!seen && arrives(p, c, root)) ULL__TRY(add_crossing(p, root, c->crossed, list, sum));
  }
  if (c->held == ULL__NONE || reads_root(p, n, c->held)) return ULL_OK;
  uint64_t bytes = p->model->bytes[c->held];
  return add_value(p, list, sum,
                   (ull__bound_value){c->held, ULL__LIVE_HELD, bytes, ULL__NONE, c->holder});
}

static ull_status add_live(const prover *p, ull__node_id n, const company *c, value_list *list,
                           uint64_t *sum) {
  *sum = 0;
  ULL__TRY(add_launch(p, n, c, list, sum));
  return add_company(p, n, c, list, sum);
}

/* Bytes live while the node runs, in the form that takes less; `form` gets which. */
static uint64_t live_bytes(const prover *p, ull__node_id n, const company *c, ull__node_id *form) {
  uint64_t bytes = 0, other = 0;
  ull__node_id alternative = p->model->alternative[n];
  add_live(p, n, c, NULL, &bytes);
  if (form) *form = n;
  if (alternative == ULL__NONE) return bytes;
  add_live(p, alternative, c, NULL, &other);
  if (other >= bytes) return bytes;
  if (form) *form = alternative;
  return other;
}

static company late_company(ull__node_id before, const ull__node_id *after, uint32_t count) {
  return (company){
      .crossed = before, .arriving = true, .after = after, .after_count = count, .held = ULL__NONE};
}

static uint64_t made_late(const prover *p, ull__value_id root, const company *late) {
  return live_bytes(p, p->model->producer[root], late, NULL);
}

static uint64_t held_over(const prover *p, ull__value_id root, ull__node_id n) {
  company c = {.crossed = n, .held = root};
  return live_bytes(p, n, &c, NULL);
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
    company late = late_company(n, best.after, k);
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
  const ull__bound_value *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->reason != y->reason) return x->reason < y->reason ? -1 : 1;
  return (x->root > y->root) - (x->root < y->root);
}

static ull_status add_case(const prover *p, ull__node_id n, ull__node_id before, const company *c,
                           ull__bound *out) {
  value_list values = {0};
  ull__bound_case entry = {.before = before, .holds = c->held != ULL__NONE};
  live_bytes(p, n, c, &entry.node);
  entry.first_value = (uint32_t)out->values.count;
  ull_status status = add_live(p, entry.node, c, &values, &entry.bytes);
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
  company late = late_company(n, best.after, best.count);
  ULL__TRY(add_case(p, p->model->producer[out->needed], n, &late, out));
  for (uint32_t i = 0; i < best.count; i++) {
    ull__node_id a = best.after[i];
    company held = {.crossed = a, .held = out->needed, .holder = out->node};
    if (held_over(p, out->needed, a) < out->bytes) {
      ULL__TRY(prove(p, a, out));
    } else if (!p->visited[a]) {
      ULL__TRY(add_case(p, a, ULL__NONE, &held, out));
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
  company alone = {.crossed = out->node, .held = ULL__NONE};
  if (out->node == ULL__NONE) return ULL_OK;
  if (out->needed == ULL__NONE) return add_case(p, out->node, ULL__NONE, &alone, out);
  ULL__TRY(prove(p, out->node, out));
  qsort(out->cases.items, out->cases.count, sizeof *out->cases.items, compare_cases);
  return ULL_OK;
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

static ull_status search(prover *p, ull__bound *out) {
  uint32_t nodes = p->model->node_count;
  p->first_latest = ull__alloc(nodes + 1, sizeof *p->first_latest);
  p->least = ull__alloc(nodes, sizeof *p->least);
  p->visited = ull__alloc(nodes, sizeof *p->visited);
  if (!p->first_latest || !p->least || !p->visited) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(find_latest(p));
  for (ull__node_id n = 0; n < nodes; n++) {
    company alone = {.crossed = n, .held = ULL__NONE};
    if (always_runs(p, n)) consider(out, live_bytes(p, n, &alone, NULL), n, ULL__NONE);
  }
  for (ull__value_id v = 0; v < p->model->value_count; v++)
    if (p->model->droppable[v]) consider_value(p, v, out);
  if (out->needed != ULL__NONE) find_least(p, out->needed);
  return find_proof(p, out);
}

ull_status ull__bound_find(const ull__schedule_model *model, ull__bound *out) {
  ull__must *must = NULL;
  *out = (ull__bound){.node = ULL__NONE, .needed = ULL__NONE};
  ULL__TRY(ull__must_create(model, &must));
  prover p = {.model = model, .must = must};
  ull_status status = search(&p, out);
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
