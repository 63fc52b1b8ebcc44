/* Batches that keep their size although bad samples are left out: the good samples of the epoch's
 * order, cut into batches; the same for threads and slots, and from every state on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "data/order.h"
#include "ullage/data_callback.h"

enum {
  SAMPLES = 211,
  BATCH = 10,
  EPOCHS = 3,
  BATCHES_MOST = (SAMPLES / BATCH + 1) * EPOCHS,
  SIDE = 4
};

typedef bool is_bad_function(uint64_t sample);

static bool none(uint64_t sample) {
  (void)sample;
  return false;
}

static bool every_seventh(uint64_t sample) {
  return sample % 7 == 3;
}

static bool long_row(uint64_t sample) {
  return sample >= 35 && sample < 135;
}

static bool first_and_last(uint64_t sample) {
  return sample < 25 || sample > SAMPLES - 15;
}

static bool nearly_all(uint64_t sample) {
  return sample % 50 != 1;
}

static bool all(uint64_t sample) {
  (void)sample;
  return true;
}

static is_bad_function *is_bad;

static ull_status read_one(void *context, uint64_t sample, size_t array, void *bytes) {
  (void)context;
  if (is_bad(sample)) return ULL_ERROR_DATA;
  if (array == 1) {
    int64_t label = (int64_t)(sample % 5);
    memcpy(bytes, &label, sizeof label);
    return ULL_OK;
  }
  float pixels[3 * SIDE * SIDE];
  for (int i = 0; i < 3 * SIDE * SIDE; i++) pixels[i] = (float)sample + (float)i / 64;
  memcpy(bytes, pixels, sizeof pixels);
  return ULL_OK;
}

static ull_source *open_source(is_bad_function *bad) {
  static const ull_callback_array arrays[] = {
      {.name = "image", .dtype = ULL_FLOAT32, .rank = 3, .shape = {3, SIDE, SIDE}},
      {.name = "label", .dtype = ULL_INT64}};
  ull_callbacks callbacks = {
      .samples = SAMPLES, .arrays = arrays, .array_count = 2, .read = read_one};
  ull_source_options options = ull_source_options_default();
  ull_source *source = NULL;
  is_bad = bad;
  assert_int_equal(ull_source_register("refill", &callbacks), ULL_OK);
  assert_int_equal(ull_source_open("callback:refill", &options, &source), ULL_OK);
  assert_int_equal(ull_source_unregister("refill"), ULL_OK);
  return source;
}

static ull_loader_options make_options(const ull_source *source, ull_binding bindings[2]) {
  ull_loader_options options = ull_loader_options_default(source);
  bindings[0] = ull_binding_default(source, 0);
  bindings[1] = ull_binding_default(source, 1);
  options.bindings = bindings;
  options.binding_count = 2;
  options.batch_size = BATCH;
  options.epochs = EPOCHS;
  options.on_bad = ULL_ON_BAD_SKIP;
  options.max_bad = UINT64_MAX - 1;
  options.refill = true;
  return options;
}

/* Shares of classes, and samples mixed by pairs: what a batch holds then depends on its number. */
static void mix(ull_loader_options *options, ull_binding bindings[2]) {
  bindings[1].dtype = ULL_FLOAT32;
  bindings[1].rank = 1;
  bindings[1].shape[0] = 5;
  assert_int_equal(ull_augment_parse("mixup:0.8", &options->augment), ULL_OK);
}

typedef struct told_batch {
  uint64_t samples, epoch, batch, step, skipped;
  double lambda;
  uint64_t index[BATCH];
  float image[BATCH][3 * SIDE * SIDE];
  uint8_t label[BATCH * 5 * sizeof(float)];
} told_batch;

static void tell(const ull_batch *batch, told_batch *to) {
  memset(to, 0, sizeof *to);
  to->samples = batch->samples;
  to->epoch = batch->epoch;
  to->batch = batch->batch;
  to->step = batch->step;
  to->skipped = batch->skipped;
  to->lambda = batch->mix_lambda;
  assert_in_range(batch->samples, 1, BATCH);
  assert_int_equal(batch->arrays[0].shape[0], batch->samples);
  assert_int_equal(batch->arrays[0].bytes, batch->samples * sizeof to->image[0]);
  memcpy(to->index, batch->sample_index, batch->samples * sizeof to->index[0]);
  memcpy(to->image, batch->arrays[0].data, batch->arrays[0].bytes);
  memcpy(to->label, batch->arrays[1].data, batch->arrays[1].bytes);
}

