/* The inside of a graph, for the stages in this folder. */
#ifndef ULL_GRAPH_GRAPH_INTERNAL_H
#define ULL_GRAPH_GRAPH_INTERNAL_H

#include "base/hash_map.h"
#include "base/vector.h"
#include "graph/graph.h"

typedef struct ull__graph_chunk ull__graph_chunk;

/* Values and nodes are held by pointer, so that a `const ull__node *` stays valid while the graph
 * grows. */
struct ull__graph {
  ull__graph_chunk *chunks; /* what everything below but the four vectors and indices lies in */
  const char *name;
  ULL__VECTOR(ull__value *) values;
  ULL__VECTOR(ull__node *) nodes;
  ULL__VECTOR(ull__output) outputs;
  ull__text_map value_names, node_names;
  const char *module, *source; /* of what is added next */
  ull__phase phase;
  int64_t batch;
};

/* Zeroed memory that lives as long as the graph; NULL with a record. */
void *ull__graph_memory(ull__graph *graph, size_t count, size_t size);
const char *ull__graph_string(ull__graph *graph, const char *text);

/* Adds a node made of `prototype` (op, name, module, source, phase, identity (0 = made of the
 * name), inputs, attributes, steps, alternative_of); its outputs fields are ignored. `output_names`
 * NULL = made of the node's name. */
ull_status ull__graph_append(ull__graph *graph, const ull__node *prototype,
                             const char *const *output_names, ull__value_id *outputs);

/* `name` must be unused. */
ull_status ull__graph_rename_value(ull__graph *graph, ull__value_id value, const char *name);

/* The value whose bytes this one shows: itself, or input 0 of the views that lead to it. */
ull__value_id ull__graph_view_origin(const ull__graph *graph, ull__value_id value);

/* An error about a node: "ROW `NAME`: reason; inputs [shapes]". */
ull_status ull__node_invalid(const ull__graph *graph, const ull__node *node, const char *format,
                             ...) __attribute__((format(printf, 3, 4)));

#endif
