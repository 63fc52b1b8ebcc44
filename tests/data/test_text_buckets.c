/* Sequences in buckets of lengths: which lengths, what is in them, and the stream of their batches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/order.h"
#include "data/text/buckets.h"
#include "support/text_sources.h"

/* ---- lengths ---- */

static void test_what_is_asked_for(void **state) {
  (void)state;
  ull__bucket_lengths buckets;
  check_status(ull__bucket_lengths_parse(NULL, 64, &buckets));
  assert_int_equal(buckets.count, 0);
  check_status(ull__bucket_lengths_parse("8", 64, &buckets));
  assert_int_equal(buckets.count, 8);
  assert_int_equal(buckets.lengths[0], 0);
  check_status(ull__bucket_lengths_parse("16,40,64", 64, &buckets));
  assert_int_equal(buckets.count, 3);
  assert_int_equal(buckets.lengths[1], 40);
  check_status(ull__bucket_lengths_parse("16,", 64, &buckets));
  assert_int_equal(buckets.count, 2);
  assert_int_equal(buckets.lengths[1], 64);
  check_status(ull__bucket_lengths_parse("1,2,3,4,5,6,7,64", 64, &buckets));
  static const char *const bad[] = {"0",      "9",  "x",  "16,16",           "32,16", "16,65",
                                    "16,,32", "4x", "-1", "1,2,3,4,5,6,7,8", ",",     "16,32,64k"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(ull__bucket_lengths_parse(bad[i], 64, &buckets), ULL_ERROR_USAGE);
    assert_non_null(strstr(ull_error_last()->message, bad[i]));
  }
}

static uint64_t slots_of(const ull__bucket_lengths *buckets, const uint64_t *pieces, int longest) {
  uint64_t slots = 0;
  for (int length = 1; length <= longest; length++)
    slots +=
        pieces[length] * (uint64_t)buckets->lengths[ull__bucket_find(buckets, (uint64_t)length)];
  return slots;
}

/* Against all choices of three lengths. */
static void test_the_best_lengths(void **state) {
  (void)state;
  enum { LONGEST = 100 };
  uint32_t random = 5;
  for (int round = 0; round < 40; round++) {
    uint64_t pieces[LONGEST + 1] = {0}, least = UINT64_MAX;
    ull__length_counts counts = ull__length_counts_create(LONGEST);
    for (int i = 0; i < 200; i++) {
      uint32_t length = 1 + next_random(&random) % (round % 2 ? LONGEST : 1 + i % LONGEST);
      ull__length_counts_add(&counts, length);
      pieces[length]++;
    }
    ull__bucket_lengths best;
    check_status(ull__bucket_lengths_choose(&counts, 3, &best));
    assert_int_equal(best.count, 3);
    assert_int_equal(best.lengths[2], LONGEST);
    assert_int_equal(best.lengths[0] % 8 + best.lengths[1] % 8, 0);
    for (int64_t a = 8; a < LONGEST; a += 8) {
      for (int64_t b = a + 8; b < LONGEST; b += 8) {
        const ull__bucket_lengths other = {3, {a, b, LONGEST}};
        uint64_t slots = slots_of(&other, pieces, LONGEST);
        if (slots < least) least = slots;
      }
    }
    assert_int_equal(slots_of(&best, pieces, LONGEST), least);
  }
  ull__bucket_lengths few;
  ull__length_counts counts = ull__length_counts_create(12);
  check_status(ull__bucket_lengths_choose(&counts, 8, &few));
  assert_int_equal(few.count, 2);
  counts = ull__length_counts_create(1 << 24);
  ull__length_counts_add(&counts, 1 << 24);
  ull__length_counts_add(&counts, 1);
  check_status(ull__bucket_lengths_choose(&counts, 2, &few));
  assert_int_equal(few.lengths[1], 1 << 24);
}

/* ---- sequences ---- */

