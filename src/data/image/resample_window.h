/* Which source pixels an output shows, along one side: what the resampler and those who ask for its
 * region go by. */
#ifndef ULL_DATA_IMAGE_RESAMPLE_WINDOW_H
#define ULL_DATA_IMAGE_RESAMPLE_WINDOW_H

#include "data/image/resample.h"
#include "data/image/taps.h"

/* ULL_ERROR_INVALID: a spec that contradicts itself. */
ull_status ull__resample_check(const ull__resample_spec *spec);

ull__axis ull__resample_axis(const ull__resample_side *side);

/* The resized pixel that output pixel `at` (moved by the shift already) shows, or -1. */
int ull__resample_shown(ull_padding padding, int at, int resized);

/* Resized pixels that are shown: [*begin, *end); none where both are 0. */
void ull__resample_shown_range(ull_padding padding, const ull__resample_side *side, int *begin,
                               int *end);

/* Source pixels of a resized one. */
void ull__resample_range(ull__filter filter, const ull__axis *axis, int resized, int *first,
                         int *count);

#endif
