/* An interpreter of lowered graphs for tests. */
#include "support/operator_run.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "kernels/layout.h"

enum { RED_ZONE = 128, RED = 0xA5, POISON = 0xFF };

struct operator_run {
  run_options options;
  ull__stored_layouts *stored;
  ull__lowered *lowered;
  unsigned char **ranges;  /* by value: its own memory, red zones included; NULL where it is
                              another's */
  unsigned char **buffers; /* by value: where it lies */
  unsigned char **copies;  /* by value: a source's bytes as they were set; NULL for others */
  bool *overwritten;       /* by value: its storage is another's by the end */
  unsigned char *workspace;
  uint64_t workspace_bytes;
  bool in_place;
};

static void check(ull_status status) {
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
}

/* ---- memory ---- */

static unsigned char *add_range(uint64_t bytes) {
  const size_t size = (size_t)((bytes + 63) / 64 * 64 + 2 * RED_ZONE);
  unsigned char *range = aligned_alloc(64, size);
  assert_non_null(range);
  memset(range, RED, size);
  memset(range + RED_ZONE, POISON, bytes);
  return range;
}

static void check_red_zones(const unsigned char *range, uint64_t bytes, const char *name) {
  for (uint64_t i = 0; i < RED_ZONE; i++) {
    if (range[i] != RED || range[RED_ZONE + bytes + i] != RED) {
      fail_msg("%s was written outside its %" PRIu64 " bytes", name, bytes);
    }
  }
}

static const ull__value *value_of(const operator_run *run, ull__value_id id) {
  return ull__graph_value(run->lowered->graph, id);
}

static uint64_t bytes_of(const operator_run *run, ull__value_id id) {
  return run->lowered->values[id].bytes;
}

/* ---- in place ---- */

static bool is_output(const operator_run *run, ull__value_id id) {
  for (uint32_t i = 0; i < ull__graph_output_count(run->lowered->graph); i++) {
    if (ull__graph_output(run->lowered->graph, i)->value == id) return true;
  }
  return false;
}

/* Whether this node reads the value once and nothing reads it afterwards. */
static bool is_last_reader(const operator_run *run, ull__node_id id, ull__value_id value) {
  uint32_t readings = is_output(run, value);
  for (uint32_t n = id; n < ull__graph_node_count(run->lowered->graph); n++) {
    const ull__node *node = ull__graph_node(run->lowered->graph, n);
    for (uint32_t i = 0; i < node->input_count; i++) readings += node->inputs[i] == value;
  }
  return readings == 1;
}

/* The input whose storage the output takes; ULL__NONE. */
static ull__value_id storage_of(operator_run *run, ull__node_id id, uint32_t output) {
  const ull__node *node = ull__graph_node(run->lowered->graph, id);
  const uint32_t wanted = run->options.in_place_input;
  if (node->op->updates[output] > 0) return node->inputs[node->op->updates[output] - 1];
  if (run->options.in_place_op == NULL || strcmp(run->options.in_place_op, node->op->name) != 0) {
    return ULL__NONE;
  }
  if (wanted >= node->input_count || node->inputs[wanted] == ULL__NONE) return ULL__NONE;
  if (!(run->lowered->nodes[id].may_overwrite[output] >> wanted & 1)) return ULL__NONE;
  if (!is_last_reader(run, id, node->inputs[wanted])) return ULL__NONE;
  run->in_place = true;
  return node->inputs[wanted];
}

static void place_outputs(operator_run *run, ull__node_id id) {
  const ull__node *node = ull__graph_node(run->lowered->graph, id);
  for (uint32_t o = 0; o < node->output_count; o++) {
    const ull__value_id output = node->outputs[o], storage = storage_of(run, id, o);
    if (storage != ULL__NONE) {
      run->buffers[output] = run->buffers[storage];
      run->overwritten[storage] = true;
    } else {
      run->ranges[output] = add_range(bytes_of(run, output));
      run->buffers[output] = run->ranges[output] + RED_ZONE;
    }
  }
}

/* ---- life ---- */

