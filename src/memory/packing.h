/* Offset packing: gives every buffer of an arena a place, so that no two buffers that live at the
 * same time overlap and the arena stays as low as possible.
 *
 * Sizes are rounded up to the alignment. The largest sum of live aligned bytes is a lower bound of
 * every packing; one that reaches it is proven optimal. Effort is counted in orders and
 * buffers visited, never timed: the same input gives the same offsets on every machine. Calls share
 * nothing and may run on any thread. */
#ifndef ULL_MEMORY_PACKING_H
#define ULL_MEMORY_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

#define ULL__PACKING_ALIGNMENT 64u

typedef struct ull__packing_buffer {
  uint64_t size_bytes;   /* as asked for; 0 occupies nothing and gets offset 0 */
  uint32_t first, last;  /* the instructions between which it lives, both inclusive */
  uint64_t offset_bytes; /* out: a multiple of the alignment */
} ull__packing_buffer;

typedef struct ull__packing_options {
  uint32_t strategies; /* of the portfolio, most successful first; at least one runs */
  uint32_t orders; /* dropped by the local search on 1000 buffers; fewer on more, more on fewer */
  uint64_t visits; /* buffers looked at by the exact search, some 20 ns each; 0 leaves it out */
  uint64_t seed;   /* of the local search */
} ull__packing_options;

/* For a planner's inner loop (milliseconds for 3000 buffers), for a plan that will run, and for a
 * plan that will run for days. */
ull__packing_options ull__packing_quick(void);
ull__packing_options ull__packing_normal(void);
ull__packing_options ull__packing_thorough(void);

typedef struct ull__packing_result {
  uint64_t height_bytes;      /* of the arena: the largest offset + aligned size */
  uint64_t lower_bound_bytes; /* the largest sum of live aligned bytes; no packing is lower */
  uint64_t padding_bytes;     /* height less the largest sum of live bytes as asked for */
  uint64_t orders_tried;
  uint64_t visits;
} ull__packing_result;

/* Fills the offsets of `buffers` (borrowed for the call). `options` NULL means ull__packing_normal.
 * ULL_ERROR_INVALID for an alignment that is no power of two or a buffer whose last < first;
 * ULL_ERROR_OVERFLOW where the sizes together leave 63 bits; ULL_ERROR_OUT_OF_MEMORY. Offsets are
 * untouched after a failure. */
ull_status ull__pack(ull__packing_buffer *buffers, size_t count, uint64_t alignment,
                     const ull__packing_options *options, ull__packing_result *result);

/* The same result fields without packing: lower bound, and padding and height that a perfect
 * packing would have. */
ull_status ull__packing_bound(const ull__packing_buffer *buffers, size_t count, uint64_t alignment,
                              ull__packing_result *result);

/* Verifies offsets in any arena of `height_bytes`, whoever made them, sharing no code with
 * ull__pack: aligned, inside the arena, and no overlap of buffers that live at the same time.
 * ULL_ERROR_INTERNAL names the first two that clash. */
ull_status ull__packing_check(const ull__packing_buffer *buffers, size_t count, uint64_t alignment,
                              uint64_t height_bytes);

#endif
