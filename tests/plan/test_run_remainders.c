/* Every program of a family, remainders and evaluation included, uses each tag's bytes as planned;
 * under poison, on cpu and sim, keeping everything and in the smallest budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/data_files.h"
#include "train/trainer.h"

enum { SAMPLES = 43, EVALUATED = 23, TOKENS = 16, VOCABULARY = 50 };

static const char *folder;

static void require(ull_status status) {
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
}

static void write_tokens(const char *name, int count) {
  int64_t *ids = malloc((size_t)count * TOKENS * sizeof *ids);
  char shape[32];
  byte_buffer array = {0}, archive = {0};
  for (int i = 0; i < count * TOKENS; i++) ids[i] = (i * 7919 + i / 3) % VOCABULARY;
  snprintf(shape, sizeof shape, "(%d, %d)", count, TOKENS);
  append_npy(&array, "<i8", false, shape, ids, (size_t)count * TOKENS * sizeof *ids);
  const npz_member member = {"input_ids.npy", array.bytes, array.count};
  append_zip(&archive, &member, 1, false);
  write_file(path_in(folder, name), archive.bytes, archive.count);
  free_buffer(&array);
  free_buffer(&archive);
  free(ids);
}

static void set_data(ull_config *config, bool is_text) {
  char data[600], validation[600];
  snprintf(data, sizeof data, is_text ? "npz:%s/train.npz" : "idx:%s", folder);
  snprintf(validation, sizeof validation, "npz:%s/val.npz", folder);
  require(ull_config_set(config, "data", data));
  if (is_text) require(ull_config_set(config, "val-data", validation));
}

static const char *augment = "none";

static ull_config *configure(const char *model, const char *micro, const char *device) {
  const char *settings[][2] = {{"model", model},       {"batch-size", "10"}, {"epochs", "1"},
                               {"micro-batch", micro}, {"device", device},   {"json", "true"},
                               {"lr", "0.01"},         {"effort", "100"},    {"augment", augment}};
  ull_config *config;
  require(ull_config_create(ULL_COMMAND_TRAIN, &config));
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    require(ull_config_set(config, settings[i][0], settings[i][1]));
  set_data(config, strstr(model, "gpt2") != NULL);
  return config;
}

static void check_program(const ull_trainer *t, uint32_t p, const char *model) {
  const ull__program *program = &t->job->plan->family->programs[p];
  ull__measurement m;
  ull__executor_measure(t->executor, p, &m);
  for (int tier = 0; tier < ULL__TIER_COUNT; tier++) {
    assert_int_equal(m.peak_bytes[tier], t->job->plan->planned_peak_bytes[tier]);
    for (int tag = 0; tag < ULL__TAG_COUNT; tag++) {
      if (m.tag_peaks[tag][tier] == program->tag_peaks[tag][tier]) continue;
      fail_msg("%s, program %s, %s on %s: %llu bytes planned, %llu used", model, program->name,
               ull__tag_name((ull__tag)tag), ull__tier_name((ull__tier)tier),
               (unsigned long long)program->tag_peaks[tag][tier],
               (unsigned long long)m.tag_peaks[tag][tier]);
    }
  }
}

/* Returns the smallest budget. */
static uint64_t check_run(const char *model, const char *micro, const char *device, uint64_t memory,
                          uint32_t programs) {
  ull_config *config = configure(model, micro, device);
  ull_trainer *t;
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)memory);
  if (memory > 0) require(ull_config_set(config, "memory", text));
  require(ull_trainer_create(config, &t));
  require(ull_trainer_start(t));
  require(ull_trainer_run(t, NULL));
  assert_int_equal(t->job->plan->family->program_count, programs);
  for (uint32_t p = 0; p < programs; p++) check_program(t, p, model);
  uint64_t smallest = t->job->plan->smallest_bytes[ULL__TIER_DEVICE];
  ull_trainer_destroy(t);
  ull_config_destroy(config);
  return smallest;
}

static void check_model(const char *model, const char *micro, uint32_t programs) {
  static const char *const devices[] = {"cpu", "sim:256MiB@8GB/s"};
  for (int d = 0; d < 2; d++) {
    uint64_t smallest = check_run(model, micro, devices[d], 0, programs);
    check_run(model, micro, devices[d], smallest, programs);
  }
}

/* 10 = 4 + 4 + 2, and 43 = 4 x 10 + 3: train, tail of 2, last of 3, update, eval. */
static void test_images(void **state) {
  (void)state;
  check_model("zoo:lenet", "4", 5);
  check_model("zoo:mlp?hidden=24", "4", 5);
  check_model("zoo:lenet", "5", 4);   /* 43 % 10 = 3: one remainder */
  check_model("zoo:lenet", "off", 3); /* train, last of 3, eval */
}

/* Targets of training are shares of classes, those of evaluation class numbers. */
static void test_mixed_images(void **state) {
  (void)state;
  augment = "flip,mixup,cutmix";
  check_model("zoo:lenet", "4", 5);
  check_model("zoo:lenet", "off", 3);
  augment = "none";
}

/* 23 = 5 x 4 + 3: evaluation has a remainder of its own. */
static void test_texts(void **state) {
  (void)state;
  check_model("zoo:gpt2_tiny?layers=1&heads=2&width=16&vocab=50&positions=16&seq=16", "4", 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_images),
                                     cmocka_unit_test(test_mixed_images),
                                     cmocka_unit_test(test_texts)};
  setenv("ULLAGE_POISON", "1", 1);
  folder = make_folder();
  write_idx_pair(folder, "train", SAMPLES, 28, 28, 10, false);
  write_idx_pair(folder, "t10k", EVALUATED, 28, 28, 10, false);
  write_tokens("train.npz", SAMPLES);
  write_tokens("val.npz", EVALUATED);
  int failures = cmocka_run_group_tests(tests, NULL, NULL);
  remove_tree(folder);
  return failures;
}
