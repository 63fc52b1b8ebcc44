/* Synthetic pictures, and frames applied to them without a decoder. */
#ifndef TESTS_SUPPORT_PICTURES_H
#define TESTS_SUPPORT_PICTURES_H

#include <stdint.h>

#include "data/image/geometry.h"

/* The picture of tools/make_picture_reference.py: [height, width, 4], the fourth byte is noise. The
 * caller frees. */
uint8_t *make_picture(int width, int height);

/* One channel of it: [height, width]. */
uint8_t *take_channel(const uint8_t *picture, int width, int height, int channel);

/* The upright version of a stored picture of `channels` bytes a pixel. */
uint8_t *turn_upright(const uint8_t *stored, int width, int height, int channels, int orientation);

/* A frame that shows one window, stretched. */
ull__frame window_frame(int width, int height, ull__rect window, int out_width, int out_height);

/* Contiguous [channels, height, width], or [height, width, channels] where `last`; scale 1. */
ull__pixel_store plain_store(void *base, ull_dtype dtype, int channels, int width, int height,
                             bool last);

/* Decodes nothing: pushes the rows that the frame needs of a stored picture through a resampler
 * whose scratch is exactly what it asked for. */
void apply_frame(const ull__frame *frame, int orientation, const uint8_t *stored, int width,
                 int height, int channels, ull__filter filter, const ull__pixel_store *store,
                 int out_width, int out_height);

/* The same for a spec that is ready but for its pixels. */
void apply_spec(ull__resample_spec *spec, const uint8_t *stored, int width, int channels);

#endif
