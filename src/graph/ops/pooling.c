/* Pooling over windows of [N, C, H, W]. Max pooling gives the position of the maximum in its
 * window, one byte an element, so that backward needs neither input nor output. */
#include "graph/ops/ops.h"

#define WINDOW_ATTRIBUTES                                                   \
  ULL__ATTRIBUTE_INT("kernel_h", 0), ULL__ATTRIBUTE_INT("kernel_w", 0),     \
      ULL__ATTRIBUTE_INT("stride_h", 1), ULL__ATTRIBUTE_INT("stride_w", 1), \
      ULL__ATTRIBUTE_INT("pad_h", 0), ULL__ATTRIBUTE_INT("pad_w", 0)
#define MAX_ATTRIBUTES WINDOW_ATTRIBUTES, ULL__ATTRIBUTE_INT("ceil_mode", 0)
#define AVG_ATTRIBUTES WINDOW_ATTRIBUTES, ULL__ATTRIBUTE_INT("count_include_pad", 1)
#define INPUT_ATTRIBUTES ULL__ATTRIBUTE_INT("input_h", 0), ULL__ATTRIBUTE_INT("input_w", 0)

static const ull__attribute_spec max_attributes[] = {MAX_ATTRIBUTES, {0}};
static const ull__attribute_spec max_backward_attributes[] = {
    MAX_ATTRIBUTES, INPUT_ATTRIBUTES, {0}};
static const ull__attribute_spec avg_attributes[] = {AVG_ATTRIBUTES, {0}};
static const ull__attribute_spec avg_backward_attributes[] = {
    AVG_ATTRIBUTES, INPUT_ATTRIBUTES, {0}};
static const ull__attribute_spec global_backward_attributes[] = {INPUT_ATTRIBUTES, {0}};
static const ull__attribute_spec adaptive_attributes[] = {
    ULL__ATTRIBUTE_INT("output_h", 1), ULL__ATTRIBUTE_INT("output_w", 1), {0}};
static const ull__attribute_spec adaptive_backward_attributes[] = {
    ULL__ATTRIBUTE_INT("output_h", 1), ULL__ATTRIBUTE_INT("output_w", 1), INPUT_ATTRIBUTES, {0}};

enum { MOST = INT32_MAX, MOST_POSITIONS = 256 };

static ull_status read_window(const ull__inference *inference, const char *kernel,
                              const char *stride, const char *pad, ull__window *out) {
  *out = (ull__window){.dilation = 1};
  ULL__TRY(ull__infer_int_between(inference, kernel, 1, MOST, &out->kernel));
  ULL__TRY(ull__infer_int_between(inference, stride, 1, MOST, &out->stride));
  return ull__infer_int_between(inference, pad, 0, out->kernel / 2, &out->pad);
}

static ull_status infer_pooled(const ull__inference *inference, const ull__shape *x,
                               ull__shape *out) {
  ull__window h, w;
  ULL__TRY(read_window(inference, "kernel_h", "stride_h", "pad_h", &h));
  ULL__TRY(read_window(inference, "kernel_w", "stride_w", "pad_w", &w));
  if (ull__operator_attribute(inference->node->op, "ceil_mode") >= 0) {
    int64_t ceil_mode = 0;
    ULL__TRY(ull__infer_int_between(inference, "ceil_mode", 0, 1, &ceil_mode));
    h.ceil_mode = w.ceil_mode = ceil_mode != 0;
    if (h.kernel * w.kernel > MOST_POSITIONS) {
      return ull__infer_invalid(inference, "a window of %lld x %lld elements; at most %d together",
                                (long long)h.kernel, (long long)w.kernel, MOST_POSITIONS);
    }
  } else {
    ULL__TRY(ull__infer_int_between(inference, "count_include_pad", 0, 1, NULL));
  }
  *out = *x;
  ULL__TRY(ull__infer_window(inference, x->dims[2], &h, &out->dims[2]));
  return ull__infer_window(inference, x->dims[3], &w, &out->dims[3]);
}

static ull_status infer_pool(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 1));
  ULL__TRY(ull__infer_rank(inference, 0, 4));
  ULL__TRY(infer_pooled(inference, ull__infer_shape(inference, 0), &inference->shapes[0]));
  inference->shapes[1] = inference->shapes[0];
  inference->dtypes[1] = ULL_UINT8;
  return ULL_OK;
}

/* Output 0 is [N, C, input_h, input_w] of input 0. */
static ull_status infer_input_size(ull__inference *inference) {
  int64_t h = 0, w = 0;
  ULL__TRY(ull__infer_floats(inference, 1));
  ULL__TRY(ull__infer_rank(inference, 0, 4));
  ULL__TRY(ull__infer_int_between(inference, "input_h", 1, MOST, &h));
  ULL__TRY(ull__infer_int_between(inference, "input_w", 1, MOST, &w));
  ull__infer_like(inference, 0, 0);
  inference->shapes[0].dims[2] = ull__dim_of(h);
  inference->shapes[0].dims[3] = ull__dim_of(w);
  return ULL_OK;
}

static ull_status infer_pool_backward(ull__inference *inference) {
  ull__shape pooled;
  ULL__TRY(infer_input_size(inference));
  ULL__TRY(infer_pooled(inference, &inference->shapes[0], &pooled));
  if (!ull__shape_equal(&pooled, ull__infer_shape(inference, 0))) {
    return ull__infer_invalid(inference, "input 0 is no gradient of this pooling");
  }
  if (inference->node->input_count < 2) return ULL_OK;
  ULL__TRY(ull__infer_dtype(inference, 1, ULL_UINT8));
  return ull__infer_same_shape(inference, 0, 1);
}

