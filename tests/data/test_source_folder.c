/* A folder is read as its names say: order, classes, parts, pairs, odd names, links, and what
 * happens when it changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "data/source.h"
#include "support/data_trees.h"

/* Each file holds its own name. */
static void put_named(const char *name) {
  put_file(root, name, name);
}

static void expect_samples(ull_source *source, const char *const *names, const int *labels,
                           size_t count) {
  assert_int_equal(ull_source_sample_count(source), count);
  for (size_t i = 0; i < count; i++) {
    char name[1024], full[1024];
    const char *text = record_text(source, i, 0);
    assert_non_null(text);
    assert_string_equal(text, names[i]);
    snprintf(full, sizeof full, "%s/%s", ull_source_text(source), names[i]);
    assert_string_equal(ull_source_sample_name(source, i, name, sizeof name), full);
    if (labels != NULL) assert_int_equal(label_of(source, i), labels[i]);
  }
}

static void classes_in_order_of_bytes(void **state) {
  (void)state;
  static const char *const names[] = {
      "Zebra/1.JPG",    "ant/10.jpeg",        "ant/2.png",         "ant/deep/a.jpg",
      "ant/deep/b.jpg", "ant/deep-er/a.webp", "new\nline/x y.jpg", "\xc3\xa4/\xff\xfe.JpEg"};
  static const int labels[] = {0, 1, 1, 1, 1, 1, 2, 3};
  static const int written[] = {5, 2, 7, 0, 3, 6, 1, 4};
  for (size_t i = 0; i < 8; i++) put_named(names[written[i]]);
  put_named("ant/.hidden.jpg");
  put_named(".git/x.jpg");
  put_named("ant/notes.txt");
  put_named("ant/a.bmp");
  put_named("top.jpg");
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  expect_samples(source, names, labels, 8);
  assert_int_equal(ull_source_class_count(source), 4);
  char name[64];
  assert_string_equal(ull_source_class_name(source, 0, name, sizeof name), "Zebra");
  assert_string_equal(ull_source_class_name(source, 2, name, sizeof name), "new\nline");
  assert_string_equal(ull_source_class_name(source, 3, name, sizeof name), "\xc3\xa4");
  assert_string_equal(ull_source_class_name(source, 4, name, sizeof name), "4");
  const char *said = warnings();
  assert_non_null(strstr(said, "3 files are left out"));
  assert_non_null(strstr(said, "(the first: a.bmp)"));
  const ull_array_info *image = ull_source_array(source, 0), *label = ull_source_array(source, 1);
  assert_true(image->content == ULL_CONTENT_IMAGE && image->image && image->sample_bytes == 0);
  assert_true(label->role == ULL_ARRAY_TARGET && label->dtype == ULL_INT64 && label->rank == 0);
  int64_t least, most;
  assert_int_equal(ull_source_range(source, 1, &least, &most), ULL_OK);
  assert_true(least == 0 && most == 3);
  uint8_t byte;
  assert_int_equal(ull_source_read(source, 0, 0, &byte, NULL), ULL_ERROR_MISMATCH);
  assert_int_equal(ull_source_range(source, 0, &least, &most), ULL_ERROR_MISMATCH);
  assert_false(ull_source_has_evaluation(source));
  ull_source_close(source);
}

static void empty_classes_count_and_are_said(void **state) {
  (void)state;
  put_named("a/1.jpg");
  put_folder(root, "b");
  put_named("c/readme.txt");
  put_named("d/1.jpg");
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  expect_samples(source, (const char *const[]){"a/1.jpg", "d/1.jpg"}, (const int[]){0, 3}, 2);
  assert_int_equal(ull_source_class_count(source), 4);
  assert_non_null(strstr(warnings(), "2 class folders hold no pictures and count as classes: "
                                     "'b' (1), 'c' (2)"));
  ull_source_close(source);
}

static void pictures_without_classes(void **state) {
  (void)state;
  put_named("b.jpg");
  put_named("a.png");
  put_folder(root, "empty");
  ull_source *source = open_or_fail(root, ULL_SPLIT_EVAL);
  expect_samples(source, (const char *const[]){"a.png", "b.jpg"}, NULL, 2);
  assert_int_equal(ull_source_array_count(source), 1);
  assert_int_equal(ull_source_class_count(source), 0);
  ull_source_close(source);
}

