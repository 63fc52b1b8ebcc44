/* Linear layers and batched products on our own GEMM. */
#include "kernels/cpu/loops/linear.h"

#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/vector.h"

#define GEMM_TEAM ULL__ISA_NAME(ull__gemm_team)
#define GEMM_ALONE ULL__ISA_NAME(ull__gemm_alone)

ull_status ULL__ISA_NAME(ull__linear)(const ull__launch_frame *launch) {
  const ull__linear *l = launch->constants;
  ull__gemm gemm = {.m = l->rows,
                    .n = l->outputs,
                    .k = l->inputs,
                    .a = launch->operands[0],
                    .a_row = l->inputs,
                    .a_column = 1,
                    .b = launch->operands[1],
                    .b_row = l->transposed ? l->outputs : 1,
                    .b_column = l->transposed ? 1 : l->inputs,
                    .c = launch->operands[l->operands],
                    .c_row = l->outputs,
                    .bias = l->operands > 2 ? launch->operands[2] : NULL,
                    .scratch = launch->operands[l->operands + 1]};
  GEMM_TEAM(&gemm);
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__linear_backward_input)(const ull__launch_frame *launch) {
  const ull__linear *l = launch->constants;
  ull__gemm gemm = {.m = l->rows,
                    .n = l->inputs,
                    .k = l->outputs,
                    .a = launch->operands[0],
                    .a_row = l->outputs,
                    .a_column = 1,
                    .b = launch->operands[1],
                    .b_row = l->transposed ? 1 : l->inputs,
                    .b_column = l->transposed ? l->outputs : 1,
                    .c = launch->operands[2],
                    .c_row = l->inputs,
                    .scratch = launch->operands[3]};
  GEMM_TEAM(&gemm);
  return ULL_OK;
}

/* dw = dy^T x, or x^T dy where w is transposed. */
ull_status ULL__ISA_NAME(ull__linear_backward_weight)(const ull__launch_frame *launch) {
  const ull__linear *l = launch->constants;
  const float *x = launch->operands[0], *dy = launch->operands[1];
  int64_t m = l->transposed ? l->inputs : l->outputs, n = l->transposed ? l->outputs : l->inputs;
  ull__gemm gemm = {.m = m,
                    .n = n,
                    .k = l->rows,
                    .a = l->transposed ? x : dy,
                    .a_row = 1,
                    .a_column = m,
                    .b = l->transposed ? dy : x,
                    .b_row = n,
                    .b_column = 1,
                    .c = launch->operands[2],
                    .c_row = n,
                    .scratch = launch->operands[3]};
  GEMM_TEAM(&gemm);
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__matmul)(const ull__launch_frame *launch) {
  const ull__matmul *p = launch->constants;
  const float *a = launch->operands[0], *b = launch->operands[1];
  float *c = launch->operands[2], *scratch = launch->operands[3];
  int64_t scratch_floats = ull__gemm_scratch_floats(p->m, p->n, p->k);
  ull__gemm product = {.m = p->m,
                       .n = p->n,
                       .k = p->k,
                       .a_row = p->transpose_a ? 1 : p->k,
                       .a_column = p->transpose_a ? p->m : 1,
                       .b_row = p->transpose_b ? 1 : p->n,
                       .b_column = p->transpose_b ? p->k : 1,
                       .c_row = p->n,
                       .scratch = scratch};
  if (!p->share_batch) {
    for (int64_t i = 0; i < p->batch; i++) {
      product.a = a + i * p->m * p->k;
      product.b = b + i * p->k * p->n;
      product.c = c + i * p->m * p->n;
      GEMM_TEAM(&product);
    }
    return ULL_OK;
  }
  PARALLEL_FOR(p->batch > 1)
  for (int64_t i = 0; i < p->batch; i++) {
    ull__gemm one = product;
    one.a = a + i * p->m * p->k;
    one.b = b + i * p->k * p->n;
    one.c = c + i * p->m * p->n;
    one.scratch = scratch + THREAD_INDEX() * scratch_floats;
    GEMM_ALONE(&one);
  }
  return ULL_OK;
}
