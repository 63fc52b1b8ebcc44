/* Folding: values known now become constants, views of views become one, and nodes that nobody
 * reads go. Which nodes stay is decided backwards first, then the graph is copied forwards. */
#include <string.h>

#include "base/alloc.h"
#include "graph/copy.h"
#include "graph/ops/ops.h"

static bool is_reshape(const ull__node *node) {
  return strcmp(node->op->name, "reshape") == 0;
}

/* State is changed, or a gradient of a parameter is made. */
static bool must_stay(const ull__graph *graph, const ull__node *node) {
  if (node->op->flags & ULL__OP_ONCE) return true;
  for (uint32_t o = 0; o < node->output_count; o++) {
    if (graph->values.items[node->outputs[o]]->role == ULL__ROLE_GRADIENT) return true;
  }
  return false;
}

static bool has_reader(const ull__node *node, const bool *read) {
  for (uint32_t o = 0; o < node->output_count; o++) {
    if (read[node->outputs[o]]) return true;
  }
  return false;
}

/* An alternative stays where its primary does; it stands after it, so this takes its own look. */
static void mark_read(const ull__graph *graph, bool *read, bool *stays) {
  for (size_t i = 0; i < graph->outputs.count; i++) read[graph->outputs.items[i].value] = true;
  for (ull__node_id n = (ull__node_id)graph->nodes.count; n-- > 0;) {
    const ull__node *node = graph->nodes.items[n];
    const bool alternative = node->alternative_of != ULL__NONE;
    stays[n] = must_stay(graph, node) || has_reader(node, read) || alternative;
    for (uint32_t i = 0; stays[n] && !alternative && i < node->input_count; i++) {
      if (node->inputs[i] != ULL__NONE) read[node->inputs[i]] = true;
    }
  }
  for (ull__node_id n = (ull__node_id)graph->nodes.count; n-- > 0;) {
    const ull__node *node = graph->nodes.items[n];
    if (node->alternative_of == ULL__NONE) {
      stays[n] = stays[n] || has_reader(node, read);
    } else {
      stays[n] = stays[node->alternative_of];
    }
    for (uint32_t i = 0; stays[n] && i < node->input_count; i++) {
      if (node->inputs[i] != ULL__NONE) read[node->inputs[i]] = true;
    }
  }
}

/* ---- constants ---- */

/* Gathers the inputs' bytes; false where one is not known. */
static bool known_inputs(const ull__copy *copy, const ull__node *node, const void **inputs) {
  if (!node->op->fold || node->input_count == 0 || node->output_count != 1) return false;
  for (uint32_t i = 0; i < node->input_count; i++) {
    const ull__value_id input =
        node->inputs[i] == ULL__NONE ? ULL__NONE : copy->values[node->inputs[i]];
    if (input == ULL__NONE || !copy->to->values.items[input]->constant) return false;
    inputs[i] = copy->to->values.items[input]->constant;
  }
  return true;
}

static ull_status add_result(ull__copy *copy, const ull__node *node, const void *const *inputs) {
  const ull__value *result = copy->from->values.items[node->outputs[0]];
  uint64_t bytes = 0;
  ULL__TRY(ull__shape_bytes(&result->shape, result->dtype, &bytes));
  void *memory = ull__alloc(bytes, 1);
  if (!memory) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = node->op->fold(copy->from, node, inputs, &memory);
  if (status == ULL_OK) status = ull__graph_set_origin(copy->to, result->module, result->source);
  if (status == ULL_OK) {
    status = ull__graph_add_constant(copy->to, result->name, result->dtype, &result->shape, memory,
                                     &copy->values[node->outputs[0]]);
  }
  ull__free(memory);
  return status;
}

/* ---- views ---- */

static bool is_output(const ull__graph *graph, ull__value_id value) {
  for (size_t i = 0; i < graph->outputs.count; i++) {
    if (graph->outputs.items[i].value == value) return true;
  }
  return false;
}

/* A view with the shape of its origin is the origin. Gradients keep a value of their own. */
static bool is_identity(const ull__copy *copy, const ull__node *node, ull__value_id origin) {
  const ull__value *value = copy->from->values.items[node->outputs[0]];
  const ull__value *source = copy->to->values.items[origin];
  return ull__shape_equal(&value->shape, &source->shape) && value->role == ULL__ROLE_ACTIVATION &&
         !is_output(copy->from, node->outputs[0]);
}

static ull_status copy_reshape(ull__copy *copy, ull__node_id id) {
  const ull__node *node = copy->from->nodes.items[id];
  const ull__value_id before = copy->values[node->inputs[0]];
  const ull__value_id origin = ull__graph_view_origin(copy->to, before);
  if (is_identity(copy, node, origin)) {
    copy->values[node->outputs[0]] = origin;
    return ULL_OK;
  }
  copy->values[node->inputs[0]] = origin;
  const ull_status status = ull__copy_node(copy, id);
  copy->values[node->inputs[0]] = before;
  return status;
}

/* ---- the whole ---- */

static ull_status fold_nodes(ull__copy *copy, const bool *stays) {
  for (ull__node_id n = 0; n < copy->from->nodes.count; n++) {
    const ull__node *node = copy->from->nodes.items[n];
    const void *inputs[ULL__MAX_INPUTS];
    if (!stays[n]) continue;
    if (known_inputs(copy, node, inputs) &&
        copy->from->values.items[node->outputs[0]]->role == ULL__ROLE_ACTIVATION) {
      ULL__TRY(add_result(copy, node, inputs));
    } else if (is_reshape(node)) {
      ULL__TRY(copy_reshape(copy, n));
    } else {
      ULL__TRY(ull__copy_node(copy, n));
    }
  }
  return ULL_OK;
}

static ull_status fold_once(ull__copy *copy, const bool *read, const bool *stays) {
  for (ull__value_id v = 0; v < copy->from->values.count; v++) {
    const ull__value *value = copy->from->values.items[v];
    if (value->producer != ULL__NONE) continue;
    if (value->role == ULL__ROLE_CONSTANT && !read[v]) continue;
    ULL__TRY(ull__copy_source(copy, v));
  }
  ULL__TRY(fold_nodes(copy, stays));
  return ull__copy_outputs(copy);
}

static ull_status fold_graph(const ull__graph *graph, ull__graph **out) {
  bool *read = ull__alloc(graph->values.count, sizeof *read);
  bool *stays = ull__alloc(graph->nodes.count, sizeof *stays);
  ull__copy copy;
  ull_status status = read && stays ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK) status = ull__copy_begin(&copy, graph);
  if (status == ULL_OK) {
    mark_read(graph, read, stays);
    status = fold_once(&copy, read, stays);
    status = ull__copy_end(&copy, status, out);
  }
  ull__free(read);
  ull__free(stays);
  return status;
}

/* Twice: the first round leaves behind the constants and views that it took the readers from. */
ull_status ull__graph_fold(const ull__graph *graph, ull__graph **out) {
  ull__graph *folded = NULL;
  *out = NULL;
  ULL__TRY(fold_graph(graph, &folded));
  const ull_status status = fold_graph(folded, out);
  ull__graph_destroy(folded);
  return status;
}
