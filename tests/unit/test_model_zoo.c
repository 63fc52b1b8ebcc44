/* The networks: sizes and names against PyTorch's, what they are fed, what bad texts say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/model.h"
#include "model/safetensors/safetensors.h"
#include "support/data_files.h"

static const char tiny_gpt2[] = "zoo:gpt2_tiny?width=32&vocab=100&seq=16";

static ull__model *open_model(const char *text) {
  const ull__model_options options = {0};
  ull__model *model = NULL;
  if (ull__model_open(text, &options, &model) != ULL_OK) {
    print_message("%s: %s\n", text, ull_error_last()->message);
  }
  assert_non_null(model);
  return model;
}

static uint32_t count_role(const ull__model *model, ull__role role) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ull__graph_value_count(model->graph); i++) {
    count += ull__graph_value(model->graph, i)->role == role;
  }
  return count;
}

/* ---- sizes ---- */

typedef struct expected {
  const char *text;
  uint64_t parameters;
  uint32_t tensors, states;
} expected;

/* From PyTorch: sum(p.numel() for p in model.parameters()), len(list(parameters())), buffers
 * without num_batches_tracked. */
static const expected sizes[] = {
    {"zoo:mlp", 203530, 4, 0},
    {"zoo:lenet", 61706, 10, 0},
    {"zoo:resnet18", 11689512, 62, 40},
    {"zoo:resnet34", 21797672, 110, 72},
    {"zoo:resnet50", 25557032, 161, 106},
    {"zoo:gpt2", 124439808, 148, 0},
    {tiny_gpt2, 30720, 28, 0},
    {"zoo:gpt2_tiny?width=32&vocab=100&seq=16&packed=1", 30720, 28, 0},
    {"zoo:resnet18?classes=10&image=28&channels=1", 11175370, 62, 40},
    {"zoo:resnet8", 308074, 29, 18},
    {"zoo:resnet14", 696042, 47, 30},
    {"zoo:resnet20", 1084010, 65, 42},
};

static void test_parameter_counts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    ull__model *model = open_model(sizes[i].text);
    print_message("%s: %llu parameters\n", model->name, (unsigned long long)model->parameters);
    assert_int_equal(model->parameters, sizes[i].parameters);
    assert_int_equal(count_role(model, ULL__ROLE_PARAMETER), sizes[i].tensors);
    assert_int_equal(count_role(model, ULL__ROLE_STATE), sizes[i].states);
    assert_int_equal(model->initial_count, sizes[i].tensors + sizes[i].states);
    ull__model_destroy(model);
  }
}

static void check_shape(const ull__model *model, const char *name, const char *text) {
  char shape[128];
  const ull__value_id id = ull__graph_find_value(model->graph, name);
  if (id == ULL__NONE) fail_msg("%s has no value %s", model->name, name);
  ull__shape_text(&ull__graph_value(model->graph, id)->shape, shape, sizeof shape);
  assert_string_equal(shape, text);
}

static void test_torchvision_names(void **state) {
  (void)state;
  ull__model *model = open_model("zoo:resnet18");
  check_shape(model, "conv1.weight", "[64, 3, 7, 7]");
  check_shape(model, "bn1.running_mean", "[64]");
  check_shape(model, "layer2.0.downsample.0.weight", "[128, 64, 1, 1]");
  check_shape(model, "layer4.1.bn2.running_var", "[512]");
  check_shape(model, "fc.weight", "[1000, 512]");
  check_shape(model, "layer4.1.relu", "[B, 512, 7, 7]");
  assert_int_equal(ull__graph_find_value(model->graph, "layer1.0.downsample.0.weight"), ULL__NONE);
  ull__model_destroy(model);

  model = open_model("zoo:resnet50?image=64");
  check_shape(model, "layer1.0.downsample.0.weight", "[256, 64, 1, 1]");
  check_shape(model, "layer2.0.conv1.weight", "[128, 256, 1, 1]");
  check_shape(model, "layer2.0.conv1", "[B, 128, 16, 16]"); /* the stride is in conv2 */
  check_shape(model, "layer2.0.conv2", "[B, 128, 8, 8]");
  check_shape(model, "layer4.2.conv3.weight", "[2048, 512, 1, 1]");
  check_shape(model, "fc.weight", "[1000, 2048]");
  check_shape(model, "avgpool", "[B, 2048, 1, 1]");
  ull__model_destroy(model);
}

