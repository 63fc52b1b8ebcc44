/* Sums of what must be live. Sharing in place is granted wherever it is not ruled out, so that no
 * sum is too large. */
#include "plan/must_live.h"

#include "base/checked.h"
#include "base/error.h"
#include "memory/packing.h"

static const ull__node *node_of(const ull__must *must, ull__node_id n) {
  return ull__graph_node(must->model->lowered->graph, n);
}

static bool reads_root(const ull__must *must, ull__node_id n, ull__value_id root) {
  const ull__node *node = node_of(must, n);
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != ULL__NONE && must->model->root[node->inputs[i]] == root) return true;
  return false;
}

static bool is_made_once(const ull__must *must, ull__value_id root) {
  if (must->model->resident[root]) return false;
  ull__node_id maker = must->model->producer[root];
  return maker == ULL__NONE || must->once[maker];
}

/* Of something made once: whether it is there by then. */
static bool is_made(const ull__must *must, const ull__company *c, ull__value_id root) {
  ull__node_id maker = must->model->producer[root];
  bool made = !c->arriving || maker == ULL__NONE;
  for (uint32_t i = 0; i < c->after_count && !made; i++)
    made = maker == c->after[i] || ull__must_precede(must, maker, c->after[i]);
  return made;
}

/* Something made once that the crossed node reads itself, before it runs. */
static bool arrives(const ull__must *must, const ull__company *c, ull__value_id root) {
  return c->arriving && is_made_once(must, root) && ull__must_use(must, c->crossed, root) &&
         is_made(must, c, root);
}

static bool is_held(const ull__company *c, ull__value_id root) {
  bool held = false;
  for (uint32_t i = 0; i < c->held_count && !held; i++) held = c->held[i].root == root;
  return held;
}

static bool crosses(const ull__must *must, const ull__company *c, ull__value_id root) {
  for (uint32_t i = must->first_crossing[c->crossed]; i < must->first_crossing[c->crossed + 1]; i++)
    if (must->crossings[i].root == root) return is_made(must, c, root);
  return arrives(must, c, root);
}

static ull_status add_value(const ull__must *must, ull__live_values *list, uint64_t *sum,
                            ull__live_value value) {
  *sum += value.bytes;
  if (value.root != ULL__NONE) value.maker = must->model->producer[value.root];
  return list ? ull__vector_push(list, value) : ULL_OK;
}

/* Operands of the launch; outputs take the place of inputs that are free to go. */
static ull_status add_launch(const ull__must *must, ull__node_id n, const ull__company *c,
                             ull__live_values *list, uint64_t *sum) {
  const ull__schedule_model *m = must->model;
  const ull__node *node = node_of(must, n);
  const ull__lowered_node *lowered = &m->lowered->nodes[n];
  uint64_t workspace = ull__align_up(lowered->kernel.workspace_bytes, ULL__PACKING_ALIGNMENT);
  uint32_t taken = 0;
  if (workspace > 0)
    ULL__TRY(add_value(must, list, sum,
                       (ull__live_value){ULL__NONE, ULL__LIVE_WORKSPACE, workspace, n, n}));
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == ULL__NONE) continue;
    ull__value_id root = m->root[node->inputs[i]];
    bool seen = m->resident[root];
    for (uint32_t j = 0; j < i && !seen; j++)
      seen = node->inputs[j] != ULL__NONE && m->root[node->inputs[j]] == root;
    if (seen) continue;
    ULL__TRY(add_value(must, list, sum,
                       (ull__live_value){root, ULL__LIVE_READ, m->bytes[root], ULL__NONE, n}));
  }
  const ull__node *stands_for =
      node->alternative_of == ULL__NONE ? node : node_of(must, node->alternative_of);
  for (uint32_t o = 0; o < node->output_count; o++) {
    ull__value_id root = m->root[stands_for->outputs[o]];
    if (m->resident[root] || root != stands_for->outputs[o]) continue;
    bool shares = false;
    for (uint32_t i = 0; i < node->input_count && !shares; i++) {
      bool allowed = (lowered->may_overwrite[o] >> i & 1) && !(taken >> i & 1);
      if (!allowed || node->inputs[i] == ULL__NONE) continue;
      ull__value_id input = m->root[node->inputs[i]];
      shares = !m->resident[input] && m->bytes[input] == m->bytes[root] && !is_held(c, input) &&
               !crosses(must, c, input);
      if (shares) taken |= 1u << i;
    }
    if (!shares)
      ULL__TRY(add_value(must, list, sum,
                         (ull__live_value){root, ULL__LIVE_WRITTEN, m->bytes[root], n, n}));
  }
  return ULL_OK;
}

static ull_status add_crossing(const ull__must *must, ull__value_id root, ull__node_id reader,
                               ull__live_values *list, uint64_t *sum) {
  uint64_t bytes = must->model->bytes[root];
  return add_value(must, list, sum,
                   (ull__live_value){root, ULL__LIVE_CROSSING, bytes, ULL__NONE, reader});
}

/* Index of the input that is the first with this storage. */
static uint32_t first_with(const ull__must *must, const ull__node *node, ull__value_id root) {
  uint32_t i = 0;
  while (node->inputs[i] == ULL__NONE || must->model->root[node->inputs[i]] != root) i++;
  return i;
}

static ull_status add_company(const ull__must *must, ull__node_id n, const ull__company *c,
                              ull__live_values *list, uint64_t *sum) {
  uint32_t from = must->first_crossing[c->crossed], to = must->first_crossing[c->crossed + 1];
  for (uint32_t i = from; i < to; i++) {
    ull__value_id root = must->crossings[i].root;
    if (!reads_root(must, n, root) && is_made(must, c, root))
      ULL__TRY(add_crossing(must, root, must->crossings[i].reader, list, sum));
  }
  const ull__node *crossed = node_of(must, c->crossed);
  for (uint32_t i = 0; i < crossed->input_count && c->arriving; i++) {
    if (crossed->inputs[i] == ULL__NONE) continue;
    ull__value_id root = must->model->root[crossed->inputs[i]];
    bool seen = first_with(must, crossed, root) < i || reads_root(must, n, root);
    for (uint32_t k = from; k < to && !seen; k++) seen = must->crossings[k].root == root;
    if (!seen && arrives(must, c, root)) ULL__TRY(add_crossing(must, root, c->crossed, list, sum));
  }
  for (uint32_t i = 0; i < c->held_count; i++) {
    ull__value_id root = c->held[i].root;
    if (reads_root(must, n, root)) continue;
    uint64_t bytes = must->model->bytes[root];
    ULL__TRY(
        add_value(must, list, sum,
                  (ull__live_value){root, ULL__LIVE_HELD, bytes, ULL__NONE, c->held[i].holder}));
  }
  return ULL_OK;
}

ull_status ull__must_live(const ull__must *must, ull__node_id n, const ull__company *c,
                          ull__live_values *list, uint64_t *sum) {
  *sum = 0;
  ULL__TRY(add_launch(must, n, c, list, sum));
  return add_company(must, n, c, list, sum);
}

uint64_t ull__must_live_bytes(const ull__must *must, ull__node_id n, const ull__company *c,
                              ull__node_id *form) {
  uint64_t bytes = 0, other = 0;
  ull__node_id alternative = must->model->alternative[n];
  ull__must_live(must, n, c, NULL, &bytes);
  if (form) *form = n;
  if (alternative == ULL__NONE) return bytes;
  ull__must_live(must, alternative, c, NULL, &other);
  if (other >= bytes) return bytes;
  if (form) *form = alternative;
  return other;
}
