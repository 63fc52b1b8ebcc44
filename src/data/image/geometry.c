/* Sizes and rounding are torchvision's: RandomResizedCrop, Resize and CenterCrop. */
#include "data/image/geometry.h"

#include <math.h>

#include "base/error.h"
#include "data/augment.h"
#include "data/convert.h"
#include "data/draws.h"
#include "data/image/orientation.h"

/* A decoder's reduction is another filter than ours, and averages colours before they are cut to
 * their range. On photos, results at a remaining scale of 8 are within 3/255 of the full decode's;
 * at 4 they are off by up to 8/255, at 2 by up to 11/255, where colours are saturated. */
enum { CROP_TRIES = 10, REDUCED_LEAST = 8 };

static const double RATIO_LEAST = 3.0 / 4, RATIO_MOST = 4.0 / 3;

/* ---- frames ---- */

/* Python's round(): halves to the even neighbour. */
static int to_even(double x) {
  return (int)nearbyint(x);
}

/* The largest centred window whose ratio of sides is allowed. */
static ull__rect centre_window(int width, int height) {
  double ratio = (double)width / height;
  ull__rect window = {.width = width, .height = height};
  if (ratio < RATIO_LEAST) {
    window.height = to_even(width / RATIO_LEAST);
  } else if (ratio > RATIO_MOST) {
    window.width = to_even(height * RATIO_MOST);
  }
  window.x = (width - window.width) / 2;
  window.y = (height - window.height) / 2;
  return window;
}

/* A window of random area and ratio of sides, anywhere in the picture. */
static ull__rect random_window(const ull_augment *augment, ull__draws *draws, int width,
                               int height) {
  double area = (double)width * height;
  for (int i = 0; i < CROP_TRIES; i++) {
    double wanted = area * ull__draw_between(draws, augment->area_min, augment->area_max);
    double ratio = exp(ull__draw_between(draws, log(RATIO_LEAST), log(RATIO_MOST)));
    ull__rect window = {.width = to_even(sqrt(wanted * ratio)),
                        .height = to_even(sqrt(wanted / ratio))};
    if (window.width <= 0 || window.width > width) continue;
    if (window.height <= 0 || window.height > height) continue;
    window.y = (int)ull__draw_below(draws, (uint64_t)(height - window.height) + 1);
    window.x = (int)ull__draw_below(draws, (uint64_t)(width - window.width) + 1);
    return window;
  }
  return centre_window(width, height);
}

static int clamp_side(double side) {
  const double most = 1 << 28;
  return side < 1 ? 1 : side > most ? (int)most : (int)side;
}

/* The short side becomes R; the middle is shown, with zeros around what is smaller. */
static void frame_centre(const ull_augment *augment, ull__frame *frame) {
  int larger = frame->out_width > frame->out_height ? frame->out_width : frame->out_height;
  double side = augment->resize_side > 0 ? augment->resize_side : to_even(larger * 256.0 / 224);
  bool wide = frame->width > frame->height;
  double shorter = wide ? frame->height : frame->width,
         longer = wide ? frame->width : frame->height;
  int resized = clamp_side(side * longer / shorter);
  frame->resized_width = wide ? resized : (int)side;
  frame->resized_height = wide ? (int)side : resized;
  int spare_x = frame->resized_width - frame->out_width;
  int spare_y = frame->resized_height - frame->out_height;
  /* What is too small is padded, the odd pixel after it. */
  frame->shift_x = spare_x < 0 ? -(-spare_x / 2) : to_even(spare_x / 2.0);
  frame->shift_y = spare_y < 0 ? -(-spare_y / 2) : to_even(spare_y / 2.0);
  frame->padding = ULL_PADDING_ZERO;
}

ull__frame ull__frame_draw(const ull_augment *augment, uint64_t key, uint64_t epoch,
                           uint64_t sample, int width, int height, int out_width, int out_height) {
  ull__frame frame = {.width = width,
                      .height = height,
                      .out_width = out_width,
                      .out_height = out_height,
                      .window = {0, 0, width, height},
                      .resized_width = out_width,
                      .resized_height = out_height,
                      .padding = augment->padding};
  ull__move move = ull__draw_move(augment, key, epoch, sample);
  switch (ull__augment_framing(augment)) {
  case ULL_FRAMING_RANDOM_CROP: {
    ull__draws draws = ull__draws_begin(key, epoch, sample, ULL__PURPOSE_CROP);
    frame.window = random_window(augment, &draws, width, height);
    break;
  }
  case ULL_FRAMING_CENTRE_CROP:
    frame_centre(augment, &frame);
    break;
  default:
    frame.shift_x = move.right;
    frame.shift_y = move.down;
    break;
  }
  frame.flip_x = move.flip;
  frame.flip_y = move.flip_vertical;
  return frame;
}

