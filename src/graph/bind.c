/* Binding: every shape rule runs again on numbers, and must give what the symbol promised. */
#include "graph/copy.h"
#include "graph/graph_internal.h"

static ull_status bind_into(ull__copy *copy) {
  ULL__TRY(ull__copy_sources(copy));
  for (ull__node_id n = 0; n < ull__graph_node_count(copy->from); n++) {
    ULL__TRY(ull__copy_node(copy, n));
  }
  return ull__copy_outputs(copy);
}

ull_status ull__graph_bind(const ull__graph *graph, int64_t batch, ull__graph **out) {
  *out = NULL;
  if (batch <= 0) {
    return ULL__FAIL(ULL_ERROR_INVALID, "a batch of %lld samples", (long long)batch);
  }
  if (graph->batch != 0) {
    return ULL__FAIL(ULL_ERROR_INVALID, "graph %s is bound to a batch of %lld already", graph->name,
                     (long long)graph->batch);
  }
  ull__copy copy;
  ULL__TRY(ull__copy_begin(&copy, graph));
  copy.bind_batch = batch;
  copy.to->batch = batch;
  const ull_status status = bind_into(&copy);
  return ull__copy_end(&copy, status, out);
}
