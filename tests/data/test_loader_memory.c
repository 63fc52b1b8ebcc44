/* The loader's memory: what was promised is what is taken, whatever the pictures; what is too big
 * depends on the budget alone; nothing is allocated once it runs. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/data_trees.h"
#include "support/jpeg_files.h"
#include "support/picture_folders.h"

enum { SMALL = 30, SIDE = 32, GUARD = 64 };

#define MIB ((uint64_t)1 << 20)

static ull_source *source;

static void put_large(const char *name, int width, int height, bool progressive) {
  jpeg_form form = {.width = width,
                    .height = height,
                    .colours = JPEG_YCC,
                    .h = 2,
                    .v = 2,
                    .progressive = progressive};
  size_t bytes;
  uint8_t *jpeg = make_jpeg(&form, &bytes);
  put_bytes(root, name, jpeg, bytes);
  free(jpeg);
}

/* Small ones, wide ones, and progressive ones that need 0.4, 3 and 12 MiB. */
static int set_up(void **state) {
  make_root(state);
  put_pictures(root, SMALL);
  put_large("class0/wide.jpg", 9000, 64, false);
  put_large("class1/tall.jpg", 64, 9000, false);
  put_large("class2/small.jpg", 400, 360, true);
  put_large("class0/middle.jpg", 1000, 1000, true);
  put_large("class1/large.jpg", 2000, 2000, true);
  source = open_or_fail(root, ULL_SPLIT_TRAIN);
  return 0;
}

static int tear_down(void **state) {
  ull_source_close(source);
  return remove_root(state);
}

typedef struct guarded {
  uint64_t bytes;
  uint8_t *block;
} guarded;

static void *allocate_guarded(void *context, uint64_t bytes, uint64_t alignment) {
  guarded *memory = context;
  memory->bytes = bytes;
  memory->block = aligned_alloc(alignment, (bytes + GUARD + alignment - 1) / alignment * alignment);
  memset(memory->block + bytes, 0xa5, GUARD);
  return memory->block;
}

static void deallocate_guarded(void *context, void *block, uint64_t bytes) {
  guarded *memory = context;
  assert_int_equal(memory->bytes, bytes);
  assert_ptr_equal(memory->block, block);
  for (int i = 0; i < GUARD; i++) assert_int_equal(memory->block[bytes + (uint64_t)i], 0xa5);
  free(block);
}

static ull_loader_options lenient_options(void) {
  ull_loader_options options = picture_options(source, SIDE);
  options.large_bytes = 0;
  options.on_bad = ULL_ON_BAD_REPLACE;
  options.max_bad = ULL_MAX_BAD_SHARE;
  return options;
}

/* Verdicts of one epoch in a guarded block within the budget. */
static void run_within(uint64_t budget, int workers, int prefetch, ull_loader_counts *counts) {
  guarded memory = {0};
  ull_loader_bound bound;
  uint32_t hashes[STREAM_MOST];
  ull_loader_options options = lenient_options();
  options.workers = workers;
  options.prefetch = prefetch;
  options.allocate = allocate_guarded;
  options.deallocate = deallocate_guarded;
  options.context = &memory;
  assert_int_equal(ull_loader_fit(&options, budget), ULL_OK);
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_OK);
  assert_true(bound.total_bytes + bound.reader_bytes <= budget);
  uint64_t before = ull__alloc_count().live_bytes;
  ull_loader *loader = create_loader(&options);
  assert_true(ull__alloc_count().live_bytes - before <= bound.reader_bytes);
  assert_int_equal(memory.bytes, bound.total_bytes);
  hash_samples(loader, hashes, STREAM_MOST);
  *counts = ull_loader_count(loader);
  assert_true(counts->peak_bytes <= ull_loader_bound_total(&bound));
  ull_loader_destroy(loader);
  assert_int_equal(ull__alloc_count().live_bytes, before);
}

static void budgets_are_kept(void **state) {
  (void)state;
  static const uint64_t budgets[] = {4 * MIB, 5 * MIB, 8 * MIB, 16 * MIB, 48 * MIB, 96 * MIB};
  uint64_t too_big_before = UINT64_MAX;
  for (size_t b = 0; b < sizeof budgets / sizeof *budgets; b++) {
    ull_loader_counts first, counts;
    run_within(budgets[b], 1, 2, &first);
    uint64_t too_big = first.verdicts[ULL_VERDICT_TOO_BIG];
    for (int workers = 2; workers <= 9; workers += 7) {
      run_within(budgets[b], workers, 1 + workers, &counts);
      assert_memory_equal(counts.verdicts, first.verdicts, sizeof counts.verdicts);
    }
    assert_true(too_big <= too_big_before);
    too_big_before = too_big;
    assert_int_equal(first.verdicts[ULL_VERDICT_OK] + too_big, SMALL + 5);
  }
  assert_int_equal(too_big_before, 0);
}