/* ---- application ---- */

/* A window along one side of the frame, moved to a picture of `extent` pixels. */
static ull_status make_side(const ull__frame *frame, bool vertical, int extent, int out,
                            ull__resample_side *side) {
  const ull__rect *window = &frame->window;
  int made_for = vertical ? frame->height : frame->width;
  int begin = vertical ? window->y : window->x, length = vertical ? window->height : window->width;
  int frame_out = vertical ? frame->out_height : frame->out_width;
  double scale = (double)extent / made_for;
  *side =
      (ull__resample_side){.from = begin * scale, .to = (begin + length) * scale, .outputs = out};
  side->low = side->from;
  side->high = side->to;
  side->resized = vertical ? frame->resized_height : frame->resized_width;
  side->shift = vertical ? frame->shift_y : frame->shift_x;
  if (out == frame_out) return ULL_OK;
  if (side->shift < 0 || side->shift + frame_out > side->resized) {
    return ULL__FAIL(ULL_ERROR_INVALID, "a padded sample has one size in all its arrays");
  }
  double step = (side->to - side->from) / side->resized;
  side->from += side->shift * step;
  side->to = side->from + frame_out * step;
  side->resized = out;
  side->shift = 0;
  return ULL_OK;
}

/* From upright to stored direction. */
static void mirror_side(ull__resample_side *side, int extent) {
  double from = side->from, low = side->low;
  side->from = extent - side->to;
  side->to = extent - from;
  side->low = extent - side->high;
  side->high = extent - low;
  side->shift = side->resized - side->outputs - side->shift;
  side->mirror = extent;
}

/* Outputs run backwards: the first one's place is the last one's. In elements. */
static int64_t turn_stride(int64_t *stride, int outputs) {
  int64_t origin = (outputs - 1) * *stride;
  *stride = -*stride;
  return origin;
}

ull_status ull__frame_spec(const ull__frame *frame, const ull__framing *framing,
                           const ull__image_info *info, ull__resample_spec *spec) {
  ull__orientation turn = ull__orientation_of(framing->orientation);
  int width, height;
  int64_t origin = 0;
  ull__resample_side x, y;
  ull__pixel_store store = framing->upright;
  ull__upright_size(info, framing->orientation, &width, &height);
  ULL__TRY(make_side(frame, false, width, framing->out_width, &x));
  ULL__TRY(make_side(frame, true, height, framing->out_height, &y));
  if (turn.mirror_x) mirror_side(&x, width);
  if (turn.mirror_y) mirror_side(&y, height);
  if (turn.mirror_x != frame->flip_x) origin += turn_stride(&store.x_stride, x.outputs);
  if (turn.mirror_y != frame->flip_y) origin += turn_stride(&store.y_stride, y.outputs);
  store.base = (uint8_t *)store.base + origin * (int64_t)ull_dtype_bytes(store.dtype);
  *spec = (ull__resample_spec){.filter = framing->filter,
                               .channels = framing->channels,
                               .x = turn.swap ? y : x,
                               .y = turn.swap ? x : y,
                               .store = store,
                               .padding = frame->padding};
  if (turn.swap) {
    spec->store.x_stride = store.y_stride;
    spec->store.y_stride = store.x_stride;
  }
  return ULL_OK;
}

static double scale_of(const ull__resample_side *side) {
  return (side->to - side->from) / (side->resized > 0 ? side->resized : side->outputs);
}

int ull__frame_reduction(const ull__resample_spec *spec) {
  double scale = fmin(scale_of(&spec->x), scale_of(&spec->y));
  int reduction = 1;
  while (reduction < 8 && scale >= 2 * REDUCED_LEAST * reduction) reduction *= 2;
  return spec->filter == ULL__FILTER_TRIANGLE ? reduction : 1;
}
