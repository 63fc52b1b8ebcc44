/* What gradient rules work with. */
#ifndef ULL_GRAPH_AUTODIFF_H
#define ULL_GRAPH_AUTODIFF_H

#include "graph/graph.h"

typedef struct ull__gradients ull__gradients;

/* The graph that grows. */
ull__graph *ull__gradients_graph(ull__gradients *gradients);

/* Gradient of a node's output, or ULL__NONE when nothing depends on it. */
ull__value_id ull__gradients_of(ull__gradients *gradients, ull__value_id value);

/* Whether the gradient of this value is wanted: it is, or depends on, a parameter. False for
 * ULL__NONE. */
bool ull__gradients_wanted(ull__gradients *gradients, ull__value_id value);

/* Hands in one contribution. A second one is added to the first by an `add` node. */
ull_status ull__gradients_add(ull__gradients *gradients, ull__value_id value,
                              ull__value_id gradient);

/* The contribution so far, or ULL__NONE: for operators that can add onto it themselves (embedding).
 * Replacing it is ull__gradients_replace. */
ull__value_id ull__gradients_pending(ull__gradients *gradients, ull__value_id value);
void ull__gradients_replace(ull__gradients *gradients, ull__value_id value, ull__value_id gradient);

/* Emits one backward node named after the forward node: "NODE.suffix". */
ull_status ull__gradients_emit(ull__gradients *gradients, const ull__node *forward, const char *op,
                               const char *suffix, const ull__value_id *inputs,
                               uint32_t input_count, const ull__attribute_setting *settings,
                               uint32_t setting_count, ull__value_id *outputs);

#endif
