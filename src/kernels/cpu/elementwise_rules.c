/* Element-wise nodes, single and fused, as chains over memory order. */
#include "kernels/cpu/loops/elementwise.h"

#include <string.h>

#include "kernels/cpu/families.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(run_chain)
ULL__LOOP(relu_mask)
ULL__LOOP(relu_backward_mask)
ULL__LOOP(add_positions)
ULL__LOOP(positions_backward)

/* Rows of more channels are read where they lie; shorter ones are repeated in a pattern. */
#define LONGEST_PATTERN 256

static bool has_code(const ull__chain *chain, ull__element_code code) {
  for (uint32_t s = 0; s < chain->step_count; s++) {
    if (chain->steps[s].code == code) return true;
  }
  return false;
}

static bool has_kind(const ull__chain *chain, ull__chain_operand kind) {
  for (uint32_t i = 0; i < chain->input_count; i++) {
    if (chain->operand_kinds[i] == kind) return true;
  }
  return false;
}

static double immediate_of(const ull__node *node) {
  if (ull__operator_attribute(node->op, "factor") >= 0) return ull__node_real(node, "factor");
  if (ull__operator_attribute(node->op, "p") >= 0) return ull__node_real(node, "p");
  return 0;
}

static void describe_steps(const ull__node *node, ull__chain *chain) {
  chain->input_count = node->input_count;
  chain->step_count = node->step_count;
  for (uint32_t s = 0; s < node->step_count; s++) chain->steps[s] = node->steps[s];
  if (node->step_count > 0) return;
  chain->step_count = 1;
  chain->steps[0] = (ull__element_step){.code = (uint8_t)ull__node_element_code(node),
                                        .operand_count = (uint8_t)node->input_count,
                                        .immediate = immediate_of(node),
                                        .identity = node->identity};
  for (uint32_t i = 0; i < node->input_count; i++) chain->steps[0].operands[i] = (uint8_t)i;
}

static void describe_operands(ull__chain *chain) {
  for (uint32_t s = 0; s < chain->step_count; s++) {
    const ull__element_step *step = &chain->steps[s];
    for (uint32_t k = 0; k < step->operand_count; k++) {
      if (step->operands[k] >= chain->input_count) continue;
      ull__chain_operand kind = ULL__CHAIN_FULL;
      if (ull__element_operand_is_channel((ull__element_code)step->code, k)) {
        kind = ULL__CHAIN_CHANNEL;
      }
      if (step->code == ULL__ELEMENT_DROPOUT && k == 1) kind = ULL__CHAIN_RANDOM;
      chain->operand_kinds[step->operands[k]] = (uint8_t)kind;
    }
  }
}

/* Channels side by side in rows of `channels`. */
static void describe_rows(ull__chain *chain, int64_t elements, int64_t channels) {
  bool is_long = channels > LONGEST_PATTERN;
  chain->groups = is_long ? elements / channels : 1;
  chain->span = is_long ? channels : elements;
  chain->group_cycle = 1;
  chain->lanes = chain->channels = channels;
}

static ull_status describe_memory(const ull__layout *layout, const ull__shape *shape,
                                  ull__chain *chain) {
  int64_t elements;
  ULL__TRY(ull__rules_elements(layout, shape, &elements));
  *chain = (ull__chain){.input_count = chain->input_count,
                        .step_count = chain->step_count,
                        .groups = 1,
                        .span = elements,
                        .group_cycle = 1,
                        .lanes = 1,
                        .channels = 1};
  return ULL_OK;
}

static ull_status describe_channels(const ull__layout *layout, const ull__shape *shape,
                                    ull__chain *chain) {
  ull__geometry g;
  int64_t elements = chain->span;
  if (shape->rank != 4) {
    describe_rows(chain, elements, shape->rank == 0 ? 1 : ull__rules_dim(shape, -1));
    return ULL_OK;
  }
  ULL__TRY(ull__layout_geometry(layout, shape, &g));
  if (layout->kind == ULL__LAYOUT_CHANNELS_LAST || (g.block == 1 && g.spatial == 1)) {
    describe_rows(chain, elements, (int64_t)g.channels);
    return ULL_OK;
  }
  chain->groups = (int64_t)(g.batch * g.block_count);
  chain->span = (int64_t)g.block_stride;
  chain->group_cycle = (int64_t)g.block_count;
  chain->lanes = (int64_t)g.block;
  chain->channels = (int64_t)g.channels;
  return ULL_OK;
}

static ull_status describe_samples(const ull__lowering_query *query, const ull__layout *layout,
                                   const ull__shape *shape, int64_t memory_elements,
                                   ull__chain *chain) {
  uint64_t elements;
  ull__geometry g;
  ULL__TRY(ull__shape_count(shape, &elements));
  int64_t batch = ull__graph_batch(query->graph);
  if (batch <= 0 || (int64_t)elements % batch != 0) batch = 1;
  chain->sample_elements = (int64_t)elements / batch;
  chain->sample_memory = memory_elements / batch;
  if (layout->kind == ULL__LAYOUT_PLAIN) return ULL_OK;
  ULL__TRY(ull__layout_geometry(layout, shape, &g));
  chain->spatial = (int64_t)g.spatial;
  chain->block = (int64_t)g.block;
  return ULL_OK;
}

static void limit_overwrites(const ull__chain *chain, ull__lowering_choice *choice) {
  for (uint32_t i = 0; i < chain->input_count; i++) {
    if (chain->operand_kinds[i] != ULL__CHAIN_FULL) {
      choice->may_overwrite[0] &= (uint16_t) ~(1u << i);
    }
  }
}

