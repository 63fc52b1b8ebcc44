#include "data/pattern.h"

#include <ctype.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { MOST_PATHS = 1 << 20, MOST_LEVELS = 16 };

static ull_status push_path(ull__paths *paths, const char *path) {
  if (paths->count >= MOST_PATHS)
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "a pattern for more than %d files", MOST_PATHS);
  char *copy = ull__strdup(path);
  if (copy == NULL) return ull_error_last()->status;
  ull_status status = ull__vector_push(paths, copy);
  if (status != ULL_OK) ull__free(copy);
  return status;
}

void ull__paths_free(ull__paths *paths) {
  for (size_t i = 0; i < paths->count; i++) ull__free(paths->items[i]);
  ull__vector_free(paths);
}

/* The brace that closes the one at `open`, or NULL. */
static const char *closing(const char *open) {
  int level = 0;
  for (const char *c = open; *c != '\0'; c++) {
    level += *c == '{';
    level -= *c == '}';
    if (level == 0) return c;
  }
  return NULL;
}

static ull_status write_out(const char *text, int level, ull__paths *paths);

/* `middle` takes the place of [open, close]. */
static ull_status with_middle(const char *text, const char *open, const char *close,
                              const char *middle, size_t bytes, int level, ull__paths *paths) {
  char *whole = ull__format("%.*s%.*s%s", (int)(open - text), text, (int)bytes, middle, close + 1);
  if (whole == NULL) return ull_error_last()->status;
  ull_status status = write_out(whole, level + 1, paths);
  ull__free(whole);
  return status;
}

/* "0000..0099": both of digits; the result is as wide as the first. */
static bool parse_range(const char *inside, size_t bytes, uint64_t *first, uint64_t *last,
                        int *width) {
  size_t i = 0, begin;
  *first = *last = 0;
  while (i < bytes && isdigit((unsigned char)inside[i]) && i < 18)
    *first = *first * 10 + (uint64_t)(inside[i++] - '0');
  *width = (int)i;
  if (i == 0 || bytes - i < 3 || inside[i] != '.' || inside[i + 1] != '.') return false;
  i += 2;
  for (begin = i; i < bytes && isdigit((unsigned char)inside[i]) && i - begin < 18; i++)
    *last = *last * 10 + (uint64_t)(inside[i] - '0');
  return i == bytes && i > begin && *last >= *first && *last - *first < MOST_PATHS;
}

static ull_status write_alternatives(const char *text, const char *open, const char *close,
                                     int level, ull__paths *paths) {
  const char *begin = open + 1;
  int inner = 0;
  for (const char *c = begin; c <= close; c++) {
    inner += *c == '{';
    if ((*c == ',' && inner == 0) || c == close) {
      ULL__TRY(with_middle(text, open, close, begin, (size_t)(c - begin), level, paths));
      begin = c + 1;
    }
    inner -= *c == '}';
  }
  return ULL_OK;
}

static ull_status write_out(const char *text, int level, ull__paths *paths) {
  const char *open = strchr(text, '{');
  const char *close = open != NULL ? closing(open) : NULL;
  if (close == NULL || level == MOST_LEVELS) return push_path(paths, text);
  uint64_t first, last;
  int width;
  if (!parse_range(open + 1, (size_t)(close - open - 1), &first, &last, &width))
    return write_alternatives(text, open, close, level, paths);
  char number[32];
  for (uint64_t n = first; n <= last; n++) {
    int bytes = snprintf(number, sizeof number, "%0*" PRIu64, width, n);
    ULL__TRY(with_middle(text, open, close, number, (size_t)bytes, level, paths));
  }
  return ULL_OK;
}

static ull_status names_nothing(const char *pattern) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: there is no such file", pattern);
  ull__error_holder("%s", pattern);
  return ull__error_change("check the path given with --data");
}

static ull_status look_up(const char *pattern, ull__paths *paths) {
  if (access(pattern, F_OK) == 0) return push_path(paths, pattern);
  glob_t found = {0};
  int result = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
  ull_status status = ULL_OK;
  if (result == GLOB_NOSPACE)
    status = ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: no memory", pattern);
  else if (result != 0 || found.gl_pathc == 0)
    status = names_nothing(pattern);
  for (size_t i = 0; i < found.gl_pathc && status == ULL_OK; i++)
    status = push_path(paths, found.gl_pathv[i]);
  globfree(&found);
  return status;
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void drop_repeated(ull__paths *paths) {
  size_t kept = 0;
  for (size_t i = 0; i < paths->count; i++) {
    if (kept > 0 && strcmp(paths->items[kept - 1], paths->items[i]) == 0)
      ull__free(paths->items[i]);
    else
      paths->items[kept++] = paths->items[i];
  }
  paths->count = kept;
}

ull_status ull__pattern_expand(const char *pattern, ull__paths *paths) {
  ull__paths written = {0};
  *paths = (ull__paths){0};
  /* A file of that very name needs no reading as a pattern. */
  if (access(pattern, F_OK) == 0) return push_path(paths, pattern);
  ull_status status = write_out(pattern, 0, &written);
  for (size_t i = 0; i < written.count && status == ULL_OK; i++)
    status = look_up(written.items[i], paths);
  ull__paths_free(&written);
  if (status != ULL_OK) return status;
  qsort(paths->items, paths->count, sizeof paths->items[0], by_bytes);
  drop_repeated(paths);
  return ULL_OK;
}
