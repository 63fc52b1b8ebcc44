/* Rows of a table become features, categories and a target; what cannot is named by its line. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/philox.h"
#include "data/table/table.h"
#include "support/data_trees.h"

static void expect_floats(const ull_source *source, uint64_t row, const char *array,
                          const float *wanted, size_t count) {
  float got[64];
  int number = ull_source_find_array(source, array);
  assert_true(number >= 0);
  assert_int_equal(ull_source_array(source, (size_t)number)->sample_bytes, count * sizeof(float));
  assert_int_equal(ull_source_read(source, row, (size_t)number, got, NULL), ULL_OK);
  assert_memory_equal(got, wanted, count * sizeof(float));
}

static void expect_categories(const ull_source *source, uint64_t row, const char *const *words,
                              const uint64_t *columns, size_t count, uint64_t buckets) {
  int64_t got[64];
  int number = ull_source_find_array(source, "categories");
  assert_true(number >= 0);
  assert_int_equal(ull_source_read(source, row, (size_t)number, got, NULL), ULL_OK);
  for (size_t i = 0; i < count; i++)
    assert_int_equal(got[i], ull__table_bucket(columns[i], words[i], strlen(words[i]), buckets));
}

static void columns_by_what_they_hold(void **state) {
  (void)state;
  put_file(root, "t.csv",
           "age,city,label,income,code\n"
           "1,Rome,0,1.5e3,7\n"
           ",\"Paris, or so\",1, -2.25 ,8\n"
           "nan,,1,?,9\n");
  ull_source *source =
      open_or_fail(at_root("csv:", "t.csv?categories=code,city&hash=1000"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 3);
  assert_int_equal(ull_source_array_count(source), 3);
  expect_floats(source, 0, "features", (const float[]){1, 1500}, 2);
  expect_floats(source, 1, "features", (const float[]){0, -2.25f}, 2);
  expect_floats(source, 2, "features", (const float[]){0, 0}, 2);
  static const uint64_t columns[] = {1, 4};
  expect_categories(source, 0, (const char *const[]){"Rome", "7"}, columns, 2, 1000);
  expect_categories(source, 1, (const char *const[]){"Paris, or so", "8"}, columns, 2, 1000);
  expect_categories(source, 2, (const char *const[]){"", "9"}, columns, 2, 1000);
  int64_t least, most;
  assert_int_equal(ull_source_range(source, 1, &least, &most), ULL_OK);
  assert_true(least == 0 && most == 999);
  assert_int_equal(ull_source_range(source, 2, &least, &most), ULL_OK);
  assert_true(least == 0 && most == 1);
  for (uint64_t i = 0; i < 3; i++) assert_int_equal(label_of(source, i), i > 0);
  char name[1200];
  assert_non_null(strstr(ull_source_sample_name(source, 1, name, sizeof name), "t.csv:3"));
  ull_source_close(source);
}

static void options_of_tables(void **state) {
  (void)state;
  put_file(root, "t.csv", "a,b,c,d\n1,,x,0.5\n-3,2,y,1.5\n");
  ull_source *source = open_or_fail(
      at_root("csv:", "t.csv?target=d&missing=mask&log1p=yes&ignore=3"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_array_count(source), 3);
  expect_floats(source, 0, "features", (const float[]){(float)log1p(1), 0}, 2);
  expect_floats(source, 1, "features", (const float[]){-(float)log1p(3), (float)log1p(2)}, 2);
  expect_floats(source, 0, "target", (const float[]){0.5f}, 1);
  expect_floats(source, 1, "target", (const float[]){1.5f}, 1);
  uint8_t missing[2];
  int array = ull_source_find_array(source, "missing");
  assert_int_equal(ull_source_read(source, 0, (size_t)array, missing, NULL), ULL_OK);
  assert_true(missing[0] == 0 && missing[1] == 1);
  assert_int_equal(ull_source_array(source, 2)->role, ULL_ARRAY_TARGET);
  ull_source_close(source);
  source = open_or_fail(at_root("csv:", "t.csv?target=none"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_find_array(source, "label"), -1);
  assert_int_equal(ull_source_array_count(source), 2);
  ull_source_close(source);
  source = open_or_fail(at_root("csv:", "t.csv?target=c"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_class_count(source), 2);
  assert_string_equal(ull_source_class_name(source, 1, (char[16]){0}, 16), "y");
  assert_int_equal(label_of(source, 1), 1);
  ull_source_close(source);
  put_file(root, "s.csv", " a , b, label \n 1 , 2, 0 \n3 ,4 , 1\n");
  source = open_or_fail(at_root("csv:", "s.csv"), ULL_SPLIT_TRAIN);
  assert_int_equal(label_of(source, 1), 1);
  expect_floats(source, 0, "features", (const float[]){1, 2}, 2);
  ull_source_close(source);
  put_file(root, "r.csv", "a,b,label\r1,2,0\r3,4,1\r");
  assert_int_equal(open_status(at_root("csv:", "r.csv"), ULL_SPLIT_TRAIN), ULL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(ull_error_last()->message, "r.csv: its lines end in CR alone"));
  put_file(root, "n.csv", "5,1.5\n6,2.5\n");
  source = open_or_fail(at_root("csv:", "n.csv"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 2);
  assert_int_equal(label_of(source, 1), 6);
  expect_floats(source, 1, "features", (const float[]){2.5f}, 1);
  ull_source_close(source);
}

static void bad_rows_are_named(void **state) {
  (void)state;
  byte_buffer file = {0};
  char line[64];
  append_bytes(&file, "label,v\n", 8);
  for (int i = 0; i < 300; i++) {
    int bytes = i == 40    ? snprintf(line, sizeof line, "%d,1,2\n", i)
                : i == 200 ? snprintf(line, sizeof line, "%d\n", i)
                : i == 250 ? snprintf(line, sizeof line, "%d,oops\n", i)
                : i == 260 ? snprintf(line, sizeof line, ",7\n")
                           : snprintf(line, sizeof line, "%d,%d\n", i, 2 * i);
    append_bytes(&file, line, (size_t)bytes);
  }
  put_buffer(root, "t.csv", &file);
  free_buffer(&file);
  ull_source *source = open_or_fail(at_root("csv:", "t.csv"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 300);
  assert_non_null(strstr(warnings(), "2 rows have not 2 fields and cannot be used; the first is in "
                                     "line 42"));
  for (uint64_t i = 0; i < 300; i++) {
    float value;
    ull_verdict verdict;
    ull_status status = ull_source_read(source, i, 0, &value, &verdict);
    bool bad = i == 40 || i == 200 || i == 250;
    assert_int_equal(status, bad ? ULL_ERROR_DATA : ULL_OK);
    if (!bad) assert_true(value == (i == 260 ? 7 : 2 * (float)i));
    if (i == 40)
      assert_non_null(strstr(ull_error_last()->message, "t.csv:42: has 3 fields, 2 are"));
    if (i == 250)
      assert_non_null(
          strstr(ull_error_last()->message, "t.csv:252: column 'v' is no number: 'oops'"));
    if (!bad && i != 260) assert_int_equal(label_of(source, i), i);
  }
  assert_int_equal(label_of(source, 260), -1000);
  assert_non_null(strstr(ull_error_last()->message, "t.csv:262: column 'label' is missing"));
  ull_source_close(source);
}

/* ---- a larger table ---- */

