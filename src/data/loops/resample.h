/* Inner loops of the resampler, once for each instruction set. All sums are integers, so that every
 * instruction set gives the same bits; the one multiplication and the one addition in float32 at
 * the end are rounded alike everywhere.
 *
 * Weights are -32768 times the true weight (so that 1 is representable) and add up to -32768. A row
 * after `across` holds 128 times the pixel's value, after `down` 2^22 times. */
#ifndef ULL_DATA_LOOPS_RESAMPLE_H
#define ULL_DATA_LOOPS_RESAMPLE_H

#include <stdint.h>

#include "ullage/dtype.h"

enum {
  ULL__ACROSS_BLOCK = 8, /* outputs of a row come in whole blocks */
  ULL__ACROSS_TAPS = 4,  /* taps come in groups */
  ULL__DOWN_PAD = 32,    /* elements of a row after `across` come in multiples */
};

/* Output pixel x of a row is the weighted sum of `groups` * 4 source pixels from first[x] on. */
typedef struct ull__across {
  int outputs; /* a multiple of ULL__ACROSS_BLOCK */
  int groups;
  const int32_t *first;   /* [outputs] */
  const int16_t *weights; /* [outputs / 4][groups][4 outputs][4 taps] */
  int64_t plane;          /* elements between the planes of the result */
} ull__across;

/* What a float becomes when it is stored. */
typedef struct ull__row_store {
  ull_dtype dtype;
  int64_t stride; /* between pixels, in elements */
} ull__row_store;

typedef struct ull__resample_loops {
  /* Four bytes a pixel; three planes come out, the fourth byte is left out. */
  void (*across_colour)(const ull__across *across, const uint8_t *pixels, int16_t *planes);
  void (*across_grey)(const ull__across *across, const uint8_t *pixels, int16_t *plane);
  /* to[i] = sum over k of rows[k][offset + i] * weights[k], * scale + bias; `taps` is even.
   * Elements up to the next multiple of ULL__DOWN_PAD are read, not written. */
  void (*down)(const int16_t *const *rows, int64_t offset, const int16_t *weights, int taps,
               int count, float scale, float bias, float *to);
  /* The same sum in parts: for filters with very many taps. */
  void (*down_add)(const int16_t *row, int16_t weight, int64_t count, int32_t *sums);
  void (*down_end)(const int32_t *sums, int count, float scale, float bias, float *to);
  /* Every `step`-th byte, * scale + bias. */
  void (*scale_bytes)(const uint8_t *from, int step, int count, float scale, float bias, float *to);
  /* Floats to a dtype: uint8 clamps and rounds half up, 16-bit floats round to nearest even. */
  void (*store)(const float *from, int count, const ull__row_store *store, void *to);
  /* Three planes `plane` floats apart to pixels of three consecutive bytes. */
  void (*store_rgb)(const float *planes, int64_t plane, int count, uint8_t *to);
} ull__resample_loops;

const ull__resample_loops *ull__resample_loops_portable(void);
const ull__resample_loops *ull__resample_loops_avx2(void);
const ull__resample_loops *ull__resample_loops_avx512(void);

#endif
