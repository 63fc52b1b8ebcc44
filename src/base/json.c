/* jansson's memory comes from base/alloc.h from the first call on: mixing two allocators in one
 * process would free blocks with the wrong one, so the switch happens once, before anything else.
 */
#include "base/json.h"

#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"

static void *allocate(size_t bytes) {
  return ull__alloc(bytes, 1);
}

static void set_functions(void) {
  json_set_alloc_funcs(allocate, ull__free);
}

void ull__json_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_functions);
}

static ull_status fail_parse(const char *name, const json_error_t *error) {
  if (json_error_code(error) == json_error_out_of_memory) {
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: out of memory while reading JSON", name);
  }
  ull__fail(ULL_ERROR_DATA, "%s: not valid JSON at line %d, column %d: %s", name, error->line,
            error->column, error->text);
  return ull__error_holder("%s", name);
}

ull_status ull__json_parse(const char *text, size_t bytes, const char *name, json_t **out) {
  json_error_t error;
  ull__json_start();
  json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  if (value == NULL) return fail_parse(name, &error);
  *out = value;
  return ULL_OK;
}

ull_status ull__json_load(const char *path, uint64_t limit_bytes, json_t **out) {
  char *text;
  size_t bytes;
  ULL__TRY(ull__file_read(path, limit_bytes, &text, &bytes));
  ull_status status = ull__json_parse(text, bytes, path, out);
  ull__free(text);
  return status;
}

ull_status ull__json_line(const json_t *value, char **out) {
  ull__json_start();
  *out = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
  if (*out != NULL) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "out of memory while writing JSON");
}

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
