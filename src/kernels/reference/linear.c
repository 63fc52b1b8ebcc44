/* Products of matrices, and sums to one axis. */
#include "kernels/reference/reference.h"

/* Place of w[n, k] as stored: [N, K], or [K, N] when transposed. */
static int64_t weight_place(const ull__tensor *w, bool transposed, int64_t n, int64_t k) {
  return transposed ? k * w->dims[1] + n : n * w->dims[1] + k;
}

static ull_status run_linear(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
  const bool transposed = ull__node_int(&call->node, "transposed") != 0;
  const bool biased = call->node.input_count > 2 && call->inputs[2].data != NULL;
  const int64_t width_in = ull__last(x), width_out = ull__last(y);
  for (int64_t row = 0; row < x->count / width_in; row++) {
    for (int64_t n = 0; n < width_out; n++) {
      double sum = biased ? ull__get(&call->inputs[2], n) : 0;
      for (int64_t k = 0; k < width_in; k++) {
        sum += ull__get(x, row * width_in + k) * ull__get(w, weight_place(w, transposed, n, k));
      }
      ull__set(y, row * width_out + n, sum);
    }
  }
  return ULL_OK;
}

static ull_status run_backward_input(const ull__reference_call *call) {
  const ull__tensor *dy = &call->inputs[0], *w = &call->inputs[1], *dx = &call->outputs[0];
  const bool transposed = ull__node_int(&call->node, "transposed") != 0;
  const int64_t width_in = ull__last(dx), width_out = ull__last(dy);
  for (int64_t row = 0; row < dy->count / width_out; row++) {
    for (int64_t k = 0; k < width_in; k++) {
      double sum = 0;
      for (int64_t n = 0; n < width_out; n++) {
        sum += ull__get(dy, row * width_out + n) * ull__get(w, weight_place(w, transposed, n, k));
      }
      ull__set(dx, row * width_in + k, sum);
    }
  }
  return ULL_OK;
}

static ull_status run_backward_weight(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[0], *dy = &call->inputs[1], *dw = &call->outputs[0];
  const bool transposed = ull__node_int(&call->node, "transposed") != 0;
  const int64_t width_in = ull__last(x), width_out = ull__last(dy);
  for (int64_t n = 0; n < width_out; n++) {
    for (int64_t k = 0; k < width_in; k++) {
      double sum = 0;
      for (int64_t row = 0; row < x->count / width_in; row++) {
        sum += ull__get(dy, row * width_out + n) * ull__get(x, row * width_in + k);
      }
      ull__set(dw, weight_place(dw, transposed, n, k), sum);
    }
  }
  return ULL_OK;
}

static ull_status run_sum_to_axis(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[0];
  const int64_t wanted = ull__node_int(&call->node, "axis");
  const ull__axis axis = ull__axis_of(x, (uint32_t)(wanted < 0 ? wanted + x->rank : wanted));
  for (int64_t c = 0; c < axis.size; c++) {
    double sum = 0;
    for (int64_t o = 0; o < axis.outer; o++) {
      for (int64_t i = 0; i < axis.inner; i++) {
        sum += ull__get(x, (o * axis.size + c) * axis.inner + i);
      }
    }
    ull__set(&call->outputs[0], c, sum);
  }
  return ULL_OK;
}

/* Element (row, column) of matrix `batch` of a value, or of its transpose. */
static double matrix_get(const ull__tensor *m, bool transposed, int64_t batch, int64_t row,
                         int64_t column) {
  const int64_t rows = m->dims[m->rank - 2], columns = m->dims[m->rank - 1];
  return ull__get(m, batch * rows * columns +
                         (transposed ? column * columns + row : row * columns + column));
}

static ull_status run_matmul(const ull__reference_call *call) {
  const ull__tensor *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
  const bool ta = ull__node_int(&call->node, "transpose_a") != 0;
  const bool tb = ull__node_int(&call->node, "transpose_b") != 0;
  const int64_t rows = y->dims[y->rank - 2], columns = y->dims[y->rank - 1];
  const int64_t inner = a->dims[ta ? a->rank - 2 : a->rank - 1];
  for (int64_t i = 0; i < y->count; i++) {
    const int64_t batch = i / (rows * columns), row = i / columns % rows, column = i % columns;
    double sum = 0;
    for (int64_t k = 0; k < inner; k++) {
      sum += matrix_get(a, ta, batch, row, k) * matrix_get(b, tb, batch, k, column);
    }
    ull__set(y, i, sum);
  }
  return ULL_OK;
}

const ull__reference_row ull__reference_linear[] = {
    {"linear", run_linear, 0},
    {"linear_backward_input", run_backward_input, 0},
    {"linear_backward_weight", run_backward_weight, 0},
    {"sum_to_axis", run_sum_to_axis, 0},
    {"matmul", run_matmul, 0},
    {NULL, NULL, 0},
};
