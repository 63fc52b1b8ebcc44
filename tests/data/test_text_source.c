/* Sources of text: blocks, documents and packed sequences, loss masks, long texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"
#include "data/text/sequences.h"
#include "data/text/tokenizer.h"
#include "support/text_sources.h"

/* ---- blocks ---- */

static void test_blocks_of_a_text(void **state) {
  (void)state;
  ull_source *source = open_text_source("text", put_text("plain.txt", "abcdefghijk", 11), "?seq=4");
  assert_int_equal(ull_source_sample_count(source), 2); /* 12 tokens, 11 of them inputs */
  EXPECT(source, 0, INPUT, 'a', 'b', 'c', 'd');
  EXPECT(source, 0, TARGET, 'b', 'c', 'd', 'e');
  EXPECT(source, 1, INPUT, 'e', 'f', 'g', 'h');
  EXPECT(source, 1, TARGET, 'f', 'g', 'h', 'i');
  EXPECT(source, 1, POSITION, 0, 1, 2, 3);
  EXPECT(source, 1, DOCUMENT, 0, 0, 0, 0);
  assert_false(ull_source_array(source, TARGET)->has_ignored);
  assert_int_equal(ull_source_array(source, INPUT)->maximum, EOT);
  assert_string_equal(ull_source_array(source, TARGET)->name, "target");
  assert_int_equal(ull_source_array(source, TARGET)->role, ULL_ARRAY_TARGET);
  ull_source_close(source);
  source = open_text_source("text", path_in(text_folder, "plain.txt"), "?seq=11");
  assert_int_equal(ull_source_sample_count(source), 1);
  EXPECT(source, 0, TARGET, 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', EOT);
  ull_source_close(source);
  assert_int_equal(try_text_source("text", path_in(text_folder, "plain.txt"), "?seq=12"),
                   ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->change, "smaller --seq"));
}

static void test_answers_that_begin_too_late(void **state) {
  (void)state;
  static const char line[] = "{\"prompt\":\"a long question\",\"completion\":\"yes\"}\n";
  const char *path = put_text("late.jsonl", line, sizeof line - 1);
  assert_int_equal(try_text_source("text", path, "?seq=8"), ULL_ERROR_DATA);
  assert_non_null(
      strstr(ull_error_last()->message, "none of its 1 documents has a target within 8"));
  assert_non_null(strstr(ull_error_last()->change, "longer --seq"));
}

/* ---- documents ---- */

static void test_documents_of_lines(void **state) {
  (void)state;
  static const char lines[] = "\xef\xbb\xbf{\"text\":\"abc\",\"id\":123456789012345678901}\n"
                              "\n"
                              "{\"prompt\":\"Q:\",\"completion\":\"yes\"}\r\n"
                              "{\"text\":\"\"}\n"
                              "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
                              "{\"role\":\"assistant\",\"content\":\"yo\"}]}\n"
                              "{\"text\":\"longer than eight\"}\n"
                              "{\"text\":\"a\\u0000b\"}";
  ull_source *source =
      open_text_source("text", put_text("lines.jsonl", lines, sizeof lines - 1), "?seq=8");
  /* The empty one is left out, and the conversation, whose answer begins too late. */
  assert_int_equal(ull_source_sample_count(source), 4);
  assert_non_null(strstr(ull_source_note(source), "2 cut, 2 without targets left out"));
  EXPECT(source, 0, INPUT, 'a', 'b', 'c', EOT, EOT, EOT, EOT, EOT);
  EXPECT(source, 0, TARGET, 'b', 'c', EOT, IGNORED, IGNORED, IGNORED, IGNORED, IGNORED);
  EXPECT(source, 0, DOCUMENT, 0, 0, 0, 1, 1, 1, 1, 1);
  EXPECT(source, 0, POSITION, 0, 1, 2, 0, 1, 2, 3, 4);
  EXPECT(source, 1, INPUT, 'Q', ':', 'y', 'e', 's', EOT, EOT, EOT);
  EXPECT(source, 1, TARGET, IGNORED, 'y', 'e', 's', EOT, IGNORED, IGNORED, IGNORED);
  EXPECT(source, 2, TARGET, 'o', 'n', 'g', 'e', 'r', ' ', 't', 'h');
  EXPECT(source, 3, INPUT, 'a', 0, 'b', EOT, EOT, EOT, EOT, EOT);
  assert_true(ull_source_array(source, TARGET)->has_ignored);
  assert_int_equal(ull_source_array(source, TARGET)->ignored, IGNORED);
  ull_source_close(source);
}

