/* The executor on programs made by hand: numbers, counts, poison, red zones, failures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/executor.h"

enum { N = 25, VALUE_BYTES = N * sizeof(float), WORKSPACE_BYTES = 40, PAGE = 4096 };
enum { IMAGE_ELEMENTS = 12 };

/* ---- kernels ---- */

typedef struct kernel_constants {
  float factor;
  int stray;       /* also writes this element of the first output; outside it */
  bool is_partial; /* leaves the last element of its output as it is */
  bool fails;
  atomic_uint prepared;
} kernel_constants;

static ull_status prepare_kernel(const void *constants) {
  kernel_constants *self = (kernel_constants *)constants;
  atomic_fetch_add(&self->prepared, 1);
  return ULL_OK;
}

static ull_status refuse_to_prepare(const void *constants) {
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

/* output = a + b; where there is a workspace, by way of it */
static ull_status run_add(const ull__launch_frame *frame) {
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

/* ---- a family made by hand ----
 *
 * train: h = 2x; y = h + w; loss = y + c; w -= y, m += y      eval: loss = x + w */

enum { B_X, B_H, B_Y, B_WORKSPACE, B_LOSS, B_W, B_M, B_C, B_IMAGE, B_LOADER, B_RUNTIME, B_COUNT };

typedef struct fixture {
  ull__layout channels_last;
  kernel_constants scale, plain;
  ull__graph *graphs[2];
  ull__lowered lowered[2];
  ull__lowered_value values[2][16];
  ull__lowered_node nodes[2][8];
  ull__buffer buffers[2][B_COUNT];
  ull__instruction instructions[2][8];
  uint32_t operands[2][8][6];
  uint64_t bytes[2][8][6];
  uint32_t waits[1];
  ull__program programs[2];
  ull__program_output outputs[2];
  ull__persistent persistents[4];
  ull__family family;
  ull__device *device;
  ull__executor *executor;
  float constant[N];
  float x[N];
} fixture;

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

static fixture *make(const char *device) {
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

static void start(fixture *f, bool poison) {
  const ull__executor_options options = {.poison = poison, .record_times = true};
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, &options, &f->executor),
                   ULL_OK);
  float w[N];
  for (int i = 0; i < N; i++) w[i] = 1;
  assert_int_equal(ull__executor_write_value(f->executor, "w", w, sizeof w), ULL_OK);
  for (uint32_t p = 0; p < 2; p++) {
    assert_int_equal(ull__executor_input_count(f->executor, p), 1);
    int input = ull__executor_find_input(f->executor, p, "x");
    assert_int_equal(input, 0);
    ull__executor_set_input(f->executor, p, 0, f->x);
  }
}

static void finish(fixture *f) {
  ull__executor_destroy(f->executor);
  ull__device_close(f->device);
  for (int p = 0; p < 2; p++) ull__graph_destroy(f->graphs[p]);
  free(f);
}

static const struct {
  const char *device;
  bool poison;
} modes[] = {{"cpu", false}, {"cpu", true}, {"sim:1MiB@8GB/s", false}, {"sim:1MiB@8GB/s", true}};

static void in_every_mode(void (*check)(fixture *)) {
  for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
    fixture *f = make(modes[m].device);
    start(f, modes[m].poison);
    check(f);
    finish(f);
  }
}

static void check_value(fixture *f, const char *name, int i, float expected) {
  float values[N];
  assert_int_equal(ull__executor_read_value(f->executor, name, values, sizeof values), ULL_OK);
  assert_float_equal(values[i], expected, 0);
}

static float read_loss(fixture *f, uint32_t program, int i) {
  float values[N];
  assert_int_equal(ull__executor_read_output(f->executor, program, "loss", values, sizeof values),
                   ULL_OK);
  return values[i];
}

/* ---- numbers ---- */

