/* The text `NAME?key=value&key=value` and the options that go over it.
 *
 * Every failure names the network and the key, and says what would be right. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "model/zoo/zoo.h"

static uint32_t key_count(const ull__zoo_row *row) {
  uint32_t count = 0;
  while (count < ULL__ZOO_MOST_KEYS && row->keys[count].name != NULL) count++;
  return count;
}

int ull__zoo_key_index(const ull__zoo_row *row, const char *name) {
  for (uint32_t i = 0; i < key_count(row); i++) {
    if (strcmp(row->keys[i].name, name) == 0) return (int)i;
  }
  return -1;
}

/* "a, b, c" of all networks, or of one network's keys. */
static void list_names(const ull__zoo_row *row, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t i = 0; used < size; i++) {
    const char *name = NULL;
    if (row != NULL && i < key_count(row)) name = row->keys[i].name;
    if (row == NULL && ull__zoo_row_at(i) != NULL) name = ull__zoo_row_at(i)->name;
    if (name == NULL) return;
    used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", name);
  }
}

static const ull__zoo_row *find_row(const char *name, size_t length) {
  const ull__zoo_row *row;
  for (uint32_t i = 0; (row = ull__zoo_row_at(i)) != NULL; i++) {
    if (strlen(row->name) == length && memcmp(row->name, name, length) == 0) return row;
  }
  return NULL;
}

static ull_status unknown_row(const char *name) {
  const ull__zoo_row *row, *nearest = NULL;
  size_t best = strlen(name) / 3 + 2;
  char known[256];
  for (uint32_t i = 0; (row = ull__zoo_row_at(i)) != NULL; i++) {
    size_t distance = ull__edit_distance(name, row->name);
    if (distance >= best) continue;
    best = distance;
    nearest = row;
  }
  list_names(NULL, known, sizeof known);
  ull__fail(ULL_ERROR_USAGE, "unknown model zoo:%.64s; known are: %s", name, known);
  ull__error_holder("zoo:%.64s", name);
  if (nearest == NULL) return ull_error_last()->status;
  return ull__error_change("did you mean zoo:%s?", nearest->name);
}

static ull_status unknown_key(const ull__zoo_row *row, const char *name) {
  char known[256];
  const char *nearest = NULL;
  size_t best = strlen(name) / 3 + 2;
  for (uint32_t i = 0; i < key_count(row); i++) {
    const size_t distance = ull__edit_distance(name, row->keys[i].name);
    if (distance >= best) continue;
    best = distance;
    nearest = row->keys[i].name;
  }
  list_names(row, known, sizeof known);
  ull__fail(ULL_ERROR_USAGE, "zoo:%s has no key '%.64s'; it has: %s", row->name, name, known);
  ull__error_holder("%.64s", name);
  return nearest == NULL ? ULL_ERROR_USAGE : ull__error_change("did you mean %s?", nearest);
}

/* The bounds of a key as text: "1 to 1024". */
static ull_status outside(const ull__zoo_row *row, const ull__zoo_key *key, const char *value) {
  ull__fail(ULL_ERROR_INVALID, "zoo:%s: %s=%.64s must be %s from %.15g to %.15g", row->name,
            key->name, value, key->is_real ? "a number" : "a whole number", key->least, key->most);
  return ull__error_holder("%s", key->name);
}

static ull_status parse_number(const ull__zoo_row *row, const ull__zoo_key *key, const char *text,
                               double *out) {
  int64_t whole = 0;
  double value = 0;
  const bool is_number =
      key->is_real ? ull__parse_real(text, &value) : ull__parse_integer(text, &whole);
  if (!key->is_real && !is_number && *text != '\0' && strspn(text, "0123456789") == strlen(text)) {
    ull__fail(ULL_ERROR_OVERFLOW, "zoo:%s: %s=%.64s does not fit into 63 bits", row->name,
              key->name, text);
    return ull__error_holder("%s", key->name);
  }
  if (!key->is_real) value = (double)whole;
  if (!is_number || value < key->least || value > key->most) return outside(row, key, text);
  *out = value;
  return ULL_OK;
}

