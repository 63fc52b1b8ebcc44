/* The stream of batches: the same for any number of threads, any ring and after any resume; its
 * memory is what was promised; errors arrive in their place; nothing hangs. */
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
#include <zlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "support/data_files.h"
#include "ullage/data.h"

enum { SAMPLES = 53, HEIGHT = 6, WIDTH = 5, BATCH = 8, EPOCHS = 3, BATCHES = 7 };

static char folder[600];
static ull_source *source;

static ull_source *open_split(ull_split split) {
  char text[700];
  snprintf(text, sizeof text, "idx:%s", folder);
  ull_source_options options = ull_source_options_default();
  options.split = split;
  ull_source *opened;
  assert_int_equal(ull_source_open(text, &options, &opened), ULL_OK);
  return opened;
}

static int set_up(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "%s", make_folder());
  write_idx_pair(folder, "train", SAMPLES, HEIGHT, WIDTH, SAMPLES, true);
  write_idx_pair(folder, "t10k", SAMPLES, HEIGHT, WIDTH, SAMPLES, false);
  source = open_split(ULL_SPLIT_TRAIN);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ull_source_close(source);
  remove_tree(folder);
  return 0;
}

static ull_binding bindings[2];

/* Augmented float images and int64 labels. */
static ull_loader_options make_options(void) {
  bindings[0] = ull_binding_default(source, 0);
  bindings[0].name = "x";
  bindings[0].dtype = ULL_FLOAT32;
  assert_int_equal(ull_normalize_parse("0.5:0.25", source, 0, &bindings[0].normalize), ULL_OK);
  bindings[1] = ull_binding_default(source, 1);
  bindings[1].dtype = ULL_INT64;
  ull_loader_options options = ull_loader_options_default(source);
  options.bindings = bindings;
  options.binding_count = 2;
  options.batch_size = BATCH;
  options.seed = 42;
  options.epochs = EPOCHS;
  assert_int_equal(ull_augment_parse("crop:2,flip", &options.augment), ULL_OK);
  return options;
}

static ull_loader *create(const ull_loader_options *options) {
  ull_loader *loader;
  if (ull_loader_create(options, &loader) != ULL_OK) fail_msg("%s", ull_error_last()->message);
  return loader;
}

static uint32_t hash_batch(const ull_batch *batch) {
  uLong crc = crc32(0, NULL, 0);
  for (size_t i = 0; i < batch->array_count; i++) {
    crc = crc32(crc, batch->arrays[i].data, (uInt)batch->arrays[i].bytes);
  }
  return (uint32_t)crc32(crc, (const Bytef *)batch->sample_index, (uInt)(batch->samples * 8));
}

/* Hashes of all batches from the loader's position on; returns their number. */
static int hash_stream(ull_loader *loader, uint32_t *hashes) {
  const ull_batch *batch;
  int count = 0;
  for (;;) {
    if (ull_loader_next(loader, &batch) != ULL_OK) fail_msg("%s", ull_error_last()->message);
    if (batch == NULL) return count;
    hashes[count++] = hash_batch(batch);
    ull_loader_release(loader, batch);
  }
}

static void reference_stream(uint32_t *hashes) {
  ull_loader_options options = make_options();
  options.workers = 0;
  options.prefetch = 1;
  ull_loader *loader = create(&options);
  assert_int_equal(ull_loader_batches_per_epoch(loader), BATCHES);
  assert_int_equal(hash_stream(loader, hashes), BATCHES * EPOCHS);
  ull_loader_destroy(loader);
}

static void same_for_threads_and_ring(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  reference_stream(wanted);
  static const int workers[] = {0, 1, 2, 4};
  for (size_t w = 0; w < 4; w++) {
    for (int prefetch = 1; prefetch <= 8; prefetch++) {
      ull_loader_options options = make_options();
      options.workers = workers[w];
      options.prefetch = prefetch;
      ull_loader *loader = create(&options);
      assert_int_equal(hash_stream(loader, got), BATCHES * EPOCHS);
      assert_memory_equal(got, wanted, sizeof wanted);
      ull_loader_destroy(loader);
    }
  }
}

static void same_after_resume_anywhere(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  reference_stream(wanted);
  ull_loader_options options = make_options();
  options.workers = 2;
  options.prefetch = 3;
  ull_loader *moving = create(&options);
  for (int step = BATCHES * EPOCHS; step >= 0; step--) {
    ull_loader_position position = {.epoch = (uint64_t)step / BATCHES,
                                    .batch = (uint64_t)step % BATCHES};
    ull_loader *fresh = create(&options);
    ull_loader *loaders[2] = {fresh, moving};
    for (int i = 0; i < 2; i++) {
      assert_int_equal(ull_loader_set_position(loaders[i], position), ULL_OK);
      ull_loader_position now = ull_loader_get_position(loaders[i]);
      assert_true(now.epoch == position.epoch && now.batch == position.batch);
      int count = hash_stream(loaders[i], got);
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
  reference_stream(wanted);
  ull_loader_options options = make_options();
  options.workers = 4;
  options.prefetch = 5;
  ull_loader *loader = create(&options);
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
  ull_loader_options options = make_options();
  options.shuffle = false;
  options.augment.crop_pixels = 4;
  options.batch_size = SAMPLES;
  options.epochs = 2;
  ull_loader *loader = create(&options);
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
  ull_loader_options options = make_options();
  ull_loader *loader = create(&options);
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
  ull_loader_options options = make_options();
  options.shuffle = false;
  options.augment = (ull_augment){0};
  options.epochs = 1;
  ull_loader *loader = create(&options);
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
  ull_loader_options options = make_options();
  options.drop_last = true;
  options.epochs = 1;
  ull_loader *loader = create(&options);
  uint32_t hashes[BATCHES];
  assert_int_equal(hash_stream(loader, hashes), SAMPLES / BATCH);
  ull_loader_destroy(loader);
  options.batch_size = SAMPLES + 1;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "53 samples do not make one batch of 54"));
}

