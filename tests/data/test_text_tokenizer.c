/* Tokenizers against what Hugging Face's library made of the same texts (tools/make_tokenizers.py),
 * and against broken and hostile files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/vector.h"
#include "data/text/tokenizer.h"
#include "data/text/unicode.h"

static void check(ull_status status) {
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
}

static char *data_path(const char *name) {
  const char *root = getenv("ULLAGE_SOURCE_DIR");
  char *path = ull__format("%s/tests/data/text/%s", root ? root : ".", name);
  assert_non_null(path);
  return path;
}

static json_t *load_cases(void) {
  char *path = data_path("cases.json");
  json_t *cases;
  check(ull__json_load(path, 1 << 24, &cases));
  ull__free(path);
  return cases;
}

static ull__tokenizer *open_kind(const char *kind) {
  char name[64];
  ull__tokenizer *tokenizer;
  snprintf(name, sizeof name, "%s.json", kind);
  char *path = data_path(name);
  check(ull__tokenizer_open(path, &tokenizer));
  ull__free(path);
  return tokenizer;
}

static size_t from_hex(const char *hex, uint8_t *bytes) {
  size_t count = strlen(hex) / 2;
  for (size_t i = 0; i < count; i++) {
    unsigned byte;
    assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
    bytes[i] = (uint8_t)byte;
  }
  return count;
}

static void compare(const char *kind, size_t index, const json_t *expected,
                    const ull__token_list *got) {
  bool same = json_array_size(expected) == got->count;
  for (size_t i = 0; same && i < got->count; i++)
    same = json_integer_value(json_array_get(expected, i)) == (json_int_t)got->items[i];
  if (!same) fail_msg("%s, text %zu: other numbers than the library's", kind, index);
}

/* A text as a whole, and cut wherever it may be cut. */
static void encode_in_parts(const ull__tokenizer *tokenizer, ull__encoder *encoder,
                            const uint8_t *text, size_t bytes, size_t most, ull__token_list *out) {
  bool continues = false;
  out->count = 0;
  while (bytes > 0) {
    size_t part = bytes;
    for (size_t room = most; room < bytes && part == bytes; room *= 2) {
      size_t cut = ull__tokenizer_find_cut(tokenizer, text, room);
      if (cut > 0) part = cut;
    }
    check(ull__encode(encoder, text, part, continues, out));
    continues = true;
    text += part;
    bytes -= part;
  }
}

static void check_kind(const char *kind, const json_t *texts, const json_t *expected) {
  ull__tokenizer *tokenizer = open_kind(kind);
  ull__encoder *encoder;
  ull__token_list out = {0};
  uint8_t text[4096];
  check(ull__encoder_create(tokenizer, &encoder));
  for (int pass = 0; pass < 2; pass++) { /* the second one from the cache */
    for (size_t i = 0; i < json_array_size(texts); i++) {
      size_t bytes = from_hex(json_string_value(json_array_get(texts, i)), text);
      const json_t *ids = json_array_get(json_object_get(expected, "ids"), i);
      out.count = 0;
      check(ull__encode(encoder, text, bytes, false, &out));
      compare(kind, i, ids, &out);
      if (ull__unicode_valid_prefix(text, bytes) < bytes) continue;
      encode_in_parts(tokenizer, encoder, text, bytes, 5, &out);
      compare(kind, i, ids, &out);
      for (size_t k = 0; k < out.count; k++)
        assert_true(out.items[k] < ull__tokenizer_id_limit(tokenizer));
    }
  }
  out.count = 0;
  size_t count;
  const uint32_t *prefix = ull__tokenizer_prefix(tokenizer, &count);
  ull__token_list list = {(uint32_t *)(uintptr_t)prefix, count, count};
  compare(kind, SIZE_MAX, json_object_get(expected, "prefix"), &list);
  ull__vector_free(&out);
  ull__encoder_destroy(encoder);
  ull__tokenizer_close(tokenizer);
}

