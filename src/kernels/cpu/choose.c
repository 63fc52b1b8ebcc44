/* Helpers for choose functions: layouts, predicted time, numeric class. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/family.h"

const ull__shape *ull__cpu_shape(const ull__graph *graph, ull__value_id value) {
  return &ull__graph_value(graph, value)->shape;
}

ull_dtype ull__cpu_dtype(const ull__graph *graph, ull__value_id value) {
  return ull__graph_value(graph, value)->dtype;
}

/* ---- layouts ---- */

void ull__cpu_choose_plain(const ull__lowering_query *query, ull__lowering_choice *choice) {
  const ull__node *node = query->node;
  for (uint32_t i = 0; i < node->input_count; i++) choice->input_layouts[i] = &ull__layout_plain;
  for (uint32_t o = 0; o < node->output_count; o++) {
    choice->output_layouts[o] = &ull__layout_plain;
    choice->may_overwrite[o] = UINT16_MAX;
  }
}

/* Puts every operand of this shape into `layout`. */
static void spread_layout(const ull__lowering_query *query, const ull__shape *shape,
                          const ull__layout *layout, ull__lowering_choice *choice) {
  const ull__node *node = query->node;
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] != ULL__NONE &&
        ull__shape_equal(ull__cpu_shape(query->graph, node->inputs[i]), shape)) {
      choice->input_layouts[i] = layout;
    }
  }
  for (uint32_t o = 0; o < node->output_count; o++) {
    if (ull__shape_equal(ull__cpu_shape(query->graph, node->outputs[o]), shape)) {
      choice->output_layouts[o] = layout;
    }
  }
}

void ull__cpu_choose_elementwise(const ull__lowering_query *query, bool writes_zero_padding,
                                 ull__lowering_choice *choice) {
  const ull__node *node = query->node;
  const ull__shape *shape = ull__cpu_shape(query->graph, node->outputs[0]);
  ull__cpu_choose_plain(query, choice);
  for (uint32_t i = 0; i < node->input_count; i++) {
    ull__value_id input = node->inputs[i];
    if (input == ULL__NONE || !ull__shape_equal(ull__cpu_shape(query->graph, input), shape)) {
      continue;
    }
    const ull__layout *layout = query->input_layouts[i];
    bool padded = ull__layout_is_padded(layout, ull__cpu_dtype(query->graph, input), shape);
    bool keeps_zero = (node->op->flags & ULL__OP_KEEPS_ZERO) != 0 || writes_zero_padding;
    if (!padded || keeps_zero) spread_layout(query, shape, layout, choice);
    return;
  }
}

void ull__cpu_choose_like_input(const ull__lowering_query *query, uint32_t index,
                                ull__lowering_choice *choice) {
  ull__cpu_choose_plain(query, choice);
  spread_layout(query, ull__cpu_shape(query->graph, query->node->inputs[index]),
                query->input_layouts[index], choice);
}

/* ---- time ---- */

double ull__cpu_seconds(const ull__cpu *cpu, double flops, double bytes, double efficiency) {
  double compute = cpu->rates.flops_per_second > 0 ? flops / cpu->rates.flops_per_second : 0;
  double memory = cpu->rates.bytes_per_second > 0 ? bytes / cpu->rates.bytes_per_second : 0;
  return (compute > memory ? compute : memory) / efficiency + cpu->rates.launch_seconds;
}

static double layout_bytes(const ull__graph *graph, ull__value_id value,
                           const ull__layout *layout) {
  uint64_t bytes = 0;
  if (value == ULL__NONE || layout == NULL) return 0;
  const ull__value *v = ull__graph_value(graph, value);
  return ull__layout_bytes(layout, v->dtype, &v->shape, &bytes) == ULL_OK ? (double)bytes : 0;
}

static double operand_bytes(const ull__lowering_query *query, const ull__lowering_choice *choice) {
  const ull__node *node = query->node;
  double bytes = 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    bytes += layout_bytes(query->graph, node->inputs[i], choice->input_layouts[i]);
  }
  for (uint32_t o = 0; o < node->output_count; o++) {
    bytes += layout_bytes(query->graph, node->outputs[o], choice->output_layouts[o]);
  }
  return bytes;
}

double ull__cpu_reorder_seconds(const ull__cpu *cpu, const ull__lowering_query *query,
                                const ull__lowering_choice *choice) {
  double seconds = 0;
  for (uint32_t i = 0; i < query->node->input_count; i++) {
    const ull__layout *wanted = choice->input_layouts[i];
    bool stored = (choice->stores_inputs >> i & 1) != 0;
    if (wanted == NULL || wanted == query->input_layouts[i] || stored) continue;
    double bytes = layout_bytes(query->graph, query->node->inputs[i], query->input_layouts[i]) +
                   layout_bytes(query->graph, query->node->inputs[i], wanted);
    seconds += ull__cpu_seconds(cpu, 0, bytes, 0.5);
  }
  return seconds;
}

/* ---- numeric class ---- */

static uint32_t hash_text(uint32_t hash, const char *text) {
  for (; *text != 0; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
  return hash;
}

uint32_t ull__cpu_numeric_class(const ull__cpu *cpu, const ull__lowering_query *query,
                                const ull__lowering_choice *choice, const char *implementation) {
  uint32_t hash = hash_text(2166136261u, implementation);
  for (uint32_t i = 0; i < query->node->input_count; i++) {
    if (choice->input_layouts[i] != NULL) hash = hash_text(hash, choice->input_layouts[i]->name);
  }
  for (uint32_t o = 0; o < query->node->output_count; o++) {
    if (choice->output_layouts[o] != NULL) hash = hash_text(hash, choice->output_layouts[o]->name);
  }
  return (hash ^ cpu->threads) * 16777619u;
}

ull_status ull__cpu_finish(ull__cpu *cpu, const ull__lowering_query *query,
                           ull__lowering_choice *choice, const char *name, ull__entry entry,
                           const void *constants, double efficiency) {
  ull__kernel *kernel = &choice->kernel;
  const ull__node *node = query->node;
  ull__cost cost = {0};
  if (node->op->cost != NULL) cost = node->op->cost(query->graph, node);
  bool view = (node->op->flags & ULL__OP_VIEW) != 0;
  kernel->entry = entry;
  kernel->constants = constants;
  snprintf(kernel->implementation, sizeof kernel->implementation, "cpu:%.40s:%s", name,
           ull__isa_name(cpu->isa));
  kernel->seconds =
      view ? 0 : ull__cpu_seconds(cpu, cost.flops, operand_bytes(query, choice), efficiency);
  kernel->numeric_class = ull__cpu_numeric_class(cpu, query, choice, kernel->implementation);
  return ULL_OK;
}
