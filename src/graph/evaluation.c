/* The evaluation graph: batch statistics become the running ones, dropout its input, and updates of
 * state go. What nothing reads any more is dropped with them. */
#include <string.h>

#include "base/alloc.h"
#include "graph/copy.h"
#include "graph/graph_internal.h"

static bool is_op(const ull__node *node, const char *name) {
  return strcmp(node->op->name, name) == 0;
}

/* The update that keeps the running version of these statistics; ULL__NONE where none does: then
 * the batch's own are used in evaluation too, as PyTorch does. */
static ull__node_id find_update(const ull__graph *graph, const ull__node *statistics) {
  for (ull__node_id n = 0; n < graph->nodes.count; n++) {
    const ull__node *node = graph->nodes.items[n];
    if (is_op(node, "batch_norm_update") && node->inputs[2] == statistics->outputs[0]) return n;
  }
  return ULL__NONE;
}

static ull_status use_running_statistics(ull__copy *copy, const ull__node *statistics,
                                         const ull__node *update) {
  const ull__value_id variance = copy->values[update->inputs[1]];
  ull__node invstd = {.op = ull__operator_find("batch_norm_invstd"),
                      .name = statistics->name,
                      .module = statistics->module,
                      .source = statistics->source,
                      .phase = statistics->phase,
                      .inputs = &variance,
                      .input_count = 1,
                      .alternative_of = ULL__NONE};
  invstd.attributes[0].f = ull__node_real(statistics, "eps");
  copy->values[statistics->outputs[0]] = copy->values[update->inputs[0]];
  copy->values[statistics->outputs[2]] = variance;
  return ull__copy_add(copy, &invstd, &copy->values[statistics->outputs[1]]);
}

static ull_status derive_node(ull__copy *copy, ull__node_id id) {
  const ull__node *node = copy->from->nodes.items[id];
  if (node->op->flags & ULL__OP_ONCE) return ULL_OK;
  if (is_op(node, "dropout")) {
    copy->values[node->outputs[0]] = copy->values[node->inputs[0]];
    return ULL_OK;
  }
  if (is_op(node, "batch_norm_statistics")) {
    const ull__node_id update = find_update(copy->from, node);
    if (update != ULL__NONE) {
      return use_running_statistics(copy, node, copy->from->nodes.items[update]);
    }
  }
  return ull__copy_node(copy, id);
}

/* Inputs that only the dropped nodes read (the random numbers' key) are not asked for. */
static ull_status copy_needed_sources(ull__copy *copy) {
  const ull__graph *graph = copy->from;
  bool *dropped = ull__alloc(graph->values.count, sizeof *dropped);
  if (!dropped) return ULL_ERROR_OUT_OF_MEMORY;
  for (int kept = 0; kept < 2; kept++) {
    for (size_t n = 0; n < graph->nodes.count; n++) {
      const ull__node *node = graph->nodes.items[n];
      for (uint32_t i = 0; i < node->input_count; i++) {
        const bool goes = is_op(node, "dropout") && i == 1;
        if (node->inputs[i] != ULL__NONE && goes == (kept == 0)) dropped[node->inputs[i]] = goes;
      }
    }
  }
  ull_status status = ULL_OK;
  for (ull__value_id v = 0; status == ULL_OK && v < graph->values.count; v++) {
    const ull__value *value = graph->values.items[v];
    if (value->producer != ULL__NONE) continue;
    if (dropped[v] && value->role == ULL__ROLE_INPUT) continue;
    status = ull__copy_source(copy, v);
  }
  ull__free(dropped);
  return status;
}

static ull_status derive(ull__copy *copy) {
  for (ull__node_id n = 0; n < copy->from->nodes.count; n++) {
    if (copy->from->nodes.items[n]->phase != ULL__PHASE_FORWARD) {
      return ULL__FAIL(ULL_ERROR_INVALID, "graph %s is no forward graph: %s", copy->from->name,
                       copy->from->nodes.items[n]->name);
    }
  }
  ULL__TRY(copy_needed_sources(copy));
  for (ull__node_id n = 0; n < copy->from->nodes.count; n++) ULL__TRY(derive_node(copy, n));
  return ull__copy_outputs(copy);
}

ull_status ull__graph_derive_evaluation(const ull__graph *graph, ull__graph **out) {
  *out = NULL;
  ull__copy copy;
  ULL__TRY(ull__copy_begin(&copy, graph));
  const ull_status status = derive(&copy);
  return ull__copy_end(&copy, status, out);
}