static void test_numbers_equal_the_library(void **state) {
  (void)state;
  json_t *cases = load_cases();
  const char *kind;
  json_t *expected;
  int kinds = 0;
  json_object_foreach(json_object_get(cases, "kinds"), kind, expected) {
    check_kind(kind, json_object_get(cases, "texts"), expected);
    kinds++;
  }
  assert_int_equal(kinds, 8);
  json_decref(cases);
}

/* ---- a whole book ---- */

static void check_corpus(const char *kind, const json_t *expected, const uint8_t *text,
                         size_t bytes) {
  ull__tokenizer *tokenizer = open_kind(kind);
  ull__encoder *encoder;
  ull__token_list out = {0};
  char digest[ULL__SHA256_HEX];
  check(ull__encoder_create(tokenizer, &encoder));
  for (size_t most = SIZE_MAX; most > 0; most = most == SIZE_MAX ? 3000 : 0) {
    ull__sha256 sha;
    encode_in_parts(tokenizer, encoder, text, bytes, most, &out);
    assert_int_equal(out.count, json_integer_value(json_object_get(expected, "corpus_count")));
    ull__sha256_begin(&sha);
    ull__sha256_add(&sha, out.items, out.count * sizeof *out.items);
    ull__sha256_end_hex(&sha, digest);
    assert_string_equal(digest, json_string_value(json_object_get(expected, "corpus_sha256")));
  }
  ull__vector_free(&out);
  ull__encoder_destroy(encoder);
  ull__tokenizer_close(tokenizer);
}

static void test_a_whole_book(void **state) {
  (void)state;
  const char *folder = getenv("ULLAGE_TEST_DATA"), *kind;
  if (folder == NULL) {
    print_message("skipped: ULLAGE_TEST_DATA is not set\n");
    skip();
  }
  json_t *cases = load_cases(), *expected;
  char *path = ull__format("%s/text/tinyshakespeare.txt", folder), *text;
  size_t bytes;
  check(ull__file_read(path, 1 << 24, &text, &bytes));
  json_object_foreach(json_object_get(cases, "kinds"), kind, expected)
      check_corpus(kind, expected, (const uint8_t *)text, bytes);
  ull__free(text);
  ull__free(path);
  json_decref(cases);
}

/* ---- bytes ---- */

static void test_bytes(void **state) {
  (void)state;
  ull__tokenizer *tokenizer;
  ull__encoder *encoder;
  ull__token_list out = {0};
  uint8_t all[256];
  for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
  check(ull__tokenizer_open("bytes", &tokenizer));
  check(ull__encoder_create(tokenizer, &encoder));
  check(ull__encode(encoder, all, sizeof all, false, &out));
  assert_int_equal(out.count, 256);
  for (uint32_t i = 0; i < 256; i++) assert_int_equal(out.items[i], i);
  assert_int_equal(ull__tokenizer_id_limit(tokenizer), 257);
  assert_int_equal(ull__tokenizer_end_of_text(tokenizer), 256);
  ull__vector_free(&out);
  ull__encoder_destroy(encoder);
  ull__tokenizer_close(tokenizer);
}

static void test_special_tokens(void **state) {
  (void)state;
  ull__tokenizer *gpt2 = open_kind("gpt2"), *llama2 = open_kind("llama2");
  ull__tokenizer *llama3 = open_kind("llama3"), *unknown = open_kind("unknown");
  assert_int_equal(ull__tokenizer_end_of_text(gpt2), ull__tokenizer_find(gpt2, "<|endoftext|>"));
  assert_int_equal(ull__tokenizer_end_of_text(llama2), 2);
  assert_int_equal(ull__tokenizer_end_of_text(llama3),
                   ull__tokenizer_find(llama3, "<|end_of_text|>"));
  assert_int_equal(ull__tokenizer_end_of_text(unknown), ULL__TOKENIZER_NONE);
  assert_int_equal(ull__tokenizer_find(gpt2, "<|no such token|>"), ULL__TOKENIZER_NONE);
  ull__tokenizer_close(gpt2);
  ull__tokenizer_close(llama2);
  ull__tokenizer_close(llama3);
  ull__tokenizer_close(unknown);
}

