/* Products of matrices, and the sums that bias gradients are. */
#include "graph/ops/ops.h"

static const ull__attribute_spec transposed_attributes[] = {ULL__ATTRIBUTE_INT("transposed", 0),
                                                            {0}};
static const ull__attribute_spec axis_attributes[] = {ULL__ATTRIBUTE_INT("axis", -1), {0}};
static const ull__attribute_spec matmul_attributes[] = {
    ULL__ATTRIBUTE_INT("transpose_a", 0), ULL__ATTRIBUTE_INT("transpose_b", 0), {0}};

static ull__dim last_dim(const ull__shape *shape) {
  return shape->dims[shape->rank - 1];
}

/* w as stored: {n, k} of [N, K], or of [K, N] when transposed. */
static ull_status weight_dims(const ull__inference *inference, uint32_t i, ull__dim *n,
                              ull__dim *k) {
  int64_t transposed = 0;
  ULL__TRY(ull__infer_int_between(inference, "transposed", 0, 1, &transposed));
  ULL__TRY(ull__infer_rank(inference, i, 2));
  ULL__TRY(ull__infer_unbatched(inference, i));
  const ull__shape *w = ull__infer_shape(inference, i);
  *n = w->dims[transposed ? 1 : 0];
  *k = w->dims[transposed ? 0 : 1];
  return ULL_OK;
}

/* Output 0 is input 0 with another last dimension. */
static ull_status infer_product(ull__inference *inference, ull__dim inner, ull__dim outer) {
  ULL__TRY(ull__infer_rank_between(inference, 0, 1, ULL__MAX_RANK));
  const ull__shape *x = ull__infer_shape(inference, 0);
  if (!ull__dim_equal(last_dim(x), inner)) {
    return ull__infer_invalid(inference, "rows of %lld where the weight takes %lld",
                              (long long)last_dim(x).constant, (long long)inner.constant);
  }
  ull__infer_like(inference, 0, 0);
  inference->shapes[0].dims[x->rank - 1] = outer;
  return ULL_OK;
}

static ull_status infer_linear(ull__inference *inference) {
  ull__dim n = {0}, k = {0};
  ULL__TRY(ull__infer_floats(inference, 7));
  ULL__TRY(weight_dims(inference, 1, &n, &k));
  ULL__TRY(infer_product(inference, k, n));
  return ull__infer_vector(inference, 2, n);
}

static ull_status infer_linear_backward_input(ull__inference *inference) {
  ull__dim n = {0}, k = {0};
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(weight_dims(inference, 1, &n, &k));
  return infer_product(inference, n, k);
}

static ull_status infer_linear_backward_weight(ull__inference *inference) {
  int64_t transposed = 0;
  ULL__TRY(ull__infer_int_between(inference, "transposed", 0, 1, &transposed));
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(ull__infer_rank_between(inference, 0, 1, ULL__MAX_RANK));
  const ull__shape *x = ull__infer_shape(inference, 0), *dy = ull__infer_shape(inference, 1);
  const ull__shape leading = ull__leading_shape(x, x->rank - 1);
  const ull__shape other = ull__leading_shape(dy, dy->rank ? dy->rank - 1 : 0);
  if (x->rank != dy->rank || !ull__shape_equal(&leading, &other)) {
    return ull__infer_invalid(inference, "inputs 0 and 1 have different rows");
  }
  const ull__dim k = last_dim(x), n = last_dim(dy);
  inference->shapes[0] = (ull__shape){.rank = 2, .dims = {transposed ? k : n, transposed ? n : k}};
  return ULL_OK;
}

static ull_status emit_weight_gradients(ull__gradients *gradients, const ull__node *node,
                                        ull__value_id dy) {
  const ull__attribute_setting transposed =
      ULL__INT("transposed", ull__node_int(node, "transposed"));
  ull__value_id gradient;
  if (ull__gradients_wanted(gradients, node->inputs[1])) {
    const ull__value_id inputs[] = {node->inputs[0], dy};
    ULL__TRY(ull__gradients_emit(gradients, node, "linear_backward_weight", "grad_weight", inputs,
                                 2, &transposed, 1, &gradient));
    ULL__TRY(ull__gradients_add(gradients, node->inputs[1], gradient));
  }
  if (node->input_count < 3 || !ull__gradients_wanted(gradients, node->inputs[2])) return ULL_OK;
  ULL__TRY(
      ull__gradients_emit(gradients, node, "sum_to_axis", "grad_bias", &dy, 1, NULL, 0, &gradient));
  return ull__gradients_add(gradients, node->inputs[2], gradient);
}

static ull_status linear_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  ULL__TRY(emit_weight_gradients(gradients, node, dy));
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  const ull__attribute_setting transposed =
      ULL__INT("transposed", ull__node_int(node, "transposed"));
  const ull__value_id inputs[] = {dy, node->inputs[1]};
  ull__value_id dx;
  ULL__TRY(ull__gradients_emit(gradients, node, "linear_backward_input", "grad_input", inputs, 2,
                               &transposed, 1, &dx));
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

static ull_status infer_sum_to_axis(ull__inference *inference) {
  const ull__shape *x = ull__infer_shape(inference, 0);
  const int64_t rank = x->rank;
  int64_t axis = 0;
  ULL__TRY(ull__infer_rank_between(inference, 0, 1, ULL__MAX_RANK));
  ULL__TRY(ull__infer_int_between(inference, "axis", -rank, rank - 1, &axis));
  ULL__TRY(ull__infer_floats(inference, 1));
  inference->shapes[0] = (ull__shape){.rank = 1, .dims = {x->dims[axis < 0 ? axis + rank : axis]}};
  return ULL_OK;
}

