/* From outputs to resized pixels, as the padding says, and from those to source pixels, as the
 * filter says. */
#include "data/image/resample_window.h"

#include "base/error.h"

enum { SIDE_MOST = 1 << 28, OUTPUT_MOST = 1 << 16 };

static int resized_pixels(const ull__resample_side *side) {
  return side->resized > 0 ? side->resized : side->outputs;
}

ull__axis ull__resample_axis(const ull__resample_side *side) {
  return ull__axis_make(side->from, side->to, side->low, side->high, resized_pixels(side),
                        side->mirror);
}

int ull__resample_shown(ull_padding padding, int at, int resized) {
  if (at >= 0 && at < resized) return at;
  if (padding == ULL_PADDING_ZERO) return -1;
  at = at < 0 ? -at : 2 * (resized - 1) - at;
  return at >= 0 && at < resized ? at : -1;
}

void ull__resample_shown_range(ull_padding padding, const ull__resample_side *side, int *begin,
                               int *end) {
  int resized = resized_pixels(side);
  *begin = resized;
  *end = 0;
  for (int i = 0; i < side->outputs; i++) {
    int at = ull__resample_shown(padding, i + side->shift, resized);
    if (at < 0) continue;
    if (at < *begin) *begin = at;
    if (at >= *end) *end = at + 1;
  }
  if (*end == 0) *begin = 0;
}

void ull__resample_range(ull__filter filter, const ull__axis *axis, int resized, int *first,
                         int *count) {
  if (filter == ULL__FILTER_TRIANGLE) {
    ull__axis_range(axis, resized, first, count);
  } else {
    *first = ull__axis_nearest(axis, resized);
    *count = 1;
  }
}

static void needed(const ull__resample_spec *spec, const ull__resample_side *side, int *first,
                   int *count) {
  ull__axis axis = ull__resample_axis(side);
  int begin, end, last_first, last_count;
  ull__resample_shown_range(spec->padding, side, &begin, &end);
  ull__resample_range(spec->filter, &axis, begin, first, count);
  ull__resample_range(spec->filter, &axis, end > begin ? end - 1 : begin, &last_first, &last_count);
  *count = last_first + last_count - *first;
}

ull__rect ull__resample_region(const ull__resample_spec *spec) {
  ull__rect rect;
  needed(spec, &spec->x, &rect.x, &rect.width);
  needed(spec, &spec->y, &rect.y, &rect.height);
  return rect;
}

static void reduce(ull__resample_side *side, int reduction) {
  double scale = 1.0 / reduction;
  side->from *= scale;
  side->to *= scale;
  side->low *= scale;
  side->high *= scale;
  side->mirror = side->mirror / reduction + (side->mirror % reduction > 0);
}

void ull__resample_deliver(ull__resample_spec *spec, const ull__image_delivery *delivery) {
  reduce(&spec->x, delivery->reduction);
  reduce(&spec->y, delivery->reduction);
  spec->pixels = delivery->region;
}

/* ---- checks ---- */

static ull_status refuse(const char *what) {
  return ULL__FAIL(ULL_ERROR_INVALID, "resampling: %s", what);
}

static ull_status check_side(const ull__resample_side *side) {
  const double slack = 0.01;
  if (side->outputs <= 0 || side->outputs > OUTPUT_MOST) return refuse("no such output");
  if (side->resized > SIDE_MOST || side->resized < 0) return refuse("no such resized picture");
  if (!(side->to > side->from) || !(side->high > side->low)) return refuse("an empty window");
  if (side->from < side->low - slack || side->to > side->high + slack)
    return refuse("a window beyond the picture");
  if (side->to - side->from > SIDE_MOST) return refuse("the window is too large");
  return ULL_OK;
}

static ull_status check_channels(const ull__resample_spec *spec) {
  bool nearest = spec->filter == ULL__FILTER_NEAREST;
  if (spec->channels != 1 && (spec->channels != 4 || nearest)) return refuse("source channels");
  if (spec->store.channels != 1 && (spec->store.channels != 3 || nearest))
    return refuse("output channels");
  if (spec->channels == 4 && spec->store.channels != 3) return refuse("colour cannot become grey");
  return ULL_OK;
}

ull_status ull__resample_check(const ull__resample_spec *spec) {
  ULL__TRY(check_side(&spec->x));
  ULL__TRY(check_side(&spec->y));
  ULL__TRY(check_channels(spec));
  switch (spec->store.dtype) {
  case ULL_UINT8:
  case ULL_FLOAT32:
  case ULL_FLOAT16:
  case ULL_BFLOAT16:
    return ULL_OK;
  case ULL_INT64:
  case ULL_INT32:
    if (spec->filter == ULL__FILTER_NEAREST) return ULL_OK;
    return refuse("integers hold class numbers only");
  default:
    return refuse("no such output dtype");
  }
}
