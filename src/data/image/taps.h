/* Which source pixels make an output pixel along one axis, and with what weight.
 *
 * The filter is the triangle of half width max(1, scale) around the output pixel's centre; what
 * lies outside the bounds has no weight and the rest is normalised. Weights are rounded so that
 * their sum is exactly 1: a grey surface keeps its grey. */
#ifndef ULL_DATA_IMAGE_TAPS_H
#define ULL_DATA_IMAGE_TAPS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__axis {
  double from, to;  /* window, as edges in source pixels */
  double low, high; /* bounds: nothing beyond has weight */
  int outputs;      /* that the window is cut into */
  int mirror;       /* 0; or the source's extent where the axis runs against the upright picture's:
                       rounding is then done as in the upright picture */
} ull__axis;

/* The most taps that an output can have. */
int64_t ull__axis_most_taps(const ull__axis *axis);

/* Source pixels of output `output`; at least one. Both ends grow with `output`. */
void ull__axis_range(const ull__axis *axis, int output, int *first, int *count);

/* The pixel that the output's centre lies in, within the bounds. */
int ull__axis_nearest(const ull__axis *axis, int output);

/* The weights of an output, one after another: -32768 times the true weight. */
typedef struct ull__tap_run {
  int first, count;
  double centre, support; /* as in the upright picture */
  double total, sum;
  int64_t rounded;
  int next;
  bool backwards;
} ull__tap_run;

ull__tap_run ull__tap_run_begin(const ull__axis *axis, int output);
int16_t ull__tap_run_next(ull__tap_run *run);

#endif
