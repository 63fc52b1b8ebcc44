/* Long rows of bad samples: each is decoded for its own place and once more at most to stand in for
 * others, whatever the length of the row; what stands in is the next good one of the epoch's order
 * all the same. A third of the samples are bad for some crops and good for others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "data/order.h"
#include "support/jpeg_files.h"
#include "ullage/data_callback.h"

enum { SAMPLES = 1500, BATCH = 24, EPOCHS = 3, SIDE = 8, SEARCHED = 1000 };

typedef enum file_kind { GOOD, SPOILED, WORDS } file_kind;

typedef struct row_files {
  uint8_t *jpeg, *spoiled; /* near its end */
  size_t bytes;
  file_kind (*kind)(uint64_t sample);
  atomic_ullong opened;
} row_files;

static row_files files;

static file_kind row_of_400(uint64_t sample) {
  return sample >= 100 && sample < 500 ? WORDS : GOOD;
}

static file_kind mixed_row(uint64_t sample) {
  return sample >= 100 && sample < 500 ? (sample % 3 == 0 ? WORDS : SPOILED) : GOOD;
}

static file_kind one_in_100_is_good(uint64_t sample) {
  return sample % 100 == 7 ? GOOD : WORDS;
}

static file_kind none_is_good(uint64_t sample) {
  (void)sample;
  return WORDS;
}

static ull_status open_file(void *context, uint64_t sample, size_t array, const void **bytes,
                            uint64_t *count, void **hold) {
  row_files *own = context;
  (void)array;
  (void)hold;
  file_kind kind = own->kind(sample);
  atomic_fetch_add(&own->opened, 1);
  *bytes = kind == WORDS ? (const void *)"words" : kind == SPOILED ? own->spoiled : own->jpeg;
  *count = kind == WORDS ? 5 : own->bytes;
  return ULL_OK;
}

static ull_source *open_files(file_kind (*kind)(uint64_t sample)) {
  static const ull_callback_array arrays[] = {{.name = "image", .content = ULL_CONTENT_IMAGE}};
  ull_callbacks callbacks = {
      .samples = SAMPLES, .arrays = arrays, .array_count = 1, .open = open_file, .context = &files};
  ull_source_options options = ull_source_options_default();
  ull_source *source = NULL;
  files.kind = kind;
  assert_int_equal(ull_source_register("rows", &callbacks), ULL_OK);
  assert_int_equal(ull_source_open("callback:rows", &options, &source), ULL_OK);
  assert_int_equal(ull_source_unregister("rows"), ULL_OK);
  return source;
}

static int set_up(void **state) {
  (void)state;
  jpeg_form form = {.width = 48, .height = 96, .colours = JPEG_YCC, .h = 1, .v = 1};
  files.jpeg = make_jpeg(&form, &files.bytes);
  files.spoiled = malloc(files.bytes);
  assert_non_null(files.spoiled);
  memcpy(files.spoiled, files.jpeg, files.bytes);
  memcpy(files.spoiled + files.bytes * 3 / 5, "\xff\xd9", 2); /* an end where none should be */
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  free(files.jpeg);
  free(files.spoiled);
  return 0;
}

/* Bindings must stay for the call alone. */
static ull_loader_options make_options(const ull_source *source, ull_binding *binding) {
  ull_loader_options options = ull_loader_options_default(source);
  *binding = ull_binding_default(source, 0);
  binding->shape[1] = binding->shape[2] = SIDE;
  options.bindings = binding;
  options.binding_count = 1;
  options.batch_size = BATCH;
  options.epochs = EPOCHS;
  options.on_bad = ULL_ON_BAD_REPLACE;
  options.max_bad = UINT64_MAX - 1;
  assert_int_equal(ull_augment_parse("rrc", &options.augment), ULL_OK);
  return options;
}

/* What came of every place of a stream, by epoch and position. */
typedef struct streamed {
  uint32_t sample[EPOCHS][SAMPLES];
  bool bad[EPOCHS][SAMPLES];
} streamed;

