/* Batches of samples of several lengths: one length a batch, every sample once an epoch, the same
 * stream whatever threads, slots, ranks and resumes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sha256.h"
#include "data/order.h"
#include "support/text_sources.h"
#include "ullage/data.h"

enum { EPOCHS = 2, SAMPLES_MAX = 128, BUCKETS = 3 };

/* ---- the order ---- */

static const ull__source_kind bare_kind = {.scheme = "bare"};

/* A source that is nothing but numbers of samples. */
static ull_source bare_source(const uint64_t samples[BUCKETS]) {
  static char text[] = "bare";
  ull_source source = {.kind = &bare_kind, .text = text};
  for (int b = 0; b < BUCKETS; b++) ull__source_add_bucket(&source, 8 << b, samples[b]);
  source.count = source.stored_count;
  return source;
}

static ull_loader_options make_options(const ull_source *source, uint64_t batch, uint64_t rank,
                                       uint64_t world, bool drop_last) {
  return (ull_loader_options){.source = source,
                              .batch_size = batch,
                              .rank = rank,
                              .world_size = world,
                              .drop_last = drop_last,
                              .shuffle = true,
                              .seed = 7,
                              .epochs = EPOCHS};
}

typedef struct walked {
  uint64_t samples[EPOCHS * SAMPLES_MAX];
  int64_t lengths[EPOCHS * SAMPLES_MAX]; /* of batches */
  size_t count, batches;
} walked;

/* The samples of all ranks of every global batch, one behind the other. */
static void walk(const ull_source *source, uint64_t batch, uint64_t world, bool drop_last,
                 uint64_t epoch, uint64_t position, walked *w) {
  for (w->count = w->batches = 0;; w->batches++) {
    uint64_t ended = 0, least = UINT64_MAX, most = 0;
    int64_t length = 0;
    for (uint64_t rank = 0; rank < world; rank++) {
      ull_loader_options options = make_options(source, batch, rank, world, drop_last);
      ull__order order;
      check_status(ull__order_create(&options, &order));
      check_status(ull__order_move(&order, epoch, position));
      ull__order_batch place;
      if (!ull__order_batch_at(&order, w->batches, &place)) {
        ended++;
        continue;
      }
      if (rank == 0) length = place.length;
      assert_int_equal(place.length, length); /* the same on every rank */
      least = place.samples < least ? place.samples : least;
      most = place.samples > most ? place.samples : most;
      ull__epoch_order epoch_order = ull__order_epoch(&order, place.epoch);
      for (uint64_t i = 0; i < place.samples; i++) {
        uint64_t sample = ull__order_sample(&order, &epoch_order, place.position + i);
        assert_int_equal(ull__source_sample_length(source, sample), length);
        w->samples[w->count++] = sample;
      }
    }
    assert_true(ended == 0 || ended == world);
    if (ended > 0) return;
    assert_true(most - least <= 1 && most <= batch);
    assert_true(!drop_last || least == batch);
    w->lengths[w->batches] = length;
  }
}

static uint64_t count_batches(const uint64_t samples[BUCKETS], uint64_t global, bool drop) {
  uint64_t batches = 0;
  for (int b = 0; b < BUCKETS; b++)
    batches += drop ? samples[b] / global : (samples[b] + global - 1) / global;
  return batches;
}

static void test_every_sample_once(void **state) {
  (void)state;
  static const uint64_t sizes[][BUCKETS] = {
      {1, 1, 1}, {5, 0, 17}, {40, 3, 8}, {0, 31, 0}, {13, 29, 50}};
  static walked w;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (uint64_t world = 1; world <= 4; world++)
      for (uint64_t batch = 1; batch <= 9; batch += 2)
        for (int drop = 0; drop < 2; drop++) {
          ull_source source = bare_source(sizes[s]);
          uint64_t batches = count_batches(sizes[s], batch * world, drop);
          if (batches == 0) continue;
          walk(&source, batch, world, drop, 0, 0, &w);
          assert_int_equal(w.batches, EPOCHS * batches);
          for (int e = 0; e < EPOCHS && !drop; e++) {
            int seen[SAMPLES_MAX] = {0};
            for (uint64_t i = 0; i < source.count; i++)
              seen[w.samples[(uint64_t)e * source.count + i]]++;
            for (uint64_t i = 0; i < source.count; i++) assert_int_equal(seen[i], 1);
          }
        }
}

