/* JPEG files made for tests, and libjpeg's own plain decode of them: the oracle. */
#ifndef TESTS_SUPPORT_JPEG_FILES_H
#define TESTS_SUPPORT_JPEG_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum jpeg_colours { JPEG_GREY, JPEG_YCC, JPEG_RGB, JPEG_CMYK, JPEG_YCCK } jpeg_colours;

typedef struct jpeg_form {
  int width, height;
  jpeg_colours colours;
  int h, v; /* sampling factors of the first component; the others have 1 x 1 */
  bool progressive, arithmetic;
  int restart_rows; /* 0 = none */
} jpeg_form;

/* A picture with edges and slow changes everywhere; the same for the same form. The caller frees.
 */
uint8_t *make_jpeg(const jpeg_form *form, size_t *count);

/* Full decode, accurate DCT, smooth upsampling, 1/reduction in size: `channels` 1 = grey, 3 = red,
 * green, blue; 4 = CMYK as stored. The caller frees. */
uint8_t *plain_decode(const uint8_t *bytes, size_t count, int channels, int reduction, int *width,
                      int *height);

/* What `djpeg -dct int` would come to: whether it ends without an error and without a warning, and
 * its pixels (NULL after an error). The caller frees pixels. */
typedef struct plain_outcome {
  bool clean;
  int width, height, channels;
  uint8_t *pixels;
} plain_outcome;
plain_outcome plain_try(const uint8_t *bytes, size_t count);

/* Puts an APP1 segment with EXIF data of this orientation behind the first two bytes. The caller
 * frees. */
uint8_t *with_orientation(const uint8_t *jpeg, size_t count, int orientation, bool big_endian,
                          size_t *new_count);

/* EXIF data, from "II" or "MM" on, that says the orientation and nothing else: 26 bytes. */
void make_exif(uint8_t exif[26], int orientation, bool big_endian);

#endif
