/* Attention on plain packed rows of q, k and v; document numbers as an operand where there are. */
#include "kernels/cpu/loops/attention.h"

#include <math.h>

#include "kernels/cpu/families.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(attention)
ULL__LOOP(attention_backward)

/* Fraction of the rate of large matrix products; the exponentials are counted in. */
#define ATTENTION_EFFICIENCY 0.5

/* `documents` is the index of the optional input. */
static ull__attention describe(const ull__lowering_query *query, uint32_t documents) {
  const ull__shape *qkv = ull__rules_input(query, 0);
  ull__attention a = {.batch = ull__rules_dim(qkv, 0),
                      .time = ull__rules_dim(qkv, 1),
                      .heads = ull__node_int(query->node, "heads"),
                      .causal = ull__node_int(query->node, "causal") != 0,
                      .has_documents = query->node->input_count > documents};
  double scale = ull__node_real(query->node, "scale");
  a.size = ull__rules_dim(qkv, 2) / (3 * a.heads);
  a.scale = (float)(scale != 0 ? scale : 1 / sqrt((double)a.size));
  return a;
}

/* `products` of queries x keys x size; half of them where attention is causal. */
static void finish_attention(ull__cpu *cpu, const ull__attention *a, double products,
                             int64_t scratch_floats, ull__lowering_choice *choice) {
  int64_t tasks = a->batch * a->heads;
  int64_t threads = tasks < cpu->threads ? tasks : cpu->threads;
  double flops = 2 * products * (double)tasks * (double)a->time * (double)a->time * (double)a->size;
  double part = a->causal ? 0.55 : 1.0;
  choice->may_overwrite[0] = 0;
  choice->kernel.workspace_bytes = (uint64_t)(threads * scratch_floats) * sizeof(float);
  choice->kernel.seconds = ull__cpu_seconds(cpu, flops * part, 0, ATTENTION_EFFICIENCY) *
                           (double)cpu->threads / (double)threads;
}

static ull_status choose_attention(ull__cpu *cpu, const ull__lowering_query *query,
                                   ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__attention a = describe(query, 1);
  ULL__TRY(ull__rules_plain_loop(cpu, query, choice, "attention", attention_entries, &a, sizeof a));
  finish_attention(cpu, &a, 2, ull__attention_scratch_floats(&a), choice);
  return ULL_OK;
}

static ull_status choose_attention_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                            ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__attention a = describe(query, 4);
  ULL__TRY(ull__rules_plain_loop(cpu, query, choice, "attention", attention_backward_entries, &a,
                                 sizeof a));
  finish_attention(cpu, &a, 5, ull__attention_backward_scratch_floats(&a), choice);
  return ULL_OK;
}

const ull__cpu_rule ull__cpu_rules_attention[] = {{"attention", choose_attention},
                                                  {"attention_backward", choose_attention_backward},
                                                  {NULL, NULL}};
