/* Class targets: which rows count, and refusing what is no class. */
#ifndef ULL_KERNELS_CPU_LOOPS_TARGETS_H
#define ULL_KERNELS_CPU_LOOPS_TARGETS_H

#include "base/error.h"

/* Rows that count. Refuses a target that is neither a class nor `ignore_index`. */
static inline ull_status count_targets(const int64_t *target, int64_t rows, int64_t classes,
                                       int64_t ignore_index, int64_t *counted) {
  *counted = 0;
  for (int64_t row = 0; row < rows; row++) {
    if (target[row] == ignore_index) continue;
    if (target[row] < 0 || target[row] >= classes) {
      return ULL__FAIL(ULL_ERROR_DATA, "target %lld of row %lld is not one of %lld classes",
                       (long long)target[row], (long long)row, (long long)classes);
    }
    ++*counted;
  }
  return ULL_OK;
}

#endif
