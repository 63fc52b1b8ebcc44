/* The greatest of each window, and where it lay. Backward adds to each input element the gradients
 * of the windows it is the greatest of in window order, one plane a task, so that the sum has one
 * order. */
#include "kernels/cpu/loops/windows.h"

typedef uint8_t vbyte __attribute__((vector_size(LANES), may_alias));

/* Takes a value that is greater, or no number. */
INLINE void take_better(vfloat value, int32_t here, vfloat *best, vint *at) {
#if defined(__AVX512F__)
  __mmask16 better = _mm512_cmp_ps_mask((__m512)value, (__m512)*best, _CMP_GT_OQ) |
                     _mm512_cmp_ps_mask((__m512)value, (__m512)value, _CMP_UNORD_Q);
  *best = (vfloat)_mm512_mask_blend_ps(better, (__m512)*best, (__m512)value);
  *at = (vint)_mm512_mask_blend_epi32(better, (__m512i)*at, _mm512_set1_epi32(here));
#else
  vint better = (vint)(value > *best) | (vint)(value != value);
  *best = choose(better, value, *best);
  *at = (*at & ~better) | (better & here);
#endif
}

/* `left` = lanes from this one on; a constant where all are there, so that loads are whole. */
INLINE void max_lanes_at(const ull__pooling *p, const float *x, int64_t oh, int64_t ow,
                         int64_t lane, int64_t left, float *y, uint8_t *index) {
  range rows = window_of(oh, p->stride_height, p->pad_height, p->kernel_height, p->height);
  range columns = window_of(ow, p->stride_width, p->pad_width, p->kernel_width, p->width);
  int64_t row_zero = oh * p->stride_height - p->pad_height;
  int64_t column_zero = ow * p->stride_width - p->pad_width;
  vfloat best = splat(-INFINITY);
  vint at = {0};
  at += (int32_t)((rows.begin - row_zero) * p->kernel_width + columns.begin - column_zero);
  for (int64_t h = rows.begin; h < rows.end; h++) {
    const float *from = x + (h * p->width + columns.begin) * p->block + lane;
    int32_t here = (int32_t)((h - row_zero) * p->kernel_width + columns.begin - column_zero);
    for (int64_t w = columns.begin; w < columns.end; w++, here++, from += p->block)
      take_better(load_some(from, left), here, &best, &at);
  }
  store_some(y + lane, best, left);
  vbyte bytes = __builtin_convertvector(at, vbyte);
  memcpy(index + lane, &bytes, (size_t)smaller(left, LANES));
}

static void max_plain_at(const ull__pooling *p, const float *x, int64_t oh, int64_t ow, float *y,
                         uint8_t *index) {
  range rows = window_of(oh, p->stride_height, p->pad_height, p->kernel_height, p->height);
  range columns = window_of(ow, p->stride_width, p->pad_width, p->kernel_width, p->width);
  int64_t at_h = rows.begin, at_w = columns.begin;
  float best = -INFINITY;
  for (int64_t h = rows.begin; h < rows.end; h++) {
    for (int64_t w = columns.begin; w < columns.end; w++) {
      float value = x[h * p->width + w];
      if (!(value > best || value != value)) continue;
      best = value;
      at_h = h;
      at_w = w;
    }
  }
  *y = best;
  *index = (uint8_t)((at_h - oh * p->stride_height + p->pad_height) * p->kernel_width + at_w -
                     ow * p->stride_width + p->pad_width);
}

/* Asks for what the next row of outputs reads and this one does not, below output `ow`: pages end
 * too often in a block's row for the processor to see the pattern. */
INLINE void fetch_ahead(const ull__pooling *p, const float *x, int64_t oh, int64_t ow) {
  int64_t end = smaller((oh + 1) * p->stride_height - p->pad_height + p->kernel_height, p->height);
  int64_t from = ow * p->stride_width, to = smaller(from + p->stride_width, p->width);
  for (int64_t h = larger(end - p->stride_height, 0); h < end; h++) {
    const float *row = x + h * p->width * p->block;
    for (int64_t i = from * p->block; i < to * p->block; i += 16) __builtin_prefetch(row + i);
  }
}

static void max_row(const ull__pooling *p, const float *x, int64_t oh, float *y, uint8_t *index) {
  for (int64_t ow = 0; ow < p->out_width; ow++, y += p->block, index += p->block) {
    if (p->block == 1) max_plain_at(p, x, oh, ow, y, index);
    if (p->block == 1) continue;
    fetch_ahead(p, x, oh, ow);
    int64_t lane = 0;
    for (; lane + LANES <= p->block; lane += LANES)
      max_lanes_at(p, x, oh, ow, lane, LANES, y, index);
    if (lane < p->block) max_lanes_at(p, x, oh, ow, lane, p->block - lane, y, index);
  }
}

