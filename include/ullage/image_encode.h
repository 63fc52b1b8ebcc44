/* Pixels to encoded pictures. The same pixels give the same bytes with the same libraries.
 *
 * Thread safety: calls share nothing. */
#ifndef ULLAGE_IMAGE_ENCODE_H
#define ULLAGE_IMAGE_ENCODE_H

#include <stdint.h>

#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pixels to encode: [height, width, channels] uint8 without gaps; borrowed. */
typedef struct ull_pixels {
  const uint8_t *data;
  int width, height;
  int channels; /* 3: red, green, blue; 1: grey, or class numbers */
} ull_pixels;

typedef struct ull_encoded {
  uint8_t *bytes; /* its own, freed by ull_encoded_free */
  uint64_t count;
} ull_encoded;

/* A baseline JPEG: `quality` 1 to 100 as libjpeg scales it, colour at half the resolution (4:2:0),
 * accurate DCT, Huffman tables made for the picture, no metadata. Sides of at most 65,500.
 * ULL_ERROR_INVALID, ULL_ERROR_OUT_OF_MEMORY. */
ull_status ull_image_encode_jpeg(const ull_pixels *pixels, int quality, ull_encoded *out);

/* A PNG of 8 bits a channel. The same statuses. */
ull_status ull_image_encode_png(const ull_pixels *pixels, ull_encoded *out);

/* Gives the bytes back. NULL, and a second call, are allowed. */
void ull_encoded_free(ull_encoded *encoded);

#ifdef __cplusplus
}
#endif
#endif
