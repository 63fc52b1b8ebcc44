/* Finding and checking rows of the options table. Messages name the flag as typed and say what
 * would be right. */
#include "base/options.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/error.h"

const ull__option *ull__option_find(ull_command command, const char *name) {
  for (size_t i = 0; i < ull__option_count; i++) {
    const ull__option *option = &ull__options[i];
    if ((option->commands >> command & 1) && strcmp(option->name, name) == 0) return option;
  }
  return NULL;
}

const ull__option *ull__option_find_any(const char *name) {
  for (size_t i = 0; i < ull__option_count; i++) {
    if (strcmp(ull__options[i].name, name) == 0) return &ull__options[i];
  }
  return NULL;
}

static size_t least_of(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Optimal string alignment over three rows of the table of prefixes. */
size_t ull__edit_distance(const char *a, const char *b) {
  enum { MOST = 64 };
  size_t rows[3][MOST + 1];
  size_t a_length = strnlen(a, MOST), b_length = strnlen(b, MOST);
  for (size_t j = 0; j <= b_length; j++) rows[0][j] = j;
  for (size_t i = 1; i <= a_length; i++) {
    size_t *above = rows[(i - 1) % 3], *row = rows[i % 3], *higher = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
      size_t changed = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = least_of(changed, least_of(above[j], row[j - 1]) + 1);
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = least_of(row[j], higher[j - 2] + 1);
    }
  }
  return rows[a_length % 3][b_length];
}

static const ull__option *find_nearest(ull_command command, const char *name) {
  const ull__option *nearest = NULL;
  size_t best = strlen(name) / 3 + 2;
  for (size_t i = 0; i < ull__option_count; i++) {
    if (!(ull__options[i].commands >> command & 1)) continue;
    size_t distance = ull__edit_distance(name, ull__options[i].name);
    if (distance < best) {
      best = distance;
      nearest = &ull__options[i];
    }
  }
  return nearest;
}

static void list_commands(const ull__option *option, char *text, size_t capacity) {
  size_t used = 0;
  text[0] = '\0';
  for (ull_command command = 0; command < ULL_COMMAND_COUNT && used < capacity; command++) {
    if (!(option->commands >> command & 1)) continue;
    used += (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? ", " : "",
                             ull_command_name(command));
  }
}

ull_status ull__option_unknown(ull_command command, const char *name) {
  const ull__option *elsewhere = ull__option_find_any(name);
  const ull__option *nearest = find_nearest(command, name);
  if (elsewhere != NULL) {
    char commands[128];
    list_commands(elsewhere, commands, sizeof commands);
    ull__fail(ULL_ERROR_USAGE, "%s does not take --%s", ull_command_name(command), name);
    ull__error_holder("--%s", name);
    return ull__error_change("--%s is for: %s", name, commands);
  }
  ull__fail(ULL_ERROR_USAGE, "unknown flag --%.64s", name);
  ull__error_holder("--%.64s", name);
  if (nearest != NULL) return ull__error_change("did you mean --%s?", nearest->name);
  return ull__error_change("see ullage %s --help", ull_command_name(command));
}

bool ull__option_is_word(const char *words, const char *text) {
  size_t length = strlen(text);
  while (words != NULL) {
    size_t word_length = strcspn(words, "|");
    if (word_length == length && strncmp(words, text, length) == 0) return true;
    words = words[word_length] == '|' ? words + word_length + 1 : NULL;
  }
  return false;
}

static locale_t c_locale;

static void make_c_locale(void) {
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t get_c_locale(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_c_locale);
  return c_locale;
}

bool ull__parse_real(const char *text, double *out) {
  locale_t locale = get_c_locale();
  char *end;
  if (*text == '\0' || strspn(text, "+-.0123456789eE") != strlen(text)) return false;
  double value = locale != (locale_t)0 ? strtod_l(text, &end, locale) : strtod(text, &end);
  if (*end != '\0' || end == text || !isfinite(value)) return false;
  *out = value;
  return true;
}

