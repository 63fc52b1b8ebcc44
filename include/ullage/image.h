/* Pictures: one file, or bytes in memory, decoded to pixels with a verdict.
 *
 *     ull_image_options options = ull_image_options_default();
 *     ull_image image;
 *     if (ull_image_decode_file("photo.jpg", &options, &image) == ULL_OK)
 *       use(image.pixels, image.width, image.height);
 *     ull_image_free(&image);
 *
 * The format is found in the content, never in the name: JPEG (baseline, progressive, arithmetic),
 * PNG, WebP. This is what the loader decodes with, without a loader: the same pixels, the same
 * verdicts. JPEG pixels are those of libjpeg-turbo's accurate inverse DCT with smooth upsampling.
 *
 * Rules: 16 bits a channel become 8 by rounding (value * 255 / 65535); alpha is dropped, not
 * blended; CMYK becomes R = C * K / 255 and so on after Adobe's inversion; grey fills three
 * channels alike; one channel asked of a coloured picture is its luma. Of several pictures in one
 * file (an animation, a multi-picture JPEG) the first is meant.
 *
 * Thread safety: calls share nothing.
 */
#ifndef ULLAGE_IMAGE_H
#define ULLAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/data.h"
#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ull_image_options {
  int channels;            /* 3: red, green, blue; 1: grey */
  bool ignore_orientation; /* false: the picture is turned upright as its EXIF data says */
  bool crop;               /* only the rectangle below, in pixels of the result; what it needs is
                              all that is decoded */
  int x, y, width, height;
  uint64_t pixel_limit;  /* more pixels are ULL_VERDICT_TOO_BIG; 0 = 2^28 */
  uint64_t memory_limit; /* so is a picture that needs more working memory, in bytes; 0 = 4 GiB */
} ull_image_options;

/* Three channels, upright, whole, default limits. */
ull_image_options ull_image_options_default(void);

typedef struct ull_image {
  uint8_t *pixels; /* [height, width, channels]; the picture's own, freed by ull_image_free; NULL
                      where nothing could be decoded */
  int width, height, channels;
  const char *format;              /* "jpeg", "png", "webp" or "unknown"; static */
  int stored_width, stored_height; /* as the header says; 0 where none could be read */
  int orientation;                 /* EXIF's 1 to 8; 1 where the file does not say */
  ull_verdict verdict;
  const char *reason;     /* a few words, "" where there is nothing to say; static */
  uint64_t working_bytes; /* taken while decoding, beside the pixels */
} ull_image;

/* Decodes. *out is filled in any case, and freed by the caller in any case. ULL_OK where every
 * pixel was delivered, however damaged: look at the verdict. ULL_ERROR_DATA: no picture, and the
 * verdict says why. ULL_ERROR_INVALID: a rectangle outside the picture. ULL_ERROR_IO: the file
 * cannot be read (verdict unreadable). ULL_ERROR_OUT_OF_MEMORY. */
ull_status ull_image_decode_file(const char *path, const ull_image_options *options,
                                 ull_image *out);

/* The same for bytes, borrowed for the call. `name` stands in messages. */
ull_status ull_image_decode_memory(const void *bytes, uint64_t count, const char *name,
                                   const ull_image_options *options, ull_image *out);

/* Gives the pixels back. NULL, and a second call, are allowed. */
void ull_image_free(ull_image *image);

#ifdef __cplusplus
}
#endif
#endif
