/* Batch normalisation in three nodes, so that its output can be recomputed from its input bit for
 * bit in one pass, and layer normalisation. */
#include <math.h>

#include "graph/ops/ops.h"

static const ull__attribute_spec eps_attributes[] = {ULL__ATTRIBUTE_REAL("eps", 1e-5), {0}};
static const ull__attribute_spec momentum_attributes[] = {ULL__ATTRIBUTE_REAL("momentum", 0.1),
                                                          {0}};
static const ull__attribute_spec backward_attributes[] = {ULL__ATTRIBUTE_INT("relu", 0), {0}};

static ull_status check_eps(const ull__inference *inference) {
  const double eps = ull__node_real(inference->node, "eps");
  if (eps >= 0 && isfinite(eps)) return ULL_OK;
  return ull__infer_invalid(inference, "eps is %g", eps);
}

/* [N, C, H, W] or [N, C]; `channels` = C. */
static ull_status check_batched(const ull__inference *inference, ull__dim *channels) {
  const ull__shape *x = ull__infer_shape(inference, 0);
  if (x->rank != 2 && x->rank != 4) {
    return ull__infer_invalid(inference, "input 0 has %u dimensions, not 2 or 4", x->rank);
  }
  if (x->dims[1].batch != 0) return ull__infer_invalid(inference, "channels grow with the batch");
  *channels = x->dims[1];
  return ULL_OK;
}

static ull__shape vector_of(ull__dim length) {
  return (ull__shape){.rank = 1, .dims = {length}};
}

static ull_status infer_statistics(ull__inference *inference) {
  ull__dim channels = {0};
  ULL__TRY(check_eps(inference));
  ULL__TRY(ull__infer_floats(inference, 1));
  ULL__TRY(check_batched(inference, &channels));
  for (uint32_t o = 0; o < 3; o++) inference->shapes[o] = vector_of(channels);
  return ULL_OK;
}

static ull_status check_vectors(const ull__inference *inference, uint32_t first, uint32_t end,
                                ull__dim length) {
  for (uint32_t i = first; i < end; i++) ULL__TRY(ull__infer_vector(inference, i, length));
  return ULL_OK;
}

static ull_status infer_normalize(ull__inference *inference) {
  ull__dim channels = {0};
  ULL__TRY(ull__infer_floats(inference, 31));
  ULL__TRY(check_batched(inference, &channels));
  ull__infer_like(inference, 0, 0);
  return check_vectors(inference, 1, 5, channels);
}

static ull_status infer_update(ull__inference *inference) {
  const double momentum = ull__node_real(inference->node, "momentum");
  if (!(momentum >= 0 && momentum <= 1)) {
    return ull__infer_invalid(inference, "momentum is %g, not in [0, 1]", momentum);
  }
  ULL__TRY(ull__infer_floats(inference, 15));
  ULL__TRY(ull__infer_rank(inference, 0, 1));
  ULL__TRY(check_vectors(inference, 1, 4, ull__infer_shape(inference, 0)->dims[0]));
  ull__infer_like(inference, 0, 0);
  ull__infer_like(inference, 1, 1);
  return ULL_OK;
}

static ull_status infer_invstd(ull__inference *inference) {
  ULL__TRY(check_eps(inference));
  ULL__TRY(ull__infer_rank(inference, 0, 1));
  return ull__infer_like_first(inference);
}

/* With relu, dy is the gradient of relu(batch_norm_normalize(x, ..., bias)): what the normalisation
 * gave is computed again to see where it was positive. */
static ull_status infer_batch_backward(ull__inference *inference) {
  ull__dim channels = {0};
  int64_t relu = 0;
  ULL__TRY(ull__infer_floats(inference, 63));
  ULL__TRY(ull__infer_int_between(inference, "relu", 0, 1, &relu));
  ULL__TRY(check_batched(inference, &channels));
  ULL__TRY(ull__infer_same_shape(inference, 0, 1));
  const bool has_bias = ull__infer_input(inference, 5) != NULL;
  if (has_bias != (relu != 0)) {
    return ull__infer_invalid(inference, "relu and the bias it needs come together");
  }
  ULL__TRY(check_vectors(inference, 2, has_bias ? 6 : 5, channels));
  ull__infer_like(inference, 0, 0);
  inference->shapes[1] = inference->shapes[2] = vector_of(channels);
  return ULL_OK;
}

static ull_status add_affine_gradients(ull__gradients *gradients, const ull__node *node,
                                       const ull__value_id outputs[3], uint32_t weight) {
  for (uint32_t k = 0; k < 2; k++) {
    if (!ull__gradients_wanted(gradients, node->inputs[weight + k])) continue;
    ULL__TRY(ull__gradients_add(gradients, node->inputs[weight + k], outputs[1 + k]));
  }
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  return ull__gradients_add(gradients, node->inputs[0], outputs[0]);
}

/* Statistics made of the normalised value itself are differentiated through; any others are
 * constants here. */
static bool has_own_statistics(const ull__graph *graph, const ull__node *node) {
  const ull__value *mean = ull__graph_value(graph, node->inputs[1]);
  const ull__value *invstd = ull__graph_value(graph, node->inputs[2]);
  if (mean->producer == ULL__NONE || mean->producer != invstd->producer) return false;
  const ull__node *producer = ull__graph_node(graph, mean->producer);
  return producer->op == ull__operator_find("batch_norm_statistics") &&
         producer->inputs[0] == node->inputs[0];
}

