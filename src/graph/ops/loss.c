/* Losses over classes, given as numbers or as shares, and counting hits. */
#include "graph/ops/ops.h"

#define IGNORE ULL__ATTRIBUTE_INT("ignore_index", -100)
static const ull__attribute_spec smooth_attributes[] = {
    IGNORE, ULL__ATTRIBUTE_REAL("label_smoothing", 0.0), {0}};
static const ull__attribute_spec soft_attributes[] = {ULL__ATTRIBUTE_REAL("label_smoothing", 0.0),
                                                      {0}};
static const ull__attribute_spec ignore_attributes[] = {IGNORE, {0}};

static const ull__shape scalar = {.rank = 0};

/* The class axis is 1; targets are the rest. */
static ull__shape without_class_axis(const ull__shape *logits) {
  ull__shape rest = {.rank = logits->rank - 1, .dims = {logits->dims[0]}};
  for (uint32_t i = 2; i < logits->rank; i++) rest.dims[i - 1] = logits->dims[i];
  return rest;
}

static ull_status expect_shape(const ull__inference *inference, uint32_t i,
                               const ull__shape *shape) {
  if (ull__shape_equal(ull__infer_shape(inference, i), shape)) return ULL_OK;
  char text[512];
  return ull__infer_invalid(inference, "input %u is not %s", i,
                            ull__shape_text(shape, text, sizeof text));
}

static ull_status check_smoothing(const ull__inference *inference) {
  const double smoothing = ull__operator_attribute(inference->node->op, "label_smoothing") >= 0
                               ? ull__node_real(inference->node, "label_smoothing")
                               : 0;
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return ull__infer_invalid(inference, "label_smoothing is %g, not in [0, 1]", smoothing);
  }
  return ULL_OK;
}

static ull_status check_classes(const ull__inference *inference) {
  ULL__TRY(check_smoothing(inference));
  ULL__TRY(ull__infer_rank_between(inference, 0, 2, ULL__MAX_RANK));
  if (ull__infer_shape(inference, 0)->dims[1].batch != 0) {
    return ull__infer_invalid(inference, "classes grow with the batch");
  }
  return ULL_OK;
}

static ull_status check_logits(const ull__inference *inference) {
  ULL__TRY(check_classes(inference));
  ULL__TRY(ull__infer_ids(inference, 1));
  const ull__shape rest = without_class_axis(ull__infer_shape(inference, 0));
  return expect_shape(inference, 1, &rest);
}

static ull_status infer_cross_entropy(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 1));
  ULL__TRY(check_logits(inference));
  inference->shapes[0] = scalar;
  ull__infer_like(inference, 1, 1);
  return ULL_OK;
}

static ull_status infer_cross_entropy_backward(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 13));
  ULL__TRY(check_logits(inference));
  ULL__TRY(ull__infer_same_shape(inference, 1, 2));
  ULL__TRY(ull__infer_rank(inference, 3, 0));
  ull__infer_like(inference, 0, 0);
  return ULL_OK;
}

/* logits[B, C, ...], shares of classes of the same shape */
static ull_status check_shares(const ull__inference *inference) {
  ULL__TRY(check_classes(inference));
  return ull__infer_same_shape(inference, 0, 1);
}

static ull_status infer_soft_cross_entropy(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(check_shares(inference));
  inference->shapes[0] = scalar;
  inference->shapes[1] = without_class_axis(ull__infer_shape(inference, 0));
  return ULL_OK;
}

static ull_status infer_soft_cross_entropy_backward(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 15));
  ULL__TRY(check_shares(inference));
  const ull__shape rest = without_class_axis(ull__infer_shape(inference, 0));
  ULL__TRY(expect_shape(inference, 2, &rest));
  ULL__TRY(ull__infer_rank(inference, 3, 0));
  ull__infer_like(inference, 0, 0);
  return ULL_OK;
}

/* The gradient of the logits from logits, target, logsumexp and the loss's gradient. */
static ull_status logits_gradient(ull__gradients *gradients, const ull__node *node,
                                  const char *backward) {
  const ull__value_id dloss = ull__gradients_of(gradients, node->outputs[0]);
  if (!ull__gradients_wanted(gradients, node->inputs[0]) || dloss == ULL__NONE) return ULL_OK;
  ull__attribute_setting settings[ULL__MAX_ATTRIBUTES];
  const uint32_t count = ull__node_settings(node, settings);
  const ull__value_id inputs[] = {node->inputs[0], node->inputs[1], node->outputs[1], dloss};
  ull__value_id dlogits;
  ULL__TRY(ull__gradients_emit(gradients, node, backward, "grad_input", inputs, 4, settings, count,
                               &dlogits));
  return ull__gradients_add(gradients, node->inputs[0], dlogits);
}

static ull_status cross_entropy_gradient(ull__gradients *gradients, const ull__node *node) {
  return logits_gradient(gradients, node, "cross_entropy_backward");
}