/* One `key=value` of `length` characters. */
static ull_status read_pair(ull__zoo_choice *choice, const char *pair, size_t length) {
  char text[128];
  if (length >= sizeof text) {
    return ULL__FAIL(ULL_ERROR_USAGE, "zoo:%s: '%.64s...' is too long", choice->row->name, pair);
  }
  memcpy(text, pair, length);
  text[length] = '\0';
  char *equals = strchr(text, '=');
  if (equals == NULL || equals == text) {
    return ULL__FAIL(ULL_ERROR_USAGE, "zoo:%s: '%s' is not key=value", choice->row->name, text);
  }
  *equals = '\0';
  const int index = ull__zoo_key_index(choice->row, text);
  if (index < 0) return unknown_key(choice->row, text);
  if (choice->is_given[index]) {
    ull__fail(ULL_ERROR_USAGE, "zoo:%s: %s is given twice", choice->row->name, text);
    return ull__error_holder("%s", text);
  }
  choice->is_given[index] = true;
  return parse_number(choice->row, &choice->row->keys[index], equals + 1, &choice->values[index]);
}

static ull_status read_pairs(ull__zoo_choice *choice, const char *pairs) {
  while (*pairs != '\0') {
    const size_t length = strcspn(pairs, "&");
    ULL__TRY(read_pair(choice, pairs, length));
    pairs += length;
    if (*pairs == '\0') return ULL_OK;
    pairs++;
    if (*pairs == '\0') {
      return ULL__FAIL(ULL_ERROR_USAGE, "zoo:%s: a key is missing behind the last &",
                       choice->row->name);
    }
  }
  return ULL_OK;
}

/* A flag that stands for a key; 0 = not given. */
static ull_status apply_flag(ull__zoo_choice *choice, const char *flag, const char *key,
                             int64_t value) {
  if (value == 0) return ULL_OK;
  const ull__zoo_row *row = choice->row;
  const int index = ull__zoo_key_index(row, key);
  if (index < 0) {
    ull__fail(ULL_ERROR_USAGE, "--%s says nothing about zoo:%s", flag, row->name);
    return ull__error_holder("--%s", flag);
  }
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)value);
  choice->is_given[index] = true;
  if (parse_number(row, &row->keys[index], text, &choice->values[index]) == ULL_OK) return ULL_OK;
  return ull__error_holder("--%s", flag);
}

ull_status ull__zoo_choose(const char *text, const ull__model_options *options,
                           ull__zoo_choice *out) {
  const size_t length = strcspn(text, "?");
  ull__zoo_choice choice = {.row = find_row(text, length)};
  if (choice.row == NULL) {
    char name[65];
    snprintf(name, sizeof name, "%.*s", (int)(length < 64 ? length : 64), text);
    return unknown_row(name);
  }
  for (uint32_t i = 0; i < key_count(choice.row); i++) {
    choice.values[i] = choice.row->keys[i].standard;
  }
  if (text[length] == '?') ULL__TRY(read_pairs(&choice, text + length + 1));
  if (options != NULL) {
    ULL__TRY(apply_flag(&choice, "classes", "classes", options->classes));
    ULL__TRY(apply_flag(&choice, "seq", "seq", options->sequence));
  }
  *out = choice;
  return ULL_OK;
}

char *ull__zoo_choice_text(const ull__zoo_choice *choice) {
  char text[512];
  size_t used = (size_t)snprintf(text, sizeof text, "zoo:%s", choice->row->name);
  for (uint32_t i = 0; i < key_count(choice->row) && used < sizeof text; i++) {
    char number[32];
    snprintf(number, sizeof number, "%.15g", choice->values[i]);
    char *comma = strchr(number, ','); /* the point of some locales */
    if (comma != NULL) *comma = '.';
    used += (size_t)snprintf(text + used, sizeof text - used, "%c%s=%s", i == 0 ? '?' : '&',
                             choice->row->keys[i].name, number);
  }
  return ull__strdup(text);
}
