/* Samples that were found bad a short while ago, so that a long row of them is decoded once and not
 * again for every place it is replaced at.
 *
 * What a sample is like is a function of file, epoch (which decides its crop) and seed: what was
 * found for one place holds for every other of the same epoch. A sample is known by its place in
 * the order of the stream, since a row of bad ones has places one behind the other: each has an
 * entry of its own. Entries are overwritten by later places; what was forgotten is decoded again
 * and found to be the same, so that nothing but time depends on what is known. Any number of
 * threads. */
#ifndef ULL_DATA_KNOWN_BAD_H
#define ULL_DATA_KNOWN_BAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { ULL__KNOWN_BAD_MOST = 4096 };

typedef struct ull__known_bad {
  _Atomic uint64_t *places; /* 0 = none */
  uint64_t count;           /* 0 = nothing is remembered */
} ull__known_bad;

/* Entries for a source: as many as a row that is searched has, and some. */
static inline uint64_t ull__known_bad_entries(uint64_t samples) {
  return samples < ULL__KNOWN_BAD_MOST ? samples : ULL__KNOWN_BAD_MOST;
}

/* `place` counts from the first epoch on. */
static inline void ull__known_bad_add(const ull__known_bad *known, uint64_t place) {
  if (known->count == 0) return;
  atomic_store_explicit(&known->places[place % known->count], place + 1, memory_order_relaxed);
}

static inline bool ull__known_bad_has(const ull__known_bad *known, uint64_t place) {
  if (known->count == 0) return false;
  return atomic_load_explicit(&known->places[place % known->count], memory_order_relaxed) ==
         place + 1;
}

#endif
