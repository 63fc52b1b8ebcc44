/* Batch normalisation over any layout of channels, layer normalisation over plain rows. */
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops/layer_norm.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(batch_norm_statistics)
ULL__LOOP(batch_norm_update)
ULL__LOOP(batch_norm_invstd)
ULL__LOOP(batch_norm_backward)
ULL__LOOP(layer_norm)
ULL__LOOP(layer_norm_backward)

static const ull__layout *channel_layout(const ull__layout *layout) {
  return ull__rules_has_geometry(layout) ? layout : &ull__layout_plain;
}

static ull_status choose_statistics(ull__cpu *cpu, const ull__lowering_query *query,
                                    ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__batch_norm norm = {.eps = ull__node_real(query->node, "eps")};
  ull__cpu_choose_plain(query, choice);
  choice->input_layouts[0] = channel_layout(query->input_layouts[0]);
  ULL__TRY(
      ull__rules_channel_rows(choice->input_layouts[0], ull__rules_input(query, 0), &norm.rows));
  choice->kernel.workspace_bytes = (uint64_t)ull__channel_scratch_bytes(&norm.rows);
  return ull__rules_finish(cpu, query, choice, "batch_norm", batch_norm_statistics_entries, &norm,
                           sizeof norm);
}

static ull_status choose_update(ull__cpu *cpu, const ull__lowering_query *query,
                                ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__batch_norm norm = {.momentum = ull__node_real(query->node, "momentum")};
  norm.rows.channels = ull__rules_dim(ull__rules_input(query, 0), 0);
  return ull__rules_plain_loop(cpu, query, choice, "batch_norm", batch_norm_update_entries, &norm,
                               sizeof norm);
}

static ull_status choose_invstd(ull__cpu *cpu, const ull__lowering_query *query,
                                ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__batch_norm norm = {.eps = ull__node_real(query->node, "eps")};
  norm.rows.channels = ull__rules_dim(ull__rules_input(query, 0), 0);
  return ull__rules_plain_loop(cpu, query, choice, "batch_norm", batch_norm_invstd_entries, &norm,
                               sizeof norm);
}

static ull_status choose_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                  ull__lowering_choice *choice) {
  const ull__node *node = query->node;
  if (!ull__rules_float32(query)) return ULL_OK;
  bool relu = ull__node_int(node, "relu") != 0;
  ull__batch_norm norm = {.relu = relu, .operands = node->input_count};
  const ull__layout *layout = channel_layout(query->input_layouts[0]);
  ull__cpu_choose_plain(query, choice);
  choice->input_layouts[0] = choice->input_layouts[1] = choice->output_layouts[0] = layout;
  ULL__TRY(ull__rules_channel_rows(layout, ull__rules_input(query, 0), &norm.rows));
  choice->kernel.workspace_bytes = (uint64_t)ull__channel_scratch_bytes(&norm.rows);
  return ull__rules_finish(cpu, query, choice, "batch_norm", batch_norm_backward_entries, &norm,
                           sizeof norm);
}

static ull__layer_norm describe_rows(const ull__shape *x) {
  ull__layer_norm norm = {.rows = ull__rules_product(x, 0, x->rank - 1),
                          .channels = ull__rules_dim(x, -1)};
  int64_t segments = (norm.rows + 31) / 32;
  norm.segments = segments < 16 ? segments : 16;
  return norm;
}

static ull_status choose_layer_norm(ull__cpu *cpu, const ull__lowering_query *query,
                                    ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__layer_norm norm = describe_rows(ull__rules_input(query, 0));
  norm.eps = ull__node_real(query->node, "eps");
  return ull__rules_plain_loop(cpu, query, choice, "layer_norm", layer_norm_entries, &norm,
                               sizeof norm);
}

static ull_status choose_layer_norm_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                             ull__lowering_choice *choice) {
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__layer_norm norm = describe_rows(ull__rules_input(query, 0));
  choice->kernel.workspace_bytes = (uint64_t)ull__layer_norm_scratch_bytes(&norm);
  return ull__rules_plain_loop(cpu, query, choice, "layer_norm", layer_norm_backward_entries, &norm,
                               sizeof norm);
}

const ull__cpu_rule ull__cpu_rules_normalization[] = {
    {"batch_norm_statistics", choose_statistics},
    {"batch_norm_update", choose_update},
    {"batch_norm_invstd", choose_invstd},
    {"batch_norm_backward", choose_backward},
    {"layer_norm", choose_layer_norm},
    {"layer_norm_backward", choose_layer_norm_backward},
    {NULL, NULL}};