static void numbers_of(fixture *f) {
  check_value(f, "m", 3, 0);
  check_value(f, "c", 3, 100);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_float_equal(read_loss(f, 0, 7), 2 * 7 + 1 + 100, 0);
  check_value(f, "w", 7, -2 * 7);
  check_value(f, "m", 7, 2 * 7 + 1);
  assert_int_equal(ull__executor_run(f->executor, 1), ULL_OK);
  assert_float_equal(read_loss(f, 1, 7), 7 - 14, 0);
  float loss[N];
  assert_int_equal(ull__executor_read_output(f->executor, 0, "loss", loss, sizeof loss),
                   ULL_ERROR_INVALID);
  f->x[7] = 1;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_float_equal(read_loss(f, 0, 7), 2 - 14 + 100, 0);
  check_value(f, "w", 7, -14 - (2 - 14));
  check_value(f, "m", 7, 15 - 12);
}

static void programs_give_their_numbers_in_every_mode(void **state) {
  (void)state;
  in_every_mode(numbers_of);
}

static void values_of(fixture *f) {
  float image[IMAGE_ELEMENTS], back[IMAGE_ELEMENTS], vector[N];
  for (int i = 0; i < IMAGE_ELEMENTS; i++) image[i] = (float)(i + 1);
  assert_int_equal(ull__executor_write_value(f->executor, "image", image, sizeof image), ULL_OK);
  assert_int_equal(ull__executor_read_value(f->executor, "image", back, sizeof back), ULL_OK);
  assert_memory_equal(image, back, sizeof image);
  /* [1, 3, 2, 2] with channels last: element (c, s) lies at 3 s + c. */
  f->persistents[3].layout = &ull__layout_plain;
  assert_int_equal(ull__executor_read_value(f->executor, "image", back, sizeof back), ULL_OK);
  f->persistents[3].layout = &f->channels_last;
  assert_float_equal(back[1], image[4], 0);
  assert_int_equal(ull__executor_read_value(f->executor, "none", vector, sizeof vector),
                   ULL_ERROR_INVALID);
  assert_string_equal(ull_error_last()->holder, "none");
  assert_int_equal(ull__executor_write_value(f->executor, "w", vector, sizeof vector - 1),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__executor_read_output(f->executor, 0, "accuracy", vector, sizeof vector),
                   ULL_ERROR_INVALID);
  uint64_t bytes;
  assert_non_null(ull__executor_slab(f->executor, ULL__SLAB_LOADER, &bytes));
  assert_int_equal(bytes, PAGE);
  assert_null(ull__executor_slab(f->executor, ULL__SLAB_RUNTIME, &bytes));
  assert_int_equal(bytes, 0);
}

static void values_are_read_and_written_by_name(void **state) {
  (void)state;
  in_every_mode(values_of);
}

static void gradients_are_zeroed_alone(void **state) {
  (void)state;
  fixture *f = make("sim:1MiB@8GB/s");
  f->persistents[1].role = ULL__ROLE_GRADIENT; /* m */
  start(f, true);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  check_value(f, "m", 7, 15);
  uint64_t calls = ull__alloc_count().calls;
  assert_int_equal(ull__executor_zero_gradients(f->executor), ULL_OK);
  assert_int_equal(ull__alloc_count().calls, calls);
  check_value(f, "m", 7, 0);
  check_value(f, "w", 7, -14);
  check_value(f, "c", 7, 100);
  finish(f);
}

/* ---- counts ---- */