/* "user: hi\nassistant: yo\n" and the end: what the assistant says is learnt. */
static void test_conversations(void **state) {
  (void)state;
  static const char line[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
                             "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":"
                             "\"yo\"}]}]}\n";
  static const char expected[] = "user: hi\nassistant: yo\n";
  int64_t input[32], target[32];
  ull_source *source =
      open_text_source("text", put_text("chat.jsonl", line, sizeof line - 1), "?seq=32");
  read_text_array(source, 0, INPUT, input);
  read_text_array(source, 0, TARGET, target);
  const int count = (int)sizeof expected - 1, learnt = count - 3;
  for (int i = 0; i < 32; i++) {
    assert_int_equal(input[i], i < count ? expected[i] : EOT);
    int64_t next = i + 1 < count ? expected[i + 1] : EOT;
    assert_int_equal(target[i], i + 1 >= learnt && i < count ? next : IGNORED);
  }
  ull_source_close(source);
}

static void test_the_form_of_a_tokenizer(void **state) {
  (void)state;
  static const char line[] = "{\"messages\":[{\"role\":\"user\",\"content\":\" hi there \\n\"},"
                             "{\"role\":\"assistant\",\"content\":\"and so?\"}]}\n";
  static const char text[] = "<|start_header_id|>user<|end_header_id|>\n\nhi there<|eot_id|>"
                             "<|start_header_id|>assistant<|end_header_id|>\n\nand so?<|eot_id|>";
  const char *root = getenv("ULLAGE_SOURCE_DIR");
  char *tokenizer_path = ull__format("%s/tests/data/text/llama3.json", root ? root : ".");
  char *options = ull__format("?seq=64&tokenizer=%s", tokenizer_path);
  ull__tokenizer *tokenizer;
  ull__encoder *encoder;
  ull__token_list ids = {0};
  int64_t input[64], target[64];
  check_status(ull__tokenizer_open(tokenizer_path, &tokenizer));
  check_status(ull__encoder_create(tokenizer, &encoder));
  check_status(ull__encode(encoder, text, sizeof text - 1, false, &ids));
  ull_source *source =
      open_text_source("text", put_text("llama.jsonl", line, sizeof line - 1), options);
  read_text_array(source, 0, INPUT, input);
  read_text_array(source, 0, TARGET, target);
  assert_int_equal(input[0], ull__tokenizer_find(tokenizer, "<|begin_of_text|>"));
  for (size_t i = 0; i < ids.count; i++) assert_int_equal(input[i + 1], ids.items[i]);
  int learnt = 0;
  for (size_t i = 0; i < ids.count; i++) learnt += target[i] != IGNORED;
  ull__token_list answer = {0};
  check_status(ull__encode(encoder, "and so?<|eot_id|>", 17, true, &answer));
  assert_int_equal(learnt, answer.count);
  assert_int_equal(target[ids.count], ull__tokenizer_find(tokenizer, "<|end_of_text|>"));
  ull_source_close(source);
  ull__vector_free(&ids);
  ull__vector_free(&answer);
  ull__encoder_destroy(encoder);
  ull__tokenizer_close(tokenizer);
  ull__free(tokenizer_path);
  ull__free(options);
}

/* Lines changed at random are read, or left out; nothing else happens. */
static void test_mutated_lines(void **state) {
  (void)state;
  static const char line[] =
      "{\"text\":\"abc\\u00e9\"}\n{\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}"
      ","
      "{\"role\":\"assistant\",\"content\":\"b\"}]}\n{\"prompt\":\"p\",\"completion\":\"c\"}\n";
  uint32_t random = 17;
  int read = 0;
  for (int round = 0; round < 150; round++) {
    char changed[sizeof line];
    memcpy(changed, line, sizeof line);
    for (int k = 0; k < 1 + round % 3; k++) {
      size_t at = next_random(&random) % (sizeof line - 1);
      changed[at] = "\"{}[],:\\\n0\xff\0"
                    "a"[next_random(&random) % 13];
    }
    write_file(path_in(text_folder, "mutated.jsonl"), changed, sizeof line - 1);
    ull_status status =
        try_text_source("text", path_in(text_folder, "mutated.jsonl"), "?seq=8&pack=1&bad=skip");
    read += status == ULL_OK;
    if (status != ULL_OK && status != ULL_ERROR_DATA) fail_msg("%s", ull_error_last()->message);
  }
  assert_true(read > 100);
}

/* ---- packing ---- */

typedef struct seen {
  bool parts[DOCUMENTS][4]; /* pieces of each document */
  uint64_t inputs;
} seen;

/* Finds the document, and the place in it, that the first inputs of a piece come from: pieces of
 * long documents begin at multiples of LENGTH. */
static void check_piece(seen *s, const int64_t *input, const int64_t *target,
                        const int64_t *position, int count) {
  for (int i = 0; i < DOCUMENTS; i++) {
    char text[256];
    int length = (int)document_text(i, text);
    for (int at = 0; at < length; at += LENGTH) {
      int inputs = length - at < LENGTH ? length - at : LENGTH;
      if (inputs != count || s->parts[i][at / LENGTH]) continue;
      bool same = true;
      for (int k = 0; k < count && same; k++) same = input[k] == text[at + k];
      if (!same) continue;
      for (int k = 0; k < count; k++) {
        assert_int_equal(position[k], k);
        assert_int_equal(target[k], at + k + 1 < length ? text[at + k + 1] : EOT);
      }
      s->parts[i][at / LENGTH] = true;
      s->inputs += (uint64_t)count;
      return;
    }
  }
  fail_msg("a piece of %d inputs is of no document, or comes twice", count);
}

static void check_sequence(const ull_source *source, uint64_t sample, seen *s) {
  int64_t a[4][LENGTH];
  for (int array = 0; array < 4; array++) read_text_array(source, sample, array, a[array]);
  int begin = 0;
  for (int number = 0; begin < LENGTH; number++) {
    int end = begin;
    while (end < LENGTH && a[DOCUMENT][end] == number) end++;
    if (a[TARGET][begin] == IGNORED) { /* what fills up, to the end */
      assert_int_equal(end, LENGTH);
      for (int k = begin; k < end; k++) {
        assert_int_equal(a[INPUT][k], EOT);
        assert_int_equal(a[TARGET][k], IGNORED);
        assert_int_equal(a[POSITION][k], k - begin);
      }
      return;
    }
    assert_true(end > begin);
    check_piece(s, a[INPUT] + begin, a[TARGET] + begin, a[POSITION] + begin, end - begin);
    begin = end;
  }
}

/* Every document is there once, whole where it fits; little is padding. */
static void test_packed_documents(void **state) {
  (void)state;
  ull_source *source = open_text_source("text", put_documents("docs.jsonl"), "?seq=48&pack=1");
  seen *s = calloc(1, sizeof *s);
  uint64_t inputs = 0;
  for (uint64_t i = 0; i < ull_source_sample_count(source); i++) check_sequence(source, i, s);
  for (int i = 0; i < DOCUMENTS; i++) {
    char text[256];
    size_t length = document_text(i, text);
    inputs += length;
    for (size_t at = 0; at < length; at += LENGTH) assert_true(s->parts[i][at / LENGTH]);
  }
  assert_int_equal(s->inputs, inputs);
  uint64_t slots = ull_source_sample_count(source) * LENGTH;
  print_message("%s\n", ull_source_note(source));
  assert_true((double)(slots - inputs) < 0.02 * (double)slots);
  free(s);
  ull_source_close(source);
}

/* The sums of bins, and the bound of best fit decreasing: at most 11/9 of the least, and 1. */
static void test_packing_alone(void **state) {
  (void)state;
  static ull__piece pieces[ULL__PACKING_WINDOW];
  static uint32_t bin[ULL__PACKING_WINDOW];
  uint32_t random = 3;
  for (int round = 0; round < 40; round++) {
    static const int64_t lengths[] = {1, 2, 63, 64, 65, 1000, 4096};
    int64_t length = lengths[round % 7];
    size_t count = 1 + next_random(&random) % (round < 38 ? 700 : ULL__PACKING_WINDOW), bins = 0;
    uint64_t total = 0, room[ULL__PACKING_WINDOW] = {0};
    for (size_t i = 0; i < count; i++) {
      pieces[i].length = 1 + next_random(&random) % (uint64_t)length;
      if (round % 3 == 0) pieces[i].length = 1 + pieces[i].length / 4;
      if (pieces[i].length > (uint64_t)length) pieces[i].length = (uint64_t)length;
      total += pieces[i].length;
    }
    check_status(ull__pack_pieces(pieces, count, length, bin, &bins));
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
      assert_true(bin[i] < bins && bin[i] <= next);
      if (bin[i] == next) next++;
      room[bin[i]] += pieces[i].length;
    }
    assert_int_equal(next, bins);
    for (size_t b = 0; b < bins; b++) assert_true(room[b] > 0 && room[b] <= (uint64_t)length);
    for (size_t b = 0; b < bins; b++) { /* no two bins fit into one */
      if (b > 0) assert_true(room[b] + room[b - 1] > (uint64_t)length || bins > 2);
    }
    uint64_t least = (total + (uint64_t)length - 1) / (uint64_t)length;
    if (round % 3 == 0) assert_true(bins <= least * 11 / 9 + 1);
  }
}

