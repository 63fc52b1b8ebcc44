/* The order of a stream: a partition over ranks, equal numbers of batches, the same global stream
 * for any number of ranks, from any position on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/order.h"

enum { SAMPLES_MAX = 48, EPOCHS = 2 };

/* A source that is nothing but a number of samples. */
static const ull__source_kind bare_kind = {.scheme = "bare"};

static ull_source bare_source(uint64_t count) {
  static char text[] = "bare";
  return (ull_source){.kind = &bare_kind, .text = text, .count = count, .stored_count = count};
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

static ull__order create(const ull_loader_options *options) {
  ull__order order;
  assert_int_equal(ull__order_create(options, &order), ULL_OK);
  return order;
}

/* The samples of all ranks of every global batch, one behind the other; returns their number. */
static size_t walk(const ull_source *source, uint64_t batch, uint64_t world, bool drop_last,
                   uint64_t epoch, uint64_t position, uint64_t *samples, size_t *batches) {
  size_t count = 0;
  for (*batches = 0;; ++*batches) {
    uint64_t ended = 0, least = UINT64_MAX, most = 0;
    for (uint64_t rank = 0; rank < world; rank++) {
      ull_loader_options options = make_options(source, batch, rank, world, drop_last);
      ull__order order = create(&options);
      assert_int_equal(ull__order_move(&order, epoch, position), ULL_OK);
      ull__order_batch place;
      if (!ull__order_batch_at(&order, *batches, &place)) {
        ended++;
        continue;
      }
      least = place.samples < least ? place.samples : least;
      most = place.samples > most ? place.samples : most;
      ull__epoch_order epoch_order = ull__order_epoch(&order, place.epoch);
      for (uint64_t i = 0; i < place.samples; i++)
        samples[count++] = ull__order_sample(&order, &epoch_order, place.position + i);
    }
    assert_true(ended == 0 || ended == world); /* as many batches on every rank */
    if (ended > 0) return count;
    assert_true(most - least <= 1);
    assert_true(most <= batch);
  }
}

static void every_rank_has_its_part(void **state) {
  (void)state;
  uint64_t samples[EPOCHS * SAMPLES_MAX];
  for (uint64_t n = 1; n <= SAMPLES_MAX; n += 1 + n / 8)
    for (uint64_t world = 1; world <= 8; world++)
      for (uint64_t batch = 1; batch <= 9; batch += 2)
        for (int drop = 0; drop < 2; drop++) {
          ull_source source = bare_source(n);
          if (drop && n < batch * world) continue;
          size_t batches, count = walk(&source, batch, world, drop, 0, 0, samples, &batches);
          uint64_t per_epoch =
              drop ? n / (batch * world) : (n + batch * world - 1) / (batch * world);
          assert_int_equal(batches, EPOCHS * per_epoch);
          uint64_t kept = drop ? per_epoch * batch * world : n;
          assert_int_equal(count, EPOCHS * kept);
          for (int e = 0; e < EPOCHS; e++) {
            int seen[SAMPLES_MAX] = {0};
            for (uint64_t i = 0; i < kept; i++) seen[samples[(uint64_t)e * kept + i]]++;
            for (uint64_t i = 0; i < n; i++) assert_true(seen[i] <= 1);
          }
        }
}

static void ranks_do_not_matter(void **state) {
  (void)state;
  uint64_t alone[EPOCHS * SAMPLES_MAX], together[EPOCHS * SAMPLES_MAX];
  for (uint64_t n = 5; n <= SAMPLES_MAX; n++) {
    ull_source source = bare_source(n);
    size_t batches, wanted_batches;
    size_t wanted = walk(&source, 24, 1, false, 0, 0, alone, &wanted_batches);
    static const uint64_t worlds[] = {2, 3, 4, 6, 8, 12, 24};
    for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
      size_t count = walk(&source, 24 / worlds[w], worlds[w], false, 0, 0, together, &batches);
      assert_int_equal(count, wanted);
      assert_int_equal(batches, wanted_batches);
      assert_memory_equal(alone, together, wanted * sizeof *alone);
    }
  }
}

