/* Softmax and losses over plain logits. */
#include "kernels/cpu/loops/loss.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(softmax)
ULL__LOOP(softmax_backward)
ULL__LOOP(cross_entropy)
ULL__LOOP(cross_entropy_backward)
ULL__LOOP(count_correct)

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

static ull__cross_entropy describe_loss(const ull__lowering_query *query) {
  const ull__shape *logits = ull__rules_input(query, 0);
  return (ull__cross_entropy){.batch = ull__rules_dim(logits, 0),
                              .classes = ull__rules_dim(logits, 1),
                              .inner = ull__rules_product(logits, 2, logits->rank),
                              .ignore_index = ull__node_int(query->node, "ignore_index"),
                              .label_smoothing = ull__node_real(query->node, "label_smoothing")};
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

static ull_status choose_count_correct(ull__cpu *cpu, const ull__lowering_query *query,
                                       ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__rows rows = describe_rows(ull__rules_input(query, 0));
  return ull__rules_plain_loop(cpu, query, choice, "count_correct", count_correct_entries, &rows,
                               sizeof rows);
}

const ull__cpu_rule ull__cpu_rules_loss[] = {
    {"softmax", choose_softmax},
    {"softmax_backward", choose_softmax_backward},
    {"cross_entropy", choose_cross_entropy},
    {"cross_entropy_backward", choose_cross_entropy_backward},
    {"count_correct", choose_count_correct},
    {NULL, NULL}};
