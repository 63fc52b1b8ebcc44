/* Reductions over one row: maximum, sum of exponentials, sums. Sums run in float32 over short
 * pieces and in double over the pieces, in an order that depends on the length alone. */
#ifndef ULL_KERNELS_CPU_LOOPS_ROWS_H
#define ULL_KERNELS_CPU_LOOPS_ROWS_H

#include "kernels/cpu/loops/elements.h"

enum { ROW_PIECE = 32 * LANES };

INLINE float row_max(const float *x, int64_t count) {
  vfloat best = splat(-INFINITY);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) best = vector_max(load(x + i), best);
  float result = max_lanes(best);
  for (; i < count; i++) result = x[i] > result ? x[i] : result;
  return result;
}

/* Keeps the first `count` lanes, zero beyond. */
INLINE vfloat first_lanes(vfloat x, int64_t count) {
  float lanes[LANES] = {0};
  store_part(lanes, x, count);
  return load(lanes);
}

/* sum of exp(x - about) */
INLINE double row_sum_exp(const float *x, int64_t count, float about) {
  vdouble total = {0};
  vfloat middle = splat(about);
  for (int64_t from = 0; from < count; from += ROW_PIECE) {
    int64_t end = smaller(from + ROW_PIECE, count), i = from;
    vfloat sum = {0};
    for (; i + LANES <= end; i += LANES) sum += element_exp(load(x + i) - middle);
    if (i < end) sum += first_lanes(element_exp(load_part(x + i, end - i) - middle), end - i);
    total += to_double(sum);
  }
  return sum_lanes(total);
}

INLINE double row_sum(const float *x, int64_t count) {
  vdouble total = {0};
  for (int64_t from = 0; from < count; from += ROW_PIECE) {
    int64_t end = smaller(from + ROW_PIECE, count);
    vfloat sum = {0};
    for (int64_t i = from; i < end; i += LANES) sum += load_some(x + i, end - i);
    total += to_double(sum);
  }
  return sum_lanes(total);
}

INLINE double row_dot(const float *x, const float *y, int64_t count) {
  vdouble total = {0};
  for (int64_t from = 0; from < count; from += ROW_PIECE) {
    int64_t end = smaller(from + ROW_PIECE, count);
    vfloat sum = {0};
    for (int64_t i = from; i < end; i += LANES) {
      sum = multiply_add(load_some(x + i, end - i), load_some(y + i, end - i), sum);
    }
    total += to_double(sum);
  }
  return sum_lanes(total);
}

/* log of the sum of exponentials. */
INLINE float row_logsumexp(const float *x, int64_t count) {
  float top = row_max(x, count);
  if (!(fabsf(top) < INFINITY)) return top;
  return (float)((double)top + log(row_sum_exp(x, count, top)));
}

#endif
