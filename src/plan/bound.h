/* A lower bound of the arena that holds for every schedule, with what proves it.
 *
 * The proof is a list of cases. Some node reads a value that forward makes and that may be made any
 * number of times; some nodes must have run before it. The last making before that read either
 * comes after all of those, and then what they left for the reader and for later is live while it
 * is made; or it comes before one of them, and then the value is live while that one runs, and the
 * same holds from there on. Every schedule meets one of the cases at least, and each takes `bytes`
 * at least. A bound that needs no value is one case: a node that runs in every schedule, its
 * operands and what crosses it. Backward is taken to run once, and inputs to be copied before
 * anything runs, as all schedules here do. */
#ifndef ULL_PLAN_BOUND_H
#define ULL_PLAN_BOUND_H

#include "base/vector.h"
#include "plan/must.h"

typedef enum ull__live_reason {
  ULL__LIVE_READ,
  ULL__LIVE_WRITTEN,
  ULL__LIVE_WORKSPACE,
  ULL__LIVE_CROSSING, /* made before, read after */
  ULL__LIVE_HELD,     /* the needed value, where it was made earlier */
} ull__live_reason;

typedef struct ull__bound_value {
  ull__value_id root; /* ULL__NONE for workspace */
  ull__live_reason reason;
  uint64_t bytes;      /* aligned */
  ull__node_id maker;  /* ULL__NONE: an input, copied; or workspace */
  ull__node_id reader; /* of what crosses or is held */
} ull__bound_value;

typedef struct ull__bound_case {
  ull__node_id node;   /* what runs */
  ull__node_id before; /* not ULL__NONE: it makes the needed value after some nodes, before this */
  uint32_t first_after, after_count;
  bool holds; /* while the needed value is held */
  uint64_t bytes;
  uint32_t first_value, value_count;
} ull__bound_case;

typedef struct ull__bound {
  uint64_t bytes;                     /* of the least case */
  ull__node_id node;                  /* what needs the value */
  ull__value_id needed;               /* ULL__NONE: one case without a condition */
  ULL__VECTOR(ull__bound_case) cases; /* least first */
  ULL__VECTOR(ull__bound_value) values;
  ULL__VECTOR(ull__node_id) afters;
} ull__bound;

/* The best bound found. Freed with ull__bound_free, also after a failure. */
ull_status ull__bound_find(const ull__schedule_model *model, ull__bound *out);
void ull__bound_free(ull__bound *bound);

#endif
