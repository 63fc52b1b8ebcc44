/* One text, cut at its lines. */
#include "data/tar/class_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

enum { LARGEST_FILE = 16 << 20, LABELS = 1024 };

static char *find_path(const char *shard) {
  const char *slash = strrchr(shard, '/');
  return ull__format("%.*sclasses.txt", slash != NULL ? (int)(slash - shard + 1) : 0, shard);
}

/* An unfinished last line is a line. */
static ull_status cut_lines(ull__class_names *names, size_t bytes) {
  uint64_t count = bytes > 0 && names->text[bytes - 1] != '\n';
  for (size_t i = 0; i < bytes; i++) count += names->text[i] == '\n';
  names->lines = ull__alloc((size_t)count, sizeof *names->lines);
  if (names->lines == NULL) return ull_error_last()->status;
  for (size_t at = 0; names->count < count; names->count++) {
    names->lines[names->count] = (uint32_t)at;
    char *end = names->text + at + strcspn(names->text + at, "\n");
    if (end > names->text + at && end[-1] == '\r') end[-1] = '\0';
    *end = '\0';
    at = (size_t)(end - names->text) + 1;
  }
  return ULL_OK;
}

static ull_status largest_label(const ull__index *index, int section, uint64_t count,
                                int64_t *least, int64_t *most) {
  int64_t labels[LABELS];
  *least = INT64_MAX;
  *most = INT64_MIN;
  for (uint64_t first = 0; first < count; first += LABELS) {
    size_t run = count - first < LABELS ? (size_t)(count - first) : LABELS;
    ULL__TRY(
        ull__index_read(index, section, first * sizeof labels[0], labels, run * sizeof labels[0]));
    for (size_t i = 0; i < run; i++) {
      if (labels[i] < *least) *least = labels[i];
      if (labels[i] > *most) *most = labels[i];
    }
  }
  return ULL_OK;
}

static ull_status keep(ull_source *source, const ull_source_options *options, const char *path,
                       size_t bytes, const ull__index *index, int section,
                       ull__class_names *names) {
  int64_t least, most;
  if (strlen(names->text) != bytes) { /* no text */
    ull__class_names_free(names);
    return ULL_OK;
  }
  ULL__TRY(cut_lines(names, bytes));
  ULL__TRY(largest_label(index, section, source->stored_count, &least, &most));
  if (least < 0 || most >= (int64_t)names->count) {
    ULL__LOG_WARNING("%s is not used: it names %" PRIu64 " classes, and labels go from %" PRId64
                     " to %" PRId64,
                     path, names->count, least, most);
    ull__class_names_free(names);
    return ULL_OK;
  }
  ULL__TRY(ull__source_hold(source, options, path, bytes + names->count * sizeof *names->lines));
  source->class_count = names->count;
  return ULL_OK;
}

ull_status ull__class_names_find(ull_source *source, const ull_source_options *options,
                                 const char *shard, const ull__index *index, int labels,
                                 ull__class_names *names) {
  size_t bytes = 0;
  char *path = find_path(shard);
  if (path == NULL) return ull_error_last()->status;
  ull_status status = ull__file_read_optional(path, LARGEST_FILE, &names->text, &bytes);
  if (names->text != NULL) status = keep(source, options, path, bytes, index, labels, names);
  ull__free(path);
  return status;
}

void ull__class_names_copy(const ull__class_names *names, uint64_t number, char *buffer,
                           size_t bytes) {
  snprintf(buffer, bytes, "%s", names->text + names->lines[number]);
}

void ull__class_names_free(ull__class_names *names) {
  ull__free(names->text);
  ull__free(names->lines);
  *names = (ull__class_names){0};
}
