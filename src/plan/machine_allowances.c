/* Allowances in a machine file: the list that `ullage probe MODEL --json` prints, and the
 * fingerprint it was measured under. A file without a list allows what its text says. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/machine.h"

static ull_status read_bytes(const json_t *entry, const char *key, uint64_t *out) {
  const json_t *number = json_object_get(entry, key);
  if (!json_is_integer(number) || json_integer_value(number) < 0)
    return ULL__FAIL(ULL_ERROR_DATA, "an allowance has no whole number `%s`", key);
  *out = (uint64_t)json_integer_value(number);
  return ULL_OK;
}

static ull_status read_entry(const json_t *entry, ull__allowances *out) {
  ull__library_use use;
  const char *name = json_string_value(json_object_get(entry, "name"));
  if (!name) return ULL__FAIL(ULL_ERROR_DATA, "an allowance has no text `name`");
  ULL__TRY(read_bytes(entry, "prepared_bytes", &use.prepared_bytes));
  ULL__TRY(read_bytes(entry, "again_bytes", &use.again_bytes));
  ULL__TRY(read_bytes(entry, "launch_bytes", &use.launch_bytes));
  ULL__TRY(read_bytes(entry, "launch_calls", &use.launch_calls));
  return ull__allowances_put(out, name, &use);
}

ull_status ull__machine_read_allowances(const json_t *object, ull__allowances *out) {
  const json_t *list = json_object_get(object, "allowances"), *entry;
  const char *fingerprint = json_string_value(json_object_get(object, "fingerprint"));
  size_t i;
  if (!list) return ULL_OK;
  if (!json_is_array(list)) return ULL__FAIL(ULL_ERROR_DATA, "`allowances` is no list");
  if (!fingerprint || strlen(fingerprint) >= sizeof out->fingerprint)
    return ULL__FAIL(ULL_ERROR_DATA, "allowances without the `fingerprint` they hold for");
  memcpy(out->fingerprint, fingerprint, strlen(fingerprint) + 1);
  json_array_foreach(list, i, entry) ULL__TRY(read_entry(entry, out));
  return ULL_OK;
}