static void seeds_differ(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  reference_stream(wanted);
  ull_loader_options options = make_options();
  options.seed = 43;
  ull_loader *loader = create(&options);
  hash_stream(loader, got);
  for (int i = 0; i < BATCHES * EPOCHS; i++) assert_int_not_equal(got[i], wanted[i]);
  ull_loader_destroy(loader);
}

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
    ull_loader_options options = make_options();
    options.workers = workers;
    options.allocate = allocate_counted;
    options.deallocate = deallocate_counted;
    options.context = &memory;
    ull_loader_bound bound;
    assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_OK);
    assert_int_equal(bound.slot_bytes, 960 + 64 + 64 + 64); /* images, labels, indices, verdicts */
    assert_int_equal(bound.scratch_bytes, 64);
    assert_int_equal(bound.source_bytes, ull_source_resident_bytes(source));
    assert_int_equal(bound.total_bytes,
                     bound.slot_bytes * 4 + bound.control_bytes +
                         bound.scratch_bytes * (workers > 0 ? (uint64_t)workers : 1));
    ull__alloc_counts before = ull__alloc_count();
    ull_loader *loader = create(&options);
    hash_stream(loader, hashes);
    ull_loader_destroy(loader);
    assert_int_equal(ull__alloc_count().calls, before.calls);
    assert_int_equal(memory.bytes, bound.total_bytes);
    assert_int_equal(memory.given_back, bound.total_bytes);
  }
}

static void memory_of_the_caller(void **state) {
  (void)state;
  uint32_t wanted[BATCHES * EPOCHS], got[BATCHES * EPOCHS];
  reference_stream(wanted);
  ull_loader_options options = make_options();
  ull_loader_bound bound;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_OK);
  options.memory = aligned_alloc(64, bound.total_bytes);
  options.memory_bytes = bound.total_bytes;
  ull_loader *loader = create(&options);
  hash_stream(loader, got);
  ull_loader_destroy(loader);
  assert_memory_equal(got, wanted, sizeof wanted);
  options.memory_bytes--;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_INVALID);
  assert_int_equal(ull_error_last()->wanted_bytes, bound.total_bytes);
  free(options.memory);
}

static void options_fit_a_budget(void **state) {
  (void)state;
  ull_loader_options options = make_options();
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
  ull_loader_options options = make_options();
  options.workers = 3;
  uint32_t hashes[BATCHES * EPOCHS];
  ull_loader *loader = create(&options);
  assert_int_equal(count_loader_threads(), 3);
  hash_stream(loader, hashes);
  assert_int_equal(count_loader_threads(), 3);
  ull_loader_destroy(loader);
  assert_int_equal(count_loader_threads(), 0);
}

static void loans_are_limited_by_the_ring(void **state) {
  (void)state;
  ull_loader_options options = make_options();
  options.prefetch = 2;
  ull_loader *loader = create(&options);
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

static void labels_out_of_range_stop_creation(void **state) {
  (void)state;
  ull_loader_options options = make_options();
  bindings[1].has_range = true;
  bindings[1].maximum = SAMPLES - 1;
  ull_loader *loader = create(&options);
  ull_loader_destroy(loader);
  bindings[1].maximum = 9;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_DATA);
  assert_null(loader);
  assert_non_null(strstr(ull_error_last()->message, "sample 10: label is 10, outside 0 to 9"));
}

static void options_are_checked(void **state) {
  (void)state;
  ull_loader_bound bound;
  ull_loader_options options = make_options();
  options.batch_size = 0;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_USAGE);
  options.batch_size = UINT64_MAX / 2;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_OVERFLOW);
  options = make_options();
  options.workers = -1;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_USAGE);
  options = make_options();
  options.prefetch = 0;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_USAGE);
  options = make_options();
  bindings[0].array = 7;
  assert_int_equal(ull_loader_bound_bytes(&options, &bound), ULL_ERROR_INVALID);
  options = make_options();
  bindings[0].shape[1] = 4;
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
      ull_loader_options options = make_options();
      options.workers = workers;
      ull_loader *loader = create(&options);
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

/* Cuts the plain evaluation images behind an open source, so that the last samples cannot be read.
 */