static void counts_of(fixture *f) {
  ull__measurement m;
  ull__executor_measure(f->executor, 0, &m);
  assert_int_equal(m.tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE], 0);
  for (int i = 0; i < 3; i++) assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  ull__executor_measure(f->executor, 0, &m);
  ull__tier host = f->family.slabs[ULL__SLAB_LOADER].tier;
  assert_int_equal(m.tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE], 2 * VALUE_BYTES);
  assert_int_equal(m.tag_peaks[ULL__TAG_WORKSPACE][ULL__TIER_DEVICE], WORKSPACE_BYTES);
  assert_int_equal(m.tag_peaks[ULL__TAG_PARAMETER][ULL__TIER_DEVICE], 2 * VALUE_BYTES + 48);
  assert_int_equal(m.tag_peaks[ULL__TAG_OPTIMIZER][ULL__TIER_DEVICE], VALUE_BYTES);
  assert_int_equal(m.tag_peaks[ULL__TAG_GRADIENT][ULL__TIER_DEVICE], 0);
  assert_int_equal(m.tag_peaks[ULL__TAG_LOADER][host], PAGE);
  assert_int_equal(m.tag_peaks[ULL__TAG_RUNTIME][host], 2 * PAGE);
  assert_int_equal(m.extent_bytes[ULL__SLAB_ARENA], 256 + WORKSPACE_BYTES);
  assert_int_equal(m.extent_bytes[ULL__SLAB_PERSISTENT], 256 + VALUE_BYTES);
  bool is_shared = host == ULL__TIER_DEVICE;
  assert_int_equal(m.peak_bytes[ULL__TIER_DEVICE], is_shared ? 5 * PAGE : 2 * PAGE);
  assert_int_equal(m.peak_bytes[ULL__TIER_HOST], is_shared ? 0 : 3 * PAGE);
  assert_int_equal(ull__executor_run(f->executor, 1), ULL_OK);
  ull__executor_measure(f->executor, 1, &m);
  assert_int_equal(m.tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE], 2 * VALUE_BYTES);
  assert_int_equal(m.extent_bytes[ULL__SLAB_ARENA], 256 + VALUE_BYTES);
}

static void bytes_are_counted_from_what_runs(void **state) {
  (void)state;
  in_every_mode(counts_of);
}

/* The plan says one thing, the operands another: the count follows the operands. */
static void counts_do_not_believe_the_plan(void **state) {
  (void)state;
  fixture *f = make("cpu");
  for (int b = 0; b <= B_LOSS; b++) f->buffers[0][b].last = f->buffers[0][b].first;
  f->operands[0][4][1] = B_X; /* x is read once more at the end, after h and y */
  start(f, false);
  ull__measurement m;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  ull__executor_measure(f->executor, 0, &m);
  assert_int_equal(m.tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE], 3 * VALUE_BYTES);
  finish(f);
}

static void allocations_of(fixture *f) {
  for (uint32_t p = 0; p < 2; p++) assert_int_equal(ull__executor_run(f->executor, p), ULL_OK);
  uint64_t calls = ull__alloc_count().calls;
  for (int i = 0; i < 40; i++) {
    assert_int_equal(ull__executor_run(f->executor, i % 4 == 3), ULL_OK);
  }
  assert_int_equal(ull__alloc_count().calls, calls);
}

static void runs_allocate_nothing(void **state) {
  (void)state;
  in_every_mode(allocations_of);
}

static void kernels_of(fixture *f) {
  assert_int_equal(f->scale.prepared, 1);
  assert_int_equal(f->plain.prepared, 1); /* three nodes of two programs run it */
}

static void kernels_are_prepared_once(void **state) {
  (void)state;
  in_every_mode(kernels_of);
}

static void times_of(fixture *f) {
  for (int i = 0; i < 3; i++) assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  const ull__instruction_times *times = ull__executor_times(f->executor, 0);
  assert_non_null(times);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(times[i].runs, 3);
    assert_true(times[i].last_begin_ns <= times[i].last_end_ns);
    assert_true(times[i].total_ns >= times[i].last_end_ns - times[i].last_begin_ns);
    if (i > 0) assert_true(times[i - 1].last_end_ns <= times[i].last_begin_ns);
  }
  assert_int_equal(ull__executor_times(f->executor, 1)[0].runs, 0);
}

static void every_instruction_is_timed(void **state) {
  (void)state;
  in_every_mode(times_of);
}

/* ---- poison ---- */

static void partial_kernel(fixture *f, bool poison, float expected) {
  f->scale.is_partial = true;
  start(f, poison);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  float loss = read_loss(f, 0, N - 1);
  assert_true(isnan(expected) ? isnan(loss) : !isnan(loss));
  assert_false(isnan(read_loss(f, 0, N - 2)));
  finish(f);
}

static void what_is_not_written_is_nan(void **state) {
  (void)state;
  partial_kernel(make("cpu"), true, NAN);
  partial_kernel(make("sim:1MiB@8GB/s"), true, NAN);
  partial_kernel(make("cpu"), false, 0);
}

