/* Separated values are parsed as they were written, whatever is in them; a sheet that names
 * pictures is a source of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/table/csv.h"
#include "support/data_trees.h"

/* ---- the parser ---- */

/* What a sheet must give: cells one after the other, and how many each row has. */
typedef struct expected {
  char *cells[4096];
  size_t bytes[4096];
  size_t count, rows, widths[512];
} expected;

typedef struct seen {
  const expected *expected;
  size_t cell;
} seen;

static ull_status check_cell(void *context, const ull__csv_field *field) {
  seen *seen = context;
  assert_true(seen->cell < seen->expected->count);
  size_t bytes = seen->expected->bytes[seen->cell];
  assert_int_equal(field->cut, bytes > ULL__CSV_FIELD);
  assert_int_equal(field->bytes, bytes > ULL__CSV_FIELD ? ULL__CSV_FIELD : bytes);
  assert_memory_equal(field->text, seen->expected->cells[seen->cell], field->bytes);
  seen->cell++;
  return ULL_OK;
}

static uint32_t draw(uint64_t *at, uint32_t below) {
  return (uint32_t)(ull__philox_u32(11, 0, (*at)++) % below);
}

/* A cell of any bytes, quoted where it must be and sometimes where it need not. */
static void append_cell(byte_buffer *file, expected *all, uint64_t *at, char separator) {
  static const char alphabet[] = "aZ0 ,;\t\"\n\r|.-\xff\x01";
  size_t bytes = draw(at, 8) == 0 ? draw(at, 9000) : draw(at, 12);
  char *cell = malloc(bytes + 1);
  bool must = false;
  for (size_t i = 0; i < bytes; i++) {
    cell[i] = alphabet[draw(at, sizeof alphabet - 1)];
    must |= strchr("\"\n\r", cell[i]) != NULL || cell[i] == separator;
  }
  bool quote = must || draw(at, 3) == 0;
  if (quote) append_bytes(file, "\"", 1);
  for (size_t i = 0; i < bytes; i++) {
    if (cell[i] == '"') append_bytes(file, "\"", 1);
    append_bytes(file, cell + i, 1);
  }
  if (quote) append_bytes(file, "\"", 1);
  all->cells[all->count] = cell;
  all->bytes[all->count++] = bytes;
}

static void check_sheet(const byte_buffer *file, const expected *all, char separator) {
  ull__csv_reader *reader = malloc(sizeof *reader);
  ull__content content = {.memory = file->bytes, .bytes = file->count};
  ull__data_file nowhere = {.path = (char *)"memory", .descriptor = -1};
  content.file = &nowhere;
  seen seen = {.expected = all};
  ull__csv_begin(reader, &content, separator, 0, 1);
  for (size_t r = 0;; r++) {
    bool found;
    assert_int_equal(ull__csv_row(reader, check_cell, &seen, &found), ULL_OK);
    assert_int_equal(found, r < all->rows);
    if (!found) break;
    assert_int_equal(reader->columns, all->widths[r]);
    uint64_t lines = 1;
    for (uint64_t i = 0; i < reader->row_offset; i++) lines += file->bytes[i] == '\n';
    assert_int_equal(reader->row_line, lines);
  }
  assert_int_equal(seen.cell, all->count);
  free(reader);
}

static void any_cells_come_back(void **state) {
  (void)state;
  uint64_t at = 0;
  expected *all = malloc(sizeof *all);
  for (int round = 0; round < 60; round++) {
    byte_buffer file = {0};
    char separator = ",;\t|"[round % 4];
    *all = (expected){.rows = 1 + draw(&at, 30)};
    for (size_t r = 0; r < all->rows; r++) {
      all->widths[r] = 2 + draw(&at, 6);
      for (size_t c = 0; c < all->widths[r]; c++) {
        if (c > 0) append_bytes(&file, &separator, 1);
        append_cell(&file, all, &at, separator);
      }
      bool last = r + 1 == all->rows && draw(&at, 2) == 0;
      if (!last) append_bytes(&file, round % 3 == 0 ? "\r\n" : "\n", round % 3 == 0 ? 2 : 1);
      if (!last && draw(&at, 5) == 0) append_bytes(&file, "\n", 1);
    }
    check_sheet(&file, all, separator);
    for (size_t i = 0; i < all->count; i++) free(all->cells[i]);
    free_buffer(&file);
  }
  free(all);
}

/* ---- pictures ---- */

static void put_named(const char *name) {
  put_file(root, name, name);
}