/* Time grows with n log n: a million equal letters, and one that merges into ever longer ones. */
static void test_long_words(void **state) {
  (void)state;
  static const char json[] =
      "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"aa\":2,"
      "\"aaaa\":3,\"aaaaaaaa\":4},\"merges\":[\"a a\",\"aa aa\",\"aaaa aaaa\"]}}";
  enum { COUNT = (1 << 20) + 7 };
  ull__tokenizer *tokenizer;
  ull__encoder *encoder;
  ull__token_list out = {0};
  check(ull__tokenizer_parse(json, sizeof json - 1, "letters", &tokenizer));
  check(ull__encoder_create(tokenizer, &encoder));
  char *text = malloc(COUNT);
  memset(text, 'a', COUNT);
  check(ull__encode(encoder, text, COUNT, false, &out));
  assert_int_equal(out.count, (COUNT - 7) / 8 + 3);
  assert_int_equal(out.items[0], 4);
  assert_int_equal(out.items[out.count - 1], 1);
  assert_int_equal(out.items[out.count - 2], 2);
  assert_int_equal(out.items[out.count - 3], 3);
  free(text);
  ull__vector_free(&out);
  ull__encoder_destroy(encoder);
  ull__tokenizer_close(tokenizer);
}

static void test_a_token_in_anothers_spaces(void **state) {
  (void)state;
  static const char json[] =
      "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":1,\"content\":"
      "\"m\",\"rstrip\":true,\"special\":true},{\"id\":2,\"content\":\"  \",\"special\":true}]}";
  static const uint32_t expected[] = {1, 2, 0, 1, 0, 0, 2};
  ull__tokenizer *tokenizer;
  ull__encoder *encoder;
  ull__token_list out = {0};
  check(ull__tokenizer_parse(json, sizeof json - 1, "inside.json", &tokenizer));
  check(ull__encoder_create(tokenizer, &encoder));
  check(ull__encode(encoder, "m   am aa  ", 11, false, &out));
  assert_int_equal(out.count, 7);
  assert_memory_equal(out.items, expected, sizeof expected);
  ull__vector_free(&out);
  ull__encoder_destroy(encoder);
  ull__tokenizer_close(tokenizer);
}

/* Letters of any script before a space, any but a space behind a line end. */
static void test_cuts(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t qwen2, llama2;
  } cases[] = {
      {"\xd1\x8f \xd1\x8f", 2, 2},
      {"\xe7\x9a\x84\n\xe7\x9a\x84", 4, 4},
      {"a\n\xe2\x96\x81", 0, 0},
      {"\xe2\x96\x81 a", 0, 0},
      {"a\n\n\xe7\x9a\x84", 0, 0},
      {"a\n\xe3\x80\x80"
       "a",
       0, 0},
      {"\xe3\x80\x80 a", 0, 0},
      {"a\n\xe7\x9a", 0, 0},
      {"\x80 a", 0, 0},
      {"a.  b", 2, 2},
  };
  ull__tokenizer *qwen2 = open_kind("qwen2"), *llama2 = open_kind("llama2");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const uint8_t *text = (const uint8_t *)cases[i].text;
    size_t bytes = strlen(cases[i].text);
    assert_int_equal(ull__tokenizer_find_cut(qwen2, text, bytes), cases[i].qwen2);
    assert_int_equal(ull__tokenizer_find_cut(llama2, text, bytes), cases[i].llama2);
  }
  ull__tokenizer_close(qwen2);
  ull__tokenizer_close(llama2);
}

/* ---- what is refused ---- */

#define MODEL \
  "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"
#define LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define SPACES "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"split\":false}"
#define TEMPLATE(single) "{\"type\":\"TemplateProcessing\",\"single\":[" single "]}"
#define TEXT "{\"Sequence\":{\"id\":\"A\"}}"

