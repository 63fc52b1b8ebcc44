/* Embeddings and shifted ids, all plain. */
#include "kernels/cpu/loops/embedding.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(embedding)
ULL__LOOP(embedding_backward)
ULL__LOOP(shift_left)

static ull_status choose_embedding(ull__cpu *cpu, const ull__lowering_query *query,
                                   ull__lowering_choice *choice) {
  const ull__shape *ids = ull__rules_input(query, 0), *w = ull__rules_input(query, 1);
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__embedding e = {.ids = ull__rules_product(ids, 0, ids->rank),
                      .rows = ull__rules_dim(w, 0),
                      .channels = ull__rules_dim(w, 1)};
  ULL__TRY(ull__rules_plain_loop(cpu, query, choice, "embedding", embedding_entries, &e, sizeof e));
  /* Of the table only the rows of the ids are read. */
  choice->kernel.seconds =
      ull__cpu_seconds(cpu, 0, 8.0 * (double)(e.ids * e.channels), ULL__CPU_LOOP_EFFICIENCY);
  return ULL_OK;
}

static ull_status choose_embedding_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                            ull__lowering_choice *choice) {
  const ull__shape *ids = ull__rules_input(query, 0), *dw = ull__rules_output(query, 0);
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__embedding e = {.ids = ull__rules_product(ids, 0, ids->rank),
                      .rows = ull__rules_dim(dw, 0),
                      .channels = ull__rules_dim(dw, 1),
                      .has_base = ull__rules_input(query, 2) != NULL,
                      .operands = query->node->input_count};
  return ull__rules_plain_loop(cpu, query, choice, "embedding", embedding_backward_entries, &e,
                               sizeof e);
}

static ull_status choose_shift_left(ull__cpu *cpu, const ull__lowering_query *query,
                                    ull__lowering_choice *choice) {
  const ull__shape *ids = ull__rules_input(query, 0);
  ull__shift s = {.rows = ull__rules_product(ids, 0, ids->rank - 1),
                  .length = ull__rules_dim(ids, -1),
                  .fill = ull__node_int(query->node, "fill")};
  return ull__rules_plain_loop(cpu, query, choice, "shift_left", shift_left_entries, &s, sizeof s);
}

const ull__cpu_rule ull__cpu_rules_embedding[] = {{"embedding", choose_embedding},
                                                  {"embedding_backward", choose_embedding_backward},
                                                  {"shift_left", choose_shift_left},
                                                  {NULL, NULL}};