/* ---- names against files that PyTorch wrote ---- */

static void check_against_file(const char *text, const char *file_name) {
  ull__safetensors *file = NULL;
  assert_int_equal(ull__safetensors_open(source_path(file_name), &file), ULL_OK);
  ull__model *model = open_model(text);
  assert_int_equal(ull__safetensors_count(file), model->initial_count);
  for (uint32_t i = 0; i < ull__safetensors_count(file); i++) {
    const ull__tensor_entry *entry = ull__safetensors_at(file, i);
    const ull__value_id id = ull__graph_find_value(model->graph, entry->name);
    if (id == ULL__NONE) fail_msg("%s has no value %s", text, entry->name);
    const ull__value *value = ull__graph_value(model->graph, id);
    const bool is_statistic = strstr(entry->name, "running_") != NULL;
    assert_int_equal(value->role, is_statistic ? ULL__ROLE_STATE : ULL__ROLE_PARAMETER);
    if (!ull__shape_equal(&value->shape, &entry->shape)) fail_msg("shape of %s", entry->name);
  }
  ull__model_destroy(model);
  ull__safetensors_close(file);
}

static void test_names_equal_stored_weights(void **state) {
  (void)state;
  check_against_file("zoo:small_resnet", "tests/data/resnet_weights.safetensors");
  check_against_file(tiny_gpt2, "tests/data/gpt2_weights.safetensors");
}

/* ---- what is fed and what comes out ---- */

static void test_inputs_and_outputs(void **state) {
  (void)state;
  char shape[64];
  ull__model *model = open_model("zoo:lenet?classes=7");
  assert_int_equal(model->input_count, 2);
  assert_string_equal(model->inputs[0].name, "image");
  assert_true(model->inputs[0].is_image && !model->inputs[0].is_target);
  assert_string_equal(ull__shape_text(&model->inputs[0].shape, shape, sizeof shape),
                      "[B, 1, 28, 28]");
  assert_string_equal(model->inputs[1].name, "target");
  assert_true(model->inputs[1].is_target);
  assert_int_equal(model->inputs[1].upper, 7);
  assert_int_equal(model->inputs[1].dtype, ULL_INT64);
  assert_int_equal(model->classes, 7);
  check_shape(model, "fc3", "[B, 7]");
  const ull__value_id loss = ull__graph_find_output(model->graph, "loss");
  const ull__value_id correct = ull__graph_find_output(model->graph, "correct");
  assert_int_equal(ull__graph_value(model->graph, loss)->shape.rank, 0);
  assert_int_equal(ull__graph_value(model->graph, correct)->shape.rank, 0);
  ull__model_destroy(model);

  model = open_model("zoo:gpt2_tiny");
  assert_int_equal(model->input_count, 1);
  assert_string_equal(model->inputs[0].name, "input_ids");
  assert_int_equal(model->inputs[0].upper, 256);
  assert_int_equal(model->classes, 0);
  assert_int_equal(ull__graph_find_output(model->graph, "correct"), ULL__NONE);
  assert_int_not_equal(ull__graph_find_output(model->graph, "loss"), ULL__NONE);
  assert_int_equal(ull__graph_find_value(model->graph, "rng"), ULL__NONE);
  ull__model_destroy(model);

  model = open_model("zoo:gpt2_tiny?dropout=0.1");
  assert_int_not_equal(ull__graph_find_value(model->graph, "rng"), ULL__NONE);
  assert_int_equal(model->input_count, 1);
  ull__model_destroy(model);
}