enum { ROWS = 6000 };

static float value_of(uint64_t row, uint64_t column) {
  return (float)(int32_t)(ull__philox_u32(4, row, column) % 100000) / 8;
}

static void write_table(void) {
  byte_buffer file = {0};
  char line[256];
  append_bytes(&file, "id,x,word,y,label\n", 18);
  for (uint64_t r = 0; r < ROWS; r++) {
    int bytes = snprintf(line, sizeof line, "%d,%.3f,\"w%d\n%s\",%.3f,class %d\n", (int)r,
                         (double)value_of(r, 0), (int)(r % 37), r % 5 == 0 ? "and,more" : "",
                         (double)value_of(r, 1), (int)(r % 11));
    append_bytes(&file, line, (size_t)bytes);
  }
  put_buffer(root, "big.csv", &file);
  free_buffer(&file);
}

static int wrong_rows(const ull_source *source, uint64_t seed, size_t count) {
  int wrong = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t row = seed == 0 ? i : ull__philox_u32(seed, 1, i) % ROWS;
    float features[3];
    int64_t label = -1;
    if (ull_source_read(source, row, 0, features, NULL) != ULL_OK) wrong++;
    if (ull_source_read(source, row, 2, &label, NULL) != ULL_OK) wrong++;
    wrong += features[0] != (float)row || features[1] != value_of(row, 0) ||
             features[2] != value_of(row, 1);
    /* "class 10" is sorted before "class 2". */
    int64_t number = (int64_t)(row % 11);
    wrong += label != (number == 10 ? 2 : number < 2 ? number : number + 1);
  }
  return wrong;
}

