/* ResNet-50's convolutions as training runs them: time by pass and shape, through the lowering that
 * training uses.
 *
 *     bench_convolutions [--batch N] [--threads N] [--repeat N] [--shapes]
 *
 * Every distinct shape is timed `repeat` times (the least counts) and weighted by how often the
 * network has it; the input gradient of the first convolution is left out, as in training.
 * ULLAGE_ISA caps the instruction set. Inputs are zero-padded layouts as the previous kernel would
 * leave them, so reorders of activations are not part of the times; those of weights are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/isa.h"
#include "kernels/lowering.h"

typedef struct shape_row {
  int64_t channels, size, outputs, kernel, stride, count;
} shape_row;

static const shape_row shapes[] = {
    {3, 224, 64, 7, 2, 1},    {64, 56, 64, 1, 1, 1},    {64, 56, 64, 3, 1, 3},
    {64, 56, 256, 1, 1, 4},   {256, 56, 64, 1, 1, 2},   {256, 56, 128, 1, 1, 1},
    {128, 56, 128, 3, 2, 1},  {128, 28, 512, 1, 1, 4},  {256, 56, 512, 1, 2, 1},
    {512, 28, 128, 1, 1, 3},  {128, 28, 128, 3, 1, 3},  {512, 28, 256, 1, 1, 1},
    {256, 28, 256, 3, 2, 1},  {256, 14, 1024, 1, 1, 6}, {512, 28, 1024, 1, 2, 1},
    {1024, 14, 256, 1, 1, 5}, {256, 14, 256, 3, 1, 5},  {1024, 14, 512, 1, 1, 1},
    {512, 14, 512, 3, 2, 1},  {512, 7, 2048, 1, 1, 3},  {1024, 14, 2048, 1, 2, 1},
    {2048, 7, 512, 1, 1, 2},  {512, 7, 512, 3, 1, 2},
};

static const char *const passes[] = {"conv2d", "conv2d_backward_input", "conv2d_backward_weight",
                                     "reorder"};
enum { PASSES = 4, REORDER = 3 };

typedef struct settings {
  int64_t batch;
  uint32_t threads;
  int repeat;
  bool show_shapes;
} settings;

typedef struct totals {
  double seconds[PASSES], flops[PASSES];
} totals;

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void require(ull_status status) {
  if (status == ULL_OK) return;
  fprintf(stderr, "%s\n", ull_error_last()->message);
  exit(1);
}

static int64_t output_size(const shape_row *r) {
  return (r->size + 2 * (r->kernel / 2) - r->kernel) / r->stride + 1;
}

static ull__value_id add_source(ull__graph *graph, ull__role role, const char *name,
                                const int64_t dims[4]) {
  ull__value_id id;
  const ull__shape shape = ull__shape_of(4, dims);
  require(ull__graph_add_source(graph, role, name, ULL_FLOAT32, &shape, &id));
  return id;
}

static ull__value_id add_node(ull__graph *graph, const char *op, ull__value_id a, ull__value_id b,
                              const shape_row *r, int64_t size) {
  const int64_t pad = r->kernel / 2;
  const bool forward = strcmp(op, "conv2d") == 0;
  const bool input = strcmp(op, "conv2d_backward_input") == 0;
  const ull__attribute_setting attributes[] = {ULL__INT("stride_h", r->stride),
                                               ULL__INT("stride_w", r->stride),
                                               ULL__INT("pad_h", pad),
                                               ULL__INT("pad_w", pad),
                                               ULL__INT(input ? "input_h" : "kernel_h", size),
                                               ULL__INT(input ? "input_w" : "kernel_w", size)};
  ull__value_id output;
  require(ull__graph_add_node(graph, op, op, (ull__value_id[]){a, b}, 2, attributes,
                              forward ? 4 : 6, &output));
  return output;
}

/* The previous layer makes x by a convolution, so that x lies as it would in the network. */
static ull__graph *build(const shape_row *r, int64_t batch) {
  ull__graph *graph;
  const int64_t x_dims[] = {batch, r->channels, r->size, r->size};
  const int64_t y_dims[] = {batch, r->outputs, output_size(r), output_size(r)};
  const int64_t w_dims[] = {r->outputs, r->channels, r->kernel, r->kernel};
  require(ull__graph_create("convolution", &graph));
  const ull__value_id x = add_source(graph, ULL__ROLE_INPUT, "x", x_dims);
  const ull__value_id dy = add_source(graph, ULL__ROLE_INPUT, "dy", y_dims);
  const ull__value_id w = add_source(graph, ULL__ROLE_PARAMETER, "w", w_dims);
  add_node(graph, "conv2d", x, w, r, 0);
  ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
  const ull__value_id dw = add_node(graph, "conv2d_backward_weight", x, dy, r, r->kernel);
  require(ull__graph_set_role(graph, dw, ULL__ROLE_GRADIENT, w));
  if (r->channels > 3) add_node(graph, "conv2d_backward_input", dy, w, r, r->size);
  return graph;
}

static double time_kernel(const ull__kernel *kernel, void **operands, uint32_t count, int repeat) {
  double best = 1e9;
  const ull__launch_frame frame = {operands, count, kernel->constants};
  if (kernel->prepare != NULL) require(kernel->prepare(kernel->constants));
  for (int i = 0; i <= repeat; i++) {
    const double begin = now_seconds();
    require(kernel->entry(&frame));
    const double seconds = now_seconds() - begin;
    if (i > 0 && seconds < best) best = seconds;
  }
  return best;
}

