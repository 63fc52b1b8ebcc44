/* Convolutions on cpu against straightforward loops: odd shapes, strides, padding, dilation and
 * groups; forward and both gradients; under every instruction set this processor has (each in a
 * process of its own, since the cap is read once). Memory is NaN before it is written, workspaces
 * included, and whatever is padding must be zero afterwards. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/isa.h"
#include "kernels/layout.h"

typedef struct convolution_case {
  int64_t n, c, h, w, o, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h,
      dilation_w, groups;
  bool bias;
} convolution_case;

static const convolution_case cases[] = {
    {2, 3, 32, 32, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, false},
    {3, 1, 28, 28, 6, 5, 5, 1, 1, 2, 2, 1, 1, 1, true},
    {2, 6, 14, 14, 16, 5, 5, 1, 1, 0, 0, 1, 1, 1, true},
    {4, 32, 14, 14, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, false},
    {4, 32, 14, 14, 64, 1, 1, 2, 2, 0, 0, 1, 1, 1, false},
    {2, 64, 9, 7, 48, 1, 1, 1, 1, 0, 0, 1, 1, 1, true},
    {1, 24, 13, 17, 40, 3, 3, 2, 1, 1, 2, 1, 1, 1, false},
    {2, 40, 16, 16, 16, 3, 3, 1, 1, 2, 2, 2, 2, 1, false},
    {1, 16, 20, 11, 16, 3, 5, 1, 2, 0, 2, 3, 1, 1, true},
    {2, 32, 12, 12, 32, 3, 3, 1, 1, 1, 1, 1, 1, 4, false},
    {2, 64, 10, 10, 64, 3, 3, 2, 2, 1, 1, 1, 1, 4, true},
    {2, 32, 11, 11, 32, 3, 3, 1, 1, 1, 1, 1, 1, 32, false},
    {2, 12, 17, 17, 20, 3, 3, 2, 2, 1, 1, 1, 1, 4, false},
    {1, 5, 9, 9, 7, 3, 3, 2, 2, 1, 1, 1, 1, 1, true},
    {1, 3, 64, 64, 64, 7, 7, 2, 2, 3, 3, 1, 1, 1, false},
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, false},
    {5, 17, 8, 8, 33, 3, 3, 1, 1, 1, 1, 1, 1, 1, false},
    {1, 128, 4, 4, 16, 2, 2, 2, 2, 0, 0, 1, 1, 1, true},
};

static int64_t extent(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

static int64_t out_h(const convolution_case *t) {
  return extent(t->h, t->kernel_h, t->stride_h, t->pad_h, t->dilation_h);
}

static int64_t out_w(const convolution_case *t) {
  return extent(t->w, t->kernel_w, t->stride_w, t->pad_w, t->dilation_w);
}

/* ---- the loops: one visit for every product of the three passes ---- */

typedef struct tensors {
  float *x, *w, *b, *dy;
  double *y, *dx, *dw;
} tensors;

static void visit_window(const convolution_case *t, const tensors *v, int64_t n, int64_t o,
                         int64_t i, int64_t j) {
  const int64_t inputs = t->c / t->groups, group = o / (t->o / t->groups);
  const int64_t at = ((n * t->o + o) * out_h(t) + i) * out_w(t) + j;
  double sum = v->b ? v->b[o] : 0;
  for (int64_t c = 0; c < inputs; c++) {
    for (int64_t p = 0; p < t->kernel_h; p++) {
      for (int64_t q = 0; q < t->kernel_w; q++) {
        const int64_t y = i * t->stride_h - t->pad_h + p * t->dilation_h;
        const int64_t x = j * t->stride_w - t->pad_w + q * t->dilation_w;
        if (y < 0 || y >= t->h || x < 0 || x >= t->w) continue;
        const int64_t from = ((n * t->c + group * inputs + c) * t->h + y) * t->w + x;
        const int64_t k = ((o * inputs + c) * t->kernel_h + p) * t->kernel_w + q;
        sum += (double)v->x[from] * v->w[k];
        v->dx[from] += (double)v->dy[at] * v->w[k];
        v->dw[k] += (double)v->dy[at] * v->x[from];
      }
    }
  }
  v->y[at] = sum;
}