typedef struct reader {
  const ull_source *source;
  uint64_t seed;
  int wrong;
  pthread_t thread;
} reader;

static void *read_rows(void *argument) {
  reader *reader = argument;
  reader->wrong = wrong_rows(reader->source, reader->seed, 1500);
  return NULL;
}

static void any_row_from_any_thread(void **state) {
  (void)state;
  write_table();
  ull_source *source = open_or_fail(at_root("csv:", "big.csv"), ULL_SPLIT_TRAIN);
  ull_source *other = open_or_fail(at_root("csv:", "big.csv?ignore=id"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), ROWS);
  assert_int_equal(wrong_rows(source, 0, ROWS), 0);
  /* Two tables in turn, so that where a thread was last is not where it is. */
  for (uint64_t i = 0; i < 50; i++) {
    float features[3];
    assert_int_equal(ull_source_read(source, i, 0, features, NULL), ULL_OK);
    assert_true(features[0] == (float)i);
    assert_int_equal(ull_source_read(other, i + 1, 0, features, NULL), ULL_OK);
    assert_true(features[0] == value_of(i + 1, 0));
  }
  reader readers[4];
  for (uint64_t t = 0; t < 4; t++) {
    readers[t] = (reader){.source = source, .seed = t + 1};
    assert_int_equal(pthread_create(&readers[t].thread, NULL, read_rows, &readers[t]), 0);
  }
  for (int t = 0; t < 4; t++) {
    pthread_join(readers[t].thread, NULL);
    assert_int_equal(readers[t].wrong, 0);
  }
  ull_source_close(source);
  ull_source_close(other);
}

