/* What follows for every schedule whose arena stays below a limit.
 *
 * A node needs a value that forward makes and may make any number of times. Let another node have
 * run before it. If making the value between the two takes the limit or more, then it is made
 * before the earlier one and held while that runs; and that one needs it in turn. Making it may be
 * out of the question because of what its own maker reads, which is made between the two as well or
 * held. So facts go backwards through the step. Where they meet at a node that then takes the limit
 * or more, there is no such schedule. */
#ifndef ULL_PLAN_FACTS_H
#define ULL_PLAN_FACTS_H

#include "plan/must_live.h"

typedef struct ull__facts {
  const ull__must *must;
  uint64_t limit_bytes;
  ull__value_id *tracked; /* roots: large enough to matter, made by forward */
  uint32_t tracked_count;
  uint32_t *index; /* by root: in `tracked`; ULL__NONE */
  /* holder[node * tracked_count + i]: the node for which a value is held while this one runs;
   * ULL__NONE where it need not be. */
  ull__node_id *holder;
  ull__node_id contradiction; /* a node that takes the limit or more; ULL__NONE */
  uint64_t least_bytes; /* the least sum that counted as the limit or more: the facts hold for it */
  uint8_t *holdable;    /* scratch */
  ull__node_id *latest;
  uint32_t *first_latest;
} ull__facts;

/* Borrows `must`. Freed with ull__facts_free, also after a failure. */
ull_status ull__facts_derive(const ull__must *must, uint64_t limit_bytes, ull__facts *out);
void ull__facts_free(ull__facts *facts);

/* What is held while the node runs; `out` has room for all that is tracked. */
uint32_t ull__facts_held(const ull__facts *facts, ull__node_id node, ull__held *out);

#endif