static void convolve(const convolution_case *t, const tensors *v) {
  for (int64_t n = 0; n < t->n; n++) {
    for (int64_t o = 0; o < t->o; o++) {
      for (int64_t i = 0; i < out_h(t); i++) {
        for (int64_t j = 0; j < out_w(t); j++) visit_window(t, v, n, o, i, j);
      }
    }
  }
}

/* ---- the graph ---- */

typedef struct built {
  ull__graph *graph;
  ull__provider *provider;
  ull__stored_layouts *stored;
  ull__lowered *lowered;
} built;

static ull__value_id add_source(ull__graph *graph, ull__role role, const char *name, uint32_t rank,
                                const int64_t *dims) {
  ull__value_id id;
  const ull__shape shape = ull__shape_of(rank, dims);
  assert_int_equal(ull__graph_add_source(graph, role, name, ULL_FLOAT32, &shape, &id), ULL_OK);
  return id;
}

static ull__value_id add_node(ull__graph *graph, const char *op, const ull__value_id *inputs,
                              uint32_t count, const ull__attribute_setting *settings,
                              uint32_t setting_count) {
  ull__value_id output;
  ull_status status =
      ull__graph_add_node(graph, op, op, inputs, count, settings, setting_count, &output);
  if (status != ULL_OK) print_error("%s\n", ull_error_last()->message);
  assert_int_equal(status, ULL_OK);
  assert_int_equal(ull__graph_add_output(graph, op, output), ULL_OK);
  return output;
}

static void build_graph(const convolution_case *t, ull__graph *graph) {
  const ull__attribute_setting settings[] = {
      ULL__INT("stride_h", t->stride_h),     ULL__INT("stride_w", t->stride_w),
      ULL__INT("pad_h", t->pad_h),           ULL__INT("pad_w", t->pad_w),
      ULL__INT("dilation_h", t->dilation_h), ULL__INT("dilation_w", t->dilation_w),
      ULL__INT("groups", t->groups),         ULL__INT("kernel_h", t->kernel_h),
      ULL__INT("kernel_w", t->kernel_w)};
  ull__attribute_setting input_settings[] = {settings[0],
                                             settings[1],
                                             settings[2],
                                             settings[3],
                                             settings[4],
                                             settings[5],
                                             settings[6],
                                             ULL__INT("input_h", t->h),
                                             ULL__INT("input_w", t->w)};
  const int64_t x_dims[] = {t->n, t->c, t->h, t->w};
  const int64_t w_dims[] = {t->o, t->c / t->groups, t->kernel_h, t->kernel_w};
  const int64_t y_dims[] = {t->n, t->o, out_h(t), out_w(t)};
  const ull__value_id x = add_source(graph, ULL__ROLE_INPUT, "x", 4, x_dims);
  const ull__value_id dy = add_source(graph, ULL__ROLE_INPUT, "dy", 4, y_dims);
  const ull__value_id w = add_source(graph, ULL__ROLE_PARAMETER, "w", 4, w_dims);
  const ull__value_id b =
      t->bias ? add_source(graph, ULL__ROLE_PARAMETER, "b", 1, &t->o) : ULL__NONE;
  add_node(graph, "conv2d", (ull__value_id[]){x, w, b}, t->bias ? 3 : 2, settings, 7);
  ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
  const ull__value_id dw =
      add_node(graph, "conv2d_backward_weight", (ull__value_id[]){x, dy}, 2, settings, 9);
  assert_int_equal(ull__graph_set_role(graph, dw, ULL__ROLE_GRADIENT, w), ULL_OK);
  add_node(graph, "conv2d_backward_input", (ull__value_id[]){dy, w}, 2, input_settings, 9);
}

static void lower(const convolution_case *t, built *b) {
  const ull__rates rates = {100e9, 10e9, 5e-6};
  ull__graph *free_graph;
  assert_int_equal(ull__graph_create("convolution", &free_graph), ULL_OK);
  build_graph(t, free_graph);
  assert_int_equal(ull__graph_bind(free_graph, 1, &b->graph), ULL_OK);
  ull__graph_destroy(free_graph);
  assert_int_equal(ull__cpu_provider_create(2, &rates, &b->provider), ULL_OK);
  assert_int_equal(ull__stored_layouts_create(&b->stored), ULL_OK);
  ull_status status = ull__lower(b->graph, b->provider, b->stored, &b->lowered);
  if (status != ULL_OK) print_error("%s\n", ull_error_last()->message);
  assert_int_equal(status, ULL_OK);
}