static ull_status soft_cross_entropy_gradient(ull__gradients *gradients, const ull__node *node) {
  if (ull__gradients_wanted(gradients, node->inputs[1])) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: its shares of classes are given, not learnt",
                     node->name);
  }
  return logits_gradient(gradients, node, "soft_cross_entropy_backward");
}

/* x[..., K], w[V, K], target[...] */
static ull_status check_linear(const ull__inference *inference) {
  ULL__TRY(ull__infer_rank_between(inference, 0, 1, ULL__MAX_RANK));
  ULL__TRY(ull__infer_rank(inference, 1, 2));
  ULL__TRY(ull__infer_unbatched(inference, 1));
  ULL__TRY(ull__infer_ids(inference, 2));
  const ull__shape *x = ull__infer_shape(inference, 0), *w = ull__infer_shape(inference, 1);
  if (!ull__dim_equal(x->dims[x->rank - 1], w->dims[1])) {
    return ull__infer_invalid(inference, "rows of %lld where the weight takes %lld",
                              (long long)x->dims[x->rank - 1].constant,
                              (long long)w->dims[1].constant);
  }
  const ull__shape rows = ull__leading_shape(x, x->rank - 1);
  return expect_shape(inference, 2, &rows);
}

static ull_status infer_linear_cross_entropy(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(check_linear(inference));
  inference->shapes[0] = scalar;
  ull__infer_like(inference, 1, 2);
  return ULL_OK;
}

static ull_status infer_joint(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 11));
  ULL__TRY(check_linear(inference));
  ULL__TRY(ull__infer_rank(inference, 3, 0));
  inference->shapes[0] = scalar;
  ull__infer_like(inference, 1, 0);
  ull__infer_like(inference, 2, 1);
  return ULL_OK;
}

/* The node has computed the gradients already, for the weight it was given. */
static ull_status joint_gradient(ull__gradients *gradients, const ull__node *node) {
  if (ull__gradients_of(gradients, node->outputs[0]) != node->inputs[3]) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: its loss is not the graph's alone", node->name);
  }
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t input = 1 - i; /* the weight first, as everywhere */
    if (!ull__gradients_wanted(gradients, node->inputs[input])) continue;
    ULL__TRY(ull__gradients_add(gradients, node->inputs[input], node->outputs[1 + input]));
  }
  return ULL_OK;
}

static ull_status infer_count_correct(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 1));
  ULL__TRY(ull__infer_rank(inference, 0, 2));
  ULL__TRY(check_logits(inference));
  inference->shapes[0] = scalar;
  inference->dtypes[0] = ULL_FLOAT32;
  return ULL_OK;
}

static ull__cost chunked_cost(const ull__graph *graph, const ull__node *node, double products) {
  const ull__shape *w = &ull__graph_value(graph, node->inputs[1])->shape;
  const double x = ull__value_elements(graph, node->inputs[0]);
  return ull__cost_flops(graph, node, 2 * products * x * (double)w->dims[0].constant);
}

static ull__cost linear_cross_entropy_cost(const ull__graph *graph, const ull__node *node) {
  return chunked_cost(graph, node, 1);
}

static ull__cost joint_cost(const ull__graph *graph, const ull__node *node) {
  return chunked_cost(graph, node, 3);
}

const ull__operator ull__ops_loss[] = {
    {.name = "cross_entropy",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 2,
     .batch_rule = ULL__BATCH_MEAN,
     .attributes = smooth_attributes,
     .infer = infer_cross_entropy,
     .gradient = cross_entropy_gradient},
    {.name = "cross_entropy_backward",
     .min_inputs = 4,
     .max_inputs = 4,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = smooth_attributes,
     .overwrites = {1},
     .infer = infer_cross_entropy_backward},
    {.name = "soft_cross_entropy",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 2,
     .batch_rule = ULL__BATCH_MEAN,
     .attributes = soft_attributes,
     .infer = infer_soft_cross_entropy,
     .gradient = soft_cross_entropy_gradient},
    {.name = "soft_cross_entropy_backward",
     .min_inputs = 4,
     .max_inputs = 4,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = soft_attributes,
     .overwrites = {1},
     .infer = infer_soft_cross_entropy_backward},
    {.name = "linear_cross_entropy",
     .min_inputs = 3,
     .max_inputs = 3,
     .outputs = 2,
     .batch_rule = ULL__BATCH_MEAN,
     .attributes = ignore_attributes,
     .infer = infer_linear_cross_entropy,
     .cost = linear_cross_entropy_cost},
    {.name = "linear_cross_entropy_joint",
     .min_inputs = 4,
     .max_inputs = 4,
     .outputs = 3,
     .batch_rule = ULL__BATCH_MEAN,
     .attributes = ignore_attributes,
     .infer = infer_joint,
     .gradient = joint_gradient,
     .cost = joint_cost},
    {.name = "count_correct",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_SUM,
     .infer = infer_count_correct},
};
ULL__OP_COUNT(loss);
