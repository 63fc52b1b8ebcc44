/* Constants of embedding launches. */
#ifndef ULL_KERNELS_CPU_LOOPS_EMBEDDING_H
#define ULL_KERNELS_CPU_LOOPS_EMBEDDING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__embedding {
  int64_t ids, rows, channels;
  bool has_base;
  uint32_t operands; /* inputs of the node */
} ull__embedding;

typedef struct ull__shift {
  int64_t rows, length, fill;
} ull__shift;

#endif
