/* Operators that move or rename bytes without changing numbers. */
#include <string.h>

#include "base/checked.h"
#include "graph/ops/ops.h"

static const char *const dim_names[ULL__MAX_RANK] = {"d0", "d1", "d2", "d3",
                                                     "d4", "d5", "d6", "d7"};

/* Attribute 0 is the rank, 1..8 the dimensions, 9 the mask of those that multiply the batch. */
enum { RANK = 0, DIMS = 1, BATCHED = 1 + ULL__MAX_RANK };

static const ull__attribute_spec reshape_attributes[] = {ULL__ATTRIBUTE_INT("rank", 0),
                                                         ULL__ATTRIBUTE_INT("d0", 0),
                                                         ULL__ATTRIBUTE_INT("d1", 0),
                                                         ULL__ATTRIBUTE_INT("d2", 0),
                                                         ULL__ATTRIBUTE_INT("d3", 0),
                                                         ULL__ATTRIBUTE_INT("d4", 0),
                                                         ULL__ATTRIBUTE_INT("d5", 0),
                                                         ULL__ATTRIBUTE_INT("d6", 0),
                                                         ULL__ATTRIBUTE_INT("d7", 0),
                                                         ULL__ATTRIBUTE_INT("batched", 0),
                                                         {0}};

ull_status ull__reshape_settings(const ull__shape *shape,
                                 ull__attribute_setting settings[2 + ULL__MAX_RANK]) {
  int64_t batched = 0;
  settings[RANK] = (ull__attribute_setting)ULL__INT("rank", shape->rank);
  for (uint32_t i = 0; i < ULL__MAX_RANK; i++) {
    const ull__dim dim = i < shape->rank ? shape->dims[i] : ull__dim_of(0);
    if (dim.batch != 0 && dim.constant != 0) {
      return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "a reshape to a dimension of %lld+%lldB",
                       (long long)dim.constant, (long long)dim.batch);
    }
    if (dim.batch != 0) batched |= INT64_C(1) << i;
    settings[DIMS + i] =
        (ull__attribute_setting)ULL__INT(dim_names[i], dim.batch ? dim.batch : dim.constant);
  }
  settings[BATCHED] = (ull__attribute_setting)ULL__INT("batched", batched);
  return ULL_OK;
}

ull_status ull__reshape_bind(ull__attribute *attributes, int64_t batch) {
  for (int64_t i = 0; i < attributes[RANK].i; i++) {
    if (!(attributes[BATCHED].i >> i & 1)) continue;
    uint64_t grown = 0;
    ULL__TRY(ull__size_mul((uint64_t)attributes[DIMS + i].i, (uint64_t)batch, "dimension", &grown));
    attributes[DIMS + i].i = (int64_t)grown;
  }
  attributes[BATCHED].i = 0;
  return ULL_OK;
}

static ull_status infer_reshape(ull__inference *inference) {
  int64_t rank = 0, batched = 0, size = 0;
  ULL__TRY(ull__infer_int_between(inference, "rank", 0, ULL__MAX_RANK, &rank));
  ULL__TRY(ull__infer_int_between(inference, "batched", 0, (INT64_C(1) << rank) - 1, &batched));
  ull__shape shape = {.rank = (uint32_t)rank};
  for (int64_t i = 0; i < rank; i++) {
    ULL__TRY(ull__infer_int_between(inference, dim_names[i], 1, INT64_MAX, &size));
    shape.dims[i] = batched >> i & 1 ? ull__dim_batch(size) : ull__dim_of(size);
  }
  ull__dim before, after;
  ULL__TRY(ull__shape_elements(ull__infer_shape(inference, 0), &before));
  if (ull__shape_elements(&shape, &after) != ULL_OK || !ull__dim_equal(before, after)) {
    char text[512];
    return ull__infer_invalid(inference, "the elements do not fill %s",
                              ull__shape_text(&shape, text, sizeof text));
  }
  inference->shapes[0] = shape;
  inference->dtypes[0] = ull__infer_input(inference, 0)->dtype;
  return ULL_OK;
}

static ull_status reshape_gradient(ull__gradients *gradients, const ull__node *node) {
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  const ull__graph *graph = ull__gradients_graph(gradients);
  ull__attribute_setting settings[ULL__RESHAPE_SETTINGS];
  ULL__TRY(ull__reshape_settings(&ull__graph_value(graph, node->inputs[0])->shape, settings));
  const ull__value_id dy = ull__gradients_of(gradients, node->outputs[0]);
  ull__value_id dx;
  ULL__TRY(ull__gradients_emit(gradients, node, "reshape", "grad_input", &dy, 1, settings,
                               ULL__RESHAPE_SETTINGS, &dx));
  return ull__gradients_add(gradients, node->inputs[0], dx);
}

static ull_status copy_gradient(ull__gradients *gradients, const ull__node *node) {
  if (!ull__gradients_wanted(gradients, node->inputs[0])) return ULL_OK;
  return ull__gradients_add(gradients, node->inputs[0],
                            ull__gradients_of(gradients, node->outputs[0]));
}

static ull_status infer_copy(ull__inference *inference) {
  ull__infer_like(inference, 0, 0);
  inference->dtypes[0] = ull__infer_input(inference, 0)->dtype;
  return ULL_OK;
}

static ull_status fold_bytes(const ull__graph *graph, const ull__node *node,
                             const void *const *inputs, void *const *outputs) {
  const ull__value *value = ull__graph_value(graph, node->outputs[0]);
  uint64_t bytes = 0;
  ULL__TRY(ull__shape_bytes(&value->shape, value->dtype, &bytes));
  memcpy(outputs[0], inputs[0], bytes);
  return ULL_OK;
}

const ull__operator ull__ops_shape[] = {
    {.name = "reshape",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_VIEW,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .attributes = reshape_attributes,
     .infer = infer_reshape,
     .gradient = reshape_gradient,
     .fold = fold_bytes},
    {.name = "copy",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_ELEMENTWISE | ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .overwrites = {1},
     .element_code = ULL__ELEMENT_COPY,
     .infer = infer_copy,
     .gradient = copy_gradient,
     .fold = fold_bytes},
    {.name = "reorder",
     .min_inputs = 1,
     .max_inputs = 1,
     .outputs = 1,
     .flags = ULL__OP_KEEPS_ZERO,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .infer = infer_copy},
};
ULL__OP_COUNT(shape);