/* Lengths come mixed, and other ones first in the next epoch. */
static void test_batches_are_shuffled(void **state) {
  (void)state;
  static const uint64_t samples[BUCKETS] = {40, 40, 40};
  static walked w;
  ull_source source = bare_source(samples);
  walk(&source, 4, 1, false, 0, 0, &w);
  size_t half = w.batches / 2, changes = 0;
  for (size_t i = 1; i < half; i++) changes += w.lengths[i] != w.lengths[i - 1];
  assert_true(changes > 10);
  assert_memory_not_equal(w.lengths, w.lengths + half, half * sizeof *w.lengths);
  assert_memory_not_equal(w.samples, w.samples + source.count, source.count * sizeof *w.samples);
}

static void test_ranks_do_not_matter(void **state) {
  (void)state;
  static const uint64_t samples[BUCKETS] = {13, 29, 50};
  static walked alone, together;
  ull_source source = bare_source(samples);
  walk(&source, 12, 1, false, 0, 0, &alone);
  for (uint64_t world = 2; world <= 12; world++) {
    if (12 % world != 0) continue;
    walk(&source, 12 / world, world, false, 0, 0, &together);
    assert_int_equal(together.count, alone.count);
    assert_memory_equal(alone.samples, together.samples, alone.count * sizeof *alone.samples);
    assert_memory_equal(alone.lengths, together.lengths, alone.batches * sizeof *alone.lengths);
  }
}

static void test_goes_on_from_every_batch(void **state) {
  (void)state;
  static const uint64_t samples[BUCKETS] = {13, 29, 50};
  static walked whole, rest;
  ull_source source = bare_source(samples);
  walk(&source, 4, 1, false, 0, 0, &whole);
  uint64_t batches = whole.batches / EPOCHS;
  for (uint64_t at = 0; at < whole.batches; at++) {
    walk(&source, 2, 2, false, at / batches, at % batches * 4, &rest);
    assert_int_equal(rest.batches, whole.batches - at);
    assert_memory_equal(rest.samples, whole.samples + whole.count - rest.count,
                        rest.count * sizeof *rest.samples);
  }
  ull_loader_options options = make_options(&source, 4, 0, 1, false);
  ull__order order;
  check_status(ull__order_create(&options, &order));
  assert_int_equal(ull__order_move(&order, 0, 2), ULL_ERROR_INVALID); /* within a batch */
  assert_int_equal(ull__order_move(&order, 0, batches * 4 + 4), ULL_ERROR_INVALID);
  check_status(ull__order_move(&order, 0, batches * 4));
  assert_int_equal(order.start_epoch, 1);
}

static void test_what_stands_in(void **state) {
  (void)state;
  static const uint64_t samples[BUCKETS] = {3, 5, 7};
  ull_source source = bare_source(samples);
  ull_loader_options options = make_options(&source, 2, 0, 1, false);
  ull__order order;
  ull__order_batch place;
  check_status(ull__order_create(&options, &order));
  for (uint64_t i = 0; ull__order_batch_at(&order, i, &place); i++) {
    ull__epoch_order epoch = ull__order_epoch(&order, place.epoch);
    uint64_t candidates = ull__order_candidates(&order, place.length), seen = 0;
    for (uint64_t attempt = 0; attempt < candidates; attempt++) {
      uint64_t sample = ull__order_stand_in(&order, &epoch, place.position, attempt);
      assert_int_equal(ull__source_sample_length(&source, sample), place.length);
      assert_false(seen >> sample & 1);
      seen |= UINT64_C(1) << sample;
    }
  }
}

