/* Help and the resolved configuration, written from the options table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/config_internal.h"
#include "base/error.h"
#include "base/json.h"

enum { HELP_COLUMN = 28, HELP_WIDTH = 96 };

typedef ULL__VECTOR(char) characters;

static ull_status add(characters *out, const char *text, size_t length) {
  ULL__TRY(ull__vector_reserve(out, length + 1));
  memcpy(out->items + out->count, text, length);
  out->count += length;
  out->items[out->count] = '\0';
  return ULL_OK;
}

static ull_status add_text(characters *out, const char *text) {
  return add(out, text, strlen(text));
}

static ull_status add_spaces(characters *out, size_t count) {
  for (size_t i = 0; i < count; i++) ULL__TRY(add(out, " ", 1));
  return ULL_OK;
}

/* Words of `text` from column `column` on, broken at HELP_WIDTH and indented to HELP_COLUMN. */
static ull_status add_wrapped(characters *out, const char *text, size_t *column) {
  while (*text != '\0') {
    size_t length = strcspn(text, " ");
    if (*column > HELP_COLUMN && *column + 1 + length > HELP_WIDTH) {
      ULL__TRY(add(out, "\n", 1));
      ULL__TRY(add_spaces(out, HELP_COLUMN));
      *column = HELP_COLUMN;
    } else if (*column > HELP_COLUMN) {
      ULL__TRY(add(out, " ", 1));
      *column += 1;
    }
    ULL__TRY(add(out, text, length));
    *column += length;
    text += length;
    text += strspn(text, " ");
  }
  return ULL_OK;
}

static ull_status add_option_help(characters *out, const ull__option *option) {
  char head[128], initial[128];
  bool has_value = option->kind != ULL__OPTION_FLAG;
  snprintf(head, sizeof head, option->positional ? "  %s%s%s" : "  --%s%s%s",
           option->positional ? option->metavar : option->name,
           has_value && !option->positional ? " " : "",
           has_value && !option->positional ? option->metavar : "");
  ULL__TRY(add_text(out, head));
  size_t column = strlen(head);
  if (column + 2 > HELP_COLUMN) {
    ULL__TRY(add(out, "\n", 1));
    column = 0;
  }
  ULL__TRY(add_spaces(out, HELP_COLUMN - column));
  column = HELP_COLUMN;
  ULL__TRY(add_wrapped(out, option->help, &column));
  if (has_value && option->initial != NULL) {
    snprintf(initial, sizeof initial, "(%s)", option->initial);
    ULL__TRY(add_wrapped(out, initial, &column));
  }
  return add(out, "\n", 1);
}

static ull_status add_group(characters *out, ull_command command, ull__option_group group,
                            const char *title) {
  bool titled = false;
  for (size_t i = 0; i < ull__option_count; i++) {
    const ull__option *option = &ull__options[i];
    if (option->group != group || !(option->commands >> command & 1)) continue;
    if (!titled) {
      ULL__TRY(add(out, "\n", 1));
      ULL__TRY(add_text(out, title));
      ULL__TRY(add(out, ":\n", 2));
    }
    titled = true;
    ULL__TRY(add_option_help(out, option));
  }
  return ULL_OK;
}

static ull_status write_help(characters *out, ull_command command) {
  static const char *const arguments[ULL_COMMAND_COUNT] = {
#define XX(name, text, arguments, most, summary) [ULL_COMMAND_##name] = arguments,
      ULL_COMMAND_MAP(XX)
#undef XX
  };
  char head[512];
  snprintf(head, sizeof head, "usage: ullage %s%s%s [flags]\n\n%s.\n", ull_command_name(command),
           *arguments[command] != '\0' ? " " : "", arguments[command],
           ull_command_summary(command));
  size_t start = out->count;
  ULL__TRY(add_text(out, head));
  char *summary = strstr(out->items + start, "\n\n") + 2;
  if (*summary >= 'a' && *summary <= 'z') *summary = (char)(*summary - 'a' + 'A');
#define XX(name, title) ULL__TRY(add_group(out, command, ULL__GROUP_##name, title));
  ULL__OPTION_GROUP_MAP(XX)
#undef XX
  return ULL_OK;
}

/* Puts what was written in place of the text made before. */
static const char *keep(char **kept, characters *written, ull_status status) {
  if (status != ULL_OK) {
    ull__vector_free(written);
    return NULL;
  }
  ull__free(*kept);
  *kept = written->items;
  return *kept;
}

const char *ull_config_help(ull_config *config) {
  characters out = {0};
  return keep(&config->help, &out, write_help(&out, config->command));
}

/* ---- the resolved configuration ---- */

static bool is_resolved(const ull_config *config, const ull__option *option) {
  if (option->unsaved || !(option->commands >> config->command & 1)) return false;
  return ull__config_setting(config, option)->values.count > 0;
}

static json_t *make_json(const ull__option *option, const char *text) {
  int64_t integer;
  double real;
  bool flag;
  switch (option->kind) {
  case ULL__OPTION_FLAG:
    return json_boolean(ull__parse_flag(text, &flag) && flag);
  case ULL__OPTION_INTEGER:
    if (ull__parse_integer(text, &integer)) return json_integer(integer);
    break;
  case ULL__OPTION_REAL:
    if (ull__parse_real(text, &real)) return ull__json_real(real);
    break;
  default:
    break;
  }
  return json_string(text);
}

static ull_status put_option(json_t *object, const ull_config *config, const ull__option *option) {
  const ull__texts *values = &ull__config_setting(config, option)->values;
  if (option->kind != ULL__OPTION_LIST) {
    return ull__json_put(object, option->name, make_json(option, values->items[0]));
  }
  json_t *array = json_array();
  ULL__TRY(ull__json_put(object, option->name, array));
  for (size_t i = 0; i < values->count; i++) {
    ULL__TRY(ull__json_append(array, make_json(option, values->items[i])));
  }
  return ULL_OK;
}

const char *ull_config_resolved_json(ull_config *config) {
  ull__json_start();
  json_t *object = json_object();
  char *line = NULL;
  ull_status status = object != NULL
                          ? ULL_OK
                          : ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "out of memory for a configuration");
  for (size_t i = 0; status == ULL_OK && i < ull__option_count; i++) {
    const ull__option *option = &ull__options[i];
    if (is_resolved(config, option)) status = put_option(object, config, option);
  }
  if (status == ULL_OK) status = ull__json_line(object, &line);
  json_decref(object);
  if (status != ULL_OK) return NULL;
  ull__free(config->resolved_json);
  config->resolved_json = line;
  return line;
}