/* Targets, positions and documents come in; bytes and an end of text are 257 tokens. */
static void test_packed_gpt2(void **state) {
  (void)state;
  static const char *const names[] = {"input_ids", "positions", "documents", "target"};
  static const int64_t uppers[] = {257, 64, 0, 257};
  ull__model *model = open_model("zoo:gpt2_tiny?packed=1&seq=48");
  assert_int_equal(model->input_count, 4);
  for (uint32_t i = 0; i < 4; i++) {
    assert_string_equal(model->inputs[i].name, names[i]);
    assert_int_equal(model->inputs[i].upper, uppers[i]);
    assert_int_equal(model->inputs[i].dtype, ULL_INT64);
    assert_int_equal(model->inputs[i].shape.dims[1].constant, 48);
    assert_int_equal(model->inputs[i].has_ignored, i == 3);
  }
  assert_true(model->inputs[3].is_target);
  assert_int_equal(model->inputs[3].ignored, -100);
  ull__model_destroy(model);
  model = open_model("zoo:gpt2_tiny?packed=1&vocab=100");
  assert_int_equal(model->inputs[0].upper, 100);
  ull__model_destroy(model);
}

static uint32_t count_op(const ull__graph *graph, const char *op) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ull__graph_node_count(graph); i++) {
    count += strcmp(ull__graph_node(graph, i)->op->name, op) == 0;
  }
  return count;
}

/* Every network differentiates, with a gradient of each parameter, and evaluates without batch
 * statistics or dropout. */
static void test_stages_take_every_network(void **state) {
  static const char *const texts[] = {"zoo:mlp",
                                      "zoo:lenet",
                                      "zoo:resnet8",
                                      "zoo:resnet18",
                                      "zoo:resnet34",
                                      "zoo:resnet50",
                                      "zoo:gpt2",
                                      "zoo:gpt2_tiny",
                                      "zoo:small_resnet",
                                      "zoo:gpt2_tiny?dropout=0.5",
                                      "zoo:gpt2_tiny?packed=1"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    ull__model *model = open_model(texts[i]);
    ull__graph *training = NULL, *evaluation = NULL;
    assert_int_equal(ull__graph_differentiate(model->graph, &training), ULL_OK);
    assert_int_equal(ull__graph_derive_evaluation(model->graph, &evaluation), ULL_OK);
    for (uint32_t p = 0; p < model->initial_count; p++) {
      char name[256];
      const ull__value_id id = ull__graph_find_value(model->graph, model->initials[p].name);
      if (ull__graph_value(model->graph, id)->role != ULL__ROLE_PARAMETER) continue;
      snprintf(name, sizeof name, "%s.grad", model->initials[p].name);
      if (ull__graph_find_value(training, name) == ULL__NONE) fail_msg("no %s", name);
    }
    assert_int_equal(count_op(evaluation, "batch_norm_statistics"), 0);
    assert_int_equal(count_op(evaluation, "batch_norm_update"), 0);
    assert_int_equal(count_op(evaluation, "dropout"), 0);
    ull__graph_destroy(training);
    ull__graph_destroy(evaluation);
    ull__model_destroy(model);
  }
}

/* ---- texts ---- */

static void test_name_spells_every_key_and_opens_again(void **state) {
  static const char *const texts[] = {
      "zoo:mlp",      "zoo:mlp?in=20",       "zoo:mlp?image=8&channels=3",      "zoo:lenet",
      "zoo:resnet18", "zoo:resnet8?width=4", "zoo:gpt2_tiny?dropout=0.1&seq=7", "zoo:small_resnet"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    ull__model *model = open_model(texts[i]), *again = open_model(model->name);
    assert_string_equal(again->name, model->name);
    assert_int_equal(again->parameters, model->parameters);
    assert_int_equal(again->inputs[0].shape.rank, model->inputs[0].shape.rank);
    ull__model_destroy(model);
    ull__model_destroy(again);
  }
  ull__model *model = open_model("zoo:resnet18?image=64&classes=10");
  assert_string_equal(model->name, "zoo:resnet18?classes=10&image=64&channels=3");
  ull__model_destroy(model);
  model = open_model("zoo:gpt2?positions=64");
  assert_non_null(strstr(model->name, "&seq=64&")); /* the default may not exceed positions */
  ull__model_destroy(model);
}

