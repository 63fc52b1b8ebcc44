/* Panels and the inner loop of matrix products.
 *
 * A panel of A is [depth][PANEL_ROWS], of B [depth][PANEL_COLUMNS], padded with zeros. The inner
 * loop keeps PANEL_ROWS x PANEL_COLUMNS sums in registers. */
#ifndef ULL_KERNELS_CPU_LOOPS_PANELS_H
#define ULL_KERNELS_CPU_LOOPS_PANELS_H

#include "kernels/cpu/loops/vector.h"

#if defined(__AVX512F__)
enum { PANEL_ROWS = 8, PANEL_VECTORS = 3 };
#elif defined(__AVX2__)
enum { PANEL_ROWS = 4, PANEL_VECTORS = 3 };
#else
enum { PANEL_ROWS = 4, PANEL_VECTORS = 2 };
#endif
enum { PANEL_COLUMNS = PANEL_VECTORS * LANES };

typedef vfloat panel_sums[PANEL_ROWS][PANEL_VECTORS];

/* sums[i][j] += a[i * a_row + k * a_depth] * b[k * b_depth + j], k ascending. The strides of A and
 * `vectors` are constants where this is inlined. */
INLINE void multiply_strided(int64_t depth, const float *a, int64_t a_row, int64_t a_depth,
                             const float *b, int64_t b_depth, int vectors, panel_sums sums) {
  for (int64_t k = 0; k < depth; k++) {
    vfloat right[PANEL_VECTORS];
    UNROLL(8) for (int j = 0; j < vectors; j++) right[j] = load(b + j * LANES);
    UNROLL(16) for (int i = 0; i < PANEL_ROWS; i++) {
      vfloat left = splat(a[i * a_row]);
      UNROLL(8) for (int j = 0; j < vectors; j++) {
        sums[i][j] = multiply_add(left, right[j], sums[i][j]);
      }
    }
    a += a_depth;
    b += b_depth;
  }
}

/* The same where B is a panel. */
INLINE void multiply_panels(int64_t depth, const float *a, int64_t a_row, int64_t a_depth,
                            const float *b, int vectors, panel_sums sums) {
  multiply_strided(depth, a, a_row, a_depth, b, PANEL_COLUMNS, vectors, sums);
}

/* ---- packing ---- */

#if defined(__AVX2__)
INLINE void transpose_8x8(const float *from, int64_t from_row, float *to, int64_t to_row) {
  __m256 r[8], s[8];
  UNROLL(8) for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * from_row);
  UNROLL(4) for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  UNROLL(2) for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
  UNROLL(4) for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * to_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#endif

#if defined(__SSE__)
INLINE void transpose_4x4(const float *from, int64_t from_row, float *to, int64_t to_row) {
  __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + from_row);
  __m128 r2 = _mm_loadu_ps(from + 2 * from_row), r3 = _mm_loadu_ps(from + 3 * from_row);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(to, r0);
  _mm_storeu_ps(to + to_row, r1);
  _mm_storeu_ps(to + 2 * to_row, r2);
  _mm_storeu_ps(to + 3 * to_row, r3);
}
#endif

INLINE void transpose_any(const float *from, int64_t from_row, int64_t rows, int64_t columns,
                          float *to, int64_t to_row) {
  for (int64_t k = 0; k < columns; k++) {
    for (int64_t i = 0; i < rows; i++) to[k * to_row + i] = from[i * from_row + k];
  }
}

/* to[k][i] = from[i][k] for `rows` x `columns`. */
INLINE void transpose(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to,
                      int64_t to_row) {
  int64_t i = 0;
#if defined(__AVX2__)
  for (; i + 8 <= rows; i += 8) {
    int64_t k = 0;
    for (; k + 8 <= columns; k += 8) {
      transpose_8x8(from + i * from_row + k, from_row, to + k * to_row + i, to_row);
    }
    transpose_any(from + i * from_row + k, from_row, 8, columns - k, to + k * to_row + i, to_row);
  }
#endif
#if defined(__SSE__)
  for (; i + 4 <= rows; i += 4) {
    int64_t k = 0;
    for (; k + 4 <= columns; k += 4) {
      transpose_4x4(from + i * from_row + k, from_row, to + k * to_row + i, to_row);
    }
    transpose_any(from + i * from_row + k, from_row, 4, columns - k, to + k * to_row + i, to_row);
  }
#endif
  transpose_any(from + i * from_row, from_row, rows - i, columns, to + i, to_row);
}

/* One panel of `width` columns, of which `count` are there: to[k][i] = from[i * stride + k * step],
 * zeros beyond. */
INLINE void pack_panel(const float *from, int64_t stride, int64_t step, int64_t count,
                       int64_t depth, float *to, int64_t width) {
  if (stride == 1 && count == width) {
    for (int64_t k = 0; k < depth; k++) memcpy(to + k * width, from + k * step, 4 * (size_t)width);
    return;
  }
  for (int64_t k = 0; count < width && k < depth; k++) {
    for (int64_t i = count; i < width; i++) to[k * width + i] = 0;
  }
  if (step == 1) {
    transpose(from, stride, count, depth, to, width);
    return;
  }
  for (int64_t k = 0; k < depth; k++) {
    for (int64_t i = 0; i < count; i++) to[k * width + i] = from[i * stride + k * step];
  }
}

#endif
