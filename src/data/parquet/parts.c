/* The stamp of several files holds a digest of all their stamps where a single one has device and
 * inode, so that any change shows; its times are the latest, which tell whether it is fresh. */
#include "data/parquet/parts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"

bool ull__is_parquet_name(const char *path) {
  static const char ending[] = ".parquet";
  size_t length = strlen(path), bytes = sizeof ending - 1;
  return length > bytes && strcasecmp(path + length - bytes, ending) == 0;
}

static ull_status inspect(const char *path, ull__stamp *stamp, ull__sha256 *places) {
  char real[PATH_MAX];
  struct stat about;
  if (stat(path, &about) != 0 || realpath(path, real) == NULL) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: cannot be opened: %s", path, strerror(errno));
    ull__error_holder("%s", path);
    return ull__error_change("check the path given with --data");
  }
  *stamp = ull__stamp_of(&about);
  ull__sha256_add(places, real, strlen(real) + 1);
  return ULL_OK;
}

static void join(ull__parquet_parts *parts) {
  uint8_t digest[ULL__SHA256_BYTES];
  ull__sha256 all;
  parts->stamp = parts->stamps[0];
  if (parts->paths.count == 1) return;
  ull__sha256_begin(&all);
  ull__sha256_add(&all, parts->stamps, parts->paths.count * sizeof parts->stamps[0]);
  ull__sha256_end(&all, digest);
  memcpy(&parts->stamp.device, digest, sizeof parts->stamp.device);
  memcpy(&parts->stamp.inode, digest + 8, sizeof parts->stamp.inode);
  for (size_t i = 1; i < parts->paths.count; i++) {
    const ull__stamp *one = &parts->stamps[i];
    parts->stamp.bytes += one->bytes;
    if (one->modified_ns > parts->stamp.modified_ns) parts->stamp.modified_ns = one->modified_ns;
    if (one->changed_ns > parts->stamp.changed_ns) parts->stamp.changed_ns = one->changed_ns;
  }
}

ull_status ull__parquet_parts_find(const char *pattern, ull__parquet_parts *parts) {
  ull__sha256 places;
  *parts = (ull__parquet_parts){0};
  ULL__TRY(ull__pattern_expand(pattern, &parts->paths));
  parts->stamps = ull__alloc(parts->paths.count, sizeof *parts->stamps);
  if (parts->stamps == NULL) return ull_error_last()->status;
  ull__sha256_begin(&places);
  for (size_t i = 0; i < parts->paths.count; i++)
    ULL__TRY(inspect(parts->paths.items[i], &parts->stamps[i], &places));
  ull__sha256_end(&places, parts->key);
  join(parts);
  return ULL_OK;
}

void ull__parquet_parts_free(ull__parquet_parts *parts) {
  ull__paths_free(&parts->paths);
  ull__free(parts->stamps);
  *parts = (ull__parquet_parts){0};
}
