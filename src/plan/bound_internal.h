/* Between the two proofs of a bound: by one value, bound.c, and by a limit, bound_limit.c. */
#ifndef ULL_PLAN_BOUND_INTERNAL_H
#define ULL_PLAN_BOUND_INTERNAL_H

#include "plan/bound.h"

/* Adds a case: `node` runs in that company, in the form that takes less. */
ull_status ull__bound_add_case(ull__bound *out, const ull__must *must, ull__node_id node,
                               ull__node_id before, const ull__company *company);

/* Proves, between out->bytes and `target_bytes`, the highest limit that no schedule stays below, as
 * far as it is found: `out` gets it with its cases. Leaves `out` alone where there is none. */
ull_status ull__bound_by_limit(const ull__must *must, uint64_t target_bytes, ull__bound *out,
                               bool *proved);

#endif