static ull_status infer_global(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 1));
  ULL__TRY(ull__infer_rank(inference, 0, 4));
  ull__infer_like(inference, 0, 0);
  if (inference->shapes[0].dims[2].batch || inference->shapes[0].dims[3].batch) {
    return ull__infer_invalid(inference, "a mean over the batch");
  }
  inference->shapes[0].dims[2] = inference->shapes[0].dims[3] = ull__dim_of(1);
  return ULL_OK;
}

static ull_status infer_global_backward(ull__inference *inference) {
  ULL__TRY(infer_input_size(inference));
  const ull__shape *dy = ull__infer_shape(inference, 0);
  if (dy->dims[2].constant == 1 && dy->dims[3].constant == 1) return ULL_OK;
  return ull__infer_invalid(inference, "input 0 has more than one element a channel");
}

/* Windows o of n from floor(o * size / n) to ceil((o + 1) * size / n), PyTorch's. */
static ull_status infer_adaptive(ull__inference *inference) {
  int64_t h = 0, w = 0;
  ULL__TRY(infer_global(inference));
  ULL__TRY(ull__infer_int_between(inference, "output_h", 1, MOST, &h));
  ULL__TRY(ull__infer_int_between(inference, "output_w", 1, MOST, &w));
  inference->shapes[0].dims[2] = ull__dim_of(h);
  inference->shapes[0].dims[3] = ull__dim_of(w);
  return ULL_OK;
}

static ull_status infer_adaptive_backward(ull__inference *inference) {
  int64_t h = 0, w = 0;
  ULL__TRY(infer_input_size(inference));
  ULL__TRY(ull__infer_int_between(inference, "output_h", 1, MOST, &h));
  ULL__TRY(ull__infer_int_between(inference, "output_w", 1, MOST, &w));
  const ull__shape *dy = ull__infer_shape(inference, 0);
  if (!dy->dims[2].batch && dy->dims[2].constant == h && !dy->dims[3].batch &&
      dy->dims[3].constant == w)
    return ULL_OK;
  return ull__infer_invalid(inference, "input 0 is no gradient of this pooling");
}

static ull_status emit_backward(ull__gradients *gradients, const ull__node *node, const char *op,
                                uint32_t input_count) {
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  const ull__value_id inputs[] = {ull__gradients_of(gradients, node->outputs[0]),
                                  node->output_count > 1 ? node->outputs[1] : ULL__NONE};
  ull__attribute_setting settings[ULL__MAX_ATTRIBUTES];
  uint32_t count = ull__node_settings_sized(ull__gradients_graph(gradients), node, settings);
  ull__value_id dx;
  ULL__TRY(ull__gradients_emit(gradients, node, op, "grad_input", inputs, input_count, settings,
                               count, &dx));
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

static ull_status max_gradient(ull__gradients *gradients, const ull__node *node) {
  return emit_backward(gradients, node, "max_pool2d_backward", 2);
}

static ull_status avg_gradient(ull__gradients *gradients, const ull__node *node) {
  return emit_backward(gradients, node, "avg_pool2d_backward", 1);
}

static ull_status global_gradient(ull__gradients *gradients, const ull__node *node) {
  return emit_backward(gradients, node, "global_avg_pool_backward", 1);
}

static ull_status adaptive_gradient(ull__gradients *gradients, const ull__node *node) {
  return emit_backward(gradients, node, "adaptive_avg_pool2d_backward", 1);
}

static ull__cost adaptive_cost(const ull__graph *graph, const ull__node *node) {
  return ull__cost_flops(graph, node, ull__value_elements(graph, node->inputs[0]));
}

static ull__cost pool_cost(const ull__graph *graph, const ull__node *node) {
  const double window =
      (double)ull__node_int(node, "kernel_h") * (double)ull__node_int(node, "kernel_w");
  return ull__cost_flops(graph, node, window * ull__value_elements(graph, node->outputs[0]));
}

const ull__operator ull__ops_pooling[] = {
    {.name = "max_pool2d",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 2,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = max_attributes,
     .infer = infer_pool,
     .gradient = max_gradient,
     .cost = pool_cost},
    {.name = "max_pool2d_backward",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = max_backward_attributes,
     .infer = infer_pool_backward},
    {.name = "avg_pool2d",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = avg_attributes,
     .infer = infer_pool,
     .gradient = avg_gradient,
     .cost = pool_cost},
    {.name = "avg_pool2d_backward",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = avg_backward_attributes,
     .infer = infer_pool_backward},
    {.name = "global_avg_pool",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .infer = infer_global,
     .gradient = global_gradient},
    {.name = "global_avg_pool_backward",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = global_backward_attributes,
     .infer = infer_global_backward},
    {.name = "adaptive_avg_pool2d",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = adaptive_attributes,
     .infer = infer_adaptive,
     .gradient = adaptive_gradient,
     .cost = adaptive_cost},
    {.name = "adaptive_avg_pool2d_backward",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = adaptive_backward_attributes,
     .infer = infer_adaptive_backward,
     .cost = adaptive_cost},
};
ULL__OP_COUNT(pooling);
