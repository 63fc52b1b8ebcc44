/* What trains on mixed samples, as a program that embeds the library sees it: shares of classes
 * that are whole classes give the losses of class numbers, other shares their mean; and a run with
 * mixup is one step for each of the loader's batches. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/data_files.h"
#include "support/small_training.h"
#include "ullage/data.h"

#define MIXING "flip,mixup:1,cutmix:1"

static float shares[SAMPLES][CLASSES];
static int64_t others[SAMPLES];
static const char *data;

/* `own` of each sample's target, the rest of the other class. */
static void share_out(float own) {
  memset(shares, 0, sizeof shares);
  for (int s = 0; s < SAMPLES; s++) {
    shares[s][targets[s]] += own;
    shares[s][others[s]] += 1 - own;
  }
}

static session begin_with(const char *augment, const char *smoothing) {
  return begin((const setting[]){{"data", data},
                                 {"no-shuffle", "false"},
                                 {"augment", augment},
                                 {"label-smoothing", smoothing},
                                 {NULL, NULL}});
}

static ull_step_metrics step(session *s, const ull_array *target, const void *pixels) {
  const ull_array arrays[] = {*target,
                              {"image", ULL_FLOAT32, pixels, BATCH * PIXELS * sizeof(float)}};
  ull_step_metrics metrics;
  require(ull_trainer_step(s->trainer, arrays, 2, &metrics));
  return metrics;
}

static void train_classes(const int64_t *classes, const char *smoothing, double *losses) {
  session s = begin_with("none", smoothing);
  for (int i = 0; i < STEPS; i++) {
    const ull_array target = {"target", ULL_INT64, classes + i * BATCH, BATCH * sizeof *classes};
    losses[i] = step(&s, &target, images[i * BATCH]).loss;
  }
  end(&s);
}

static void train_shares(const char *smoothing, double *losses) {
  session s = begin_with(MIXING, smoothing);
  for (int i = 0; i < STEPS; i++) {
    const ull_array target = {"target", ULL_FLOAT32, shares[i * BATCH], BATCH * sizeof *shares};
    const ull_step_metrics metrics = step(&s, &target, images[i * BATCH]);
    losses[i] = metrics.loss;
    assert_true(metrics.accuracy < 0);
  }
  end(&s);
}

static void expect_near(double found, double expected) {
  if (fabs(found - expected) > 1e-6 * fabs(expected)) fail_msg("%.9g, not %.9g", found, expected);
}

static void test_whole_classes(void **state) {
  (void)state;
  static const char *const smoothings[] = {"0", "0.1"};
  double by_share[STEPS], by_class[2][STEPS];
  share_out(1);
  for (int k = 0; k < 2; k++) {
    train_classes(targets, smoothings[k], by_class[k]);
    train_shares(smoothings[k], by_share);
    for (int i = 0; i < STEPS; i++) expect_near(by_share[i], by_class[k][i]);
  }
  assert_true(fabs(by_class[0][0] - by_class[1][0]) > 1e-4);
}

static void test_parts_of_classes(void **state) {
  (void)state;
  double own[STEPS], other[STEPS], mixed[STEPS];
  train_classes(targets, "0.1", own);
  train_classes(others, "0.1", other);
  share_out(0.7f);
  train_shares("0.1", mixed);
  assert_true(fabs(own[0] - other[0]) > 1e-3);
  expect_near(mixed[0], 0.7 * own[0] + 0.3 * other[0]);
}

static void test_class_numbers_are_refused(void **state) {
  (void)state;
  session s = begin_with(MIXING, "0");
  const ull_array arrays[] = {{"image", ULL_FLOAT32, images, BATCH * sizeof *images},
                              {"target", ULL_INT64, targets, BATCH * sizeof *targets}};
  ull_step_metrics metrics;
  assert_int_equal(ull_trainer_step(s.trainer, arrays, 2, &metrics), ULL_ERROR_MISMATCH);
  assert_non_null(strstr(ull_error_last()->message, "float32"));
  end(&s);
}

/* ---- a run ---- */

static double run_losses[STEPS];

static void keep_loss(void *context, const ull_step_metrics *metrics) {
  (void)context;
  run_losses[metrics->step - 1] = metrics->loss;
}

static ull_loader *open_loader(const ull_source *source, ull_binding bindings[2]) {
  ull_loader_options options = ull_loader_options_default(source);
  ull_loader *loader;
  bindings[0] = ull_binding_default(source, 0);
  bindings[1] = ull_binding_default(source, 1);
  assert_string_equal(bindings[0].name, "image");
  bindings[1].dtype = ULL_FLOAT32;
  bindings[1].rank = 1;
  bindings[1].shape[0] = CLASSES;
  require(ull_normalize_parse("auto", source, 0, &bindings[0].normalize));
  require(ull_augment_parse(MIXING, &options.augment));
  options.bindings = bindings;
  options.binding_count = 2;
  options.batch_size = BATCH;
  options.seed = 3;
  options.shuffle = true;
  require(ull_loader_create(&options, &loader));
  return loader;
}

static void test_run_takes_the_loaders_batches(void **state) {
  (void)state;
  const ull_train_events events = {.step = keep_loss};
  const ull_source_options source_options = ull_source_options_default();
  const ull_batch *batch;
  ull_source *source;
  ull_binding bindings[2];
  int blended = 0;
  session run = begin_with(MIXING, "0.1"), steps = begin_with(MIXING, "0.1");
  require(ull_trainer_run(run.trainer, &events));
  require(ull_source_open(data, &source_options, &source));
  ull_loader *loader = open_loader(source, bindings);
  for (int i = 0; i < STEPS; i++) {
    require(ull_loader_next(loader, &batch));
    const ull_array target = {"target", ULL_FLOAT32, batch->arrays[1].data, BATCH * sizeof *shares};
    assert_true(step(&steps, &target, batch->arrays[0].data).loss == run_losses[i]);
    blended += batch->mix_lambda < 1;
    ull_loader_release(loader, batch);
  }
  assert_true(blended >= 3);
  assert_string_equal(ull_trainer_weights_hash(run.trainer),
                      ull_trainer_weights_hash(steps.trainer));
  ull_loader_destroy(loader);
  ull_source_close(source);
  end(&run);
  end(&steps);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole_classes),
      cmocka_unit_test(test_parts_of_classes),
      cmocka_unit_test(test_class_numbers_are_refused),
      cmocka_unit_test(test_run_takes_the_loaders_batches),
  };
  const char *folder = make_folder();
  make_samples();
  for (int s = 0; s < SAMPLES; s++) others[s] = (targets[s] + 1 + s % 3) % CLASSES;
  data = write_samples(folder);
  int failures = cmocka_run_group_tests(tests, NULL, NULL);
  remove_tree(folder);
  return failures;
}