/* From any sample of any epoch, whatever the batch: what follows is what would have followed. */
static void goes_on_from_anywhere(void **state) {
  (void)state;
  uint64_t whole[EPOCHS * SAMPLES_MAX], rest[EPOCHS * SAMPLES_MAX];
  enum { N = 37 };
  ull_source source = bare_source(N);
  size_t batches;
  size_t all = walk(&source, 5, 1, false, 0, 0, whole, &batches);
  for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
    for (uint64_t position = 0; position <= N; position++)
      for (uint64_t world = 1; world <= 3; world++) {
        size_t from = epoch * N + position;
        size_t count = walk(&source, 4, world, false, epoch, position, rest, &batches);
        assert_int_equal(count, all - from);
        assert_memory_equal(rest, whole + from, count * sizeof *rest);
      }
  ull_loader_options options = make_options(&source, 5, 0, 1, false);
  ull__order order = create(&options);
  assert_int_equal(ull__order_move(&order, 0, N + 1), ULL_ERROR_INVALID);
  assert_int_equal(ull__order_move(&order, EPOCHS, 1), ULL_ERROR_INVALID);
  assert_int_equal(ull__order_move(&order, UINT64_MAX, 0), ULL_ERROR_INVALID);
  assert_int_equal(ull__order_move(&order, EPOCHS, 0), ULL_OK);
}

static void positions_come_back(void **state) {
  (void)state;
  ull_source source = bare_source(37);
  for (uint64_t start = 0; start < 37; start += 3) {
    ull_loader_options options = make_options(&source, 4, 1, 2, false);
    ull__order order = create(&options);
    ull__order_move(&order, 0, start);
    ull__order_batch place, again;
    for (uint64_t sequence = 0; ull__order_batch_at(&order, sequence, &place); sequence++) {
      ull__order moved = order;
      uint64_t epoch, position;
      ull__order_position(&order, sequence, &epoch, &position);
      assert_int_equal(ull__order_move(&moved, epoch, position), ULL_OK);
      assert_true(ull__order_batch_at(&moved, 0, &again));
      assert_memory_equal(&place, &again, sizeof place);
    }
  }
}

static void nonsense_is_refused(void **state) {
  (void)state;
  ull__order order;
  ull_source source = bare_source(10);
  ull_loader_options options = make_options(&source, 4, 2, 2, false);
  assert_int_equal(ull__order_create(&options, &order), ULL_ERROR_USAGE);
  options = make_options(&source, 4, 0, 3, true);
  assert_int_equal(ull__order_create(&options, &order), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "10 samples do not make one batch of 12"));
  options = make_options(&source, UINT64_MAX / 2, 0, 4, false);
  assert_int_equal(ull__order_create(&options, &order), ULL_ERROR_OVERFLOW);
}

static void fingerprints_tell_streams_apart(void **state) {
  (void)state;
  ull_source ten = bare_source(10), eleven = bare_source(11);
  ull_loader_options options[4] = {
      make_options(&ten, 2, 0, 1, false), make_options(&eleven, 2, 0, 1, false),
      make_options(&ten, 2, 0, 1, false), make_options(&ten, 2, 0, 1, false)};
  options[2].seed = 8;
  options[3].shuffle = false;
  uint64_t prints[4];
  for (int i = 0; i < 4; i++) {
    ull__order order = create(&options[i]);
    prints[i] = ull__order_fingerprint(&order);
    for (int k = 0; k < i; k++) assert_true(prints[i] != prints[k]);
  }
  options[0].batch_size = 5; /* how it is cut does not matter */
  options[0].world_size = 2;
  ull__order order = create(&options[0]);
  assert_true(ull__order_fingerprint(&order) == prints[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_rank_has_its_part), cmocka_unit_test(ranks_do_not_matter),
      cmocka_unit_test(goes_on_from_anywhere),   cmocka_unit_test(positions_come_back),
      cmocka_unit_test(nonsense_is_refused),     cmocka_unit_test(fingerprints_tell_streams_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
