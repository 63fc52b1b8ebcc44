/* Random numbers of one sample: streams of words from the counter-based generator.
 *
 * A stream is named by (key, epoch, sample, purpose); streams never overlap, so what one kind of
 * change draws cannot shift another, and threads do not matter. Words come one after another from
 * blocks of four. */
#ifndef ULL_DATA_DRAWS_H
#define ULL_DATA_DRAWS_H

#include <stdbool.h>

#include "base/philox.h"

typedef enum ull__purpose {
  ULL__PURPOSE_MOVE, /* window and mirrors; one block, drawn without a stream */
  ULL__PURPOSE_CROP,
  ULL__PURPOSE_ROTATION,
  ULL__PURPOSE_JITTER,
  ULL__PURPOSE_GRAYSCALE,
  ULL__PURPOSE_OPERATIONS,
  ULL__PURPOSE_ERASE,
  ULL__PURPOSE_MIX, /* `sample` is the batch */
} ull__purpose;

typedef struct ull__draws {
  uint64_t key, high, low;
  ull__philox_block block;
  uint32_t used; /* words */
} ull__draws;

/* Epochs up to 2^40, streams up to 2^18 words. */
static inline ull__draws ull__draws_begin(uint64_t key, uint64_t epoch, uint64_t sample,
                                          ull__purpose purpose) {
  uint64_t high = (epoch & 0xFFFFFFFFFF) | (uint64_t)purpose << 40;
  return (ull__draws){.key = key, .high = high, .low = sample};
}

static inline uint32_t ull__draw_word(ull__draws *draws) {
  uint32_t at = draws->used++;
  if (at % 4 == 0) {
    draws->block = ull__philox(draws->key, draws->high | (uint64_t)(at / 4) << 48, draws->low);
  }
  return draws->block.word[at % 4];
}

/* Uniform in [0, 1), from two words. */
static inline double ull__draw_unit(ull__draws *draws) {
  uint32_t high = ull__draw_word(draws), low = ull__draw_word(draws);
  return ull__philox_unit_double(high, low);
}

static inline double ull__draw_between(ull__draws *draws, double least, double most) {
  return least + (most - least) * ull__draw_unit(draws);
}

/* Uniform in [0, bound), from two words. */
static inline uint64_t ull__draw_below(ull__draws *draws, uint64_t bound) {
  uint32_t high = ull__draw_word(draws), low = ull__draw_word(draws);
  return ull__philox_bounded(high, low, bound);
}

#endif
