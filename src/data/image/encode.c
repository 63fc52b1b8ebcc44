/* What the encoders share. */
#include "data/image/encode.h"

#include <string.h>

#include "base/alloc.h"

ull_status ull__encoded_add(ull__encoded_bytes *to, const void *bytes, size_t count) {
  ULL__TRY(ull__vector_reserve(to, count));
  memcpy(to->items + to->count, bytes, count);
  to->count += count;
  return ULL_OK;
}

ull_status ull__encode_check(const ull_pixels *pixels, int longest_side, const char *format) {
  if (pixels->channels != 1 && pixels->channels != 3)
    return ULL__FAIL(ULL_ERROR_INVALID, "%d channels cannot be written as %s", pixels->channels,
                     format);
  if (pixels->width >= 1 && pixels->height >= 1 && pixels->width <= longest_side &&
      pixels->height <= longest_side)
    return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID, "%d x %d pixels cannot be written as %s", pixels->width,
                   pixels->height, format);
}

ull_status ull__encoded_finish(ull_status status, ull__encoded_bytes *bytes, ull_encoded *out) {
  if (status != ULL_OK) ull__vector_free(bytes);
  *out = (ull_encoded){.bytes = bytes->items, .count = bytes->count};
  return status;
}

void ull_encoded_free(ull_encoded *encoded) {
  if (encoded == NULL) return;
  ull__free(encoded->bytes);
  *encoded = (ull_encoded){0};
}
