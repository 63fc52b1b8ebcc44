/* Precedence as rows of bits, in the graph's order, which is one of those that can be. Where a node
 * may run in another form, only what both forms need counts. */
#include "plan/must.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"

static uint64_t *row_of(const ull__must *must, ull__node_id node) {
  return must->before + (size_t)node * must->words;
}

static void set_bit(uint64_t *row, ull__node_id node) {
  row[node / 64] |= UINT64_C(1) << (node % 64);
}

static bool has_bit(const uint64_t *row, ull__node_id node) {
  return row[node / 64] >> (node % 64) & 1;
}

bool ull__must_precede(const ull__must *must, ull__node_id first, ull__node_id second) {
  return has_bit(row_of(must, second), first);
}

static const ull__graph *graph_of(const ull__must *must) {
  return must->model->lowered->graph;
}

/* ---- precedence ---- */

/* Adds to the row what has run before the node in the form that `form` computes. */
static void add_inputs(const ull__must *must, ull__node_id form, uint64_t *row) {
  const ull__node *node = ull__graph_node(graph_of(must), form);
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == ULL__NONE) continue;
    ull__node_id producer = ull__graph_value(graph_of(must), node->inputs[i])->producer;
    if (producer == ULL__NONE) continue;
    const ull__node *maker = ull__graph_node(graph_of(must), producer);
    const uint64_t *other = row_of(must, producer);
    for (uint32_t w = 0; w < must->words; w++) row[w] |= other[w];
    if (!(maker->op->flags & ULL__OP_VIEW)) set_bit(row, producer);
  }
}

static ull_status find_precedence(ull__must *must) {
  const ull__schedule_model *m = must->model;
  uint64_t *other = ull__alloc(must->words, sizeof *other);
  if (!other) return ULL_ERROR_OUT_OF_MEMORY;
  for (ull__node_id n = 0; n < m->node_count; n++) {
    uint64_t *row = row_of(must, n);
    must->once[n] = !m->skipped[n] && !m->recomputable[n];
    add_inputs(must, n, row);
    if (m->alternative[n] == ULL__NONE) continue;
    memset(other, 0, must->words * sizeof *other);
    add_inputs(must, m->alternative[n], other);
    for (uint32_t w = 0; w < must->words; w++) row[w] &= other[w];
  }
  ull__free(other);
  return ULL_OK;
}

uint32_t ull__must_latest(const ull__must *must, ull__node_id node, ull__node_id *out) {
  uint32_t count = 0;
  for (ull__node_id n = must->model->node_count; n-- > 0;) {
    bool followed = !must->once[n] || !ull__must_precede(must, n, node);
    for (uint32_t i = 0; i < count && !followed; i++) followed = ull__must_precede(must, n, out[i]);
    if (!followed) out[count++] = n;
  }
  return count;
}

/* ---- what crosses ---- */

static bool form_uses(const ull__must *must, ull__node_id form, ull__value_id root) {
  const ull__node *node = ull__graph_node(graph_of(must), form);
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != ULL__NONE && must->model->root[node->inputs[i]] == root) return true;
  for (uint32_t o = 0; o < node->output_count; o++)
    if (node->outputs[o] != root && must->model->root[node->outputs[o]] == root) return true;
  return false;
}

bool ull__must_use(const ull__must *must, ull__node_id node, ull__value_id root) {
  ull__node_id alternative = must->model->alternative[node];
  return form_uses(must, node, root) &&
         (alternative == ULL__NONE || form_uses(must, alternative, root));
}

typedef struct use {
  ull__value_id root;
  ull__node_id reader;
} use;
typedef ULL__VECTOR(use) use_list;

static bool is_made_once(const ull__must *must, ull__value_id root) {
  const ull__schedule_model *m = must->model;
  if (m->resident[root] || m->root[root] != root || m->bytes[root] == 0) return false;
  if (m->producer[root] == ULL__NONE)
    return ull__graph_value(graph_of(must), root)->role == ULL__ROLE_INPUT;
  return must->once[m->producer[root]];
}

