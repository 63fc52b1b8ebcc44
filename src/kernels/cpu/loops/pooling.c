/* Pooling over windows, forward by windows, backward by gathering: each input element adds the
 * gradients of the windows that hold it, in window order, so that the sum has one order. */
#include "kernels/cpu/loops/pooling.h"

#include "kernels/cpu/loops/vector.h"

typedef uint8_t vbyte __attribute__((vector_size(LANES), may_alias));

typedef struct range {
  int64_t begin, end;
} range;

/* Positions of the window of output `o` that are inside the input. */
INLINE range window_of(int64_t o, int64_t stride, int64_t pad, int64_t kernel, int64_t size) {
  int64_t first = o * stride - pad;
  return (range){larger(first, 0), smaller(first + kernel, size)};
}

/* Outputs whose windows hold input `i`. */
INLINE range outputs_of(int64_t i, int64_t stride, int64_t pad, int64_t kernel, int64_t count) {
  int64_t first = i + pad - kernel + 1;
  return (range){first > 0 ? divide_up(first, stride) : 0, smaller((i + pad) / stride + 1, count)};
}

INLINE bool enough_planes(const ull__pooling *p) {
  return p->planes * p->block * p->height * p->width >= ENOUGH_ELEMENTS;
}

/* ---- maximum ---- */