/* Reads a buffer after its death: the plan's range was given away by then. */
static void what_is_dead_is_nan(void **state) {
  (void)state;
  fixture *f = make("cpu");
  f->buffers[0][B_LOSS].offset_bytes = 512;
  f->operands[0][3][1] = B_WORKSPACE; /* loss = y + (dead workspace) */
  f->buffers[0][B_WORKSPACE].size_bytes = VALUE_BYTES;
  ull__buffer again = f->buffers[0][B_WORKSPACE];
  f->buffers[0][B_RUNTIME] = again; /* a second buffer over the same range, never written */
  f->operands[0][3][1] = B_RUNTIME;
  f->bytes[0][2][3] = f->bytes[0][3][1] = VALUE_BYTES;
  start(f, true);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_true(isnan(read_loss(f, 0, 0)));
  finish(f);
}

static void stray_write(const char *device, int element, const char *neighbour) {
  fixture *f = make(device);
  f->scale.stray = element;
  start(f, true);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_ERROR_INTERNAL);
  const char *message = ull_error_last()->message;
  if (strstr(message, "train") == NULL || strstr(message, "double") == NULL ||
      strstr(message, neighbour) == NULL) {
    fail_msg("'%s' does not name train, double and %s", message, neighbour);
  }
  assert_string_equal(ull_error_last()->holder, "double");
  f->scale.stray = 0;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK); /* the arena is clean again */
  finish(f);
}

static void stray_writes_name_their_instruction(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "sim:1MiB@8GB/s"};
  for (int d = 0; d < 2; d++) {
    stray_write(devices[d], N, "h");      /* in the padding behind h */
    stray_write(devices[d], N + 15, "h"); /* the last element of its red zone */
    stray_write(devices[d], -1, "h");     /* between x and h */
  }
}

static void the_arena_may_be_written_between_runs(void **state) {
  (void)state;
  fixture *f = make("cpu");
  float loss[N];
  uint64_t bytes;
  start(f, true);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  memset(ull__executor_slab(f->executor, ULL__SLAB_ARENA, &bytes), 0, PAGE);
  assert_int_equal(ull__executor_read_output(f->executor, 0, "loss", loss, sizeof loss),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  finish(f);
}

static void red_zones_are_off_without_poison(void **state) {
  (void)state;
  fixture *f = make("cpu");
  f->scale.stray = N;
  start(f, false);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  finish(f);
}

static void the_environment_switches_poison_on(void **state) {
  (void)state;
  setenv("ULLAGE_POISON", "1", 1);
  fixture *f = make("cpu");
  f->scale.stray = N;
  start(f, false);
  unsetenv("ULLAGE_POISON");
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_ERROR_INTERNAL);
  finish(f);
}

/* ---- failures ---- */

static void failing_kernel_of(fixture *f) {
  f->scale.fails = true;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_ERROR_NUMERIC);
  assert_string_equal(ull_error_last()->message,
                      "program train, instruction 1 (double): inputs are not finite");
  f->scale.fails = false;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_float_equal(read_loss(f, 0, 7), 2 * 7 + 1 + 100, 0); /* nothing ran after the failure */
}

static void a_failure_names_program_instruction_and_node(void **state) {
  (void)state;
  in_every_mode(failing_kernel_of);
}

static void unset_input_of(fixture *f) {
  ull__executor_set_input(f->executor, 0, 0, NULL);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_ERROR_INVALID);
  assert_string_equal(ull_error_last()->holder, "x");
  assert_int_equal(ull__executor_run(f->executor, 1), ULL_OK);
  assert_int_equal(ull__executor_run(f->executor, 2), ULL_ERROR_INVALID);
  assert_int_equal(ull__executor_find_input(f->executor, 0, "y"), -1);
  assert_int_equal(ull__executor_input_at(f->executor, 0, 0)->bytes, VALUE_BYTES);
}

static void an_input_must_be_set(void **state) {
  (void)state;
  in_every_mode(unset_input_of);
}