/* A long prompt fills pieces in which nothing is learnt: they are left out. */
static void test_pieces_without_targets(void **state) {
  (void)state;
  static const char line[] = "{\"prompt\":\"aaaaaaaabbbbbbbbcccc\",\"completion\":\"xyz\"}\n"
                             "{\"prompt\":\"only this\",\"completion\":\"\"}\n"
                             "{\"messages\":[{\"role\":\"user\",\"content\":\"alone\"}]}\n";
  const char *path = put_text("masked.jsonl", line, sizeof line - 1);
  ull_source *source = open_text_source("text", path, "?seq=8&pack=1");
  assert_int_equal(ull_source_sample_count(source), 1);
  EXPECT(source, 0, INPUT, 'c', 'c', 'c', 'c', 'x', 'y', 'z', EOT);
  EXPECT(source, 0, TARGET, IGNORED, IGNORED, IGNORED, 'x', 'y', 'z', EOT, IGNORED);
  assert_non_null(strstr(ull_source_note(source), "without targets"));
  ull_source_close(source);
  assert_int_equal(try_text_source("text", path, "?seq=8"),
                   ULL_ERROR_DATA); /* cut before it begins */
}

/* ---- long texts ---- */

/* Parts of a text longer than the buffer give the numbers of the whole. */
static void test_a_long_text(void **state) {
  (void)state;
  static const char *const kinds[] = {"gpt2", "llama2"};
  const char *root = getenv("ULLAGE_SOURCE_DIR");
  byte_buffer text = {0};
  uint32_t random = 5;
  while (text.count < (5 << 19)) {
    static const char *const words[] = {"the ", "and\n", "king's ", "é",
                                        "\n\n", "123",   "  ",      "日本。\n"};
    const char *word = words[next_random(&random) % 8];
    append_bytes(&text, word, strlen(word));
  }
  const char *path = put_text("long.txt", text.bytes, text.count);
  for (int k = 0; k < 2; k++) {
    char *tokenizer_path = ull__format("%s/tests/data/text/%s.json", root ? root : ".", kinds[k]);
    char *options = ull__format("?seq=1000&tokenizer=%s", tokenizer_path);
    ull__tokenizer *tokenizer;
    ull__encoder *encoder;
    ull__token_list ids = {0};
    int64_t input[1000];
    check_status(ull__tokenizer_open(tokenizer_path, &tokenizer));
    check_status(ull__encoder_create(tokenizer, &encoder));
    check_status(ull__encode(encoder, text.bytes, text.count, false, &ids));
    size_t prefix;
    ull__tokenizer_prefix(tokenizer, &prefix);
    ull_source *source = open_text_source("text", path, options);
    assert_int_equal(ull_source_sample_count(source), (ids.count + prefix) / 1000);
    for (uint64_t i = 0; i < ull_source_sample_count(source); i++) {
      read_text_array(source, i, INPUT, input);
      for (size_t n = i == 0 ? prefix : 0; n < 1000; n++)
        assert_int_equal(input[n], ids.items[i * 1000 + n - prefix]);
    }
    ull_source_close(source);
    ull__vector_free(&ids);
    ull__encoder_destroy(encoder);
    ull__tokenizer_close(tokenizer);
    ull__free(tokenizer_path);
    ull__free(options);
  }
  free_buffer(&text);
}

