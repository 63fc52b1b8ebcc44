/* Means over windows: of one size at a stride, or dividing the image as evenly as whole elements
 * allow. Backward adds to each input element the gradients of the windows that hold it, in window
 * order. */
#include "kernels/cpu/loops/windows.h"

/* Part `o` of `count` even parts of an axis; neighbours may share an element. */
INLINE range part_of(int64_t o, int64_t size, int64_t count) {
  return (range){o * size / count, divide_up((o + 1) * size, count)};
}

/* Outputs whose windows hold input `i`. */
INLINE range outputs_of(int64_t i, int64_t stride, int64_t pad, int64_t kernel, int64_t count) {
  int64_t first = i + pad - kernel + 1;
  return (range){first > 0 ? divide_up(first, stride) : 0, smaller((i + pad) / stride + 1, count)};
}

/* `divided` is p->divided as a constant, so that each kind of window has loops of its own. */
INLINE range rows_of(const ull__pooling *p, bool divided, int64_t oh) {
  return divided ? part_of(oh, p->height, p->out_height)
                 : window_of(oh, p->stride_height, p->pad_height, p->kernel_height, p->height);
}

INLINE range columns_of(const ull__pooling *p, bool divided, int64_t ow) {
  return divided ? part_of(ow, p->width, p->out_width)
                 : window_of(ow, p->stride_width, p->pad_width, p->kernel_width, p->width);
}

/* What the window of (oh, ow) is divided by: its elements, those in the padding counted or not. */
INLINE float window_size(const ull__pooling *p, bool divided, int64_t oh, int64_t ow) {
  if (divided) {
    range rows = rows_of(p, true, oh), columns = columns_of(p, true, ow);
    return (float)((rows.end - rows.begin) * (columns.end - columns.begin));
  }
  int64_t pad_h = p->count_padding ? p->pad_height : 0, pad_w = p->count_padding ? p->pad_width : 0;
  int64_t first_h = oh * p->stride_height - p->pad_height;
  int64_t first_w = ow * p->stride_width - p->pad_width;
  int64_t rows = smaller(first_h + p->kernel_height, p->height + pad_h) - larger(first_h, -pad_h);
  int64_t columns = smaller(first_w + p->kernel_width, p->width + pad_w) - larger(first_w, -pad_w);
  return (float)(rows * columns);
}

INLINE void mean_row(const ull__pooling *p, bool divided, const float *x, int64_t oh, float *y) {
  range rows = rows_of(p, divided, oh);
  for (int64_t ow = 0; ow < p->out_width; ow++, y += p->block) {
    range columns = columns_of(p, divided, ow);
    vfloat size = splat(window_size(p, divided, oh, ow));
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
    if (p->divided) {
      mean_row(p, true, plane, row % p->out_height, to);
    } else {
      mean_row(p, false, plane, row % p->out_height, to);
    }
  }
  return ULL_OK;
}

INLINE void mean_backward_at(const ull__pooling *p, bool divided, const float *dy, range rows,
                             range columns, float *dx) {
  for (int64_t lane = 0; lane < p->block; lane += LANES) {
    int64_t left = p->block - lane;
    vfloat sum = {0};
    for (int64_t oh = rows.begin; oh < rows.end; oh++) {
      for (int64_t ow = columns.begin; ow < columns.end; ow++) {
        const float *from = dy + (oh * p->out_width + ow) * p->block + lane;
        sum += load_some(from, left) / splat(window_size(p, divided, oh, ow));
      }
    }
    store_some(dx + lane, sum, left);
  }
}

/* The even parts that hold an element follow the rule of the parts, with the roles exchanged. */
INLINE void mean_backward_row(const ull__pooling *p, bool divided, const float *dy, int64_t h,
                              float *dx) {
  range rows =
      divided ? part_of(h, p->out_height, p->height)
              : outputs_of(h, p->stride_height, p->pad_height, p->kernel_height, p->out_height);
  for (int64_t w = 0; w < p->width; w++, dx += p->block) {
    range columns =
        divided ? part_of(w, p->out_width, p->width)
                : outputs_of(w, p->stride_width, p->pad_width, p->kernel_width, p->out_width);
    mean_backward_at(p, divided, dy, rows, columns, dx);
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
    if (p->divided) {
      mean_backward_row(p, true, plane, row % p->height, to);
    } else {
      mean_backward_row(p, false, plane, row % p->height, to);
    }
  }
  return ULL_OK;
}
