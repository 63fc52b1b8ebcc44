/* Constants of layer normalisation launches. */
#ifndef ULL_KERNELS_CPU_LOOPS_LAYER_NORM_H
#define ULL_KERNELS_CPU_LOOPS_LAYER_NORM_H

#include <stdint.h>

typedef struct ull__layer_norm {
  int64_t rows, channels;
  int64_t segments; /* parts of the rows that are summed apart, a function of the shape */
  double eps;
} ull__layer_norm;

/* For each segment two rows of doubles and two of floats. */
static inline int64_t ull__layer_norm_scratch_bytes(const ull__layer_norm *norm) {
  return norm->segments * norm->channels * 24;
}

#endif
