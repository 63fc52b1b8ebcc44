/* Element-wise operators, and ReLU's saved form of one bit an element. */
#include <math.h>

#include "graph/ops/ops.h"

static ull_status unary_backward(ull__gradients *gradients, const ull__node *node, const char *op,
                                 ull__value_id saved) {
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  ull__attribute_setting settings[ULL__MAX_ATTRIBUTES];
  const uint32_t count = ull__node_settings(node, settings);
  const ull__value_id inputs[] = {ull__gradients_of(gradients, node->outputs[0]), saved};
  ull__value_id dx;
  ULL__TRY(ull__gradients_emit(gradients, node, op, "grad_input", inputs, 2, settings, count, &dx));
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

static ull_status add_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  for (uint32_t i = 0; i < 2; i++) {
    if (!ull__gradients_wanted(gradients, node->inputs[i])) continue;
    ULL__TRY(ull__gradients_add(gradients, node->inputs[i], dy));
  }
  return ULL_OK;
}

static ull_status mul_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  for (uint32_t i = 0; i < 2; i++) {
    if (!ull__gradients_wanted(gradients, node->inputs[i])) continue;
    const ull__value_id inputs[] = {dy, node->inputs[1 - i]};
    ull__value_id dx;
    ULL__TRY(ull__gradients_emit(gradients, node, "mul", i ? "grad_input_1" : "grad_input_0",
                                 inputs, 2, NULL, 0, &dx));
    ULL__TRY(ull__gradients_add(gradients, node->inputs[i], dx));
  }
  return ULL_OK;
}

static ull_status scale_gradient(ull__gradients *gradients, const ull__node *node) {
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  ull__attribute_setting settings[ULL__MAX_ATTRIBUTES];
  const uint32_t count = ull__node_settings(node, settings);
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  ull__value_id dx;
  ULL__TRY(
      ull__gradients_emit(gradients, node, "scale", "grad_input", &dy, 1, settings, count, &dx));
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

/* The primary reads the output; its dormant alternative reads the bits. */
static ull_status relu_gradient(ull__gradients *gradients, const ull__node *node) {
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  ull__graph *graph = ull__gradients_graph(gradients);
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  const ull__value_id bits = ull__gradients_mask(gradients, node->outputs[0]);
  const ull__value_id saved_output[] = {dy, node->outputs[0]}, saved_bits[] = {dy, bits};
  ull__value_id dx, twin;
  ULL__TRY(ull__gradients_emit(gradients, node, "relu_backward", "grad_input", saved_output, 2,
                               NULL, 0, &dx));
  if (bits != ULL__NONE) {
    ULL__TRY(ull__gradients_emit(gradients, node, "relu_backward_mask", "grad_input_mask",
                                 saved_bits, 2, NULL, 0, &twin));
    ull__graph_set_alternative(graph, ull__graph_value(graph, twin)->producer,
                               ull__graph_value(graph, dx)->producer);
  }
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

static ull_status tanh_gradient(ull__gradients *gradients, const ull__node *node) {
  return unary_backward(gradients, node, "tanh_backward", node->outputs[0]);
}

static ull_status sigmoid_gradient(ull__gradients *gradients, const ull__node *node) {
  return unary_backward(gradients, node, "sigmoid_backward", node->outputs[0]);
}

static ull_status gelu_gradient(ull__gradients *gradients, const ull__node *node) {
  return unary_backward(gradients, node, "gelu_backward", node->inputs[0]);
}

static ull_status infer_gelu(ull__inference *inference) {
  ULL__TRY(ull__infer_int_between(inference, "approximate", 0, 1, NULL));
  return inference->node->op->min_inputs == 2 ? ull__infer_like_first_two(inference)
                                              : ull__infer_like_first(inference);
}

static ull_status infer_scale(ull__inference *inference) {
  if (!isfinite(ull__node_real(inference->node, "factor"))) {
    return ull__infer_invalid(inference, "factor is not finite");
  }
  return ull__infer_like_first(inference);
}

static ull_status infer_dropout(ull__inference *inference) {
  const double p = ull__node_real(inference->node, "p");
  if (!(p >= 0 && p < 1)) return ull__infer_invalid(inference, "p is %g, not in [0, 1)", p);
  ULL__TRY(ull__infer_ids(inference, 1));
  ULL__TRY(ull__infer_vector(inference, 1, ull__dim_of(4)));
  return ull__infer_like_first(inference);
}

/* The same mask again: the twin takes the identity of the forward node. */
static ull_status dropout_gradient(ull__gradients *gradients, const ull__node *node) {
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  ull__graph *graph = ull__gradients_graph(gradients);
  const ull__attribute_setting p = ULL__REAL("p", ull__node_real(node, "p"));
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  const ull__value_id inputs[] = {dy, node->inputs[1]};
  ull__value_id dx;
  ULL__TRY(ull__gradients_emit(gradients, node, "dropout", "grad_input", inputs, 2, &p, 1, &dx));
  ull__graph_set_identity(graph, ull__graph_value(graph, dx)->producer, node->identity);
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

static ull_status infer_bias_add(ull__inference *inference) {
  ULL__TRY(ull__infer_rank_between(inference, 0, 1, ULL__MAX_RANK));
  ULL__TRY(ull__infer_floats(inference, 3));
  const ull__shape *x = ull__infer_shape(inference, 0);
  ULL__TRY(ull__infer_vector(inference, 1, x->dims[ull__channel_axis(x)]));
  ull__infer_like(inference, 0, 0);
  return ULL_OK;
}

static ull_status bias_add_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  const ull__value *x = ull__graph_value(ull__gradients_graph(gradients), node->inputs[0]);
  if (ull__gradients_wanted(gradients, node->inputs[1])) {
    const ull__attribute_setting axis = ULL__INT("axis", ull__channel_axis(&x->shape));
    ull__value_id dc;
    ULL__TRY(
        ull__gradients_emit(gradients, node, "sum_to_axis", "grad_bias", &dy, 1, &axis, 1, &dc));
    ULL__TRY(ull__gradients_add(gradients, node->inputs[1], dc));
  }
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  return ull__gradients_add(gradients, node->inputs[0], dy);
}

static ull_status infer_relu_mask(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 1));
  ull__dim bits;
  ULL__TRY(ull__mask_length(ull__infer_shape(inference, 0), &bits));
  if (bits.constant == 0 && bits.batch == 0) {
    return ull__infer_invalid(inference, "a sample's elements are no multiple of 8");
  }
  inference->shapes[0] = (ull__shape){.rank = 1, .dims = {bits}};
  inference->dtypes[0] = ULL_UINT8;
  return ULL_OK;
}

