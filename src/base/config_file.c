/* Configuration files: a JSON object, or lines `name = value`. Both end in the same assignment, so
 * that a value is checked the same way wherever it comes from. Messages carry the path and the
 * line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/config_internal.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

enum { FILE_LIMIT_BYTES = 1 << 20 };

/* Options of other commands are passed over after a check of the name alone. */
static ull_status assign(ull_config *config, const char *name, const char *value) {
  const ull__option *option = ull__option_find(config->command, name);
  if (option == NULL && ull__option_find_any(name) != NULL) return ULL_OK;
  if (option == NULL) return ull__option_unknown(config->command, name);
  return ull__config_assign(config, option, value, ULL_CONFIG_FILE);
}

/* ---- lines ---- */

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *text) {
  while (is_space(*text)) text++;
  char *end = text + strlen(text);
  while (end > text && is_space(end[-1])) end--;
  *end = '\0';
  return text;
}

/* Cuts a comment: a '#' at the start or behind a space, outside quotes. */
static void cut_comment(char *line) {
  bool quoted = false;
  for (char *c = line; *c != '\0'; c++) {
    if (*c == '"') quoted = !quoted;
    if (*c == '#' && !quoted && (c == line || is_space(c[-1]))) {
      *c = '\0';
      return;
    }
  }
}

static char *unquote(char *value) {
  size_t length = strlen(value);
  if (length < 2 || value[0] != '"' || value[length - 1] != '"') return value;
  value[length - 1] = '\0';
  return value + 1;
}

static ull_status read_line(ull_config *config, char *line) {
  cut_comment(line);
  line = trim(line);
  if (*line == '\0') return ULL_OK;
  char *equals = strchr(line, '=');
  if (equals == NULL) {
    ull__fail(ULL_ERROR_USAGE, "'%.64s' has no '='", line);
    return ull__error_change("write name = value");
  }
  *equals = '\0';
  return assign(config, trim(line), unquote(trim(equals + 1)));
}

static ull_status read_lines(ull_config *config, const char *path, char *text) {
  int number = 1;
  for (char *line = text; line != NULL; number++) {
    char *end = strchr(line, '\n');
    if (end != NULL) *end = '\0';
    ull_status status = read_line(config, line);
    if (status != ULL_OK) return ull__error_context("%s, line %d", path, number);
    line = end != NULL ? end + 1 : NULL;
  }
  return ULL_OK;
}

/* ---- JSON ---- */

static ull_status assign_json(ull_config *config, const char *name, const json_t *value) {
  char text[64];
  switch (json_typeof(value)) {
  case JSON_STRING:
    return assign(config, name, json_string_value(value));
  case JSON_TRUE:
    return assign(config, name, "true");
  case JSON_FALSE:
    return assign(config, name, "false");
  case JSON_INTEGER:
    snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    return assign(config, name, text);
  case JSON_REAL: {
    char *line;
    ULL__TRY(ull__json_line(value, &line));
    ull_status status = assign(config, name, line);
    ull__free(line);
    return status;
  }
  default:
    ull__fail(ULL_ERROR_USAGE, "\"%.64s\" must be a text, a number or true or false", name);
    return ull__error_holder("%.64s", name);
  }
}

static ull_status read_json(ull_config *config, const json_t *object) {
  const char *name;
  json_t *value;
  if (!json_is_object(object)) return ULL__FAIL(ULL_ERROR_USAGE, "not a JSON object");
  json_object_foreach((json_t *)object, name, value) {
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < count; i++) {
      const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
      ULL__TRY(assign_json(config, name, item));
    }
  }
  return ULL_OK;
}

/* What a flag names is part of the command: a mistake in it is one of usage. */
static ull_status refuse_json(const char *path) {
  ULL__FAIL(ULL_ERROR_USAGE, "%s", ull_error_last()->message);
  ull__error_holder("%s", path);
  return ull__error_change("mend it there, or write lines name = value");
}

static ull_status parse_json(ull_config *config, const char *path, const char *text, size_t bytes) {
  json_t *object;
  ull_status status = ull__json_parse(text, bytes, path, &object);
  if (status == ULL_ERROR_DATA) return refuse_json(path);
  if (status != ULL_OK) return status;
  status = read_json(config, object);
  json_decref(object);
  return status == ULL_OK ? ULL_OK : ull__error_context("%s", path);
}

ull_status ull_config_load_file(ull_config *config, const char *path) {
  char *text;
  size_t bytes;
  ULL__TRY(ull__file_read(path, FILE_LIMIT_BYTES, &text, &bytes));
  ull_status status;
  if (strlen(text) != bytes) {
    status = ULL__FAIL(ULL_ERROR_USAGE, "%s is not a text file", path);
  } else if (text[strspn(text, " \t\r\n")] == '{') {
    status = parse_json(config, path, text, bytes);
  } else {
    status = read_lines(config, path, text);
  }
  ull__free(text);
  return status;
}
