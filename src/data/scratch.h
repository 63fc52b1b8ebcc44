/* A bump allocator over memory that somebody else owns: what a loader's thread works in. Nothing is
 * given back but all at once, so that a sample never touches the heap. */
#ifndef ULL_DATA_SCRATCH_H
#define ULL_DATA_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

enum { ULL__SCRATCH_ALIGNMENT = 64 };

typedef struct ull__scratch {
  uint8_t *memory; /* borrowed; at ULL__SCRATCH_ALIGNMENT */
  uint64_t bytes;
  uint64_t used;
  uint64_t peak; /* the most `used` has been */
} ull__scratch;

static inline ull__scratch ull__scratch_over(void *memory, uint64_t bytes) {
  return (ull__scratch){.memory = memory, .bytes = bytes};
}

/* NULL when the rest is too small; not zeroed. */
static inline void *ull__scratch_take(ull__scratch *scratch, uint64_t bytes) {
  uint64_t at =
      (scratch->used + (ULL__SCRATCH_ALIGNMENT - 1)) & ~(uint64_t)(ULL__SCRATCH_ALIGNMENT - 1);
  if (at > scratch->bytes || bytes > scratch->bytes - at) return NULL;
  scratch->used = at + bytes;
  if (scratch->used > scratch->peak) scratch->peak = scratch->used;
  return scratch->memory + at;
}

/* What `ull__scratch_take` of this size takes at most. */
static inline uint64_t ull__scratch_cost(uint64_t bytes) {
  return (bytes + (ULL__SCRATCH_ALIGNMENT - 1)) & ~(uint64_t)(ULL__SCRATCH_ALIGNMENT - 1);
}

/* Everything taken since `used` was `mark` is free again. */
static inline void ull__scratch_rewind(ull__scratch *scratch, uint64_t mark) {
  scratch->used = mark;
}

#endif
