/* First values: their distribution, and that nothing but seed, name and place decides them. Weights
 * from files: names, shapes and types that must match. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/half.h"
#include "model/load_weights.h"
#include "model/safetensors/safetensors.h"
#include "support/data_files.h"

static ull__model *open_model(const char *text) {
  ull__model *model = NULL;
  assert_int_equal(ull__model_open(text, NULL, &model), ULL_OK);
  return model;
}

static const ull__value *value_of(const ull__model *model, const char *name) {
  const ull__value *value =
      ull__graph_value(model->graph, ull__graph_find_value(model->graph, name));
  assert_non_null(value);
  return value;
}

/* The first values of a tensor in fresh memory. */
static float *first_values(const ull__model *model, const char *name, uint64_t seed,
                           uint64_t *count) {
  const ull__value *value = value_of(model, name);
  assert_int_equal(ull__shape_count(&value->shape, count), ULL_OK);
  float *numbers = malloc(*count * sizeof *numbers + 4);
  numbers[*count] = 77; /* must stay */
  assert_int_equal(ull__model_initialize(model, name, seed, ULL_FLOAT32, &value->shape, numbers),
                   ULL_OK);
  assert_true(numbers[*count] == 77);
  return numbers;
}

/* ---- distributions ---- */

typedef struct moments {
  double mean, deviation, least, most, kurtosis;
} moments;

static moments measure(const float *numbers, uint64_t count) {
  moments m = {.least = INFINITY, .most = -INFINITY};
  double square = 0, fourth = 0;
  for (uint64_t i = 0; i < count; i++) m.mean += numbers[i] / (double)count;
  for (uint64_t i = 0; i < count; i++) {
    const double apart = numbers[i] - m.mean;
    square += apart * apart / (double)count;
    fourth += apart * apart * apart * apart / (double)count;
    if (numbers[i] < m.least) m.least = numbers[i];
    if (numbers[i] > m.most) m.most = numbers[i];
  }
  m.deviation = sqrt(square);
  m.kurtosis = fourth / (square * square);
  return m;
}

static void check_normal(const char *text, const char *name, double deviation) {
  uint64_t count;
  ull__model *model = open_model(text);
  float *numbers = first_values(model, name, 5, &count);
  const moments m = measure(numbers, count);
  const double error = 1 / sqrt((double)count);
  if (fabs(m.mean) > 5 * deviation * error || fabs(m.deviation / deviation - 1) > 5 * error ||
      fabs(m.kurtosis - 3) > 25 * error) {
    fail_msg("%s %s: mean %g deviation %g (%g) kurtosis %g", text, name, m.mean, m.deviation,
             deviation, m.kurtosis);
  }
  free(numbers);
  ull__model_destroy(model);
}

static void check_uniform(const char *text, const char *name, double bound) {
  uint64_t count;
  ull__model *model = open_model(text);
  float *numbers = first_values(model, name, 5, &count);
  const moments m = measure(numbers, count);
  const double error = 1 / sqrt((double)count);
  if (fabs(m.mean) > 5 * bound * error || fabs(m.deviation * sqrt(3) / bound - 1) > 5 * error ||
      m.least < -bound || m.most >= bound || m.most < bound * (1 - 20 / (double)count)) {
    fail_msg("%s %s: mean %g deviation %g (%g) in [%g, %g]", text, name, m.mean, m.deviation,
             bound / sqrt(3), m.least, m.most);
  }
  free(numbers);
  ull__model_destroy(model);
}

static void check_constant(const char *text, const char *name, float wanted) {
  uint64_t count;
  ull__model *model = open_model(text);
  float *numbers = first_values(model, name, 5, &count);
  for (uint64_t i = 0; i < count; i++) assert_true(numbers[i] == wanted);
  free(numbers);
  ull__model_destroy(model);
}

