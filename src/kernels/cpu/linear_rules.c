/* Linear layers and batched products on our own GEMM: plain operands, bits free of batch and team.
 */
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/linear.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(linear)
ULL__LOOP(linear_backward_input)
ULL__LOOP(linear_backward_weight)
ULL__LOOP(matmul)
ULL__LOOP(sum_to_axis)

/* Fraction of the measured product rate that products of these sizes reach. */
static double gemm_efficiency(int64_t m, int64_t n, int64_t k) {
  double packing = 1.0 + 6.0 / (double)m + 6.0 / (double)n + 6.0 / (double)k;
  return 0.85 / packing;
}

static ull_status finish_product(ull__cpu *cpu, ull__lowering_choice *choice, int64_t batch,
                                 int64_t m, int64_t n, int64_t k, int64_t copies) {
  double mnk = (double)batch * (double)m * (double)n * (double)k;
  double elements = (double)(m * n) + (double)(m * k) + (double)(k * n);
  choice->kernel.workspace_bytes =
      (uint64_t)(ull__gemm_scratch_floats(m, n, k) * copies) * sizeof(float);
  choice->kernel.seconds =
      ull__cpu_seconds(cpu, 2 * mnk, 4 * (double)batch * elements, gemm_efficiency(m, n, k));
  return ULL_OK;
}

/* x is [..., inputs], y [..., outputs]. */
static ull__linear describe(const ull__node *node, const ull__shape *x, const ull__shape *y) {
  return (ull__linear){.rows = ull__rules_product(x, 0, x->rank - 1),
                       .inputs = ull__rules_dim(x, -1),
                       .outputs = ull__rules_dim(y, -1),
                       .transposed = ull__node_int(node, "transposed") != 0,
                       .operands = node->input_count};
}

static ull_status choose_linear(ull__cpu *cpu, const ull__lowering_query *query,
                                ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__linear l = describe(query->node, ull__rules_input(query, 0), ull__rules_output(query, 0));
  ULL__TRY(ull__rules_plain_loop(cpu, query, choice, "gemm", linear_entries, &l, sizeof l));
  choice->may_overwrite[0] = 0;
  return finish_product(cpu, choice, 1, l.rows, l.outputs, l.inputs, 1);
}

static ull_status choose_backward_input(ull__cpu *cpu, const ull__lowering_query *query,
                                        ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__linear l = describe(query->node, ull__rules_output(query, 0), ull__rules_input(query, 0));
  ULL__TRY(ull__rules_plain_loop(cpu, query, choice, "gemm", linear_backward_input_entries, &l,
                                 sizeof l));
  choice->may_overwrite[0] = 0;
  return finish_product(cpu, choice, 1, l.rows, l.inputs, l.outputs, 1);
}

static ull_status choose_backward_weight(ull__cpu *cpu, const ull__lowering_query *query,
                                         ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__linear l = describe(query->node, ull__rules_input(query, 0), ull__rules_input(query, 1));
  ULL__TRY(ull__rules_plain_loop(cpu, query, choice, "gemm", linear_backward_weight_entries, &l,
                                 sizeof l));
  choice->may_overwrite[0] = 0;
  int64_t m = l.transposed ? l.inputs : l.outputs, n = l.transposed ? l.outputs : l.inputs;
  return finish_product(cpu, choice, 1, m, n, l.rows, 1);
}

static ull_status choose_matmul(ull__cpu *cpu, const ull__lowering_query *query,
                                ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  const ull__shape *a = ull__rules_input(query, 0), *y = ull__rules_output(query, 0);
  bool transpose_a = ull__node_int(query->node, "transpose_a") != 0;
  ull__matmul p = {.batch = ull__rules_product(y, 0, y->rank - 2),
                   .m = ull__rules_dim(y, (int)y->rank - 2),
                   .n = ull__rules_dim(y, -1),
                   .k = ull__rules_dim(a, transpose_a ? (int)a->rank - 2 : -1),
                   .transpose_a = transpose_a,
                   .transpose_b = ull__node_int(query->node, "transpose_b") != 0};
  p.share_batch = p.batch >= cpu->threads && p.m * p.n < 1024 * 1024;
  ULL__TRY(ull__rules_plain_loop(cpu, query, choice, "gemm", matmul_entries, &p, sizeof p));
  choice->may_overwrite[0] = 0;
  return finish_product(cpu, choice, p.batch, p.m, p.n, p.k, p.share_batch ? cpu->threads : 1);
}

/* A bias gradient of [N, C, H, W] takes its operand in any layout of channels. */
static ull_status choose_sum_to_axis(ull__cpu *cpu, const ull__lowering_query *query,
                                     ull__lowering_choice *choice) {
  const ull__shape *x = ull__rules_input(query, 0);
  if (!ull__rules_float32(query)) return ULL_OK;
  int64_t axis = ull__node_int(query->node, "axis");
  uint32_t at = axis < 0 ? (uint32_t)(axis + (int64_t)x->rank) : (uint32_t)axis;
  ull__channel_rows rows;
  ull__cpu_choose_plain(query, choice);
  if (x->rank == 4 && at == 1 && ull__rules_has_geometry(query->input_layouts[0])) {
    choice->input_layouts[0] = query->input_layouts[0];
    ULL__TRY(ull__rules_channel_rows(choice->input_layouts[0], x, &rows));
  } else {
    rows = ull__rules_plain_rows(ull__rules_product(x, 0, at), ull__rules_dim(x, (int)at),
                                 ull__rules_product(x, at + 1, x->rank));
  }
  choice->may_overwrite[0] = 0;
  choice->kernel.workspace_bytes = (uint64_t)ull__channel_scratch_bytes(&rows);
  return ull__rules_finish(cpu, query, choice, "sum", sum_to_axis_entries, &rows, sizeof rows);
}

const ull__cpu_rule ull__cpu_rules_linear[] = {{"linear", choose_linear},
                                               {"linear_backward_input", choose_backward_input},
                                               {"linear_backward_weight", choose_backward_weight},
                                               {"matmul", choose_matmul},
                                               {"sum_to_axis", choose_sum_to_axis},
                                               {NULL, NULL}};
