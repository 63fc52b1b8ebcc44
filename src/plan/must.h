/* What every schedule of a lowered graph has in common, whatever it keeps or computes again and in
 * whichever order it runs.
 *
 * Backward, the optimizer and nodes that change state run once; other nodes of forward run as often
 * as a schedule likes; inputs are copied before anything runs. From the graph alone follows which
 * nodes have run before another one can, and so which values, of those that are made only once,
 * cross it: they were made before, and a node reads them that cannot have run yet. */
#ifndef ULL_PLAN_MUST_H
#define ULL_PLAN_MUST_H

#include "plan/schedule.h"

/* A value that is made once, and a node that reads or updates it and runs once. */
typedef struct ull__crossing {
  ull__value_id root;
  ull__node_id reader;
} ull__crossing;

typedef struct ull__must {
  const ull__schedule_model *model;
  uint32_t words;   /* 64 nodes each, in a row */
  uint64_t *before; /* by node: a row of bits, the nodes that have run before it */
  bool *once;       /* by node: runs exactly once */
  /* By node: what crosses it, crossings[first_crossing[n]] up to first_crossing[n + 1]; each value
   * once. Of a node that may run again: what crosses its first run. */
  uint32_t *first_crossing;
  ull__crossing *crossings;
  size_t crossing_count, crossing_capacity;
} ull__must;

/* Borrows the model. Memory grows with the square of the number of nodes, a bit each. */
ull_status ull__must_create(const ull__schedule_model *model, ull__must **out);
/* The same for schedules that run `first` before `second`, where the second need not precede. */
ull_status ull__must_create_ordered(const ull__must *must, ull__node_id first, ull__node_id second,
                                    ull__must **out);
void ull__must_destroy(ull__must *must); /* NULL is allowed */

/* Whether the first has run, once at least, before the second can. */
bool ull__must_precede(const ull__must *must, ull__node_id first, ull__node_id second);

/* Whether the node reads or updates the value, in whichever form it runs. */
bool ull__must_use(const ull__must *must, ull__node_id node, ull__value_id root);

/* Nodes that run once and have run before this one, all that need not have been followed by another
 * such among them: one of these is the last. `out` has room for every node; returns how many. */
uint32_t ull__must_latest(const ull__must *must, ull__node_id node, ull__node_id *out);

#endif