static void paths_and_class_names(void **state) {
  (void)state;
  put_named("img/b.jpg");
  put_named("img/a b,c.png");
  put_named("z.webp");
  put_file(
      root, "list.csv",
      "\xef\xbb\xbfid,Path,Label\r\n1,img/b.jpg,dog\r\n\r\n2,\"img/a b,c.png\",\"a \"\"cat\"\"\""
      "\r\n3,z.webp,dog\r\n4,gone.jpg,eel");
  ull_source *source = open_or_fail(at_root("csv:", "list.csv"), ULL_SPLIT_TRAIN);
  static const char *const names[] = {"img/b.jpg", "img/a b,c.png", "z.webp", "gone.jpg"};
  static const int labels[] = {1, 0, 1, 2};
  assert_int_equal(ull_source_sample_count(source), 4);
  assert_int_equal(ull_source_class_count(source), 3);
  for (uint64_t i = 0; i < 4; i++) {
    char path[1200], name[1200];
    snprintf(path, sizeof path, "%s/%s", root, names[i]);
    assert_string_equal(ull_source_sample_name(source, i, name, sizeof name), path);
    assert_int_equal(label_of(source, i), labels[i]);
    const char *text = record_text(source, i, 0);
    if (i < 3)
      assert_string_equal(text, names[i]);
    else
      assert_null(text);
  }
  char class_name[64];
  assert_string_equal(ull_source_class_name(source, 0, class_name, sizeof class_name), "a \"cat\"");
  int64_t least, most;
  assert_int_equal(ull_source_range(source, 1, &least, &most), ULL_OK);
  assert_true(least == 0 && most == 2);
  ull_source_close(source);
}

static void numbers_without_a_heading(void **state) {
  (void)state;
  put_named("1.jpg");
  put_file(root, "list.tsv", "1.jpg\t 7\n2.jpg\t-3\n");
  char text[1200];
  snprintf(text, sizeof text, "tsv:%s/list.tsv", root);
  for (int i = 0; i < 2; i++) {
    ull_source *source = open_or_fail(i ? text : at_root("csv:", "list.tsv"), ULL_SPLIT_EVAL);
    assert_int_equal(ull_source_class_count(source), 0);
    assert_int_equal(label_of(source, 0), 7);
    assert_int_equal(label_of(source, 1), -3);
    assert_string_equal(record_text(source, 0, 0), "1.jpg");
    ull_source_close(source);
  }
}

static void masks_and_chosen_columns(void **state) {
  (void)state;
  put_named("i/1.jpg");
  put_named("m/1.png");
  put_file(root, "pairs.csv", "image;mask\ni/1.jpg;m/1.png\ni/1.jpg;\n");
  ull_source *source = open_or_fail(at_root("csv:", "pairs.csv"), ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_array_count(source), 2);
  assert_int_equal(ull_source_array(source, 1)->content, ULL_CONTENT_MASK);
  assert_string_equal(record_text(source, 0, 1), "m/1.png");
  assert_null(record_text(source, 1, 1));
  assert_non_null(strstr(ull_error_last()->message, "row 2 has no mask"));
  ull_source_close(source);
  put_file(root, "odd.csv", "what,where,which\n5,i/1.jpg,x\n6,m/1.png,y\n");
  source = open_or_fail(at_root("csv:", "odd.csv?image=WHERE&label=1"), ULL_SPLIT_TRAIN);
  assert_string_equal(record_text(source, 1, 0), "m/1.png");
  assert_int_equal(label_of(source, 1), 6);
  ull_source_close(source);
  put_file(root, "gaps.csv", "path,label\ni/1.jpg,3\nm/1.png,\n,4\n");
  source = open_or_fail(at_root("csv:", "gaps.csv"), ULL_SPLIT_TRAIN);
  assert_int_equal(label_of(source, 0), 3);
  assert_int_equal(label_of(source, 1), -1000);
  assert_non_null(strstr(ull_error_last()->message, "row 2 has no label"));
  assert_null(record_text(source, 2, 0));
  assert_non_null(strstr(ull_error_last()->message, "row 3 has no path"));
  ull_source_close(source);
}

/* The index of a long list is kept, and made anew when the list changes. */
static void long_lists(void **state) {
  (void)state;
  enum { ROWS = 6000 };
  char line[128], cache[1200];
  snprintf(cache, sizeof cache, "%s/cache", root);
  setenv("XDG_CACHE_HOME", cache, 1);
  for (int version = 0; version < 2; version++) {
    byte_buffer file = {0};
    append_bytes(&file, "label,path\n", 11);
    for (int i = 0; i < ROWS; i++) {
      int bytes = snprintf(line, sizeof line, "%s%d,some/folder/of/pictures/%d-%06d.jpg\n",
                           version ? "class " : "", i % 9, version, i);
      append_bytes(&file, line, (size_t)bytes);
    }
    put_buffer(root, "long.csv", &file);
    free_buffer(&file);
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    for (int open = 0; open < 2; open++) {
      ull_source *source = open_or_fail(at_root("csv:", "long.csv"), ULL_SPLIT_TRAIN);
      assert_int_equal(ull_source_sample_count(source), ROWS);
      assert_int_equal(ull_source_class_count(source), version ? 9 : 0);
      assert_true(ull_source_resident_bytes(source) < 64 * 1024);
      for (uint64_t i = 0; i < ROWS; i += 61) {
        char name[1200];
        snprintf(line, sizeof line, "/some/folder/of/pictures/%d-%06d.jpg", version, (int)i);
        assert_non_null(strstr(ull_source_sample_name(source, i, name, sizeof name), line));
        assert_int_equal(label_of(source, i), i % 9);
      }
      ull_source_close(source);
    }
  }
}