static ull_status infer_matmul(ull__inference *inference) {
  int64_t ta = 0, tb = 0;
  ULL__TRY(ull__infer_int_between(inference, "transpose_a", 0, 1, &ta));
  ULL__TRY(ull__infer_int_between(inference, "transpose_b", 0, 1, &tb));
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(ull__infer_rank_between(inference, 0, 2, ULL__MAX_RANK));
  const ull__shape *a = ull__infer_shape(inference, 0), *b = ull__infer_shape(inference, 1);
  ULL__TRY(ull__infer_rank(inference, 1, a->rank));
  const uint32_t r = a->rank;
  const ull__shape leading = ull__leading_shape(a, r - 2), other = ull__leading_shape(b, r - 2);
  if (!ull__shape_equal(&leading, &other)) {
    return ull__infer_invalid(inference, "the leading dimensions differ");
  }
  if (!ull__dim_equal(a->dims[ta ? r - 2 : r - 1], b->dims[tb ? r - 1 : r - 2])) {
    return ull__infer_invalid(inference, "the inner dimensions differ");
  }
  ull__infer_like(inference, 0, 0);
  inference->shapes[0].dims[r - 2] = a->dims[ta ? r - 1 : r - 2];
  inference->shapes[0].dims[r - 1] = b->dims[tb ? r - 2 : r - 1];
  return ULL_OK;
}

static ull_status emit_matmul(ull__gradients *gradients, const ull__node *node, const char *suffix,
                              ull__value_id a, ull__value_id b, bool transpose_a, bool transpose_b,
                              ull__value_id target) {
  const ull__attribute_setting settings[] = {ULL__INT("transpose_a", transpose_a),
                                             ULL__INT("transpose_b", transpose_b)};
  const ull__value_id inputs[] = {a, b};
  ull__value_id gradient;
  ULL__TRY(
      ull__gradients_emit(gradients, node, "matmul", suffix, inputs, 2, settings, 2, &gradient));
  return ull__gradients_add(gradients, target, gradient);
}

/* y = A B, A and B being the inputs or their transposes: dA = dy B', dB = A' dy, and a transposed
 * input takes the transpose of that product. */
static ull_status matmul_gradient(ull__gradients *gradients, const ull__node *node) {
  const bool ta = ull__node_int(node, "transpose_a") != 0;
  const bool tb = ull__node_int(node, "transpose_b") != 0;
  const ull__value_id a = node->inputs[0], b = node->inputs[1];
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  if (ull__gradients_wanted(gradients, b)) {
    ULL__TRY(tb ? emit_matmul(gradients, node, "grad_b", dy, a, true, ta, b)
                : emit_matmul(gradients, node, "grad_b", a, dy, !ta, false, b));
  }
  if (!ull__gradients_wanted(gradients, a)) return ULL_OK;
  return ta ? emit_matmul(gradients, node, "grad_a", b, dy, tb, true, a)
            : emit_matmul(gradients, node, "grad_a", dy, b, false, !tb, a);
}

static double last_of(const ull__graph *graph, ull__value_id value) {
  const ull__shape *shape = &ull__graph_value(graph, value)->shape;
  return (double)last_dim(shape).constant;
}

static ull__cost linear_cost(const ull__graph *graph, const ull__node *node) {
  const double rows = ull__value_elements(graph, node->outputs[0]);
  return ull__cost_flops(graph, node, 2 * rows * last_of(graph, node->inputs[0]));
}

static ull__cost weight_cost(const ull__graph *graph, const ull__node *node) {
  const double x = ull__value_elements(graph, node->inputs[0]);
  return ull__cost_flops(graph, node, 2 * x * last_of(graph, node->inputs[1]));
}

static ull__cost matmul_cost(const ull__graph *graph, const ull__node *node) {
  const ull__shape *a = &ull__graph_value(graph, node->inputs[0])->shape;
  const bool ta = ull__node_int(node, "transpose_a") != 0;
  const double inner = (double)a->dims[ta ? a->rank - 2 : a->rank - 1].constant;
  return ull__cost_flops(graph, node, 2 * inner * ull__value_elements(graph, node->outputs[0]));
}

const ull__operator ull__ops_linear[] = {
    {.name = "linear",
     .min_inputs = 2,
     .max_inputs = 3,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = transposed_attributes,
     .infer = infer_linear,
     .gradient = linear_gradient,
     .cost = linear_cost},
    {.name = "linear_backward_input",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = transposed_attributes,
     .infer = infer_linear_backward_input,
     .cost = linear_cost},
    {.name = "linear_backward_weight",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_SUM,
     .attributes = transposed_attributes,
     .infer = infer_linear_backward_weight,
     .cost = weight_cost},
    {.name = "sum_to_axis",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .batch_rule = ULL__BATCH_SUM,
     .attributes = axis_attributes,
     .infer = infer_sum_to_axis},
    {.name = "matmul",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = matmul_attributes,
     .infer = infer_matmul,
     .gradient = matmul_gradient,
     .cost = matmul_cost},
};
ULL__OP_COUNT(linear);
