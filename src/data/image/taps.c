/* The sum of the weights up to a tap is rounded, and a tap gets the difference of two such sums: no
 * error adds up, whatever the number of taps. */
#include "data/image/taps.h"

#include <math.h>

/* A tap this close to the filter's end would round to no weight. */
static const double MARGIN = 1e-6;

static ull__axis upright(const ull__axis *axis) {
  if (axis->mirror == 0) return *axis;
  double extent = axis->mirror;
  return (ull__axis){.from = extent - axis->to,
                     .to = extent - axis->from,
                     .low = extent - axis->high,
                     .high = extent - axis->low,
                     .outputs = axis->outputs};
}

static double scale_of(const ull__axis *axis) {
  return (axis->to - axis->from) / axis->outputs;
}

static double support_of(const ull__axis *axis) {
  return fmax(scale_of(axis), 1.0);
}

int64_t ull__axis_most_taps(const ull__axis *axis) {
  return (int64_t)ceil(2 * support_of(axis));
}

static int clamp(double x, double low, double high) {
  return (int)(x < low ? low : x > high ? high : x);
}

static void upright_range(const ull__axis *axis, double centre, int *first, int *count) {
  double support = support_of(axis), low = floor(axis->low), high = ceil(axis->high);
  int begin = clamp(floor(centre - support - 0.5 + MARGIN) + 1, low, high - 1);
  int end = clamp(ceil(centre + support - 0.5 - MARGIN), begin + 1, high);
  *first = begin;
  *count = end - begin;
}

static double centre_of(const ull__axis *axis, int output) {
  return axis->from + (output + 0.5) * scale_of(axis);
}

void ull__axis_range(const ull__axis *axis, int output, int *first, int *count) {
  ull__axis up = upright(axis);
  int at = axis->mirror == 0 ? output : axis->outputs - 1 - output;
  upright_range(&up, centre_of(&up, at), first, count);
  if (axis->mirror != 0) *first = axis->mirror - *first - *count;
}

int ull__axis_nearest(const ull__axis *axis, int output) {
  ull__axis up = upright(axis);
  int at = axis->mirror == 0 ? output : axis->outputs - 1 - output;
  /* One division at the end: a centre on an edge between pixels is found exactly. */
  double centre = up.from + (2.0 * at + 1) * (up.to - up.from) / (2.0 * up.outputs);
  int pixel = clamp(floor(centre), floor(up.low), ceil(up.high) - 1);
  return axis->mirror == 0 ? pixel : axis->mirror - 1 - pixel;
}

static double weight_at(const ull__tap_run *run, int tap) {
  double weight = 1.0 - fabs(run->first + tap + 0.5 - run->centre) / run->support;
  return weight > 0 ? weight : 0;
}

ull__tap_run ull__tap_run_begin(const ull__axis *axis, int output) {
  ull__axis up = upright(axis);
  int at = axis->mirror == 0 ? output : axis->outputs - 1 - output;
  ull__tap_run run = {.centre = centre_of(&up, at), .support = support_of(&up)};
  upright_range(&up, run.centre, &run.first, &run.count);
  for (int tap = 0; tap < run.count; tap++) run.total += weight_at(&run, tap);
  if (axis->mirror != 0) {
    run.backwards = true;
    run.sum = run.total;
    run.rounded = 32768;
    run.next = run.count - 1;
  }
  return run;
}

static int64_t rounded_sum(const ull__tap_run *run, int taps) {
  if (taps == run->count) return 32768;
  return taps == 0 ? 0 : (int64_t)floor(run->sum / run->total * 32768 + 0.5);
}

int16_t ull__tap_run_next(ull__tap_run *run) {
  int64_t before = run->rounded;
  if (run->backwards) {
    run->sum -= weight_at(run, run->next);
    run->rounded = rounded_sum(run, run->next--);
    return (int16_t)(run->rounded - before);
  }
  run->sum += weight_at(run, run->next);
  run->rounded = rounded_sum(run, ++run->next);
  return (int16_t)(before - run->rounded);
}