static void test_too_large_a_batch(void **state) {
  (void)state;
  static const uint64_t samples[BUCKETS] = {3, 5, 7};
  ull_source source = bare_source(samples);
  ull_loader_options options = make_options(&source, 8, 0, 1, true);
  ull__order order;
  assert_int_equal(ull__order_create(&options, &order), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "7 samples of one length"));
  options.batch_size = 7;
  check_status(ull__order_create(&options, &order));
}

/* ---- the loader ---- */

static ull_source *texts;

static int set_up(void **state) {
  set_up_texts(state);
  texts = open_text_source("text", put_documents("documents.jsonl"), "?seq=48&buckets=4");
  return 0;
}

static int tear_down(void **state) {
  ull_source_close(texts);
  return tear_down_texts(state);
}

static ull_loader *create_loader(ull_loader_options *options, ull_binding bindings[4]) {
  ull_loader *loader;
  for (size_t i = 0; i < 4; i++) bindings[i] = ull_binding_default(options->source, i);
  bindings[2].dtype = ULL_INT32; /* converted */
  options->bindings = bindings;
  options->binding_count = 4;
  check_status(ull_loader_create(options, &loader));
  return loader;
}

/* Shape, place and content of every array. */
static void check_batch(const ull_batch *batch) {
  const ull_bucket *bucket = NULL;
  for (size_t b = 0; b < ull_source_bucket_count(texts); b++)
    if (ull_source_bucket(texts, b)->length == batch->length) bucket = ull_source_bucket(texts, b);
  assert_non_null(bucket);
  for (size_t a = 0; a < batch->array_count; a++) {
    const ull_batch_array *array = &batch->arrays[a];
    uint64_t count = (uint64_t)batch->length, each = count * ull_dtype_bytes(array->dtype);
    assert_int_equal(array->rank, 2);
    assert_int_equal(array->shape[0], batch->samples);
    assert_int_equal(array->shape[1], batch->length);
    assert_int_equal(array->bytes, batch->samples * each);
    for (uint64_t i = 0; i < batch->samples; i++) {
      int64_t wanted[LENGTH];
      assert_in_range(batch->sample_index[i], bucket->first, bucket->first + bucket->samples - 1);
      read_text_array(texts, batch->sample_index[i], (int)a, wanted);
      const uint8_t *got = (const uint8_t *)array->data + i * each;
      for (uint64_t t = 0; t < count; t++) {
        int32_t narrow;
        int64_t value;
        memcpy(&value, got + t * 8 * (array->dtype == ULL_INT64), sizeof value);
        memcpy(&narrow, got + t * 4 * (array->dtype == ULL_INT32), sizeof narrow);
        assert_int_equal(array->dtype == ULL_INT64 ? value : narrow, wanted[t]);
      }
    }
  }
}

