/* The stream of batches: the same for any number of threads, any ring and after any resume. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/data_trees.h"
#include "support/element_loader.h"
#include "support/picture_folders.h"

static void same_for_threads_and_ring(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  reference_batches(wanted);
  static const int workers[] = {0, 1, 2, 4};
  for (size_t w = 0; w < 4; w++) {
    for (int prefetch = 1; prefetch <= 8; prefetch++) {
      ull_loader_options options = element_options();
      options.workers = workers[w];
      options.prefetch = prefetch;
      ull_loader *loader = create_loader(&options);
      assert_int_equal(hash_batches(loader, got), BATCHES * EPOCHS);
      assert_memory_equal(got, wanted, sizeof wanted);
      ull_loader_destroy(loader);
    }
  }
}

static void same_after_resume_anywhere(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  reference_batches(wanted);
  ull_loader_options options = element_options();
  options.workers = 2;
  options.prefetch = 3;
  ull_loader *moving = create_loader(&options);
  for (int step = BATCHES * EPOCHS; step >= 0; step--) {
    ull_loader_position position = {.epoch = (uint64_t)step / BATCHES,
                                    .batch = (uint64_t)step % BATCHES};
    ull_loader *fresh = create_loader(&options);
    ull_loader *loaders[2] = {fresh, moving};
    for (int i = 0; i < 2; i++) {
      assert_int_equal(ull_loader_set_position(loaders[i], position), ULL_OK);
      ull_loader_position now = ull_loader_get_position(loaders[i]);
      assert_true(now.epoch == position.epoch && now.batch == position.batch);
      int count = hash_batches(loaders[i], got);
      assert_int_equal(count, BATCHES * EPOCHS - step);
      assert_memory_equal(got, wanted + step, (size_t)count * sizeof *got);
    }
    ull_loader_destroy(fresh);
  }
  assert_int_equal(ull_loader_set_position(moving, (ull_loader_position){0, BATCHES}),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull_loader_set_position(moving, (ull_loader_position){UINT64_MAX, 0}),
                   ULL_ERROR_INVALID);
  ull_loader_destroy(moving);
}

/* Moved while the threads are in the middle of batches that nobody will ask for. */
static void same_after_moving_under_way(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS];
  reference_batches(wanted);
  ull_loader_options options = element_options();
  options.workers = 4;
  options.prefetch = 5;
  ull_loader *loader = create_loader(&options);
  for (unsigned i = 0; i < 2000; i++) {
    unsigned step = i * 13 % (BATCHES * EPOCHS);
    ull_loader_position position = {.epoch = step / BATCHES, .batch = step % BATCHES};
    const ull_batch *batch;
    assert_int_equal(ull_loader_set_position(loader, position), ULL_OK);
    assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
    assert_int_equal(batch->step, step);
    assert_int_equal(hash_batch(batch), wanted[step]);
    ull_loader_release(loader, batch);
  }
  ull_loader_destroy(loader);
}

/* The same sample is augmented anew in every epoch, and unlike its neighbours. */
static void augmentation_changes_with_the_epoch(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  options.shuffle = false;
  options.augment.crop_pixels = 4;
  options.batch_size = SAMPLES;
  options.epochs = 2;
  ull_loader *loader = create_loader(&options);
  const ull_batch *first, *second;
  assert_int_equal(ull_loader_next(loader, &first), ULL_OK);
  assert_int_equal(ull_loader_next(loader, &second), ULL_OK);
  int different = 0;
  for (int i = 0; i < SAMPLES; i++) {
    size_t at = (size_t)i * HEIGHT * WIDTH, bytes = HEIGHT * WIDTH * sizeof(float);
    different += memcmp((float *)first->arrays[0].data + at, (float *)second->arrays[0].data + at,
                        bytes) != 0;
  }
  assert_in_range(different, SAMPLES * 9 / 10, SAMPLES);
  ull_loader_destroy(loader);
}

static void epochs_are_permutations(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  ull_loader *loader = create_loader(&options);
  uint64_t orders[EPOCHS][SAMPLES];
  const ull_batch *batch;
  for (int step = 0; step < BATCHES * EPOCHS; step++) {
    assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
    assert_true(batch->step == (uint64_t)step && batch->epoch == (uint64_t)step / BATCHES);
    assert_int_equal(batch->samples, step % BATCHES == BATCHES - 1 ? SAMPLES % BATCH : BATCH);
    assert_int_equal(batch->arrays[0].shape[0], batch->samples);
    const int64_t *labels = batch->arrays[1].data;
    for (uint64_t i = 0; i < batch->samples; i++) {
      assert_int_equal(labels[i], batch->sample_index[i]);
      assert_int_equal(batch->verdict[i], ULL_VERDICT_OK);
      orders[batch->epoch][batch->batch * BATCH + i] = batch->sample_index[i];
    }
    ull_loader_release(loader, batch);
  }
  for (int e = 0; e < EPOCHS; e++) {
    int seen[SAMPLES] = {0};
    for (int i = 0; i < SAMPLES; i++) seen[orders[e][i]]++;
    for (int i = 0; i < SAMPLES; i++) assert_int_equal(seen[i], 1);
    assert_memory_not_equal(orders[e], orders[(e + 1) % EPOCHS], sizeof orders[e]);
  }
  assert_int_equal(ull_loader_count(loader).samples, SAMPLES * EPOCHS);
  assert_int_equal(ull_loader_count(loader).verdicts[ULL_VERDICT_OK], SAMPLES * EPOCHS);
  ull_loader_destroy(loader);
}