static void release(built *b) {
  ull__lowered_destroy(b->lowered);
  ull__stored_layouts_destroy(b->stored);
  ull__provider_destroy(b->provider);
  ull__graph_destroy(b->graph);
}

/* ---- running it ---- */

static void *poisoned(uint64_t bytes) {
  void *memory = ull__alloc_aligned(64, bytes > 0 ? bytes : 64);
  assert_non_null(memory);
  return memset(memory, 0xFF, bytes > 0 ? bytes : 64);
}

static void run_node(const built *b, ull__node_id id, void *const *values) {
  const ull__node *node = ull__graph_node(b->lowered->graph, id);
  const ull__kernel *kernel = &b->lowered->nodes[id].kernel;
  void *operands[ULL__MAX_OPERANDS];
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    operands[count++] = node->inputs[i] == ULL__NONE ? NULL : values[node->inputs[i]];
  }
  for (uint32_t o = 0; o < node->output_count; o++) operands[count++] = values[node->outputs[o]];
  void *workspace = poisoned(kernel->workspace_bytes);
  if (kernel->workspace_bytes > 0) operands[count++] = workspace;
  if (kernel->prepare != NULL) assert_int_equal(kernel->prepare(kernel->constants), ULL_OK);
  ull_status status = kernel->entry(&(ull__launch_frame){operands, count, kernel->constants});
  if (status != ULL_OK) print_error("%s: %s\n", node->name, ull_error_last()->message);
  assert_int_equal(status, ULL_OK);
  ull__free(workspace);
}

/* Through plain order and back gives the same bytes, so padding is zero. */
static void check_padding(const built *b, ull__value_id id, const void *bytes) {
  const ull__value *value = ull__graph_value(b->lowered->graph, id);
  const ull__lowered_value *lowered = &b->lowered->values[id];
  uint64_t plain_bytes;
  assert_int_equal(ull__shape_bytes(&value->shape, value->dtype, &plain_bytes), ULL_OK);
  void *plain = poisoned(plain_bytes), *again = poisoned(lowered->bytes);
  assert_int_equal(
      ull__layout_to_plain(b->provider, value->dtype, &value->shape, lowered->layout, bytes, plain),
      ULL_OK);
  assert_int_equal(ull__layout_from_plain(b->provider, value->dtype, &value->shape, lowered->layout,
                                          plain, again),
                   ULL_OK);
  for (uint64_t i = 0; i < lowered->bytes / 4; i++) {
    const float was = ((const float *)bytes)[i], is = ((const float *)again)[i];
    if (was != is) {
      fail_msg("%s in %s: element %llu is %g, not %g", value->name, lowered->layout->name,
               (unsigned long long)i, (double)was, (double)is);
    }
  }
  ull__free(plain);
  ull__free(again);
}

static void fill_source(const built *b, ull__value_id id, const tensors *v, void *to) {
  const ull__value *value = ull__graph_value(b->lowered->graph, id);
  const float *from = value->name[0] == 'x'   ? v->x
                      : value->name[0] == 'w' ? v->w
                      : value->name[0] == 'b' ? v->b
                                              : v->dy;
  assert_int_equal(ull__layout_from_plain(b->provider, value->dtype, &value->shape,
                                          b->lowered->values[id].layout, from, to),
                   ULL_OK);
}

static void compare(const built *b, const char *output, void *const *values, const double *expected,
                    double scale) {
  const ull__value_id id = ull__graph_find_output(b->lowered->graph, output);
  assert_int_not_equal(id, ULL__NONE);
  assert_ptr_equal(b->lowered->values[id].layout, &ull__layout_plain);
  const float *found = values[id];
  for (uint64_t i = 0; i < b->lowered->values[id].bytes / 4; i++) {
    if (!(fabs(found[i] - expected[i]) <= 2e-6 * scale * (1 + fabs(expected[i])))) {
      fail_msg("%s[%llu] is %.9g, not %.9g", output, (unsigned long long)i, (double)found[i],
               expected[i]);
    }
  }
}

