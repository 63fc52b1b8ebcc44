/* Whether samples stay apart, so that a batch may be run as several micro-batches.
 *
 * The batch must be the major axis of every value that grows with it; then every operator that is
 * per sample treats a part of the batch as it treats the whole. */
#include "graph/graph_internal.h"

static ull_status mixes(const ull__node *node) {
  const char *where = node->module[0] ? node->module : node->name;
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: %s mixes the samples of a batch", where, node->op->name);
  ull__error_holder("%s", where);
  return ull__error_change("--micro-batch off");
}

static bool grows(const ull__graph *graph, ull__value_id value) {
  return value != ULL__NONE && !ull__shape_is_bound(&graph->values.items[value]->shape);
}

static bool grows_behind_the_first_axis(const ull__graph *graph, ull__value_id value) {
  const ull__shape *shape = &graph->values.items[value]->shape;
  for (uint32_t i = 1; i < shape->rank; i++) {
    if (shape->dims[i].batch != 0) return true;
  }
  return false;
}

/* A forward node that is per sample must have samples to give for those it takes. */
static bool loses_samples(const ull__graph *graph, const ull__node *node) {
  if (node->phase != ULL__PHASE_FORWARD || node->op->batch_rule != ULL__BATCH_PER_SAMPLE) {
    return false;
  }
  bool takes = false;
  for (uint32_t i = 0; i < node->input_count; i++) takes |= grows(graph, node->inputs[i]);
  return takes && !grows(graph, node->outputs[0]);
}

static bool node_mixes(const ull__graph *graph, const ull__node *node) {
  if (node->op->batch_rule == ULL__BATCH_MIXED || loses_samples(graph, node)) return true;
  for (uint32_t o = 0; o < node->output_count; o++) {
    if (grows_behind_the_first_axis(graph, node->outputs[o])) return true;
  }
  return false;
}

ull_status ull__graph_check_splittable(const ull__graph *graph) {
  for (size_t n = 0; n < graph->nodes.count; n++) {
    if (node_mixes(graph, graph->nodes.items[n])) return mixes(graph->nodes.items[n]);
  }
  return ULL_OK;
}
