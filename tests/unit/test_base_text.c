/* Byte sizes, JSON, files, digests, the log, the clock. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "support/data_trees.h"

static void sizes_are_read_exactly(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } cases[] = {
      {"0", 0},
      {"1", 1},
      {"4GiB", 4ull << 30},
      {"512MiB", 512ull << 20},
      {"1.5GB", 1500000000},
      {"1.1GB", 1100000000},
      {"0.5KiB", 512},
      {"64 kb", 64000},
      {"3tib", 3ull << 40},
      {"17B", 17},
      {"1.9999B", 1},
      {"9223372036854775807", INT64_MAX},
      {"0.0000000000000000000000001TB", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint64_t bytes = 77;
    assert_int_equal(ull__byte_size_parse(cases[i].text, &bytes), ULL_OK);
    assert_int_equal(bytes, cases[i].bytes);
  }
}

static void other_texts_are_no_sizes(void **state) {
  (void)state;
  static const char *const texts[] = {"",      "-1",   "+1",  "GiB",    "4GiBs", "4  GiB", "50%",
                                      "1e9",   "0x10", "1.",  "1..5MB", " 1",    "1 ",     "4 G",
                                      "1.5.5", ".5GB", "NaN", "inf",    "4K",    "1,5GB"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    uint64_t bytes = 77;
    ull_status status = ull__byte_size_parse(texts[i], &bytes);
    assert_int_equal(status, ULL_ERROR_USAGE);
    assert_int_equal(bytes, 77);
  }
  uint64_t bytes;
  assert_int_equal(ull__byte_size_parse("9223372036854775808", &bytes), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__byte_size_parse("99999999999999999999999", &bytes), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__byte_size_parse("8388608TiB", &bytes), ULL_ERROR_OVERFLOW);
}

static void sizes_are_written_for_people_and_for_machines(void **state) {
  (void)state;
  char text[ULL__BYTE_SIZE_TEXT];
  assert_string_equal(ull__byte_size_format(0, text), "0 B");
  assert_string_equal(ull__byte_size_format(1023, text), "1023 B");
  assert_string_equal(ull__byte_size_format(1536, text), "1.5 KiB");
  assert_string_equal(ull__byte_size_format(4ull << 30, text), "4.0 GiB");
  assert_string_equal(ull__byte_size_format((1ull << 30) - 1, text), "1.0 GiB");
  assert_string_equal(ull__byte_size_format(INT64_MAX, text), "8.0 EiB");
  assert_string_equal(ull__byte_size_format(UINT64_MAX, text), "16.0 EiB");
  assert_string_equal(ull__byte_size_exact(4ull << 30, text), "4GiB");
  assert_string_equal(ull__byte_size_exact(1536, text), "1536");
  assert_string_equal(ull__byte_size_exact(0, text), "0");
  for (uint64_t bytes = 1; bytes < 1ull << 60; bytes = bytes * 3 + 1) {
    uint64_t back = 0;
    assert_int_equal(ull__byte_size_parse(ull__byte_size_exact(bytes, text), &back), ULL_OK);
    assert_int_equal(back, bytes);
  }
}

static void json_goes_out_on_one_line_and_back(void **state) {
  (void)state;
  ull__json_start();
  json_t *object = json_object();
  char *line;
  assert_int_equal(ull__json_put(object, "b", json_integer(INT64_MAX)), ULL_OK);
  assert_int_equal(ull__json_put(object, "a", ull__json_real(1.0 / 3)), ULL_OK);
  assert_int_equal(ull__json_put(object, "nan", ull__json_real(NAN)), ULL_OK);
  assert_int_equal(ull__json_put(object, "text", json_string("x\ny")), ULL_OK);
  assert_int_equal(ull__json_put(object, "none", NULL), ULL_ERROR_OUT_OF_MEMORY);
  assert_int_equal(ull__json_line(object, &line), ULL_OK);
  assert_non_null(strstr(line, "{\"b\":9223372036854775807,\"a\":0.333"));
  assert_non_null(strstr(line, "\"nan\":null"));
  assert_null(strchr(line, '\n'));
  json_t *back;
  assert_int_equal(ull__json_parse(line, strlen(line), "line", &back), ULL_OK);
  assert_true(json_real_value(json_object_get(back, "a")) == 1.0 / 3);
  json_decref(back);
  json_decref(object);
  ull__free(line);
}

static void reals_are_written_as_short_as_they_read_back(void **state) {
  (void)state;
  static const double values[] = {0.1,    0.9,     1e-8,   1.0 / 3, 1e300, 5e-324,
                                  2.5e17, 123456., -0.125, 0.0,     1e22};
  static const char *const texts[] = {"0.1", "0.9", "1e-08"};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    json_t *real = ull__json_real(values[i]), *back;
    char *line;
    assert_int_equal(ull__json_line(real, &line), ULL_OK);
    if (i < 3) assert_string_equal(line, texts[i]);
    char wrapped[64];
    snprintf(wrapped, sizeof wrapped, "[%s]", line);
    assert_int_equal(ull__json_parse(wrapped, strlen(wrapped), "x", &back), ULL_OK);
    assert_true(json_is_real(json_array_get(back, 0)));
    assert_true(json_real_value(json_array_get(back, 0)) == values[i]);
    json_decref(back);
    json_decref(real);
    ull__free(line);
  }
}

static void broken_json_is_refused_with_its_place(void **state) {
  (void)state;
  json_t *value;
  const char text[] = "{\"a\": 1,\n \"a\": 2}";
  assert_int_equal(ull__json_parse(text, strlen(text), "c.json", &value), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "c.json: not valid JSON at line 2"));
  assert_int_equal(ull__json_parse("[1", 2, "c.json", &value), ULL_ERROR_DATA);
  static char deep[100000];
  memset(deep, '[', sizeof deep);
  assert_int_equal(ull__json_parse(deep, sizeof deep, "deep", &value), ULL_ERROR_DATA);
}

static void json_survives_every_failing_allocation(void **state) {
  (void)state;
  const char text[] = "{\"a\": [1, 2.5, \"x\"], \"b\": {\"c\": null}}";
  uint64_t live = ull__alloc_count().live_bytes;
  int failures = 0;
  for (uint64_t n = 1; n < 60; n++) {
    json_t *value = NULL;
    char *line = NULL;
    ull__alloc_fail_at(n);
    ull_status status = ull__json_parse(text, strlen(text), "x", &value);
    if (status == ULL_OK) status = ull__json_line(value, &line);
    ull__alloc_fail_at(0);
    failures += status != ULL_OK;
    if (status != ULL_OK) assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    json_decref(value);
    ull__free(line);
    assert_int_equal(ull__alloc_count().live_bytes, live);
  }
  assert_true(failures > 5);
}

static void files_are_replaced_whole(void **state) {
  (void)state;
  char *data;
  size_t bytes;
  assert_int_equal(ull__make_folders(path_in(root, "a/b//c/")), ULL_OK);
  assert_int_equal(ull__make_folders(path_in(root, "a/b/c")), ULL_OK);
  assert_int_equal(ull__file_write_atomic(path_in(root, "a/b/c/f"), "one", 3), ULL_OK);
  assert_int_equal(ull__file_write_atomic(path_in(root, "a/b/c/f"), "second", 6), ULL_OK);
  assert_int_equal(ull__file_read(path_in(root, "a/b/c/f"), 6, &data, &bytes), ULL_OK);
  assert_int_equal(bytes, 6);
  assert_string_equal(data, "second");
  ull__free(data);
  assert_true(ull__file_exists(path_in(root, "a/b/c/f")));
  assert_int_equal(ull__file_read(path_in(root, "a/b/c/f"), 5, &data, &bytes), ULL_ERROR_IO);
  assert_int_equal(ull_error_last()->wanted_bytes, 6);
  assert_int_equal(ull__file_read("/proc/self/status", 1 << 20, &data, &bytes), ULL_OK);
  assert_true(bytes > 100);
  ull__free(data);
  assert_int_equal(ull__file_read("/proc/self/status", 100, &data, &bytes), ULL_ERROR_IO);
}

static void what_is_no_file_is_refused_by_name(void **state) {
  (void)state;
  char *data;
  size_t bytes;
  assert_int_equal(ull__file_read(path_in(root, "absent"), 10, &data, &bytes), ULL_ERROR_IO);
  assert_non_null(strstr(ull_error_last()->message, "absent: No such file"));
  assert_int_equal(ull__file_read(root, 10, &data, &bytes), ULL_ERROR_IO);
  assert_int_equal(mkfifo(path_in(root, "pipe"), 0600), 0);
  assert_int_equal(ull__file_read(path_in(root, "pipe"), 10, &data, &bytes), ULL_ERROR_IO);
  assert_int_equal(ull__file_write_atomic(path_in(root, "no/such/f"), "x", 1), ULL_ERROR_IO);
  assert_int_equal(ull__file_write_atomic(root, "x", 1), ULL_ERROR_IO);
  assert_int_equal(ull__make_folders("/dev/null/x"), ULL_ERROR_IO);
  assert_int_equal(ull__make_folders(""), ULL_ERROR_IO);
}

static void paths_are_joined(void **state) {
  (void)state;
  char *a = ull__path_join("x", "y"), *b = ull__path_join("x/", "y"), *c = ull__path_join("", "y");
  assert_string_equal(a, "x/y");
  assert_string_equal(b, "x/y");
  assert_string_equal(c, "y");
  ull__free(a);
  ull__free(b);
  ull__free(c);
}

static void digests_are_sha256(void **state) {
  (void)state;
  ull__sha256 digest;
  char text[ULL__SHA256_HEX];
  ull__sha256_begin(&digest);
  ull__sha256_add(&digest, "a", 1);
  ull__sha256_add(&digest, NULL, 0);
  ull__sha256_add(&digest, "bc", 2);
  ull__sha256_end_hex(&digest, text);
  assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static char logged[64];
static int log_calls;

static void keep_message(void *user, ull_log_level level, const char *message) {
  log_calls++;
  snprintf(logged, sizeof logged, "%s %s %s", (const char *)user, ull_log_level_name(level),
           message);
}

static void messages_go_to_the_callback(void **state) {
  (void)state;
  ull__log(ULL_LOG_ERROR, "dropped");
  ull_log_set(keep_message, "u", ULL_LOG_WARNING);
  ULL__LOG_INFO("below the level");
  assert_int_equal(log_calls, 0);
  ULL__LOG_WARNING("lane %d", 3);
  assert_string_equal(logged, "u warning lane 3");
  ull_log_set(NULL, NULL, ULL_LOG_DEBUG);
  ULL__LOG_WARNING("dropped");
  assert_int_equal(log_calls, 1);
}

static void the_clock_goes_forward(void **state) {
  (void)state;
  uint64_t before = ull__clock_now_ns();
  usleep(2000);
  uint64_t passed = ull__clock_now_ns() - before;
  assert_true(passed >= 2000000 && passed < 10000000000u);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_read_exactly),
      cmocka_unit_test(other_texts_are_no_sizes),
      cmocka_unit_test(sizes_are_written_for_people_and_for_machines),
      cmocka_unit_test(json_goes_out_on_one_line_and_back),
      cmocka_unit_test(reals_are_written_as_short_as_they_read_back),
      cmocka_unit_test(broken_json_is_refused_with_its_place),
      cmocka_unit_test(json_survives_every_failing_allocation),
      cmocka_unit_test(files_are_replaced_whole),
      cmocka_unit_test(what_is_no_file_is_refused_by_name),
      cmocka_unit_test(paths_are_joined),
      cmocka_unit_test(digests_are_sha256),
      cmocka_unit_test(messages_go_to_the_callback),
      cmocka_unit_test(the_clock_goes_forward),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
