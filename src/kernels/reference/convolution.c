/* Convolution and its gradients: one walk over all products of an input element, a weight and an
 * output element, each of which is added to what is asked for. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/reference/reference.h"

typedef struct convolution {
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
} convolution;

static convolution read_convolution(const ull__node *node) {
  return (convolution){
      .stride_h = ull__node_int(node, "stride_h"),
      .stride_w = ull__node_int(node, "stride_w"),
      .pad_h = ull__node_int(node, "pad_h"),
      .pad_w = ull__node_int(node, "pad_w"),
      .dilation_h = ull__node_int(node, "dilation_h"),
      .dilation_w = ull__node_int(node, "dilation_w"),
      .groups = ull__node_int(node, "groups"),
  };
}

typedef enum wanted { OUTPUT, INPUT, WEIGHT } wanted;

/* The three values as shapes; sums in double, one for each element of the wanted one. */
typedef struct walk {
  convolution c;
  const ull__tensor *x, *w, *y;
  wanted wanted;
  double *sums;
} walk;

static void add_product(const walk *k, int64_t x, int64_t w, int64_t y) {
  if (k->wanted == OUTPUT) k->sums[y] += ull__get(k->x, x) * ull__get(k->w, w);
  if (k->wanted == INPUT) k->sums[x] += ull__get(k->y, y) * ull__get(k->w, w);
  if (k->wanted == WEIGHT) k->sums[w] += ull__get(k->x, x) * ull__get(k->y, y);
}

/* All products of output element (n, o, oh, ow). */
static void walk_window(const walk *k, int64_t n, int64_t o, int64_t oh, int64_t ow) {
  const int64_t group_inputs = k->w->dims[1];
  const int64_t first_input = o / (k->w->dims[0] / k->c.groups) * group_inputs;
  for (int64_t i = 0; i < group_inputs; i++) {
    for (int64_t kh = 0; kh < k->w->dims[2]; kh++) {
      for (int64_t kw = 0; kw < k->w->dims[3]; kw++) {
        const int64_t h = oh * k->c.stride_h - k->c.pad_h + kh * k->c.dilation_h;
        const int64_t w = ow * k->c.stride_w - k->c.pad_w + kw * k->c.dilation_w;
        if (h < 0 || h >= k->x->dims[2] || w < 0 || w >= k->x->dims[3]) continue;
        add_product(k, ull__place4(k->x, n, first_input + i, h, w), ull__place4(k->w, o, i, kh, kw),
                    ull__place4(k->y, n, o, oh, ow));
      }
    }
  }
}

static ull_status run_walk(walk *k, const ull__tensor *out) {
  k->sums = ull__alloc((size_t)out->count, sizeof *k->sums);
  if (k->sums == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (int64_t n = 0; n < k->y->dims[0]; n++) {
    for (int64_t o = 0; o < k->y->dims[1]; o++) {
      for (int64_t oh = 0; oh < k->y->dims[2]; oh++) {
        for (int64_t ow = 0; ow < k->y->dims[3]; ow++) walk_window(k, n, o, oh, ow);
      }
    }
  }
  for (int64_t i = 0; i < out->count; i++) ull__set(out, i, k->sums[i]);
  ull__free(k->sums);
  return ULL_OK;
}

static ull_status run_conv2d(const ull__reference_call *call) {
  const ull__tensor *y = &call->outputs[0], *bias = &call->inputs[2];
  walk k = {read_convolution(&call->node), &call->inputs[0], &call->inputs[1], y, OUTPUT, NULL};
  ULL__TRY(run_walk(&k, y));
  if (call->node.input_count < 3 || bias->data == NULL) return ULL_OK;
  const int64_t inner = y->dims[2] * y->dims[3];
  for (int64_t i = 0; i < y->count; i++) {
    ull__accumulate(y, i, ull__get(bias, i / inner % y->dims[1]));
  }
  return ULL_OK;
}

static ull_status run_backward_input(const ull__reference_call *call) {
  const ull__tensor *dx = &call->outputs[0];
  walk k = {read_convolution(&call->node), dx, &call->inputs[1], &call->inputs[0], INPUT, NULL};
  return run_walk(&k, dx);
}

static ull_status run_backward_weight(const ull__reference_call *call) {
  const ull__tensor *dw = &call->outputs[0];
  walk k = {read_convolution(&call->node), &call->inputs[0], dw, &call->inputs[1], WEIGHT, NULL};
  return run_walk(&k, dw);
}

const ull__reference_row ull__reference_convolution[] = {
    {"conv2d", run_conv2d, 0},
    {"conv2d_backward_input", run_backward_input, 0},
    {"conv2d_backward_weight", run_backward_weight, 0},
    {NULL, NULL, 0},
};