static void *filled(uint64_t bytes) {
  float *memory = ull__alloc_aligned(64, bytes > 0 ? bytes : 64);
  if (memory == NULL) exit(1);
  for (uint64_t i = 0; i < bytes / 4; i++) memory[i] = (float)(i % 13) * 0.1f - 0.6f;
  return memory;
}

static uint32_t pass_of(const ull__node *node) {
  for (uint32_t p = 0; p < PASSES; p++) {
    if (strcmp(node->op->name, passes[p]) == 0) return p;
  }
  return REORDER;
}

/* Reorders of a weight are part of a step; those of x and dy only stand for the neighbours. */
static bool is_counted(const ull__lowered *lowered, const ull__node *node) {
  const ull__value *from = ull__graph_value(lowered->graph, node->inputs[0]);
  return pass_of(node) != REORDER || (from->name[0] != 'x' && from->name[0] != 'd');
}

static void time_node(const settings *s, const shape_row *r, const ull__lowered *lowered,
                      ull__node_id id, void **values, totals *totals) {
  const ull__node *node = ull__graph_node(lowered->graph, id);
  const ull__kernel *kernel = &lowered->nodes[id].kernel;
  void *operands[8];
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->input_count; i++) operands[count++] = values[node->inputs[i]];
  for (uint32_t o = 0; o < node->output_count; o++) operands[count++] = values[node->outputs[o]];
  void *workspace = filled(kernel->workspace_bytes);
  operands[count++] = workspace;
  const double seconds = time_kernel(kernel, operands, count, s->repeat);
  ull__free(workspace);
  if (!is_counted(lowered, node)) return;
  const uint32_t pass = pass_of(node);
  const double flops = pass == REORDER
                           ? 0
                           : 2.0 * (double)(s->batch * r->outputs * output_size(r) *
                                            output_size(r) * r->channels * r->kernel * r->kernel);
  totals->seconds[pass] += seconds * (double)r->count;
  totals->flops[pass] += flops * (double)r->count;
  if (s->show_shapes) {
    printf("%-23s %4lldx%-3lld -> %-4lld k%lld s%lld  %8.3f ms %6.1f GFLOP/s  %s %s\n",
           node->op->name, (long long)r->channels, (long long)r->size, (long long)r->outputs,
           (long long)r->kernel, (long long)r->stride, seconds * 1e3, flops / seconds * 1e-9,
           kernel->implementation, lowered->values[node->outputs[0]].layout->name);
  }
}

static void time_shape(const settings *s, const shape_row *r, totals *totals) {
  const ull__rates rates = {400e9, 12e9, 5e-6};
  ull__graph *graph = build(r, s->batch);
  ull__provider *provider;
  ull__stored_layouts *stored;
  ull__lowered *lowered;
  require(ull__cpu_provider_create(s->threads, &rates, &provider));
  require(ull__stored_layouts_create(&stored));
  require(ull__lower(graph, provider, stored, &lowered));
  const uint32_t count = ull__graph_value_count(lowered->graph);
  void **values = ull__alloc(count, sizeof *values);
  if (values == NULL) exit(1);
  for (ull__value_id id = 0; id < count; id++) values[id] = filled(lowered->values[id].bytes);
  for (ull__node_id id = 0; id < ull__graph_node_count(lowered->graph); id++) {
    time_node(s, r, lowered, id, values, totals);
  }
  for (ull__value_id id = 0; id < count; id++) ull__free(values[id]);
  ull__free(values);
  ull__lowered_destroy(lowered);
  ull__stored_layouts_destroy(stored);
  ull__provider_destroy(provider);
  ull__graph_destroy(graph);
}

static settings read_arguments(int argc, char **argv) {
  settings s = {.batch = 16, .threads = 2, .repeat = 3};
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "0";
    if (strcmp(argv[i], "--shapes") == 0) s.show_shapes = true;
    if (strcmp(argv[i], "--batch") == 0) s.batch = atoll(value);
    if (strcmp(argv[i], "--threads") == 0) s.threads = (uint32_t)atoi(value);
    if (strcmp(argv[i], "--repeat") == 0) s.repeat = atoi(value);
  }
  return s;
}

int main(int argc, char **argv) {
  const settings s = read_arguments(argc, argv);
  totals t = {{0}, {0}};
  double all = 0;
  if (s.batch < 1 || s.threads < 1 || s.repeat < 1) {
    fprintf(stderr, "batch, threads and repeat must be at least 1\n");
    return 2;
  }
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) time_shape(&s, &shapes[i], &t);
  printf("ResNet-50's convolutions, batch %lld, %u threads, %s\n", (long long)s.batch, s.threads,
         ull__isa_name(ull__cpu_isa()));
  for (uint32_t p = 0; p < PASSES; p++) {
    all += t.seconds[p];
    printf("%-23s %9.1f ms", passes[p], t.seconds[p] * 1e3);
    if (t.flops[p] > 0) printf(" %8.1f GFLOP/s", t.flops[p] / t.seconds[p] * 1e-9);
    printf("\n");
  }
  printf("%-23s %9.1f ms %8.2f images/s\n", "all", all * 1e3, (double)s.batch / all);
  return 0;
}
