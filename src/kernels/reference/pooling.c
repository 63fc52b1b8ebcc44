/* Pooling over windows of [N, C, H, W]. */
#include <math.h>
#include <string.h>

#include "kernels/reference/reference.h"

typedef struct window {
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
} window;

static window read_window(const ull__node *node) {
  return (window){
      .kernel_h = ull__node_int(node, "kernel_h"),
      .kernel_w = ull__node_int(node, "kernel_w"),
      .stride_h = ull__node_int(node, "stride_h"),
      .stride_w = ull__node_int(node, "stride_w"),
      .pad_h = ull__node_int(node, "pad_h"),
      .pad_w = ull__node_int(node, "pad_w"),
  };
}

/* Place in x of position p of the window of pooled element i, or -1 in the padding. */
static int64_t window_place(const window *k, const ull__tensor *x, const ull__tensor *pooled,
                            int64_t i, int64_t p) {
  const int64_t oh = i / pooled->dims[3] % pooled->dims[2], ow = i % pooled->dims[3];
  const int64_t plane = i / (pooled->dims[2] * pooled->dims[3]);
  const int64_t h = oh * k->stride_h - k->pad_h + p / k->kernel_w;
  const int64_t w = ow * k->stride_w - k->pad_w + p % k->kernel_w;
  if (h < 0 || h >= x->dims[2] || w < 0 || w >= x->dims[3]) return -1;
  return (plane * x->dims[2] + h) * x->dims[3] + w;
}

static void set_zero(const ull__tensor *tensor) {
  memset(tensor->data, 0, (size_t)tensor->count * ull_dtype_bytes(tensor->dtype));
}

static ull_status run_max(const ull__reference_call *call) {
  const window k = read_window(&call->node);
  const ull__tensor *x = &call->inputs[0], *y = &call->outputs[0];
  uint8_t *index = call->outputs[1].data;
  for (int64_t i = 0; i < y->count; i++) {
    double most = -INFINITY;
    int64_t best = -1;
    for (int64_t p = 0; p < k.kernel_h * k.kernel_w; p++) {
      const int64_t at = window_place(&k, x, y, i, p);
      if (at < 0) continue;
      const double value = ull__get(x, at);
      if (best >= 0 && !(value > most) && !(isnan(value) && !isnan(most))) continue;
      most = value;
      best = p;
    }
    ull__set(y, i, most);
    index[i] = (uint8_t)best;
  }
  return ULL_OK;
}

static ull_status run_max_backward(const ull__reference_call *call) {
  const window k = read_window(&call->node);
  const ull__tensor *dy = &call->inputs[0], *dx = &call->outputs[0];
  const uint8_t *index = call->inputs[1].data;
  set_zero(dx);
  for (int64_t i = 0; i < dy->count; i++) {
    const int64_t at = window_place(&k, dx, dy, i, index[i]);
    if (at >= 0) ull__accumulate(dx, at, ull__get(dy, i));
  }
  return ULL_OK;
}

/* How many elements the mean of pooled element i is over. */
static int64_t window_count(const ull__node *node, const window *k, const ull__tensor *x,
                            const ull__tensor *pooled, int64_t i) {
  const int64_t positions = k->kernel_h * k->kernel_w;
  if (ull__node_int(node, "count_include_pad") != 0) return positions;
  int64_t count = 0;
  for (int64_t p = 0; p < positions; p++) count += window_place(k, x, pooled, i, p) >= 0;
  return count;
}

static ull_status run_avg(const ull__reference_call *call) {
  const window k = read_window(&call->node);
  const ull__tensor *x = &call->inputs[0], *y = &call->outputs[0];
  for (int64_t i = 0; i < y->count; i++) {
    double sum = 0;
    for (int64_t p = 0; p < k.kernel_h * k.kernel_w; p++) {
      const int64_t at = window_place(&k, x, y, i, p);
      if (at >= 0) sum += ull__get(x, at);
    }
    ull__set(y, i, sum / (double)window_count(&call->node, &k, x, y, i));
  }
  return ULL_OK;
}

