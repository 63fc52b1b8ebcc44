/* Pooling in the layout of the operand. */
#include "kernels/cpu/loops/pooling.h"

#include "kernels/cpu/families.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(max_pool2d)
ULL__LOOP(max_pool2d_backward)
ULL__LOOP(avg_pool2d)
ULL__LOOP(avg_pool2d_backward)
ULL__LOOP(global_avg_pool)
ULL__LOOP(global_avg_pool_backward)

/* `image` is the unpooled side, `pooled` the other. */
static ull_status describe(const ull__node *node, const ull__layout *layout,
                           const ull__shape *image, const ull__shape *pooled, ull__pooling *out) {
  ull__geometry g;
  ULL__TRY(ull__layout_geometry(layout, image, &g));
  *out = (ull__pooling){.planes = (int64_t)(g.batch * g.block_count),
                        .block = (int64_t)g.block,
                        .height = ull__rules_dim(image, 2),
                        .width = ull__rules_dim(image, 3),
                        .out_height = ull__rules_dim(pooled, 2),
                        .out_width = ull__rules_dim(pooled, 3),
                        .divided = ull__operator_attribute(node->op, "kernel_h") < 0};
  if (out->divided) return ULL_OK;
  out->kernel_height = ull__node_int(node, "kernel_h");
  out->kernel_width = ull__node_int(node, "kernel_w");
  out->stride_height = ull__node_int(node, "stride_h");
  out->stride_width = ull__node_int(node, "stride_w");
  out->pad_height = ull__node_int(node, "pad_h");
  out->pad_width = ull__node_int(node, "pad_w");
  if (ull__operator_attribute(node->op, "count_include_pad") >= 0) {
    out->count_padding = ull__node_int(node, "count_include_pad") != 0;
  }
  return ULL_OK;
}

/* All operands of four dimensions in the layout of the first. */
static const ull__layout *spread(const ull__lowering_query *query, ull__lowering_choice *choice,
                                 uint32_t decides) {
  const ull__layout *layout = query->input_layouts[decides];
  if (!ull__rules_has_geometry(layout)) layout = &ull__layout_plain;
  for (uint32_t i = 0; i < query->node->input_count; i++) choice->input_layouts[i] = layout;
  for (uint32_t o = 0; o < query->node->output_count; o++) choice->output_layouts[o] = layout;
  return layout;
}

static ull_status choose_window(ull__cpu *cpu, const ull__lowering_query *query,
                                ull__lowering_choice *choice, const char *name,
                                const ull__entry *entries, bool backward, uint32_t decides) {
  ull__pooling p;
  if (!ull__rules_float32(query)) return ULL_OK;
  const ull__shape *input = ull__rules_input(query, 0), *output = ull__rules_output(query, 0);
  const ull__layout *layout = spread(query, choice, decides);
  ULL__TRY(describe(query->node, layout, backward ? output : input, backward ? input : output, &p));
  return ull__rules_finish(cpu, query, choice, name, entries, &p, sizeof p);
}

static ull_status choose_max(ull__cpu *cpu, const ull__lowering_query *query,
                             ull__lowering_choice *choice) {
  return choose_window(cpu, query, choice, "max_pool", max_pool2d_entries, false, 0);
}

/* The index, which is saved, decides: it has the layout the image had. */
static ull_status choose_max_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                      ull__lowering_choice *choice) {
  return choose_window(cpu, query, choice, "max_pool", max_pool2d_backward_entries, true, 1);
}

static ull_status choose_mean(ull__cpu *cpu, const ull__lowering_query *query,
                              ull__lowering_choice *choice) {
  return choose_window(cpu, query, choice, "avg_pool", avg_pool2d_entries, false, 0);
}

static ull_status choose_mean_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                       ull__lowering_choice *choice) {
  return choose_window(cpu, query, choice, "avg_pool", avg_pool2d_backward_entries, true, 0);
}

static ull_status choose_adaptive(ull__cpu *cpu, const ull__lowering_query *query,
                                  ull__lowering_choice *choice) {
  return choose_window(cpu, query, choice, "adaptive_avg_pool", avg_pool2d_entries, false, 0);
}

static ull_status choose_adaptive_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                           ull__lowering_choice *choice) {
  return choose_window(cpu, query, choice, "adaptive_avg_pool", avg_pool2d_backward_entries, true,
                       0);
}

static ull_status describe_global(const ull__layout *layout, const ull__shape *image,
                                  ull__global_pooling *out) {
  ull__geometry g;
  ULL__TRY(ull__layout_geometry(layout, image, &g));
  *out = (ull__global_pooling){.batch = (int64_t)g.batch,
                               .channels = (int64_t)g.channels,
                               .blocks = (int64_t)g.block_count,
                               .block = (int64_t)g.block,
                               .positions = (int64_t)g.spatial};
  return ULL_OK;
}

static ull_status choose_global(ull__cpu *cpu, const ull__lowering_query *query,
                                ull__lowering_choice *choice) {
  ull__global_pooling p;
  if (!ull__rules_float32(query)) return ULL_OK;
  const ull__layout *layout = spread(query, choice, 0);
  choice->output_layouts[0] = &ull__layout_plain;
  ULL__TRY(describe_global(layout, ull__rules_input(query, 0), &p));
  return ull__rules_finish(cpu, query, choice, "avg_pool", global_avg_pool_entries, &p, sizeof p);
}

/* The gradient goes to a convolution's or a normalisation's output, which is blocked where the
 * channels fill blocks of a vector. */
static const ull__layout *likely_layout(ull__cpu *cpu, const ull__shape *image) {
  uint32_t block = cpu->isa == ULL__ISA_AVX512 ? 16 : 8;
  bool blocked = cpu->isa != ULL__ISA_PORTABLE && ull__rules_dim(image, 1) % block == 0;
  return blocked ? ull__cpu_layout_blocked(cpu, block) : &ull__layout_plain;
}

static ull_status choose_global_backward(ull__cpu *cpu, const ull__lowering_query *query,
                                         ull__lowering_choice *choice) {
  ull__global_pooling p;
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cpu_choose_plain(query, choice);
  choice->may_overwrite[0] = 0;
  choice->output_layouts[0] = likely_layout(cpu, ull__rules_output(query, 0));
  if (choice->output_layouts[0] == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(describe_global(choice->output_layouts[0], ull__rules_output(query, 0), &p));
  return ull__rules_finish(cpu, query, choice, "avg_pool", global_avg_pool_backward_entries, &p,
                           sizeof p);
}

const ull__cpu_rule ull__cpu_rules_pooling[] = {
    {"max_pool2d", choose_max},
    {"max_pool2d_backward", choose_max_backward},
    {"avg_pool2d", choose_mean},
    {"avg_pool2d_backward", choose_mean_backward},
    {"global_avg_pool", choose_global},
    {"global_avg_pool_backward", choose_global_backward},
    {"adaptive_avg_pool2d", choose_adaptive},
    {"adaptive_avg_pool2d_backward", choose_adaptive_backward},
    {NULL, NULL}};
