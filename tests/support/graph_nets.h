/* Small networks for tests of graph stages: one of each kind that the core must handle. Each is
 * built with a free batch and has outputs `loss` and, where it classifies, `correct`. NULL after a
 * failure, whose record says why. */
#ifndef ULL_TESTS_SUPPORT_GRAPH_NETS_H
#define ULL_TESTS_SUPPORT_GRAPH_NETS_H

#include "graph/graph.h"

/* x[B, 6] -> fc1 (8) -> relu -> fc2 (4) -> cross_entropy */
ull__graph *net_mlp(ull_dtype dtype);

/* conv 3->8 -> bn -> relu, then a basic residual block with a 1x1 downsample branch of its own
 * batch normalisation, global average, fc (5) -> cross_entropy */
ull__graph *net_residual(ull_dtype dtype);

/* tokens[B, 6] -> wte (12 x 8), wpe -> dropout -> attention block (2 heads, gelu, layer norms)
 * -> linear_cross_entropy with wte tied */
ull__graph *net_transformer(ull_dtype dtype);

/* Building blocks. `dims` are of the value; `batched` puts B in front. */
ull__value_id net_source(ull__graph *graph, ull__role role, const char *name, ull_dtype dtype,
                         bool batched, uint32_t rank, const int64_t *dims);
#define NET_DIMS(...)                                                           \
  (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { \
    __VA_ARGS__                                                                 \
  }

/* The node's first output; ULL__NONE after a failure, which later calls with it repeat. */
ull__value_id net_node(ull__graph *graph, const char *op, const char *name,
                       const ull__value_id *inputs, uint32_t input_count,
                       const ull__attribute_setting *settings, uint32_t setting_count);
#define NET_INPUTS(...)                 \
  (const ull__value_id[]){__VA_ARGS__}, \
      (uint32_t)(sizeof((ull__value_id[]){__VA_ARGS__}) / sizeof(ull__value_id))
#define NET_SETTINGS(...)                        \
  (const ull__attribute_setting[]){__VA_ARGS__}, \
      (uint32_t)(sizeof((ull__attribute_setting[]){__VA_ARGS__}) / sizeof(ull__attribute_setting))

/* The node of this name; NULL where the graph has none. */
const ull__node *net_find_node(const ull__graph *graph, const char *name);

/* How many nodes of this operator the graph has. */
uint32_t net_count_op(const ull__graph *graph, const char *op);

#endif