static void test_options_go_over_keys(void **state) {
  (void)state;
  ull__model *model = NULL;
  ull__model_options options = {.classes = 12, .label_smoothing = 0.1};
  assert_int_equal(ull__model_open("zoo:resnet8?classes=10", &options, &model), ULL_OK);
  assert_int_equal(model->classes, 12);
  check_shape(model, "fc.weight", "[12, 128]");
  check_shape(model, "target", "[B]");
  ull__model_destroy(model);
  options.target_shares = true;
  assert_int_equal(ull__model_open("zoo:resnet8?classes=10", &options, &model), ULL_OK);
  check_shape(model, "target", "[B, 12]");
  check_shape(model, "fc.weight", "[12, 128]");
  assert_int_equal(ull__graph_find_output(model->graph, "correct"), ULL__NONE);
  ull__model_destroy(model);
  options = (ull__model_options){.sequence = 9};
  assert_int_equal(ull__model_open("zoo:gpt2_tiny", &options, &model), ULL_OK);
  check_shape(model, "input_ids", "[B, 9]");
  ull__model_destroy(model);
}

typedef struct bad_text {
  const char *text;
  ull__model_options options;
  ull_status status;
  const char *message, *holder, *change; /* parts */
} bad_text;

static const bad_text bad_texts[] = {
    {"zoo:reznet34", {0}, ULL_ERROR_USAGE, "known are: mlp, lenet", "zoo:reznet34", "zoo:resnet34"},
    {"zoo:", {0}, ULL_ERROR_USAGE, "known are", "zoo:", ""},
    {"resnet18?image=64", {0}, ULL_ERROR_USAGE, "is no model", "", "zoo:resnet18?image=64"},
    {"", {0}, ULL_ERROR_USAGE, "is no model", "", ""},
    {"net.pt2", {0}, ULL_ERROR_UNSUPPORTED, "net.pt2", "net.pt2", "zoo:"},
    {"a/b.onnx", {0}, ULL_ERROR_UNSUPPORTED, "a/b.onnx", "a/b.onnx", "zoo:"},
    {"notes.txt", {0}, ULL_ERROR_USAGE, "notes.txt is no model", "notes.txt", ""},
    {"zoo:lenet?clases=3", {0}, ULL_ERROR_USAGE, "classes, image, channels", "clases", "classes"},
    {"zoo:lenet?classes=0", {0}, ULL_ERROR_INVALID, "from 1 to", "classes", ""},
    {"zoo:lenet?classes=-3", {0}, ULL_ERROR_INVALID, "from 1 to", "classes", ""},
    {"zoo:lenet?classes=3.5", {0}, ULL_ERROR_INVALID, "a whole number", "classes", ""},
    {"zoo:lenet?classes=", {0}, ULL_ERROR_INVALID, "a whole number", "classes", ""},
    {"zoo:lenet?classes", {0}, ULL_ERROR_USAGE, "not key=value", "", ""},
    {"zoo:lenet?=3", {0}, ULL_ERROR_USAGE, "not key=value", "", ""},
    {"zoo:lenet?classes=3&", {0}, ULL_ERROR_USAGE, "last &", "", ""},
    {"zoo:lenet?&classes=3", {0}, ULL_ERROR_USAGE, "not key=value", "", ""},
    {"zoo:lenet?classes=3&classes=3", {0}, ULL_ERROR_USAGE, "given twice", "classes", ""},
    {"zoo:lenet?image=11", {0}, ULL_ERROR_INVALID, "from 12", "image", ""},
    {"zoo:mlp?hidden=99999999999999999999", {0}, ULL_ERROR_OVERFLOW, "63 bits", "hidden", ""},
    {"zoo:mlp?in=2147483648&hidden=2147483648",
     {0},
     ULL_ERROR_OVERFLOW,
     "fc1.weight",
     "hidden=2147483648",
     ""},
    {"zoo:mlp?in=20&image=28", {0}, ULL_ERROR_INVALID, "784 values", "in", ""},
    {"zoo:mlp?image=16384&channels=4096", {0}, ULL_ERROR_INVALID, "at most", "image", ""},
    {"zoo:gpt2?heads=7", {0}, ULL_ERROR_INVALID, "no multiple", "heads", ""},
    {"zoo:gpt2_tiny?seq=65", {0}, ULL_ERROR_INVALID, "positions=64", "seq", ""},
    {"zoo:gpt2_tiny?dropout=1", {0}, ULL_ERROR_INVALID, "a number from 0 to 0.999", "dropout", ""},
    {"zoo:gpt2_tiny?dropout=nan", {0}, ULL_ERROR_INVALID, "a number", "dropout", ""},
    {"zoo:gpt2_tiny", {.classes = 3}, ULL_ERROR_USAGE, "--classes", "--classes", ""},
    {"zoo:lenet", {.sequence = 3}, ULL_ERROR_USAGE, "--seq", "--seq", ""},
    {"zoo:gpt2_tiny", {.sequence = 65}, ULL_ERROR_INVALID, "positions=64", "seq", ""},
    {"zoo:gpt2_tiny",
     {.label_smoothing = 0.1},
     ULL_ERROR_USAGE,
     "--label-smoothing",
     "--label-smoothing",
     ""},
    {"zoo:gpt2_tiny",
     {.target_shares = true},
     ULL_ERROR_USAGE,
     "no classifier",
     "--augment",
     "mixup"},
};

