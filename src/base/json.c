/* jansson's memory comes from base/alloc.h from the first call on: mixing two allocators in one
 * process would free blocks with the wrong one, so the switch happens once, before anything else.
 */
#include "base/json.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/vector.h"

/* jansson does not always say that it failed for lack of memory; this does. */
static _Thread_local bool was_refused;

static void *allocate(size_t bytes) {
  void *block = ull__alloc(bytes, 1);
  if (block == NULL) was_refused = true;
  return block;
}

static void set_functions(void) {
  json_set_alloc_funcs(allocate, ull__free);
}

void ull__json_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_functions);
}

static ull_status fail_parse(const char *name, size_t flags, const json_error_t *error) {
  if (was_refused) {
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading JSON", name);
  }
  if (flags & JSON_DECODE_INT_AS_REAL) /* a line of its own */
    ull__fail(ULL_ERROR_DATA, "%s: not valid JSON at column %d: %s", name, error->column,
              error->text);
  else
    ull__fail(ULL_ERROR_DATA, "%s: not valid JSON at line %d, column %d: %s", name, error->line,
              error->column, error->text);
  return ull__error_holder("%s", name);
}

static ull_status parse(const char *text, size_t bytes, size_t flags, const char *name,
                        json_t **out) {
  json_error_t error;
  ull__json_start();
  was_refused = false;
  json_t *value = json_loadb(text, bytes, flags, &error);
  if (value == NULL) return fail_parse(name, flags, &error);
  *out = value;
  return ULL_OK;
}

ull_status ull__json_parse(const char *text, size_t bytes, const char *name, json_t **out) {
  return parse(text, bytes, JSON_REJECT_DUPLICATES, name, out);
}

ull_status ull__json_parse_data(const char *text, size_t bytes, const char *name, json_t **out) {
  return parse(text, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, name, out);
}

ull_status ull__json_load(const char *path, uint64_t limit_bytes, json_t **out) {
  char *text;
  size_t bytes;
  ULL__TRY(ull__file_read(path, limit_bytes, &text, &bytes));
  ull_status status = ull__json_parse(text, bytes, path, out);
  ull__free(text);
  return status;
}

/* ---- writing ---- */

typedef ULL__VECTOR(char) characters;

static ull_status add(characters *out, const char *text) {
  size_t length = strlen(text);
  ULL__TRY(ull__vector_reserve(out, length + 1));
  memcpy(out->items + out->count, text, length + 1);
  out->count += length;
  return ULL_OK;
}

/* The fewest digits that read back as the same number, and a point or exponent that keeps it a
 * real. */
static ull_status add_real(characters *out, double value) {
  char text[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  char *comma = strchr(text, ','); /* the point of some locales */
  if (comma != NULL) *comma = '.';
  if (strpbrk(text, ".e") == NULL) strcat(text, ".0");
  return add(out, text);
}

/* Texts, integers and words, as jansson writes them. */
static ull_status add_plain(characters *out, const json_t *value) {
  char *text = json_dumps(value, JSON_ENCODE_ANY);
  if (text == NULL) return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "out of memory while writing JSON");
  ull_status status = add(out, text);
  ull__free(text);
  return status;
}

static ull_status add_value(characters *out, const json_t *value);

static ull_status add_key(characters *out, const char *key) {
  json_t *text = json_string(key);
  if (text == NULL) return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "out of memory while writing JSON");
  ull_status status = add_plain(out, text);
  json_decref(text);
  return status == ULL_OK ? add(out, ":") : status;
}

static ull_status add_object(characters *out, const json_t *object) {
  const char *key, *separator = "{";
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    ULL__TRY(add(out, separator));
    ULL__TRY(add_key(out, key));
    ULL__TRY(add_value(out, value));
    separator = ",";
  }
  return add(out, *separator == '{' ? "{}" : "}");
}

static ull_status add_array(characters *out, const json_t *array) {
  ULL__TRY(add(out, "["));
  for (size_t i = 0; i < json_array_size(array); i++) {
    if (i > 0) ULL__TRY(add(out, ","));
    ULL__TRY(add_value(out, json_array_get(array, i)));
  }
  return add(out, "]");
}

/* Values are built here or parsed with jansson's bound on depth, so recursion is bounded. */
static ull_status add_value(characters *out, const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    return add_object(out, value);
  case JSON_ARRAY:
    return add_array(out, value);
  case JSON_REAL:
    return add_real(out, json_real_value(value));
  default:
    return add_plain(out, value);
  }
}

/* Room for nearly every line, so that the number of calls does not depend on digits. */
#define USUAL_LINE_CHARACTERS (1u << 16)

ull_status ull__json_line(const json_t *value, char **out) {
  characters text = {0};
  ull__json_start();
  ull_status status = ull__vector_reserve(&text, USUAL_LINE_CHARACTERS);
  if (status == ULL_OK) status = add_value(&text, value);
  if (status != ULL_OK) {
    ull__vector_free(&text);
    return status;
  }
  *out = text.items;
  return ULL_OK;
}

/* ---- building ---- */

json_t *ull__json_real(double value) {
  ull__json_start();
  return isfinite(value) ? json_real(value) : json_null();
}

static ull_status fail_memory(void) {
  return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "out of memory while building JSON");
}

ull_status ull__json_put(json_t *object, const char *key, json_t *value) {
  if (value == NULL || object == NULL) {
    json_decref(value);
    return fail_memory();
  }
  return json_object_set_new(object, key, value) == 0 ? ULL_OK : fail_memory();
}

ull_status ull__json_append(json_t *array, json_t *value) {
  if (value == NULL || array == NULL) {
    json_decref(value);
    return fail_memory();
  }
  return json_array_append_new(array, value) == 0 ? ULL_OK : fail_memory();
}