bool ull__parse_integer(const char *text, int64_t *out) {
  bool negative = *text == '-';
  uint64_t value = 0;
  const char *digits = text + (negative || *text == '+');
  if (*digits == '\0') return false;
  for (; *digits != '\0'; digits++) {
    if (*digits < '0' || *digits > '9') return false;
    if (__builtin_mul_overflow(value, (uint64_t)10, &value)) return false;
    if (__builtin_add_overflow(value, (uint64_t)(*digits - '0'), &value)) return false;
  }
  if (value > (uint64_t)INT64_MAX) return false;
  *out = negative ? -(int64_t)value : (int64_t)value;
  return true;
}

bool ull__parse_flag(const char *text, bool *out) {
  *out = ull__option_is_word("true|on|yes|1", text);
  return *out || ull__option_is_word("false|off|no|0", text);
}

static ull_status refuse(const ull__option *option, const char *text, const char *expected) {
  ull__fail(ULL_ERROR_USAGE, "--%s %.64s: expected %s", option->name, text, expected);
  return ull__error_holder("--%s", option->name);
}

static ull_status refuse_bounds(const ull__option *option, const char *text) {
  if (option->most < HUGE_VAL) {
    ull__fail(ULL_ERROR_USAGE, "--%s %.64s: must be between %.16g and %.16g", option->name, text,
              option->least, option->most);
  } else {
    ull__fail(ULL_ERROR_USAGE, "--%s %.64s: must be at least %.16g", option->name, text,
              option->least);
  }
  return ull__error_holder("--%s", option->name);
}

static ull_status refuse_kind(const ull__option *option, const char *text, const char *what) {
  char expected[256];
  snprintf(expected, sizeof expected, "%s%s%s", what, option->words != NULL ? " or " : "",
           option->words != NULL ? option->words : "");
  return refuse(option, text, expected);
}

static bool is_all_digits(const char *text) {
  return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

static ull_status check_integer(const ull__option *option, const char *text) {
  int64_t value;
  if (ull__parse_integer(text, &value)) {
    bool inside = (double)value >= option->least && (double)value <= option->most;
    return inside ? ULL_OK : refuse_bounds(option, text);
  }
  if (!is_all_digits(text)) return refuse_kind(option, text, "a whole number");
  ull__fail(ULL_ERROR_OVERFLOW, "--%s %.64s: the number does not fit into 63 bits", option->name,
            text);
  return ull__error_holder("--%s", option->name);
}

static ull_status check_real(const ull__option *option, const char *text) {
  double value;
  if (!ull__parse_real(text, &value)) return refuse_kind(option, text, "a number");
  bool inside = value >= option->least && value <= option->most;
  return inside ? ULL_OK : refuse_bounds(option, text);
}

static ull_status check_size(const ull__option *option, const char *text) {
  uint64_t bytes;
  ull_status status = ull__byte_size_parse(text, &bytes);
  if (status != ULL_OK) {
    ull__error_context("--%s", option->name);
    return ull__error_holder("--%s", option->name);
  }
  if ((double)bytes < option->least) return refuse_bounds(option, text);
  return ULL_OK;
}

static ull_status check_text(const ull__option *option, const char *text) {
  if (option->check == NULL && *text != '\0') return ULL_OK;
  if (option->check != NULL && option->check(text)) return ULL_OK;
  if (*text == '\0') return refuse(option, "''", option->metavar);
  return refuse(option, text, option->metavar);
}

ull_status ull__option_check_value(const ull__option *option, const char *text) {
  bool flag;
  if (ull__option_is_word(option->words, text)) return ULL_OK;
  switch (option->kind) {
  case ULL__OPTION_FLAG:
    return ull__parse_flag(text, &flag) ? ULL_OK : refuse(option, text, "true or false");
  case ULL__OPTION_INTEGER:
    return check_integer(option, text);
  case ULL__OPTION_REAL:
    return check_real(option, text);
  case ULL__OPTION_SIZE:
    return check_size(option, text);
  case ULL__OPTION_CHOICE:
    return refuse(option, text, option->words);
  case ULL__OPTION_TEXT:
  case ULL__OPTION_LIST:
    return check_text(option, text);
  }
  return ULL__FAIL(ULL_ERROR_INTERNAL, "--%s has no kind", option->name);
}
