/* Two graphs, their lowering, buffers and instructions, written down. */
#include "support/hand_family.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- kernels ---- */

static ull_status prepare_kernel(const void *constants) {
  kernel_constants *self = (kernel_constants *)constants;
  atomic_fetch_add(&self->prepared, 1);
  return ULL_OK;
}

ull_status refuse_to_prepare(const void *constants) {
  (void)constants;
  return ULL__FAIL(ULL_ERROR_DEVICE, "no primitive");
}

/* output = factor * input */
static ull_status run_scale(const ull__launch_frame *frame) {
  const kernel_constants *self = frame->constants;
  const float *input = frame->operands[0];
  float *output = frame->operands[1];
  if (self->fails) return ULL__FAIL(ULL_ERROR_NUMERIC, "inputs are not finite");
  for (int i = 0; i < N - self->is_partial; i++) output[i] = self->factor * input[i];
  if (self->stray != 0) output[self->stray] = 0;
  return ULL_OK;
}

ull_status run_add(const ull__launch_frame *frame) {
  const float *a = frame->operands[0], *b = frame->operands[1];
  float *output = frame->operands[2];
  for (int i = 0; i < N; i++) {
    float sum = a[i] + b[i];
    if (frame->operand_count == 4) {
      float *workspace = frame->operands[3];
      workspace[i % 10] = sum;
      sum = workspace[i % 10];
    }
    output[i] = sum;
  }
  return ULL_OK;
}

/* w, y, m -> w - y, m + y in place */
static ull_status run_update(const ull__launch_frame *frame) {
  const float *y = frame->operands[1];
  float *w = frame->operands[3], *m = frame->operands[4];
  for (int i = 0; i < N; i++) {
    w[i] -= y[i];
    m[i] += y[i];
  }
  return ULL_OK;
}

/* ---- graphs, buffers, instructions ---- */

static ull__value_id add_source(ull__graph *graph, ull__role role, const char *name,
                                const void *constant) {
  const ull__shape shape = ull__shape_of(1, (const int64_t[]){N});
  ull__value_id id = ULL__NONE;
  ull_status status = constant != NULL
                          ? ull__graph_add_constant(graph, name, ULL_FLOAT32, &shape, constant, &id)
                          : ull__graph_add_source(graph, role, name, ULL_FLOAT32, &shape, &id);
  assert_int_equal(status, ULL_OK);
  return id;
}

static ull__value_id add_node(ull__graph *graph, const char *name, ull__value_id a,
                              ull__value_id b) {
  ull__value_id output;
  const ull__value_id inputs[] = {a, b};
  assert_int_equal(ull__graph_add_node(graph, "add", name, inputs, 2, NULL, 0, &output), ULL_OK);
  return output;
}

static void make_graphs(fixture *f) {
  for (int p = 0; p < 2; p++) {
    assert_int_equal(ull__graph_create("hand", &f->graphs[p]), ULL_OK);
    ull__graph *graph = f->graphs[p];
    ull__value_id x = add_source(graph, ULL__ROLE_INPUT, "x", NULL);
    ull__value_id w = add_source(graph, ULL__ROLE_PARAMETER, "w", NULL);
    ull__value_id c = add_source(graph, ULL__ROLE_CONSTANT, "c", f->constant);
    ull__value_id h = add_node(graph, p == 0 ? "double" : "add_w", x, w);
    if (p == 1) continue;
    ull__value_id y = add_node(graph, "add_w", h, w);
    add_node(graph, "add_c", y, c);
    add_node(graph, "update", w, y);
  }
}

static void make_lowered(fixture *f) {
  static const ull__kernel add = {.entry = run_add}, update = {.entry = run_update};
  for (int p = 0; p < 2; p++) {
    f->lowered[p] = (ull__lowered){
        .graph = f->graphs[p], .values = f->values[p], .nodes = f->nodes[p], .fingerprint = "hand"};
    for (int v = 0; v < 16; v++) {
      f->values[p][v] = (ull__lowered_value){.layout = &ull__layout_plain, .bytes = VALUE_BYTES};
    }
  }
  f->scale.factor = 2;
  f->nodes[0][0].kernel =
      (ull__kernel){.entry = run_scale, .constants = &f->scale, .prepare = prepare_kernel};
  f->nodes[0][1].kernel = add;
  f->nodes[0][1].kernel.workspace_bytes = WORKSPACE_BYTES;
  f->nodes[0][2].kernel = add;
  f->nodes[0][3].kernel = update;
  f->nodes[1][0].kernel = add;
  f->nodes[0][1].kernel.constants = f->nodes[0][2].kernel.constants = &f->plain;
  f->nodes[1][0].kernel.constants = &f->plain;
  f->nodes[0][1].kernel.prepare = f->nodes[0][2].kernel.prepare = prepare_kernel;
  f->nodes[1][0].kernel.prepare = prepare_kernel;
}

