/* Machines as text.
 *
 * A text is a list of parts, KEY:VALUE, in any order, each at most once. Numbers are read digit by
 * digit, so that no locale changes them; rates are whole bytes or operations a second and times
 * whole nanoseconds, so that a printed text parses back to the same machine. */
#include "plan/machine.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

#define MOST_FILE_BYTES (1u << 20)
#define MOST_PART_CHARACTERS 96
#define KNOWN_PARTS "device, host, disk, shared, compute, mem, latency, process, kernel or launch"

typedef struct unit {
  const char *text;
  double factor;
} unit;

static const unit operation_rates[] = {{"TFLOPS", 1e12}, {"GFLOPS", 1e9},   {"MFLOPS", 1e6},
                                       {"PFLOPS", 1e15}, {"TFLOP/s", 1e12}, {"GFLOP/s", 1e9},
                                       {"MFLOP/s", 1e6}, {"PFLOP/s", 1e15}, {"FLOPS", 1},
                                       {"FLOP/s", 1},    {NULL, 0}};
static const unit byte_rates[] = {{"GB/s", 1e9},
                                  {"MB/s", 1e6},
                                  {"kB/s", 1e3},
                                  {"TB/s", 1e12},
                                  {"B/s", 1},
                                  {"KiB/s", 1024},
                                  {"MiB/s", 1048576},
                                  {"GiB/s", 1073741824.0},
                                  {"TiB/s", 1099511627776.0},
                                  {NULL, 0}};
static const unit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};

typedef struct parser {
  ull__machine *machine;
  uint32_t seen; /* bit of each row of `parts` */
} parser;

static ull_status fail_part(const char *part, const char *reason) {
  ULL__FAIL(ULL_ERROR_USAGE, "machine: '%s': %s", part, reason);
  ull__error_holder("%s", part);
  return ull__error_change(
      "for example \"device:8GiB@12GB/s host:16GiB compute:9TFLOPS mem:300GB/s\"");
}

/* Digits, at most one point among them; false where the text does not begin with a digit. */
static bool read_decimal(const char **text, double *out) {
  const char *p = *text;
  double number = 0, scale = 1;
  if (*p < '0' || *p > '9') return false;
  for (; *p >= '0' && *p <= '9'; p++) number = number * 10 + (*p - '0');
  if (*p == '.') {
    for (p++; *p >= '0' && *p <= '9'; p++, scale *= 10) number = number * 10 + (*p - '0');
    if (p[-1] == '.') return false;
  }
  *text = p;
  *out = number / scale;
  return true;
}

/* A number and one of `units`, as a whole number of the smallest of them. */
static bool read_quantity(const char *text, const unit *units, double *out) {
  double number;
  if (!read_decimal(&text, &number)) return false;
  while (units->text && strcasecmp(text, units->text) != 0) units++;
  *out = nearbyint(number * units->factor);
  return units->text && *out <= 9e18;
}

/* ---- values of parts ---- */

/* SIZE, SIZE@RATE or SIZE@RATE,RATE: towards the device, and away from it. */
static ull_status read_tier(const char *part, char *value, ull__machine_tier *tier) {
  char *rate = strchr(value, '@');
  if (rate) *rate++ = 0;
  if (ull__byte_size_parse(value, &tier->capacity_bytes) != ULL_OK || tier->capacity_bytes == 0)
    return fail_part(part, "a tier has a size, as in 8GiB");
  if (!rate) return ULL_OK;
  char *away = strchr(rate, ',');
  if (away) *away++ = 0;
  if (!read_quantity(rate, byte_rates, &tier->in_bytes_per_second) ||
      !read_quantity(away ? away : rate, byte_rates, &tier->out_bytes_per_second) ||
      tier->in_bytes_per_second <= 0 || tier->out_bytes_per_second <= 0)
    return fail_part(part,
                     "a link has a rate, as in @12GB/s, or one each way, as in @12GB/s,6GB/s");
  return ULL_OK;
}

static ull_status read_device(const char *part, char *value, ull__machine *machine) {
  return read_tier(part, value, &machine->tiers[ULL__TIER_DEVICE]);
}

static ull_status read_host(const char *part, char *value, ull__machine *machine) {
  return read_tier(part, value, &machine->tiers[ULL__TIER_HOST]);
}

