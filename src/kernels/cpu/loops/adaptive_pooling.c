/* Means over windows that divide an image into a given number of rows and columns, as evenly as
 * whole elements allow: window o of n over a size begins at floor(o * size / n) and ends at
 * ceil((o + 1) * size / n), so neighbours may share an element. Backward adds to each input element
 * the gradients of the windows that hold it, in window order. */
#include "kernels/cpu/loops/pooling.h"

#include "kernels/cpu/loops/vector.h"

typedef struct range {
  int64_t begin, end;
} range;

INLINE range window_of(int64_t o, int64_t size, int64_t count) {
  return (range){o * size / count, divide_up((o + 1) * size, count)};
}

/* Windows that hold input `i`: the same rule with the roles exchanged. */
INLINE range outputs_of(int64_t i, int64_t size, int64_t count) {
  return window_of(i, count, size);
}

INLINE float elements_in(const ull__pooling *p, int64_t oh, int64_t ow) {
  range rows = window_of(oh, p->height, p->out_height);
  range columns = window_of(ow, p->width, p->out_width);
  return (float)((rows.end - rows.begin) * (columns.end - columns.begin));
}

INLINE bool enough_planes(const ull__pooling *p) {
  return p->planes * p->block * p->height * p->width >= ENOUGH_ELEMENTS;
}

static void mean_at(const ull__pooling *p, const float *x, int64_t oh, int64_t ow, float *y) {
  range rows = window_of(oh, p->height, p->out_height);
  range columns = window_of(ow, p->width, p->out_width);
  vfloat size = splat(elements_in(p, oh, ow));
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

ull_status ULL__ISA_NAME(ull__adaptive_avg_pool2d)(const ull__launch_frame *launch) {
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

static void backward_at(const ull__pooling *p, const float *dy, int64_t h, int64_t w, float *dx) {
  range rows = outputs_of(h, p->height, p->out_height);
  range columns = outputs_of(w, p->width, p->out_width);
  for (int64_t lane = 0; lane < p->block; lane += LANES) {
    int64_t left = p->block - lane;
    vfloat sum = {0};
    for (int64_t oh = rows.begin; oh < rows.end; oh++) {
      for (int64_t ow = columns.begin; ow < columns.end; ow++) {
        const float *from = dy + (oh * p->out_width + ow) * p->block + lane;
        sum += load_some(from, left) / splat(elements_in(p, oh, ow));
      }
    }
    store_some(dx + lane, sum, left);
  }
}

ull_status ULL__ISA_NAME(ull__adaptive_avg_pool2d_backward)(const ull__launch_frame *launch) {
  const ull__pooling *p = launch->constants;
  const float *dy = launch->operands[0];
  float *dx = launch->operands[1];
  int64_t plane_outputs = p->out_height * p->out_width * p->block;
  PARALLEL_FOR(enough_planes(p))
  for (int64_t row = 0; row < p->planes * p->height; row++) {
    const float *plane = dy + row / p->height * plane_outputs;
    float *to = dx + row * p->width * p->block;
    for (int64_t w = 0; w < p->width; w++) {
      backward_at(p, plane, row % p->height, w, to + w * p->block);
    }
  }
  return ULL_OK;
}
