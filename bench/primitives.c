/* Our own loops beside oneDNN's primitives: pooling, normalisation and softmax at the sizes of
 * ResNet-50 (224 px) and GPT-2.
 *
 *     bench_primitives [--threads N] [--repeat N] [--batch N]
 *
 * Both do the same work on operands that lie alike, which is checked by comparing what they give.
 * They take turns, and medians count: of time, or with one thread of processor time, which other
 * work on the machine disturbs less. Ours runs as the nodes that training has (three for batch
 * normalisation, ReLU fused); oneDNN's gets its best forms: ReLU within the normalisation, scratch
 * memory handed over. In both, backward overwrites the gradient that comes in where training does.
 * Set OMP_NUM_THREADS to the same number; ULLAGE_ISA caps both. */
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernels/cpu/families.h"

#if DNNL_VERSION_MAJOR != 2
int main(void) {
  fprintf(stderr, "bench_primitives is written for oneDNN 2.x\n");
  return 1;
}
#else

enum { MOST_VALUES = 24, MOST_NODES = 8, MOST_OPERANDS = 16, MOST_RUNS = 201, PASSES = 2 };
#define EPS 1e-5

typedef enum kind { MAX_POOL, MEAN, BATCH_NORM, BATCH_NORM_RELU, LAYER_NORM, SOFTMAX } kind;

/* `count` = how often a step of the network has it. */
typedef struct row {
  kind kind;
  int64_t dims[4]; /* [0] = 0: the batch */
  uint32_t rank;
  int count;
} row;

static const row rows[] = {{MAX_POOL, {0, 64, 112, 112}, 4, 1},
                           {MEAN, {0, 2048, 7, 7}, 4, 1},
                           {BATCH_NORM_RELU, {0, 64, 112, 112}, 4, 1},
                           {BATCH_NORM_RELU, {0, 64, 56, 56}, 4, 6},
                           {BATCH_NORM, {0, 256, 56, 56}, 4, 4},
                           {BATCH_NORM_RELU, {0, 128, 56, 56}, 4, 1},
                           {BATCH_NORM_RELU, {0, 128, 28, 28}, 4, 7},
                           {BATCH_NORM, {0, 512, 28, 28}, 4, 5},
                           {BATCH_NORM_RELU, {0, 256, 28, 28}, 4, 1},
                           {BATCH_NORM_RELU, {0, 256, 14, 14}, 4, 11},
                           {BATCH_NORM, {0, 1024, 14, 14}, 4, 7},
                           {BATCH_NORM_RELU, {0, 512, 14, 14}, 4, 1},
                           {BATCH_NORM_RELU, {0, 512, 7, 7}, 4, 5},
                           {BATCH_NORM, {0, 2048, 7, 7}, 4, 4},
                           {LAYER_NORM, {1024, 768}, 2, 25},
                           {SOFTMAX, {12288, 256}, 2, 12},
                           {SOFTMAX, {1024, 50257}, 2, 1}};
static const char *const names[] = {"max_pool2d 3x3/2",  "mean of positions", "batch_norm",
                                    "batch_norm + relu", "layer_norm",        "softmax"};
static const char *const passes[PASSES] = {"forward", "backward"};

static void require(ull_status status) {
  if (status == ULL_OK) return;
  fprintf(stderr, "%s\n", ull_error_last()->message);
  exit(1);
}

static void require_dnnl(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return;
  fprintf(stderr, "oneDNN, %s: status %d\n", what, (int)status);
  exit(1);
}