ull_status ULL__ISA_NAME(ull__max_pool2d)(const ull__launch_frame *launch) {
  const ull__pooling *p = launch->constants;
  const float *x = launch->operands[0];
  float *y = launch->operands[1];
  uint8_t *index = launch->operands[2];
  int64_t plane_elements = p->height * p->width * p->block;
  PARALLEL_FOR(enough_planes(p))
  for (int64_t row = 0; row < p->planes * p->out_height; row++) {
    int64_t plane = row / p->out_height, out = row * p->out_width * p->block;
    max_row(p, x + plane * plane_elements, row % p->out_height, y + out, index + out);
  }
  return ULL_OK;
}

/* Adds each window's gradient to the element it came from. An index that no forward pass gives,
 * outside the window or the plane, adds to nothing. */
static void scatter_plane(const ull__pooling *p, const float *dy, const uint8_t *index, float *dx) {
  int64_t elements = p->height * p->width * p->block, at[UINT8_MAX + 1];
  memset(dx, 0, (size_t)elements * sizeof *dx);
  for (int64_t i = 0; i <= UINT8_MAX; i++) {
    at[i] = (i / p->kernel_width * p->width + i % p->kernel_width) * p->block;
    if (i >= p->kernel_height * p->kernel_width) at[i] = 2 * elements;
  }
  for (int64_t oh = 0; oh < p->out_height; oh++) {
    for (int64_t ow = 0; ow < p->out_width; ow++) {
      int64_t row = oh * p->stride_height - p->pad_height;
      int64_t window = (row * p->width + ow * p->stride_width - p->pad_width) * p->block;
      for (int64_t lane = 0; lane < p->block; lane++) {
        uint64_t to = (uint64_t)(window + at[index[lane]] + lane);
        if (to < (uint64_t)elements) dx[to] += dy[lane];
      }
      dy += p->block;
      index += p->block;
    }
  }
}

/* sum + dy where the index is `here`. */
INLINE vfloat take_where(vfloat sum, vint index, int32_t here, vfloat dy) {
#if defined(__AVX512F__)
  __mmask16 same = _mm512_cmpeq_epi32_mask((__m512i)index, _mm512_set1_epi32(here));
  return (vfloat)_mm512_mask_add_ps((__m512)sum, same, (__m512)sum, (__m512)dy);
#else
  vint all = {0};
  all += here;
  return sum + (vfloat)((index == all) & (vint)dy);
#endif
}

/* One window's gradients for a vector of channels: every element of it is looked at, none is
 * searched for. */
INLINE void scatter_lanes(const ull__pooling *p, range rows, range columns, int64_t row_zero,
                          int64_t column_zero, const float *dy, const uint8_t *index, float *dx) {
  vbyte bytes;
  memcpy(&bytes, index, sizeof bytes);
  vint at = __builtin_convertvector(bytes, vint);
  vfloat gradient = load(dy);
  for (int64_t h = rows.begin; h < rows.end; h++) {
    float *to = dx + (h * p->width + columns.begin) * p->block;
    int32_t here = (int32_t)((h - row_zero) * p->kernel_width + columns.begin - column_zero);
    for (int64_t w = columns.begin; w < columns.end; w++, here++, to += p->block)
      store(to, take_where(load(to), at, here, gradient));
  }
}

/* The same sums in the same order for blocks that are whole vectors. Rows are zeroed right before
 * the first window that reaches them. */
static void scatter_blocks(const ull__pooling *p, const float *dy, const uint8_t *index,
                           float *dx) {
  int64_t zeroed = 0, row_elements = p->width * p->block;
  for (int64_t oh = 0; oh < p->out_height; oh++) {
    range rows = window_of(oh, p->stride_height, p->pad_height, p->kernel_height, p->height);
    for (; zeroed < rows.end; zeroed++)
      memset(dx + zeroed * row_elements, 0, (size_t)row_elements * sizeof *dx);
    for (int64_t ow = 0; ow < p->out_width; ow++, dy += p->block, index += p->block) {
      range columns = window_of(ow, p->stride_width, p->pad_width, p->kernel_width, p->width);
      for (int64_t lane = 0; lane < p->block; lane += LANES)
        scatter_lanes(p, rows, columns, oh * p->stride_height - p->pad_height,
                      ow * p->stride_width - p->pad_width, dy + lane, index + lane, dx + lane);
    }
  }
  for (; zeroed < p->height; zeroed++)
    memset(dx + zeroed * row_elements, 0, (size_t)row_elements * sizeof *dx);
}

ull_status ULL__ISA_NAME(ull__max_pool2d_backward)(const ull__launch_frame *launch) {
  const ull__pooling *p = launch->constants;
  const float *dy = launch->operands[0];
  const uint8_t *index = launch->operands[1];
  float *dx = launch->operands[2];
  int64_t outputs = p->out_height * p->out_width * p->block;
  PARALLEL_FOR(enough_planes(p))
  for (int64_t plane = 0; plane < p->planes; plane++) {
    (p->block % LANES == 0 ? scatter_blocks
                           : scatter_plane)(p, dy + plane * outputs, index + plane * outputs,
                                            dx + plane * p->height * p->width * p->block);
  }
  return ULL_OK;
}