/* All batches, and the state before each; returns their number. */
static size_t stream(const ull_loader_options *options, const ull_loader_state *from, size_t most,
                     told_batch *told, ull_loader_state *states) {
  ull_loader *loader;
  const ull_batch *batch;
  size_t count = 0;
  assert_int_equal(ull_loader_create(options, &loader), ULL_OK);
  if (from != NULL) assert_int_equal(ull_loader_set_state(loader, from), ULL_OK);
  while (count < most) {
    if (states != NULL) states[count] = ull_loader_get_state(loader);
    assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
    if (batch == NULL) break;
    tell(batch, &told[count++]);
    ull_loader_release(loader, batch);
  }
  ull_loader_destroy(loader);
  return count;
}

static void check_order(const ull_loader_options *options, const told_batch *told, size_t count) {
  ull__order order;
  assert_int_equal(ull__order_create(options, &order), ULL_OK);
  size_t b = 0;
  for (uint64_t e = 0; e < EPOCHS; e++) {
    ull__epoch_order epoch = ull__order_epoch(&order, e);
    uint64_t in_batch = 0;
    for (uint64_t p = 0; p < SAMPLES; p++) {
      uint64_t sample = ull__order_sample(&order, &epoch, p);
      if (is_bad(sample)) continue;
      assert_true(b < count);
      assert_int_equal(told[b].epoch, e);
      assert_int_equal(told[b].index[in_batch], sample);
      assert_true(told[b].image[in_batch][5] == (float)sample + 5.0f / 64);
      if (++in_batch < BATCH) continue;
      assert_int_equal(told[b].samples, BATCH);
      b++;
      in_batch = 0;
    }
    if (in_batch > 0) assert_int_equal(told[b++].samples, in_batch);
  }
  assert_int_equal(b, count);
  for (size_t i = 1; i < count; i++) assert_true(told[i].step > told[i - 1].step);
}

static is_bad_function *const patterns[] = {none, every_seventh, long_row, first_and_last,
                                            nearly_all};

static void good_samples_in_batches(void **state) {
  (void)state;
  static told_batch told[BATCHES_MOST], other[BATCHES_MOST];
  for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
    ull_source *source = open_source(patterns[k]);
    ull_binding bindings[2];
    ull_loader_options options = make_options(source, bindings);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
      options.shuffle = shuffle != 0;
      options.workers = 0;
      options.prefetch = 2;
      size_t count = stream(&options, NULL, BATCHES_MOST, told, NULL);
      check_order(&options, told, count);
      for (int workers = 1; workers < 5; workers += 1) {
        options.workers = workers;
        options.prefetch = 1 + workers;
        assert_int_equal(stream(&options, NULL, BATCHES_MOST, other, NULL), count);
        assert_memory_equal(told, other, count * sizeof *told);
      }
    }
    ull_source_close(source);
  }
}

/* From every batch on, mixed by its number. */
static void every_state_goes_on(void **state) {
  (void)state;
  static told_batch told[BATCHES_MOST], rest[BATCHES_MOST];
  static ull_loader_state states[BATCHES_MOST + 1], later[BATCHES_MOST + 1];
  for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
    ull_source *source = open_source(patterns[k]);
    ull_binding bindings[2];
    ull_loader_options options = make_options(source, bindings);
    mix(&options, bindings);
    size_t count = stream(&options, NULL, BATCHES_MOST + 1, told, states);
    assert_true(told[0].lambda > 0 && told[0].lambda < 1);
    for (size_t from = 0; from < count; from++) {
      options.workers = (int)(from % 3);
      options.prefetch = 2 + (int)(from % 4);
      size_t got = stream(&options, &states[from], BATCHES_MOST + 1, rest, later);
      assert_int_equal(got, count - from);
      assert_memory_equal(rest, told + from, got * sizeof *rest);
      assert_memory_equal(later, states + from, (got + 1) * sizeof *later);
    }
    ull_source_close(source);
  }
}

