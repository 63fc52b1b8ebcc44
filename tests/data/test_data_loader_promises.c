/* A loader keeps its promises: memory and threads are what was said, options are checked, errors
 * arrive in their place, nothing hangs. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "support/data_trees.h"
#include "support/element_loader.h"
#include "support/picture_folders.h"

typedef struct counted_memory {
  uint64_t bytes, given_back;
  void *block;
} counted_memory;

static void *allocate_counted(void *context, uint64_t bytes, uint64_t alignment) {
  counted_memory *memory = context;
  memory->bytes += bytes;
  memory->block = aligned_alloc(alignment, bytes + 64);
  memset(memory->block, 0xa5, bytes + 64);
  return memory->block;
}

static void deallocate_counted(void *context, void *block, uint64_t bytes) {
  counted_memory *memory = context;
  memory->given_back += bytes;
  for (int i = 0; i < 64; i++) assert_int_equal(((uint8_t *)block)[bytes + (uint64_t)i], 0xa5);
  free(block);
}

static void memory_is_what_was_promised(void **state) {
  (void)state;
  uint32_t hashes[BATCHES * EPOCHS];
  for (int workers = 0; workers < 3; workers++) {
    counted_memory memory = {0};
    ull_loader_options options = element_options();
    options.workers = workers;
    options.allocate = allocate_counted;
    options.deallocate = deallocate_counted;
    options.context = &memory;
    ull_loader_bound bound;
    assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_OK);
    assert_int_equal(bound.slot_bytes, 960 + 64 + 64 + 64); /* images, labels, indices, verdicts */
    assert_int_equal(bound.scratch_bytes, 64);
    assert_int_equal(bound.source_bytes, ull_source_resident_bytes(elements));
    assert_int_equal(bound.total_bytes,
                     bound.slot_bytes * 4 + bound.control_bytes +
                         bound.scratch_bytes * (workers > 0 ? (uint64_t)workers : 1));
    ull__alloc_counts before = ull__alloc_count();
    ull_loader *loader = create_loader(&options);
    hash_batches(loader, hashes);
    ull_loader_destroy(loader);
    assert_int_equal(ull__alloc_count().calls, before.calls);
    assert_int_equal(memory.bytes, bound.total_bytes);
    assert_int_equal(memory.given_back, bound.total_bytes);
  }
}

static void memory_of_the_caller(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  reference_batches(wanted);
  ull_loader_options options = element_options();
  ull_loader_bound bound;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_OK);
  options.memory = aligned_alloc(64, bound.total_bytes);
  options.memory_bytes = bound.total_bytes;
  ull_loader *loader = create_loader(&options);
  hash_batches(loader, got);
  ull_loader_destroy(loader);
  assert_memory_equal(got, wanted, sizeof wanted);
  options.memory_bytes--;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_INVALID);
  assert_int_equal(ull_error_last()->wanted_bytes, bound.total_bytes);
  free(options.memory);
}

static void options_fit_a_budget(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  options.workers = 3;
  ull_loader_bound full, bound;
  assert_int_equal(ull_loader_bound_bytes(&options, &full), ULL_OK);
  assert_int_equal(ull_loader_fit(&options, full.total_bytes), ULL_OK);
  assert_true(options.prefetch == 4 && options.workers == 3);
  assert_int_equal(ull_loader_fit(&options, full.total_bytes - 1), ULL_OK);
  assert_true(options.prefetch == 3 && options.workers == 3);
  assert_int_equal(ull_loader_fit(&options, 1), ULL_ERROR_DOES_NOT_FIT);
  assert_true(options.prefetch == 3 && options.workers == 3);
  uint64_t least = ull_error_last()->wanted_bytes;
  assert_int_equal(ull_loader_fit(&options, least), ULL_OK);
  assert_true(options.prefetch == 2 && options.workers == 1);
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_OK);
  assert_int_equal(bound.total_bytes, least);
}

/* Threads whose name begins with "ull-loader-". */
static int count_loader_threads(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL) continue;
    if (fgets(name, sizeof name, file) != NULL) count += strncmp(name, "ull-loader-", 11) == 0;
    fclose(file);
  }
  closedir(tasks);
  return count;
}

static void threads_are_named_and_few(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  options.workers = 3;
  uint32_t hashes[BATCHES * EPOCHS];
  ull_loader *loader = create_loader(&options);
  assert_int_equal(count_loader_threads(), 3);
  hash_batches(loader, hashes);
  assert_int_equal(count_loader_threads(), 3);
  ull_loader_destroy(loader);
  assert_int_equal(count_loader_threads(), 0);
}

static void labels_out_of_range_stop_creation(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  element_bindings[1].has_range = true;
  element_bindings[1].maximum = SAMPLES - 1;
  ull_loader *loader = create_loader(&options);
  ull_loader_destroy(loader);
  element_bindings[1].maximum = 9;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_DATA);
  assert_null(loader);
  assert_non_null(strstr(ull_error_last()->message, "sample 10: label is 10, outside 0 to 9"));
}

static void options_are_checked(void **state) {
  (void)state;
  ull_loader_bound bound;
  ull_loader_options options = element_options();
  options.batch_size = 0;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_USAGE);
  options.batch_size = UINT64_MAX / 2;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_OVERFLOW);
  options = element_options();
  options.workers = -1;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_USAGE);
  options = element_options();
  options.prefetch = 0;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_USAGE);
  options = element_options();
  element_bindings[0].array = 7;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_INVALID);
  options = element_options();
  element_bindings[0].shape[1] = 4;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_MISMATCH);
}

/* A loader thread that dies at its n-th sample: earlier batches arrive, then the error, at once and
 * every time. */
