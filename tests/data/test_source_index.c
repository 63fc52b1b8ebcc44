/* Indexes are kept whole or not believed: a million entries without memory, any damage found, and a
 * folder that changed is scanned again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/index_file.h"
#include "support/data_trees.h"

static int set_up(void **state) {
  make_root(state);
  setenv("XDG_CACHE_HOME", path_in(root, "cache"), 1);
  return 0;
}

static int tear_down(void **state) {
  chmod(path_in(root, "cache"), 0777);
  return remove_root(state);
}

/* Without waiting for the disk, as file systems do when a file is cut and written again. */
static void rewrite(const char *path, const void *bytes, size_t count) {
  unlink(path);
  write_file(path, bytes, count);
}

static void rest_a_little(void) {
  nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
}

static ull__index_parts parts_of(const uint32_t *numbers, size_t count, const char *texts,
                                 size_t bytes) {
  ull__index_parts parts = {.numbers = {7, 8}};
  parts.sections[1].data = numbers;
  parts.sections[1].bytes = count * sizeof numbers[0];
  parts.sections[2].data = texts;
  parts.sections[2].bytes = bytes;
  return parts;
}

static void a_million_names(void **state) {
  (void)state;
  enum { COUNT = 1000000, NAME = 24 };
  uint32_t *places = malloc(COUNT * sizeof *places);
  char *texts = malloc(COUNT * NAME), name[64];
  for (uint32_t i = 0; i < COUNT; i++) {
    places[i] = i * NAME;
    snprintf(texts + places[i], NAME, "picture %u.jpg", i * 7919 % COUNT);
  }
  char *place;
  ull_source source = {.text = (char *)"test"};
  ull_source_options options = ull_source_options_default();
  assert_int_equal(ull__index_place("test", "key", 3, &place), ULL_OK);
  ull__index_parts parts = parts_of(places, COUNT, texts, COUNT * NAME);
  ull__index index;
  uint64_t before = ull__alloc_count().live_bytes;
  for (int i = 0; i < 2; i++) {
    if (i == 0)
      assert_int_equal(ull__index_make(&source, &options, place, 3, &parts, &index), ULL_OK);
    else
      assert_true(ull__index_find(place, 3, &index));
    assert_int_equal(source.resident_bytes, 0);
    assert_true(ull__alloc_count().live_bytes - before < 4096);
    assert_true(index.header.numbers[0] == 7 && index.header.numbers[1] == 8);
    for (uint32_t n = 0; n < 2000; n++) {
      uint32_t sample = ull__philox_u32(1, 0, n) % COUNT, at;
      assert_int_equal(ull__index_read(&index, 1, sample * sizeof at, &at, sizeof at), ULL_OK);
      assert_int_equal(ull__index_text(&index, 2, at, name, sizeof name), ULL_OK);
      assert_string_equal(name, texts + places[sample]);
    }
    char *all = malloc(COUNT * NAME);
    assert_int_equal(ull__index_read(&index, 2, 0, all, COUNT * NAME), ULL_OK);
    assert_memory_equal(all, texts, COUNT * NAME);
    free(all);
    ull__index_close(&index);
  }
  assert_false(ull__index_find(place, 4, &index));
  ull__free(place);
  free(places);
  free(texts);
}

static void what_lies_outside_is_refused(void **state) {
  (void)state;
  static const uint32_t numbers[4] = {1, 2, 3, 4};
  ull_source source = {.text = (char *)"test"};
  ull_source_options options = ull_source_options_default();
  ull__index_parts parts = parts_of(numbers, 4, "ab\0cd", 5);
  ull__index index;
  uint8_t to[64];
  char text[16];
  assert_int_equal(ull__index_make(&source, &options, NULL, 1, &parts, &index), ULL_OK);
  assert_int_equal(source.resident_bytes, index.header.bytes);
  assert_int_equal(ull__index_read(&index, 1, 12, to, 4), ULL_OK);
  assert_int_equal(ull__index_read(&index, 1, 13, to, 4), ULL_ERROR_DATA);
  assert_int_equal(ull__index_read(&index, 1, UINT64_MAX, to, 4), ULL_ERROR_DATA);
  assert_int_equal(ull__index_read(&index, 0, 0, to, 1), ULL_ERROR_DATA);
  assert_int_equal(ull__index_text(&index, 2, 0, text, sizeof text), ULL_OK);
  assert_string_equal(text, "ab");
  assert_int_equal(ull__index_text(&index, 2, 0, text, 2), ULL_OK);
  assert_string_equal(text, "a");
  /* A text without an end stops at the section's. */
  assert_int_equal(ull__index_text(&index, 2, 3, text, sizeof text), ULL_OK);
  assert_string_equal(text, "cd");
  assert_int_equal(ull__index_text(&index, 2, 5, text, sizeof text), ULL_ERROR_DATA);
  ull__index_close(&index);
  options.resident_limit_bytes = 100;
  assert_int_equal(ull__index_make(&source, &options, NULL, 1, &parts, &index),
                   ULL_ERROR_DOES_NOT_FIT);
  ull__index_close(&index);
}