static ull__buffer arena(const char *name, ull__tag tag, uint64_t offset, uint64_t bytes,
                         uint32_t first, uint32_t last) {
  return (ull__buffer){.name = name,
                       .value = ULL__NONE,
                       .tag = tag,
                       .slab = ULL__SLAB_ARENA,
                       .offset_bytes = offset,
                       .size_bytes = bytes,
                       .first = first,
                       .last = last};
}

static ull__buffer resident(const char *name, ull__tag tag, ull__slab_kind slab, uint64_t offset,
                            uint64_t bytes) {
  return (ull__buffer){.name = name,
                       .value = ULL__NONE,
                       .tag = tag,
                       .slab = slab,
                       .offset_bytes = offset,
                       .size_bytes = bytes,
                       .last = 4,
                       .persistent = true};
}

static void make_buffers(fixture *f) {
  for (int p = 0; p < 2; p++) {
    ull__buffer *b = f->buffers[p];
    b[B_X] = arena("x", ULL__TAG_ACTIVATION, p == 0 ? 0 : 256, VALUE_BYTES, 0, 1);
    b[B_H] = arena("h", ULL__TAG_ACTIVATION, 128, VALUE_BYTES, 1, 2);
    b[B_Y] = arena("y", ULL__TAG_ACTIVATION, 0, VALUE_BYTES, 2, 4);
    b[B_WORKSPACE] = arena("add_w.workspace", ULL__TAG_WORKSPACE, 256, WORKSPACE_BYTES, 2, 2);
    b[B_LOSS] = arena("loss", ULL__TAG_ACTIVATION, 128, VALUE_BYTES, 3, 4);
    b[B_W] = resident("w", ULL__TAG_PARAMETER, ULL__SLAB_PERSISTENT, 0, VALUE_BYTES);
    b[B_M] = resident("m", ULL__TAG_OPTIMIZER, ULL__SLAB_PERSISTENT, 128, VALUE_BYTES);
    b[B_C] = resident("c", ULL__TAG_PARAMETER, ULL__SLAB_PERSISTENT, 256, VALUE_BYTES);
    b[B_IMAGE] = resident("image", ULL__TAG_PARAMETER, ULL__SLAB_PERSISTENT, 384, 48);
    b[B_LOADER] = resident("loader", ULL__TAG_LOADER, ULL__SLAB_LOADER, 0, PAGE);
    b[B_RUNTIME] = resident("runtime", ULL__TAG_RUNTIME, ULL__SLAB_RUNTIME, 0, 2 * PAGE);
    b[B_LOADER].tier = f->family.slabs[ULL__SLAB_LOADER].tier;
    b[B_RUNTIME].tier = f->family.slabs[ULL__SLAB_RUNTIME].tier;
  }
}

typedef struct shape_of_launch {
  uint32_t inputs, outputs;
  bool has_workspace;
  uint32_t operands[6];
} shape_of_launch;

static void put_launch(fixture *f, int p, uint32_t index, uint32_t node, shape_of_launch shape) {
  ull__instruction *i = &f->instructions[p][index];
  *i = (ull__instruction){.action = ULL__ACTION_LAUNCH,
                          .lane = ULL__LANE_COMPUTE,
                          .node = node,
                          .value = ULL__NONE,
                          .input_count = shape.inputs,
                          .output_count = shape.outputs,
                          .has_workspace = shape.has_workspace,
                          .operands = f->operands[p][index],
                          .bytes = f->bytes[p][index]};
  for (int o = 0; o < 6; o++) {
    f->operands[p][index][o] = shape.operands[o];
    f->bytes[p][index][o] = f->buffers[p][shape.operands[o]].size_bytes;
  }
}

static void make_instructions(fixture *f, bool is_shared) {
  for (int p = 0; p < 2; p++) {
    put_launch(f, p, 0, ULL__NONE, (shape_of_launch){0, 1, false, {B_X}});
    f->instructions[p][0].action = ULL__ACTION_COPY_IN;
    f->instructions[p][0].value = ull__graph_find_value(f->graphs[p], "x");
    f->instructions[p][0].lane = is_shared ? ULL__LANE_COMPUTE : ULL__LANE_COPY_IN;
  }
  put_launch(f, 0, 1, 0, (shape_of_launch){1, 1, false, {B_X, B_H}});
  put_launch(f, 0, 2, 1, (shape_of_launch){2, 1, true, {B_H, B_W, B_Y, B_WORKSPACE}});
  put_launch(f, 0, 3, 2, (shape_of_launch){2, 1, false, {B_Y, B_C, B_LOSS}});
  put_launch(f, 0, 4, 3, (shape_of_launch){3, 2, false, {B_W, B_Y, B_M, B_W, B_M}});
  put_launch(f, 1, 1, 0, (shape_of_launch){2, 1, false, {B_X, B_W, B_LOSS}});
  for (int p = 0; p < 2 && !is_shared; p++) {
    f->instructions[p][1].wait_count = 1;
    f->instructions[p][1].waits = f->waits; /* instruction 0 */
  }
}