static void kept_index(void **state) {
  (void)state;
  char cache[1100];
  snprintf(cache, sizeof cache, "%s/cache", root);
  setenv("XDG_CACHE_HOME", cache, 1);
  write_table();
  nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
  uint64_t resident[2];
  for (int i = 0; i < 2; i++) {
    ull_source *source = open_or_fail(at_root("csv:", "big.csv"), ULL_SPLIT_TRAIN);
    resident[i] = ull_source_resident_bytes(source);
    assert_int_equal(wrong_rows(source, 9, 300), 0);
    ull_source_close(source);
  }
  assert_int_equal(resident[0], resident[1]);
  assert_true(resident[0] < 128 * 1024);
  /* Another table of the same name and length. */
  size_t count;
  char path[1100];
  snprintf(path, sizeof path, "%s/big.csv", root);
  uint8_t *bytes = read_file(path, &count);
  memcpy(bytes + count - 3, "99", 2);
  write_file(path, bytes, count);
  free(bytes);
  ull_source *source = open_or_fail(at_root("csv:", "big.csv"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_class_count(source), 12);
  /* Cut while it is in use. */
  write_file(path, "id,x,word,y,label\n", 18);
  float features[3];
  assert_int_equal(ull_source_read(source, ROWS - 1, 0, features, NULL), ULL_ERROR_DATA);
  ull_source_close(source);
}

static void buckets(void **state) {
  (void)state;
  uint64_t counts[16] = {0};
  char word[16];
  for (int i = 0; i < 16000; i++) {
    int bytes = snprintf(word, sizeof word, "w%d", i);
    uint64_t bucket = ull__table_bucket(3, word, (size_t)bytes, 16);
    assert_in_range(bucket, 1, 15);
    counts[bucket]++;
  }
  for (int b = 1; b < 16; b++) assert_in_range(counts[b], 900, 1240);
  assert_int_equal(ull__table_bucket(3, "", 0, 16), 0);
  assert_int_equal(ull__table_bucket(3, "N/A", 3, 16), 0);
  assert_int_not_equal(ull__table_bucket(3, "w1", 2, 1 << 30),
                       ull__table_bucket(4, "w1", 2, 1 << 30));
  /* What weights were trained with must not change: stored values. */
  assert_int_equal(ull__table_bucket(0, "68fd1e64", 8, 65536), 58237);
  assert_int_equal(ull__table_bucket(13, "05db9164", 8, 1000000), 981539);
}

/* As strtod has it, to the bit, whatever the way. */
static void numbers(void **state) {
  (void)state;
  char text[64];
  double value;
  for (uint32_t i = 0; i < 20000; i++) {
    ull__philox_block random = ull__philox(21, 0, i);
    double number = (double)(int32_t)random.word[0] * pow(10, (int)(random.word[1] % 40) - 20);
    snprintf(text, sizeof text, random.word[2] % 2 ? "%.*f" : "%.*g", (int)(random.word[3] % 18),
             number);
    if (strlen(text) > 40) continue;
    assert_true(ull__parse_number(text, strlen(text), &value));
    assert_true(value == strtod(text, NULL));
  }
  static const char *const good[] = {"-0", ".5", "5.", " 7 ", "1e3", "-1.5E-3", "+4", "007"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_true(ull__parse_number(good[i], strlen(good[i]), &value));
    assert_true(value == strtod(good[i], NULL));
  }
  static const char *const bad[] = {"",    " ",     ".",   "-",   "1.2.3", "0x10", "inf",
                                    "nan", "1e999", "1 2", "12a", "--1",   "1,5",  "e5"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_false(ull__parse_number(bad[i], strlen(bad[i]), &value));
  assert_false(ull__parse_number("1\0002", 3, &value));
}

static void criteo_rows(void **state) {
  (void)state;
  const char *data = getenv("ULLAGE_TEST_DATA");
  if (data == NULL) {
    printf("ULLAGE_TEST_DATA is not set\n");
    skip();
  }
  char command[1200], path[1200] = "", text[1300];
  snprintf(command, sizeof command, "ls '%s'/tables/*", data);
  FILE *listing = popen(command, "r");
  assert_non_null(fgets(path, sizeof path, listing));
  pclose(listing);
  path[strcspn(path, "\n")] = '\0';
  snprintf(text, sizeof text, "csv:%s?hash=10000", path);
  ull_source *source = open_or_fail(text, ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), 200);
  const ull_array_info *features = ull_source_array(source, 0);
  const ull_array_info *categories = ull_source_array(source, 1);
  assert_string_equal(features->name, "features");
  assert_int_equal(features->shape[0], 13);
  assert_int_equal(categories->shape[0], 26);
  for (uint64_t i = 0; i < 200; i++) {
    int64_t got[26];
    assert_int_equal(ull_source_read(source, i, 1, got, NULL), ULL_OK);
    for (int c = 0; c < 26; c++) assert_in_range(got[c], 0, 9999);
    assert_in_range(label_of(source, i), 0, 1);
  }
  expect_floats(source, 0, "features",
                (const float[]){0, 3, 260, 0, 17668, 0, 0, 33, 0, 0, 0, 0, 0}, 13);
  ull_source_close(source);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
      TEST(columns_by_what_they_hold),
      TEST(options_of_tables),
      TEST(bad_rows_are_named),
      TEST(any_row_from_any_thread),
      TEST(kept_index),
      TEST(buckets),
      TEST(numbers),
      TEST(criteo_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