static void test_first_values_as_pytorch_draws_them(void **state) {
  (void)state;
  check_uniform("zoo:mlp", "fc1.weight", 1.0 / 28);
  check_uniform("zoo:mlp", "fc1.bias", 1.0 / 28);
  check_uniform("zoo:lenet", "conv2.weight", 1 / sqrt(6 * 25));
  check_uniform("zoo:small_resnet", "layers.2.conv2.weight", 1 / sqrt(32 * 9));
  check_normal("zoo:resnet18", "layer1.0.conv1.weight", sqrt(2.0 / (64 * 9)));
  check_normal("zoo:resnet18", "layer2.0.downsample.0.weight", sqrt(2.0 / 128));
  check_uniform("zoo:resnet18", "fc.weight", 1 / sqrt(512));
  check_constant("zoo:resnet18", "bn1.weight", 1);
  check_constant("zoo:resnet18", "bn1.bias", 0);
  check_constant("zoo:resnet18", "layer4.1.bn2.running_var", 1);
  check_constant("zoo:resnet18", "layer4.1.bn2.running_mean", 0);
  check_normal("zoo:gpt2_tiny", "transformer.wte.weight", 0.02);
  check_normal("zoo:gpt2_tiny", "transformer.wpe.weight", 0.02);
  check_normal("zoo:gpt2_tiny", "transformer.h.1.mlp.c_fc.weight", 0.02);
  check_normal("zoo:gpt2_tiny", "transformer.h.1.mlp.c_proj.weight", 0.01); /* 0.02 / sqrt(4) */
  check_normal("zoo:gpt2_tiny", "transformer.h.0.attn.c_proj.weight", 0.01);
  check_constant("zoo:gpt2_tiny", "transformer.h.0.attn.c_attn.bias", 0);
  check_constant("zoo:gpt2_tiny", "transformer.ln_f.weight", 1);
}

/* ---- what decides a value ---- */

static double correlation(const float *a, const float *b, uint64_t count) {
  double ab = 0, aa = 0, bb = 0;
  for (uint64_t i = 0; i < count; i++) {
    ab += (double)a[i] * b[i];
    aa += (double)a[i] * a[i];
    bb += (double)b[i] * b[i];
  }
  return ab / sqrt(aa * bb);
}

static void test_seed_and_name_decide(void **state) {
  (void)state;
  uint64_t count, other_count;
  ull__model *model = open_model("zoo:resnet18");
  ull__model *other_model = open_model("zoo:resnet34"); /* layer1.0 is the same in both */
  float *one = first_values(model, "layer1.0.conv1.weight", 1, &count);
  float *again = first_values(model, "layer1.0.conv1.weight", 1, &count);
  float *other_seed = first_values(model, "layer1.0.conv1.weight", 2, &count);
  float *other_name = first_values(model, "layer1.0.conv2.weight", 1, &other_count);
  float *elsewhere = first_values(other_model, "layer1.0.conv1.weight", 1, &other_count);
  assert_int_equal(count, other_count);
  assert_memory_equal(one, again, count * 4);
  assert_memory_equal(one, elsewhere, count * 4);
  assert_true(fabs(correlation(one, other_seed, count)) < 0.03);
  assert_true(fabs(correlation(one, other_name, count)) < 0.03);
  assert_true(fabs(correlation(one, one + 1, count - 1)) < 0.03);
  free(one);
  free(again);
  free(other_seed);
  free(other_name);
  free(elsewhere);
  ull__model_destroy(model);
  ull__model_destroy(other_model);
}

static void test_every_precision_starts_from_the_same(void **state) {
  (void)state;
  uint64_t count;
  ull__model *model = open_model("zoo:lenet");
  const ull__shape *shape = &value_of(model, "conv1.weight")->shape;
  float *single = first_values(model, "conv1.weight", 3, &count);
  double wide[150];
  uint16_t half[150], brain[150];
  assert_int_equal(count, 150);
  assert_int_equal(ull__model_initialize(model, "conv1.weight", 3, ULL_FLOAT64, shape, wide),
                   ULL_OK);
  assert_int_equal(ull__model_initialize(model, "conv1.weight", 3, ULL_FLOAT16, shape, half),
                   ULL_OK);
  assert_int_equal(ull__model_initialize(model, "conv1.weight", 3, ULL_BFLOAT16, shape, brain),
                   ULL_OK);
  for (int i = 0; i < 150; i++) {
    assert_true(wide[i] == (double)single[i]);
    assert_int_equal(half[i], ull__half_from_float(single[i]));
    assert_int_equal(brain[i], ull__bfloat16_from_float(single[i]));
  }
  assert_int_equal(ull__model_initialize(model, "conv9.weight", 3, ULL_FLOAT32, shape, wide),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__model_initialize(model, "conv1.weight", 3, ULL_INT64, shape, wide),
                   ULL_ERROR_UNSUPPORTED);
  free(single);
  ull__model_destroy(model);
}