/* Batches [first, first + count) of a new loader; its parts of the epochs. */
static void stream(const ull_loader_options *options, uint64_t first, uint64_t count,
                   streamed *to) {
  ull_loader *loader;
  const ull_batch *batch;
  assert_int_equal(ull_loader_create(options, &loader), ULL_OK);
  uint64_t an_epoch = ull_loader_batches_per_epoch(loader);
  ull_loader_position position = {.epoch = first / an_epoch, .batch = first % an_epoch};
  assert_int_equal(ull_loader_set_position(loader, position), ULL_OK);
  for (uint64_t b = 0; b < count; b++) {
    assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
    if (batch == NULL) break;
    uint64_t world = options->world_size > 0 ? options->world_size : 1,
             start = batch->batch * BATCH;
    uint64_t total = SAMPLES - start < BATCH ? SAMPLES - start : BATCH;
    bool whole = total == BATCH;
    start += whole ? options->rank * options->batch_size : total * options->rank / world;
    for (uint64_t i = 0; i < batch->samples; i++) {
      to->sample[batch->epoch][start + i] = (uint32_t)batch->sample_index[i];
      to->bad[batch->epoch][start + i] = ull_verdict_is_bad((ull_verdict)batch->verdict[i]);
    }
    ull_loader_release(loader, batch);
  }
  ull_loader_destroy(loader);
}

/* Every place holds its own sample, or the next that is good for its own place. */
static void check_places(const ull_loader_options *options, const streamed *got) {
  ull__order order;
  assert_int_equal(ull__order_create(options, &order), ULL_OK);
  for (uint64_t e = 0; e < EPOCHS; e++) {
    ull__epoch_order epoch = ull__order_epoch(&order, e);
    for (uint64_t p = 0; p < SAMPLES; p++) {
      uint64_t at = p;
      while (got->bad[e][at]) at = (at + 1) % SAMPLES;
      assert_int_equal(got->sample[e][p], ull__order_sample(&order, &epoch, at));
    }
  }
}

static void count_bad(const streamed *got, uint64_t bad[EPOCHS]) {
  for (int e = 0; e < EPOCHS; e++) {
    bad[e] = 0;
    for (int p = 0; p < SAMPLES; p++) bad[e] += got->bad[e][p];
  }
}

/* Of one thread: every sample for its own place; every bad one as a stand-in at most once an epoch;
 * every replaced place the good one that it got. */
static void check_decodes(file_kind (*kind)(uint64_t sample), bool shuffle) {
  static streamed got, other;
  ull_source *source = open_files(kind);
  ull_binding binding;
  ull_loader_options options = make_options(source, &binding);
  options.shuffle = shuffle;
  options.workers = 0;
  files.opened = 0;
  stream(&options, 0, UINT64_MAX, &got);
  check_places(&options, &got);
  uint64_t bad[EPOCHS], most = EPOCHS * SAMPLES, opened = files.opened;
  count_bad(&got, bad);
  for (int e = 0; e < EPOCHS; e++) most += 2 * bad[e];
  assert_true(bad[0] >= 100);
  assert_in_range(opened, EPOCHS * SAMPLES + bad[0] + bad[1] + bad[2], most);

  options.workers = 3;
  options.prefetch = 5;
  files.opened = 0;
  stream(&options, 0, UINT64_MAX, &other);
  assert_memory_equal(&got, &other, sizeof got);
  assert_true(files.opened <= most * 5); /* threads and those that stand by, side by side */
  ull_source_close(source);
}

static void rows_are_decoded_once(void **state) {
  (void)state;
  check_decodes(row_of_400, false);
  check_decodes(row_of_400, true);
}

