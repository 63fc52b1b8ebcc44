/* What the stages of packing share: the problem, the decoders that turn an order into offsets, and
 * the search state. */
#ifndef ULL_MEMORY_PACKING_INTERNAL_H
#define ULL_MEMORY_PACKING_INTERNAL_H

#include "memory/packing.h"

/* Buffers of size > 0 with aligned sizes. Time is compressed to `sections`: the moments at which
 * the set of live buffers is maximal, so that two buffers live together exactly where their
 * sections overlap. */
typedef struct ull__packing_problem {
  uint32_t count;
  uint32_t sections;
  uint64_t alignment;
  uint64_t *size;
  uint32_t *first, *last; /* sections, inclusive */
  uint32_t *origin;       /* index into the caller's array */
  uint64_t *load;         /* live bytes of each section */
  uint64_t lower_bound;   /* the largest load */
  uint32_t peak;          /* the first section that has it */
  uint64_t live_bytes;    /* the largest sum of live bytes before alignment */
} ull__packing_problem;

typedef struct ull__packing_entry {
  uint64_t key;
  uint32_t item;
} ull__packing_entry;

/* The best packing so far, and the scratch of the stages, all allocated once. */
typedef struct ull__packing_state {
  const ull__packing_problem *problem;
  uint64_t *best;  /* offsets */
  uint64_t *trial; /* offsets under construction */
  uint64_t height; /* of best */
  uint32_t *order;
  uint32_t *rank; /* position of each item in an order */
  ull__packing_entry *entries, *entries_scratch;
  uint64_t *floor, *top; /* the time tree of the drop decoder */
  uint32_t leaves;
  uint64_t orders_tried, visits;
} ull__packing_state;

/* What orders sort by; all but PEAK, START and INDEX put the largest first. */
typedef enum ull__packing_measure {
  ULL__PACKING_LIFETIME,
  ULL__PACKING_SIZE,
  ULL__PACKING_AREA,
  ULL__PACKING_PEAK,  /* distance in time from the peak */
  ULL__PACKING_START, /* first section */
  ULL__PACKING_LOAD,  /* the largest load of its sections */
  ULL__PACKING_INDEX
} ull__packing_measure;

/* Sorts ascending by key, stable. */
void ull__packing_sort(ull__packing_entry *entries, ull__packing_entry *scratch, size_t count);

/* Rewrites state->order by the measures, the first one leading. */
void ull__packing_order_by(ull__packing_state *state, const ull__packing_measure *measures,
                           size_t measure_count);

/* Rewrites state->order by the keys in state->entries. */
void ull__packing_take_order(ull__packing_state *state);

/* Rewrites state->order: items by ascending offset, ties by the order of items. */
void ull__packing_order_by_offset(ull__packing_state *state, const uint64_t *offset);

/* Keeps state->trial where it is lower than the best. Returns true when the lower bound is reached.
 */
bool ull__packing_consider(ull__packing_state *state, uint64_t height);

/* Decoders. Each writes state->trial and returns its height. */

/* Drops the items in the given order on what lies below; UINT64_MAX as soon as one would end above
 * `limit`. */
uint64_t ull__packing_drop(ull__packing_state *state, const uint32_t *order, uint64_t limit);

/* Fills the lowest stretch of the skyline, each time with the first item of state->order that fits
 * into it. */
ull_status ull__packing_skyline(ull__packing_state *state, uint64_t *height);

/* Puts each item of state->order into the gap that fits it, the smallest (best_fit) or the lowest.
 */
ull_status ull__packing_gaps(ull__packing_state *state, bool best_fit, uint64_t *height);

/* Local search on the order of the items that reach above the lower bound. */
ull_status ull__packing_improve(ull__packing_state *state, uint64_t orders, uint64_t seed);

typedef enum ull__packing_goal {
  ULL__PACKING_BOUND, /* the lower bound or nothing */
  ULL__PACKING_LOWER  /* halve the distance to the lower bound, again and again */
} ull__packing_goal;

/* Canonical branch and bound for a height below the best; leaves more than some thousand items
 * alone. */
ull_status ull__packing_exact(ull__packing_state *state, ull__packing_goal goal, uint64_t visits);

#endif