static clockid_t watch = CLOCK_MONOTONIC;

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(watch, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Values by name, the same for both: gradients and inputs around 0, scales around 1. */
static void *filled(const char *name, uint64_t bytes) {
  float *memory = ull__alloc_aligned(64, bytes + 64);
  if (memory == NULL) require(ULL_ERROR_OUT_OF_MEMORY);
  float center = strcmp(name, "w") == 0 ? 1.0f : 0.0f;
  uint32_t state = 2166136261u ^ (uint32_t)name[0] ^ (uint32_t)(name[0] ? name[1] << 8 : 0);
  for (uint64_t i = 0; i < bytes / 4; i++) {
    state = state * 1664525u + 1013904223u;
    memory[i] = center + (float)(int32_t)state * 0x1p-31f;
  }
  return memory;
}

/* Gradients of this kind are made over the one that comes in. */
static bool in_place(const row *r) {
  return r->kind != MAX_POOL && r->kind != MEAN;
}

/* ---- ours: a graph of nodes in two phases, with operands as they lie in a network ---- */

typedef struct ours {
  ull__graph *graph;
  const ull__layout *layouts[MOST_VALUES];
  void *values[MOST_VALUES], *workspaces[MOST_NODES];
  uint64_t bytes[MOST_VALUES];
  ull__kernel kernels[MOST_NODES];
} ours;

static ull__value_id source(ull__graph *graph, const char *name, uint32_t rank,
                            const int64_t *dims) {
  ull__value_id id;
  const ull__shape shape = ull__shape_of(rank, dims);
  require(ull__graph_add_source(graph, ULL__ROLE_INPUT, name, ULL_FLOAT32, &shape, &id));
  return id;
}

typedef struct outputs {
  ull__value_id ids[ULL__MAX_OUTPUTS];
} outputs;

#define NODE(op, name, ...)                                   \
  node(graph, op, name, (const ull__value_id[]){__VA_ARGS__}, \
       sizeof((const ull__value_id[]){__VA_ARGS__}) / sizeof(ull__value_id), NULL, 0)

static outputs node(ull__graph *graph, const char *op, const char *name,
                    const ull__value_id *inputs, uint32_t count,
                    const ull__attribute_setting *settings, uint32_t setting_count) {
  outputs out;
  require(ull__graph_add_node(graph, op, name, inputs, count, settings, setting_count, out.ids));
  return out;
}

static void add_pooling(ull__graph *graph, const row *r, ull__value_id x, ull__value_id dy) {
  const ull__attribute_setting settings[] = {
      ULL__INT("kernel_h", 3),        ULL__INT("kernel_w", 3),
      ULL__INT("stride_h", 2),        ULL__INT("stride_w", 2),
      ULL__INT("pad_h", 1),           ULL__INT("pad_w", 1),
      ULL__INT("ceil_mode", 0),       ULL__INT("input_h", r->dims[2]),
      ULL__INT("input_w", r->dims[3])};
  if (r->kind == MEAN) {
    NODE("global_avg_pool", "y", x);
    ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
    node(graph, "global_avg_pool_backward", "dx", &dy, 1, settings + 7, 2);
    return;
  }
  outputs y = node(graph, "max_pool2d", "y", &x, 1, settings, 7);
  ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
  node(graph, "max_pool2d_backward", "dx", (const ull__value_id[]){dy, y.ids[1]}, 2, settings, 9);
}

static void add_batch_norm(ull__graph *graph, const row *r, ull__value_id x, ull__value_id dy) {
  const ull__attribute_setting relu[] = {ULL__INT("relu", r->kind == BATCH_NORM_RELU)};
  ull__value_id w = source(graph, "w", 1, &r->dims[1]), b = source(graph, "b", 1, &r->dims[1]);
  outputs s = NODE("batch_norm_statistics", "s", x);
  if (r->kind == BATCH_NORM_RELU) {
    outputs z = NODE("batch_norm_normalize", "z", x, s.ids[0], s.ids[1], w, b);
    NODE("relu", "y", z.ids[0]);
  } else {
    NODE("batch_norm_normalize", "y", x, s.ids[0], s.ids[1], w, b);
  }
  ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
  const ull__value_id inputs[] = {x, dy, s.ids[0], s.ids[1], w, b};
  node(graph, "batch_norm_backward", "dx", inputs, r->kind == BATCH_NORM_RELU ? 6 : 5, relu, 1);
}

static void add_rows(ull__graph *graph, const row *r, ull__value_id x, ull__value_id dy) {
  if (r->kind == SOFTMAX) {
    outputs y = NODE("softmax", "y", x);
    ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
    NODE("softmax_backward", "dx", dy, y.ids[0]);
    return;
  }
  ull__value_id w = source(graph, "w", 1, &r->dims[1]), b = source(graph, "b", 1, &r->dims[1]);
  outputs y = NODE("layer_norm", "y", x, w, b);
  ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
  NODE("layer_norm_backward", "dx", x, dy, y.ids[1], y.ids[2], w);
}

static void pooled_dims(const row *r, int64_t dims[4]) {
  memcpy(dims, r->dims, sizeof r->dims);
  for (int i = 2; i < 4; i++) {
    if (r->kind == MEAN) dims[i] = 1;
    if (r->kind == MAX_POOL) dims[i] = (r->dims[i] - 1) / 2 + 1;
  }
}

static ull__graph *build_graph(const row *r) {
  ull__graph *graph, *fused;
  int64_t y_dims[4];
  pooled_dims(r, y_dims);
  require(ull__graph_create("primitive", &graph));
  ull__value_id x = source(graph, "x", r->rank, r->dims);
  ull__value_id dy = source(graph, "dy", r->rank, y_dims);
  bool pools = r->kind == MAX_POOL || r->kind == MEAN;
  (pools ? add_pooling : r->rank == 4 ? add_batch_norm : add_rows)(graph, r, x, dy);
  for (ull__value_id v = 0; v < ull__graph_value_count(graph); v++) {
    const char *name = ull__graph_value(graph, v)->name;
    if (strncmp(name, "y", 1) == 0 || strncmp(name, "dx", 2) == 0)
      require(ull__graph_add_output(graph, name, v));
  }
  require(ull__graph_fuse(graph, &fused));
  ull__graph_destroy(graph);
  return fused;
}

static const ull__layout *blocked(ull__cpu *cpu) {
  if (cpu->isa == ULL__ISA_PORTABLE) return &ull__layout_plain;
  return ull__cpu_layout_blocked(cpu, cpu->isa == ULL__ISA_AVX512 ? 16 : 8);
}

static void choose_kernel(ull__cpu *cpu, ours *o, ull__node_id id) {
  const ull__node *n = ull__graph_node(o->graph, id);
  const ull__layout *inputs[ULL__MAX_INPUTS], *wanted[ULL__MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < n->input_count; i++) inputs[i] = o->layouts[n->inputs[i]];
  ull__lowering_query query = {o->graph, n, inputs, wanted};
  ull__lowering_choice choice;
  require(cpu->provider.choose(&cpu->provider, &query, &choice));
  for (uint32_t i = 0; i < n->input_count; i++)
    if (choice.input_layouts[i] != inputs[i]) {
      fprintf(stderr, "%s wants %s, not %s\n", n->op->name, choice.input_layouts[i]->name,
              inputs[i]->name);
      exit(1);
    }
  for (uint32_t i = 0; i < n->output_count; i++)
    o->layouts[n->outputs[i]] = choice.output_layouts[i];
  o->kernels[id] = choice.kernel;
  o->workspaces[id] = filled("", choice.kernel.workspace_bytes);
}

static void make_ours(ull__cpu *cpu, const row *r, ours *o) {
  *o = (ours){.graph = build_graph(r)};
  for (ull__value_id v = 0; v < ull__graph_value_count(o->graph); v++) {
    const ull__value *value = ull__graph_value(o->graph, v);
    bool small = value->shape.rank != 4 || value->shape.dims[3].constant == 1;
    if (value->producer == ULL__NONE) o->layouts[v] = small ? &ull__layout_plain : blocked(cpu);
  }
  for (ull__node_id id = 0; id < ull__graph_node_count(o->graph); id++) choose_kernel(cpu, o, id);
  for (ull__value_id v = 0; v < ull__graph_value_count(o->graph); v++) {
    const ull__value *value = ull__graph_value(o->graph, v);
    require(ull__layout_bytes(o->layouts[v], value->dtype, &value->shape, &o->bytes[v]));
    o->values[v] = filled(value->name, o->bytes[v]);
  }
}

static ull__value_id value_named(const ours *o, const char *name) {
  ull__value_id v = 0;
  while (strcmp(ull__graph_value(o->graph, v)->name, name) != 0) v++;
  return v;
}

static double run_ours(const ours *o, const row *r, int pass) {
  ull__value_id dy = value_named(o, "dy"), dx = value_named(o, "dx");
  bool over = pass == 1 && in_place(r);
  if (over) memcpy(o->values[dx], o->values[dy], o->bytes[dy]);
  double begin = now_seconds();
  for (ull__node_id id = 0; id < ull__graph_node_count(o->graph); id++) {
    const ull__node *n = ull__graph_node(o->graph, id);
    if ((n->phase == ULL__PHASE_BACKWARD) != (pass == 1)) continue;
    void *operands[MOST_OPERANDS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->input_count; i++)
      operands[count++] = o->values[over && n->inputs[i] == dy ? dx : n->inputs[i]];
    for (uint32_t i = 0; i < n->output_count; i++) operands[count++] = o->values[n->outputs[i]];
    operands[count++] = o->workspaces[id];
    const ull__launch_frame frame = {operands, count, o->kernels[id].constants};
    require(o->kernels[id].entry(&frame));
  }
  return now_seconds() - begin;
}

static void free_ours(ours *o) {
  for (ull__value_id v = 0; v < ull__graph_value_count(o->graph); v++) ull__free(o->values[v]);
  for (ull__node_id id = 0; id < ull__graph_node_count(o->graph); id++)
    ull__free(o->workspaces[id]);
  ull__graph_destroy(o->graph);
}

/* ---- oneDNN's ---- */

typedef struct operand {
  int argument;
  const char *name; /* decides what is in it, and who shares it */
} operand;

/* What a pass may read and write; what its descriptor does not have is left out. */
static const operand operands[PASSES][12] = {{{DNNL_ARG_SRC, "x"},
                                              {DNNL_ARG_DST, "y"},
                                              {DNNL_ARG_MEAN, "mean"},
                                              {DNNL_ARG_VARIANCE, "variance"},
                                              {DNNL_ARG_SCALE, "w"},
                                              {DNNL_ARG_SHIFT, "b"},
                                              {DNNL_ARG_WORKSPACE, "mask"},
                                              {DNNL_ARG_SCRATCHPAD, "scratch"}},
                                             {{DNNL_ARG_SRC, "x"},
                                              {DNNL_ARG_DST, "y"},
                                              {DNNL_ARG_DIFF_DST, "dy"},
                                              {DNNL_ARG_DIFF_SRC, "dx"},
                                              {DNNL_ARG_MEAN, "mean"},
                                              {DNNL_ARG_VARIANCE, "variance"},
                                              {DNNL_ARG_SCALE, "w"},
                                              {DNNL_ARG_SHIFT, "b"},
                                              {DNNL_ARG_DIFF_SCALE, "dw"},
                                              {DNNL_ARG_DIFF_SHIFT, "db"},
                                              {DNNL_ARG_WORKSPACE, "mask"}}};

typedef struct buffer {
  char name[16];
  void *memory;
  uint64_t bytes;
} buffer;

typedef struct theirs {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_desc_t descriptors[PASSES];
  dnnl_primitive_t primitives[PASSES];
  dnnl_exec_arg_t arguments[PASSES][12];
  int counts[PASSES];
  buffer buffers[16];
  int buffer_count;
} theirs;

static buffer *find_buffer(theirs *t, const char *name, uint64_t bytes) {
  for (int i = 0; i < t->buffer_count; i++)
    if (strcmp(t->buffers[i].name, name) == 0) return &t->buffers[i];
  buffer *added = &t->buffers[t->buffer_count++];
  snprintf(added->name, sizeof added->name, "%s", name);
  added->bytes = bytes;
  added->memory = filled(name, bytes);
  return added;
}

static void add_argument(theirs *t, int pass, int argument, const char *name) {
  const dnnl_memory_desc_t *desc =
      argument == DNNL_ARG_SCRATCHPAD
          ? dnnl_primitive_desc_query_md(t->descriptors[pass], dnnl_query_scratchpad_md, 0)
          : dnnl_primitive_desc_query_md(t->descriptors[pass], dnnl_query_exec_arg_md, argument);
  if (desc == NULL || dnnl_memory_desc_get_size(desc) == 0) return;
  char scratch[16];
  if (argument == DNNL_ARG_SCRATCHPAD) {
    snprintf(scratch, sizeof scratch, "scratch%d", pass);
    name = scratch;
  }
  dnnl_exec_arg_t *added = &t->arguments[pass][t->counts[pass]++];
  added->arg = argument;
  require_dnnl(dnnl_memory_create(&added->memory, desc, t->engine,
                                  find_buffer(t, name, dnnl_memory_desc_get_size(desc))->memory),
               "a memory");
}

static dnnl_memory_desc_t describe(uint32_t rank, const int64_t *dims, dnnl_format_tag_t tag) {
  dnnl_memory_desc_t desc;
  dnnl_dims_t copy;
  memcpy(copy, dims, rank * sizeof *dims);
  require_dnnl(dnnl_memory_desc_init_by_tag(&desc, (int)rank, copy, dnnl_f32, tag), "a descriptor");
  return desc;
}

typedef union operation {
  dnnl_pooling_desc_t pooling;
  dnnl_batch_normalization_desc_t batch_norm;
  dnnl_layer_normalization_desc_t layer_norm;
  dnnl_softmax_desc_t softmax;
} operation;

static void init_pooling(const row *r, const dnnl_memory_desc_t *x, const dnnl_memory_desc_t *y,
                         int pass, operation *op) {
  bool max = r->kind == MAX_POOL;
  dnnl_alg_kind_t kind = max ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
  dnnl_dims_t strides = {max ? 2 : 1, max ? 2 : 1}, pads = {max, max};
  dnnl_dims_t after = {max && r->dims[2] % 2, max && r->dims[3] % 2};
  dnnl_dims_t window = {max ? 3 : r->dims[2], max ? 3 : r->dims[3]};
  require_dnnl(pass == 0 ? dnnl_pooling_forward_desc_init(&op->pooling, dnnl_forward_training, kind,
                                                          x, y, strides, window, pads, after)
                         : dnnl_pooling_backward_desc_init(&op->pooling, kind, x, y, strides,
                                                           window, pads, after),
               "pooling");
}

static void init_operation(const row *r, dnnl_format_tag_t image, int pass, operation *op) {
  static const dnnl_format_tag_t by_rank[] = {0, dnnl_a, dnnl_ab};
  unsigned flags = dnnl_use_scale | dnnl_use_shift;
  int64_t y_dims[4];
  pooled_dims(r, y_dims);
  dnnl_memory_desc_t x = describe(r->rank, r->dims, r->rank == 4 ? image : by_rank[r->rank]);
  if (r->kind == MAX_POOL || r->kind == MEAN) {
    dnnl_memory_desc_t y = describe(4, y_dims, image);
    init_pooling(r, &x, &y, pass, op);
  } else if (r->kind == SOFTMAX) {
    require_dnnl(pass == 0
                     ? dnnl_softmax_forward_desc_init(&op->softmax, dnnl_forward_training, &x, 1)
                     : dnnl_softmax_backward_desc_init(&op->softmax, &x, &x, 1),
                 "softmax");
  } else if (r->kind == LAYER_NORM) {
    dnnl_memory_desc_t statistics = describe(1, r->dims, dnnl_a);
    require_dnnl(pass == 0
                     ? dnnl_layer_normalization_forward_desc_init(
                           &op->layer_norm, dnnl_forward_training, &x, &statistics, EPS, flags)
                     : dnnl_layer_normalization_backward_desc_init(&op->layer_norm, dnnl_backward,
                                                                   &x, &x, &statistics, EPS, flags),
                 "layer normalisation");
  } else {
    if (r->kind == BATCH_NORM_RELU) flags |= dnnl_fuse_norm_relu;
    require_dnnl(pass == 0 ? dnnl_batch_normalization_forward_desc_init(
                                 &op->batch_norm, dnnl_forward_training, &x, EPS, flags)
                           : dnnl_batch_normalization_backward_desc_init(
                                 &op->batch_norm, dnnl_backward, &x, &x, EPS, flags),
                 "batch normalisation");
  }
}

static void make_theirs(ull__isa isa, const row *r, theirs *t) {
  static const dnnl_format_tag_t images[] = {dnnl_nchw, dnnl_nChw8c, dnnl_nChw16c};
  dnnl_primitive_attr_t attributes;
  *t = (theirs){0};
  require_dnnl(dnnl_engine_create(&t->engine, dnnl_cpu, 0), "an engine");
  require_dnnl(dnnl_stream_create(&t->stream, t->engine, dnnl_stream_default_flags), "a stream");
  require_dnnl(dnnl_primitive_attr_create(&attributes), "attributes");
  require_dnnl(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user),
               "attributes");
  for (int pass = 0; pass < PASSES; pass++) {
    operation op;
    init_operation(r, images[isa], pass, &op);
    require_dnnl(dnnl_primitive_desc_create(&t->descriptors[pass], &op, attributes, t->engine,
                                            pass == 0 ? NULL : t->descriptors[0]),
                 "a primitive descriptor");
    for (int i = 0; i < 12 && operands[pass][i].name != NULL; i++)
      add_argument(t, pass, operands[pass][i].argument, operands[pass][i].name);
    if (pass == 1) add_argument(t, pass, DNNL_ARG_SCRATCHPAD, "scratch");
    require_dnnl(dnnl_primitive_create(&t->primitives[pass], t->descriptors[pass]), "a primitive");
  }
  dnnl_primitive_attr_destroy(attributes);
}