/* The end of text within a text divides it into documents. */
static void test_ends_within_a_text(void **state) {
  (void)state;
  static const char text[] = "a\x01"
                             "bcd\x01"
                             "ef";
  ull_source *source =
      open_text_source("text", put_text("ends.txt", text, sizeof text - 1), "?seq=4&pack=1&eot=1");
  assert_int_equal(ull_source_sample_count(source), 2);
  EXPECT(source, 0, INPUT, 'a', 'b', 'c', 'd');
  EXPECT(source, 0, TARGET, 1, 'c', 'd', 1);
  EXPECT(source, 0, DOCUMENT, 0, 1, 1, 1);
  EXPECT(source, 1, INPUT, 'e', 'f', 1, 1);
  EXPECT(source, 1, TARGET, 'f', 1, IGNORED, IGNORED);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_blocks_of_a_text),
      cmocka_unit_test(test_documents_of_lines),
      cmocka_unit_test(test_answers_that_begin_too_late),
      cmocka_unit_test(test_conversations),
      cmocka_unit_test(test_the_form_of_a_tokenizer),
      cmocka_unit_test(test_mutated_lines),
      cmocka_unit_test(test_packed_documents),
      cmocka_unit_test(test_packing_alone),
      cmocka_unit_test(test_pieces_without_targets),
      cmocka_unit_test(test_a_long_text),
      cmocka_unit_test(test_ends_within_a_text),
  };
  return cmocka_run_group_tests(tests, set_up_texts, tear_down_texts);
}
