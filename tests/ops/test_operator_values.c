/* The reference kernels and gradient rules against single PyTorch calls in float64
 * (tests/data/operators.*): outputs, the gradients of every input for a stored gradient of the
 * output, and batch normalisation's running statistics. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "model/safetensors/safetensors.h"
#include "support/data_files.h"
#include "support/operator_run.h"

static ull__safetensors *file;
static json_t *cases;
static char current[64]; /* "conv2d.case0" */
static const json_t *attributes;

static void check(ull_status status) {
  if (status != ULL_OK) fail_msg("%s: %s", current, ull_error_last()->message);
}

/* ---- stored tensors ---- */

static const ull__tensor_entry *find_entry(const char *name) {
  char full[128];
  snprintf(full, sizeof full, "%s.%s", current, name);
  return ull__safetensors_find(file, full);
}

static uint64_t count_of(const ull__tensor_entry *entry) {
  uint64_t count = 0;
  check(ull__shape_count(&entry->shape, &count));
  return count;
}

/* Fresh memory (free). */
static double *read_stored(const char *name) {
  const ull__tensor_entry *entry = find_entry(name);
  if (entry == NULL) fail_msg("%s has no %s", current, name);
  double *numbers = malloc((count_of(entry) + 1) * sizeof *numbers);
  check(ull__safetensors_read(file, entry, entry->dtype, numbers));
  if (entry->dtype == ULL_INT64) {
    for (uint64_t i = 0; i < count_of(entry); i++) numbers[i] = (double)((int64_t *)numbers)[i];
  }
  return numbers;
}

static int64_t dim_of(const char *name, uint32_t i) {
  const ull__tensor_entry *entry = find_entry(name);
  assert_non_null(entry);
  return entry->shape.dims[i].constant;
}

static void use_stored(subject *s, const char *name) {
  double *numbers = read_stored(name);
  subject_source *source = &s->sources[s->source_count - 1];
  memcpy(source->numbers, numbers, source->count * sizeof *numbers);
  free(numbers);
}

/* A source with the numbers of the stored tensor of this name, as `rank` dimensions. */
static ull__value_id stored_as(subject *s, argument_kind kind, const char *name, uint32_t rank,
                               const int64_t *dims) {
  const bool ids = find_entry(name)->dtype == ULL_INT64;
  const ull__value_id value = ids ? subject_integers(s, name, 0, 0, rank, dims)
                                  : subject_argument(s, kind, name, NULL, rank, dims);
  use_stored(s, name);
  return value;
}

static ull__value_id stored(subject *s, argument_kind kind, const char *name) {
  int64_t dims[ULL__MAX_RANK];
  const ull__tensor_entry *entry = find_entry(name);
  if (entry == NULL) fail_msg("%s has no %s", current, name);
  for (uint32_t i = 0; i < entry->shape.rank; i++) dims[i] = entry->shape.dims[i].constant;
  return stored_as(s, kind, name, entry->shape.rank, dims);
}

static int64_t pair_of(const char *name, size_t i) {
  return json_integer_value(json_array_get(json_object_get(attributes, name), i));
}

static double real_of(const char *name) {
  return json_number_value(json_object_get(attributes, name));
}

/* ---- operators ---- */

static void build_conv2d(subject *s) {
  const bool biased = find_entry("bias") != NULL;
  const ull__value_id x = stored(s, ARGUMENT_DATA, "x"), w = stored(s, ARGUMENT_WEIGHT, "weight");
  const ull__value_id b = biased ? stored(s, ARGUMENT_WEIGHT, "bias") : ULL__NONE;
  const ull__value_id inputs[] = {x, w, b};
  const int64_t groups = json_integer_value(json_object_get(attributes, "groups"));
  const ull__value_id y = subject_node(
      s, "conv2d", inputs, biased ? 3 : 2,
      SETTINGS(ULL__INT("stride_h", pair_of("stride", 0)),
               ULL__INT("stride_w", pair_of("stride", 1)), ULL__INT("pad_h", pair_of("padding", 0)),
               ULL__INT("pad_w", pair_of("padding", 1)),
               ULL__INT("dilation_h", pair_of("dilation", 0)),
               ULL__INT("dilation_w", pair_of("dilation", 1)), ULL__INT("groups", groups)),
      NULL);
  subject_compare(s, y, NEAR_ELEMENT, 1e-9);
}

