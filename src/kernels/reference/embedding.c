/* Tables of rows: tokens, positions, and the shift that makes labels of tokens. */
#include <string.h>

#include "kernels/reference/reference.h"

static ull_status check_id(int64_t id, int64_t rows) {
  if (id >= 0 && id < rows) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_DATA, "id %lld is not one of %lld rows", (long long)id,
                   (long long)rows);
}

static ull_status run_embedding(const ull__reference_call *call) {
  const ull__tensor *ids = &call->inputs[0], *w = &call->inputs[1];
  const int64_t width = w->dims[1];
  for (int64_t i = 0; i < ids->count; i++) {
    const int64_t id = ull__get_int(ids, i);
    ULL__TRY(check_id(id, w->dims[0]));
    for (int64_t c = 0; c < width; c++) {
      ull__set(&call->outputs[0], i * width + c, ull__get(w, id * width + c));
    }
  }
  return ULL_OK;
}

static ull_status run_embedding_backward(const ull__reference_call *call) {
  const ull__tensor *ids = &call->inputs[0], *dy = &call->inputs[1], *dw = &call->outputs[0];
  const int64_t width = dw->dims[1];
  const bool has_base = call->node.input_count > 2 && call->inputs[2].data != NULL;
  for (int64_t i = 0; i < dw->count; i++) {
    ull__set(dw, i, has_base ? ull__get(&call->inputs[2], i) : 0);
  }
  for (int64_t i = 0; i < ids->count; i++) {
    const int64_t id = ull__get_int(ids, i);
    ULL__TRY(check_id(id, dw->dims[0]));
    for (int64_t c = 0; c < width; c++) {
      ull__accumulate(dw, id * width + c, ull__get(dy, i * width + c));
    }
  }
  return ULL_OK;
}

static ull_status run_shift_left(const ull__reference_call *call) {
  const ull__tensor *ids = &call->inputs[0];
  int64_t *out = call->outputs[0].data;
  const int64_t length = ids->dims[1];
  for (int64_t i = 0; i < ids->count; i++) {
    const bool last = i % length == length - 1;
    out[i] = last ? ull__node_int(&call->node, "fill") : ull__get_int(ids, i + 1);
  }
  return ULL_OK;
}

static ull_status run_add_positions(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[0];
  const int64_t sample = x->dims[1] * x->dims[2];
  for (int64_t i = 0; i < x->count; i++) {
    ull__set(&call->outputs[0], i, ull__get(x, i) + ull__get(&call->inputs[1], i % sample));
  }
  return ULL_OK;
}

static ull_status run_positions_backward(const ull__reference_call *call) {
  const ull__tensor *dy = &call->inputs[0], *dw = &call->outputs[0];
  const int64_t sample = dy->dims[1] * dy->dims[2];
  for (int64_t i = 0; i < dw->count; i++) {
    double sum = 0;
    for (int64_t n = 0; n < dy->dims[0] && i < sample; n++) sum += ull__get(dy, n * sample + i);
    ull__set(dw, i, sum);
  }
  return ULL_OK;
}

const ull__reference_row ull__reference_embedding[] = {
    {"embedding", run_embedding, 0},
    {"embedding_backward", run_embedding_backward, UINT16_MAX},
    {"shift_left", run_shift_left, 0},
    {"add_positions", run_add_positions, 1},
    {"positions_backward", run_positions_backward, 0},
    {NULL, NULL, 0},
};