static void run_graph(const convolution_case *t, const built *b, const tensors *v) {
  const uint32_t count = ull__graph_value_count(b->lowered->graph);
  void **values = ull__alloc(count, sizeof *values);
  for (ull__value_id id = 0; id < count; id++) {
    values[id] = poisoned(b->lowered->values[id].bytes);
    if (ull__graph_value(b->lowered->graph, id)->producer == ULL__NONE) {
      fill_source(b, id, v, values[id]);
    }
  }
  for (ull__node_id id = 0; id < ull__graph_node_count(b->lowered->graph); id++) {
    run_node(b, id, values);
  }
  for (ull__value_id id = 0; id < count; id++) check_padding(b, id, values[id]);
  compare(b, "conv2d", values, v->y, 8);
  compare(b, "conv2d_backward_input", values, v->dx, 8);
  compare(b, "conv2d_backward_weight", values, v->dw, 8 * sqrt((double)(t->n * out_h(t))));
  for (ull__value_id id = 0; id < count; id++) ull__free(values[id]);
  ull__free(values);
}

/* ---- one case ---- */

static float *random_floats(int64_t count, uint32_t *state) {
  float *values = ull__alloc((size_t)count, sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; i++) {
    *state = *state * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)(*state >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

static void run_case(const convolution_case *t) {
  uint32_t state = 7;
  const int64_t x_count = t->n * t->c * t->h * t->w;
  const int64_t w_count = t->o * t->c / t->groups * t->kernel_h * t->kernel_w;
  const int64_t y_count = t->n * t->o * out_h(t) * out_w(t);
  tensors v = {.x = random_floats(x_count, &state),
               .w = random_floats(w_count, &state),
               .b = t->bias ? random_floats(t->o, &state) : NULL,
               .dy = random_floats(y_count, &state),
               .y = ull__alloc((size_t)y_count, sizeof(double)),
               .dx = ull__alloc((size_t)x_count, sizeof(double)),
               .dw = ull__alloc((size_t)w_count, sizeof(double))};
  built b = {0};
  convolve(t, &v);
  lower(t, &b);
  if (getenv("ULLAGE_SHOW") != NULL) {
    char *text;
    assert_int_equal(ull__lowered_text(b.lowered, &text), ULL_OK);
    print_message("%s", text);
    ull__free(text);
  }
  run_graph(t, &b, &v);
  release(&b);
  void *all[] = {v.x, v.w, v.b, v.dy, v.y, v.dx, v.dw};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) ull__free(all[i]);
}

static void test_all_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
}

/* ---- one process for each instruction set ---- */

static int run_child(const char *isa) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("ULLAGE_ISA", isa, 1);
    execl("/proc/self/exe", "test_onednn_convolution", isa, (char *)NULL);
    _exit(126);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void run_isa(ull__isa isa) {
  if (isa > ull__cpu_isa()) {
    print_message("skipped: this processor has no %s\n", ull__isa_name(isa));
    skip();
  }
  assert_int_equal(run_child(ull__isa_name(isa)), 0);
}

static void test_portable(void **state) {
  (void)state;
  run_isa(ULL__ISA_PORTABLE);
}

static void test_avx2(void **state) {
  (void)state;
  run_isa(ULL__ISA_AVX2);
}

static void test_avx512(void **state) {
  (void)state;
  run_isa(ULL__ISA_AVX512);
}

int main(int argc, char **argv) {
  const struct CMUnitTest child[] = {cmocka_unit_test(test_all_cases)};
  const struct CMUnitTest parent[] = {cmocka_unit_test(test_portable), cmocka_unit_test(test_avx2),
                                      cmocka_unit_test(test_avx512)};
  if (argc > 1) {
    if (strcmp(ull__isa_name(ull__cpu_isa()), argv[1]) != 0) return 1;
    return cmocka_run_group_tests_name(argv[1], child, NULL, NULL);
  }
  return cmocka_run_group_tests(parent, NULL, NULL);
}
