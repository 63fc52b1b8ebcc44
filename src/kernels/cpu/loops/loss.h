/* Constants of softmax and loss launches. */
#ifndef ULL_KERNELS_CPU_LOOPS_LOSS_H
#define ULL_KERNELS_CPU_LOOPS_LOSS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__rows {
  int64_t rows, channels;
} ull__rows;

/* Logits [batch, classes, inner]; targets [batch, inner], or shares of the logits' shape, which
 * know no ignore_index. */
typedef struct ull__cross_entropy {
  int64_t batch, classes, inner, ignore_index;
  double label_smoothing;
} ull__cross_entropy;

/* Logits of `chunk` rows at a time. */
typedef struct ull__linear_cross_entropy {
  int64_t rows, inputs, classes, ignore_index, chunk;
} ull__linear_cross_entropy;

#endif