static void a_small_budget_finds_pictures_too_big(void **state) {
  (void)state;
  ull_loader_counts counts;
  run_within(4 * MIB, 1, 2, &counts);
  assert_true(counts.verdicts[ULL_VERDICT_TOO_BIG] >= 2);
  ull_loader_options options = lenient_options();
  options.on_bad = ULL_ON_BAD_FAIL;
  assert_int_equal(ull_loader_fit(&options, 4 * MIB), ULL_OK);
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  ull_status status;
  while ((status = ull_loader_next(loader, &batch)) == ULL_OK && batch != NULL)
    ull_loader_release(loader, batch);
  assert_int_equal(status, ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "too_big"));
  assert_true(ull_error_last()->wanted_bytes > options.large_bytes);
  ull_loader_destroy(loader);
}

static void too_little_is_refused_with_what_would_do(void **state) {
  (void)state;
  ull_loader_options options = lenient_options(), before = options;
  assert_int_equal(ull_loader_fit(&options, 1000), ULL_ERROR_DOES_NOT_FIT);
  assert_memory_equal(&options, &before, sizeof options);
  assert_non_null(strstr(ull_error_last()->message, "2 batches and one thread"));
  uint64_t least = ull_error_last()->wanted_bytes;
  assert_int_equal(ull_loader_fit(&options, least), ULL_OK);
  assert_int_equal(options.prefetch, 2);
  assert_int_equal(options.workers, 1);
  options = before;
  assert_int_equal(ull_loader_fit(&options, least - 4096), ULL_ERROR_DOES_NOT_FIT);
}

/* The issue of every loader: 8 pictures of 224 pixels in 16 MiB. */
static void sixteen_mebibytes_are_enough(void **state) {
  (void)state;
  ull_loader_options options = picture_options(source, 224);
  options.large_bytes = 0;
  options.workers = 2;
  assert_int_equal(ull_loader_fit(&options, 16 * MIB), ULL_OK);
  assert_int_equal(options.workers, 2);
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
  assert_int_equal(batch->samples, 8);
  ull_loader_destroy(loader);
}

static void nothing_is_allocated_while_it_runs(void **state) {
  (void)state;
  uint32_t hashes[8 * STREAM_MOST];
  ull_loader_options options = lenient_options();
  options.epochs = 4;
  options.workers = 3;
  ull_loader *loader = create_loader(&options);
  hash_samples(loader, hashes, SMALL);
  uint64_t calls = ull__alloc_count().calls;
  hash_samples(loader, hashes, STREAM_MOST);
  assert_int_equal(ull__alloc_count().calls, calls);
  ull_loader_destroy(loader);
}

/* Memory that a ring has touched stays: were slots taken up by and by, a process would go on
 * growing for many epochs. */
static void all_slots_are_used_from_the_first_round_on(void **state) {
  (void)state;
  enum { SLOTS = 5 };
  for (int workers = 0; workers <= 2; workers += 2) {
    ull_loader_options options = lenient_options();
    const ull_batch *batch;
    const void *places[2 * SLOTS];
    options.workers = workers;
    options.prefetch = SLOTS;
    options.epochs = 0;
    ull_loader *loader = create_loader(&options);
    for (int i = 0; i < 2 * SLOTS; i++) {
      assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
      places[i] = batch->arrays[0].data;
      for (int before = i < SLOTS ? 0 : i - SLOTS + 1; before < i; before++)
        assert_ptr_not_equal(places[before], places[i]);
      ull_loader_release(loader, batch);
    }
    ull_loader_destroy(loader);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(budgets_are_kept),
      cmocka_unit_test(a_small_budget_finds_pictures_too_big),
      cmocka_unit_test(too_little_is_refused_with_what_would_do),
      cmocka_unit_test(sixteen_mebibytes_are_enough),
      cmocka_unit_test(nothing_is_allocated_while_it_runs),
      cmocka_unit_test(all_slots_are_used_from_the_first_round_on),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
