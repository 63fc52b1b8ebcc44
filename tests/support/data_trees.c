#include "support/data_trees.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/source.h"
#include "ullage/log.h"

const char *root;

int make_root(void **state) {
  (void)state;
  root = make_folder();
  collect_warnings();
  return 0;
}

int remove_root(void **state) {
  (void)state;
  remove_tree(root);
  return 0;
}

const char *at_root(const char *scheme, const char *name) {
  static char texts[4][1200];
  static unsigned next;
  char *text = texts[next++ % 4];
  snprintf(text, sizeof texts[0], "%s%s/%s", scheme, root, name);
  return text;
}

static void make_above(char *path) {
  for (char *c = path + 1; *c != '\0'; c++) {
    if (*c != '/') continue;
    *c = '\0';
    mkdir(path, 0777);
    *c = '/';
  }
}

void put_bytes(const char *root, const char *name, const void *bytes, size_t count) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", root, name);
  make_above(path);
  unlink(path); /* file systems that wait for the disk when a file is cut and written again */
  write_file(path, bytes, count);
}

void put_buffer(const char *root, const char *name, const byte_buffer *buffer) {
  put_bytes(root, name, buffer->bytes, buffer->count);
}

void put_file(const char *root, const char *name, const char *text) {
  put_bytes(root, name, text, strlen(text));
}

void put_folder(const char *root, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s/", root, name);
  make_above(path);
}

ull_source *open_or_fail(const char *text, ull_split split) {
  ull_source_options options = ull_source_options_default();
  options.split = split;
  ull_source *source = NULL;
  if (ull_source_open(text, &options, &source) != ULL_OK)
    fail_msg("%s: %s", text, ull_error_last()->message);
  return source;
}

ull_status open_status(const char *text, ull_split split) {
  ull_source_options options = ull_source_options_default();
  options.split = split;
  ull_source *source = NULL;
  ull_error_clear();
  ull_status status = ull_source_open(text, &options, &source);
  assert_int_not_equal(status, ULL_OK);
  assert_null(source);
  assert_true(ull_error_last()->holder[0] != '\0');
  return status;
}

const char *record_text(const ull_source *source, uint64_t sample, size_t array) {
  enum { ROOM = 64 * 1024 };
  static char buffers[4][ROOM];
  static unsigned next;
  char *buffer = buffers[next++ % 4];
  ull__record record;
  uint64_t stored = ull__source_stored_index(source, sample);
  size_t got = 0;
  if (source->kind->open_record(source, stored, array, &record) != ULL_OK) return NULL;
  ull_status status = ull__record_read(&record, 0, buffer, ROOM - 1, &got);
  ull__source_close_record(source, &record);
  buffer[got] = '\0';
  return status == ULL_OK ? buffer : NULL;
}

int64_t label_of(const ull_source *source, uint64_t sample) {
  int array = ull_source_find_array(source, "label");
  if (array < 0) return -1000;
  ull_dtype dtype = ull_source_array(source, (size_t)array)->dtype;
  int64_t wide = 0;
  uint8_t narrow = 0;
  void *to = dtype == ULL_INT64 ? (void *)&wide : (void *)&narrow;
  if (ull_source_read(source, sample, (size_t)array, to, NULL) != ULL_OK) return -1000;
  return dtype == ULL_INT64 ? wide : narrow;
}

static char collected[16384];

static void collect(void *context, ull_log_level level, const char *message) {
  (void)context;
  size_t used = strlen(collected);
  if (level == ULL_LOG_WARNING && used < sizeof collected - 1)
    snprintf(collected + used, sizeof collected - used, "%s\n", message);
}

void collect_warnings(void) {
  collected[0] = '\0';
  ull_log_set(collect, NULL, ULL_LOG_WARNING);
}

const char *warnings(void) {
  static char last[sizeof collected];
  memcpy(last, collected, sizeof last);
  collected[0] = '\0';
  return last;
}

int open_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}
