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

void ull__upright_size(const ull__image_info *info, int orientation, int *width, int *height) {
  bool swap = ull__orientation_of(orientation).swap;
  *width = swap ? info->height : info->width;
  *height = swap ? info->width : info->height;
}

/* ---- application ---- */

/* One axis of the upright picture, and how it runs through memory. */
typedef struct side {
  double from, to, low, high;
  int resized, shift, out, mirror;
  int64_t stride;
} side;

/* A window along one side of the frame, moved to a picture of `extent` pixels. */
static ull_status make_side(const ull__frame *frame, bool vertical, int extent, int out,
                            side *side) {
  const ull__rect *window = &frame->window;
  int made_for = vertical ? frame->height : frame->width;
  int begin = vertical ? window->y : window->x, length = vertical ? window->height : window->width;
  int frame_out = vertical ? frame->out_height : frame->out_width;
  double scale = (double)extent / made_for;
  *side = (struct side){.from = begin * scale, .to = (begin + length) * scale, .out = out};
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

/* From upright to stored direction; the place of upright pixel 0 moves to that of stored pixel 0.
 */
static int64_t turn_side(side *side, int extent, bool mirror, bool flip, int64_t stride) {
  if (mirror) {
    double from = side->from, low = side->low;
    side->from = extent - side->to;
    side->to = extent - from;
    side->low = extent - side->high;
    side->high = extent - low;
    side->shift = side->resized - side->out - side->shift;
    side->mirror = extent;
  }
  bool backwards = mirror != flip;
  side->stride = backwards ? -stride : stride;
  return backwards ? (side->out - 1) * stride : 0;
}

static void set_sides(ull__resample_spec *spec, const side *x, const side *y) {
  spec->x0 = x->from;
  spec->x1 = x->to;
  spec->left = x->low;
  spec->right = x->high;
  spec->width = x->out;
  spec->resized_width = x->resized;
  spec->shift_x = x->shift;
  spec->mirror_x = x->mirror;
  spec->store.x_stride = x->stride;
  spec->y0 = y->from;
  spec->y1 = y->to;
  spec->top = y->low;
  spec->bottom = y->high;
  spec->height = y->out;
  spec->resized_height = y->resized;
  spec->shift_y = y->shift;
  spec->mirror_y = y->mirror;
  spec->store.y_stride = y->stride;
}

ull_status ull__frame_spec(const ull__frame *frame, const ull__framing *framing,
                           const ull__image_info *info, ull__resample_spec *spec) {
  ull__orientation turn = ull__orientation_of(framing->orientation);
  const ull__pixel_store *store = &framing->upright;
  int width, height;
  side x, y;
  ull__upright_size(info, framing->orientation, &width, &height);
  ULL__TRY(make_side(frame, false, width, framing->out_width, &x));
  ULL__TRY(make_side(frame, true, height, framing->out_height, &y));
  int64_t origin = turn_side(&x, width, turn.mirror_x, frame->flip_x, store->x_stride) +
                   turn_side(&y, height, turn.mirror_y, frame->flip_y, store->y_stride);
  *spec = (ull__resample_spec){.filter = framing->filter,
                               .channels = framing->channels,
                               .store = *store,
                               .padding = frame->padding};
  spec->store.base = (uint8_t *)store->base + origin * (int64_t)ull_dtype_bytes(store->dtype);
  if (turn.swap) {
    set_sides(spec, &y, &x);
  } else {
    set_sides(spec, &x, &y);
  }
  return ULL_OK;
}

int ull__frame_reduction(const ull__resample_spec *spec) {
  int width = spec->resized_width > 0 ? spec->resized_width : spec->width;
  int height = spec->resized_height > 0 ? spec->resized_height : spec->height;
  double x = (spec->x1 - spec->x0) / width, y = (spec->y1 - spec->y0) / height;
  double scale = x < y ? x : y;
  int reduction = 1;
  while (reduction < 8 && scale >= 2 * REDUCED_LEAST * reduction) reduction *= 2;
  return spec->filter == ULL__FILTER_TRIANGLE ? reduction : 1;
}
