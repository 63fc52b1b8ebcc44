/* What shape, cost and gradient rules of all families are written with. */
#include <stdarg.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/half.h"
#include "graph/ops/ops.h"

ull_status ull__infer_invalid(const ull__inference *inference, const char *format, ...) {
  char reason[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  return ull__node_invalid(inference->graph, inference->node, "%s", reason);
}

const ull__value *ull__infer_input(const ull__inference *inference, uint32_t i) {
  if (i >= inference->node->input_count) return NULL;
  return ull__graph_value(inference->graph, inference->node->inputs[i]);
}

const ull__shape *ull__infer_shape(const ull__inference *inference, uint32_t i) {
  const ull__value *value = ull__infer_input(inference, i);
  return value ? &value->shape : NULL;
}

ull_status ull__infer_rank(const ull__inference *inference, uint32_t i, uint32_t rank) {
  return ull__infer_rank_between(inference, i, rank, rank);
}

ull_status ull__infer_rank_between(const ull__inference *inference, uint32_t i, uint32_t low,
                                   uint32_t high) {
  const uint32_t rank = ull__infer_shape(inference, i)->rank;
  if (rank >= low && rank <= high) return ULL_OK;
  if (low == high) {
    return ull__infer_invalid(inference, "input %u has %u dimensions, not %u", i, rank, low);
  }
  return ull__infer_invalid(inference, "input %u has %u dimensions, not %u to %u", i, rank, low,
                            high);
}

ull_status ull__infer_same_shape(const ull__inference *inference, uint32_t i, uint32_t j) {
  if (ull__shape_equal(ull__infer_shape(inference, i), ull__infer_shape(inference, j))) {
    return ULL_OK;
  }
  return ull__infer_invalid(inference, "inputs %u and %u differ in shape", i, j);
}

ull_status ull__infer_dtype(const ull__inference *inference, uint32_t i, ull_dtype dtype) {
  const ull__value *value = ull__infer_input(inference, i);
  if (!value || value->dtype == dtype) return ULL_OK;
  return ull__infer_invalid(inference, "input %u is %s, not %s", i, ull_dtype_name(value->dtype),
                            ull_dtype_name(dtype));
}

ull_status ull__infer_ids(const ull__inference *inference, uint32_t i) {
  return ull__infer_dtype(inference, i, ULL_INT64);
}

ull_status ull__infer_vector(const ull__inference *inference, uint32_t i, ull__dim length) {
  const ull__shape *shape = ull__infer_shape(inference, i);
  if (!shape || (shape->rank == 1 && ull__dim_equal(shape->dims[0], length))) return ULL_OK;
  return ull__infer_invalid(inference, "input %u is not a vector of %lld", i,
                            (long long)length.constant);
}

ull_status ull__infer_unbatched(const ull__inference *inference, uint32_t i) {
  const ull__shape *shape = ull__infer_shape(inference, i);
  if (!shape || ull__shape_is_bound(shape)) return ULL_OK;
  return ull__infer_invalid(inference, "input %u may not grow with the batch", i);
}

ull_status ull__infer_floats(ull__inference *inference, uint32_t mask) {
  const ull__value *first = NULL;
  for (uint32_t i = 0; i < inference->node->input_count; i++) {
    const ull__value *value = ull__infer_input(inference, i);
    if (!(mask & (1u << i)) || !value) continue;
    if (!ull__dtype_is_float(value->dtype)) {
      return ull__infer_invalid(inference, "input %u is %s, not a floating-point type", i,
                                ull_dtype_name(value->dtype));
    }
    if (!first) first = value;
    if (value->dtype != first->dtype) {
      return ull__infer_invalid(inference, "input %u is %s beside %s", i,
                                ull_dtype_name(value->dtype), ull_dtype_name(first->dtype));
    }
  }
  for (uint32_t o = 0; first && o < inference->node->op->outputs; o++) {
    inference->dtypes[o] = first->dtype;
  }
  return ULL_OK;
}

void ull__infer_like(ull__inference *inference, uint32_t o, uint32_t i) {
  inference->shapes[o] = *ull__infer_shape(inference, i);
}

ull_status ull__infer_int_between(const ull__inference *inference, const char *name, int64_t low,
                                  int64_t high, int64_t *out) {
  const int64_t value = ull__node_int(inference->node, name);
  if (value < low || value > high) {
    return ull__infer_invalid(inference, "%s is %lld, not in [%lld, %lld]", name, (long long)value,
                              (long long)low, (long long)high);
  }
  if (out) *out = value;
  return ULL_OK;
}

ull_status ull__infer_window(const ull__inference *inference, ull__dim size,
                             const ull__window *window, ull__dim *out) {
  if (size.batch != 0) return ull__infer_invalid(inference, "a window over the batch");
  int64_t reach = 0, padded = 0;
  if (__builtin_mul_overflow(window->dilation, window->kernel - 1, &reach) ||
      __builtin_add_overflow(size.constant, 2 * window->pad, &padded) || reach > INT64_MAX / 4 ||
      padded > INT64_MAX / 4) {
    return ull__infer_invalid(inference, "a window that does not fit into 63 bits");
  }
  const int64_t span = padded - reach - 1;
  if (span < 0) {
    return ull__infer_invalid(inference, "a window of %lld over %lld padded elements",
                              (long long)reach + 1, (long long)padded);
  }
  int64_t count = span / window->stride + 1;
  if (window->ceil_mode && span % window->stride != 0) {
    count += count < (size.constant + window->pad + window->stride - 1) / window->stride;
  }
  *out = ull__dim_of(count);
  return ULL_OK;
}

ull_status ull__infer_like_first(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 1));
  ull__infer_like(inference, 0, 0);
  return ULL_OK;
}

