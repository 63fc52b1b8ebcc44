/* Which elements dropout keeps: a pure function of seed, step, node, sample and the element's place
 * in its sample (plain row-major order, whatever the layout), so that recomputing, splitting the
 * batch and other layouts draw the same mask. The one definition for all providers.
 *
 * A value of a graph bound to batch B holds B samples: sample = i / (elements / B) of the logical
 * element i, numbered from rng[FIRST_SAMPLE]. */
#ifndef ULL_KERNELS_DROPOUT_H
#define ULL_KERNELS_DROPOUT_H

#include <stdbool.h>

#include "base/philox.h"
#include "graph/hyper.h"

static inline uint64_t ull__dropout_key(const int64_t *rng, uint64_t identity) {
  ull__philox_block block = ull__philox((uint64_t)rng[ULL__RNG_SEED], identity, 0);
  return ((uint64_t)block.word[1] << 32) | block.word[0];
}

/* The upper half of the counter; the lower is element / 4. `sample` is the index in the batch. */
static inline uint64_t ull__dropout_stream(const int64_t *rng, uint64_t sample) {
  return ((uint64_t)rng[ULL__RNG_STEP] << 32) ^ ((uint64_t)rng[ULL__RNG_FIRST_SAMPLE] + sample);
}

/* An element is kept where its word is at least this: probability `p` of being dropped, to 2^-32.
 */
static inline uint32_t ull__dropout_threshold(double p) {
  double scaled = p * 0x1p32;
  return scaled >= 0x1p32 ? UINT32_MAX : (uint32_t)scaled;
}

static inline bool ull__dropout_keeps(const int64_t *rng, uint64_t identity, double p,
                                      uint64_t sample, uint64_t element) {
  ull__philox_block block =
      ull__philox(ull__dropout_key(rng, identity), ull__dropout_stream(rng, sample), element / 4);
  return block.word[element % 4] >= ull__dropout_threshold(p);
}

#endif
