/* A lower bound of the arena that holds for every schedule, with what proves it.
 *
 * A proof is a list of cases: what runs, and what must be live then. Every schedule meets one of
 * them at least, and each takes `bytes` at least. One case alone is a node that runs in every
 * schedule. There are two ways to more.
 *
 * By one value: some node reads a value that forward makes and that may be made any number of
 * times; some nodes must have run before it. The last making before that read either comes after
 * all of those, and then what they left for the reader and for later is live while it is made; or
 * it comes before one of them, and then the value is live while that one runs, and the same holds
 * from there on.
 *
 * By a limit (plan/facts.h): in a schedule that stays below it, values must be held, and then some
 * node takes as much after all; or one of two nodes does, whichever runs last.
 *
 * Backward is taken to run once, and inputs to be copied before anything runs, as all schedules
 * here do. */
#ifndef ULL_PLAN_BOUND_H
#define ULL_PLAN_BOUND_H

#include "plan/must_live.h"

typedef struct ull__bound_case {
  ull__node_id node;   /* what runs */
  ull__node_id before; /* not ULL__NONE: it makes the needed value, and before this node */
  uint32_t first_after, after_count; /* in `afters`: nodes that have run before it does so */
  ull__node_id order[2]; /* not ULL__NONE: in schedules that run the first before the second */
  bool holds;            /* while values are held */
  uint64_t bytes;
  uint32_t first_value, value_count;
} ull__bound_case;

typedef struct ull__bound {
  uint64_t bytes;                     /* of the least case */
  ull__node_id node;                  /* what needs the value */
  ull__value_id needed;               /* ULL__NONE: one case without a condition */
  ULL__VECTOR(ull__bound_case) cases; /* least first */
  ull__live_values values;
  ULL__VECTOR(ull__node_id) afters;
} ull__bound;

/* The best bound found; looks for none above `target_bytes`, what some schedule takes. Freed with
 * ull__bound_free, also after a failure. */
ull_status ull__bound_find(const ull__schedule_model *model, uint64_t target_bytes,
                           ull__bound *out);
void ull__bound_free(ull__bound *bound);

#endif
