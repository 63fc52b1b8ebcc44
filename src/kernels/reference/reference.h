/* The reference kernels: one plain loop an operator, the oracle that others are compared with.
 *
 * Operands are plain; numbers are read as double, computed in double and rounded once when they
 * are stored, whether the value is float32 or float64. A family is a file with one table of
 * {operator, function}, ended by an empty row, and a line in ULL__REFERENCE_FAMILIES. */
#ifndef ULL_KERNELS_REFERENCE_REFERENCE_H
#define ULL_KERNELS_REFERENCE_REFERENCE_H

#include "base/error.h"
#include "graph/elementwise.h"
#include "kernels/lowering.h"

typedef struct ull__tensor {
  void *data; /* NULL for an absent operand */
  ull_dtype dtype;
  uint32_t rank;
  int64_t dims[ULL__MAX_RANK];
  int64_t count; /* elements */
} ull__tensor;

/* One launch: the node's row, attributes, steps and identity, and its operands. */
typedef struct ull__reference_call {
  ull__node node; /* inputs and outputs are not set */
  ull__element_step steps[ULL__MAX_ELEMENT_STEPS];
  int64_t batch; /* the graph's, at least 1 */
  ull__tensor inputs[ULL__MAX_INPUTS];
  ull__tensor outputs[ULL__MAX_OUTPUTS];
} ull__reference_call;

typedef ull_status (*ull__reference_function)(const ull__reference_call *call);

typedef struct ull__reference_row {
  const char *op;
  ull__reference_function run;
  uint16_t may_overwrite; /* of output 0: inputs that are read before their place is written */
} ull__reference_row;

#define ULL__REFERENCE_FAMILIES(XX) \
  XX(elementwise)                   \
  XX(shape)                         \
  XX(linear)                        \
  XX(convolution)                   \
  XX(pooling)                       \
  XX(normalization)                 \
  XX(embedding)                     \
  XX(attention)                     \
  XX(loss)                          \
  XX(optimizer)

#define XX(family) extern const ull__reference_row ull__reference_##family[];
ULL__REFERENCE_FAMILIES(XX)
#undef XX

static inline double ull__get(const ull__tensor *tensor, int64_t i) {
  if (tensor->dtype == ULL_FLOAT64) return ((const double *)tensor->data)[i];
  return (double)((const float *)tensor->data)[i];
}

static inline void ull__set(const ull__tensor *tensor, int64_t i, double value) {
  if (tensor->dtype == ULL_FLOAT64) {
    ((double *)tensor->data)[i] = value;
  } else {
    ((float *)tensor->data)[i] = (float)value;
  }
}

static inline void ull__accumulate(const ull__tensor *tensor, int64_t i, double value) {
  ull__set(tensor, i, ull__get(tensor, i) + value);
}

static inline int64_t ull__get_int(const ull__tensor *tensor, int64_t i) {
  return ((const int64_t *)tensor->data)[i];
}

/* Size of the last dimension; 1 of a scalar. */
static inline int64_t ull__last(const ull__tensor *tensor) {
  return tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 1;
}

/* Place of element (n, c, h, w) of four dimensions. */
static inline int64_t ull__place4(const ull__tensor *tensor, int64_t n, int64_t c, int64_t h,
                                  int64_t w) {
  const int64_t *d = tensor->dims;
  return ((n * d[1] + c) * d[2] + h) * d[3] + w;
}

/* A value as [outer, size of the axis, inner]. */
typedef struct ull__axis {
  int64_t outer, size, inner;
} ull__axis;

static inline ull__axis ull__axis_of(const ull__tensor *tensor, uint32_t axis) {
  ull__axis around = {1, tensor->dims[axis], 1};
  for (uint32_t i = 0; i < axis; i++) around.outer *= tensor->dims[i];
  for (uint32_t i = axis + 1; i < tensor->rank; i++) around.inner *= tensor->dims[i];
  return around;
}

#endif