static void place_all(operator_run *run) {
  const ull__graph *graph = run->lowered->graph;
  for (uint32_t v = 0; v < ull__graph_value_count(graph); v++) {
    if (value_of(run, v)->producer != ULL__NONE) continue;
    run->ranges[v] = add_range(bytes_of(run, v));
    run->buffers[v] = run->ranges[v] + RED_ZONE;
    run->copies[v] = calloc(1, bytes_of(run, v) + 1);
  }
  for (uint32_t n = 0; n < ull__graph_node_count(graph); n++) {
    const ull__kernel *kernel = &run->lowered->nodes[n].kernel;
    place_outputs(run, n);
    if (kernel->workspace_bytes > run->workspace_bytes) {
      run->workspace_bytes = kernel->workspace_bytes;
    }
    if (kernel->prepare != NULL) check(kernel->prepare(kernel->constants));
  }
  run->workspace = add_range(run->workspace_bytes);
}

operator_run *operator_run_create(const ull__graph *graph, const run_options *options) {
  operator_run *run = calloc(1, sizeof *run);
  assert_non_null(run);
  run->options = *options;
  check(ull__stored_layouts_create(&run->stored));
  if (ull__lower(graph, options->provider, run->stored, &run->lowered) != ULL_OK) {
    operator_run_destroy(run);
    return NULL;
  }
  const uint32_t values = ull__graph_value_count(run->lowered->graph);
  run->ranges = calloc(values, sizeof *run->ranges);
  run->buffers = calloc(values, sizeof *run->buffers);
  run->copies = calloc(values, sizeof *run->copies);
  run->overwritten = calloc(values, sizeof *run->overwritten);
  place_all(run);
  return run;
}

void operator_run_destroy(operator_run *run) {
  const uint32_t values = run->lowered ? ull__graph_value_count(run->lowered->graph) : 0;
  for (uint32_t v = 0; v < values; v++) {
    free(run->ranges[v]);
    free(run->copies[v]);
  }
  free(run->ranges);
  free(run->buffers);
  free(run->copies);
  free(run->overwritten);
  free(run->workspace);
  ull__lowered_destroy(run->lowered);
  ull__stored_layouts_destroy(run->stored);
  free(run);
}

bool operator_run_is_in_place(const operator_run *run) {
  return run->in_place;
}

const ull__lowered *operator_run_lowered(const operator_run *run) {
  return run->lowered;
}

/* ---- numbers ---- */

static ull__value_id find(const operator_run *run, const char *name) {
  ull__value_id id = ull__graph_find_output(run->lowered->graph, name);
  if (id == ULL__NONE) id = ull__graph_find_value(run->lowered->graph, name);
  if (id == ULL__NONE) fail_msg("there is no value %s", name);
  return id;
}

static void write_number(void *to, ull_dtype dtype, uint64_t i, double number) {
  if (dtype == ULL_FLOAT64) ((double *)to)[i] = number;
  if (dtype == ULL_FLOAT32) ((float *)to)[i] = (float)number;
  if (dtype == ULL_INT64) ((int64_t *)to)[i] = (int64_t)number;
  if (dtype == ULL_UINT8) ((uint8_t *)to)[i] = (uint8_t)number;
}

static double read_number(const void *from, ull_dtype dtype, uint64_t i) {
  if (dtype == ULL_FLOAT64) return ((const double *)from)[i];
  if (dtype == ULL_FLOAT32) return (double)((const float *)from)[i];
  if (dtype == ULL_INT64) return (double)((const int64_t *)from)[i];
  return (double)((const uint8_t *)from)[i];
}

uint64_t operator_run_count(const operator_run *run, const char *name) {
  uint64_t count = 0;
  check(ull__shape_count(&value_of(run, find(run, name))->shape, &count));
  return count;
}

void operator_run_set(operator_run *run, const char *name, const double *numbers) {
  const ull__value_id id = find(run, name);
  const ull__value *value = value_of(run, id);
  const uint64_t count = operator_run_count(run, name);
  void *plain = malloc(count * 8 + 1);
  for (uint64_t i = 0; i < count; i++) write_number(plain, value->dtype, i, numbers[i]);
  check(ull__layout_from_plain(run->options.provider, value->dtype, &value->shape,
                               run->lowered->values[id].layout, plain, run->buffers[id]));
  memcpy(run->copies[id], run->buffers[id], bytes_of(run, id));
  free(plain);
}

void operator_run_set_sources(operator_run *run, const subject *s) {
  for (uint32_t i = 0; i < s->source_count; i++) {
    operator_run_set(run, s->sources[i].name, s->sources[i].numbers);
  }
}

