/* The order and the completeness of what is hashed are checked, so that two hashes that agree mean
 * equal weights. */
#include "model/weights_hash.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

void ull__weights_hash_begin(ull__weights_hash *hash) {
  *hash = (ull__weights_hash){.is_first = true};
  ull__sha256_begin(&hash->sha256);
}

static ull_status check_complete(const ull__weights_hash *hash) {
  if (hash->left_bytes == 0) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID, "weights hash: %llu bytes of %s are missing",
                   (unsigned long long)hash->left_bytes, hash->last_name);
}

static void add_text(ull__weights_hash *hash, const char *text) {
  ull__sha256_add(&hash->sha256, text, strlen(text) + 1);
}

ull_status ull__weights_hash_tensor(ull__weights_hash *hash, const char *name, ull_dtype dtype,
                                    const ull__shape *shape) {
  uint64_t size_bytes = 0;
  char dims[ULL__MAX_RANK * 21 + 1] = "";
  size_t used = 0;
  ULL__TRY(ull__shape_bytes(shape, dtype, &size_bytes));
  ULL__TRY(check_complete(hash));
  const bool is_in_order = hash->is_first || strcmp(name, hash->last_name) > 0;
  if (strlen(name) >= sizeof hash->last_name || !is_in_order) {
    return ULL__FAIL(ULL_ERROR_INVALID, "weights hash: %.128s may not follow %s", name,
                     hash->last_name);
  }
  for (uint32_t i = 0; i < shape->rank; i++) {
    used += (size_t)snprintf(dims + used, sizeof dims - used, "%s%lld", i > 0 ? "," : "",
                             (long long)shape->dims[i].constant);
  }
  strcpy(hash->last_name, name);
  hash->is_first = false;
  add_text(hash, name);
  add_text(hash, ull_dtype_safetensors_name(dtype));
  add_text(hash, dims);
  hash->left_bytes = size_bytes;
  return ULL_OK;
}

ull_status ull__weights_hash_add(ull__weights_hash *hash, const void *bytes, uint64_t size_bytes) {
  if (size_bytes > hash->left_bytes) {
    return ULL__FAIL(ULL_ERROR_INVALID, "weights hash: more bytes than %s has", hash->last_name);
  }
  ull__sha256_add(&hash->sha256, bytes, (size_t)size_bytes);
  hash->left_bytes -= size_bytes;
  return ULL_OK;
}

ull_status ull__weights_hash_end(ull__weights_hash *hash, char text[ULL__SHA256_HEX]) {
  ULL__TRY(check_complete(hash));
  ull__sha256_end_hex(&hash->sha256, text);
  return ULL_OK;
}