ull_status ull__mask_length(const ull__shape *shape, ull__dim *out) {
  ull__dim elements;
  ULL__TRY(ull__shape_elements(shape, &elements));
  *out = ull__dim_of(0);
  if (elements.batch == 0) {
    *out = ull__dim_of(elements.constant / 8 + (elements.constant % 8 != 0));
  } else if (elements.batch % 8 == 0 && elements.constant == 0) {
    *out = ull__dim_batch(elements.batch / 8);
  }
  return ULL_OK;
}

static ull_status infer_relu_backward_mask(ull__inference *inference) {
  ULL__TRY(ull__infer_like_first(inference));
  ULL__TRY(ull__infer_dtype(inference, 1, ULL_UINT8));
  ull__dim bits;
  ULL__TRY(ull__mask_length(ull__infer_shape(inference, 0), &bits));
  return ull__infer_vector(inference, 1, bits);
}

/* ---- value rules: constants of one shape, element by element ---- */

typedef struct fold_operands {
  ull_dtype dtype;
  uint64_t count;
  const void *a, *b;
  void *out;
} fold_operands;

static ull_status fold_operands_of(const ull__graph *graph, const ull__node *node,
                                   const void *const *inputs, void *const *outputs,
                                   fold_operands *out) {
  const ull__value *result = ull__graph_value(graph, node->outputs[0]);
  *out = (fold_operands){.dtype = result->dtype, .a = inputs[0], .out = outputs[0]};
  out->b = node->input_count > 1 ? inputs[1] : inputs[0];
  if (result->dtype != ULL_FLOAT32 && result->dtype != ULL_FLOAT64) return ULL_ERROR_UNSUPPORTED;
  return ull__shape_count(&result->shape, &out->count);
}

#define FOLD_LOOP(type, expression)                               \
  do {                                                            \
    const type *a = f.a, *b = f.b;                                \
    type *out = f.out;                                            \
    (void)b;                                                      \
    for (uint64_t i = 0; i < f.count; i++) out[i] = (expression); \
  } while (0)

#define FOLD(expression_float, expression_double)                     \
  do {                                                                \
    fold_operands f;                                                  \
    ULL__TRY(fold_operands_of(graph, node, inputs, outputs, &f));     \
    if (f.dtype == ULL_FLOAT32) FOLD_LOOP(float, expression_float);   \
    if (f.dtype == ULL_FLOAT64) FOLD_LOOP(double, expression_double); \
    return ULL_OK;                                                    \
  } while (0)