static void test_bad_texts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
    const bad_text *bad = &bad_texts[i];
    ull__model *model = NULL;
    const ull_status status = ull__model_open(bad->text, &bad->options, &model);
    const ull_error *error = ull_error_last();
    const bool is_as_expected = status == bad->status && error->status == status &&
                                strstr(error->message, bad->message) != NULL &&
                                strstr(error->holder, bad->holder) != NULL &&
                                strstr(error->change, bad->change) != NULL;
    if (!is_as_expected) {
      fail_msg("'%s' gave %s: %s | %s | %s", bad->text, ull_status_name(status), error->message,
               error->holder, error->change);
    }
    assert_null(model);
  }
}

/* A very long text is refused, not copied somewhere small. */
static void test_long_texts(void **state) {
  (void)state;
  static const char *const starts[] = {"zoo:", "zoo:mlp?", "zoo:mlp?in=", "", "zoo:mlp?in=1&"};
  char text[5000];
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    ull__model *model = NULL;
    memset(text, 'a', sizeof text);
    memcpy(text, starts[i], strlen(starts[i]));
    text[sizeof text - 1] = '\0';
    assert_int_equal(ull__model_open(text, NULL, &model), ULL_ERROR_USAGE);
  }
}

static void test_memory_out_at_any_allocation(void **state) {
  (void)state;
  for (uint64_t n = 1;; n++) {
    ull__model *model = NULL;
    const uint64_t live = ull__alloc_count().live_bytes;
    ull__alloc_fail_at(n);
    const ull_status status = ull__model_open("zoo:small_resnet", NULL, &model);
    ull__alloc_fail_at(0);
    ull__model_destroy(model);
    assert_int_equal(ull__alloc_count().live_bytes, live);
    if (status == ULL_OK) break;
    assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    assert_true(n < 10000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_packed_gpt2),
      cmocka_unit_test(test_parameter_counts),
      cmocka_unit_test(test_torchvision_names),
      cmocka_unit_test(test_names_equal_stored_weights),
      cmocka_unit_test(test_inputs_and_outputs),
      cmocka_unit_test(test_stages_take_every_network),
      cmocka_unit_test(test_name_spells_every_key_and_opens_again),
      cmocka_unit_test(test_options_go_over_keys),
      cmocka_unit_test(test_bad_texts),
      cmocka_unit_test(test_long_texts),
      cmocka_unit_test(test_memory_out_at_any_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