static void parts_share_their_numbers(void **state) {
  (void)state;
  static const char *const parts[] = {"val", "valid", "validation", "test"};
  put_named("train/cat/1.jpg");
  put_named("train/cow/1.jpg");
  put_named("train/dog/1.jpg");
  assert_int_equal(open_status(root, ULL_SPLIT_EVAL), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "has train/ but no val/"));
  for (size_t i = 0; i < 4; i++) {
    char name[64], path[1024];
    snprintf(name, sizeof name, "%s/dog/7.jpg", parts[i]);
    put_named(name);
    ull_source *train = open_or_fail(root, ULL_SPLIT_TRAIN);
    ull_source *eval = open_or_fail(root, ULL_SPLIT_EVAL);
    assert_int_equal(ull_source_sample_count(train), 3);
    assert_true(ull_source_has_evaluation(train) && ull_source_has_evaluation(eval));
    expect_samples(eval, (const char *const[]){name}, (const int[]){2}, 1);
    assert_int_equal(ull_source_class_count(eval), 3);
    assert_string_equal(warnings(), "");
    ull_source_close(train);
    ull_source_close(eval);
    snprintf(path, sizeof path, "%s/%s", root, parts[i]);
    remove_tree(path);
  }
  put_named("val/eel/1.jpg");
  assert_int_equal(open_status(root, ULL_SPLIT_EVAL), ULL_ERROR_DATA);
  assert_non_null(
      strstr(ull_error_last()->message, "val/ has the class 'eel', which train/ has not"));
}

static void numbers_mean_the_same_classes(void **state) {
  (void)state;
  static const struct {
    const char *folder, *message;
  } cases[] = {{"train", NULL},
               {"less", "class 1 is 'cow' in "},
               {"more", "class 3, 'eel' in "},
               {"first", NULL},
               {"flat", NULL}};
  static const char *const files[] = {"train/cat/1.jpg", "train/cow/1.jpg", "train/dog/1.jpg",
                                      "less/cat/1.jpg",  "less/dog/1.jpg",  "more/cat/1.jpg",
                                      "more/cow/1.jpg",  "more/dog/1.jpg",  "more/eel/1.jpg",
                                      "first/cat/1.jpg", "flat/1.jpg"};
  char text[1200];
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) put_named(files[i]);
  snprintf(text, sizeof text, "%s/train", root);
  ull_source *training = open_or_fail(text, ULL_SPLIT_TRAIN);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    snprintf(text, sizeof text, "%s/%s", root, cases[i].folder);
    ull_source *other = open_or_fail(text, ULL_SPLIT_TRAIN);
    ull_status status = ull_source_check_classes(training, other);
    assert_int_equal(status, cases[i].message != NULL ? ULL_ERROR_MISMATCH : ULL_OK);
    if (cases[i].message != NULL)
      assert_non_null(strstr(ull_error_last()->message, cases[i].message));
    ull_source_close(other);
  }
  ull_source_close(training);
}

static void part_of_training_is_held_out(void **state) {
  (void)state;
  char name[64];
  for (int i = 0; i < 40; i++) {
    snprintf(name, sizeof name, "train/c%d/%d.jpg", i % 2, i);
    put_named(name);
  }
  put_named("val/c0/1.jpg");
  ull_source_options options = ull_source_options_default();
  options.split = ULL_SPLIT_EVAL;
  options.val_split = 0.25;
  ull_source *source;
  assert_int_equal(ull_source_open(root, &options, &source), ULL_OK);
  assert_int_equal(ull_source_sample_count(source), 10);
  for (uint64_t i = 0; i < 10; i++) {
    const char *text = record_text(source, i, 0);
    assert_memory_equal(text, "train/c", 7);
    assert_int_equal(label_of(source, i), text[7] - '0');
  }
  ull_source_close(source);
}

