/* Two-dimensional convolution, NCHW, weights [out, in / groups, kh, kw]. */
#include "graph/ops/ops.h"

#define CONVOLUTION_ATTRIBUTES                                                  \
  ULL__ATTRIBUTE_INT("stride_h", 1), ULL__ATTRIBUTE_INT("stride_w", 1),         \
      ULL__ATTRIBUTE_INT("pad_h", 0), ULL__ATTRIBUTE_INT("pad_w", 0),           \
      ULL__ATTRIBUTE_INT("dilation_h", 1), ULL__ATTRIBUTE_INT("dilation_w", 1), \
      ULL__ATTRIBUTE_INT("groups", 1)

static const ull__attribute_spec forward_attributes[] = {CONVOLUTION_ATTRIBUTES, {0}};
static const ull__attribute_spec input_attributes[] = {CONVOLUTION_ATTRIBUTES,
                                                       ULL__ATTRIBUTE_INT("input_h", 0),
                                                       ULL__ATTRIBUTE_INT("input_w", 0),
                                                       {0}};
static const ull__attribute_spec weight_attributes[] = {CONVOLUTION_ATTRIBUTES,
                                                        ULL__ATTRIBUTE_INT("kernel_h", 0),
                                                        ULL__ATTRIBUTE_INT("kernel_w", 0),
                                                        {0}};

enum { MOST = INT32_MAX };

/* Stride, padding and dilation of both axes; kernel sizes are set by the caller. */
static ull_status read_windows(const ull__inference *inference, ull__window *h, ull__window *w) {
  ULL__TRY(ull__infer_int_between(inference, "stride_h", 1, MOST, &h->stride));
  ULL__TRY(ull__infer_int_between(inference, "stride_w", 1, MOST, &w->stride));
  ULL__TRY(ull__infer_int_between(inference, "pad_h", 0, MOST, &h->pad));
  ULL__TRY(ull__infer_int_between(inference, "pad_w", 0, MOST, &w->pad));
  ULL__TRY(ull__infer_int_between(inference, "dilation_h", 1, MOST, &h->dilation));
  return ull__infer_int_between(inference, "dilation_w", 1, MOST, &w->dilation);
}

/* Output of x over a weight [o, i, kh, kw]; also checks the groups. */
static ull_status infer_output(const ull__inference *inference, const ull__shape *x,
                               const ull__shape *weight, ull__shape *out) {
  ull__window h = {0}, w = {0};
  int64_t groups = 0;
  ULL__TRY(read_windows(inference, &h, &w));
  ULL__TRY(ull__infer_int_between(inference, "groups", 1, MOST, &groups));
  h.kernel = weight->dims[2].constant;
  w.kernel = weight->dims[3].constant;
  const int64_t channels = x->dims[1].constant, outputs = weight->dims[0].constant;
  if (channels % groups != 0 || outputs % groups != 0) {
    return ull__infer_invalid(inference, "%lld groups divide neither %lld nor %lld channels",
                              (long long)groups, (long long)channels, (long long)outputs);
  }
  if (x->dims[1].batch != 0 || weight->dims[1].constant != channels / groups) {
    return ull__infer_invalid(inference, "%lld channels in %lld groups for a weight of %lld",
                              (long long)channels, (long long)groups,
                              (long long)weight->dims[1].constant);
  }
  *out = (ull__shape){.rank = 4, .dims = {x->dims[0], weight->dims[0]}};
  ULL__TRY(ull__infer_window(inference, x->dims[2], &h, &out->dims[2]));
  return ull__infer_window(inference, x->dims[3], &w, &out->dims[3]);
}

static ull_status check_ranks(const ull__inference *inference, uint32_t x, uint32_t weight) {
  ULL__TRY(ull__infer_rank(inference, x, 4));
  ULL__TRY(ull__infer_rank(inference, weight, 4));
  return ull__infer_unbatched(inference, weight);
}

static ull_status infer_conv2d(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 7));
  ULL__TRY(check_ranks(inference, 0, 1));
  const ull__shape *w = ull__infer_shape(inference, 1);
  ULL__TRY(ull__infer_vector(inference, 2, w->dims[0]));
  return infer_output(inference, ull__infer_shape(inference, 0), w, &inference->shapes[0]);
}

static ull_status expect_gradient(const ull__inference *inference, const ull__shape *x,
                                  const ull__shape *weight, uint32_t dy) {
  ull__shape out;
  ULL__TRY(infer_output(inference, x, weight, &out));
  if (ull__shape_equal(&out, ull__infer_shape(inference, dy))) return ULL_OK;
  return ull__infer_invalid(inference, "input %u is no gradient of this convolution", dy);
}

static ull_status infer_backward_input(ull__inference *inference) {
  int64_t h = 0, w = 0, groups = 0;
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(check_ranks(inference, 0, 1));
  ULL__TRY(ull__infer_int_between(inference, "input_h", 1, MOST, &h));
  ULL__TRY(ull__infer_int_between(inference, "input_w", 1, MOST, &w));
  ULL__TRY(ull__infer_int_between(inference, "groups", 1, MOST, &groups));
  const ull__shape *dy = ull__infer_shape(inference, 0), *weight = ull__infer_shape(inference, 1);
  int64_t channels = 0;
  if (__builtin_mul_overflow(weight->dims[1].constant, groups, &channels)) {
    return ull__infer_invalid(inference, "channels that do not fit into 63 bits");
  }
  inference->shapes[0] = (ull__shape){
      .rank = 4, .dims = {dy->dims[0], ull__dim_of(channels), ull__dim_of(h), ull__dim_of(w)}};
  return expect_gradient(inference, &inference->shapes[0], weight, 0);
}