double *operator_run_get(operator_run *run, const char *name) {
  const ull__value_id id = find(run, name);
  const ull__value *value = value_of(run, id);
  const uint64_t count = operator_run_count(run, name);
  void *plain = malloc(count * 8 + 1);
  double *numbers = malloc(count * sizeof *numbers + 1);
  check(ull__layout_to_plain(run->options.provider, value->dtype, &value->shape,
                             run->lowered->values[id].layout, run->buffers[id], plain));
  for (uint64_t i = 0; i < count; i++) numbers[i] = read_number(plain, value->dtype, i);
  free(plain);
  return numbers;
}

/* ---- launching ---- */

static ull_status launch(operator_run *run, ull__node_id id) {
  const ull__node *node = ull__graph_node(run->lowered->graph, id);
  const ull__kernel *kernel = &run->lowered->nodes[id].kernel;
  void *operands[ULL__MAX_INPUTS + ULL__MAX_OUTPUTS + 1];
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    operands[count++] = node->inputs[i] == ULL__NONE ? NULL : run->buffers[node->inputs[i]];
  }
  for (uint32_t o = 0; o < node->output_count; o++) {
    operands[count++] = run->buffers[node->outputs[o]];
  }
  if (kernel->workspace_bytes > 0) operands[count++] = run->workspace + RED_ZONE;
  const ull__launch_frame frame = {operands, count, kernel->constants};
  return kernel->entry(&frame);
}

static void check_padding(const operator_run *run, ull__value_id id) {
  const ull__layout *layout = run->lowered->values[id].layout;
  const ull__value *value = value_of(run, id);
  ull__geometry g;
  if (layout->kind != ULL__LAYOUT_BLOCKED || value->dtype != ULL_FLOAT32) return;
  check(ull__layout_geometry(layout, &value->shape, &g));
  const float *elements = (const float *)run->buffers[id];
  for (uint64_t n = 0; n < g.batch; n++) {
    for (uint64_t c = g.channels; c < g.block_count * g.block; c++) {
      for (uint64_t s = 0; s < g.spatial; s++) {
        const float number = elements[n * g.batch_stride + c / g.block * g.block_stride +
                                      s * g.spatial_stride + c % g.block];
        if (number != 0) fail_msg("padding of %s is %g", value->name, (double)number);
      }
    }
  }
}

static void poison_node(operator_run *run, const ull__node *node) {
  memset(run->workspace + RED_ZONE, POISON, run->workspace_bytes);
  for (uint32_t o = 0; o < node->output_count; o++) {
    const ull__value_id output = node->outputs[o];
    if (run->ranges[output]) memset(run->buffers[output], POISON, bytes_of(run, output));
  }
}

static void check_node(operator_run *run, const ull__node *node) {
  check_red_zones(run->workspace, run->workspace_bytes, "a workspace");
  for (uint32_t o = 0; o < node->output_count; o++) {
    const ull__value_id output = node->outputs[o];
    if (run->ranges[output]) {
      check_red_zones(run->ranges[output], bytes_of(run, output), value_of(run, output)->name);
    }
    check_padding(run, output);
  }
}

static void check_sources(const operator_run *run) {
  for (uint32_t v = 0; v < ull__graph_value_count(run->lowered->graph); v++) {
    if (run->copies[v] == NULL) continue;
    check_red_zones(run->ranges[v], bytes_of(run, v), value_of(run, v)->name);
    if (run->overwritten[v]) continue;
    if (memcmp(run->copies[v], run->buffers[v], bytes_of(run, v)) != 0) {
      fail_msg("source %s was changed", value_of(run, v)->name);
    }
  }
}

void operator_run_execute(operator_run *run) {
  for (uint32_t n = 0; n < ull__graph_node_count(run->lowered->graph); n++) {
    const ull__node *node = ull__graph_node(run->lowered->graph, n);
    if (run->options.poison) poison_node(run, node);
    check(launch(run, n));
    if (run->options.poison) check_node(run, node);
  }
  if (run->options.poison) check_sources(run);
}

double operator_run_time(operator_run *run, const char *op) {
  double best = INFINITY;
  for (int repeat = 0; repeat < 20; repeat++) {
    const uint64_t begin = ull__clock_now_ns();
    for (uint32_t n = 0; n < ull__graph_node_count(run->lowered->graph); n++) {
      const ull__node *node = ull__graph_node(run->lowered->graph, n);
      if (strcmp(node->op->name, op) == 0) check(launch(run, n));
    }
    best = fmin(best, (double)(ull__clock_now_ns() - begin) * 1e-9);
  }
  return best;
}
