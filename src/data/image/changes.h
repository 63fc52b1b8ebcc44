/* What happens to a resized picture beyond its geometry: rotation, colours, RandAugment, erasing.
 *
 * Changes are drawn once for a sample. Where there are any for a picture, it is resampled onto a
 * canvas of bytes in scratch instead of its place in the batch, changed there, and stored with the
 * same arithmetic, so that a picture without changes has the same bits either way:
 *
 *     changes = ull__changes_draw(augment, key, epoch, sample)
 *     if (ull__changes_apply_to(&changes, mask))
 *       ull__canvas_begin(&canvas, scratch, mask, &store, width, height)
 *       framing.upright = canvas.upright                    ... decode ...
 *       ull__canvas_end(&canvas, &changes)
 *     if (!mask) ull__changes_erase(&changes, &store, width, height)
 */
#ifndef ULL_DATA_IMAGE_CHANGES_H
#define ULL_DATA_IMAGE_CHANGES_H

#include "data/image/resample.h"
#include "data/scratch.h"
#include "ullage/data.h"

typedef enum ull__change_kind {
  ULL__CHANGE_ROTATE, /* value: degrees */
  ULL__CHANGE_SHEAR_X,
  ULL__CHANGE_SHEAR_Y, /* value: slope */
  ULL__CHANGE_SHIFT_X,
  ULL__CHANGE_SHIFT_Y, /* value: part of the width or height */
  ULL__CHANGE_BRIGHTNESS,
  ULL__CHANGE_CONTRAST,
  ULL__CHANGE_SATURATION,
  ULL__CHANGE_SHARPNESS, /* value: factor */
  ULL__CHANGE_HUE,       /* value: turns */
  ULL__CHANGE_GRAYSCALE,
  ULL__CHANGE_POSTERIZE, /* value: bits */
  ULL__CHANGE_SOLARIZE,  /* value: threshold */
  ULL__CHANGE_AUTOCONTRAST,
  ULL__CHANGE_EQUALIZE,
} ull__change_kind;

typedef struct ull__change {
  ull__change_kind kind;
  double value;
} ull__change;

enum { ULL__CHANGES_MOST = 1 + 4 + 1 + 14 };

typedef struct ull__changes {
  int count;
  ull__change change[ULL__CHANGES_MOST];
  bool erases;
  uint64_t key, epoch, sample; /* of the rectangle to erase, which depends on the size */
} ull__changes;

/* From (key, epoch, sample) alone. */
ull__changes ull__changes_draw(const ull_augment *augment, uint64_t key, uint64_t epoch,
                               uint64_t sample);

/* Whether a canvas is needed: masks take part in what moves pixels. */
bool ull__changes_apply_to(const ull__changes *changes, bool mask);

typedef struct ull__canvas {
  ull__pixel_store upright; /* where to resample to: [height, width, channels] uint8 */
  ull__pixel_store store;   /* where the result goes */
  int width, height, channels;
  bool mask;
  uint8_t *image, *spare;
  float *line;
} ull__canvas;

/* What ull__canvas_begin takes of a scratch, at most. */
ull_status ull__canvas_bytes(int channels, int width, int height, uint64_t *bytes);

/* `store` is the finished picture's or mask's, in upright directions. The canvas lives in the
 * scratch. ULL_ERROR_INVALID where that is too small. */
ull_status ull__canvas_begin(ull__canvas *canvas, ull__scratch *scratch, bool mask,
                             const ull__pixel_store *store, int width, int height);

/* Applies the changes and stores the result. */
void ull__canvas_end(ull__canvas *canvas, const ull__changes *changes);

/* One change on an image of interleaved bytes; the result may be in either buffer: *image and
 * *spare change places where needed. */
void ull__change_apply(const ull__change *change, uint8_t **image, uint8_t **spare, int width,
                       int height, int channels);

/* The rectangle that is to be erased from a sample of that size; empty where none is. */
ull__rect ull__changes_erased(const ull__changes *changes, int width, int height);

/* Writes zeros into that rectangle of a finished picture. */
void ull__changes_erase(const ull__changes *changes, const ull__pixel_store *store, int width,
                        int height);

#endif
