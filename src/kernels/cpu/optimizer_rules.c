/* Optimizer steps over a parameter's stored layout, padding and all. */
#include "kernels/cpu/loops/optimizer.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(sgd_step)
ULL__LOOP(sgd_momentum_step)
ULL__LOOP(adam_step)
ULL__LOOP(accumulate)

static double real_or_zero(const ull__node *node, const char *name) {
  return ull__operator_attribute(node->op, name) >= 0 ? ull__node_real(node, name) : 0;
}

static int64_t int_or_zero(const ull__node *node, const char *name) {
  return ull__operator_attribute(node->op, name) >= 0 ? ull__node_int(node, name) : 0;
}

static ull_status choose_step(ull__cpu *cpu, const ull__lowering_query *query,
                              ull__lowering_choice *choice, const ull__entry *entries) {
  const ull__node *node = query->node;
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cpu_choose_like_input(query, 0, choice);
  ull__optimizer_step step = {.momentum = real_or_zero(node, "momentum"),
                              .beta1 = real_or_zero(node, "beta1"),
                              .beta2 = real_or_zero(node, "beta2"),
                              .eps = real_or_zero(node, "eps"),
                              .weight_decay = real_or_zero(node, "weight_decay"),
                              .nesterov = int_or_zero(node, "nesterov") != 0,
                              .decoupled = int_or_zero(node, "decoupled") != 0};
  ULL__TRY(
      ull__rules_elements(choice->input_layouts[0], ull__rules_input(query, 0), &step.elements));
  return ull__rules_finish(cpu, query, choice, "optimizer", entries, &step, sizeof step);
}

static ull_status choose_sgd(ull__cpu *cpu, const ull__lowering_query *query,
                             ull__lowering_choice *choice) {
  return choose_step(cpu, query, choice, sgd_step_entries);
}

static ull_status choose_sgd_momentum(ull__cpu *cpu, const ull__lowering_query *query,
                                      ull__lowering_choice *choice) {
  return choose_step(cpu, query, choice, sgd_momentum_step_entries);
}

static ull_status choose_adam(ull__cpu *cpu, const ull__lowering_query *query,
                              ull__lowering_choice *choice) {
  return choose_step(cpu, query, choice, adam_step_entries);
}

static ull_status choose_accumulate(ull__cpu *cpu, const ull__lowering_query *query,
                                    ull__lowering_choice *choice) {
  return choose_step(cpu, query, choice, accumulate_entries);
}

const ull__cpu_rule ull__cpu_rules_optimizer[] = {{"sgd_step", choose_sgd},
                                                  {"sgd_momentum_step", choose_sgd_momentum},
                                                  {"adam_step", choose_adam},
                                                  {"accumulate", choose_accumulate},
                                                  {NULL, NULL}};
