/* Our own matrix products beside oneDNN's, as linear layers use them.
 *
 *     bench_gemm [--threads N] [--repeat N]
 *
 * Each pass of each layer is asked of both families of rules and run `repeat` times in turn; the
 * least time counts. oneDNN answers only where it hands all its memory over (AVX-512); ULLAGE_ISA
 * caps the instruction set. Set OMP_NUM_THREADS to the same number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernels/cpu/families.h"

typedef struct layer {
  int64_t rows, inputs, outputs;
} layer;

static const layer layers[] = {{1024, 768, 768},   {1024, 768, 3072}, {1024, 3072, 768},
                               {1024, 768, 2304},  {4096, 128, 512},  {64, 784, 512},
                               {1024, 768, 50257}, {16, 512, 512}};
static const char *const passes[] = {"linear", "linear_backward_input", "linear_backward_weight"};
enum { LAYERS = sizeof layers / sizeof *layers, PASSES = 3, MOST_OPERANDS = 8 };

static void require(ull_status status) {
  if (status == ULL_OK) return;
  fprintf(stderr, "%s\n", ull_error_last()->message);
  exit(1);
}

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One pass as a graph of one node. */
static ull__graph *graph_of(int pass, const layer *l) {
  const int64_t x[] = {l->rows, l->inputs}, y[] = {l->rows, l->outputs};
  const int64_t w[] = {l->outputs, l->inputs};
  const int64_t *const shapes[PASSES][2] = {{x, w}, {y, w}, {x, y}};
  ull__graph *graph, *bound;
  ull__value_id inputs[2], output;
  require(ull__graph_create("gemm", &graph));
  for (int i = 0; i < 2; i++) {
    ull__shape shape = ull__shape_of(2, shapes[pass][i]);
    require(ull__graph_add_source(graph, ULL__ROLE_INPUT, i == 0 ? "a" : "b", ULL_FLOAT32, &shape,
                                  &inputs[i]));
  }
  require(ull__graph_add_node(graph, passes[pass], "product", inputs, 2, NULL, 0, &output));
  require(ull__graph_bind(graph, 1, &bound));
  ull__graph_destroy(graph);
  return bound;
}

typedef struct run {
  ull__kernel kernel;
  void *operands[MOST_OPERANDS];
  uint32_t count;
  double seconds;
} run;

static void add_operand(run *r, uint64_t bytes) {
  float *operand = ull__alloc_aligned(64, bytes + 64);
  if (operand == NULL) require(ULL_ERROR_OUT_OF_MEMORY);
  for (uint64_t i = 0; i < bytes / 4; i++)
    operand[i] = (float)(i * 2654435761u % 1024) / 1024 - 0.5f;
  r->operands[r->count++] = operand;
}

/* Asks one family of rules; kernel.entry stays NULL where it declines. */
static void prepare(ull__cpu *cpu, const ull__cpu_rule *rules, const ull__graph *graph, run *r) {
  const ull__layout *plain[] = {&ull__layout_plain, &ull__layout_plain};
  ull__lowering_query query = {graph, ull__graph_node(graph, 0), plain, plain};
  ull__lowering_choice choice = {0};
  *r = (run){.seconds = 1e9};
  for (; rules->op != NULL; rules++) {
    if (strcmp(rules->op, query.node->op->name) == 0) require(rules->choose(cpu, &query, &choice));
  }
  r->kernel = choice.kernel;
  if (r->kernel.entry == NULL) return;
  if (r->kernel.prepare != NULL) require(r->kernel.prepare(r->kernel.constants));
  for (ull__value_id v = 0; v < 3; v++) {
    uint64_t bytes;
    const ull__value *value = ull__graph_value(graph, v);
    require(ull__shape_bytes(&value->shape, value->dtype, &bytes));
    add_operand(r, bytes);
  }
  if (r->kernel.workspace_bytes > 0) add_operand(r, r->kernel.workspace_bytes);
}

static void time_once(run *r) {
  if (r->kernel.entry == NULL) return;
  ull__launch_frame frame = {r->operands, r->count, r->kernel.constants};
  double start = now_seconds();
  require(r->kernel.entry(&frame));
  double seconds = now_seconds() - start;
  if (seconds < r->seconds) r->seconds = seconds;
}

static void compare(ull__cpu *cpu, int pass, const layer *l, int repeat) {
  ull__graph *graph = graph_of(pass, l);
  run ours, theirs;
  prepare(cpu, ull__cpu_rules_linear, graph, &ours);
  prepare(cpu, ull__cpu_rules_onednn_matmul, graph, &theirs);
  for (int i = 0; i < repeat; i++) {
    time_once(&ours);
    time_once(&theirs);
  }
  double gflop = 2e-9 * (double)l->rows * (double)l->inputs * (double)l->outputs;
  printf("%-24s %5d x %5d -> %5d  %7.1f GFLOP/s", passes[pass], (int)l->rows, (int)l->inputs,
         (int)l->outputs, gflop / ours.seconds);
  if (theirs.kernel.entry != NULL) {
    printf("  %-24s %7.1f  ratio %.2f", theirs.kernel.implementation, gflop / theirs.seconds,
           theirs.seconds / ours.seconds);
  }
  printf("\n");
  for (uint32_t i = 0; i < ours.count; i++) ull__free(ours.operands[i]);
  for (uint32_t i = 0; i < theirs.count; i++) ull__free(theirs.operands[i]);
  ull__graph_destroy(graph);
}

int main(int argc, char **argv) {
  int threads = 2, repeat = 7;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--threads") == 0) threads = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--repeat") == 0) repeat = atoi(argv[i + 1]);
  }
  ull__rates rates = {1e11, 1e10, 1e-6};
  ull__provider *provider;
  require(ull__cpu_provider_create((uint32_t)threads, &rates, &provider));
  printf("%s, %d threads\n", provider->fingerprint, threads);
  for (int l = 0; l < LAYERS; l++) {
    for (int pass = 0; pass < PASSES; pass++) {
      compare((ull__cpu *)provider, pass, &layers[l], repeat);
    }
  }
  ull__provider_destroy(provider);
  return 0;
}