static void evaluation_is_in_order_and_ragged(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  options.shuffle = false;
  options.augment = (ull_augment){0};
  options.epochs = 1;
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  uint64_t next = 0;
  while (ull_loader_next(loader, &batch) == ULL_OK && batch != NULL) {
    const float *pixels = batch->arrays[0].data;
    assert_int_equal((uintptr_t)pixels % 64, 0);
    for (uint64_t i = 0; i < batch->samples; i++, next++) {
      assert_int_equal(batch->sample_index[i], next);
      for (uint32_t p = 0; p < HEIGHT * WIDTH; p++) {
        float scale = (float)(1.0 / 255 / 0.25), bias = (float)(-0.5 / 0.25);
        float wanted = (float)idx_pixel((uint32_t)next, p / WIDTH, p % WIDTH) * scale + bias;
        assert_true(pixels[i * HEIGHT * WIDTH + p] == wanted);
      }
    }
    ull_loader_release(loader, batch);
  }
  assert_int_equal(next, SAMPLES);
  assert_null(batch);
  assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
  assert_null(batch);
  ull_loader_destroy(loader);
}

static void drop_last_drops(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  options.drop_last = true;
  options.epochs = 1;
  ull_loader *loader = create_loader(&options);
  uint32_t hashes[BATCHES];
  assert_int_equal(hash_batches(loader, hashes), SAMPLES / BATCH);
  ull_loader_destroy(loader);
  options.batch_size = SAMPLES + 1;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "53 samples do not make one batch of 54"));
}

static void seeds_differ(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  reference_batches(wanted);
  ull_loader_options options = element_options();
  options.seed = 43;
  ull_loader *loader = create_loader(&options);
  hash_batches(loader, got);
  for (int i = 0; i < BATCHES * EPOCHS; i++) assert_int_not_equal(got[i], wanted[i]);
  ull_loader_destroy(loader);
}

static void loans_are_limited_by_the_ring(void **state) {
  (void)state;
  ull_loader_options options = element_options();
  options.prefetch = 2;
  ull_loader *loader = create_loader(&options);
  const ull_batch *first, *second, *third;
  assert_int_equal(ull_loader_next(loader, &first), ULL_OK);
  assert_int_equal(ull_loader_next(loader, &second), ULL_OK);
  uint32_t first_hash = hash_batch(first), second_hash = hash_batch(second);
  assert_int_equal(ull_loader_next(loader, &third), ULL_ERROR_INVALID);
  assert_null(third);
  ull_loader_release(loader, second);
  assert_int_equal(ull_loader_next(loader, &third), ULL_OK); /* a batch that is kept bars nothing */
  assert_int_equal(third->step, 2);
  ull_loader_release(loader, third);
  assert_int_equal(ull_loader_set_position(loader, (ull_loader_position){0, 0}), ULL_OK);
  assert_int_equal(ull_loader_next(loader, &second), ULL_OK);
  assert_int_equal(hash_batch(second), first_hash);
  assert_int_equal(hash_batch(first), first_hash); /* nor does moving touch it */
  ull_loader_release(loader, second);
  ull_loader_release(loader, first);
  ull_loader_release(loader, first); /* once is enough; twice does no harm */
  assert_int_equal(ull_loader_set_position(loader, (ull_loader_position){0, 1}), ULL_OK);
  assert_int_equal(ull_loader_next(loader, &second), ULL_OK);
  assert_int_equal(hash_batch(second), second_hash);
  ull_loader_destroy(loader); /* with a batch on loan */
}

static void synthetic_batch_is_always_the_same(void **state) {
  (void)state;
  ull_synthetic_array arrays[] = {
      {.name = "x", .dtype = ULL_FLOAT32, .rank = 3, .shape = {1, 4, 4}},
      {.name = "target", .dtype = ULL_INT64, .role = ULL_ARRAY_TARGET, .maximum = 9}};
  ull_source_options source_options = ull_source_options_default();
  source_options.synthetic = arrays;
  source_options.synthetic_count = 2;
  source_options.synthetic_samples = BATCH;
  ull_source *synthetic;
  assert_int_equal(ull_source_open("synthetic", &source_options, &synthetic), ULL_OK);
  ull_loader_options options = element_options();
  for (size_t i = 0; i < 2; i++) element_bindings[i] = ull_binding_default(synthetic, i);
  options.source = synthetic;
  options.epochs = 10;
  ull_loader *loader = create_loader(&options);
  uint32_t hashes[10];
  assert_int_equal(hash_batches(loader, hashes), 10);
  for (int i = 1; i < 10; i++) assert_int_equal(hashes[i], hashes[0]);
  ull_loader_destroy(loader);
  ull_source_close(synthetic);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_elements, tear_down_elements)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(same_for_threads_and_ring),
      TEST(same_after_resume_anywhere),
      TEST(same_after_moving_under_way),
      TEST(augmentation_changes_with_the_epoch),
      TEST(epochs_are_permutations),
      TEST(evaluation_is_in_order_and_ragged),
      TEST(drop_last_drops),
      TEST(seeds_differ),
      TEST(loans_are_limited_by_the_ring),
      TEST(synthetic_batch_is_always_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