static void verdicts_of_crops_are_of_their_epoch(void **state) {
  (void)state;
  static streamed got;
  check_decodes(mixed_row, false);
  check_decodes(mixed_row, true);
  ull_source *source = open_files(mixed_row);
  ull_binding binding;
  ull_loader_options options = make_options(source, &binding);
  options.shuffle = false;
  stream(&options, 0, UINT64_MAX, &got);
  uint64_t changed = 0;
  for (int p = 0; p < SAMPLES; p++) changed += got.bad[0][p] != got.bad[1][p];
  assert_true(changed > 50); /* or the test shows nothing */
  ull_source_close(source);
}

static void nearly_all_are_bad(void **state) {
  (void)state;
  check_decodes(one_in_100_is_good, false);
  check_decodes(one_in_100_is_good, true);
}

/* Whoever goes on inside a row, or takes a part of it, knows nothing of it and finds the same. */
static void resumes_and_ranks_find_the_same(void **state) {
  (void)state;
  static streamed whole, parts;
  ull_source *source = open_files(mixed_row);
  ull_binding binding;
  ull_loader_options options = make_options(source, &binding);
  options.shuffle = false;
  stream(&options, 0, UINT64_MAX, &whole);
  for (uint64_t at = 0, step = 1; at < EPOCHS * SAMPLES / BATCH + EPOCHS;
       at += step, step = at % 9 + 1)
    stream(&options, at, step, &parts);
  assert_memory_equal(&parts, &whole, sizeof whole);
  for (uint64_t world = 2; world <= 4; world++) {
    memset(&parts, 0, sizeof parts);
    options.world_size = world;
    options.batch_size = BATCH / world;
    for (options.rank = 0; options.rank < world; options.rank++)
      stream(&options, 0, UINT64_MAX, &parts);
    assert_memory_equal(&parts, &whole, sizeof whole);
  }
  ull_source_close(source);
}

/* A bounded search, then an error with a name. */
static void nothing_but_bad_ones_ends_soon(void **state) {
  (void)state;
  ull_source *source = open_files(none_is_good);
  ull_binding binding;
  const ull_batch *batch;
  ull_loader *loader;
  ull_loader_options options = make_options(source, &binding);
  for (int workers = 0; workers < 4; workers++) {
    for (int share = 0; share < 2; share++) {
      options.workers = workers;
      options.prefetch = 2;
      options.max_bad = share ? ULL_MAX_BAD_SHARE : UINT64_MAX - 1;
      files.opened = 0;
      assert_int_equal(ull_loader_create(&options, &loader), ULL_OK);
      assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_DATA);
      assert_int_equal(ull_status_exit_code(ULL_ERROR_DATA), 6);
      assert_non_null(strstr(ull_error_last()->message, "not_an_image"));
      assert_non_null(strstr(ull_error_last()->change, "too many follow each other"));
      assert_non_null(strstr(ull_error_last()->change, "whatever --max-bad allows"));
      ull_loader_destroy(loader);
      uint64_t threads = workers > 0 ? (uint64_t)workers + 2 : 1;
      assert_true(files.opened <=
                  threads * (SEARCHED + 1) + (uint64_t)options.prefetch * BATCH * 3);
    }
  }
  ull_source_close(source);
}

/* The memory of it is part of the bound, and not there where nothing is replaced. */
static void the_bound_has_it(void **state) {
  (void)state;
  ull_source *source = open_files(row_of_400);
  ull_binding binding;
  ull_loader_bound with, without;
  ull_loader_options options = make_options(source, &binding);
  assert_int_equal(ull_loader_bound_bytes(&options, &with), ULL_OK);
  options.on_bad = ULL_ON_BAD_FAIL;
  assert_int_equal(ull_loader_bound_bytes(&options, &without), ULL_OK);
  assert_in_range(with.control_bytes - without.control_bytes, SAMPLES * 8 - 63, SAMPLES * 8 + 63);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_decoded_once),
      cmocka_unit_test(verdicts_of_crops_are_of_their_epoch),
      cmocka_unit_test(nearly_all_are_bad),
      cmocka_unit_test(resumes_and_ranks_find_the_same),
      cmocka_unit_test(nothing_but_bad_ones_ends_soon),
      cmocka_unit_test(the_bound_has_it),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
