/* Bytes that an encoder adds to as it goes. */
#ifndef ULL_DATA_IMAGE_ENCODE_H
#define ULL_DATA_IMAGE_ENCODE_H

#include <stddef.h>

#include "base/vector.h"
#include "ullage/image_encode.h"

typedef ULL__VECTOR(uint8_t) ull__encoded_bytes;

ull_status ull__encoded_add(ull__encoded_bytes *to, const void *bytes, size_t count);

/* ULL_ERROR_INVALID where the sides or channels are none that `format` can hold. */
ull_status ull__encode_check(const ull_pixels *pixels, int longest_side, const char *format);

/* Hands the bytes over, or frees them where `status` is a failure. Returns `status`. */
ull_status ull__encoded_finish(ull_status status, ull__encoded_bytes *bytes, ull_encoded *out);

#endif
