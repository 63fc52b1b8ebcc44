/* Which source pixels make an output pixel along one axis, and with what weight.
 *
 * The filter is the triangle of half width max(1, scale) around the output pixel's centre; what
 * lies outside the bounds has no weight and the rest is normalised. Weights are rounded so that
 * their sum is exactly 1: a grey surface keeps its grey. */
#ifndef ULL_DATA_IMAGE_TAPS_H
#define ULL_DATA_IMAGE_TAPS_H

#include <stdbool.h>
#include <stdint.h>

/* Made by ull__axis_make. All numbers are those of the upright picture. */
typedef struct ull__axis {
  double from, to; /* window, as edges in source pixels */
  double scale, support;
  int low, high; /* pixels that may have weight */
  int outputs;   /* that the window is cut into */
  int mirror;    /* 0; or the source's extent where stored pixels run the other way */
} ull__axis;

/* From a window and bounds in stored pixels. Where `mirror` is the stored extent, not 0, outputs
 * and pixels are counted in stored direction, and rounding is that of the upright picture. */
ull__axis ull__axis_make(double from, double to, double low, double high, int outputs, int mirror);

/* The most taps that an output can have. */
int64_t ull__axis_most_taps(const ull__axis *axis);

/* Source pixels of output `output`; at least one. Both ends grow with `output`. */
void ull__axis_range(const ull__axis *axis, int output, int *first, int *count);

/* The pixel that the output's centre lies in, within the bounds. */
int ull__axis_nearest(const ull__axis *axis, int output);

/* The weights of an output, one after another: -32768 times the true weight. */
typedef struct ull__tap_run {
  int first, count; /* as ull__axis_range says */
  double offset;    /* from the centre to the first pixel's, in the upright picture */
  double slope;     /* of the filter, per pixel */
  double unit;      /* 32768 / the sum of all weights */
  double sum;
  int rounded, next;
  bool backwards;
} ull__tap_run;

ull__tap_run ull__tap_run_begin(const ull__axis *axis, int output);
int16_t ull__tap_run_next(ull__tap_run *run);

#endif
