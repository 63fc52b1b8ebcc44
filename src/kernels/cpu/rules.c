/* Helpers of the rule files: shapes as numbers, rows of channels, constants. */
#include "kernels/cpu/rules.h"

#include <string.h>

static bool is_other_float(const ull__graph *graph, ull__value_id value) {
  if (value == ULL__NONE) return false;
  ull_dtype dtype = ull__cpu_dtype(graph, value);
  return dtype == ULL_FLOAT64 || dtype == ULL_FLOAT16 || dtype == ULL_BFLOAT16;
}

bool ull__rules_float32(const ull__lowering_query *query) {
  const ull__node *node = query->node;
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (is_other_float(query->graph, node->inputs[i])) return false;
  }
  for (uint32_t o = 0; o < node->output_count; o++) {
    if (is_other_float(query->graph, node->outputs[o])) return false;
  }
  return true;
}

int64_t ull__rules_dim(const ull__shape *shape, int i) {
  return shape->dims[i < 0 ? shape->rank - 1 : (uint32_t)i].constant;
}

int64_t ull__rules_product(const ull__shape *shape, uint32_t from, uint32_t to) {
  int64_t product = 1;
  for (uint32_t i = from; i < to; i++) product *= shape->dims[i].constant;
  return product;
}

const ull__shape *ull__rules_input(const ull__lowering_query *query, uint32_t i) {
  bool present = i < query->node->input_count && query->node->inputs[i] != ULL__NONE;
  return present ? ull__cpu_shape(query->graph, query->node->inputs[i]) : NULL;
}

const ull__shape *ull__rules_output(const ull__lowering_query *query, uint32_t o) {
  return ull__cpu_shape(query->graph, query->node->outputs[o]);
}

ull_status ull__rules_elements(const ull__layout *layout, const ull__shape *shape, int64_t *out) {
  uint64_t elements;
  ULL__TRY(ull__layout_elements(layout, ULL_FLOAT32, shape, &elements));
  *out = (int64_t)elements;
  return ULL_OK;
}

/* ---- rows of channels ---- */

/* Enough parts for a large team where there are few channels. A function of the shape alone. */
static int64_t count_segments(const ull__channel_rows *rows) {
  int64_t lines = rows->block > 1 ? rows->batch * rows->positions : rows->batch;
  int64_t strips = rows->blocks * ((rows->block + 63) / 64);
  int64_t wanted = strips >= 32 ? 1 : 32 / strips;
  int64_t most = rows->block > 1 ? (lines + 127) / 128 : lines;
  return wanted < most ? wanted : most;
}

ull__channel_rows ull__rules_plain_rows(int64_t outer, int64_t channels, int64_t inner) {
  ull__channel_rows rows = {.channels = channels, .batch_stride = channels * inner};
  if (inner == 1) {
    rows.block = channels;
    rows.blocks = rows.batch = 1;
    rows.positions = outer;
  } else {
    rows.block = 1;
    rows.blocks = channels;
    rows.batch = outer;
    rows.positions = rows.block_stride = inner;
  }
  rows.segments = count_segments(&rows);
  return rows;
}

ull_status ull__rules_channel_rows(const ull__layout *layout, const ull__shape *shape,
                                   ull__channel_rows *out) {
  ull__geometry g;
  ULL__TRY(ull__layout_geometry(layout, shape, &g));
  if (g.block == 1) {
    *out = ull__rules_plain_rows((int64_t)g.batch, (int64_t)g.channels, (int64_t)g.spatial);
    return ULL_OK;
  }
  if (g.block_count == 1) {
    *out = ull__rules_plain_rows((int64_t)(g.batch * g.spatial), (int64_t)g.block, 1);
    out->channels = (int64_t)g.channels;
    return ULL_OK;
  }
  *out = (ull__channel_rows){.channels = (int64_t)g.channels,
                             .block = (int64_t)g.block,
                             .blocks = (int64_t)g.block_count,
                             .batch = (int64_t)g.batch,
                             .positions = (int64_t)g.spatial,
                             .batch_stride = (int64_t)g.batch_stride,
                             .block_stride = (int64_t)g.block_stride};
  out->segments = count_segments(out);
  return ULL_OK;
}

/* ---- kernels ---- */

ull_status ull__rules_finish(ull__cpu *cpu, const ull__lowering_query *query,
                             ull__lowering_choice *choice, const char *name,
                             const ull__entry *entries, const void *constants, size_t bytes) {
  void *copy = ull__cpu_constants(cpu, bytes);
  if (copy == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  memcpy(copy, constants, bytes);
  return ull__cpu_finish(cpu, query, choice, name, entries[cpu->isa], copy,
                         ULL__CPU_LOOP_EFFICIENCY);
}

ull_status ull__rules_plain_loop(ull__cpu *cpu, const ull__lowering_query *query,
                                 ull__lowering_choice *choice, const char *name,
                                 const ull__entry *entries, const void *constants, size_t bytes) {
  ull__cpu_choose_plain(query, choice);
  return ull__rules_finish(cpu, query, choice, name, entries, constants, bytes);
}