INLINE void max_lanes_at(const ull__pooling *p, const float *x, int64_t oh, int64_t ow,
                         int64_t lane, float *y, uint8_t *index) {
  range rows = window_of(oh, p->stride_height, p->pad_height, p->kernel_height, p->height);
  range columns = window_of(ow, p->stride_width, p->pad_width, p->kernel_width, p->width);
  int64_t left = p->block - lane, row_zero = oh * p->stride_height - p->pad_height;
  int64_t column_zero = ow * p->stride_width - p->pad_width;
  vfloat best = splat(-INFINITY);
  vint at = {0};
  at += (int32_t)((rows.begin - row_zero) * p->kernel_width + columns.begin - column_zero);
  for (int64_t h = rows.begin; h < rows.end; h++) {
    for (int64_t w = columns.begin; w < columns.end; w++) {
      vfloat value = load_some(x + (h * p->width + w) * p->block + lane, left);
      vint better = (vint)(value > best) | (vint)(value != value);
      int32_t here = (int32_t)((h - row_zero) * p->kernel_width + w - column_zero);
      best = choose(better, value, best);
      at = (at & ~better) | (better & here);
    }
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

static void max_row(const ull__pooling *p, const float *x, int64_t oh, float *y, uint8_t *index) {
  for (int64_t ow = 0; ow < p->out_width; ow++, y += p->block, index += p->block) {
    if (p->block == 1) max_plain_at(p, x, oh, ow, y, index);
    for (int64_t lane = 0; p->block > 1 && lane < p->block; lane += LANES) {
      max_lanes_at(p, x, oh, ow, lane, y, index);
    }
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

INLINE vint load_bytes(const uint8_t *from, int64_t left) {
  vbyte bytes = {0};
  memcpy(&bytes, from, (size_t)smaller(left, LANES));
  return __builtin_convertvector(bytes, vint);
}

static void max_backward_at(const ull__pooling *p, const float *dy, const uint8_t *index, int64_t h,
                            int64_t w, float *dx) {
  range rows = outputs_of(h, p->stride_height, p->pad_height, p->kernel_height, p->out_height);
  range columns = outputs_of(w, p->stride_width, p->pad_width, p->kernel_width, p->out_width);
  int64_t step = p->block == 1 ? 1 : LANES;
  for (int64_t lane = 0; lane < p->block; lane += step) {
    int64_t left = p->block - lane;
    vfloat sum = {0};
    float plain_sum = 0;
    for (int64_t oh = rows.begin; oh < rows.end; oh++) {
      for (int64_t ow = columns.begin; ow < columns.end; ow++) {
        int64_t out = (oh * p->out_width + ow) * p->block + lane;
        int32_t here = (int32_t)((h + p->pad_height - oh * p->stride_height) * p->kernel_width + w +
                                 p->pad_width - ow * p->stride_width);
        if (p->block == 1) {
          if (index[out] == here) plain_sum += dy[out];
          continue;
        }
        vint mine = (vint)(load_bytes(index + out, left) == here);
        sum += (vfloat)(mine & (vint)load_some(dy + out, left));
      }
    }
    if (p->block == 1) {
      *dx = plain_sum;
    } else {
      store_some(dx + lane, sum, left);
    }
  }
}

ull_status ULL__ISA_NAME(ull__max_pool2d_backward)(const ull__launch_frame *launch) {
  const ull__pooling *p = launch->constants;
  const float *dy = launch->operands[0];
  const uint8_t *index = launch->operands[1];
  float *dx = launch->operands[2];
  int64_t plane_outputs = p->out_height * p->out_width * p->block;
  PARALLEL_FOR(enough_planes(p))
  for (int64_t row = 0; row < p->planes * p->height; row++) {
    int64_t out = row / p->height * plane_outputs;
    float *to = dx + row * p->width * p->block;
    for (int64_t w = 0; w < p->width; w++) {
      max_backward_at(p, dy + out, index + out, row % p->height, w, to + w * p->block);
    }
  }
  return ULL_OK;
}

/* ---- mean ---- */

/* What the window of (oh, ow) is divided by: its elements, those in the padding counted or not. */
INLINE float window_size(const ull__pooling *p, int64_t oh, int64_t ow) {
  int64_t pad_h = p->count_padding ? p->pad_height : 0, pad_w = p->count_padding ? p->pad_width : 0;
  int64_t first_h = oh * p->stride_height - p->pad_height;
  int64_t first_w = ow * p->stride_width - p->pad_width;
  int64_t rows = smaller(first_h + p->kernel_height, p->height + pad_h) - larger(first_h, -pad_h);
  int64_t columns = smaller(first_w + p->kernel_width, p->width + pad_w) - larger(first_w, -pad_w);
  return (float)(rows * columns);
}

static void mean_at(const ull__pooling *p, const float *x, int64_t oh, int64_t ow, float *y) {
  range rows = window_of(oh, p->stride_height, p->pad_height, p->kernel_height, p->height);
  range columns = window_of(ow, p->stride_width, p->pad_width, p->kernel_width, p->width);
  vfloat size = splat(window_size(p, oh, ow));
  for (int64_t lane = 0; lane < p->block; lane += LANES) {
    int64_t left = p->block - lane;
    vfloat sum = {0};
    for (int64_t h = rows.begin; h < rows.end; h++) {
      for (int64_t w = columns.begin; w < columns.end; w++) {
        sum += load_some(x + (h * p->width + w) * p->block + lane, left);
      }
    }
    store_some(y + lane, sum / size, left);
  }
}

ull_status ULL__ISA_NAME(ull__avg_pool2d)(const ull__launch_frame *launch) {
  const ull__pooling *p = launch->constants;
  const float *x = launch->operands[0];
  float *y = launch->operands[1];
  int64_t plane_elements = p->height * p->width * p->block;
  PARALLEL_FOR(enough_planes(p))
  for (int64_t row = 0; row < p->planes * p->out_height; row++) {
    const float *plane = x + row / p->out_height * plane_elements;
    float *to = y + row * p->out_width * p->block;
    for (int64_t ow = 0; ow < p->out_width; ow++) {
      mean_at(p, plane, row % p->out_height, ow, to + ow * p->block);
    }
  }
  return ULL_OK;
}

static void mean_backward_at(const ull__pooling *p, const float *dy, int64_t h, int64_t w,
                             float *dx) {
  range rows = outputs_of(h, p->stride_height, p->pad_height, p->kernel_height, p->out_height);
  range columns = outputs_of(w, p->stride_width, p->pad_width, p->kernel_width, p->out_width);
  for (int64_t lane = 0; lane < p->block; lane += LANES) {
    int64_t left = p->block - lane;
    vfloat sum = {0};
    for (int64_t oh = rows.begin; oh < rows.end; oh++) {
      for (int64_t ow = columns.begin; ow < columns.end; ow++) {
        const float *from = dy + (oh * p->out_width + ow) * p->block + lane;
        sum += load_some(from, left) / splat(window_size(p, oh, ow));
      }
    }
    store_some(dx + lane, sum, left);
  }
}

ull_status ULL__ISA_NAME(ull__avg_pool2d_backward)(const ull__launch_frame *launch) {
  const ull__pooling *p = launch->constants;
  const float *dy = launch->operands[0];
  float *dx = launch->operands[1];
  int64_t plane_outputs = p->out_height * p->out_width * p->block;
  PARALLEL_FOR(enough_planes(p))
  for (int64_t row = 0; row < p->planes * p->height; row++) {
    const float *plane = dy + row / p->height * plane_outputs;
    float *to = dx + row * p->width * p->block;
    for (int64_t w = 0; w < p->width; w++) {
      mean_backward_at(p, plane, row % p->height, w, to + w * p->block);
    }
  }
  return ULL_OK;
}

/* ---- mean over all positions ---- */

/* Sum over positions of the lanes from `lane`, in float32 over short runs, then in double. */
INLINE vdouble sum_positions(const ull__global_pooling *p, const float *plane, int64_t lane) {
  vdouble total = {0};
  int64_t left = p->block - lane;
  for (int64_t from = 0; from < p->positions; from += 64) {
    vfloat sum = {0};
    for (int64_t i = from; i < smaller(from + 64, p->positions); i++) {
      sum += load_some(plane + i * p->block + lane, left);
    }
    total += to_double(sum);
  }
  return total;
}

static double sum_run(const float *x, int64_t count) {
  vdouble total = {0};
  for (int64_t i = 0; i < count; i += LANES) total += to_double(load_some(x + i, count - i));
  return sum_lanes(total);
}

static void mean_of_plane(const ull__global_pooling *p, const float *plane, int64_t channels,
                          float *y) {
  if (p->block == 1) {
    *y = (float)(sum_run(plane, p->positions) / (double)p->positions);
    return;
  }
  for (int64_t lane = 0; lane < channels; lane += LANES) {
    vdouble mean = sum_positions(p, plane, lane) / (double)p->positions;
    store_some(y + lane, __builtin_convertvector(mean, vfloat), channels - lane);
  }
}

ull_status ULL__ISA_NAME(ull__global_avg_pool)(const ull__launch_frame *launch) {
  const ull__global_pooling *p = launch->constants;
  const float *x = launch->operands[0];
  float *y = launch->operands[1];
  int64_t plane_elements = p->positions * p->block;
  PARALLEL_FOR(p->batch * p->blocks * plane_elements >= ENOUGH_ELEMENTS)
  for (int64_t plane = 0; plane < p->batch * p->blocks; plane++) {
    int64_t channel = plane % p->blocks * p->block;
    mean_of_plane(p, x + plane * plane_elements, smaller(p->block, p->channels - channel),
                  y + plane / p->blocks * p->channels + channel);
  }
  return ULL_OK;
}

static void spread_mean(const ull__global_pooling *p, const float *dy, int64_t channels,
                        float *plane) {
  vfloat count = splat((float)p->positions);
  if (p->block == 1) {
    vfloat value = splat(*dy) / count;
    for (int64_t i = 0; i < p->positions; i += LANES) {
      store_some(plane + i, value, p->positions - i);
    }
    return;
  }
  for (int64_t lane = 0; lane < p->block; lane += LANES) {
    vfloat value = {0};
    if (lane < channels) value = load_some(dy + lane, channels - lane) / count;
    for (int64_t i = 0; i < p->positions; i++) {
      store_some(plane + i * p->block + lane, value, p->block - lane);
    }
  }
}

ull_status ULL__ISA_NAME(ull__global_avg_pool_backward)(const ull__launch_frame *launch) {
  const ull__global_pooling *p = launch->constants;
  const float *dy = launch->operands[0];
  float *dx = launch->operands[1];
  int64_t plane_elements = p->positions * p->block;
  PARALLEL_FOR(p->batch * p->blocks * plane_elements >= ENOUGH_ELEMENTS)
  for (int64_t plane = 0; plane < p->batch * p->blocks; plane++) {
    int64_t channel = plane % p->blocks * p->block;
    spread_mean(p, dy + plane / p->blocks * p->channels + channel,
                smaller(p->block, p->channels - channel), dx + plane * plane_elements);
  }
  return ULL_OK;
}
