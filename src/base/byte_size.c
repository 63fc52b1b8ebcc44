/* Byte sizes are parsed with integers only, so that 1.1GB is 1100000000 and not one byte less. */
#include "base/byte_size.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"
#include "base/error.h"

typedef struct unit {
  const char *name;
  uint64_t bytes;
} unit;

static const unit units[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
};

static ull_status refuse(const char *text, const char *why) {
  ull__fail(ULL_ERROR_USAGE, "'%.64s' is not a size: %s", text, why);
  return ull__error_change("write a size as 4GiB, 512MiB, 1.5GB or in plain bytes");
}

static const unit *find_unit(const char *name) {
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (strcasecmp(units[i].name, name) == 0) return &units[i];
  }
  return NULL;
}

static const char *read_digits(const char *text, uint64_t *value, uint64_t *scale) {
  while (*text >= '0' && *text <= '9') {
    uint64_t digit = (uint64_t)(*text++ - '0');
    if (*scale >= 1000000000000000000u) continue; /* beyond any byte's worth */
    *value = *value * 10 + digit;
    *scale *= 10;
  }
  return text;
}

static ull_status refuse_large(const char *text) {
  return ULL__FAIL(ULL_ERROR_OVERFLOW, "'%.64s' does not fit into 63 bits", text);
}

/* False where the number leaves 64 bits. */
static bool read_whole(const char **text, uint64_t *value) {
  for (; **text >= '0' && **text <= '9'; (*text)++) {
    if (__builtin_mul_overflow(*value, (uint64_t)10, value)) return false;
    if (__builtin_add_overflow(*value, (uint64_t)(**text - '0'), value)) return false;
  }
  return true;
}

ull_status ull__byte_size_parse(const char *text, uint64_t *out_bytes) {
  uint64_t whole = 0, fraction = 0, scale = 1;
  const char *rest = text;
  if (*rest < '0' || *rest > '9') return refuse(text, "it does not begin with a digit");
  if (!read_whole(&rest, &whole)) return refuse_large(text);
  if (*rest == '.') {
    const char *digits = rest + 1;
    rest = read_digits(digits, &fraction, &scale);
    if (rest == digits) return refuse(text, "no digit after the point");
  }
  if (rest[0] == ' ' && rest[1] != '\0') rest++;
  const unit *found = find_unit(rest);
  if (found == NULL) return refuse(text, "unknown unit");
  unsigned __int128 bytes = (unsigned __int128)whole * found->bytes;
  bytes += (unsigned __int128)fraction * found->bytes / scale;
  if (bytes > ULL__SIZE_MAX) return refuse_large(text);
  *out_bytes = (uint64_t)bytes;
  return ULL_OK;
}

char *ull__byte_size_format(uint64_t bytes, char text[ULL__BYTE_SIZE_TEXT]) {
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(text, ULL__BYTE_SIZE_TEXT, "%llu B", (unsigned long long)bytes);
    return text;
  }
  unsigned power = 1;
  while (power < 6 && (bytes >> (10 * power)) >= 1024) power++;
  unsigned __int128 unit_bytes = (unsigned __int128)1 << (10 * power);
  uint64_t tenths = (uint64_t)(((unsigned __int128)bytes * 10 + unit_bytes / 2) / unit_bytes);
  if (tenths >= 10240 && power < 6) {
    tenths = 10;
    power++;
  }
  snprintf(text, ULL__BYTE_SIZE_TEXT, "%llu.%llu %s", (unsigned long long)(tenths / 10),
           (unsigned long long)(tenths % 10), names[power]);
  return text;
}

char *ull__byte_size_exact(uint64_t bytes, char text[ULL__BYTE_SIZE_TEXT]) {
  const unit *best = &units[0];
  for (size_t i = 2; i <= 5; i++) {
    if (bytes > 0 && bytes % units[i].bytes == 0) best = &units[i];
  }
  snprintf(text, ULL__BYTE_SIZE_TEXT, "%llu%s", (unsigned long long)(bytes / best->bytes),
           best->name);
  return text;
}
