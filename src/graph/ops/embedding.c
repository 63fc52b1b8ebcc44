/* Tables of rows: tokens, positions, and the shift that makes labels of tokens. */
#include "graph/ops/ops.h"

static const ull__attribute_spec rows_attributes[] = {ULL__ATTRIBUTE_INT("rows", 0), {0}};
static const ull__attribute_spec fill_attributes[] = {ULL__ATTRIBUTE_INT("fill", -100), {0}};

static ull_status infer_embedding(ull__inference *inference) {
  ULL__TRY(ull__infer_ids(inference, 0));
  ULL__TRY(ull__infer_floats(inference, 2));
  ULL__TRY(ull__infer_rank_between(inference, 0, 0, ULL__MAX_RANK - 1));
  ULL__TRY(ull__infer_rank(inference, 1, 2));
  ULL__TRY(ull__infer_unbatched(inference, 1));
  ull__infer_like(inference, 0, 0);
  inference->shapes[0].dims[inference->shapes[0].rank++] = ull__infer_shape(inference, 1)->dims[1];
  return ULL_OK;
}

static ull_status infer_embedding_backward(ull__inference *inference) {
  int64_t rows = 0;
  ULL__TRY(ull__infer_int_between(inference, "rows", 1, INT64_MAX, &rows));
  ULL__TRY(ull__infer_ids(inference, 0));
  ULL__TRY(ull__infer_floats(inference, 6));
  ULL__TRY(ull__infer_rank_between(inference, 1, 1, ULL__MAX_RANK));
  const ull__shape *ids = ull__infer_shape(inference, 0), *dy = ull__infer_shape(inference, 1);
  const ull__shape leading = ull__leading_shape(dy, dy->rank - 1);
  if (!ull__shape_equal(ids, &leading)) {
    return ull__infer_invalid(inference, "not one gradient row for each id");
  }
  inference->shapes[0] =
      (ull__shape){.rank = 2, .dims = {ull__dim_of(rows), dy->dims[dy->rank - 1]}};
  const ull__shape *base = ull__infer_shape(inference, 2);
  if (base && !ull__shape_equal(base, &inference->shapes[0])) {
    return ull__infer_invalid(inference, "input 2 is no gradient of this table");
  }
  return ULL_OK;
}

/* Adds its rows onto the gradient that the table has already, where there is one. */
static ull_status embedding_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id table = node->inputs[1];
  if (!ull__gradients_wanted(gradients, table)) return ULL_OK;
  const ull__value *w = ull__graph_value(ull__gradients_graph(gradients), table);
  const ull__attribute_setting rows = ULL__INT("rows", w->shape.dims[0].constant);
  const ull__value_id pending = ull__gradients_pending(gradients, table);
  const ull__value_id inputs[] = {node->inputs[0], ull__gradients_of(gradients, node->outputs[0]),
                                  pending};
  ull__value_id dw;
  ULL__TRY(ull__gradients_emit(gradients, node, "embedding_backward", "grad_weight", inputs,
                               pending == ULL__NONE ? 2 : 3, &rows, 1, &dw));
  if (pending == ULL__NONE) return ull__gradients_add(gradients, table, dw);
  ull__gradients_replace(gradients, table, dw);
  return ULL_OK;
}

static ull_status infer_shift_left(ull__inference *inference) {
  ULL__TRY(ull__infer_ids(inference, 0));
  ULL__TRY(ull__infer_rank(inference, 0, 2));
  ull__infer_like(inference, 0, 0);
  inference->dtypes[0] = ULL_INT64;
  return ULL_OK;
}

static ull_status infer_add_positions(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(ull__infer_rank(inference, 0, 3));
  ULL__TRY(ull__infer_rank(inference, 1, 2));
  ULL__TRY(ull__infer_unbatched(inference, 1));
  const ull__shape *x = ull__infer_shape(inference, 0), *w = ull__infer_shape(inference, 1);
  if (x->dims[1].batch != 0 || x->dims[1].constant > w->dims[0].constant) {
    return ull__infer_invalid(inference, "%lld positions in a table of %lld",
                              (long long)x->dims[1].constant, (long long)w->dims[0].constant);
  }
  if (!ull__dim_equal(x->dims[2], w->dims[1])) {
    return ull__infer_invalid(inference, "rows of different length");
  }
  ull__infer_like(inference, 0, 0);
  return ULL_OK;
}

static ull_status infer_positions_backward(ull__inference *inference) {
  int64_t rows = 0;
  ULL__TRY(ull__infer_floats(inference, 1));
  ULL__TRY(ull__infer_rank(inference, 0, 3));
  const ull__shape *dy = ull__infer_shape(inference, 0);
  ULL__TRY(ull__infer_int_between(inference, "rows", dy->dims[1].constant, INT64_MAX, &rows));
  inference->shapes[0] = (ull__shape){.rank = 2, .dims = {ull__dim_of(rows), dy->dims[2]}};
  return ULL_OK;
}

static ull_status add_positions_gradient(ull__gradients *gradients, const ull__node *node) {
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  const ull__value_id table = node->inputs[1];
  if (ull__gradients_wanted(gradients, table)) {
    const ull__value *w = ull__graph_value(ull__gradients_graph(gradients), table);
    const ull__attribute_setting rows = ULL__INT("rows", w->shape.dims[0].constant);
    ull__value_id dw;
    ULL__TRY(ull__gradients_emit(gradients, node, "positions_backward", "grad_weight", &dy, 1,
                                 &rows, 1, &dw));
    ULL__TRY(ull__gradients_add(gradients, table, dw));
  }
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  return ull__gradients_add(gradients, node->inputs[0], dy);
}

const ull__operator ull__ops_embedding[] = {
    {.name = "embedding",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .infer = infer_embedding,
     .gradient = embedding_gradient},
    {.name = "embedding_backward",
     .min_inputs = 2,
     .max_inputs = 3,
     .outputs = 1,
     .batch_rule = ULL__BATCH_SUM,
     .attributes = rows_attributes,
     .overwrites = {ULL__INPUT(2)},
     .infer = infer_embedding_backward},
    {.name = "shift_left",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = fill_attributes,
     .infer = infer_shift_left},
    {.name = "add_positions",
     .min_inputs = 2,
     .max_inputs = 2,
     .outputs = 1,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .overwrites = {1},
     .infer = infer_add_positions,
     .gradient = add_positions_gradient},
    {.name = "positions_backward",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .batch_rule = ULL__BATCH_SUM,
     .attributes = rows_attributes,
     .infer = infer_positions_backward},
};
ULL__OP_COUNT(embedding);