static ull_status read_disk(const char *part, char *value, ull__machine *machine) {
  return read_tier(part, value, &machine->tiers[ULL__TIER_DISK]);
}

static ull_status read_shared(const char *part, char *value, ull__machine *machine) {
  machine->shared = true;
  if (strchr(value, '@')) return fail_part(part, "shared memory has no link");
  return read_tier(part, value, &machine->tiers[ULL__TIER_DEVICE]);
}

static ull_status read_compute(const char *part, char *value, ull__machine *machine) {
  bool good = read_quantity(value, operation_rates, &machine->flops_per_second);
  return good && machine->flops_per_second > 0
             ? ULL_OK
             : fail_part(part, "a rate of operations, as in 9TFLOPS, is wanted");
}

static ull_status read_memory(const char *part, char *value, ull__machine *machine) {
  bool good = read_quantity(value, byte_rates, &machine->bytes_per_second);
  return good && machine->bytes_per_second > 0
             ? ULL_OK
             : fail_part(part, "a rate of bytes, as in 300GB/s, is wanted");
}

static ull_status read_latency(const char *part, char *value, ull__machine *machine) {
  double nanoseconds;
  if (!read_quantity(value, times, &nanoseconds))
    return fail_part(part, "a time, as in 10us, is wanted");
  machine->launch_seconds = nanoseconds / 1e9;
  return ULL_OK;
}

static ull_status read_process(const char *part, char *value, ull__machine *machine) {
  return ull__byte_size_parse(value, &machine->process_bytes) == ULL_OK
             ? ULL_OK
             : fail_part(part, "a size, as in 24MiB, is wanted");
}

static ull_status read_kernel(const char *part, char *value, ull__machine *machine) {
  return ull__byte_size_parse(value, &machine->allowances.kernel_bytes) == ULL_OK
             ? ULL_OK
             : fail_part(part, "a size, as in 40KiB, is wanted");
}

static ull_status read_launch(const char *part, char *value, ull__machine *machine) {
  return ull__byte_size_parse(value, &machine->allowances.launch_bytes) == ULL_OK
             ? ULL_OK
             : fail_part(part, "a size, as in 16KiB, is wanted");
}

static const struct {
  const char *key;
  ull_status (*read)(const char *part, char *value, ull__machine *machine);
} parts[] = {{"device", read_device},   {"host", read_host},       {"disk", read_disk},
             {"shared", read_shared},   {"compute", read_compute}, {"mem", read_memory},
             {"latency", read_latency}, {"process", read_process}, {"kernel", read_kernel},
             {"launch", read_launch}};

#define PART_COUNT (sizeof parts / sizeof parts[0])

/* ---- texts ---- */

static ull_status read_part(parser *p, const char *part) {
  char copy[MOST_PART_CHARACTERS];
  snprintf(copy, sizeof copy, "%s", part);
  char *value = strchr(copy, ':');
  if (!value) return fail_part(part, "neither a file nor KEY:VALUE with a key of " KNOWN_PARTS);
  *value++ = 0;
  for (size_t i = 0; i < PART_COUNT; i++) {
    if (strcmp(copy, parts[i].key) != 0) continue;
    if (p->seen & 1u << i) return fail_part(part, "this part was given before");
    p->seen |= 1u << i;
    return parts[i].read(part, value, p->machine);
  }
  return fail_part(part, "the key is none of " KNOWN_PARTS);
}

static ull_status check_whole(const ull__machine *machine, uint32_t seen) {
  const uint32_t device = 1u << 0, host = 1u << 1, shared = 1u << 3;
  if (machine->shared && (seen & (device | host)))
    return fail_part("shared", "device and host are the same bytes, so neither is given beside it");
  if (!(seen & (device | shared)))
    return fail_part("device", "a machine has device:SIZE or shared:SIZE");
  return ULL_OK;
}

static ull_status parse_text(const char *text, ull__machine *out) {
  static const char blanks[] = " \t\r\n";
  ull__machine machine = {0};
  parser p = {.machine = &machine};
  for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
    char part[MOST_PART_CHARACTERS];
    size_t length = strcspn(text, blanks);
    snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : sizeof part), text);
    if (length >= sizeof part) return fail_part(part, "this part is too long");
    ULL__TRY(read_part(&p, part));
    text += length;
  }
  ULL__TRY(check_whole(&machine, p.seen));
  *out = machine;
  return ULL_OK;
}