static void damage_is_found(void **state) {
  (void)state;
  uint32_t numbers[500];
  for (uint32_t i = 0; i < 500; i++) numbers[i] = i;
  char *place;
  ull_source source = {.text = (char *)"test"};
  ull_source_options options = ull_source_options_default();
  ull__index_parts parts = parts_of(numbers, 500, "text", 5);
  ull__index index;
  assert_int_equal(ull__index_place("test", "key", 3, &place), ULL_OK);
  assert_int_equal(ull__index_make(&source, &options, place, 1, &parts, &index), ULL_OK);
  ull__index_close(&index);
  size_t count;
  uint8_t *bytes = read_file(place, &count);
  for (size_t at = 0; at < count; at += at < 256 ? 1 : 7) {
    for (int bit = 0; bit < 8; bit += 3) {
      bytes[at] ^= (uint8_t)(1u << bit);
      rewrite(place, bytes, count);
      assert_false(ull__index_find(place, 1, &index));
      bytes[at] ^= (uint8_t)(1u << bit);
    }
  }
  for (size_t cut = 0; cut < count; cut += 61) {
    rewrite(place, bytes, cut);
    assert_false(ull__index_find(place, 1, &index));
  }
  rewrite(place, bytes, count);
  assert_true(ull__index_find(place, 1, &index));
  /* Cut while it is open: an error and no signal. */
  assert_int_equal(truncate(place, 100), 0);
  assert_int_equal(ull__index_read(&index, 1, 0, numbers, sizeof numbers), ULL_ERROR_DATA);
  ull__index_close(&index);
  ull__free(place);
  free(bytes);
}

/* ---- of a folder ---- */

enum { CLASSES = 12, PICTURES = 110, NAME_DIGITS = 180 };

static void put_tree(const char *name) {
  char path[1200], file[1300];
  for (int c = 0; c < CLASSES; c++) {
    snprintf(path, sizeof path, "%s/class %02d", name, c);
    put_folder(root, path);
    for (int i = 0; i < PICTURES; i++) {
      snprintf(file, sizeof file, "%s/%s/picture %0*d.jpg", root, path, NAME_DIGITS, i);
      write_file(file, "x", 1);
    }
  }
}

static const char *kept_file(char *path, size_t room) {
  char command[1200];
  snprintf(command, sizeof command, "ls '%s'/cache/ullage/folder-*.index 2>/dev/null", root);
  FILE *listing = popen(command, "r");
  path[0] = '\0';
  if (fgets(path, (int)room, listing) == NULL) path[0] = '\0';
  pclose(listing);
  path[strcspn(path, "\n")] = '\0';
  return path[0] != '\0' ? path : NULL;
}

static void check_tree(const char *text, uint64_t extra, bool in_memory) {
  ull_source *source = open_or_fail(text, ULL_SPLIT_TRAIN);
  assert_int_equal(ull_source_sample_count(source), CLASSES * PICTURES + extra);
  assert_int_equal(ull_source_class_count(source), CLASSES);
  assert_int_equal(ull_source_resident_bytes(source) > 256 * 1024, in_memory);
  uint64_t shift = 0;
  for (uint32_t i = 0; i < CLASSES * PICTURES; i += 37) {
    char name[1200], ending[300];
    snprintf(ending, sizeof ending, "class %02d/picture %0*d.jpg", (int)(i / PICTURES), NAME_DIGITS,
             (int)(i % PICTURES));
    if (i >= PICTURES) shift = extra;
    ull_source_sample_name(source, i + shift, name, sizeof name);
    assert_non_null(strstr(name, ending));
    assert_int_equal(label_of(source, i + shift), i / PICTURES);
  }
  int64_t least, most;
  assert_int_equal(ull_source_range(source, 1, &least, &most), ULL_OK);
  assert_true(least == 0 && most == CLASSES - 1);
  ull_source_close(source);
}

static void folders_are_scanned_when_they_change(void **state) {
  (void)state;
  char kept[1200], path[1200];
  struct stat before, after;
  put_tree("data");
  const char *text = path_in(root, "data");
  rest_a_little();
  check_tree(text, 0, false);
  assert_non_null(kept_file(kept, sizeof kept));
  stat(kept, &before);
  check_tree(text, 0, false);
  stat(kept, &after);
  assert_int_equal(before.st_ino, after.st_ino);
  /* The same folder by another way. */
  snprintf(path, sizeof path, "%s/data/../data/", root);
  check_tree(path, 0, false);
  stat(kept, &after);
  assert_int_equal(before.st_ino, after.st_ino);
  /* A picture more, seen at the next open even at once. */
  put_file(root, "data/class 00/zz.jpg", "x");
  check_tree(text, 1, true);
  rest_a_little();
  check_tree(text, 1, false);
  stat(kept, &after);
  assert_int_not_equal(before.st_ino, after.st_ino);
  snprintf(path, sizeof path, "%s/data/class 00/zz.jpg", root);
  assert_int_equal(remove(path), 0);
  check_tree(text, 0, true);
  /* Damage. */
  rest_a_little();
  check_tree(text, 0, false);
  size_t count;
  uint8_t *bytes = read_file(kept, &count);
  for (uint32_t i = 0; i < 6; i++) {
    size_t at = ull__philox_u32(2, 0, i) % count;
    bytes[at] ^= 1;
    rewrite(kept, bytes, i == 3 ? count / 2 : count);
    bytes[at] ^= 1;
    check_tree(text, 0, false);
  }
  free(bytes);
}

static void without_a_place_to_keep_it(void **state) {
  (void)state;
  put_tree("data");
  rest_a_little();
  put_file(root, "cache", "a file where the folder should be");
  check_tree(path_in(root, "data"), 0, true);
  unsetenv("XDG_CACHE_HOME");
  char *home = getenv("HOME") != NULL ? strdup(getenv("HOME")) : NULL;
  unsetenv("HOME");
  check_tree(path_in(root, "data"), 0, true);
  if (home != NULL) setenv("HOME", home, 1);
  free(home);
  assert_string_equal(warnings(), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
      TEST(a_million_names),
      TEST(what_lies_outside_is_refused),
      TEST(damage_is_found),
      TEST(folders_are_scanned_when_they_change),
      TEST(without_a_place_to_keep_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
