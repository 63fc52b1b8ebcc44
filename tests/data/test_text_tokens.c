/* Sources of token files: raw, with a header, NPY; documents among them; files that change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "support/text_sources.h"

/* ---- token files ---- */

static void append_tokens(byte_buffer *out, int width, int count, uint32_t most) {
  for (int i = 0; i < count; i++)
    append_little(out, i % 5 == 4 ? 9 : (uint64_t)(i * 31) % most + 10, width);
}

static void expect_tokens(ull_source *source, uint32_t most) {
  int64_t input[8], target[8];
  assert_int_equal(ull_source_sample_count(source), 99 / 8);
  for (int s = 0; s < 99 / 8; s++) {
    read_text_array(source, (uint64_t)s, INPUT, input);
    read_text_array(source, (uint64_t)s, TARGET, target);
    for (int k = 0; k < 8; k++) {
      int i = s * 8 + k;
      assert_int_equal(input[k], i % 5 == 4 ? 9 : (uint32_t)(i * 31) % most + 10);
      assert_int_equal(target[k], (i + 1) % 5 == 4 ? 9 : (uint32_t)((i + 1) * 31) % most + 10);
    }
  }
  ull_source_close(source);
}

static void test_token_files(void **state) {
  (void)state;
  static const struct {
    const char *name, *descr, *options;
    int width;
  } cases[] = {{"u2.npy", "<u2", "?seq=8", 2},       {"u4.npy", "<u4", "?seq=8", 4},
               {"i4.npy", "<i4", "?seq=8", 4},       {"i8.npy", "<i8", "?seq=8&vocab=5000", 8},
               {"u1.npy", "|u1", "?seq=8", 1},       {"a.bin", NULL, "?seq=8", 2},
               {"b.bin", NULL, "?seq=8&bits=32", 4}, {"c.bin", NULL, "?seq=8&bits=64", 8},
               {"d.bin", NULL, "?seq=8&eot=9", 2}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    byte_buffer raw = {0}, file = {0};
    uint32_t most = cases[c].width == 1 ? 200 : 2000;
    append_tokens(&raw, cases[c].width, 100, most);
    if (cases[c].descr != NULL)
      append_npy(&file, cases[c].descr, false, "(100,)", raw.bytes, raw.count);
    else
      append_bytes(&file, raw.bytes, raw.count);
    expect_tokens(open_text_source("tokens", put_text(cases[c].name, file.bytes, file.count),
                                   cases[c].options),
                  most);
    free_buffer(&raw);
    free_buffer(&file);
  }
}

static void test_headers_of_llmc(void **state) {
  (void)state;
  static const struct {
    uint32_t magic, version;
    int width;
  } cases[] = {{20240520, 1, 2}, {20240801, 7, 4}};
  for (size_t c = 0; c < 2; c++) {
    byte_buffer file = {0};
    append_little(&file, cases[c].magic, 4);
    append_little(&file, cases[c].version, 4);
    append_little(&file, 100, 4);
    for (int i = 3; i < 256; i++) append_little(&file, 0, 4);
    append_tokens(&file, cases[c].width, 100, 2000);
    const char *path = put_text(c ? "llama.bin" : "gpt.bin", file.bytes, file.count);
    expect_tokens(open_text_source("tokens", path, "?seq=8"), 2000);
    free_buffer(&file);
  }
}

