/* CIFAR's records come out as they were written, with their names and both sets of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/data_trees.h"

static uint8_t pixel(int sample, int at) {
  return (uint8_t)(sample * 31 + at * 7 + at / 1024);
}

/* `labels` label bytes each: 100 + sample % 3, then sample % 10. */
static void put_batch(const char *name, int first, int count, int labels) {
  byte_buffer buffer = {0};
  for (int s = first; s < first + count; s++) {
    if (labels == 2) append_little(&buffer, (uint64_t)(100 + s % 3), 1);
    append_little(&buffer, (uint64_t)(s % 10), 1);
    for (int i = 0; i < 3072; i++) append_little(&buffer, pixel(s, i), 1);
  }
  put_buffer(root, name, &buffer);
  free_buffer(&buffer);
}

static const char *text_of(const char *folder) {
  static char text[1200];
  snprintf(text, sizeof text, "cifar:%s%s", root, folder);
  return text;
}

static void expect_records(ull_split split, const char *folder, int first, int count) {
  ull_source *source = open_or_fail(text_of(folder), split);
  assert_int_equal(ull_source_sample_count(source), count);
  const ull_array_info *image = ull_source_array(source, 0);
  assert_true(image->image && image->dtype == ULL_UINT8 && image->rank == 3);
  assert_true(image->shape[0] == 3 && image->shape[1] == 32 && image->shape[2] == 32);
  assert_true(ull_source_has_evaluation(source));
  for (int s = 0; s < count; s++) {
    uint8_t pixels[3072];
    assert_int_equal(ull_source_read(source, (uint64_t)s, 0, pixels, NULL), ULL_OK);
    for (int i = 0; i < 3072; i++) assert_int_equal(pixels[i], pixel(first + s, i));
    assert_int_equal(label_of(source, (uint64_t)s), (first + s) % 10);
  }
  int64_t least, most;
  assert_int_equal(ull_source_range(source, 1, &least, &most), ULL_OK);
  assert_in_range(most, 0, 9);
  ull_source_close(source);
}

static void ten_classes(void **state) {
  (void)state;
  put_batch("data_batch_1.bin", 0, 7, 1);
  put_batch("data_batch_2.bin", 7, 5, 1);
  put_batch("data_batch_4.bin", 50, 5, 1);
  put_batch("test_batch.bin", 30, 4, 1);
  put_file(root, "batches.meta.txt", "airplane\r\nauto mobile\n\nbird\n");
  expect_records(ULL_SPLIT_TRAIN, "", 0, 12);
  expect_records(ULL_SPLIT_EVAL, "", 30, 4);
  ull_source *source = open_or_fail(text_of(""), ULL_SPLIT_TRAIN);
  char name[1200], path[1200];
  assert_int_equal(ull_source_class_count(source), 3);
  assert_string_equal(ull_source_class_name(source, 1, name, sizeof name), "auto mobile");
  snprintf(path, sizeof path, "%s/data_batch_2.bin:1", root);
  assert_string_equal(ull_source_sample_name(source, 8, name, sizeof name), path);
  ull_source_close(source);
}

static void hundred_classes(void **state) {
  (void)state;
  put_batch("cifar-100-binary/train.bin", 0, 6, 2);
  put_batch("cifar-100-binary/test.bin", 9, 2, 2);
  expect_records(ULL_SPLIT_TRAIN, "", 0, 6);
  expect_records(ULL_SPLIT_EVAL, "/cifar-100-binary", 9, 2);
}

static void refusals(void **state) {
  (void)state;
  assert_int_equal(open_status(text_of(""), ULL_SPLIT_EVAL), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "has neither test_batch.bin nor test.bin"));
  static const uint8_t bytes[2 * 3073];
  static const size_t wrong[] = {0, 1, 3072, 3074, 2 * 3073 - 1};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    put_bytes(root, "data_batch_1.bin", bytes, wrong[i]);
    assert_int_equal(open_status(text_of(""), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
    assert_non_null(strstr(ull_error_last()->message, "no whole number of records of 3073"));
  }
  put_bytes(root, "data_batch_1.bin", bytes, sizeof bytes);
  ull_source *source = open_or_fail(text_of(""), ULL_SPLIT_TRAIN);
  char path[1200];
  snprintf(path, sizeof path, "%s/data_batch_1.bin", root);
  assert_int_equal(truncate(path, 3073 + 5), 0);
  uint8_t pixels[3072];
  assert_int_equal(ull_source_read(source, 0, 0, pixels, NULL), ULL_OK);
  assert_int_equal(ull_source_read(source, 1, 0, pixels, NULL), ULL_ERROR_DATA);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(ten_classes, make_root, remove_root),
      cmocka_unit_test_setup_teardown(hundred_classes, make_root, remove_root),
      cmocka_unit_test_setup_teardown(refusals, make_root, remove_root),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
