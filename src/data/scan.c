/* Passes over every stored sample of one array: ranges of integers and the search for what lies
 * outside. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/source.h"

enum { SCAN_BYTES = 1 << 16 };

ull_status ull__source_scan(const ull_source *source, size_t array, ull__visit_samples visit,
                            void *context) {
  uint64_t sample_bytes = source->arrays[array].sample_bytes;
  uint64_t run = sample_bytes >= SCAN_BYTES ? 1 : SCAN_BYTES / sample_bytes;
  uint8_t *buffer = ull__alloc(run, sample_bytes);
  if (buffer == NULL) return ull_error_last()->status;
  ull_status status = ULL_OK;
  for (uint64_t first = 0; first < source->stored_count && status == ULL_OK; first += run) {
    uint64_t count = source->stored_count - first < run ? source->stored_count - first : run;
    status = source->kind->read(source, first, count, array, buffer);
    if (status == ULL_OK) status = visit(context, first, count, buffer);
  }
  ull__free(buffer);
  return status;
}

typedef struct range_scan {
  const ull_array_info *info;
  uint64_t sample_elements;
  int64_t minimum, maximum;
  int64_t allowed_minimum, allowed_maximum;
  bool has_ignored;
  int64_t ignored;
  const char *text;
} range_scan;

static int64_t integer_at(ull_dtype dtype, const void *bytes, uint64_t index) {
  int32_t narrow;
  int64_t wide;
  switch (dtype) {
  case ULL_INT64:
    memcpy(&wide, (const uint8_t *)bytes + index * sizeof wide, sizeof wide);
    return wide;
  case ULL_INT32:
    memcpy(&narrow, (const uint8_t *)bytes + index * sizeof narrow, sizeof narrow);
    return narrow;
  case ULL_BOOL:
    return ((const uint8_t *)bytes)[index] != 0;
  default:
    return ((const uint8_t *)bytes)[index];
  }
}

static ull_status out_of_range(const range_scan *scan, uint64_t sample, int64_t value) {
  ULL__FAIL(
      ULL_ERROR_DATA, "%s: sample %" PRIu64 ": %s is %" PRId64 ", outside %" PRId64 " to %" PRId64,
      scan->text, sample, scan->info->name, value, scan->allowed_minimum, scan->allowed_maximum);
  ull__error_holder("sample %" PRIu64 " of array '%s'", sample, scan->info->name);
  return ull__error_change("give the model as many classes as the data has, or mend the data");
}

/* What a source promises of every sample it reads is not looked for. */
static ull_status judge_stated_range(range_scan *scan) {
  const ull_array_info *info = scan->info;
  scan->minimum = info->minimum;
  scan->maximum = info->maximum;
  if (info->minimum >= scan->allowed_minimum && info->maximum <= scan->allowed_maximum)
    return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA,
            "%s: %s is from %" PRId64 " to %" PRId64 ", the model takes %" PRId64 " to %" PRId64,
            scan->text, info->name, info->minimum, info->maximum, scan->allowed_minimum,
            scan->allowed_maximum);
  ull__error_holder("array '%s'", info->name);
  return ull__error_change("a model for %" PRId64 " different numbers, such as vocab=%" PRId64,
                           info->maximum + 1, info->maximum + 1);
}

static ull_status visit_range(void *context, uint64_t first, uint64_t count, const void *bytes) {
  range_scan *scan = context;
  for (uint64_t i = 0; i < count * scan->sample_elements; i++) {
    int64_t value = integer_at(scan->info->dtype, bytes, i);
    if (scan->has_ignored && value == scan->ignored) continue;
    if (value < scan->allowed_minimum || value > scan->allowed_maximum) {
      return out_of_range(scan, first + i / scan->sample_elements, value);
    }
    if (value < scan->minimum) scan->minimum = value;
    if (value > scan->maximum) scan->maximum = value;
  }
  return ULL_OK;
}

static bool is_integer(ull_dtype dtype) {
  return dtype == ULL_INT64 || dtype == ULL_INT32 || dtype == ULL_UINT8 || dtype == ULL_BOOL;
}

static ull_status scan_range(const ull_source *source, size_t array, range_scan *scan) {
  const ull_array_info *info = ull_source_array(source, array);
  if (info == NULL)
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: there is no array %zu", source->text, array);
  if (!is_integer(info->dtype) || info->content != ULL_CONTENT_ELEMENTS) {
    ULL__FAIL(ULL_ERROR_MISMATCH, "%s: array '%s' is %s; integers are needed", source->text,
              info->name,
              info->content != ULL_CONTENT_ELEMENTS ? "pictures" : ull_dtype_name(info->dtype));
    return ull__error_holder("array '%s'", info->name);
  }
  scan->info = info;
  scan->text = source->text;
  scan->sample_elements = info->sample_bytes / ull_dtype_bytes(info->dtype);
  scan->minimum = INT64_MAX;
  scan->maximum = INT64_MIN;
  if (info->has_range) return judge_stated_range(scan);
  return ull__source_scan(source, array, visit_range, scan);
}

ull_status ull_source_range(const ull_source *source, size_t array, int64_t *minimum,
                            int64_t *maximum) {
  range_scan scan = {.allowed_minimum = INT64_MIN, .allowed_maximum = INT64_MAX};
  ULL__TRY(scan_range(source, array, &scan));
  *minimum = scan.minimum;
  *maximum = scan.maximum;
  return ULL_OK;
}

ull_status ull_source_check_range(const ull_source *source, size_t array, int64_t minimum,
                                  int64_t maximum) {
  range_scan scan = {.allowed_minimum = minimum, .allowed_maximum = maximum};
  return scan_range(source, array, &scan);
}

ull_status ull__source_check_binding(const ull_source *source, const ull_binding *binding) {
  range_scan scan = {.allowed_minimum = binding->minimum,
                     .allowed_maximum = binding->maximum,
                     .has_ignored = binding->has_ignored,
                     .ignored = binding->ignored};
  return binding->has_range ? scan_range(source, binding->array, &scan) : ULL_OK;
}