static ull_status parse_json(const char *text, size_t bytes, const char *path, ull__machine *out) {
  json_t *object;
  ULL__TRY(ull__json_parse(text, bytes, path, &object));
  const char *machine = json_string_value(json_object_get(object, "machine"));
  ull_status status =
      machine ? parse_text(machine, out)
              : ULL__FAIL(ULL_ERROR_DATA, "the object has no text `machine`, as probe --json has");
  if (status == ULL_OK) {
    status = ull__machine_read_allowances(object, &out->allowances);
    if (status != ULL_OK) ull__machine_free(out);
  }
  json_decref(object);
  return status;
}

void ull__machine_free(ull__machine *machine) {
  ull__allowances_free(&machine->allowances);
}

ull_status ull__machine_parse(const char *text_or_file, ull__machine *out) {
  char *text;
  size_t bytes;
  if (!ull__file_exists(text_or_file)) return parse_text(text_or_file, out);
  ULL__TRY(ull__file_read(text_or_file, MOST_FILE_BYTES, &text, &bytes));
  bool is_json = text[strspn(text, " \t\r\n")] == '{';
  ull_status status = is_json ? parse_json(text, bytes, text_or_file, out) : parse_text(text, out);
  ull__free(text);
  if (status != ULL_OK) ull__error_context("%s", text_or_file);
  return status;
}

/* ---- printing ---- */

static void add(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  va_list list;
  va_start(list, format);
  vsnprintf(text + used, size - used, format, list);
  va_end(list);
}

/* In the largest unit, of those that come first, in which it is whole or has few digits. */
static void add_quantity(char *text, size_t size, double quantity, const unit *units) {
  const unit *best = units;
  while (best[1].text && (quantity < best->factor || fmod(quantity, best->factor) != 0)) best++;
  if (!best->text) return;
  add(text, size, "%.0f%s", quantity / best->factor, best->text);
}

static const unit printed_operation_rates[] = {
    {"TFLOPS", 1e12}, {"GFLOPS", 1e9}, {"MFLOPS", 1e6}, {"FLOPS", 1}, {NULL, 0}};
static const unit printed_byte_rates[] = {
    {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}, {NULL, 0}};
static const unit printed_times[] = {{"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {NULL, 0}};

static void add_size(char *text, size_t size, const char *key, uint64_t bytes) {
  char exact[ULL__BYTE_SIZE_TEXT];
  if (bytes == 0) return;
  add(text, size, "%s%s:%s", *text ? " " : "", key, ull__byte_size_exact(bytes, exact));
}

static void add_tier(char *text, size_t size, const char *key, const ull__machine_tier *tier) {
  if (tier->capacity_bytes == 0) return;
  add_size(text, size, key, tier->capacity_bytes);
  double in = nearbyint(tier->in_bytes_per_second), out = nearbyint(tier->out_bytes_per_second);
  if (in <= 0 || out <= 0) return;
  add(text, size, "@");
  add_quantity(text, size, in, printed_byte_rates);
  if (in == out) return;
  add(text, size, ",");
  add_quantity(text, size, out, printed_byte_rates);
}

static void add_rate(char *text, size_t size, const char *key, double quantity, const unit *units) {
  if (nearbyint(quantity) <= 0) return;
  add(text, size, "%s%s:", *text ? " " : "", key);
  add_quantity(text, size, nearbyint(quantity), units);
}

char *ull__machine_text(const ull__machine *machine, char *text, size_t size) {
  if (size == 0) return text;
  text[0] = 0;
  const ull__machine_tier *tiers = machine->tiers;
  add_tier(text, size, machine->shared ? "shared" : "device", &tiers[ULL__TIER_DEVICE]);
  if (!machine->shared) add_tier(text, size, "host", &tiers[ULL__TIER_HOST]);
  add_tier(text, size, "disk", &tiers[ULL__TIER_DISK]);
  add_rate(text, size, "compute", machine->flops_per_second, printed_operation_rates);
  add_rate(text, size, "mem", machine->bytes_per_second, printed_byte_rates);
  add_rate(text, size, "latency", machine->launch_seconds * 1e9, printed_times);
  add_size(text, size, "process", machine->process_bytes);
  add_size(text, size, "kernel", machine->allowances.kernel_bytes);
  add_size(text, size, "launch", machine->allowances.launch_bytes);
  return text;
}