static ull_status choose_chain(ull__cpu *cpu, const ull__lowering_query *query,
                               ull__lowering_choice *choice) {
  const ull__shape *shape = ull__rules_output(query, 0);
  ull__chain chain = {0}, steps = {0};
  if (ull__cpu_dtype(query->graph, query->node->outputs[0]) != ULL_FLOAT32) return ULL_OK;
  describe_steps(query->node, &steps);
  describe_operands(&steps);
  bool by_place = has_kind(&steps, ULL__CHAIN_CHANNEL) || has_kind(&steps, ULL__CHAIN_RANDOM);
  ull__cpu_choose_elementwise(query, !has_code(&steps, ULL__ELEMENT_SIGMOID), choice);
  if (by_place && !ull__rules_has_geometry(choice->output_layouts[0])) {
    ull__cpu_choose_plain(query, choice);
  }
  limit_overwrites(&steps, choice);
  const ull__layout *layout = choice->output_layouts[0];
  ULL__TRY(describe_memory(layout, shape, &chain));
  int64_t memory_elements = chain.span;
  if (has_kind(&steps, ULL__CHAIN_CHANNEL)) ULL__TRY(describe_channels(layout, shape, &chain));
  if (has_kind(&steps, ULL__CHAIN_RANDOM)) {
    ULL__TRY(describe_samples(query, layout, shape, memory_elements, &chain));
  }
  memcpy(chain.steps, steps.steps, sizeof chain.steps);
  memcpy(chain.operand_kinds, steps.operand_kinds, sizeof chain.operand_kinds);
  chain.input_count = steps.input_count;
  chain.step_count = steps.step_count;
  return ull__rules_finish(cpu, query, choice, "elementwise", run_chain_entries, &chain,
                           sizeof chain);
}

/* ---- masks of one bit ---- */

static ull_status choose_relu_mask(ull__cpu *cpu, const ull__lowering_query *query,
                                   ull__lowering_choice *choice) {
  const ull__shape *shape = ull__rules_input(query, 0);
  ull__flat flat;
  if (!ull__rules_float32(query)) return ULL_OK;
  choice->input_layouts[0] = query->input_layouts[0];
  ULL__TRY(ull__rules_elements(choice->input_layouts[0], shape, &flat.elements));
  choice->output_layouts[0] =
      ull__cpu_layout_bits(cpu, choice->input_layouts[0], ULL_FLOAT32, shape);
  if (choice->output_layouts[0] == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  return ull__rules_finish(cpu, query, choice, "relu_mask", relu_mask_entries, &flat, sizeof flat);
}

static ull_status choose_relu_backward_mask(ull__cpu *cpu, const ull__lowering_query *query,
                                            ull__lowering_choice *choice) {
  const ull__layout *base = ull__cpu_layout_bits_base(query->input_layouts[1]);
  ull__flat flat;
  if (!ull__rules_float32(query)) return ULL_OK;
  ULL__TRY(ull__rules_elements(base, ull__rules_output(query, 0), &flat.elements));
  choice->input_layouts[0] = choice->output_layouts[0] = base;
  choice->input_layouts[1] = query->input_layouts[1];
  choice->may_overwrite[0] = 1;
  return ull__rules_finish(cpu, query, choice, "relu_backward_mask", relu_backward_mask_entries,
                           &flat, sizeof flat);
}

/* ---- positions ---- */

static ull_status choose_add_positions(ull__cpu *cpu, const ull__lowering_query *query,
                                       ull__lowering_choice *choice) {
  const ull__shape *x = ull__rules_input(query, 0);
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__positions p = {.batch = ull__rules_product(x, 0, x->rank - 2),
                      .time = ull__rules_dim(x, (int)x->rank - 2),
                      .channels = ull__rules_dim(x, -1)};
  ULL__TRY(ull__rules_plain_loop(cpu, query, choice, "add_positions", add_positions_entries, &p,
                                 sizeof p));
  choice->may_overwrite[0] = 1;
  return ULL_OK;
}

static ull_status choose_positions_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                            ull__lowering_choice *choice) {
  const ull__shape *dy = ull__rules_input(query, 0);
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__positions p = {.batch = ull__rules_product(dy, 0, dy->rank - 2),
                      .time = ull__rules_dim(dy, (int)dy->rank - 2),
                      .channels = ull__rules_dim(dy, -1),
                      .rows = ull__rules_dim(ull__rules_output(query, 0), 0)};
  return ull__rules_plain_loop(cpu, query, choice, "positions_backward", positions_backward_entries,
                               &p, sizeof p);
}

const ull__cpu_rule ull__cpu_rules_elementwise[] = {
    {"add", choose_chain},
    {"mul", choose_chain},
    {"scale", choose_chain},
    {"bias_add", choose_chain},
    {"relu", choose_chain},
    {"relu_backward", choose_chain},
    {"tanh", choose_chain},
    {"tanh_backward", choose_chain},
    {"sigmoid", choose_chain},
    {"sigmoid_backward", choose_chain},
    {"gelu", choose_chain},
    {"gelu_backward", choose_chain},
    {"dropout", choose_chain},
    {"copy", choose_chain},
    {"batch_norm_normalize", choose_chain},
    {"fused_elementwise", choose_chain},
    {"relu_mask", choose_relu_mask},
    {"relu_backward_mask", choose_relu_backward_mask},
    {"add_positions", choose_add_positions},
    {"positions_backward", choose_positions_backward},
    {NULL, NULL}};