static void thread_death_is_an_error(void **state) {
  (void)state;
  for (int workers = 0; workers < 4; workers++) {
    for (int n = 1; n <= 40; n += 13) {
      char fault[32];
      snprintf(fault, sizeof fault, "loader:%d", n);
      setenv("ULLAGE_FAULT", fault, 1);
      ull_loader_options options = element_options();
      options.workers = workers;
      ull_loader *loader = create_loader(&options);
      unsetenv("ULLAGE_FAULT");
      const ull_batch *batch;
      uint64_t start_ns = ull__clock_now_ns();
      for (int step = 0; step < (n - 1) / BATCH; step++) {
        assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
        ull_loader_release(loader, batch);
      }
      for (int again = 0; again < 3; again++) {
        assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_INTERNAL);
        assert_null(batch);
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a loader thread died at sample %d", n);
        assert_string_equal(ull_error_last()->message, wanted);
      }
      assert_true(ull__clock_now_ns() - start_ns < 1000000000u);
      ull_loader_destroy(loader);
    }
  }
}

/* Cuts the plain evaluation images behind an open elements, so that the last samples cannot be
 * read.
 */
static ull_source *open_cut(uint32_t readable) {
  ull_source *opened = open_elements(ULL_SPLIT_EVAL);
  assert_int_equal(
      truncate(path_in(root, "t10k-images-idx3-ubyte"), 16 + readable * HEIGHT * WIDTH), 0);
  return opened;
}

static void bad_sample_fails_in_its_place(void **state) {
  (void)state;
  ull_source *cut = open_cut(21);
  for (int workers = 0; workers < 4; workers++) {
    ull_loader_options options = element_options();
    options.source = cut;
    options.shuffle = false;
    options.workers = workers;
    ull_loader *loader = create_loader(&options);
    const ull_batch *batch;
    for (int step = 0; step < 2; step++) {
      assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
      ull_loader_release(loader, batch);
    }
    assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_DATA);
    assert_non_null(strstr(ull_error_last()->message, "sample 21: "));
    assert_int_equal(ull_loader_get_position(loader).batch, 2);
    ull_loader_destroy(loader);
  }
  ull_source_close(cut);
}

/* Of several failures in a batch the first sample's is reported, whichever thread was faster. */
static void first_bad_sample_is_named(void **state) {
  (void)state;
  ull_source *cut = open_cut(9);
  ull_loader_options options = element_options();
  options.source = cut;
  options.shuffle = false;
  options.workers = 4;
  options.batch_size = SAMPLES;
  for (int i = 0; i < 100; i++) {
    ull_loader *loader = create_loader(&options);
    const ull_batch *batch;
    assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_DATA);
    assert_non_null(strstr(ull_error_last()->message, "sample 9: "));
    ull_loader_destroy(loader);
  }
  ull_source_close(cut);
}

static void bad_samples_are_replaced_by_position(void **state) {
  (void)state;
  ull_source *cut = open_cut(50);
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  for (int workers = 0; workers < 4; workers++) {
    ull_loader_options options = element_options();
    options.source = cut;
    options.workers = workers;
    options.on_bad = ULL_ON_BAD_REPLACE;
    options.max_bad = 3 * EPOCHS;
    ull_loader *loader = create_loader(&options);
    assert_int_equal(hash_batches(loader, workers == 0 ? wanted : got), BATCHES * EPOCHS);
    if (workers > 0) assert_memory_equal(got, wanted, sizeof wanted);
    ull_loader_counts counts = ull_loader_count(loader);
    assert_int_equal(counts.replaced, 3 * EPOCHS);
    assert_int_equal(counts.verdicts[ULL_VERDICT_UNREADABLE], 3 * EPOCHS);
    assert_int_equal(counts.samples, SAMPLES * EPOCHS);
    ull_loader_destroy(loader);
    options.max_bad = 3 * EPOCHS - 1;
    loader = create_loader(&options);
    const ull_batch *batch;
    ull_status status;
    while ((status = ull_loader_next(loader, &batch)) == ULL_OK && batch)
      ull_loader_release(loader, batch);
    assert_int_equal(status, ULL_ERROR_DATA);
    assert_non_null(strstr(ull_error_last()->message, "9 samples were unusable; 8 are allowed"));
    ull_loader_destroy(loader);
  }
  ull_source_close(cut);
}

static void destroyed_at_any_time(void **state) {
  (void)state;
  for (int i = 0; i < 200; i++) {
    ull_loader_options options = element_options();
    options.workers = 1 + i % 4;
    options.prefetch = 1 + i % 3;
    ull_loader *loader = create_loader(&options);
    const ull_batch *batch;
    for (int step = 0; step < i % 5; step++) {
      assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
      ull_loader_release(loader, batch);
    }
    ull_loader_destroy(loader);
  }
  ull_loader_destroy(NULL);
}

static void every_creation_failure_is_clean(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  uint64_t live_bytes = ull__alloc_count().live_bytes;
  ull_loader *loader;
  ull__alloc_fail_at(1);
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_OUT_OF_MEMORY);
  ull__alloc_fail_at(0);
  assert_null(loader);
  assert_int_equal(ull__alloc_count().live_bytes, live_bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_elements, tear_down_elements)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(memory_is_what_was_promised),
      TEST(memory_of_the_caller),
      TEST(options_fit_a_budget),
      TEST(threads_are_named_and_few),
      TEST(labels_out_of_range_stop_creation),
      TEST(options_are_checked),
      TEST(thread_death_is_an_error),
      TEST(bad_sample_fails_in_its_place),
      TEST(first_bad_sample_is_named),
      TEST(bad_samples_are_replaced_by_position),
      TEST(destroyed_at_any_time),
      TEST(every_creation_failure_is_clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
