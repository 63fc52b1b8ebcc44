/* The sum of the weights up to a tap is rounded, and a tap gets the difference of two such sums: no
 * error adds up, whatever the number of taps. */
#include "data/image/taps.h"

#include <math.h>

/* A tap this close to the filter's end would round to no weight. */
static const double MARGIN = 1e-6;

ull__axis ull__axis_make(double from, double to, double low, double high, int outputs, int mirror) {
  ull__axis axis = {.from = from, .to = to, .outputs = outputs, .mirror = mirror};
  if (mirror != 0) {
    double kept = low;
    axis.from = mirror - to;
    axis.to = mirror - from;
    low = mirror - high;
    high = mirror - kept;
  }
  axis.scale = (axis.to - axis.from) / outputs;
  axis.support = fmax(axis.scale, 1.0);
  axis.low = (int)floor(low);
  axis.high = (int)ceil(high);
  return axis;
}

int64_t ull__axis_most_taps(const ull__axis *axis) {
  return (int64_t)ceil(2 * axis->support);
}

static int floor_of(double x) {
  int whole = (int)x;
  return whole - (x < whole);
}

static int clamp(int x, int low, int high) {
  return x < low ? low : x > high ? high : x;
}

static int upright_output(const ull__axis *axis, int output) {
  return axis->mirror == 0 ? output : axis->outputs - 1 - output;
}

static int upright_range(const ull__axis *axis, double centre, int *count) {
  int begin = floor_of(centre - axis->support - 0.5 + MARGIN) + 1;
  int end = -floor_of(-(centre + axis->support - 0.5 - MARGIN));
  begin = clamp(begin, axis->low, axis->high - 1);
  *count = clamp(end, begin + 1, axis->high) - begin;
  return begin;
}

static double centre_of(const ull__axis *axis, int output) {
  return axis->from + (upright_output(axis, output) + 0.5) * axis->scale;
}

void ull__axis_range(const ull__axis *axis, int output, int *first, int *count) {
  int begin = upright_range(axis, centre_of(axis, output), count);
  *first = axis->mirror == 0 ? begin : axis->mirror - begin - *count;
}

int ull__axis_nearest(const ull__axis *axis, int output) {
  /* One division at the end: a centre on an edge between pixels is found exactly. */
  double steps = 2.0 * upright_output(axis, output) + 1;
  double centre = axis->from + steps * (axis->to - axis->from) / (2.0 * axis->outputs);
  int pixel = clamp(floor_of(centre), axis->low, axis->high - 1);
  return axis->mirror == 0 ? pixel : axis->mirror - 1 - pixel;
}

static double weight_at(const ull__tap_run *run, int tap) {
  double weight = 1.0 - fabs(run->offset + tap) * run->slope;
  return weight > 0 ? weight : 0;
}

ull__tap_run ull__tap_run_begin(const ull__axis *axis, int output) {
  ull__tap_run run = {.slope = 1 / axis->support};
  double centre = centre_of(axis, output), total = 0;
  int begin = upright_range(axis, centre, &run.count);
  run.offset = begin + 0.5 - centre;
  for (int tap = 0; tap < run.count; tap++) total += weight_at(&run, tap);
  run.unit = 32768 / total;
  run.first = begin;
  if (axis->mirror != 0) {
    run.first = axis->mirror - begin - run.count;
    run.backwards = true;
    run.sum = total;
    run.rounded = 32768;
    run.next = run.count - 1;
  }
  return run;
}

static int rounded_sum(const ull__tap_run *run, int taps) {
  if (taps == run->count) return 32768;
  return taps == 0 ? 0 : (int)(run->sum * run->unit + 0.5);
}

int16_t ull__tap_run_next(ull__tap_run *run) {
  int before = run->rounded;
  if (run->backwards) {
    run->sum -= weight_at(run, run->next);
    run->rounded = rounded_sum(run, run->next--);
    return (int16_t)(run->rounded - before);
  }
  run->sum += weight_at(run, run->next);
  run->rounded = rounded_sum(run, ++run->next);
  return (int16_t)(before - run->rounded);
}
