/* Products of panels for attention, with as many vectors of columns as there are columns. */
#ifndef ULL_KERNELS_CPU_LOOPS_ATTENTION_PANELS_H
#define ULL_KERNELS_CPU_LOOPS_ATTENTION_PANELS_H

#include "kernels/cpu/loops/attention.h"
#include "kernels/cpu/loops/elements.h"
#include "kernels/cpu/loops/panels.h"

INLINE void clear_sums(panel_sums sums, int vectors) {
  UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
    UNROLL(8) for (int j = 0; j < vectors; j++) sums[i][j] = (vfloat){0};
  }
}

INLINE int64_t round_rows(int64_t count) {
  return divide_up(count, PANEL_ROWS) * PANEL_ROWS;
}

/* Rows `stride` apart, of `size` numbers, as panels of A: [row panel][size][PANEL_ROWS]. */
INLINE void pack_rows(const float *from, int64_t stride, int64_t rows, int64_t size, float *to) {
  for (int64_t row = 0; row < rows; row += PANEL_ROWS) {
    pack_panel(from + row * stride, stride, 1, smaller(PANEL_ROWS, rows - row), size,
               to + row * size, PANEL_ROWS);
  }
}

/* The same rows transposed: [column panel][rows][PANEL_ROWS]. */
INLINE void pack_columns(const float *from, int64_t stride, int64_t rows, int64_t size, float *to) {
  for (int64_t column = 0; column < size; column += PANEL_ROWS) {
    pack_panel(from + column, 1, stride, smaller(PANEL_ROWS, size - column), rows,
               to + column * rows, PANEL_ROWS);
  }
}

/* Lanes j of vector v of a panel of queries from `query` that may see `key`: query + lane >= key.
 */
INLINE vint sees(int64_t key, int64_t query, int v) {
  int32_t lanes[LANES];
  for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane + v * LANES;
  vint index;
  memcpy(&index, lanes, sizeof index);
  return (vint)(index >= (int32_t)larger(smaller(key - query, 1 << 20), -1));
}

#endif
