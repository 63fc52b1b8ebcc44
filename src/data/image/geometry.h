/* What of a picture a sample shows: which window, cut to which size, mirrored how.
 *
 * A frame is decided once for a sample, from the picture that leads it, and then applied to that
 * picture and to its masks, which so stay aligned to the pixel. It lives in the upright picture;
 * EXIF's orientation only decides how the resampler walks through stored pixels. */
#ifndef ULL_DATA_IMAGE_GEOMETRY_H
#define ULL_DATA_IMAGE_GEOMETRY_H

#include "data/image/resample.h"

typedef struct ull__frame {
  int width, height;         /* of the upright picture it was made for */
  int out_width, out_height; /* of the sample */
  ull__rect window;          /* that is resized to resized_width x resized_height, upright */
  int resized_width, resized_height;
  int shift_x, shift_y; /* sample pixel (x, y) is resized pixel (x + shift_x, y + shift_y) */
  ull_padding padding;  /* where that lies outside */
  bool flip_x, flip_y;  /* of the finished sample */
} ull__frame;

/* Decides the frame of a sample of `out_width` x `out_height` from the picture's upright size. What
 * is random depends on (key, epoch, sample) alone; `sample` is the number in the files. */
ull__frame ull__frame_draw(const ull_augment *augment, uint64_t key, uint64_t epoch,
                           uint64_t sample, int width, int height, int out_width, int out_height);

/* How to apply a frame. */
typedef struct ull__framing {
  int orientation; /* EXIF's number to apply; 1 leaves stored directions */
  ull__filter filter;
  int channels;              /* bytes a source pixel, as asked of the decoder */
  int out_width, out_height; /* usually the frame's */
  ull__pixel_store upright;  /* where upright pixel (x, y) goes: strides in upright directions */
} ull__framing;

/* The resampling of one picture or mask under a frame; `info` has its stored size, which may differ
 * from the picture's that the frame was made for. spec->pixels is left empty: take
 * ull__resample_region, decode, and call ull__resample_deliver. ULL_ERROR_INVALID where the frame
 * pads and the output's size is not the frame's. */
ull_status ull__frame_spec(const ull__frame *frame, const ull__framing *framing,
                           const ull__image_info *info, ull__resample_spec *spec);

/* How much smaller a picture may be decoded for this spec (1, 2, 4 or 8): what then remains is at
 * least eight times as large as the output. */
int ull__frame_reduction(const ull__resample_spec *spec);

#endif
