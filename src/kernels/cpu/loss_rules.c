/* Softmax and losses over plain logits. */
#include "kernels/cpu/loops/loss.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(softmax)
ULL__LOOP(softmax_backward)
ULL__LOOP(cross_entropy)
ULL__LOOP(cross_entropy_backward)
ULL__LOOP(soft_cross_entropy)
ULL__LOOP(soft_cross_entropy_backward)
ULL__LOOP(count_correct)
ULL__LOOP(linear_cross_entropy)
ULL__LOOP(linear_cross_entropy_joint)

/* Logits that exist at one time. Every chunk packs the weight twice and adds to its whole gradient,
 * so that small chunks cost time. */
#define LOGIT_BYTES (64 << 20)

static ull__rows describe_rows(const ull__shape *shape) {
  return (ull__rows){ull__rules_product(shape, 0, shape->rank - 1), ull__rules_dim(shape, -1)};
}

static ull_status choose_softmax(ull__cpu *cpu, const ull__lowering_query *query,
                                 ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__rows rows = describe_rows(ull__rules_output(query, 0));
  return ull__rules_plain_loop(cpu, query, choice, "softmax", softmax_entries, &rows, sizeof rows);
}

static ull_status choose_softmax_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                          ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__rows rows = describe_rows(ull__rules_output(query, 0));
  return ull__rules_plain_loop(cpu, query, choice, "softmax", softmax_backward_entries, &rows,
                               sizeof rows);
}

static ull__cross_entropy describe_soft_loss(const ull__lowering_query *query) {
  const ull__shape *logits = ull__rules_input(query, 0);
  return (ull__cross_entropy){.batch = ull__rules_dim(logits, 0),
                              .classes = ull__rules_dim(logits, 1),
                              .inner = ull__rules_product(logits, 2, logits->rank),
                              .label_smoothing = ull__node_real(query->node, "label_smoothing")};
}

static ull__cross_entropy describe_loss(const ull__lowering_query *query) {
  ull__cross_entropy loss = describe_soft_loss(query);
  loss.ignore_index = ull__node_int(query->node, "ignore_index");
  return loss;
}

static ull_status choose_cross_entropy(ull__cpu *cpu, const ull__lowering_query *query,
                                       ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cross_entropy loss = describe_loss(query);
  return ull__rules_plain_loop(cpu, query, choice, "cross_entropy", cross_entropy_entries, &loss,
                               sizeof loss);
}

static ull_status choose_cross_entropy_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                                ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cross_entropy loss = describe_loss(query);
  return ull__rules_plain_loop(cpu, query, choice, "cross_entropy", cross_entropy_backward_entries,
                               &loss, sizeof loss);
}

/* Workspace: the loss of each row, a double. */
static ull_status choose_soft_cross_entropy(ull__cpu *cpu, const ull__lowering_query *query,
                                            ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cross_entropy loss = describe_soft_loss(query);
  choice->kernel.workspace_bytes = (uint64_t)(loss.batch * loss.inner) * sizeof(double);
  return ull__rules_plain_loop(cpu, query, choice, "cross_entropy", soft_cross_entropy_entries,
                               &loss, sizeof loss);
}

static ull_status choose_soft_cross_entropy_backward(ull__cpu *cpu,
                                                     const ull__lowering_query *query,
                                                     ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cross_entropy loss = describe_soft_loss(query);
  return ull__rules_plain_loop(cpu, query, choice, "cross_entropy",
                               soft_cross_entropy_backward_entries, &loss, sizeof loss);
}

static ull_status choose_count_correct(ull__cpu *cpu, const ull__lowering_query *query,
                                       ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__rows rows = describe_rows(ull__rules_input(query, 0));
  return ull__rules_plain_loop(cpu, query, choice, "count_correct", count_correct_entries, &rows,
                               sizeof rows);
}

/* ---- logits chunk by chunk ---- */

/* Chunks as even as they come, of whole panels of rows. A function of the shape alone. */
static int64_t chunk_rows(int64_t rows, int64_t classes) {
  int64_t most = LOGIT_BYTES / 4 / classes;
  if (most < 8) most = 8;
  int64_t chunks = (rows + most - 1) / most, chunk = (rows + chunks - 1) / chunks;
  return (chunk + 7) / 8 * 8;
}

static ull__linear_cross_entropy describe_linear(const ull__lowering_query *query) {
  const ull__shape *x = ull__rules_input(query, 0), *w = ull__rules_input(query, 1);
  ull__linear_cross_entropy l = {.rows = ull__rules_product(x, 0, x->rank - 1),
                                 .inputs = ull__rules_dim(w, 1),
                                 .classes = ull__rules_dim(w, 0),
                                 .ignore_index = ull__node_int(query->node, "ignore_index")};
  l.chunk = chunk_rows(l.rows, l.classes);
  return l;
}

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* The chunk's losses, its logits, and what the products need. */
static uint64_t chunk_workspace_bytes(const ull__linear_cross_entropy *l, bool joint) {
  int64_t scratch = ull__gemm_scratch_floats(l->chunk, l->classes, l->inputs);
  if (joint) {
    scratch = larger(scratch, ull__gemm_scratch_floats(l->chunk, l->inputs, l->classes));
    scratch = larger(scratch, ull__gemm_scratch_floats(l->classes, l->inputs, l->chunk));
  }
  return (uint64_t)(l->chunk * 8 + (l->chunk * l->classes + scratch) * 4);
}

static ull_status choose_chunked(ull__cpu *cpu, const ull__lowering_query *query,
                                 ull__lowering_choice *choice, const ull__entry *entries,
                                 bool joint) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__linear_cross_entropy l = describe_linear(query);
  choice->kernel.workspace_bytes = chunk_workspace_bytes(&l, joint);
  ULL__TRY(
      ull__rules_plain_loop(cpu, query, choice, "linear_cross_entropy", entries, &l, sizeof l));
  for (uint32_t o = 0; o < query->node->output_count; o++) choice->may_overwrite[o] = 0;
  return ULL_OK;
}

static ull_status choose_linear_cross_entropy(ull__cpu *cpu, const ull__lowering_query *query,
                                              ull__lowering_choice *choice) {
  return choose_chunked(cpu, query, choice, linear_cross_entropy_entries, false);
}

static ull_status choose_joint(ull__cpu *cpu, const ull__lowering_query *query,
                               ull__lowering_choice *choice) {
  return choose_chunked(cpu, query, choice, linear_cross_entropy_joint_entries, true);
}

const ull__cpu_rule ull__cpu_rules_loss[] = {
    {"softmax", choose_softmax},
    {"softmax_backward", choose_softmax_backward},
    {"cross_entropy", choose_cross_entropy},
    {"cross_entropy_backward", choose_cross_entropy_backward},
    {"soft_cross_entropy", choose_soft_cross_entropy},
    {"soft_cross_entropy_backward", choose_soft_cross_entropy_backward},
    {"count_correct", choose_count_correct},
    {"linear_cross_entropy", choose_linear_cross_entropy},
    {"linear_cross_entropy_joint", choose_joint},
    {NULL, NULL}};
