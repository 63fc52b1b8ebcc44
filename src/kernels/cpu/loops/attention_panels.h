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

/* Where the document of each row begins and ends: rows of the sample, PANEL_COLUMNS more than there
 * are. NULL where every sample is one document. */
typedef struct runs {
  const int32_t *first, *end;
} runs;

/* Fills `room`, of ull__attention_run_floats, from the numbers of one sample; rows past the last
 * belong to its document. */
INLINE runs find_runs(const ull__attention *a, const int64_t *documents, float *room) {
  int32_t *first = (int32_t *)(void *)room, *end = first + a->time + PANEL_COLUMNS;
  int32_t time = (int32_t)a->time, padded = time + PANEL_COLUMNS;
  if (documents == NULL) return (runs){NULL, NULL};
  for (int32_t row = 0; row < padded; row++) {
    bool begins = row == 0 || (row < time && documents[row] != documents[row - 1]);
    first[row] = begins ? row : first[row - 1];
  }
  for (int32_t row = padded; row-- > 0;) {
    bool ends = row >= time - 1 || first[row + 1] != first[row];
    end[row] = row >= time ? time : ends ? row + 1 : end[row + 1];
  }
  return (runs){first, end};
}

/* Keys that queries [query, query + count) may see, the first rounded down to a whole panel. */
INLINE int64_t first_key(const runs *r, int64_t query) {
  return r->first ? r->first[query] / PANEL_ROWS * PANEL_ROWS : 0;
}

INLINE int64_t end_of_keys(const ull__attention *a, const runs *r, int64_t query, int64_t count) {
  if (a->causal) return query + count;
  return r->first ? r->end[query + count - 1] : a->time;
}

/* Whether a panel of queries from `query`, `count` of them real, is of the document of `key`
 * throughout. */
INLINE bool is_one_document(const runs *r, int64_t query, int64_t count, int64_t key) {
  return !r->first || (key >= r->first[query + count - 1] && key < r->end[query]);
}

/* Lanes of vector v of a panel of queries from `query` whose document holds `key`. */
INLINE vint shares_document(const runs *r, int64_t key, int64_t query, int v) {
  vint first, end;
  memcpy(&first, r->first + query + v * LANES, sizeof first);
  memcpy(&end, r->end + query + v * LANES, sizeof end);
  return (vint)(first <= (int32_t)key) & (vint)(end > (int32_t)key);
}

#endif
