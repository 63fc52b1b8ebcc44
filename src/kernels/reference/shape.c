/* Operators that keep every byte. */
#include <string.h>

#include "kernels/reference/reference.h"

static ull_status run_copy(const ull__reference_call *call) {
  const size_t bytes = (size_t)call->inputs[0].count * ull_dtype_bytes(call->inputs[0].dtype);
  memmove(call->outputs[0].data, call->inputs[0].data, bytes);
  return ULL_OK;
}

const ull__reference_row ull__reference_shape[] = {
    {"reshape", run_copy, 0},
    {"copy", run_copy, UINT16_MAX},
    {"reorder", run_copy, 0},
    {NULL, NULL, 0},
};