static ull_status run_avg_backward(const ull__reference_call *call) {
  const window k = read_window(&call->node);
  const ull__tensor *dy = &call->inputs[0], *dx = &call->outputs[0];
  set_zero(dx);
  for (int64_t i = 0; i < dy->count; i++) {
    const double share = ull__get(dy, i) / (double)window_count(&call->node, &k, dx, dy, i);
    for (int64_t p = 0; p < k.kernel_h * k.kernel_w; p++) {
      const int64_t at = window_place(&k, dx, dy, i, p);
      if (at >= 0) ull__accumulate(dx, at, share);
    }
  }
  return ULL_OK;
}

static ull_status run_global(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[0], *y = &call->outputs[0];
  const int64_t plane = x->dims[2] * x->dims[3];
  for (int64_t i = 0; i < y->count; i++) {
    double sum = 0;
    for (int64_t p = 0; p < plane; p++) sum += ull__get(x, i * plane + p);
    ull__set(y, i, sum / (double)plane);
  }
  return ULL_OK;
}

static ull_status run_global_backward(const ull__reference_call *call) {
  const ull__tensor *dy = &call->inputs[0], *dx = &call->outputs[0];
  const int64_t plane = dx->dims[2] * dx->dims[3];
  for (int64_t i = 0; i < dx->count; i++) {
    ull__set(dx, i, ull__get(dy, i / plane) / (double)plane);
  }
  return ULL_OK;
}

/* Window o of `count` over `size` elements, as PyTorch divides them; ends before `end`. */
static void adaptive_window(int64_t o, int64_t size, int64_t count, int64_t *begin, int64_t *end) {
  *begin = o * size / count;
  *end = ((o + 1) * size + count - 1) / count;
}

/* Calls `visit` with the place in x of each element of pooled element i's window, and the window's
 * number of elements. */
static void visit_adaptive(const ull__tensor *x, const ull__tensor *pooled, int64_t i,
                           void (*visit)(void *context, int64_t at, int64_t elements),
                           void *context) {
  const int64_t oh = i / pooled->dims[3] % pooled->dims[2], ow = i % pooled->dims[3];
  const int64_t plane = i / (pooled->dims[2] * pooled->dims[3]);
  int64_t top, bottom, left, right;
  adaptive_window(oh, x->dims[2], pooled->dims[2], &top, &bottom);
  adaptive_window(ow, x->dims[3], pooled->dims[3], &left, &right);
  for (int64_t h = top; h < bottom; h++)
    for (int64_t w = left; w < right; w++)
      visit(context, (plane * x->dims[2] + h) * x->dims[3] + w, (bottom - top) * (right - left));
}

typedef struct adaptive_visit {
  const ull__tensor *tensor; /* x, or its gradient */
  double value;              /* the sum so far, or the gradient of the mean */
} adaptive_visit;

static void gather(void *context, int64_t at, int64_t elements) {
  adaptive_visit *visit = context;
  visit->value += ull__get(visit->tensor, at) / (double)elements;
}

static void spread(void *context, int64_t at, int64_t elements) {
  const adaptive_visit *visit = context;
  ull__accumulate(visit->tensor, at, visit->value / (double)elements);
}

static ull_status run_adaptive(const ull__reference_call *call) {
  const ull__tensor *y = &call->outputs[0];
  for (int64_t i = 0; i < y->count; i++) {
    adaptive_visit visit = {.tensor = &call->inputs[0]};
    visit_adaptive(&call->inputs[0], y, i, gather, &visit);
    ull__set(y, i, visit.value);
  }
  return ULL_OK;
}

static ull_status run_adaptive_backward(const ull__reference_call *call) {
  const ull__tensor *dy = &call->inputs[0], *dx = &call->outputs[0];
  set_zero(dx);
  for (int64_t i = 0; i < dy->count; i++) {
    adaptive_visit visit = {.tensor = dx, .value = ull__get(dy, i)};
    visit_adaptive(dx, dy, i, spread, &visit);
  }
  return ULL_OK;
}

const ull__reference_row ull__reference_pooling[] = {
    {"max_pool2d", run_max, 0},
    {"max_pool2d_backward", run_max_backward, 0},
    {"avg_pool2d", run_avg, 0},
    {"avg_pool2d_backward", run_avg_backward, 0},
    {"global_avg_pool", run_global, 0},
    {"global_avg_pool_backward", run_global_backward, 0},
    {"adaptive_avg_pool2d", run_adaptive, 0},
    {"adaptive_avg_pool2d_backward", run_adaptive_backward, 0},
    {NULL, NULL, 0},
};
