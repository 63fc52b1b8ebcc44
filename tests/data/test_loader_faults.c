/* What goes wrong while a loader runs: threads that die in any stage, samples that take long, files
 * that come and go. Nothing hangs, and the stream stays the same. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/data_trees.h"
#include "support/jpeg_files.h"
#include "support/picture_folders.h"
#include "ullage/data_callback.h"

enum { PICTURES = 40, SIDE = 24, BATCH = 8 };

static ull_source *source;

static int set_up(void **state) {
  make_root(state);
  put_pictures(root, PICTURES);
  source = open_or_fail(root, ULL_SPLIT_TRAIN);
  return 0;
}

static int tear_down(void **state) {
  ull_source_close(source);
  return remove_root(state);
}

/* Batches up to the failure, which must come within a second and come again. */
static int batches_before_death(const ull_loader_options *options) {
  ull_loader *loader = create_loader(options);
  const ull_batch *batch;
  uint64_t began = ull__clock_now_ns();
  ull_status status;
  int batches = 0;
  while ((status = ull_loader_next(loader, &batch)) == ULL_OK && batch != NULL) {
    ull_loader_release(loader, batch);
    batches++;
  }
  assert_int_equal(status, ULL_ERROR_INTERNAL);
  assert_non_null(strstr(ull_error_last()->message, "a loader thread died"));
  assert_true(ull__clock_now_ns() - began < 1000000000u);
  assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_INTERNAL);
  ull_loader_destroy(loader);
  return batches;
}

static void death_in_any_stage_is_an_error(void **state) {
  (void)state;
  static const char *const stages[] = {"loader", "read", "decode", "transform", "finish"};
  static const int workers[] = {0, 1, 2, 4};
  for (size_t s = 0; s < 5; s++)
    for (int w = 0; w < 4; w++)
      for (int n = 1; n < PICTURES; n += 13) {
        char fault[32];
        snprintf(fault, sizeof fault, "%s:%d", stages[s], n);
        ull_loader_options options = picture_options(source, SIDE);
        options.workers = workers[w];
        options.standby = n % 2 ? ULL_STANDBY_NONE : 0;
        setenv("ULLAGE_FAULT", fault, 1);
        int batches = batches_before_death(&options);
        unsetenv("ULLAGE_FAULT");
        assert_int_equal(batches, (n - 1) / BATCH);
      }
}

/* ---- samples that take long ---- */

typedef struct slow_source {
  uint8_t *jpeg;
  size_t bytes;
  int every;
  long sleep_ns;
} slow_source;

static ull_status open_slowly(void *context, uint64_t sample, size_t array, const void **bytes,
                              uint64_t *count, void **hold) {
  slow_source *slow = context;
  (void)array;
  (void)hold;
  if (slow->every > 0 && sample % (uint64_t)slow->every == 0) {
    struct timespec pause = {.tv_nsec = slow->sleep_ns};
    nanosleep(&pause, NULL);
  }
  *bytes = slow->jpeg;
  *count = slow->bytes;
  return ULL_OK;
}

static ull_source *register_slow(slow_source *slow, uint64_t samples) {
  static const ull_callback_array arrays[] = {{.name = "image", .content = ULL_CONTENT_IMAGE}};
  ull_callbacks callbacks = {
      .samples = samples, .arrays = arrays, .array_count = 1, .open = open_slowly, .context = slow};
  jpeg_form form = {.width = 96, .height = 96, .colours = JPEG_YCC, .h = 2, .v = 2};
  slow->jpeg = make_jpeg(&form, &slow->bytes);
  assert_int_equal(ull_source_register("slow", &callbacks), ULL_OK);
  return open_or_fail("callback:slow", ULL_SPLIT_TRAIN);
}

/* Whoever is held up is stood in for, in the same order. */
static void the_late_are_stood_in_for(void **state) {
  (void)state;
  enum { SAMPLES = 600 };
  uint32_t wanted[SAMPLES], got[SAMPLES];
  slow_source slow = {0};
  ull_source *callback = register_slow(&slow, SAMPLES);
  ull_loader_options options = picture_options(callback, SIDE);
  options.binding_count = 1;
  options.prefetch = 16;
  assert_int_equal(hash_stream(&options, wanted), SAMPLES);
  slow.every = 100;
  slow.sleep_ns = 30000000;
  ull_loader *loader = create_loader(&options);
  assert_int_equal(hash_samples(loader, got, STREAM_MOST), SAMPLES);
  assert_memory_equal(got, wanted, sizeof wanted);
  assert_true(ull_loader_count(loader).stood_in > 0);
  ull_loader_destroy(loader);
  options.standby = ULL_STANDBY_NONE;
  loader = create_loader(&options);
  assert_int_equal(hash_samples(loader, got, STREAM_MOST), SAMPLES);
  assert_memory_equal(got, wanted, sizeof wanted);
  assert_int_equal(ull_loader_count(loader).stood_in, 0);
  ull_loader_destroy(loader);
  ull_source_close(callback);
  ull_source_unregister("slow");
  free(slow.jpeg);
}

