/* Batch and layer normalisation. (The normalising itself is element-wise.) */
#include <math.h>

#include "kernels/reference/reference.h"

/* ---- batch ---- */

static ull_status run_statistics(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[0];
  const double eps = ull__node_real(&call->node, "eps");
  const ull__axis axis = ull__axis_of(x, 1);
  const int64_t count = axis.outer * axis.inner;
  for (int64_t c = 0; c < axis.size; c++) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
      sum += ull__get(x, (i / axis.inner * axis.size + c) * axis.inner + i % axis.inner);
    }
    const double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = (i / axis.inner * axis.size + c) * axis.inner + i % axis.inner;
      squares += (ull__get(x, at) - mean) * (ull__get(x, at) - mean);
    }
    ull__set(&call->outputs[0], c, mean);
    ull__set(&call->outputs[1], c, 1 / sqrt(squares / (double)count + eps));
    ull__set(&call->outputs[2], c, squares / (double)(count - 1));
  }
  return ULL_OK;
}

static ull_status run_update(const ull__reference_call *call) {
  const double momentum = ull__node_real(&call->node, "momentum");
  for (int64_t c = 0; c < call->inputs[0].count; c++) {
    for (uint32_t k = 0; k < 2; k++) {
      const double before = ull__get(&call->inputs[k], c), now = ull__get(&call->inputs[2 + k], c);
      ull__set(&call->outputs[k], c, (1 - momentum) * before + momentum * now);
    }
  }
  return ULL_OK;
}

static ull_status run_invstd(const ull__reference_call *call) {
  const double eps = ull__node_real(&call->node, "eps");
  for (int64_t c = 0; c < call->inputs[0].count; c++) {
    ull__set(&call->outputs[0], c, 1 / sqrt(ull__get(&call->inputs[0], c) + eps));
  }
  return ULL_OK;
}

/* x, dy, mean, invstd, weight, and the bias where ReLU's backward is joined on. */
enum { X, DY, MEAN, INVSTD, WEIGHT, BIAS };

static double masked_dy(const ull__reference_call *call, int64_t at, int64_t channel) {
  const double dy = ull__get(&call->inputs[DY], at);
  if (call->node.input_count <= BIAS || call->inputs[BIAS].data == NULL) return dy;
  const double centred = ull__get(&call->inputs[X], at) - ull__get(&call->inputs[MEAN], channel);
  const double normalized = centred * ull__get(&call->inputs[INVSTD], channel);
  const double y = normalized * ull__get(&call->inputs[WEIGHT], channel) +
                   ull__get(&call->inputs[BIAS], channel);
  return y > 0 ? dy : 0;
}

static ull_status run_batch_backward(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[X];
  const ull__axis axis = ull__axis_of(x, 1);
  const int64_t count = axis.outer * axis.inner;
  for (int64_t c = 0; c < axis.size; c++) {
    const double mean = ull__get(&call->inputs[MEAN], c);
    const double invstd = ull__get(&call->inputs[INVSTD], c);
    double sum = 0, products = 0;
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = (i / axis.inner * axis.size + c) * axis.inner + i % axis.inner;
      sum += masked_dy(call, at, c);
      products += masked_dy(call, at, c) * (ull__get(x, at) - mean) * invstd;
    }
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = (i / axis.inner * axis.size + c) * axis.inner + i % axis.inner;
      const double normalized = (ull__get(x, at) - mean) * invstd;
      const double centred = masked_dy(call, at, c) - (sum + normalized * products) / (double)count;
      ull__set(&call->outputs[0], at, ull__get(&call->inputs[WEIGHT], c) * invstd * centred);
    }
    ull__set(&call->outputs[1], c, products);
    ull__set(&call->outputs[2], c, sum);
  }
  return ULL_OK;
}

/* ---- layer ---- */

static ull_status run_layer_norm(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[0];
  const double eps = ull__node_real(&call->node, "eps");
  const int64_t width = ull__last(x);
  for (int64_t row = 0; row < x->count / width; row++) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < width; i++) sum += ull__get(x, row * width + i);
    const double mean = sum / (double)width;
    for (int64_t i = 0; i < width; i++) {
      squares += (ull__get(x, row * width + i) - mean) * (ull__get(x, row * width + i) - mean);
    }
    const double invstd = 1 / sqrt(squares / (double)width + eps);
    for (int64_t i = 0; i < width; i++) {
      const double normalized = (ull__get(x, row * width + i) - mean) * invstd;
      ull__set(&call->outputs[0], row * width + i,
               normalized * ull__get(&call->inputs[1], i) + ull__get(&call->inputs[2], i));
    }
    ull__set(&call->outputs[1], row, mean);
    ull__set(&call->outputs[2], row, invstd);
  }
  return ULL_OK;
}

static double normalized_element(const ull__reference_call *call, int64_t width, int64_t at) {
  const double mean = ull__get(&call->inputs[MEAN], at / width);
  return (ull__get(&call->inputs[X], at) - mean) * ull__get(&call->inputs[INVSTD], at / width);
}

static void layer_parameter_gradients(const ull__reference_call *call, int64_t width) {
  for (int64_t i = 0; i < width; i++) {
    double dweight = 0, dbias = 0;
    for (int64_t at = i; at < call->inputs[X].count; at += width) {
      dweight += ull__get(&call->inputs[DY], at) * normalized_element(call, width, at);
      dbias += ull__get(&call->inputs[DY], at);
    }
    ull__set(&call->outputs[1], i, dweight);
    ull__set(&call->outputs[2], i, dbias);
  }
}

static ull_status run_layer_backward(const ull__reference_call *call) {
  const ull__tensor *dy = &call->inputs[DY], *weight = &call->inputs[WEIGHT];
  const int64_t width = ull__last(dy);
  layer_parameter_gradients(call, width);
  for (int64_t row = 0; row < dy->count / width; row++) {
    double sum = 0, products = 0;
    for (int64_t i = 0; i < width; i++) {
      const int64_t at = row * width + i;
      sum += ull__get(dy, at) * ull__get(weight, i);
      products += ull__get(dy, at) * ull__get(weight, i) * normalized_element(call, width, at);
    }
    for (int64_t i = 0; i < width; i++) {
      const int64_t at = row * width + i;
      const double mean = (sum + normalized_element(call, width, at) * products) / (double)width;
      ull__set(&call->outputs[0], at,
               ull__get(&call->inputs[INVSTD], row) *
                   (ull__get(dy, at) * ull__get(weight, i) - mean));
    }
  }
  return ULL_OK;
}

const ull__reference_row ull__reference_normalization[] = {
    {"batch_norm_statistics", run_statistics, 0},
    {"batch_norm_update", run_update, 0},
    {"batch_norm_invstd", run_invstd, 0},
    {"batch_norm_backward", run_batch_backward, UINT16_MAX},
    {"layer_norm", run_layer_norm, 0},
    {"layer_norm_backward", run_layer_backward, UINT16_MAX},
    {NULL, NULL, 0},
};