/* ---- weights from a file ---- */

static char path[64];

static int make_path(void **state) {
  (void)state;
  strcpy(path, "/tmp/ullage_weights_XXXXXX");
  const int descriptor = mkstemp(path);
  return descriptor < 0 ? 1 : close(descriptor);
}

static int remove_path(void **state) {
  (void)state;
  return unlink(path);
}

typedef struct taken {
  uint32_t calls;
  double sum;
  char last[128];
  bool must_fail;
} taken;

static ull_status take(void *context, const ull__value *value, const void *bytes,
                       uint64_t size_bytes) {
  taken *t = context;
  uint64_t wanted = 0;
  if (t->must_fail) return ULL__FAIL(ULL_ERROR_DEVICE, "not taken");
  assert_int_equal(ull__shape_bytes(&value->shape, value->dtype, &wanted), ULL_OK);
  assert_int_equal(size_bytes, wanted);
  for (uint64_t i = 0; i < size_bytes / 4; i++) t->sum += fabs(((const float *)bytes)[i]);
  snprintf(t->last, sizeof t->last, "%s", value->name);
  t->calls++;
  return ULL_OK;
}

static void test_loads_files_of_pytorch(void **state) {
  (void)state;
  taken t = {0};
  uint32_t loaded = 0;
  ull__model *model = open_model("zoo:small_resnet");
  assert_int_equal(ull__model_load_weights(model,
                                           source_path("tests/data/resnet_weights.safetensors"),
                                           false, take, &t, &loaded),
                   ULL_OK);
  assert_int_equal(loaded, 47);
  assert_int_equal(t.calls, 47);
  assert_string_equal(t.last, "fc.bias");
  assert_true(t.sum > 100);
  t.must_fail = true;
  assert_int_equal(ull__model_load_weights(model,
                                           source_path("tests/data/resnet_weights.safetensors"),
                                           false, take, &t, NULL),
                   ULL_ERROR_DEVICE);
  ull__model_destroy(model);
}

typedef struct stored {
  const char *name;
  ull_dtype dtype;
  int64_t rank, dims[2];
} stored;

/* A file of zeros with the tensors of zoo:mlp?in=3&hidden=2&classes=2, changed by the caller. */
static const stored mlp_tensors[] = {
    {"fc1.weight", ULL_FLOAT32, 2, {2, 3}},
    {"fc1.bias", ULL_FLOAT32, 1, {2}},
    {"fc2.weight", ULL_FLOAT32, 2, {2, 2}},
    {"fc2.bias", ULL_FLOAT32, 1, {2}},
};

static void store(const stored *tensors, uint32_t count) {
  static const char zeros[256];
  ull__tensor_plan plans[8];
  ull__safetensors_writer *writer = NULL;
  for (uint32_t i = 0; i < count; i++) {
    plans[i] = (ull__tensor_plan){tensors[i].name, tensors[i].dtype,
                                  ull__shape_of((uint32_t)tensors[i].rank, tensors[i].dims)};
  }
  assert_int_equal(ull__safetensors_create(path, plans, count, NULL, 0, &writer), ULL_OK);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t bytes = 0;
    assert_int_equal(ull__shape_bytes(&plans[i].shape, plans[i].dtype, &bytes), ULL_OK);
    assert_int_equal(ull__safetensors_write(writer, plans[i].name, zeros, bytes), ULL_OK);
  }
  assert_int_equal(ull__safetensors_finish(writer), ULL_OK);
}

static ull_status load(bool is_partial, uint32_t *loaded) {
  taken t = {0};
  ull__model *model = open_model("zoo:mlp?in=3&hidden=2&classes=2");
  const ull_status status = ull__model_load_weights(model, path, is_partial, take, &t, loaded);
  assert_int_equal(t.calls, status == ULL_OK ? *loaded : 0); /* nothing is taken by halves */
  ull__model_destroy(model);
  return status;
}