static void hash_stream(ull_loader *loader, uint64_t batches, bool looks, char hex[65]) {
  ull__sha256 sha;
  uint8_t digest[32];
  ull__sha256_begin(&sha);
  for (uint64_t n = 0; n < batches; n++) {
    const ull_batch *batch;
    check_status(ull_loader_next(loader, &batch));
    if (batch == NULL) break;
    if (looks) check_batch(batch);
    ull__sha256_add(&sha, &batch->length, sizeof batch->length);
    for (size_t a = 0; a < batch->array_count; a++)
      ull__sha256_add(&sha, batch->arrays[a].data, batch->arrays[a].bytes);
    ull_loader_release(loader, batch);
  }
  ull__sha256_end(&sha, digest);
  for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static void test_threads_do_not_matter(void **state) {
  (void)state;
  char first[65] = "", hex[65];
  static const int workers[] = {0, 1, 2, 5}, slots[] = {1, 2, 7};
  for (size_t w = 0; w < 4; w++)
    for (size_t s = 0; s < 3; s++) {
      ull_loader_options options = ull_loader_options_default(texts);
      ull_binding bindings[4];
      options.batch_size = 24;
      options.workers = workers[w];
      options.prefetch = slots[s];
      options.epochs = 1;
      ull_loader *loader = create_loader(&options, bindings);
      hash_stream(loader, UINT64_MAX, first[0] == '\0', hex);
      assert_int_equal(ull_loader_count(loader).samples, ull_source_sample_count(texts));
      if (first[0] == '\0') memcpy(first, hex, sizeof first);
      assert_string_equal(hex, first);
      ull_loader_destroy(loader);
    }
}

/* A state taken anywhere, taken up by another loader with other threads. */
static void test_resumes(void **state) {
  (void)state;
  char wanted[65], got[65];
  for (uint64_t at = 0; at < 200; at += 23) {
    ull_loader_options options = ull_loader_options_default(texts);
    ull_binding bindings[4];
    options.batch_size = 20;
    ull_loader *loader = create_loader(&options, bindings);
    hash_stream(loader, at, false, wanted);
    ull_loader_state taken = ull_loader_get_state(loader);
    assert_true(sizeof taken <= 64);
    hash_stream(loader, 30, false, wanted);
    ull_loader_destroy(loader);
    options.workers = (int)(at % 3);
    options.prefetch = 1 + (int)(at % 5);
    loader = create_loader(&options, bindings);
    check_status(ull_loader_set_state(loader, &taken));
    hash_stream(loader, 30, false, got);
    assert_string_equal(got, wanted);
    check_status(ull_loader_set_position(loader, (ull_loader_position){0, 0}));
    check_status(ull_loader_set_state(loader, &taken));
    ull_loader_destroy(loader);
    options.batch_size = 10;
    options.world_size = 2; /* the same global batch */
    loader = create_loader(&options, bindings);
    check_status(ull_loader_set_state(loader, &taken));
    ull_loader_destroy(loader);
    options.world_size = 1;
    loader = create_loader(&options, bindings);
    assert_int_equal(ull_loader_set_state(loader, &taken), ULL_ERROR_MISMATCH);
    assert_non_null(strstr(ull_error_last()->message, "global batches"));
    ull_loader_destroy(loader);
  }
}

/* The ring is made for the longest and holds the others. */
static void test_memory(void **state) {
  (void)state;
  ull_loader_options options = ull_loader_options_default(texts);
  ull_binding bindings[4];
  ull_loader_bound bound;
  ull_loader *loader = create_loader(&options, bindings);
  check_status(ull_loader_bound_bytes(&options, &bound));
  uint64_t longest = (uint64_t)ull_source_array(texts, 0)->shape[0];
  assert_int_equal(longest, LENGTH);
  assert_in_range(bound.slot_bytes, 64 * longest * (3 * 8 + 4), 64 * longest * (3 * 8 + 4) + 2048);
  ull_loader_destroy(loader);
  bindings[0].shape[0] = 32;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_MISMATCH);
  bindings[0].shape[0] = LENGTH / 2;
  bindings[0].shape[1] = 2;
  bindings[0].rank = 2;
  assert_int_equal(ull_loader_create(&options, &loader), ULL_ERROR_MISMATCH);
  assert_non_null(strstr(ull_error_last()->message, "several lengths"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_sample_once),
      cmocka_unit_test(test_batches_are_shuffled),
      cmocka_unit_test(test_ranks_do_not_matter),
      cmocka_unit_test(test_goes_on_from_every_batch),
      cmocka_unit_test(test_what_stands_in),
      cmocka_unit_test(test_too_large_a_batch),
      cmocka_unit_test(test_threads_do_not_matter),
      cmocka_unit_test(test_resumes),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
