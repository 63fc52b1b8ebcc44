/* Matrix products C = A B (+ C) (+ bias) on packed panels, row-major C.
 *
 * Every element is summed in the same order whatever M, N, the leading dimensions, the number of
 * threads or the part of C being computed: k ascending in blocks of ULL__GEMM_DEPTH, one fused
 * multiply-add each, block sums added one after the other. The bias is a separate addition at the
 * end. Scratch comes from the caller. */
#ifndef ULL_KERNELS_CPU_LOOPS_GEMM_H
#define ULL_KERNELS_CPU_LOOPS_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/isa.h"
#include "device/device.h"

/* Block sizes common to all instruction sets: multiples of every panel. */
enum { ULL__GEMM_DEPTH = 384, ULL__GEMM_ROWS = 1008, ULL__GEMM_COLUMNS = 2016 };

typedef struct ull__gemm {
  int64_t m, n, k;
  const float *a; /* A[i, k] = a[i * a_row + k * a_column]; one of the two is 1 */
  int64_t a_row, a_column;
  const float *b; /* B[k, j] = b[k * b_row + j * b_column] */
  int64_t b_row, b_column;
  float *c; /* C[i, j] = c[i * c_row + j] */
  int64_t c_row;
  bool add;          /* onto what C holds */
  const float *bias; /* [n], or NULL */
  float *scratch;    /* ull__gemm_scratch_floats() */
} ull__gemm;

/* A bound for all instruction sets. */
static inline int64_t ull__gemm_scratch_floats(int64_t m, int64_t n, int64_t k) {
  int64_t rows = m < ULL__GEMM_ROWS ? m + 16 : ULL__GEMM_ROWS;
  int64_t columns = n < ULL__GEMM_COLUMNS ? n + 64 : ULL__GEMM_COLUMNS;
  int64_t depth = k < ULL__GEMM_DEPTH ? k : ULL__GEMM_DEPTH;
  return (rows + columns + 1) * depth + 64;
}

#define ULL__GEMM_DECLARE(isa)                      \
  void ull__gemm_team_##isa(const ull__gemm *gemm); \
  void ull__gemm_alone_##isa(const ull__gemm *gemm);
ULL__GEMM_DECLARE(portable)
ULL__GEMM_DECLARE(avx2)
ULL__GEMM_DECLARE(avx512)

#endif