static ull_source *open_cut(uint32_t readable) {
  ull_source *opened = open_split(ULL_SPLIT_EVAL);
  assert_int_equal(
      truncate(path_in(folder, "t10k-images-idx3-ubyte"), 16 + readable * HEIGHT * WIDTH), 0);
  return opened;
}

static void bad_sample_fails_in_its_place(void **state) {
  (void)state;
  ull_source *cut = open_cut(21);
  for (int workers = 0; workers < 4; workers++) {
    ull_loader_options options = make_options();
    options.source = cut;
    options.shuffle = false;
    options.workers = workers;
    ull_loader *loader = create(&options);
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
  ull_loader_options options = make_options();
  options.source = cut;
  options.shuffle = false;
  options.workers = 4;
  options.batch_size = SAMPLES;
  for (int i = 0; i < 100; i++) {
    ull_loader *loader = create(&options);
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
    ull_loader_options options = make_options();
    options.source = cut;
    options.workers = workers;
    options.on_bad = ULL_ON_BAD_REPLACE;
    options.max_bad = 3 * EPOCHS;
    ull_loader *loader = create(&options);
    assert_int_equal(hash_stream(loader, workers == 0 ? wanted : got), BATCHES * EPOCHS);
    if (workers > 0) assert_memory_equal(got, wanted, sizeof wanted);
    ull_loader_counts counts = ull_loader_count(loader);
    assert_int_equal(counts.replaced, 3 * EPOCHS);
    assert_int_equal(counts.verdicts[ULL_VERDICT_UNREADABLE], 3 * EPOCHS);
    assert_int_equal(counts.samples, SAMPLES * EPOCHS);
    ull_loader_destroy(loader);
    options.max_bad = 3 * EPOCHS - 1;
    loader = create(&options);
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
    ull_loader_options options = make_options();
    options.workers = 1 + i % 4;
    options.prefetch = 1 + i % 3;
    ull_loader *loader = create(&options);
    const ull_batch *batch;
    for (int step = 0; step < i % 5; step++) {
      assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
      ull_loader_release(loader, batch);
    }
    ull_loader_destroy(loader);
  }
  ull_loader_destroy(NULL);
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
  ull_loader_options options = make_options();
  for (size_t i = 0; i < 2; i++) bindings[i] = ull_binding_default(synthetic, i);
  options.source = synthetic;
  options.epochs = 10;
  ull_loader *loader = create(&options);
  uint32_t hashes[10];
  assert_int_equal(hash_stream(loader, hashes), 10);
  for (int i = 1; i < 10; i++) assert_int_equal(hashes[i], hashes[0]);
  ull_loader_destroy(loader);
  ull_source_close(synthetic);
}

static void every_creation_failure_is_clean(void **state) {
  (void)state;
  ull_loader_options options = make_options();
  uint64_t live_bytes = ull__alloc_count().live_bytes;
  ull_loader *loader;
  ull__alloc_fail_at(1);
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_OUT_OF_MEMORY);
  ull__alloc_fail_at(0);
  assert_null(loader);
  assert_int_equal(ull__alloc_count().live_bytes, live_bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(same_for_threads_and_ring, set_up, tear_down),
      cmocka_unit_test_setup_teardown(same_after_resume_anywhere, set_up, tear_down),
      cmocka_unit_test_setup_teardown(same_after_moving_under_way, set_up, tear_down),
      cmocka_unit_test_setup_teardown(augmentation_changes_with_the_epoch, set_up, tear_down),
      cmocka_unit_test_setup_teardown(epochs_are_permutations, set_up, tear_down),
      cmocka_unit_test_setup_teardown(evaluation_is_in_order_and_ragged, set_up, tear_down),
      cmocka_unit_test_setup_teardown(drop_last_drops, set_up, tear_down),
      cmocka_unit_test_setup_teardown(seeds_differ, set_up, tear_down),
      cmocka_unit_test_setup_teardown(memory_is_what_was_promised, set_up, tear_down),
      cmocka_unit_test_setup_teardown(memory_of_the_caller, set_up, tear_down),
      cmocka_unit_test_setup_teardown(options_fit_a_budget, set_up, tear_down),
      cmocka_unit_test_setup_teardown(threads_are_named_and_few, set_up, tear_down),
      cmocka_unit_test_setup_teardown(loans_are_limited_by_the_ring, set_up, tear_down),
      cmocka_unit_test_setup_teardown(labels_out_of_range_stop_creation, set_up, tear_down),
      cmocka_unit_test_setup_teardown(options_are_checked, set_up, tear_down),
      cmocka_unit_test_setup_teardown(thread_death_is_an_error, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_sample_fails_in_its_place, set_up, tear_down),
      cmocka_unit_test_setup_teardown(first_bad_sample_is_named, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_samples_are_replaced_by_position, set_up, tear_down),
      cmocka_unit_test_setup_teardown(destroyed_at_any_time, set_up, tear_down),
      cmocka_unit_test_setup_teardown(synthetic_batch_is_always_the_same, set_up, tear_down),
      cmocka_unit_test_setup_teardown(every_creation_failure_is_clean, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