static void build_batch_norm(subject *s) {
  const bool training = json_is_true(json_object_get(attributes, "training"));
  const ull__attribute_setting eps = ULL__REAL("eps", real_of("eps"));
  const ull__value_id x = stored(s, ARGUMENT_DATA, "x"), w = stored(s, ARGUMENT_WEIGHT, "weight");
  const ull__value_id b = stored(s, ARGUMENT_WEIGHT, "bias");
  const ull__value_id running_mean = stored(s, ARGUMENT_FIXED, "running_mean");
  const ull__value_id running_var = stored(s, ARGUMENT_FIXED, "running_var");
  ull__value_id outputs[ULL__MAX_OUTPUTS] = {running_mean}, after[ULL__MAX_OUTPUTS];
  if (training) {
    subject_node(s, "batch_norm_statistics", &x, 1, &eps, 1, outputs);
    subject_node(s, "batch_norm_update", INPUTS(running_mean, running_var, outputs[0], outputs[2]),
                 SETTINGS(ULL__REAL("momentum", real_of("momentum"))), after);
  } else {
    outputs[1] = subject_node(s, "batch_norm_invstd", &running_var, 1, &eps, 1, NULL);
  }
  subject_compare(s,
                  subject_node(s, "batch_norm_normalize", INPUTS(x, outputs[0], outputs[1], w, b),
                               NULL, 0, NULL),
                  NEAR_ELEMENT, 1e-9);
  for (uint32_t i = 0; training && i < 2; i++) subject_compare(s, after[i], NEAR_ELEMENT, 1e-9);
}

/* Over several dimensions: rows of all their elements. */
static void build_layer_norm(subject *s) {
  const int64_t width = (int64_t)count_of(find_entry("weight"));
  const int64_t rows = (int64_t)count_of(find_entry("x")) / width;
  const ull__value_id x = stored_as(s, ARGUMENT_DATA, "x", DIMS(rows, width));
  const ull__value_id w = stored_as(s, ARGUMENT_WEIGHT, "weight", DIMS(width));
  const ull__value_id b = stored_as(s, ARGUMENT_WEIGHT, "bias", DIMS(width));
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "layer_norm", INPUTS(x, w, b), SETTINGS(ULL__REAL("eps", real_of("eps"))),
               outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 1e-9);
}

static void build_max_pool2d(subject *s) {
  const ull__value_id x = stored(s, ARGUMENT_DATA, "x");
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "max_pool2d", INPUTS(x),
               SETTINGS(ULL__INT("kernel_h", pair_of("kernel_size", 0)),
                        ULL__INT("kernel_w", pair_of("kernel_size", 1)),
                        ULL__INT("stride_h", pair_of("stride", 0)),
                        ULL__INT("stride_w", pair_of("stride", 1)),
                        ULL__INT("pad_h", pair_of("padding", 0)),
                        ULL__INT("pad_w", pair_of("padding", 1))),
               outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 1e-9);
}

static void build_global_avg_pool(subject *s) {
  const ull__value_id x = stored(s, ARGUMENT_DATA, "x");
  subject_compare(s, subject_node(s, "global_avg_pool", &x, 1, NULL, 0, NULL), NEAR_ELEMENT, 1e-9);
}

static void build_adaptive_avg_pool2d(subject *s) {
  const ull__value_id x = stored(s, ARGUMENT_DATA, "x");
  const ull__value_id y = subject_node(s, "adaptive_avg_pool2d", INPUTS(x),
                                       SETTINGS(ULL__INT("output_h", pair_of("output_size", 0)),
                                                ULL__INT("output_w", pair_of("output_size", 1))),
                                       NULL);
  subject_compare(s, y, NEAR_ELEMENT, 1e-9);
}

/* The mean over all positions is a row of its own. */
static void build_adaptive_or_global(subject *s) {
  bool whole = pair_of("output_size", 0) == 1 && pair_of("output_size", 1) == 1;
  (whole ? build_global_avg_pool : build_adaptive_avg_pool2d)(s);
}

static void build_gelu(subject *s) {
  const char *approximate = json_string_value(json_object_get(attributes, "approximate"));
  const ull__value_id x = stored(s, ARGUMENT_DATA, "x");
  const ull__value_id y =
      subject_node(s, "gelu", INPUTS(x),
                   SETTINGS(ULL__INT("approximate", strcmp(approximate, "tanh") == 0)), NULL);
  subject_compare(s, y, NEAR_ELEMENT, 1e-9);
}