static void images_find_their_masks(void **state) {
  (void)state;
  put_named("images/x/b.jpg");
  put_named("images/a.jpg");
  put_named("images/a.b.jpg");
  put_named("images/lone.jpg");
  put_named("images/c.png");
  put_named("masks/x/b.png");
  put_named("masks/a.png");
  put_named("masks/a.b.png");
  put_named("masks/c_mask.png");
  put_named("masks/other.png");
  put_named("masks/another.png");
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  static const char *const images[] = {"images/a.b.jpg", "images/a.jpg", "images/c.png",
                                       "images/x/b.jpg"};
  static const char *const masks[] = {"masks/a.b.png", "masks/a.png", "masks/c_mask.png",
                                      "masks/x/b.png"};
  expect_samples(source, images, NULL, 4);
  for (uint64_t i = 0; i < 4; i++) assert_string_equal(record_text(source, i, 1), masks[i]);
  const ull_array_info *mask = ull_source_array(source, 1);
  assert_string_equal(mask->name, "mask");
  assert_true(mask->content == ULL_CONTENT_MASK && mask->role == ULL_ARRAY_TARGET);
  assert_non_null(strstr(warnings(), "1 images without a mask, 2 masks without an image"));
  ull_source_close(source);
  put_named("masks/a.webp");
  assert_int_equal(open_status(root, ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "two masks for a"));
}

static void pairs_have_parts_too(void **state) {
  (void)state;
  put_named("images/train/1.jpg");
  put_named("images/val/2.jpg");
  put_named("masks/train/1.png");
  put_named("masks/val/2.png");
  ull_source *eval = open_or_fail(root, ULL_SPLIT_EVAL);
  expect_samples(eval, (const char *const[]){"images/val/2.jpg"}, NULL, 1);
  assert_string_equal(record_text(eval, 0, 1), "masks/val/2.png");
  ull_source_close(eval);
  char path[1024];
  snprintf(path, sizeof path, "%s/images", root);
  remove_tree(path);
  put_named("train/images/3.jpg");
  put_named("train/masks/3.jpg");
  put_named("val/images/4.jpg");
  put_named("val/masks/4.jpg");
  eval = open_or_fail(root, ULL_SPLIT_EVAL);
  assert_string_equal(record_text(eval, 0, 1), "val/masks/4.jpg");
  ull_source_close(eval);
}

static void link_in(const char *name, const char *to) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", root, name);
  assert_int_equal(symlink(to, path), 0);
}

static void links_are_followed_but_not_in_circles(void **state) {
  (void)state;
  put_named("a/1.jpg");
  put_named("elsewhere.dir/2.jpg");
  put_named("a/z/3.jpg");
  link_in("a/up", "..");
  link_in("a/self", ".");
  link_in("a/z/back", "../../a");
  link_in("b", "elsewhere.dir");
  link_in("a/9.jpg", "1.jpg");
  link_in("a/nowhere.jpg", "missing");
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  /* "up" leads to a, which is its ancestor, to b and to elsewhere.dir. */
  char name[1024];
  uint64_t count = ull_source_sample_count(source);
  bool found_link = false;
  for (uint64_t i = 0; i < count; i++) {
    ull_source_sample_name(source, i, name, sizeof name);
    if (strstr(name, "a/9.jpg") != NULL) {
      assert_string_equal(record_text(source, i, 0), "a/1.jpg");
      found_link = true;
    }
    if (strstr(name, "nowhere") == NULL) continue;
    assert_null(record_text(source, i, 0));
    assert_int_equal(ull_error_last()->status, ULL_ERROR_DATA);
    assert_non_null(strstr(ull_error_last()->message, "nowhere.jpg: cannot be opened"));
  }
  assert_true(found_link);
  assert_non_null(strstr(warnings(), "links lead back"));
  assert_int_equal(ull_source_class_count(source), 3);
  ull_source_close(source);
}

static void changes_show_at_the_next_open(void **state) {
  (void)state;
  put_named("a/1.jpg");
  put_named("a/2.jpg");
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  put_named("a/0.jpg");
  char path[1024];
  snprintf(path, sizeof path, "%s/a/1.jpg", root);
  assert_int_equal(remove(path), 0);
  assert_int_equal(ull_source_sample_count(source), 2);
  assert_null(record_text(source, 0, 0));
  assert_int_equal(ull_error_last()->status, ULL_ERROR_DATA);
  assert_string_equal(record_text(source, 1, 0), "a/2.jpg");
  mkdir(path, 0777);
  assert_null(record_text(source, 0, 0));
  assert_non_null(strstr(ull_error_last()->message, "is not a regular file"));
  rmdir(path);
  ull_source_close(source);
  source = open_or_fail(root, ULL_SPLIT_TRAIN);
  expect_samples(source, (const char *const[]){"a/0.jpg", "a/2.jpg"}, NULL, 2);
  char before[1024];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir("/"), 0);
  assert_string_equal(record_text(source, 1, 0), "a/2.jpg");
  assert_int_equal(chdir(before), 0);
  ull_source_close(source);
}