static ull_status infer_backward_weight(ull__inference *inference) {
  int64_t h = 0, w = 0, groups = 0;
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(ull__infer_rank(inference, 0, 4));
  ULL__TRY(ull__infer_rank(inference, 1, 4));
  ULL__TRY(ull__infer_int_between(inference, "kernel_h", 1, MOST, &h));
  ULL__TRY(ull__infer_int_between(inference, "kernel_w", 1, MOST, &w));
  ULL__TRY(ull__infer_int_between(inference, "groups", 1, MOST, &groups));
  const ull__shape *x = ull__infer_shape(inference, 0), *dy = ull__infer_shape(inference, 1);
  inference->shapes[0] =
      (ull__shape){.rank = 4,
                   .dims = {dy->dims[1], ull__dim_of(x->dims[1].constant / groups), ull__dim_of(h),
                            ull__dim_of(w)}};
  return expect_gradient(inference, x, &inference->shapes[0], 1);
}

static ull_status emit_weight_gradients(ull__gradients *gradients, const ull__node *node,
                                        ull__value_id dy) {
  const ull__graph *graph = ull__gradients_graph(gradients);
  ull__value_id gradient;
  if (ull__gradients_wanted(gradients, node->inputs[1])) {
    const ull__shape *w = &ull__graph_value(graph, node->inputs[1])->shape;
    ull__attribute_setting settings[ULL__MAX_ATTRIBUTES];
    uint32_t count = ull__node_settings(node, settings);
    settings[count++] = (ull__attribute_setting)ULL__INT("kernel_h", w->dims[2].constant);
    settings[count++] = (ull__attribute_setting)ULL__INT("kernel_w", w->dims[3].constant);
    const ull__value_id inputs[] = {node->inputs[0], dy};
    ULL__TRY(ull__gradients_emit(gradients, node, "conv2d_backward_weight", "grad_weight", inputs,
                                 2, settings, count, &gradient));
    ULL__TRY(ull__gradients_add(gradients, node->inputs[1], gradient));
  }
  if (node->input_count < 3 || !ull__gradients_wanted(gradients, node->inputs[2])) return ULL_OK;
  const ull__attribute_setting axis = ULL__INT("axis", 1);
  ULL__TRY(ull__gradients_emit(gradients, node, "sum_to_axis", "grad_bias", &dy, 1, &axis, 1,
                               &gradient));
  return ull__gradients_add(gradients, node->inputs[2], gradient);
}

static ull_status conv2d_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  ULL__TRY(emit_weight_gradients(gradients, node, dy));
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  const ull__value_id inputs[] = {dy, node->inputs[1]};
  ull__attribute_setting settings[ULL__MAX_ATTRIBUTES];
  uint32_t count = ull__node_settings_sized(ull__gradients_graph(gradients), node, settings);
  ull__value_id dx;
  ULL__TRY(ull__gradients_emit(gradients, node, "conv2d_backward_input", "grad_input", inputs, 2,
                               settings, count, &dx));
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

/* Multiply-adds: every element of y (or dy) meets one filter. */
static ull__cost filter_cost(const ull__graph *graph, const ull__node *node, ull__value_id y,
                             const ull__shape *weight) {
  const double filter = (double)weight->dims[1].constant * (double)weight->dims[2].constant *
                        (double)weight->dims[3].constant;
  return ull__cost_flops(graph, node, 2 * filter * ull__value_elements(graph, y));
}

static ull__cost conv2d_cost(const ull__graph *graph, const ull__node *node) {
  return filter_cost(graph, node, node->outputs[0],
                     &ull__graph_value(graph, node->inputs[1])->shape);
}

static ull__cost backward_input_cost(const ull__graph *graph, const ull__node *node) {
  return filter_cost(graph, node, node->inputs[0],
                     &ull__graph_value(graph, node->inputs[1])->shape);
}

static ull__cost backward_weight_cost(const ull__graph *graph, const ull__node *node) {
  return filter_cost(graph, node, node->inputs[1],
                     &ull__graph_value(graph, node->outputs[0])->shape);
}

const ull__operator ull__ops_convolution[] = {
    {.name = "conv2d",
     .min_inputs = 2,
     .max_inputs = 3,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = forward_attributes,
     .infer = infer_conv2d,
     .gradient = conv2d_gradient,
     .cost = conv2d_cost},
    {.name = "conv2d_backward_input",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = input_attributes,
     .infer = infer_backward_input,
     .cost = backward_input_cost},
    {.name = "conv2d_backward_weight",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_SUM,
     .attributes = weight_attributes,
     .infer = infer_backward_weight,
     .cost = backward_weight_cost},
};
ULL__OP_COUNT(convolution);
