/* EXIF's eight orientations as transpositions and mirrors: how stored pixels become upright. */
#ifndef ULL_DATA_IMAGE_ORIENTATION_H
#define ULL_DATA_IMAGE_ORIENTATION_H

#include <stdbool.h>

#include "data/image/image.h"

/* Upright coordinates are the stored ones, first swapped, then mirrored. */
typedef struct ull__orientation {
  bool swap;
  bool mirror_x, mirror_y; /* in upright directions */
} ull__orientation;

/* Of EXIF's number; anything but 2 to 8 leaves pixels where they are. */
static inline ull__orientation ull__orientation_of(int number) {
  switch (number) {
  case 2:
    return (ull__orientation){.mirror_x = true};
  case 3:
    return (ull__orientation){.mirror_x = true, .mirror_y = true};
  case 4:
    return (ull__orientation){.mirror_y = true};
  case 5:
    return (ull__orientation){.swap = true};
  case 6:
    return (ull__orientation){.swap = true, .mirror_x = true};
  case 7:
    return (ull__orientation){.swap = true, .mirror_x = true, .mirror_y = true};
  case 8:
    return (ull__orientation){.swap = true, .mirror_y = true};
  default:
    return (ull__orientation){.swap = false};
  }
}

/* The upright size of a stored picture. */
static inline void ull__upright_size(const ull__image_info *info, int orientation, int *width,
                                     int *height) {
  bool swap = ull__orientation_of(orientation).swap;
  *width = swap ? info->height : info->width;
  *height = swap ? info->width : info->height;
}

/* Where a rectangle of the upright picture lies in the stored one. `width` and `height` are the
 * upright picture's. */
static inline ull__rect ull__orientation_stored(ull__orientation o, ull__rect upright, int width,
                                                int height) {
  ull__rect r = upright;
  if (o.mirror_x) r.x = width - upright.x - upright.width;
  if (o.mirror_y) r.y = height - upright.y - upright.height;
  return o.swap ? (ull__rect){r.y, r.x, r.height, r.width} : r;
}

#endif
