/* Parses what stands behind "sim:": SIZE@RATE[,latency=TIME], nothing else around it. */
#include <string.h>

#include "base/byte_size.h"
#include "base/checked.h"
#include "base/error.h"
#include "device/sim/sim.h"

#define MOST_TEXT 64

static ull_status refuse(const char *part, const char *why) {
  ULL__FAIL(ULL_ERROR_USAGE, "sim device: '%.64s' %s", part, why);
  return ull__error_change("write it as sim:512MiB@8GB/s or sim:512MiB@8GB/s,latency=10us");
}

/* Copies [begin, end) into `part`. */
static ull_status cut(const char *begin, const char *end, char part[MOST_TEXT]) {
  size_t length = (size_t)(end - begin);
  if (length == 0) return refuse(begin, "lacks a part");
  if (length >= MOST_TEXT) return refuse(begin, "is too long");
  memcpy(part, begin, length);
  part[length] = '\0';
  return ULL_OK;
}

static ull_status parse_bytes(const char *part, const char *what, uint64_t *out) {
  if (ull__byte_size_parse(part, out) != ULL_OK) return ull__error_context("sim device: %s", what);
  return *out > 0 ? ULL_OK : refuse(part, "is nothing");
}

static ull_status parse_rate(char *part, uint64_t *bytes_per_second) {
  size_t length = strlen(part);
  if (length < 3 || strcmp(part + length - 2, "/s") != 0) {
    return refuse(part, "is no rate: it does not end with /s");
  }
  part[length - 2] = '\0';
  return parse_bytes(part, "the link's rate", bytes_per_second);
}

static ull_status parse_latency(const char *part, uint64_t *latency_ns) {
  static const struct {
    const char *name;
    uint64_t ns;
  } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  const char *rest = part;
  uint64_t count = 0, unit_ns = 0;
  for (; *rest >= '0' && *rest <= '9'; rest++) {
    ULL__TRY(ull__size_mul(count, 10, "a latency", &count));
    ULL__TRY(ull__size_add(count, (uint64_t)(*rest - '0'), "a latency", &count));
  }
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (strcmp(rest, units[i].name) == 0) unit_ns = units[i].ns;
  }
  if (rest == part || unit_ns == 0) return refuse(part, "is no latency: write 10us, 1ms, 500ns");
  return ull__size_mul(count, unit_ns, "a latency", latency_ns);
}

static ull_status parse_option(const char *option, uint64_t *latency_ns) {
  static const char key[] = "latency=";
  if (strncmp(option, key, sizeof key - 1) != 0) {
    return refuse(option, "is not known; latency=TIME is");
  }
  return parse_latency(option + sizeof key - 1, latency_ns);
}

ull_status ull__sim_text_parse(const char *text, ull__sim_text *out) {
  char size[MOST_TEXT], rate[MOST_TEXT];
  ull__sim_text parsed = {0};
  const char *at = strchr(text, '@');
  if (at == NULL) return refuse(text, "has no @RATE");
  const char *end = at + 1 + strcspn(at + 1, ",");
  ULL__TRY(cut(text, at, size));
  ULL__TRY(cut(at + 1, end, rate));
  ULL__TRY(parse_bytes(size, "its size", &parsed.capacity_bytes));
  ULL__TRY(parse_rate(rate, &parsed.link_bytes_per_second));
  if (*end == ',') ULL__TRY(parse_option(end + 1, &parsed.link_latency_ns));
  *out = parsed;
  return ULL_OK;
}