static void expect_message(const char *part) {
  const char *message = ull_error_last()->message;
  if (strstr(message, part) == NULL) fail_msg("no '%s' in: %s", part, message);
  assert_non_null(strstr(message, path));
}

static void test_names_must_match(void **state) {
  (void)state;
  uint32_t loaded = 0;
  stored tensors[8];
  memcpy(tensors, mlp_tensors, sizeof mlp_tensors);
  store(tensors, 4);
  assert_int_equal(load(false, &loaded), ULL_OK);
  assert_int_equal(loaded, 4);

  store(tensors, 3);
  assert_int_equal(load(false, &loaded), ULL_ERROR_MISMATCH);
  expect_message("lacks weights of the model: fc2.bias");
  assert_non_null(strstr(ull_error_last()->change, "--partial"));
  assert_int_equal(load(true, &loaded), ULL_OK);
  assert_int_equal(loaded, 3);
  store(tensors, 2);
  assert_int_equal(load(false, &loaded), ULL_ERROR_MISMATCH);
  expect_message("fc2.weight and 1 more");

  tensors[4] = (stored){"fc3.bias", ULL_FLOAT32, 1, {2}};
  store(tensors, 5);
  assert_int_equal(load(false, &loaded), ULL_ERROR_MISMATCH);
  expect_message("holds tensors the model lacks: fc3.bias");
  assert_int_equal(load(true, &loaded), ULL_OK);
  assert_int_equal(loaded, 4);

  tensors[4] = (stored){"bn1.num_batches_tracked", ULL_INT64, 0, {0}};
  tensors[5] = (stored){"lm_head.weight", ULL_FLOAT32, 1, {2}};
  store(tensors, 6);
  assert_int_equal(load(false, &loaded), ULL_OK);

  store(tensors + 4, 2);
  assert_int_equal(load(true, &loaded), ULL_ERROR_MISMATCH); /* nothing in common */
  expect_message("none of the weights");
}

static void test_shapes_and_types_must_match(void **state) {
  (void)state;
  uint32_t loaded = 0;
  stored tensors[4];
  memcpy(tensors, mlp_tensors, sizeof mlp_tensors);
  tensors[2].dims[0] = 7;
  store(tensors, 4);
  for (int is_partial = 0; is_partial < 2; is_partial++) {
    assert_int_equal(load(is_partial, &loaded), ULL_ERROR_MISMATCH);
    expect_message("fc2.weight has the shape [7, 2], the model wants [2, 2]");
    assert_string_equal(ull_error_last()->holder, "fc2.weight");
  }
  memcpy(tensors, mlp_tensors, sizeof mlp_tensors);
  tensors[1].dtype = ULL_INT32;
  store(tensors, 4);
  assert_int_equal(load(false, &loaded), ULL_ERROR_MISMATCH);
  expect_message("fc1.bias is stored as I32, the model wants float32");
  for (ull_dtype dtype = ULL_FLOAT64; dtype <= ULL_BFLOAT16; dtype++) {
    tensors[1].dtype = dtype;
    store(tensors, 4);
    assert_int_equal(load(false, &loaded), ULL_OK);
  }
}

static void test_memory_out_at_any_allocation(void **state) {
  (void)state;
  store(mlp_tensors, 4);
  ull__model *model = open_model("zoo:mlp?in=3&hidden=2&classes=2");
  for (uint64_t n = 1;; n++) {
    taken t = {0};
    const uint64_t live = ull__alloc_count().live_bytes;
    ull__alloc_fail_at(n);
    const ull_status status = ull__model_load_weights(model, path, false, take, &t, NULL);
    ull__alloc_fail_at(0);
    assert_int_equal(ull__alloc_count().live_bytes, live);
    if (status == ULL_OK) break;
    assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    assert_true(n < 1000);
  }
  ull__model_destroy(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_values_as_pytorch_draws_them),
      cmocka_unit_test(test_seed_and_name_decide),
      cmocka_unit_test(test_every_precision_starts_from_the_same),
      cmocka_unit_test(test_loads_files_of_pytorch),
      cmocka_unit_test(test_names_must_match),
      cmocka_unit_test(test_shapes_and_types_must_match),
      cmocka_unit_test(test_memory_out_at_any_allocation),
  };
  return cmocka_run_group_tests(tests, make_path, remove_path);
}