static const struct {
  const char *json, *message;
  ull_status status;
} refused[] = {
    {"{}", "model", ULL_ERROR_DATA},
    {"[1]", "model", ULL_ERROR_DATA},
    {"{\"model\":{\"type\":\"WordPiece\"}}", "WordPiece", ULL_ERROR_UNSUPPORTED},
    {"{\"model\":{\"type\":\"BPE\"}}", "vocabulary", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0}}}", "merges", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "out of range", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":99999999999},\"merges\":[]}}", "out of range", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":\"0\"},\"merges\":[]}}", "out of range", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "shares", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "pair", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]}}", "pair", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[7]}}", "pair", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "'b' is not", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\"]]}}", "'a' with", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", "dropout",
     ULL_ERROR_UNSUPPORTED},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}}", "unk", ULL_ERROR_DATA},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":true}}", "byte <0x00>",
     ULL_ERROR_UNSUPPORTED},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"_\"}}", "suffix",
     ULL_ERROR_UNSUPPORTED},
    {"{\"normalizer\":{\"type\":\"NFKC\"}," MODEL "}", "NFKC", ULL_ERROR_UNSUPPORTED},
    {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x\"},\"content\":\"\"}," MODEL
     "}",
     "regular", ULL_ERROR_UNSUPPORTED},
    {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}," MODEL
     "}",
     "empty", ULL_ERROR_DATA},
    {"{\"pre_tokenizer\":{\"type\":\"Digits\"}," MODEL "}", "Digits", ULL_ERROR_UNSUPPORTED},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\w+\"},\"behavior\":"
     "\"Isolated\",\"invert\":false}," MODEL "}",
     "\\w+", ULL_ERROR_UNSUPPORTED},
    {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"}," MODEL "}", "byte <0x00>",
     ULL_ERROR_UNSUPPORTED},
    {"{\"post_processor\":{\"type\":\"BertProcessing\"}," MODEL "}", "Bert", ULL_ERROR_UNSUPPORTED},
    {"{\"added_tokens\":[{\"id\":1,\"content\":\"a\"}]," MODEL "}", "1, where 0 comes",
     ULL_ERROR_UNSUPPORTED},
    {"{\"added_tokens\":[{\"id\":4,\"content\":\"<w>\"}]," MODEL "}", "4, where 3 comes",
     ULL_ERROR_UNSUPPORTED},
    {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" LEVEL "," LEVEL "]}," MODEL
     "}",
     "ByteLevel behind", ULL_ERROR_UNSUPPORTED},
    {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" SPACES "," SPACES "]}," MODEL
     "}",
     "Metaspace behind", ULL_ERROR_UNSUPPORTED},
    {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" SPACES
     ",{\"type\":\"ByteLevel\"}]}," MODEL "}",
     "prefix space behind", ULL_ERROR_UNSUPPORTED},
    {"{\"post_processor\":" TEMPLATE(TEXT "," TEXT) "," MODEL "}", "twice", ULL_ERROR_UNSUPPORTED},
    {"{\"post_processor\":" TEMPLATE("") "," MODEL "}", "without", ULL_ERROR_UNSUPPORTED},
    {"{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[" TEMPLATE(TEXT) "," TEMPLATE(
         TEXT) "]}," MODEL "}",
     "a second", ULL_ERROR_UNSUPPORTED},
    {"{\"model\":{\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[[\"a\",\"a\",\"a\"]]}}", "pair",
     ULL_ERROR_DATA},
    {"{\"added_tokens\":[{\"id\":3,\"content\":\"<w>\",\"single_word\":true}]," MODEL "}",
     "single_word", ULL_ERROR_UNSUPPORTED},
    {"{\"added_tokens\":[{\"content\":\"<w>\"}]," MODEL "}", "out of range", ULL_ERROR_DATA},
    {"{\"a\":1,\"a\":2}", "", ULL_ERROR_DATA},
};

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    ull__tokenizer *tokenizer = NULL;
    ull_status status =
        ull__tokenizer_parse(refused[i].json, strlen(refused[i].json), "bad.json", &tokenizer);
    if (status != refused[i].status ||
        strstr(ull_error_last()->message, refused[i].message) == NULL)
      fail_msg("%s: status %d, '%s'", refused[i].json, status, ull_error_last()->message);
    assert_null(tokenizer);
    assert_non_null(strstr(ull_error_last()->message, "bad.json"));
  }
}