static ull_status normalize_gradient(ull__gradients *gradients, const ull__node *node) {
  if (!has_own_statistics(ull__gradients_graph(gradients), node)) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: training through fixed batch statistics", node->name);
    return ull__error_holder("%s", node->module[0] ? node->module : node->name);
  }
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  const ull__value_id inputs[] = {node->inputs[0], dy, node->inputs[1], node->inputs[2],
                                  node->inputs[3]};
  ull__value_id outputs[3];
  ULL__TRY(ull__gradients_emit(gradients, node, "batch_norm_backward", "grad", inputs, 5, NULL, 0,
                               outputs));
  return add_affine_gradients(gradients, node, outputs, 3);
}

static ull_status infer_layer_norm(ull__inference *inference) {
  ULL__TRY(check_eps(inference));
  ULL__TRY(ull__infer_floats(inference, 7));
  ULL__TRY(ull__infer_rank_between(inference, 0, 1, ULL__MAX_RANK));
  const ull__shape *x = ull__infer_shape(inference, 0);
  if (x->dims[x->rank - 1].batch != 0) return ull__infer_invalid(inference, "a mean of the batch");
  ULL__TRY(check_vectors(inference, 1, 3, x->dims[x->rank - 1]));
  ull__infer_like(inference, 0, 0);
  inference->shapes[1] = inference->shapes[2] = ull__leading_shape(x, x->rank - 1);
  return ULL_OK;
}

static ull_status infer_layer_backward(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 31));
  ULL__TRY(ull__infer_rank_between(inference, 0, 1, ULL__MAX_RANK));
  ULL__TRY(ull__infer_same_shape(inference, 0, 1));
  const ull__shape *x = ull__infer_shape(inference, 0);
  const ull__shape rows = ull__leading_shape(x, x->rank - 1);
  for (uint32_t i = 2; i < 4; i++) {
    if (!ull__shape_equal(&rows, ull__infer_shape(inference, i))) {
      return ull__infer_invalid(inference, "input %u has not one number a row", i);
    }
  }
  const ull__dim width = x->dims[x->rank - 1];
  ULL__TRY(ull__infer_vector(inference, 4, width));
  ull__infer_like(inference, 0, 0);
  inference->shapes[1] = inference->shapes[2] = vector_of(width);
  return ULL_OK;
}

static ull_status layer_norm_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  if (dy == ULL__NONE) return ULL_OK;
  const ull__value_id inputs[] = {node->inputs[0], dy, node->outputs[1], node->outputs[2],
                                  node->inputs[1]};
  ull__value_id outputs[3];
  ULL__TRY(ull__gradients_emit(gradients, node, "layer_norm_backward", "grad", inputs, 5, NULL, 0,
                               outputs));
  return add_affine_gradients(gradients, node, outputs, 1);
}

static ull__cost normalization_cost(const ull__graph *graph, const ull__node *node) {
  return ull__cost_flops(graph, node, 8 * ull__value_elements(graph, node->inputs[0]));
}

const ull__operator ull__ops_normalization[] = {
    {.name = "batch_norm_statistics",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 3,
     .batch_rule = ULL__BATCH_MIXED,
     .attributes = eps_attributes,
     .infer = infer_statistics,
     .cost = normalization_cost},
    {.name = "batch_norm_normalize",
     .min_inputs = 5,
     .max_inputs = 5,
     .outputs = 1,
     .flags = ULL__OP_ELEMENTWISE,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .overwrites = {1},
     .element_code = ULL__ELEMENT_NORMALIZE,
     .infer = infer_normalize,
     .gradient = normalize_gradient},
    {.name = "batch_norm_update",
     .min_inputs = 4,
     .max_inputs = 4,
     .outputs = 2,
     .flags = ULL__OP_ONCE,
     .batch_rule = ULL__BATCH_FREE,
     .attributes = momentum_attributes,
     .updates = {1, 2},
     .infer = infer_update},
    {.name = "batch_norm_invstd",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .batch_rule = ULL__BATCH_FREE,
     .attributes = eps_attributes,
     .infer = infer_invstd},
    {.name = "batch_norm_backward",
     .min_inputs = 5,
     .max_inputs = 6,
     .outputs = 3,
     .batch_rule = ULL__BATCH_MIXED,
     .attributes = backward_attributes,
     .overwrites = {ULL__INPUT(0) | ULL__INPUT(1)},
     .infer = infer_batch_backward,
     .cost = normalization_cost},
    {.name = "layer_norm",
     .min_inputs = 3,
     .max_inputs = 3,
     .outputs = 3,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = eps_attributes,
     .infer = infer_layer_norm,
     .gradient = layer_norm_gradient,
     .cost = normalization_cost},
    {.name = "layer_norm_backward",
     .min_inputs = 5,
     .max_inputs = 5,
     .outputs = 3,
     .batch_rule = ULL__BATCH_SUM,
     .overwrites = {ULL__INPUT(1)},
     .infer = infer_layer_backward,
     .cost = normalization_cost},
};
ULL__OP_COUNT(normalization);
