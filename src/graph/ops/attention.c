/* Multi-head self-attention over packed rows q|k|v, and softmax.
 *
 * Attention takes one more input where sequences are joined from several documents: int64 [B, T]
 * numbers. A run of equal numbers is a document, and rows attend within their own alone. */
#include <math.h>

#include "graph/ops/ops.h"

static const ull__attribute_spec attention_attributes[] = {ULL__ATTRIBUTE_INT("heads", 1),
                                                           ULL__ATTRIBUTE_INT("causal", 1),
                                                           ULL__ATTRIBUTE_REAL("scale", 0),
                                                           {0}};

/* The shapes of y [B, T, C] and logsumexp [B, heads, T] for qkv [B, T, 3C]. */
static ull_status read_qkv(const ull__inference *inference, ull__shape *y, ull__shape *rows) {
  int64_t heads = 0;
  ULL__TRY(ull__infer_rank(inference, 0, 3));
  const ull__shape *qkv = ull__infer_shape(inference, 0);
  ULL__TRY(ull__infer_int_between(inference, "heads", 1, INT32_MAX, &heads));
  ULL__TRY(ull__infer_int_between(inference, "causal", 0, 1, NULL));
  const double scale = ull__node_real(inference->node, "scale");
  if (!(scale >= 0 && isfinite(scale))) return ull__infer_invalid(inference, "scale is %g", scale);
  const ull__dim width = qkv->dims[2];
  if (width.batch != 0 || qkv->dims[1].batch != 0 || width.constant % (3 * heads) != 0) {
    return ull__infer_invalid(inference, "rows of %lld are not q, k and v of %lld heads",
                              (long long)width.constant, (long long)heads);
  }
  *y = *qkv;
  y->dims[2] = ull__dim_of(width.constant / 3);
  *rows = (ull__shape){.rank = 3, .dims = {qkv->dims[0], ull__dim_of(heads), qkv->dims[1]}};
  return ULL_OK;
}

/* The optional input `i`: a number for each row of qkv. */
static ull_status check_documents(const ull__inference *inference, uint32_t i) {
  const ull__shape *documents = ull__infer_shape(inference, i);
  if (documents == NULL) return ULL_OK;
  ULL__TRY(ull__infer_ids(inference, i));
  const ull__shape rows = ull__leading_shape(ull__infer_shape(inference, 0), 2);
  if (ull__shape_equal(documents, &rows)) return ULL_OK;
  return ull__infer_invalid(inference, "not one document number for each row");
}

static ull_status infer_attention(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 1));
  ULL__TRY(read_qkv(inference, &inference->shapes[0], &inference->shapes[1]));
  return check_documents(inference, 1);
}

static ull_status infer_attention_backward(ull__inference *inference) {
  ull__shape y, rows;
  ULL__TRY(ull__infer_floats(inference, 15));
  ULL__TRY(read_qkv(inference, &y, &rows));
  if (!ull__shape_equal(ull__infer_shape(inference, 1), &y) ||
      !ull__shape_equal(ull__infer_shape(inference, 2), &rows) ||
      !ull__shape_equal(ull__infer_shape(inference, 3), &y)) {
    return ull__infer_invalid(inference, "inputs that are not of one attention");
  }
  ull__infer_like(inference, 0, 0);
  return check_documents(inference, 4);
}

static ull_status attention_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  if (!ull__gradients_wanted(gradients, node->inputs[0]) || dy == ULL__NONE) return ULL_OK;
  ull__attribute_setting settings[ULL__MAX_ATTRIBUTES];
  const uint32_t count = ull__node_settings(node, settings);
  const ull__value_id documents = node->input_count > 1 ? node->inputs[1] : ULL__NONE;
  const ull__value_id inputs[] = {node->inputs[0], node->outputs[0], node->outputs[1], dy,
                                  documents};
  ull__value_id dqkv;
  ULL__TRY(ull__gradients_emit(gradients, node, "attention_backward", "grad_input", inputs,
                               documents == ULL__NONE ? 4 : 5, settings, count, &dqkv));
  return ull__gradients_add(gradients, node->inputs[0], dqkv);
}

static ull_status infer_softmax(ull__inference *inference) {
  ULL__TRY(ull__infer_rank_between(inference, 0, 1, ULL__MAX_RANK));
  const ull__shape *x = ull__infer_shape(inference, 0);
  if (x->dims[x->rank - 1].batch != 0) return ull__infer_invalid(inference, "a sum of the batch");
  return inference->node->op->min_inputs == 2 ? ull__infer_like_first_two(inference)
                                              : ull__infer_like_first(inference);
}

static ull_status softmax_gradient(ull__gradients *gradients, const ull__node *node) {
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  const ull__value_id inputs[] = {ull__gradients_of(gradients, node->outputs[0]), node->outputs[0]};
  ull__value_id dx;
  ULL__TRY(ull__gradients_emit(gradients, node, "softmax_backward", "grad_input", inputs, 2, NULL,
                               0, &dx));
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

/* `products` matrix products of T x T x C for each sample, half of them when causal. */
static ull__cost products_cost(const ull__graph *graph, const ull__node *node, double products) {
  const ull__shape *qkv = &ull__graph_value(graph, node->inputs[0])->shape;
  const double length = (double)qkv->dims[1].constant;
  const double y = ull__value_elements(graph, node->inputs[0]) / 3;
  const double part = ull__node_int(node, "causal") ? 0.5 : 1;
  return ull__cost_flops(graph, node, 2 * products * part * y * length);
}

static ull__cost attention_cost(const ull__graph *graph, const ull__node *node) {
  return products_cost(graph, node, 2);
}

static ull__cost attention_backward_cost(const ull__graph *graph, const ull__node *node) {
  return products_cost(graph, node, 5);
}

static ull__cost softmax_cost(const ull__graph *graph, const ull__node *node) {
  return ull__cost_flops(graph, node, 8 * ull__value_elements(graph, node->inputs[0]));
}

const ull__operator ull__ops_attention[] = {
    {.name = "attention",
     .min_inputs = 1,
     .max_inputs = 2,
     .outputs = 2,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = attention_attributes,
     .infer = infer_attention,
     .gradient = attention_gradient,
     .cost = attention_cost},
    {.name = "attention_backward",
     .min_inputs = 4,
     .max_inputs = 5,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = attention_attributes,
     .infer = infer_attention_backward,
     .cost = attention_backward_cost},
    {.name = "softmax",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .overwrites = {1},
     .infer = infer_softmax,
     .gradient = softmax_gradient,
     .cost = softmax_cost},
    {.name = "softmax_backward",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .overwrites = {3},
     .infer = infer_softmax,
     .cost = softmax_cost},
};
ULL__OP_COUNT(attention);
