/* Drawing is apart from doing: a sample's changes are a short list, applied to its picture and, as
 * far as pixels move, to its masks. */
#include "data/image/changes.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "data/draws.h"
#include "data/image/affine.h"
#include "data/image/colour.h"

/* ---- drawing ---- */

static void push(ull__changes *changes, ull__change_kind kind, double value) {
  if (changes->count < ULL__CHANGES_MOST) {
    changes->change[changes->count++] = (ull__change){kind, value};
  }
}

static double draw_factor(ull__draws *draws, double amount) {
  return ull__draw_between(draws, amount < 1 ? 1 - amount : 0, 1 + amount);
}

/* All four are drawn, asked for or not, so that asking for one does not shift another. */
static void draw_jitter(const ull_augment *a, ull__draws draws, ull__changes *changes) {
  const double amounts[4] = {a->brightness, a->contrast, a->saturation, a->hue};
  static const ull__change_kind kinds[4] = {ULL__CHANGE_BRIGHTNESS, ULL__CHANGE_CONTRAST,
                                            ULL__CHANGE_SATURATION, ULL__CHANGE_HUE};
  int order[4] = {0, 1, 2, 3};
  for (int i = 3; i > 0; i--) {
    int j = (int)ull__draw_below(&draws, (uint64_t)i + 1), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  double values[4];
  for (int i = 0; i < 3; i++) values[i] = draw_factor(&draws, amounts[i]);
  values[3] = ull__draw_between(&draws, -a->hue, a->hue);
  for (int i = 0; i < 4; i++) {
    if (amounts[order[i]] > 0) push(changes, kinds[order[i]], values[order[i]]);
  }
}

/* Step `magnitude` of 31 from `least` to `most`, in float32 rounded once and from the nearer end,
 * as torch's linspace has it. */
static double step_of_31(int magnitude, float least, float most) {
  double step = (double)((most - least) / 30);
  double value =
      magnitude < 15 ? (double)least + step * magnitude : (double)most - step * (30 - magnitude);
  return (double)(float)value;
}

/* One of RandAugment's fourteen operations. */
static void draw_operation(int magnitude, ull__draws *draws, ull__changes *changes) {
  uint64_t operation = ull__draw_below(draws, 14);
  double sign = ull__draw_word(draws) >> 31 ? -1 : 1;
  double factor = 1 + sign * step_of_31(magnitude, 0, 0.9f);
  double slope = sign * step_of_31(magnitude, 0, 0.3f);
  double shift = sign * (150.0 / 331.0) * magnitude / 30;
  switch (operation) {
  case 0:
    break; /* identity */
  case 1:
    return push(changes, ULL__CHANGE_SHEAR_X, slope);
  case 2:
    return push(changes, ULL__CHANGE_SHEAR_Y, slope);
  case 3:
    return push(changes, ULL__CHANGE_SHIFT_X, shift);
  case 4:
    return push(changes, ULL__CHANGE_SHIFT_Y, shift);
  case 5:
    return push(changes, ULL__CHANGE_ROTATE, sign * step_of_31(magnitude, 0, 30));
  case 6:
    return push(changes, ULL__CHANGE_BRIGHTNESS, factor);
  case 7:
    return push(changes, ULL__CHANGE_SATURATION, factor);
  case 8:
    return push(changes, ULL__CHANGE_CONTRAST, factor);
  case 9:
    return push(changes, ULL__CHANGE_SHARPNESS, factor);
  case 10:
    return push(changes, ULL__CHANGE_POSTERIZE, 8 - nearbyint(magnitude / 7.5));
  case 11:
    return push(changes, ULL__CHANGE_SOLARIZE, step_of_31(magnitude, 255, 0));
  case 12:
    return push(changes, ULL__CHANGE_AUTOCONTRAST, 0);
  default:
    return push(changes, ULL__CHANGE_EQUALIZE, 0);
  }
}

ull__changes ull__changes_draw(const ull_augment *a, uint64_t key, uint64_t epoch,
                               uint64_t sample) {
  ull__changes changes = {.key = key, .epoch = epoch, .sample = sample};
  ull__draws draws = ull__draws_begin(key, epoch, sample, ULL__PURPOSE_ROTATION);
  if (a->rotate_degrees > 0) {
    double degrees = ull__draw_between(&draws, -a->rotate_degrees, a->rotate_degrees);
    push(&changes, ULL__CHANGE_ROTATE, degrees);
  }
  draw_jitter(a, ull__draws_begin(key, epoch, sample, ULL__PURPOSE_JITTER), &changes);
  draws = ull__draws_begin(key, epoch, sample, ULL__PURPOSE_GRAYSCALE);
  if (ull__draw_unit(&draws) < a->grayscale_probability) {
    push(&changes, ULL__CHANGE_GRAYSCALE, 0);
  }
  draws = ull__draws_begin(key, epoch, sample, ULL__PURPOSE_OPERATIONS);
  for (int i = 0; i < a->operations; i++) draw_operation(a->magnitude, &draws, &changes);
  draws = ull__draws_begin(key, epoch, sample, ULL__PURPOSE_ERASE);
  changes.erases = ull__draw_unit(&draws) < a->erase_probability;
  return changes;
}

static bool moves_pixels(ull__change_kind kind) {
  return kind <= ULL__CHANGE_SHIFT_Y;
}

bool ull__changes_apply_to(const ull__changes *changes, bool mask) {
  for (int i = 0; i < changes->count; i++) {
    if (!mask || moves_pixels(changes->change[i].kind)) return true;
  }
  return false;
}

/* ---- doing ---- */

static void exchange(uint8_t **a, uint8_t **b) {
  uint8_t *kept = *a;
  *a = *b;
  *b = kept;
}

static ull__affine affine_of(const ull__change *change, int width, int height) {
  switch (change->kind) {
  case ULL__CHANGE_ROTATE:
    return ull__affine_rotation(change->value, width, height);
  case ULL__CHANGE_SHEAR_X:
    return ull__affine_shear_x(change->value);
  case ULL__CHANGE_SHEAR_Y:
    return ull__affine_shear_y(change->value);
  case ULL__CHANGE_SHIFT_X:
    return ull__affine_shift((int)(float)(change->value * width), 0);
  default:
    return ull__affine_shift(0, (int)(float)(change->value * height));
  }
}

/* The table of a change that depends on a byte's value alone; false where there is none. */
static bool make_tone(const ull__change *change, const uint8_t *image, int64_t pixels, int channels,
                      ull__tone *tone) {
  float value = (float)change->value;
  ull__histogram histogram;
  switch (change->kind) {
  case ULL__CHANGE_BRIGHTNESS:
    ull__tone_blend(tone, 0, value);
    return true;
  case ULL__CHANGE_CONTRAST:
    ull__tone_blend(tone, ull__mean_luma(image, pixels, channels), value);
    return true;
  case ULL__CHANGE_POSTERIZE:
    ull__tone_posterize(tone, (int)change->value);
    return true;
  case ULL__CHANGE_SOLARIZE:
    ull__tone_solarize(tone, value);
    return true;
  case ULL__CHANGE_AUTOCONTRAST:
    ull__histogram_of(image, pixels, channels, &histogram);
    ull__tone_autocontrast(tone, &histogram);
    return true;
  case ULL__CHANGE_EQUALIZE:
    ull__histogram_of(image, pixels, channels, &histogram);
    ull__tone_equalize(tone, &histogram);
    return true;
  default:
    return false;
  }
}

void ull__change_apply(const ull__change *change, uint8_t **image, uint8_t **spare, int width,
                       int height, int channels) {
  int64_t pixels = (int64_t)width * height;
  ull__tone tone;
  if (moves_pixels(change->kind)) {
    ull__affine affine = affine_of(change, width, height);
    ull__affine_apply(&affine, *image, *spare, width, height, channels, 0);
    exchange(image, spare);
  } else if (change->kind == ULL__CHANGE_SHARPNESS) {
    ull__sharpen(*image, *spare, width, height, channels, (float)change->value);
    exchange(image, spare);
  } else if (change->kind == ULL__CHANGE_SATURATION) {
    ull__saturate(*image, pixels, channels, (float)change->value);
  } else if (change->kind == ULL__CHANGE_HUE) {
    ull__turn_hue(*image, pixels, channels, change->value);
  } else if (change->kind == ULL__CHANGE_GRAYSCALE) {
    ull__grayscale(*image, pixels, channels);
  } else if (make_tone(change, *image, pixels, channels, &tone)) {
    ull__tone_apply(&tone, *image, pixels, channels);
  }
}

/* ---- canvas ---- */

static ull_status plan_canvas(int channels, int width, int height, uint64_t *image_bytes,
                              uint64_t *line_bytes) {
  ULL__TRY(ull__size_mul((uint64_t)width * (uint64_t)channels, (uint64_t)height, "a canvas",
                         image_bytes));
  *line_bytes = (uint64_t)width * sizeof(float);
  return ULL_OK;
}

ull_status ull__canvas_bytes(int channels, int width, int height, uint64_t *bytes) {
  uint64_t image_bytes, line_bytes;
  ULL__TRY(plan_canvas(channels, width, height, &image_bytes, &line_bytes));
  *bytes =
      2 * ull__scratch_cost(image_bytes) + ull__scratch_cost(line_bytes) + ULL__SCRATCH_ALIGNMENT;
  return ULL_OK;
}

ull_status ull__canvas_begin(ull__canvas *canvas, ull__scratch *scratch, bool mask,
                             const ull__pixel_store *store, int width, int height) {
  uint64_t image_bytes, line_bytes;
  int channels = store->channels;
  ULL__TRY(plan_canvas(channels, width, height, &image_bytes, &line_bytes));
  *canvas = (ull__canvas){
      .store = *store, .width = width, .height = height, .channels = channels, .mask = mask};
  canvas->image = ull__scratch_take(scratch, image_bytes);
  canvas->spare = ull__scratch_take(scratch, image_bytes);
  canvas->line = ull__scratch_take(scratch, line_bytes);
  if (canvas->image == NULL || canvas->spare == NULL || canvas->line == NULL) {
    return ULL__FAIL(ULL_ERROR_INVALID, "the scratch is too small for a canvas of %d x %d", width,
                     height);
  }
  canvas->upright = (ull__pixel_store){.base = canvas->image,
                                       .dtype = ULL_UINT8,
                                       .channels = channels,
                                       .x_stride = channels,
                                       .y_stride = (int64_t)width * channels,
                                       .c_stride = 1,
                                       .scale = {1, 1, 1}};
  return ULL_OK;
}

void ull__canvas_end(ull__canvas *canvas, const ull__changes *changes) {
  for (int i = 0; i < changes->count; i++) {
    const ull__change *change = &changes->change[i];
    if (canvas->mask && !moves_pixels(change->kind)) continue;
    ull__change_apply(change, &canvas->image, &canvas->spare, canvas->width, canvas->height,
                      canvas->channels);
  }
  ull__pixels_store(canvas->image, canvas->width, canvas->height, &canvas->store, canvas->line);
}

/* ---- erasing ---- */

ull__rect ull__changes_erased(const ull__changes *changes, int width, int height) {
  const double ratio_least = 0.3, ratio_most = 3.3;
  if (!changes->erases) return (ull__rect){0};
  ull__draws draws =
      ull__draws_begin(changes->key, changes->epoch, changes->sample, ULL__PURPOSE_ERASE);
  ull__draw_unit(&draws); /* whether to */
  double area = (double)width * height;
  for (int i = 0; i < 10; i++) {
    double wanted = area * ull__draw_between(&draws, 0.02, 0.33);
    double ratio = exp(ull__draw_between(&draws, log(ratio_least), log(ratio_most)));
    int h = (int)nearbyint(sqrt(wanted * ratio)), w = (int)nearbyint(sqrt(wanted / ratio));
    if (h >= height || w >= width) continue;
    int y = (int)ull__draw_below(&draws, (uint64_t)(height - h) + 1);
    int x = (int)ull__draw_below(&draws, (uint64_t)(width - w) + 1);
    return (ull__rect){x, y, w, h};
  }
  return (ull__rect){0};
}

/* Zero has all bits clear in every dtype. */
void ull__changes_erase(const ull__changes *changes, const ull__pixel_store *store, int width,
                        int height) {
  ull__rect rect = ull__changes_erased(changes, width, height);
  size_t bytes = ull_dtype_bytes(store->dtype);
  for (int c = 0; c < store->channels; c++) {
    for (int y = rect.y; y < rect.y + rect.height; y++) {
      for (int x = rect.x; x < rect.x + rect.width; x++) {
        int64_t at = x * store->x_stride + y * store->y_stride + c * store->c_stride;
        memset((uint8_t *)store->base + at * (int64_t)bytes, 0, bytes);
      }
    }
  }
}
