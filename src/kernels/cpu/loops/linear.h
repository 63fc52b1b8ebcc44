/* Constants of matrix-product launches. `operands` = inputs of the node, present or not. */
#ifndef ULL_KERNELS_CPU_LOOPS_LINEAR_H
#define ULL_KERNELS_CPU_LOOPS_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__linear {
  int64_t rows, inputs, outputs; /* x [rows, inputs], y [rows, outputs] */
  bool transposed;               /* w is [inputs, outputs], else [outputs, inputs] */
  uint32_t operands;
} ull__linear;

typedef struct ull__matmul {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  bool share_batch; /* one product a thread; else the team works on one product at a time */
} ull__matmul;

#endif