static double run_theirs(theirs *t, const row *r, int pass) {
  if (pass == 1 && in_place(r)) {
    buffer *dy = find_buffer(t, "dy", 0), *dx = find_buffer(t, "dx", 0);
    memcpy(dx->memory, dy->memory, dy->bytes);
    for (int i = 0; i < t->counts[pass]; i++)
      if (t->arguments[pass][i].arg == DNNL_ARG_DIFF_DST)
        dnnl_memory_set_data_handle(t->arguments[pass][i].memory, dx->memory);
  }
  double begin = now_seconds();
  require_dnnl(
      dnnl_primitive_execute(t->primitives[pass], t->stream, t->counts[pass], t->arguments[pass]),
      "a launch");
  require_dnnl(dnnl_stream_wait(t->stream), "a launch");
  return now_seconds() - begin;
}

static void free_theirs(theirs *t) {
  for (int pass = 0; pass < PASSES; pass++) {
    for (int i = 0; i < t->counts[pass]; i++) dnnl_memory_destroy(t->arguments[pass][i].memory);
    dnnl_primitive_destroy(t->primitives[pass]);
    dnnl_primitive_desc_destroy(t->descriptors[pass]);
  }
  for (int i = 0; i < t->buffer_count; i++) ull__free(t->buffers[i].memory);
  dnnl_stream_destroy(t->stream);
  dnnl_engine_destroy(t->engine);
}