/* Uses by nodes that run once of values that are made once, a value's behind each other. */
static ull_status list_uses(const ull__must *must, use_list *uses) {
  for (ull__node_id n = 0; n < must->model->node_count; n++) {
    const ull__node *node = ull__graph_node(graph_of(must), n);
    for (uint32_t i = 0; i < node->input_count && must->once[n]; i++) {
      if (node->inputs[i] == ULL__NONE) continue;
      ull__value_id root = must->model->root[node->inputs[i]];
      if (!is_made_once(must, root) || !ull__must_use(must, n, root)) continue;
      ULL__TRY(ull__vector_push(uses, (use){root, n}));
    }
  }
  return ULL_OK;
}

static bool crosses(const ull__must *must, const use *u, ull__node_id node) {
  ull__node_id maker = must->model->producer[u->root];
  return (maker == ULL__NONE || ull__must_precede(must, maker, node)) &&
         ull__must_precede(must, node, u->reader);
}

static ull_status add_crossing(ull__must *must, ull__node_id node, const use *u) {
  for (size_t c = must->first_crossing[node]; c < must->crossing_count; c++)
    if (must->crossings[c].root == u->root) return ULL_OK;
  if (must->crossing_count == must->crossing_capacity)
    ULL__TRY(ull__vector_grow((void **)&must->crossings, &must->crossing_capacity,
                              must->crossing_count, 1, sizeof *must->crossings));
  must->crossings[must->crossing_count++] = (ull__crossing){u->root, u->reader};
  return ULL_OK;
}

static ull_status find_crossings(ull__must *must) {
  use_list uses = {0};
  ull_status status = list_uses(must, &uses);
  for (ull__node_id n = 0; n < must->model->node_count; n++) {
    must->first_crossing[n] = (uint32_t)must->crossing_count;
    for (size_t u = 0; u < uses.count && status == ULL_OK && !must->model->skipped[n]; u++)
      if (crosses(must, &uses.items[u], n)) status = add_crossing(must, n, &uses.items[u]);
  }
  must->first_crossing[must->model->node_count] = (uint32_t)must->crossing_count;
  ull__vector_free(&uses);
  return status;
}

/* ---- create, destroy ---- */

static ull_status make_room(ull__must *must) {
  size_t nodes = must->model->node_count;
  must->words = (uint32_t)((nodes + 63) / 64);
  must->before = ull__alloc(nodes * must->words, sizeof *must->before);
  must->once = ull__alloc(nodes, sizeof *must->once);
  must->first_crossing = ull__alloc(nodes + 1, sizeof *must->first_crossing);
  bool enough = must->before && must->once && must->first_crossing;
  return enough ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static ull_status fill(ull__must *must, const ull__must *from, ull__node_id first,
                       ull__node_id second) {
  ULL__TRY(make_room(must));
  if (!from) {
    ULL__TRY(find_precedence(must));
    return find_crossings(must);
  }
  size_t nodes = must->model->node_count;
  memcpy(must->before, from->before, nodes * must->words * sizeof *must->before);
  memcpy(must->once, from->once, nodes * sizeof *must->once);
  for (ull__node_id n = 0; n < nodes; n++) {
    if (n != second && !ull__must_precede(from, second, n)) continue;
    const uint64_t *added = row_of(from, first);
    for (uint32_t w = 0; w < must->words; w++) row_of(must, n)[w] |= added[w];
    set_bit(row_of(must, n), first);
  }
  return find_crossings(must);
}

static ull_status create(const ull__schedule_model *model, const ull__must *from,
                         ull__node_id first, ull__node_id second, ull__must **out) {
  ull__must *must = ull__alloc(1, sizeof *must);
  if (!must) return ULL_ERROR_OUT_OF_MEMORY;
  must->model = model;
  ull_status status = fill(must, from, first, second);
  if (status == ULL_OK)
    *out = must;
  else
    ull__must_destroy(must);
  return status;
}

ull_status ull__must_create(const ull__schedule_model *model, ull__must **out) {
  return create(model, NULL, ULL__NONE, ULL__NONE, out);
}

ull_status ull__must_create_ordered(const ull__must *must, ull__node_id first, ull__node_id second,
                                    ull__must **out) {
  return create(must->model, must, first, second, out);
}

void ull__must_destroy(ull__must *must) {
  if (!must) return;
  ull__free(must->before);
  ull__free(must->once);
  ull__free(must->first_crossing);
  ull__free(must->crossings);
  ull__free(must);
}