/* Files cut and changed at random are read or refused; what is read encodes. */
static void try_damaged(char *json, size_t bytes) {
  ull__tokenizer *tokenizer;
  ull__encoder *encoder;
  ull__token_list out = {0};
  if (ull__tokenizer_parse(json, bytes, "damaged", &tokenizer) != ULL_OK) return;
  check(ull__encoder_create(tokenizer, &encoder));
  check(ull__encode(encoder, json, bytes < 3000 ? bytes : 3000, false, &out));
  for (size_t k = 0; k < out.count; k++)
    assert_true(out.items[k] < ull__tokenizer_id_limit(tokenizer));
  ull__vector_free(&out);
  ull__encoder_destroy(encoder);
  ull__tokenizer_close(tokenizer);
}

static void test_damaged_files(void **state) {
  (void)state;
  static const char *const names[] = {"gpt2.json", "llama2.json", "llama3.json", "unknown.json"};
  uint32_t random = 1;
  for (size_t n = 0; n < 4; n++) {
    char *path = data_path(names[n]), *json;
    size_t bytes;
    check(ull__file_read(path, 1 << 20, &json, &bytes));
    uint64_t before = ull__alloc_count().live_bytes;
    for (size_t cut = 0; cut < bytes; cut += 199) try_damaged(json, cut);
    for (int i = 0; i < 150; i++) {
      char kept[4];
      random = random * 1664525u + 1013904223u;
      size_t at = random % (bytes - 4);
      memcpy(kept, json + at, 4);
      for (int k = 0; k < 1 + i % 4; k++)
        json[at + (size_t)k] = "0\"{}[],:a\\"[(random >> 20) % 10];
      try_damaged(json, bytes);
      memcpy(json + at, kept, 4);
    }
    assert_int_equal(ull__alloc_count().live_bytes, before);
    ull__free(json);
    ull__free(path);
  }
}

/* Allocations of the tokenizer itself and of the JSON before it: jansson 2.14 writes out of bounds
 * when its own fail, so that they are left out. */
static uint64_t count_json_allocations(const char *json) {
  json_t *root;
  uint64_t before = ull__alloc_count().calls;
  check(ull__json_parse(json, strlen(json), "small", &root));
  uint64_t calls = ull__alloc_count().calls - before;
  json_decref(root);
  return calls + 1;
}

/* Every allocation on the way may fail; nothing is lost. */
static void test_memory_runs_out(void **state) {
  (void)state;
  static const char json[] =
      "{\"added_tokens\":[{\"id\":3,\"content\":\"<x>\"}],\"normalizer\":{\"type\":\"Prepend\","
      "\"prepend\":\"b\"},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
      "\"prepend_scheme\":\"always\"}," MODEL "}";
  uint64_t before = ull__alloc_count().live_bytes;
  for (uint64_t n = count_json_allocations(json) + 1;; n++) {
    ull__tokenizer *tokenizer = NULL;
    ull__encoder *encoder = NULL;
    ull__token_list out = {0};
    ull__alloc_fail_at(n);
    ull_status status = ull__tokenizer_parse(json, sizeof json - 1, "small", &tokenizer);
    if (status == ULL_OK) status = ull__encoder_create(tokenizer, &encoder);
    if (status == ULL_OK) status = ull__encode(encoder, "abab <x>\xff", 9, false, &out);
    ull__alloc_fail_at(0);
    ull__vector_free(&out);
    ull__encoder_destroy(encoder);
    ull__tokenizer_close(tokenizer);
    assert_int_equal(ull__alloc_count().live_bytes, before);
    if (status == ULL_OK) break;
    assert_true(n < 10000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_equal_the_library),
      cmocka_unit_test(test_a_whole_book),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_special_tokens),
      cmocka_unit_test(test_long_words),
      cmocka_unit_test(test_a_token_in_anothers_spaces),
      cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_memory_runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