/* ---- beside each other ---- */

/* Norm of the difference of two results, as a share of the result's. A small side that is plain in
 * ours and blocked in theirs holds the same elements in the same order. */
static double apart(const ours *o, theirs *t, const char *name) {
  ull__value_id v = value_named(o, name);
  const float *a = o->values[v], *b = find_buffer(t, name, o->bytes[v])->memory;
  double difference = 0, all = 0;
  for (uint64_t i = 0; i < o->bytes[v] / 4; i++) {
    difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    all += (double)b[i] * b[i];
  }
  return sqrt(difference / all);
}

static int compare_reals(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *runs, int count) {
  qsort(runs, (size_t)count, sizeof *runs, compare_reals);
  return runs[count / 2];
}

typedef struct totals {
  double ours[PASSES], theirs[PASSES];
} totals;

static void compare(ull__cpu *cpu, const row *r, int repeat, totals *sums) {
  static double own[MOST_RUNS], their[MOST_RUNS];
  char dims[64] = "";
  ours o;
  theirs t;
  make_ours(cpu, r, &o);
  make_theirs(cpu->isa, r, &t);
  for (uint32_t i = 0; i < r->rank; i++)
    snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%lld", i ? "x" : "",
             (long long)r->dims[i]);
  for (int pass = 0; pass < PASSES; pass++) {
    for (int i = -2; i < repeat; i++) {
      double a = run_ours(&o, r, pass), b = run_theirs(&t, r, pass);
      if (i < 0) continue;
      own[i] = a;
      their[i] = b;
    }
    double a = median(own, repeat), b = median(their, repeat);
    sums->ours[pass] += a * r->count;
    sums->theirs[pass] += b * r->count;
    const char *implementation = "";
    dnnl_primitive_desc_query(t.descriptors[pass], dnnl_query_impl_info_str, 0, &implementation);
    printf("%-18s %-16s %-8s  ours %8.3f ms  oneDNN %8.3f ms  ratio %.2f  apart %.0e  %s\n",
           names[r->kind], dims, passes[pass], a * 1e3, b * 1e3, b / a,
           apart(&o, &t, pass == 0 ? "y" : "dx"), implementation);
    fflush(stdout);
  }
  free_ours(&o);
  free_theirs(&t);
}

