/* Antialiased resizing, flip, orientation, normalisation and layout in one pass over rows as they
 * come out of a decoder; nothing of the size of the picture is ever stored.
 *
 * The filter is the triangle (bilinear) whose support grows with the scale, as Pillow and
 * torchvision's antialias=True have it. Each row is first gathered across into a ring of short rows
 * of 16-bit integers, then rows of the ring are gathered down into a finished one. All sums are
 * integers: the same bits on every instruction set. The output is written through strides, so that
 * mirror images, the eight orientations and both layouts are the same code. */
#ifndef ULL_DATA_IMAGE_RESAMPLE_H
#define ULL_DATA_IMAGE_RESAMPLE_H

#include "data/image/image.h"
#include "data/scratch.h"
#include "ullage/data.h"

typedef enum ull__filter { ULL__FILTER_TRIANGLE, ULL__FILTER_NEAREST } ull__filter;

/* Where the resized pixels go: element (x, y, c) at base + (x * x_stride + y * y_stride +
 * c * c_stride) elements of dtype; x and y count in stored (not upright) directions. */
typedef struct ull__pixel_store {
  void *base;
  ull_dtype dtype; /* uint8 (rounded, clamped), float32, float16, bfloat16; int64 and int32 for
                      class numbers */
  int64_t x_stride, y_stride, c_stride; /* may be negative */
  int channels;                         /* 1 or 3 */
  float scale[3], bias[3];              /* value * scale + bias, one multiplication, one addition */
} ull__pixel_store;

/* One direction of the window and of the output. */
typedef struct ull__resample_side {
  double from, to;  /* the window that becomes the output, in source pixels (edges, not centres) */
  double low, high; /* where the picture ends for the filter: nothing beyond has weight */
  int outputs;

  /* Everything from here on may be zero. */
  int resized; /* pixels that the window is cut into; 0: as many as outputs. Output i is resized
                  pixel i + shift: only what it needs is asked for and computed */
  int shift;
  int mirror; /* the stored picture's extent where it runs against the upright picture's, so that
                 rounding is the upright picture's; else 0 */
} ull__resample_side;

typedef struct ull__resample_spec {
  ull__filter filter;
  int channels;     /* bytes a source pixel: 1 or 4 (red, green, blue, ignored) */
  ull__rect pixels; /* rows that will come, in source pixels */
  ull__resample_side x, y;
  ull__pixel_store store;
  ull_padding padding; /* of outputs outside the resized picture: zero (before scale and bias), or
                          reflected */
  uint8_t fill;        /* class number there, of nearest */
} ull__resample_spec;

typedef struct ull__resampler ull__resampler;

/* Moves a spec made for the stored picture to what a decoder delivers: another scale, and the
 * pixels that will come. */
void ull__resample_deliver(ull__resample_spec *spec, const ull__image_delivery *delivery);

/* Source pixels that the output of this window needs: the window and the filter's support, within
 * the bounds; spec->pixels is not read. */
ull__rect ull__resample_region(const ull__resample_spec *spec);

/* Scratch that a resampler takes. ULL_ERROR_INVALID: a spec that contradicts itself. */
ull_status ull__resample_bytes(const ull__resample_spec *spec, uint64_t *bytes);

/* Lives in the scratch. ULL_ERROR_INVALID where `pixels` does not cover what is needed. */
ull_status ull__resample_begin(const ull__resample_spec *spec, ull__scratch *scratch,
                               ull__resampler **out);

/* A row of spec->pixels, from the first on, in order (`y` is not looked at). `context` is the
 * resampler. Rows that are not needed may be left out at the end, not at the beginning. */
ull_status ull__resample_row(void *context, int y, const uint8_t *pixels);

/* Stores finished bytes, [height, width, store->channels], with the arithmetic of a resampler: the
 * same pixels have the same bits. `line` has room for `width` floats. */
void ull__pixels_store(const uint8_t *pixels, int width, int height, const ull__pixel_store *store,
                       float *line);

#endif