static void build_cross_entropy(subject *s) {
  const ull__value_id x = stored(s, ARGUMENT_DATA, "x");
  const ull__value_id target = stored(s, ARGUMENT_FIXED, "target");
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "cross_entropy", INPUTS(x, target),
               SETTINGS(ULL__INT("ignore_index",
                                 json_integer_value(json_object_get(attributes, "ignore_index"))),
                        ULL__REAL("label_smoothing", real_of("label_smoothing"))),
               outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 1e-9);
}

static void build_soft_cross_entropy(subject *s) {
  const ull__value_id x = stored(s, ARGUMENT_DATA, "x");
  const ull__value_id target = stored(s, ARGUMENT_FIXED, "target");
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "soft_cross_entropy", INPUTS(x, target),
               SETTINGS(ULL__REAL("label_smoothing", real_of("label_smoothing"))), outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 1e-9);
}

static void build_embedding(subject *s) {
  const ull__value_id ids = stored(s, ARGUMENT_FIXED, "ids");
  const ull__value_id w = stored(s, ARGUMENT_WEIGHT, "weight");
  subject_compare(s, subject_node(s, "embedding", INPUTS(ids, w), NULL, 0, NULL), NEAR_ELEMENT,
                  1e-9);
}

/* Stored [N, H, T, D] as part `part` of `parts` of rows [N, T, parts H D]. */
static void pack(const char *name, uint32_t part, uint32_t parts, double *rows) {
  const int64_t n = dim_of(name, 0), h = dim_of(name, 1), t = dim_of(name, 2), d = dim_of(name, 3);
  double *numbers = read_stored(name);
  for (int64_t i = 0; i < n * h * t * d; i++) {
    const int64_t e = i % d, row = i / d % t, head = i / (d * t) % h, sample = i / (d * t * h);
    rows[((sample * t + row) * parts + part) * h * d + head * d + e] = numbers[i];
  }
  free(numbers);
}

static void build_attention(subject *s) {
  const int64_t n = dim_of("query", 0), h = dim_of("query", 1), t = dim_of("query", 2);
  const int64_t d = dim_of("query", 3);
  const ull__value_id qkv = subject_argument(s, ARGUMENT_DATA, "qkv", NULL, DIMS(n, t, 3 * h * d));
  pack("query", 0, 3, s->sources[0].numbers);
  pack("key", 1, 3, s->sources[0].numbers);
  pack("value", 2, 3, s->sources[0].numbers);
  const bool causal = json_is_true(json_object_get(attributes, "is_causal"));
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "attention", INPUTS(qkv),
               SETTINGS(ULL__INT("heads", h), ULL__INT("causal", causal),
                        ULL__REAL("scale", real_of("scale"))),
               outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 1e-9);
}

static const operator_case builders[] = {
    {"conv2d", build_conv2d, true},
    {"batch_norm", build_batch_norm, true},
    {"layer_norm", build_layer_norm, true},
    {"max_pool2d", build_max_pool2d, true},
    {"adaptive_avg_pool2d", build_adaptive_or_global, true},
    {"gelu", build_gelu, true},
    {"scaled_dot_product_attention", build_attention, true},
    {"cross_entropy", build_cross_entropy, true},
    {"soft_cross_entropy", build_soft_cross_entropy, true},
    {"embedding", build_embedding, true},
};

/* ---- comparing ---- */

static bool is_attention(void) {
  return strncmp(current, "scaled_dot_product_attention", 28) == 0;
}

static void expect(operator_run *run, const char *name, const double *expected) {
  const uint64_t count = operator_run_count(run, name);
  double *actual = operator_run_get(run, name), squares = 0;
  for (uint64_t i = 0; i < count; i++) squares += expected[i] * expected[i] / (double)count;
  for (uint64_t i = 0; i < count; i++) {
    if (!(fabs(actual[i] - expected[i]) <= 1e-9 * (fabs(expected[i]) + sqrt(squares)))) {
      fail_msg("%s: %s[%llu] is %.15g, not %.15g", current, name, (unsigned long long)i, actual[i],
               expected[i]);
    }
  }
  free(actual);
}

static void expect_stored(operator_run *run, const char *name, const char *stored_name) {
  double *expected = read_stored(stored_name);
  expect(run, name, expected);
  free(expected);
}