ull_status ull__infer_like_first_two(ull__inference *inference) {
  ULL__TRY(ull__infer_floats(inference, 3));
  ULL__TRY(ull__infer_same_shape(inference, 0, 1));
  ull__infer_like(inference, 0, 0);
  return ULL_OK;
}

uint32_t ull__channel_axis(const ull__shape *shape) {
  return shape->rank == 4 ? 1 : shape->rank - 1;
}

ull__shape ull__leading_shape(const ull__shape *shape, uint32_t rank) {
  ull__shape leading = {.rank = rank};
  for (uint32_t i = 0; i < rank; i++) leading.dims[i] = shape->dims[i];
  return leading;
}

double ull__value_elements(const ull__graph *graph, ull__value_id value) {
  const ull__value *v = ull__graph_value(graph, value);
  uint64_t elements = 0;
  if (!v || !ull__shape_is_bound(&v->shape)) return 0;
  return ull__shape_count(&v->shape, &elements) == ULL_OK ? (double)elements : 0;
}

static double operand_bytes(const ull__graph *graph, const ull__node *node) {
  double bytes = 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    const ull__value *value = ull__graph_value(graph, node->inputs[i]);
    if (!value) continue;
    bytes += ull__value_elements(graph, node->inputs[i]) * ull_dtype_bytes(value->dtype);
  }
  for (uint32_t o = 0; o < node->output_count; o++) {
    const ull__value *value = ull__graph_value(graph, node->outputs[o]);
    bytes += ull__value_elements(graph, node->outputs[o]) * ull_dtype_bytes(value->dtype);
  }
  return bytes;
}

ull__cost ull__cost_flops(const ull__graph *graph, const ull__node *node, double flops) {
  return (ull__cost){.flops = flops, .bytes = operand_bytes(graph, node)};
}

ull__cost ull__node_cost(const ull__graph *graph, const ull__node *node) {
  if (node->op->flags & ULL__OP_VIEW) return (ull__cost){0, 0};
  if (node->op->cost) return node->op->cost(graph, node);
  double elements = 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    elements += ull__value_elements(graph, node->inputs[i]);
  }
  return ull__cost_flops(graph, node, elements);
}

uint32_t ull__node_settings(const ull__node *node, ull__attribute_setting *settings) {
  uint32_t count = 0;
  for (const ull__attribute_spec *spec = node->op->attributes; spec && spec->name; spec++) {
    settings[count] = (ull__attribute_setting){spec->name, node->attributes[count]};
    count++;
  }
  return count;
}

uint32_t ull__node_settings_sized(const ull__graph *graph, const ull__node *node,
                                  ull__attribute_setting *settings) {
  const ull__shape *x = &ull__graph_value(graph, node->inputs[0])->shape;
  uint32_t count = ull__node_settings(node, settings);
  settings[count++] = (ull__attribute_setting)ULL__INT("input_h", x->dims[2].constant);
  settings[count++] = (ull__attribute_setting)ULL__INT("input_w", x->dims[3].constant);
  return count;
}