static void add_persistent(fixture *f, const char *name, ull__role role, uint64_t offset,
                           const ull__layout *layout, ull__shape shape) {
  uint64_t bytes;
  assert_int_equal(ull__shape_bytes(&shape, ULL_FLOAT32, &bytes), ULL_OK);
  f->persistents[f->family.persistent_count++] = (ull__persistent){.name = name,
                                                                   .role = role,
                                                                   .dtype = ULL_FLOAT32,
                                                                   .shape = shape,
                                                                   .layout = layout,
                                                                   .offset_bytes = offset,
                                                                   .size_bytes = bytes};
}

static void make_family(fixture *f, bool is_shared) {
  const ull__tier host = is_shared ? ULL__TIER_DEVICE : ULL__TIER_HOST;
  const ull__shape vector = ull__shape_of(1, (const int64_t[]){N});
  const ull__shape image = ull__shape_of(4, (const int64_t[]){1, 3, 2, 2});
  f->channels_last = (ull__layout){.kind = ULL__LAYOUT_CHANNELS_LAST, .name = "nhwc"};
  f->family = (ull__family){
      .slabs = {{ULL__SLAB_PERSISTENT, ULL__TIER_DEVICE, PAGE},
                {ULL__SLAB_ARENA, ULL__TIER_DEVICE, PAGE},
                {ULL__SLAB_LOADER, host, PAGE},
                {ULL__SLAB_RUNTIME, host, 2 * PAGE}},
      .program_count = 2,
      .programs = f->programs,
      .persistents = f->persistents,
      .fingerprint = "hand",
  };
  add_persistent(f, "w", ULL__ROLE_PARAMETER, 0, &ull__layout_plain, vector);
  add_persistent(f, "m", ULL__ROLE_OPTIMIZER_STATE, 128, &ull__layout_plain, vector);
  add_persistent(f, "c", ULL__ROLE_CONSTANT, 256, &ull__layout_plain, vector);
  add_persistent(f, "image", ULL__ROLE_PARAMETER, 384, &f->channels_last, image);
  make_graphs(f);
  make_lowered(f);
  make_buffers(f);
  make_instructions(f, is_shared);
  for (int p = 0; p < 2; p++) {
    f->outputs[p] = (ull__program_output){
        .name = "loss",
        .buffer = B_LOSS,
        .value = ull__graph_find_value(f->graphs[p], p == 0 ? "add_c" : "add_w")};
    f->programs[p] = (ull__program){.name = p == 0 ? "train" : "eval",
                                    .batch = 1,
                                    .lowered = &f->lowered[p],
                                    .buffer_count = B_COUNT,
                                    .buffers = f->buffers[p],
                                    .instruction_count = p == 0 ? 5 : 2,
                                    .instructions = f->instructions[p],
                                    .output_count = 1,
                                    .outputs = &f->outputs[p]};
  }
}

fixture *make(const char *device) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  for (int i = 0; i < N; i++) {
    f->x[i] = (float)i;
    f->constant[i] = 100;
  }
  const ull__device_options options = {.threads = 1};
  assert_int_equal(ull__device_open(device, &options, &f->device), ULL_OK);
  make_family(f, ull__device_is_shared(f->device));
  return f;
}

void start(fixture *f, bool poison) {
  const ull__executor_options options = {.poison = poison, .record_times = true};
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, &options, &f->executor),
                   ULL_OK);
  float w[N];
  for (int i = 0; i < N; i++) w[i] = 1;
  assert_int_equal(ull__executor_write_value(f->executor, "w", w, sizeof w), ULL_OK);
  for (uint32_t p = 0; p < 2; p++) {
    int input = ull__executor_find_input(f->executor, p, "x");
    assert_int_equal(input, 0);
    ull__executor_set_input(f->executor, p, 0, f->x);
  }
}

void finish(fixture *f) {
  ull__executor_destroy(f->executor);
  ull__device_close(f->device);
  for (int p = 0; p < 2; p++) ull__graph_destroy(f->graphs[p]);
  free(f);
}

static const struct {
  const char *device;
  bool poison;
} modes[] = {{"cpu", false}, {"cpu", true}, {"sim:1MiB@8GB/s", false}, {"sim:1MiB@8GB/s", true}};

void in_every_mode(void (*check)(fixture *)) {
  for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
    fixture *f = make(modes[m].device);
    start(f, modes[m].poison);
    check(f);
    finish(f);
  }
}

void check_value(fixture *f, const char *name, int i, float expected) {
  float values[N];
  assert_int_equal(ull__executor_read_value(f->executor, name, values, sizeof values), ULL_OK);
  assert_float_equal(values[i], expected, 0);
}

float read_loss(fixture *f, uint32_t program, int i) {
  float values[N];
  assert_int_equal(ull__executor_read_output(f->executor, program, "loss", values, sizeof values),
                   ULL_OK);
  return values[i];
}