/* Destroyed while threads sleep in a sample: it takes as long as the sample does. */
static void destroyed_while_held_up(void **state) {
  (void)state;
  slow_source slow = {.every = 1, .sleep_ns = 20000000};
  ull_source *callback = register_slow(&slow, 64);
  for (int i = 0; i < 10; i++) {
    ull_loader_options options = picture_options(callback, SIDE);
    options.binding_count = 1;
    options.workers = 1 + i % 4;
    ull_loader_destroy(create_loader(&options));
  }
  ull_source_close(callback);
  ull_source_unregister("slow");
  free(slow.jpeg);
}

/* A pace that needs few workers changes nothing but who works. */
static void pace_never_changes_the_stream(void **state) {
  (void)state;
  uint32_t wanted[PICTURES], got[PICTURES];
  ull_loader_options options = picture_options(source, SIDE);
  assert_int_equal(hash_stream(&options, wanted), PICTURES);
  options.adaptive = true;
  options.workers = 4;
  options.prefetch = 2;
  ull_loader *loader = create_loader(&options);
  for (int count = 0; count < PICTURES; count += BATCH) {
    struct timespec pause = {.tv_nsec = count % 16 ? 0 : 5000000};
    assert_int_equal(hash_samples(loader, got + count, BATCH), BATCH);
    nanosleep(&pause, NULL);
  }
  assert_memory_equal(got, wanted, sizeof wanted);
  ull_loader_destroy(loader);
}

/* ---- files ---- */

static void few_descriptors_are_enough(void **state) {
  (void)state;
  struct rlimit before, few;
  uint32_t hashes[PICTURES];
  getrlimit(RLIMIT_NOFILE, &before);
  few = before;
  few.rlim_cur = 64;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  ull_loader_options options = picture_options(source, SIDE);
  options.workers = 16;
  options.prefetch = 32;
  int open_before = open_descriptors();
  for (int i = 0; i < 5; i++) assert_int_equal(hash_stream(&options, hashes), PICTURES);
  assert_int_equal(open_descriptors(), open_before);
  setrlimit(RLIMIT_NOFILE, &before);
}

/* Files that vanish while a run goes on are bad samples with a name, and are good again when they
 * are back. */
static void files_come_and_go(void **state) {
  (void)state;
  char path[800], away[800];
  uint32_t first[PICTURES], second[PICTURES];
  snprintf(path, sizeof path, "%s/%s", root, picture_name(7));
  snprintf(away, sizeof away, "%s/away", root);
  ull_loader_options options = picture_options(source, SIDE);
  options.on_bad = ULL_ON_BAD_REPLACE;
  options.max_bad = 10;
  assert_int_equal(hash_stream(&options, first), PICTURES);
  assert_int_equal(rename(path, away), 0);
  ull_loader *loader = create_loader(&options);
  assert_int_equal(hash_samples(loader, second, STREAM_MOST), PICTURES);
  ull_bad_sample bad;
  assert_int_equal(ull_loader_bad_samples(loader, 0, &bad, 1), 1);
  assert_int_equal(bad.verdict, ULL_VERDICT_UNREADABLE);
  assert_non_null(strstr(bad.path, picture_name(7)));
  ull_loader_destroy(loader);
  int different = 0;
  for (int i = 0; i < PICTURES; i++) different += first[i] != second[i];
  assert_int_equal(different, 1);
  assert_int_equal(rename(away, path), 0);
  assert_int_equal(hash_stream(&options, second), PICTURES);
  assert_memory_equal(first, second, sizeof first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(death_in_any_stage_is_an_error, set_up, tear_down),
      cmocka_unit_test(the_late_are_stood_in_for),
      cmocka_unit_test(destroyed_while_held_up),
      cmocka_unit_test_setup_teardown(pace_never_changes_the_stream, set_up, tear_down),
      cmocka_unit_test_setup_teardown(few_descriptors_are_enough, set_up, tear_down),
      cmocka_unit_test_setup_teardown(files_come_and_go, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