int main(int argc, char **argv) {
  int threads = 2, repeat = 21, batch = 16;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--threads") == 0) threads = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--repeat") == 0) repeat = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--batch") == 0) batch = atoi(argv[i + 1]);
  }
  if (repeat < 1 || repeat > MOST_RUNS || batch < 1 || threads < 1) {
    fprintf(stderr, "threads, batch and repeat are at least 1, repeat at most %d\n", MOST_RUNS);
    return 2;
  }
  if (threads == 1) watch = CLOCK_PROCESS_CPUTIME_ID;
  ull__rates rates = {1e11, 1e10, 1e-6};
  ull__provider *provider;
  require(ull__cpu_provider_create((uint32_t)threads, &rates, &provider));
  printf("%s; ratio above 1: ours is faster\n", provider->fingerprint);
  totals image = {{0}, {0}}, language = {{0}, {0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    row r = rows[i];
    if (r.dims[0] == 0) r.dims[0] = batch;
    compare((ull__cpu *)provider, &r, repeat, r.rank == 4 ? &image : &language);
  }
  for (int pass = 0; pass < PASSES; pass++)
    printf(
        "a step of ResNet-50, %-8s  ours %7.1f ms  oneDNN %7.1f ms;  GPT-2's rows  ours %7.1f ms  "
        "oneDNN %7.1f ms\n",
        passes[pass], image.ours[pass] * 1e3, image.theirs[pass] * 1e3, language.ours[pass] * 1e3,
        language.theirs[pass] * 1e3);
  ull__provider_destroy(provider);
  return 0;
}
#endif