static void test_what_a_bucket_holds(void **state) {
  (void)state;
  static const char lines[] = "{\"text\":\"abcde\"}\n"
                              "{\"text\":\"xy\"}\n"
                              "{\"text\":\"longer than eight\"}\n"
                              "{\"prompt\":\"Q:\",\"completion\":\"no\"}\n"
                              "{\"text\":\"pq\"}\n";
  const char *path = put_text("some.jsonl", lines, sizeof lines - 1);
  ull_source *source = open_text_source("text", path, "?seq=8&buckets=2,6");
  assert_int_equal(ull_source_sample_count(source), 7); /* one of five in three pieces */
  assert_int_equal(ull_source_bucket_count(source), 3);
  const ull_bucket *bucket = ull_source_bucket(source, 2);
  assert_null(ull_source_bucket(source, 3));
  assert_int_equal(bucket->length, 8);
  assert_int_equal(bucket->first, 5);
  assert_int_equal(bucket->samples, 2);
  assert_string_equal(ull_source_bucket_lengths(source), "2,6,8");
  assert_int_equal(ull_source_array(source, INPUT)->sample_bytes, 64);
  EXPECT(source, 0, INPUT, 'x', 'y');
  EXPECT(source, 0, TARGET, 'y', EOT);
  EXPECT(source, 1, INPUT, 't', EOT);
  EXPECT(source, 1, TARGET, EOT, IGNORED);
  EXPECT(source, 1, DOCUMENT, 0, 1);
  EXPECT(source, 2, INPUT, 'p', 'q');
  EXPECT(source, 3, INPUT, 'a', 'b', 'c', 'd', 'e', EOT);
  EXPECT(source, 3, POSITION, 0, 1, 2, 3, 4, 0);
  EXPECT(source, 4, TARGET, IGNORED, 'n', 'o', EOT, IGNORED, IGNORED);
  EXPECT(source, 5, INPUT, 'l', 'o', 'n', 'g', 'e', 'r', ' ', 't');
  EXPECT(source, 6, INPUT, 'h', 'a', 'n', ' ', 'e', 'i', 'g', 'h');
  ull_source_close(source);
  source = open_text_source("text", path, "?seq=40&buckets=3,");
  assert_int_equal(ull_source_bucket_count(source), 2);
  ull_source_close(source);
  source = open_text_source("text", path, "?seq=40&buckets=20,30"); /* nothing is so long */
  assert_int_equal(ull_source_bucket_count(source), 1);
  assert_int_equal(ull_source_array(source, INPUT)->shape[0], 20);
  assert_string_equal(ull_source_bucket_lengths(source), "20,30,40");
  ull_source_close(source);
  assert_int_equal(try_text_source("text", path, "?seq=8&buckets=4&pack=1"), ULL_ERROR_USAGE);
  assert_int_equal(try_text_source("text", path, "?seq=8&buckets=12,16"), ULL_ERROR_USAGE);
  assert_int_equal(try_text_source("text", path, "?seq=8&buckets=none"), ULL_ERROR_USAGE);
}

/* Every document whole and once, whatever the buckets; less is filled up. */
static void expect_all_documents(const ull_source *source, uint64_t wanted) {
  uint64_t targets = 0, firsts = 0;
  unsigned char seen[DOCUMENTS] = {0};
  for (uint64_t i = 0; i < ull_source_sample_count(source); i++) {
    int64_t input[LENGTH], target[LENGTH], number = 0;
    int64_t length = ull__source_sample_length(source, i);
    read_text_array(source, i, INPUT, input);
    read_text_array(source, i, TARGET, target);
    for (int64_t t = 0; t < length; t++) targets += target[t] != IGNORED;
    if (input[0] < 'a') continue; /* a later piece: upper case */
    for (int k = 4; k >= 0; k--) number = number * 10 + input[k] - 'a';
    assert_in_range(number, 0, DOCUMENTS - 1);
    seen[number]++;
    firsts++;
  }
  assert_int_equal(targets, wanted);
  assert_int_equal(firsts, DOCUMENTS);
  for (int i = 0; i < DOCUMENTS; i++) assert_int_equal(seen[i], 1);
}

static double padding_of(const ull_source *source) {
  const char *at = strstr(ull_source_note(source), " % padding");
  assert_non_null(at);
  while (at[-1] != ' ') at--;
  return strtod(at, NULL);
}