static ull_status fold_add(const ull__graph *graph, const ull__node *node,
                           const void *const *inputs, void *const *outputs) {
  FOLD(a[i] + b[i], a[i] + b[i]);
}

static ull_status fold_mul(const ull__graph *graph, const ull__node *node,
                           const void *const *inputs, void *const *outputs) {
  FOLD(a[i] * b[i], a[i] * b[i]);
}

static ull_status fold_scale(const ull__graph *graph, const ull__node *node,
                             const void *const *inputs, void *const *outputs) {
  const double factor = ull__node_real(node, "factor");
  FOLD(a[i] * (float)factor, a[i] * factor);
}

static const ull__attribute_spec scale_attributes[] = {ULL__ATTRIBUTE_REAL("factor", 1.0), {0}};
static const ull__attribute_spec gelu_attributes[] = {ULL__ATTRIBUTE_INT("approximate", 0), {0}};
static const ull__attribute_spec dropout_attributes[] = {ULL__ATTRIBUTE_REAL("p", 0.5), {0}};

#define ELEMENTWISE(name_, inputs_, code_, overwrites_, flags_)                    \
  .name = (name_), .min_inputs = (inputs_), .max_inputs = (inputs_), .outputs = 1, \
  .flags = ULL__OP_ELEMENTWISE | (flags_), .batch_rule = ULL__BATCH_PER_SAMPLE,    \
  .overwrites = {(overwrites_)}, .element_code = ULL__ELEMENT_##code_

enum { FIRST = 1, BOTH = 3 };

const ull__operator ull__ops_elementwise[] = {
    {ELEMENTWISE("add", 2, ADD, BOTH, ULL__OP_KEEPS_ZERO), .infer = ull__infer_like_first_two,
     .gradient = add_gradient, .fold = fold_add},
    {ELEMENTWISE("mul", 2, MUL, BOTH, ULL__OP_KEEPS_ZERO), .infer = ull__infer_like_first_two,
     .gradient = mul_gradient, .fold = fold_mul},
    {ELEMENTWISE("scale", 1, SCALE, FIRST, ULL__OP_KEEPS_ZERO), .attributes = scale_attributes,
     .infer = infer_scale, .gradient = scale_gradient, .fold = fold_scale},
    {ELEMENTWISE("bias_add", 2, BIAS, FIRST, 0), .infer = infer_bias_add,
     .gradient = bias_add_gradient},
    {ELEMENTWISE("relu", 1, RELU, FIRST, ULL__OP_KEEPS_ZERO), .infer = ull__infer_like_first,
     .gradient = relu_gradient},
    {ELEMENTWISE("relu_backward", 2, RELU_BACKWARD, BOTH, ULL__OP_KEEPS_ZERO),
     .infer = ull__infer_like_first_two},
    {ELEMENTWISE("tanh", 1, TANH, FIRST, ULL__OP_KEEPS_ZERO), .infer = ull__infer_like_first,
     .gradient = tanh_gradient},
    {ELEMENTWISE("tanh_backward", 2, TANH_BACKWARD, BOTH, ULL__OP_KEEPS_ZERO),
     .infer = ull__infer_like_first_two},
    {ELEMENTWISE("sigmoid", 1, SIGMOID, FIRST, 0), .infer = ull__infer_like_first,
     .gradient = sigmoid_gradient},
    {ELEMENTWISE("sigmoid_backward", 2, SIGMOID_BACKWARD, BOTH, ULL__OP_KEEPS_ZERO),
     .infer = ull__infer_like_first_two},
    {ELEMENTWISE("gelu", 1, GELU_ERF, FIRST, ULL__OP_KEEPS_ZERO), .attributes = gelu_attributes,
     .infer = infer_gelu, .gradient = gelu_gradient},
    {ELEMENTWISE("gelu_backward", 2, GELU_ERF_BACKWARD, BOTH, ULL__OP_KEEPS_ZERO),
     .attributes = gelu_attributes, .infer = infer_gelu},
    {ELEMENTWISE("dropout", 2, DROPOUT, FIRST, ULL__OP_RANDOM | ULL__OP_KEEPS_ZERO),
     .attributes = dropout_attributes, .infer = infer_dropout, .gradient = dropout_gradient},
    {.name = "relu_mask",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .infer = infer_relu_mask},
    {.name = "relu_backward_mask",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .overwrites = {FIRST},
     .infer = infer_relu_backward_mask},
};
ULL__OP_COUNT(elementwise);