/* Numbers, pixels and mixes of a stream in which nothing happens are those of the other rules. */
static void nothing_bad_changes_nothing(void **state) {
  (void)state;
  static told_batch told[BATCHES_MOST], other[BATCHES_MOST];
  ull_source *source = open_source(none);
  ull_binding bindings[2];
  ull_loader_options options = make_options(source, bindings);
  mix(&options, bindings);
  size_t count = stream(&options, NULL, BATCHES_MOST, told, NULL);
  options.refill = false;
  options.on_bad = ULL_ON_BAD_REPLACE;
  assert_int_equal(stream(&options, NULL, BATCHES_MOST, other, NULL), count);
  assert_int_equal(count, BATCHES_MOST);
  assert_memory_equal(told, other, sizeof told);
  ull_source_close(source);
}

/* Batches until the run ends because of bad samples. */
static size_t batches_before_failure(const ull_loader_options *options, const char *words) {
  ull_loader *loader;
  const ull_batch *batch;
  ull_status status;
  size_t count = 0;
  assert_int_equal(ull_loader_create(options, &loader), ULL_OK);
  for (; (status = ull_loader_next(loader, &batch)) == ULL_OK && batch != NULL; count++)
    ull_loader_release(loader, batch);
  assert_int_equal(status, ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, words));
  ull_loader_state before = ull_loader_get_state(loader);
  assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_DATA); /* it stays there */
  ull_loader_state after = ull_loader_get_state(loader);
  assert_memory_equal(&before, &after, sizeof before);
  ull_loader_destroy(loader);
  return count;
}

static void too_many_bad_ones_end_it(void **state) {
  (void)state;
  ull_binding bindings[2];
  ull_source *source = open_source(every_seventh);
  ull_loader_options options = make_options(source, bindings);
  options.max_bad = 11; /* the twelfth is sample 80, which the seventh batch meets */
  options.shuffle = false;
  for (int workers = 0; workers < 4; workers++) {
    options.workers = workers;
    options.prefetch = 2 + 2 * workers;
    assert_int_equal(batches_before_failure(&options, "11 are allowed"), 6);
  }
  ull_source_close(source);

  source = open_source(all);
  options = make_options(source, bindings);
  options.epochs = 0;
  assert_int_equal(batches_before_failure(&options, "not one batch"), 0);
  options.drop_last = true;
  assert_int_equal(batches_before_failure(&options, "not one batch"), 0);
  ull_source_close(source);

  source = open_source(nearly_all); /* five good ones are no batch */
  options = make_options(source, bindings);
  options.epochs = 0;
  options.drop_last = true;
  assert_int_equal(batches_before_failure(&options, "not one batch"), 0);
  ull_source_close(source);
}

/* Loans leave no slot to fill a batch from: an error, not a wait that never ends. */
static void loans_are_counted(void **state) {
  (void)state;
  ull_binding bindings[2];
  ull_loader *loader;
  const ull_batch *first, *second, *third;
  ull_source *source = open_source(every_seventh);
  ull_loader_options options = make_options(source, bindings);
  options.prefetch = 2;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_OK);
  assert_int_equal(ull_loader_next(loader, &first), ULL_OK);
  assert_int_equal(ull_loader_next(loader, &second), ULL_ERROR_INVALID);
  ull_loader_release(loader, first);
  assert_int_equal(ull_loader_next(loader, &third), ULL_OK);
  assert_int_equal(third->samples, BATCH);
  ull_loader_destroy(loader);
  ull_source_close(source);
}

static void what_cannot_be_is_refused(void **state) {
  (void)state;
  ull_binding bindings[2];
  ull_loader *loader;
  ull_source *source = open_source(every_seventh);
  ull_loader_options options = make_options(source, bindings);
  options.world_size = 2;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(ull_error_last()->message, "2 ranks"));
  assert_non_null(strstr(ull_error_last()->change, "--on-bad replace"));
  options = make_options(source, bindings);
  options.prefetch = 1;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_USAGE);
  options = make_options(source, bindings);
  options.on_bad = ULL_ON_BAD_REPLACE;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_INVALID);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_samples_in_batches),     cmocka_unit_test(every_state_goes_on),
      cmocka_unit_test(nothing_bad_changes_nothing), cmocka_unit_test(too_many_bad_ones_end_it),
      cmocka_unit_test(loans_are_counted),           cmocka_unit_test(what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
