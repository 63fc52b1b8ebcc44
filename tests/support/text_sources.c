/* See text_sources.h. */
#include "support/text_sources.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utime.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

char text_folder[512], text_cache[600];

void check_status(ull_status status) {
  if (status != ULL_OK) fail_msg("%s (%s)", ull_error_last()->message, ull_error_last()->change);
}

/* ---- files ---- */

/* Older than any clock's tick, so that what is made of it is kept. */
const char *put_text(const char *name, const void *bytes, size_t count) {
  const struct utimbuf old = {1000000000, 1000000000};
  const char *path = path_in(text_folder, name);
  write_file(path, bytes, count);
  assert_int_equal(utime(path, &old), 0);
  usleep(25000); /* the time of change cannot be set */
  return path;
}

ull_source *open_text_source(const char *scheme, const char *path, const char *options) {
  ull_source_options standard = ull_source_options_default();
  ull_source *source = NULL;
  char *text = ull__format("%s:%s%s", scheme, path, options);
  ull_status status = ull_source_open(text, &standard, &source);
  ull__free(text);
  check_status(status);
  return source;
}

ull_status try_text_source(const char *scheme, const char *path, const char *options) {
  ull_source_options standard = ull_source_options_default();
  ull_source *source = NULL;
  char *text = ull__format("%s:%s%s", scheme, path, options);
  ull_status status = ull_source_open(text, &standard, &source);
  ull__free(text);
  ull_source_close(source);
  return status;
}

void read_text_array(const ull_source *source, uint64_t sample, int array, int64_t *to) {
  check_status(ull_source_read(source, sample, (size_t)array, to, NULL));
}

void expect_text_array(const ull_source *source, uint64_t sample, int array, int count,
                       const int64_t *expected) {
  int64_t got[64];
  read_text_array(source, sample, array, got);
  for (int i = 0; i < count; i++) {
    if (got[i] != expected[i])
      fail_msg("sample %d, array %d, element %d is %d, not %d", (int)sample, array, i, (int)got[i],
               (int)expected[i]);
  }
}
int count_kept(const char *kind) {
  int count = 0;
  char *path = ull__format("%s/ullage", text_cache);
  DIR *directory = opendir(path);
  for (struct dirent *entry; directory && (entry = readdir(directory));)
    count += strncmp(entry->d_name, kind, strlen(kind)) == 0;
  if (directory) closedir(directory);
  ull__free(path);
  return count;
}

/* Calls `visit` with the path of every kept file. */
void each_kept(void (*visit)(const char *path, void *context), void *context) {
  char *names[32], *path = ull__format("%s/ullage", text_cache);
  int count = 0;
  DIR *directory = opendir(path);
  for (struct dirent *entry; directory && (entry = readdir(directory)) && count < 32;)
    if (entry->d_name[0] != '.') names[count++] = ull__format("%s/%s", path, entry->d_name);
  if (directory) closedir(directory);
  for (int i = 0; i < count; i++) {
    visit(names[i], context);
    ull__free(names[i]);
  }
  ull__free(path);
}

static void remove_one(const char *path, void *context) {
  (void)context;
  assert_int_equal(unlink(path), 0);
}

void empty_text_cache(void) {
  each_kept(remove_one, NULL);
}

uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Document i is its number in five letters and a random number of others. */
size_t document_text(int i, char text[256]) {
  uint32_t random = (uint32_t)i * 7919u + 1;
  size_t length = 5 + next_random(&random) % (i % 50 == 0 ? 150 : 40);
  for (size_t k = 0; k < length; k++) {
    text[k] = k < 5 ? (char)('a' + (i / (int[]){1, 10, 100, 1000, 10000}[k]) % 10)
                    : (char)('A' + next_random(&random) % 26);
  }
  return length;
}

const char *put_documents(const char *name) {
  byte_buffer lines = {0};
  for (int i = 0; i < DOCUMENTS; i++) {
    char text[256];
    size_t length = document_text(i, text);
    append_bytes(&lines, "{\"text\":\"", 9);
    append_bytes(&lines, text, length);
    append_bytes(&lines, "\"}\n", 3);
  }
  const char *path = put_text(name, lines.bytes, lines.count);
  free_buffer(&lines);
  return path;
}

int set_up_texts(void **state) {
  (void)state;
  snprintf(text_folder, sizeof text_folder, "%s", make_folder());
  snprintf(text_cache, sizeof text_cache, "%s/cache", text_folder);
  setenv("XDG_CACHE_HOME", text_cache, 1);
  return 0;
}

int tear_down_texts(void **state) {
  (void)state;
  empty_text_cache();
  char *path = ull__format("%s/ullage", text_cache);
  rmdir(path);
  rmdir(text_cache);
  ull__free(path);
  remove_tree(text_folder);
  return 0;
}