static void expect_refusal(const char *content, const char *options, ull_status status,
                           const char *message) {
  char name[256];
  snprintf(name, sizeof name, "x.csv%s", options);
  put_file(root, "x.csv", content);
  assert_int_equal(open_status(at_root("csv:", name), ULL_SPLIT_TRAIN), status);
  if (strstr(ull_error_last()->message, message) == NULL)
    fail_msg("'%s' is not '%s'", ull_error_last()->message, message);
}

static void refusals(void **state) {
  (void)state;
  expect_refusal("", "", ULL_ERROR_DATA, "x.csv: is empty");
  expect_refusal("path,label\n", "", ULL_ERROR_DATA, "holds no samples");
  expect_refusal("path,label\n1.jpg,2\n\"2.jpg,3\n3.jpg,4\n", "", ULL_ERROR_DATA,
                 "x.csv:3: a quote is not closed");
  expect_refusal("path,label\n1.jpg,2\n", "?image=nothing", ULL_ERROR_USAGE,
                 "has no column 'nothing'");
  expect_refusal("path,label\n1.jpg,2\n", "?hash=9", ULL_ERROR_USAGE,
                 "option 'hash' means nothing for a list of pictures");
  expect_refusal("path,label\n1.jpg,2\n", "?sep=comma&sep=tab", ULL_ERROR_USAGE,
                 "'sep' is given twice");
  expect_refusal("path,label\n1.jpg,2\n", "?sep=x", ULL_ERROR_USAGE, "'x' is no separator");
  expect_refusal("PAR1\x15\x04", "", ULL_ERROR_UNSUPPORTED, "is a Parquet file");
  expect_refusal("\x1f\x8b\x08\x01", "", ULL_ERROR_UNSUPPORTED, "is compressed");
  expect_refusal("\xff\xfe"
                 "a",
                 "", ULL_ERROR_UNSUPPORTED, "is UTF-16");
  assert_int_equal(open_status(at_root("csv:", "missing.csv"), ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
}

static void damage_and_cuts_do_no_harm(void **state) {
  (void)state;
  static const char whole[] =
      "path,label,\"no\"\"te\"\na.jpg,1,\"x\ny\"\r\nb.jpg,2,z\n\nc.jpg,k,\n";
  ull_source_options options = ull_source_options_default();
  char text[sizeof whole];
  int opened = 0;
  for (uint32_t i = 0; i < 4000; i++) {
    ull__philox_block random = ull__philox(12, 0, i);
    memcpy(text, whole, sizeof whole);
    size_t bytes = sizeof whole - 1;
    if (i < sizeof whole)
      bytes = i;
    else
      text[random.word[0] % bytes] = ",\"\n\r\t;?\0aj.0-"[random.word[1] % 14];
    put_bytes(root, "f.csv", text, bytes);
    ull_source *source;
    if (ull_source_open(at_root("csv:", "f.csv"), &options, &source) != ULL_OK) continue;
    opened++;
    uint8_t row[256];
    for (uint64_t s = 0; s < ull_source_sample_count(source); s++) {
      for (size_t a = 0; a < ull_source_array_count(source); a++) {
        if (ull_source_array(source, a)->content != ULL_CONTENT_ELEMENTS)
          record_text(source, s, a);
        else if (ull_source_array(source, a)->sample_bytes <= sizeof row)
          ull_source_read(source, s, a, row, NULL);
      }
    }
    ull_source_close(source);
  }
  assert_in_range(opened, 2000, 4000);
}

static void memory_can_run_out_anywhere(void **state) {
  (void)state;
  put_file(root, "a.csv", "path,label\n1.jpg,x\n2.jpg,y\n");
  put_file(root, "b.csv", "n,c,label\n1,x,p\n2,y,q\n");
  ull_source_options options = ull_source_options_default();
  uint64_t live = ull__alloc_count().live_bytes;
  int descriptors = open_descriptors();
  for (int table = 0; table < 2; table++) {
    int refused = 0;
    for (uint64_t n = 1; n < 60; n++) {
      ull_source *source;
      ull__alloc_fail_at(n);
      ull_status status =
          ull_source_open(at_root("csv:", table ? "b.csv" : "a.csv"), &options, &source);
      ull__alloc_fail_at(0);
      assert_true(status == ULL_OK || status == ULL_ERROR_OUT_OF_MEMORY);
      refused += status != ULL_OK;
      if (status == ULL_OK) ull_source_close(source);
      assert_int_equal(ull__alloc_count().live_bytes, live);
      assert_int_equal(open_descriptors(), descriptors);
    }
    assert_in_range(refused, 10, 50);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
      TEST(any_cells_come_back),
      TEST(paths_and_class_names),
      TEST(numbers_without_a_heading),
      TEST(masks_and_chosen_columns),
      TEST(long_lists),
      TEST(refusals),
      TEST(damage_and_cuts_do_no_harm),
      TEST(memory_can_run_out_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