static void texts_of_refusals(void **state) {
  (void)state;
  assert_int_equal(open_status(root, ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "holds no pictures"));
  put_named("a/1.txt");
  assert_int_equal(open_status(root, ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_int_equal(open_status("/nonexistent/folder", ULL_SPLIT_TRAIN), ULL_ERROR_USAGE);
  assert_string_equal(ull_error_last()->message, "/nonexistent/folder: there is no such folder");
  put_file(root, "list.csv", "path,label\n");
  char text[1200], change[1200];
  snprintf(text, sizeof text, "%s/list.csv", root);
  snprintf(change, sizeof change, "--data csv:%s", text);
  assert_int_equal(open_status(text, ULL_SPLIT_TRAIN), ULL_ERROR_USAGE);
  assert_string_equal(ull_error_last()->change, change);
  assert_int_equal(open_status("parquet:x.parquet", ULL_SPLIT_TRAIN), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "x.parquet"));
  char deep[1024] = "a";
  for (int i = 0; i < 40; i++) strcat(deep, "/d");
  strcat(deep, "/1.jpg");
  put_named(deep);
  assert_int_equal(open_status(root, ULL_SPLIT_TRAIN), ULL_ERROR_UNSUPPORTED);
}

/* That no more files can be opened is no fault of the sample. */
static void descriptors_can_run_out(void **state) {
  (void)state;
  put_named("a/1.jpg");
  ull_source *source = open_or_fail(root, ULL_SPLIT_TRAIN);
  struct rlimit before, none;
  getrlimit(RLIMIT_NOFILE, &before);
  none = before;
  none.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &none);
  const char *text = record_text(source, 0, 0);
  setrlimit(RLIMIT_NOFILE, &before);
  assert_null(text);
  assert_int_equal(ull_error_last()->status, ULL_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(ull_error_last()->change, "ulimit -n"));
  assert_string_equal(record_text(source, 0, 0), "a/1.jpg");
  ull_source_close(source);
}

static void memory_can_run_out_anywhere(void **state) {
  (void)state;
  put_named("a/1.jpg");
  put_named("a/x/2.jpg");
  put_named("b/1.jpg");
  ull_source_options options = ull_source_options_default();
  uint64_t live = ull__alloc_count().live_bytes;
  int descriptors = open_descriptors();
  int refused = 0;
  for (uint64_t n = 1; n < 60; n++) {
    ull_source *source;
    ull__alloc_fail_at(n);
    ull_status status = ull_source_open(root, &options, &source);
    ull__alloc_fail_at(0);
    assert_true(status == ULL_OK || status == ULL_ERROR_OUT_OF_MEMORY);
    refused += status != ULL_OK;
    if (status == ULL_OK) {
      expect_samples(source, (const char *const[]){"a/1.jpg", "a/x/2.jpg", "b/1.jpg"}, NULL, 3);
      ull_source_close(source);
    }
    assert_int_equal(ull__alloc_count().live_bytes, live);
    assert_int_equal(open_descriptors(), descriptors);
  }
  assert_in_range(refused, 10, 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
      TEST(classes_in_order_of_bytes),
      TEST(empty_classes_count_and_are_said),
      TEST(pictures_without_classes),
      TEST(parts_share_their_numbers),
      TEST(numbers_mean_the_same_classes),
      TEST(part_of_training_is_held_out),
      TEST(images_find_their_masks),
      TEST(pairs_have_parts_too),
      TEST(links_are_followed_but_not_in_circles),
      TEST(changes_show_at_the_next_open),
      TEST(texts_of_refusals),
      TEST(descriptors_can_run_out),
      TEST(memory_can_run_out_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