static void test_packed_tokens(void **state) {
  (void)state;
  static const int64_t starts[] = {0, 2, 5};
  byte_buffer file = {0}, list = {0};
  static const uint16_t tokens[] = {5, 9, 6, 7, 9, 8, 9};
  for (int i = 0; i < 7; i++) append_little(&file, tokens[i], 2);
  append_npy(&list, "<i8", false, "(3,)", starts, sizeof starts);
  put_text("list.npy", list.bytes, list.count);
  const char *path = put_text("packed.bin", file.bytes, file.count);
  char *with_list = ull__format("?seq=4&pack=1&documents=%s", path_in(text_folder, "list.npy"));
  const char *const options[] = {"?seq=4&pack=1&eot=9", with_list};
  for (int k = 0; k < 2; k++) {
    ull_source *source = open_text_source("tokens", path, options[k]);
    assert_int_equal(ull_source_sample_count(source), 1);
    EXPECT(source, 0, INPUT, 5, 6, 7, 8);
    EXPECT(source, 0, TARGET, 9, 7, 9, 9);
    EXPECT(source, 0, DOCUMENT, 0, 1, 1, 2);
    EXPECT(source, 0, POSITION, 0, 0, 1, 0);
    ull_source_close(source);
  }
  ull__free(with_list);
  free_buffer(&file);
  free_buffer(&list);
}

static void test_refused_token_files(void **state) {
  (void)state;
  static const int32_t negative[] = {1, 2, -3, 4};
  static const int64_t unordered[] = {0, 3, 3};
  byte_buffer file = {0}, list = {0};
  append_npy(&file, "<i4", false, "(4,)", negative, sizeof negative);
  append_npy(&list, "<i8", false, "(3,)", unordered, sizeof unordered);
  put_text("bad-list.npy", list.bytes, list.count);
  const char *path = put_text("negative.npy", file.bytes, file.count);
  assert_int_equal(try_text_source("tokens", path, "?seq=2"), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "negative"));
  path = put_text("cut.npy", file.bytes, file.count - 1);
  assert_int_equal(try_text_source("tokens", path, "?seq=2"), ULL_ERROR_DATA);
  path = put_text("odd.bin", "12345", 5);
  assert_int_equal(try_text_source("tokens", path, "?seq=2"), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->change, "bits=32"));
  path = put_text("some.bin", "123456789012", 12);
  assert_int_equal(try_text_source("tokens", path, "?seq=2&pack=1"), ULL_ERROR_USAGE);
  assert_int_equal(try_text_source("tokens", path, "?seq=2&header=99"), ULL_ERROR_DATA);
  char *options = ull__format("?seq=2&pack=1&documents=%s", path_in(text_folder, "bad-list.npy"));
  assert_int_equal(try_text_source("tokens", path, options), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "entry 2"));
  ull__free(options);
  path = put_text("floats.npy", "x", 1);
  byte_buffer floats = {0};
  append_npy(&floats, "<f4", false, "(3,)", unordered, 12);
  path = put_text("floats.npy", floats.bytes, floats.count);
  assert_int_equal(try_text_source("tokens", path, "?seq=2"), ULL_ERROR_UNSUPPORTED);
  free_buffer(&floats);
  free_buffer(&file);
  free_buffer(&list);
}

/* A token beyond what was promised, in a file that changed, is an error of its sample. */
static void test_a_file_that_changes(void **state) {
  (void)state;
  static const uint16_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  static const uint16_t large = 60000;
  int64_t to[4];
  ull_verdict verdict;
  const char *path = put_text("changing.bin", tokens, sizeof tokens);
  ull_source *source = open_text_source("tokens", path, "?seq=4");
  FILE *file = fopen(path, "r+b");
  assert_int_equal(fseek(file, 5 * 2, SEEK_SET), 0);
  assert_int_equal(fwrite(&large, 2, 1, file), 1);
  fclose(file);
  assert_int_equal(ull_source_read(source, 0, INPUT, to, &verdict), ULL_OK);
  assert_int_equal(ull_source_read(source, 1, INPUT, to, &verdict), ULL_ERROR_DATA);
  assert_true(ull_verdict_is_bad(verdict));
  assert_int_equal(truncate(path, 4), 0);
  assert_int_equal(ull_source_read(source, 0, INPUT, to, &verdict), ULL_ERROR_DATA);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_token_files),         cmocka_unit_test(test_headers_of_llmc),
      cmocka_unit_test(test_packed_tokens),       cmocka_unit_test(test_refused_token_files),
      cmocka_unit_test(test_a_file_that_changes),
  };
  return cmocka_run_group_tests(tests, set_up_texts, tear_down_texts);
}
