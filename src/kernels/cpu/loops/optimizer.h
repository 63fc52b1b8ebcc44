/* Constants of optimizer launches, over flat storage in any layout, and of element-wise sums. */
#ifndef ULL_KERNELS_CPU_LOOPS_OPTIMIZER_H
#define ULL_KERNELS_CPU_LOOPS_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__optimizer_step {
  int64_t elements;
  double momentum, beta1, beta2, eps, weight_decay;
  bool nesterov, decoupled;
} ull__optimizer_step;

#endif