static void test_every_document_once(void **state) {
  (void)state;
  uint64_t targets = 0;
  for (int i = 0; i < DOCUMENTS; i++) {
    char text[256];
    targets += document_text(i, text);
  }
  const char *path = put_documents("documents.jsonl");
  ull_source *source = open_text_source("text", path, "?seq=48");
  double without = padding_of(source), before = 100;
  ull_source_close(source);
  static const char *const options[] = {"?seq=48&buckets=1", "?seq=48&buckets=2",
                                        "?seq=48&buckets=4", "?seq=48&buckets=6"};
  for (size_t i = 0; i < 4; i++) {
    source = open_text_source("text", path, options[i]);
    expect_all_documents(source, targets);
    assert_true(padding_of(source) < before);
    before = padding_of(source);
    ull_source_close(source);
  }
  assert_true(before < without / 4);
  int kept = count_kept("sequences");
  source = open_text_source("text", path, "?seq=48&buckets=4"); /* found, not made */
  assert_int_equal(count_kept("sequences"), kept);
  assert_int_equal(ull_source_bucket_count(source), 4);
  ull_source_close(source);
}

static ull_source *open_part(const char *path, ull_split split) {
  ull_source_options options = ull_source_options_default();
  ull_source *source;
  char *text = ull__format("text:%s", path);
  options.sequence = LENGTH;
  options.buckets = "4";
  options.split = split;
  options.val_split = 0.1;
  check_status(ull_source_open(text, &options, &source));
  ull__free(text);
  return source;
}

static void test_a_part_is_held_out(void **state) {
  (void)state;
  const char *path = put_documents("parts.jsonl");
  ull_source *whole = open_text_source("text", path, "?seq=48&buckets=4");
  uint64_t stored = ull_source_sample_count(whole);
  unsigned char *seen = ull__alloc(stored, 1);
  uint64_t counts[2];
  for (int part = 0; part < 2; part++) {
    ull_source *source = open_part(path, part ? ULL_SPLIT_EVAL : ULL_SPLIT_TRAIN);
    counts[part] = ull_source_sample_count(source);
    for (uint64_t i = 0; i < counts[part]; i++) {
      uint64_t at = ull__source_stored_index(source, i);
      assert_int_equal(ull__source_sample_length(source, i), ull__source_sample_length(whole, at));
      seen[at]++;
    }
    ull_source_close(source);
  }
  assert_int_equal(counts[0] + counts[1], stored);
  assert_in_range(counts[1], stored / 10 - 2, stored / 10 + 2);
  for (uint64_t i = 0; i < stored; i++) assert_int_equal(seen[i], 1);
  ull__free(seen);
  ull_source_close(whole);
}

static void test_files_of_tokens(void **state) {
  (void)state;
  static const uint16_t words[] = {1, 2, 9, 3, 4, 5, 6, 9, 7, 9};
  const char *path = put_text("words.bin", words, sizeof words);
  ull_source *source = open_text_source("tokens", path, "?seq=4&eot=9&buckets=1,2");
  assert_int_equal(ull_source_sample_count(source), 3);
  EXPECT(source, 0, INPUT, 7);
  EXPECT(source, 0, TARGET, 9);
  EXPECT(source, 1, INPUT, 1, 2);
  EXPECT(source, 2, INPUT, 3, 4, 5, 6);
  ull_source_close(source);
}

/* What a kept file says is checked. */
static void damage_buckets(const char *path, void *context) {
  (void)context;
  if (strstr(path, "/sequences-") == NULL) return;
  size_t count;
  uint8_t *bytes = read_file(path, &count);
  bytes[count - 16] ^= 0x41; /* 48, the last length */
  write_file(path, bytes, count);
  free(bytes);
}

static void test_damage(void **state) {
  (void)state;
  empty_text_cache();
  const char *path = put_documents("damaged.jsonl");
  ull_source *source = open_text_source("text", path, "?seq=48&buckets=4");
  ull_source_close(source);
  each_kept(damage_buckets, NULL);
  assert_int_equal(try_text_source("text", path, "?seq=48&buckets=4"), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "damaged"));
  empty_text_cache();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_asked_for),
      cmocka_unit_test(test_the_best_lengths),
      cmocka_unit_test(test_what_a_bucket_holds),
      cmocka_unit_test(test_every_document_once),
      cmocka_unit_test(test_a_part_is_held_out),
      cmocka_unit_test(test_files_of_tokens),
      cmocka_unit_test(test_damage),
  };
  return cmocka_run_group_tests(tests, set_up_texts, tear_down_texts);
}