static void expect_outputs(operator_run *run, const subject *s) {
  if (is_attention()) {
    double *y = calloc(operator_run_count(run, "out0"), sizeof *y);
    pack("y", 0, 1, y);
    expect(run, "out0", y);
    free(y);
  } else {
    expect_stored(run, "out0", "y");
  }
  if (s->output_count > 1) expect_stored(run, "out1", "running_mean_after");
  if (s->output_count > 2) expect_stored(run, "out2", "running_var_after");
}

static void expect_gradients(operator_run *run, const subject *s) {
  if (is_attention()) {
    double *dqkv = calloc(operator_run_count(run, "qkv.grad"), sizeof *dqkv);
    pack("dquery", 0, 3, dqkv);
    pack("dkey", 1, 3, dqkv);
    pack("dvalue", 2, 3, dqkv);
    expect(run, "qkv.grad", dqkv);
    free(dqkv);
    return;
  }
  for (uint32_t i = 0; i < s->source_count; i++) {
    char gradient[64], expected[64];
    if (!s->sources[i].differentiable) continue;
    snprintf(gradient, sizeof gradient, "%s.grad", s->sources[i].name);
    snprintf(expected, sizeof expected, "d%s", s->sources[i].name);
    expect_stored(run, gradient, expected);
  }
}

/* The stored gradient of the output: the weights of the sum, or of a scalar loss itself. */
static double weigh_loss(subject *s) {
  subject_source *last = &s->sources[s->source_count - 1];
  double *dy = read_stored("dy");
  const double scalar = dy[0];
  const bool summed = strcmp(last->name, "loss.weights") == 0;
  if (summed && is_attention()) pack("dy", 0, 1, last->numbers);
  if (summed && !is_attention()) memcpy(last->numbers, dy, last->count * sizeof *dy);
  free(dy);
  return summed ? 1 : scalar;
}

static operator_run *run_graph(const ull__graph *graph, const subject *s, ull__provider *provider,
                               double loss_weight) {
  const run_options options = {.provider = provider, .poison = true};
  operator_run *run = operator_run_create(graph, &options);
  if (run == NULL) fail_msg("%s: %s", current, ull_error_last()->message);
  operator_run_set_sources(run, s);
  if (loss_weight != 0) operator_run_set(run, "loss_weight", &loss_weight);
  operator_run_execute(run);
  return run;
}

static void run_case(const operator_case *c) {
  const bool fixed = json_is_false(json_object_get(attributes, "training"));
  const subject settings = {.dtype = ULL_FLOAT64, .gradient = true};
  ull__provider *provider;
  check(ull__reference_provider_create(&provider));
  subject *s = subject_create(c, &settings);
  const double loss_weight = weigh_loss(s);
  ull__graph *joint = NULL;
  operator_run *run;
  if (fixed) { /* evaluation has no gradients here */
    run = run_graph(s->graph, s, provider, 0);
  } else {
    check(ull__graph_differentiate(s->graph, &joint));
    run = run_graph(joint, s, provider, loss_weight);
    expect_gradients(run, s);
  }
  expect_outputs(run, s);
  operator_run_destroy(run);
  ull__graph_destroy(joint);
  subject_destroy(s);
  ull__provider_destroy(provider);
}

static void test_stored_values(void **state) {
  (void)state;
  const char *key;
  json_t *value;
  size_t ran = 0;
  json_object_foreach(cases, key, value) {
    char op[64];
    snprintf(op, sizeof op, "%.*s", (int)strcspn(key, "."), key);
    snprintf(current, sizeof current, "%s", key);
    attributes = value;
    size_t b = 0;
    while (b < sizeof builders / sizeof *builders && strcmp(builders[b].op, op) != 0) b++;
    if (b == sizeof builders / sizeof *builders) fail_msg("nothing builds %s", key);
    run_case(&builders[b]);
    ran++;
  }
  assert_int_equal(ran, json_object_size(cases));
  assert_true(ran >= 28);
}

static int open_files(void **state) {
  (void)state;
  if (ull__safetensors_open(source_path("tests/data/operators.safetensors"), &file) != ULL_OK)
    return -1;
  return ull__json_load(source_path("tests/data/operators.json"), 1 << 20, &cases) == ULL_OK ? 0
                                                                                             : -1;
}

static int close_files(void **state) {
  (void)state;
  json_decref(cases);
  ull__safetensors_close(file);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_stored_values)};
  return cmocka_run_group_tests_name("operator values", tests, open_files, close_files);
}
