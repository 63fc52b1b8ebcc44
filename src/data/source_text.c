#include "data/source_text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/error.h"

static bool begins_option(const char *text) {
  size_t letters = 0;
  while (islower((unsigned char)text[letters]) || text[letters] == '_') letters++;
  return letters > 0 && text[letters] == '=';
}

/* Where the options begin, at their question mark; NULL where there are none. */
static const char *find_options(const char *argument) {
  const char *mark = strrchr(argument, '?');
  while (mark != NULL && !begins_option(mark + 1)) {
    const char *earlier = NULL;
    for (const char *c = argument; c < mark; c++) {
      if (*c == '?') earlier = c;
    }
    mark = earlier;
  }
  return mark;
}

static ull_status unknown_option(const char *scheme, const char *name, const char *const *known) {
  char list[256] = "";
  size_t used = 0;
  for (size_t i = 0; known[i] != NULL && used + 40 < sizeof list; i++) {
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", known[i]);
  }
  ULL__FAIL(ULL_ERROR_USAGE, "%s: has no option '%s'", scheme, name);
  ull__error_holder("--data %s:...?%s=", scheme, name);
  return ull__error_change("there are %s", used > 0 ? list : "none");
}

static bool is_known(const char *name, const char *const *known) {
  for (size_t i = 0; known[i] != NULL; i++) {
    if (strcmp(known[i], name) == 0) return true;
  }
  return false;
}

static ull_status add_option(const char *scheme, char *item, const char *const *known,
                             ull__source_text *out) {
  char *equals = strchr(item, '=');
  if (equals == NULL) {
    ULL__FAIL(ULL_ERROR_USAGE, "%s: '%s' is no option", scheme, item);
    ull__error_holder("--data %s:...?%s", scheme, item);
    return ull__error_change("write options as ?name=value&name=value");
  }
  *equals = '\0';
  if (!is_known(item, known)) return unknown_option(scheme, item, known);
  if (ull__source_text_get(out, item) != NULL || out->count == ULL__TEXT_OPTIONS) {
    ULL__FAIL(ULL_ERROR_USAGE, "%s: '%s' is given twice", scheme, item);
    return ull__error_holder("--data %s:...?%s=", scheme, item);
  }
  out->items[out->count].name = item;
  out->items[out->count++].value = equals + 1;
  return ULL_OK;
}

ull_status ull__source_text_parse(const char *scheme, const char *argument,
                                  const char *const *known, ull__source_text *out) {
  *out = (ull__source_text){0};
  const char *mark = find_options(argument);
  size_t length = mark != NULL ? (size_t)(mark - argument) : strlen(argument);
  out->path = ull__strndup(argument, length);
  if (out->path == NULL) return ull_error_last()->status;
  if (length == 0) {
    ULL__FAIL(ULL_ERROR_USAGE, "%s: names no file", scheme);
    return ull__error_holder("--data %s:%s", scheme, argument);
  }
  if (mark == NULL) return ULL_OK;
  out->options = ull__strdup(mark + 1);
  if (out->options == NULL) return ull_error_last()->status;
  char *rest = out->options;
  for (char *item; (item = strsep(&rest, "&")) != NULL;)
    ULL__TRY(add_option(scheme, item, known, out));
  return ULL_OK;
}

const char *ull__source_text_get(const ull__source_text *text, const char *name) {
  for (int i = 0; i < text->count; i++) {
    if (strcmp(text->items[i].name, name) == 0) return text->items[i].value;
  }
  return NULL;
}

static ull_status out_of_range(const char *name, const char *value, uint64_t least, uint64_t most) {
  ULL__FAIL(ULL_ERROR_USAGE, "%s=%s: a number from %" PRIu64 " to %" PRIu64 " is needed", name,
            value, least, most);
  return ull__error_holder("option %s", name);
}

ull_status ull__source_text_integer(const ull__source_text *text, const char *name,
                                    uint64_t otherwise, uint64_t least, uint64_t most,
                                    uint64_t *out) {
  const char *value = ull__source_text_get(text, name);
  *out = otherwise;
  if (value == NULL) return ULL_OK;
  char *end;
  errno = 0;
  unsigned long long number = strtoull(value, &end, 10);
  if (!isdigit((unsigned char)value[0]) || *end != '\0' || errno != 0 || number < least ||
      number > most)
    return out_of_range(name, value, least, most);
  *out = number;
  return ULL_OK;
}

ull_status ull__source_text_bytes(const ull__source_text *text, const char *name,
                                  uint64_t otherwise, uint64_t least, uint64_t most,
                                  uint64_t *out) {
  const char *value = ull__source_text_get(text, name);
  *out = otherwise;
  if (value == NULL) return ULL_OK;
  ULL__TRY(ull__byte_size_parse(value, out));
  return *out < least || *out > most ? out_of_range(name, value, least, most) : ULL_OK;
}

void ull__source_text_free(ull__source_text *text) {
  ull__free(text->path);
  ull__free(text->options);
  *text = (ull__source_text){0};
}