static void break_operand(fixture *f) {
  f->operands[0][2][0] = B_COUNT;
}
static void break_bytes(fixture *f) {
  f->bytes[0][2][0] = VALUE_BYTES + 1;
}
static void break_place(fixture *f) {
  f->buffers[0][B_H].offset_bytes = PAGE - 1;
}
static void break_output(fixture *f) {
  f->outputs[0].buffer = ULL__NONE;
}
static void break_wait(fixture *f) {
  static const uint32_t later = 3;
  f->instructions[0][2].wait_count = 1;
  f->instructions[0][2].waits = &later;
}
static void break_constant(fixture *f) {
  f->persistents[2].name = "d";
}

static void plans_that_contradict_themselves_are_refused(void **state) {
  (void)state;
  void (*const breaks[])(fixture *) = {break_operand, break_bytes,  break_place,
                                       break_wait,    break_output, break_constant};
  for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
    fixture *f = make("cpu");
    breaks[i](f);
    assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                     ULL_ERROR_INTERNAL);
    assert_null(f->executor);
    assert_int_equal(ull__device_allocated_bytes(f->device, ULL__TIER_DEVICE), 0);
    finish(f);
  }
}

static void kernels_may_be_missing_or_refuse(void **state) {
  (void)state;
  fixture *f = make("cpu");
  f->nodes[0][2].kernel.entry = NULL;
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                   ULL_ERROR_UNSUPPORTED);
  f->nodes[0][2].kernel.entry = run_add;
  f->nodes[0][3].kernel.prepare = refuse_to_prepare;
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                   ULL_ERROR_DEVICE);
  assert_non_null(strstr(ull_error_last()->message, "update"));
  f->instructions[0][3].action = ULL__ACTION_DISK_READ;
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                   ULL_ERROR_UNSUPPORTED);
  finish(f);
}

static void a_slab_that_cannot_be_had_is_named(void **state) {
  (void)state;
  fixture *f = make("sim:4KiB@8GB/s");
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                   ULL_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(ull_error_last()->message, "the arena"));
  assert_int_equal(ull_error_last()->wanted_bytes, PAGE);
  assert_int_equal(ull_error_last()->available_bytes, 0);
  assert_int_equal(ull__device_allocated_bytes(f->device, ULL__TIER_DEVICE), 0);
  finish(f);
}

static void every_failed_allocation_is_survived(void **state) {
  (void)state;
  fixture *f = make("sim:1MiB@8GB/s");
  const ull__executor_options options = {.poison = true, .record_times = true};
  uint64_t live_bytes = ull__alloc_count().live_bytes;
  uint32_t failures = 0;
  ull_status status;
  do {
    ull__alloc_fail_at(failures + 1);
    status = ull__executor_create(&f->family, NULL, f->device, &options, &f->executor);
    if (status == ULL_OK) break;
    assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    assert_int_equal(ull__device_allocated_bytes(f->device, ULL__TIER_DEVICE), 0);
    if (failures++ > 1) assert_true(ull__alloc_count().live_bytes <= live_bytes + 65536);
  } while (failures < 1000);
  ull__alloc_fail_at(0);
  assert_true(failures > 2 && failures < 1000);
  finish(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(programs_give_their_numbers_in_every_mode),
      cmocka_unit_test(values_are_read_and_written_by_name),
      cmocka_unit_test(gradients_are_zeroed_alone),
      cmocka_unit_test(bytes_are_counted_from_what_runs),
      cmocka_unit_test(counts_do_not_believe_the_plan),
      cmocka_unit_test(runs_allocate_nothing),
      cmocka_unit_test(kernels_are_prepared_once),
      cmocka_unit_test(every_instruction_is_timed),
      cmocka_unit_test(what_is_not_written_is_nan),
      cmocka_unit_test(what_is_dead_is_nan),
      cmocka_unit_test(stray_writes_name_their_instruction),
      cmocka_unit_test(the_arena_may_be_written_between_runs),
      cmocka_unit_test(red_zones_are_off_without_poison),
      cmocka_unit_test(the_environment_switches_poison_on),
      cmocka_unit_test(a_failure_names_program_instruction_and_node),
      cmocka_unit_test(an_input_must_be_set),
      cmocka_unit_test(plans_that_contradict_themselves_are_refused),
      cmocka_unit_test(kernels_may_be_missing_or_refuse),
      cmocka_unit_test(a_slab_that_cannot_be_had_is_named),
      cmocka_unit_test(every_failed_allocation_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
