/* The parts of a WebP file that matter. */
#ifndef ULL_DATA_IMAGE_WEBP_H
#define ULL_DATA_IMAGE_WEBP_H

#include "data/image/codec.h"

typedef struct ull__webp_parts {
  uint64_t frame; /* where the first coded frame's chunk is, its head of eight bytes included */
  uint64_t frame_bytes; /* of that chunk */
  bool lossless;
  bool extended; /* a canvas is declared: */
  int canvas_width, canvas_height;
  bool animated; /* the frame is the first of several, and lies on the canvas at: */
  int frame_x, frame_y;
  bool frame_is_cut; /* the record ends inside it */
  bool tail_is_cut;  /* or behind it, but before what the file announces */
} ull__webp_parts;

/* Walks over the chunks; the orientation goes to *info. Refuses files without a frame. */
ull_status ull__webp_survey(ull__image_reader *reader, ull__image_info *info,
                            ull__webp_parts *parts);

#endif
