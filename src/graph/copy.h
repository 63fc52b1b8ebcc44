/* Building a graph out of another one: what every stage, and lowering, is written with.
 *
 *     ull__copy copy;
 *     ULL__TRY(ull__copy_begin(&copy, graph));
 *     ULL__TRY_GOTO(status, ull__copy_sources(&copy), fail);
 *     for each node in the wanted order: ull__copy_node(&copy, id), or nodes of one's own through
 *       ull__copy_add and copy.values[old] = new;
 *     ULL__TRY_GOTO(status, ull__copy_outputs(&copy), fail);
 *   fail:
 *     return ull__copy_end(&copy, status, out);
 *
 * Copies keep names, roles, identities, phases, origins and steps; shapes are derived again. */
#ifndef ULL_GRAPH_COPY_H
#define ULL_GRAPH_COPY_H

#include "graph/graph.h"

typedef struct ull__copy {
  const ull__graph *from;
  ull__graph *to;
  ull__value_id *values; /* of `from` to `to`; ULL__NONE where not copied yet */
  ull__node_id *nodes;
  int64_t bind_batch; /* puts this number in the place of the symbol; 0 = leaves it free */
} ull__copy;

ull_status ull__copy_begin(ull__copy *copy, const ull__graph *from);

/* Sources with everything they hold, in the order of their ids. */
ull_status ull__copy_source(ull__copy *copy, ull__value_id source);
ull_status ull__copy_sources(ull__copy *copy);

/* The node on the copies of its inputs. */
ull_status ull__copy_node(ull__copy *copy, ull__node_id node);

/* `prototype`, whose inputs are ids of `to`, in the place of an old node: its outputs take the
 * names and roles of that node's. */
ull_status ull__copy_replace(ull__copy *copy, ull__node_id node, const ull__node *prototype);

/* A node made from `prototype` (op, name, module, source, phase, identity (0 = of the name),
 * attributes, steps), whose inputs are ids of `to`. Outputs are named after the node. */
ull_status ull__copy_add(ull__copy *copy, const ull__node *prototype, ull__value_id *outputs);

/* Outputs whose value has been copied. */
ull_status ull__copy_outputs(ull__copy *copy);

/* Frees the maps. Hands the new graph over when status is ULL_OK, else destroys it. Returns
 * `status`. */
ull_status ull__copy_end(ull__copy *copy, ull_status status, ull__graph **out);

#endif
