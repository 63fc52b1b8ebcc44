/* What must be live in the arena while a node runs, in every schedule that comes by there. */
#ifndef ULL_PLAN_MUST_LIVE_H
#define ULL_PLAN_MUST_LIVE_H

#include "base/vector.h"
#include "plan/must.h"

typedef enum ull__live_reason {
  ULL__LIVE_READ,
  ULL__LIVE_WRITTEN,
  ULL__LIVE_WORKSPACE,
  ULL__LIVE_CROSSING, /* made before, read after */
  ULL__LIVE_HELD,     /* could be made again, but is held */
} ull__live_reason;

typedef struct ull__live_value {
  ull__value_id root; /* ULL__NONE for workspace */
  ull__live_reason reason;
  uint64_t bytes;      /* aligned */
  ull__node_id maker;  /* ULL__NONE: an input, copied */
  ull__node_id reader; /* of what crosses or is held; else the node itself */
} ull__live_value;
typedef ULL__VECTOR(ull__live_value) ull__live_values;

typedef struct ull__held {
  ull__value_id root;
  ull__node_id holder; /* the node for which it is held */
} ull__held;

/* What is live beside the operands of a launch. */
typedef struct ull__company {
  ull__node_id crossed; /* the node whose crossings these are: the one that runs, or the next */
  /* That node has not run, these have, and what runs does so in between: what crosses it is there
   * if it was made up to them, and so is what it reads. */
  bool arriving;
  const ull__node_id *after;
  uint32_t after_count;
  const ull__held *held;
  uint32_t held_count;
} ull__company;

/* Values while the node runs as it stands; `list` may be NULL. */
ull_status ull__must_live(const ull__must *must, ull__node_id node, const ull__company *company,
                          ull__live_values *list, uint64_t *sum);

/* Their bytes, in the form of the node that takes less; `form`, unless NULL, gets which. */
uint64_t ull__must_live_bytes(const ull__must *must, ull__node_id node, const ull__company *company,
                              ull__node_id *form);

#endif
