/* The resampler against stored results of Pillow and torchvision, against the filter written out in
 * double, and against itself: orientations, layouts, dtypes, reductions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/image/orientation.h"
#include "model/safetensors/safetensors.h"
#include "support/pictures.h"

static ull__safetensors *reference;

/* ---- stored results ---- */

/* How far results are from stored bytes, in steps of 1/255. */
typedef struct distance {
  double sum, most;
  int64_t count, over_two;
} distance;

static void add_distance(distance *d, double got, double wanted) {
  double apart = fabs(got - wanted);
  d->sum += apart;
  d->count++;
  d->over_two += apart > 2;
  if (apart > d->most) d->most = apart;
}

static uint8_t *read_entry(const ull__tensor_entry *entry) {
  uint8_t *bytes = malloc(entry->size_bytes);
  assert_int_equal(ull__safetensors_read(reference, entry, ULL_UINT8, bytes), ULL_OK);
  return bytes;
}

/* Numbers after the first dot of a name. */
static int parse_numbers(const char *name, int *numbers) {
  int count = 0;
  for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
    numbers[count++] = atoi(dot + 1);
  }
  return count;
}

static const double means[3] = {0.485, 0.456, 0.406}, deviations[3] = {0.229, 0.224, 0.225};

static ull__pixel_store normalised_store(float *base, int width, int height) {
  ull__pixel_store store = plain_store(base, ULL_FLOAT32, 3, width, height, false);
  for (int c = 0; c < 3; c++) {
    store.scale[c] = (float)(1.0 / 255 / deviations[c]);
    store.bias[c] = (float)(-means[c] / deviations[c]);
  }
  return store;
}

/* Resizes, crops, normalises, and undoes the normalisation in double. */
static void compare_colour(const ull__frame *frame, const int *n, int out_width, int out_height,
                           const uint8_t *wanted, distance *d) {
  int pixels = out_width * out_height;
  uint8_t *picture = make_picture(n[0], n[1]);
  float *got = malloc(sizeof *got * 3 * (size_t)pixels);
  ull__pixel_store store = normalised_store(got, out_width, out_height);
  apply_frame(frame, n[2], picture, n[0], n[1], 4, ULL__FILTER_TRIANGLE, &store, out_width,
              out_height);
  for (int i = 0; i < pixels; i++) {
    for (int c = 0; c < 3; c++) {
      double value = ((double)got[c * pixels + i] * deviations[c] + means[c]) * 255;
      add_distance(d, value, wanted[3 * i + c]);
    }
  }
  free(got);
  free(picture);
}

static ull__frame frame_of(const int *n) {
  int width = n[2] >= 5 ? n[1] : n[0], height = n[2] >= 5 ? n[0] : n[1];
  return window_frame(width, height, (ull__rect){n[3], n[4], n[5], n[6]}, n[7], n[8]);
}

static ull__frame centre_frame_of(const int *n) {
  int width = n[2] >= 5 ? n[1] : n[0], height = n[2] >= 5 ? n[0] : n[1];
  ull_augment augment = {.framing = ULL_FRAMING_CENTRE_CROP, .resize_side = n[3]};
  return ull__frame_draw(&augment, 1, 2, 3, width, height, n[4], n[5]);
}

/* What is asked: mean 1/255, 99.9th percentile 2/255, maximum 4/255. What is promised here: never
 * more than Pillow's own two roundings. */
static void stored_pictures_are_met(void **state) {
  (void)state;
  distance all = {0};
  int cases = 0;
  for (uint32_t i = 0; i < ull__safetensors_count(reference); i++) {
    const ull__tensor_entry *entry = ull__safetensors_at(reference, i);
    int n[16] = {0};
    bool window = strncmp(entry->name, "window.", 7) == 0;
    if (!window && strncmp(entry->name, "centre.", 7) != 0) continue;
    parse_numbers(entry->name, n);
    ull__frame frame = window ? frame_of(n) : centre_frame_of(n);
    uint8_t *wanted = read_entry(entry);
    distance d = {0};
    compare_colour(&frame, n, frame.out_width, frame.out_height, wanted, &d);
    if (d.most > 1.01 || d.sum / (double)d.count > 0.4) {
      fail_msg("%s: mean %g, maximum %g", entry->name, d.sum / (double)d.count, d.most);
    }
    all.sum += d.sum;
    all.count += d.count;
    free(wanted);
    cases++;
  }
  assert_int_equal(cases, 21);
  assert_true(all.sum / (double)all.count < 0.35);
}

/* Of masks. Pillow adds up its steps, so a centre on the very edge between two pixels may fall
 * either way there; it never does by more than a pixel. */
static void stored_masks_are_met(void **state) {
  (void)state;
  int cases = 0;
  for (uint32_t i = 0; i < ull__safetensors_count(reference); i++) {
    const ull__tensor_entry *entry = ull__safetensors_at(reference, i);
    int n[16] = {0};
    if (strncmp(entry->name, "nearest.", 8) != 0) continue;
    parse_numbers(entry->name, n);
    ull__frame frame = frame_of(n);
    uint8_t *wanted = read_entry(entry), *picture = make_picture(n[0], n[1]);
    uint8_t *mask = take_channel(picture, n[0], n[1], 0);
    int pixels = n[7] * n[8];
    int64_t *got = malloc(sizeof *got * (size_t)pixels);
    ull__pixel_store store = plain_store(got, ULL_INT64, 1, n[7], n[8], false);
    apply_frame(&frame, n[2], mask, n[0], n[1], 1, ULL__FILTER_NEAREST, &store, n[7], n[8]);
    for (int p = 0; p < pixels; p++) {
      if (got[p] != wanted[p])
        fail_msg("%s at %d: %d, not %d", entry->name, p, (int)got[p], wanted[p]);
    }
    free(got);
    free(mask);
    free(picture);
    free(wanted);
    cases++;
  }
  assert_int_equal(cases, 16);
}

/* ---- the filter in double ---- */

static double triangle(const uint8_t *at, int64_t stride, double low, double high, double centre,
                       double scale) {
  double support = scale > 1 ? scale : 1, sum = 0, total = 0;
  for (int i = (int)floor(low); i < (int)ceil(high); i++) {
    double weight = 1 - fabs(i + 0.5 - centre) / support;
    if (weight <= 0) continue;
    sum += weight * at[i * stride];
    total += weight;
  }
  return sum / total;
}

static double filtered(const uint8_t *picture, int width, int channels, ull__rect w, int out_width,
                       int out_height, int x, int y, int c) {
  double scale_x = (double)w.width / out_width, scale_y = (double)w.height / out_height;
  double centre = w.y + (y + 0.5) * scale_y, support = scale_y > 1 ? scale_y : 1, sum = 0,
         total = 0;
  for (int row = w.y; row < w.y + w.height; row++) {
    double weight = 1 - fabs(row + 0.5 - centre) / support;
    if (weight <= 0) continue;
    sum += weight * triangle(picture + (int64_t)row * width * channels + c, channels, w.x,
                             w.x + w.width, w.x + (x + 0.5) * scale_x, scale_x);
    total += weight;
  }
  return sum / total;
}

static void check_filter(int width, int height, int channels, ull__rect window, int out_width,
                         int out_height) {
  uint8_t *colour = make_picture(width, height);
  uint8_t *picture = channels == 4 ? colour : take_channel(colour, width, height, 1);
  int kept = channels == 4 ? 3 : 1, pixels = out_width * out_height;
  float *got = malloc(sizeof *got * (size_t)(pixels * kept));
  /* Weights are multiples of 2^-15: with a thousand taps that tells. */
  double margin = window.height / out_height > 100 ? 0.05 : 0.02;
  ull__frame frame = window_frame(width, height, window, out_width, out_height);
  ull__pixel_store store = plain_store(got, ULL_FLOAT32, kept, out_width, out_height, false);
  apply_frame(&frame, 1, picture, width, height, channels, ULL__FILTER_TRIANGLE, &store, out_width,
              out_height);
  for (int i = 0; i < pixels * kept; i += i % 7 + 1) {
    int c = i / pixels, y = i % pixels / out_width, x = i % out_width;
    double wanted = filtered(picture, width, channels, window, out_width, out_height, x, y, c);
    if (fabs((double)got[i] - wanted) > margin) {
      fail_msg("%d x %d to %d x %d at %d, %d, %d: %g, not %g", width, height, out_width, out_height,
               x, y, c, (double)got[i], wanted);
    }
  }
  if (picture != colour) free(picture);
  free(colour);
  free(got);
}

static void sums_are_those_of_the_filter(void **state) {
  (void)state;
  static const int cases[][8] = {
      {100, 80, 0, 0, 100, 80, 33, 27},   {100, 80, 7, 9, 61, 53, 64, 64},
      {3, 2, 0, 0, 3, 2, 40, 33},         {1, 1, 0, 0, 1, 1, 5, 4},
      {640, 33, 0, 0, 640, 33, 16, 32},   {33, 640, 0, 0, 33, 640, 31, 16},
      {20, 3000, 0, 0, 20, 3000, 9, 7},   {3000, 20, 5, 1, 2990, 18, 7, 9},
      {50, 1999, 3, 11, 40, 1955, 50, 2}, {257, 129, 0, 0, 257, 129, 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int *n = cases[i];
    ull__rect window = {n[2], n[3], n[4], n[5]};
    check_filter(n[0], n[1], 4, window, n[6], n[7]);
    check_filter(n[0], n[1], 1, window, n[6], n[7]);
  }
}

/* A surface of one colour keeps it to the last bit, at every scale. */
static void flat_surfaces_stay_exact(void **state) {
  (void)state;
  enum { SIDE = 300 };
  static uint8_t picture[SIDE * SIDE * 4];
  static const int sides[] = {1, 7, 100, 224, 300, 333};
  for (int value = 0; value < 256; value += 51) {
    memset(picture, value, sizeof picture);
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
      int side = sides[i], pixels = side * side;
      float *got = malloc(sizeof *got * 3 * (size_t)pixels);
      ull__frame frame = window_frame(SIDE, SIDE, (ull__rect){0, 0, SIDE, SIDE}, side, side);
      ull__pixel_store store = plain_store(got, ULL_FLOAT32, 3, side, side, false);
      apply_frame(&frame, 1, picture, SIDE, SIDE, 4, ULL__FILTER_TRIANGLE, &store, side, side);
      for (int p = 0; p < 3 * pixels; p++) assert_true(got[p] == (float)value);
      free(got);
    }
  }
}

/* ---- orientations, layouts, dtypes ---- */

enum {
  STORED_WIDTH = 61,
  STORED_HEIGHT = 45,
  OUT_WIDTH = 40,
  OUT_HEIGHT = 36,
  OUT_VALUES = OUT_WIDTH * OUT_HEIGHT * 3
};

static const ull_augment framings[] = {
    {.framing = ULL_FRAMING_STRETCH, .flip = true, .flip_vertical = true},
    {.framing = ULL_FRAMING_CENTRE_CROP, .resize_side = 41, .flip = true},
    {.framing = ULL_FRAMING_CENTRE_CROP, .resize_side = 30},
    {.framing = ULL_FRAMING_RANDOM_CROP, .area_min = 0.08, .area_max = 1, .flip = true},
    {.crop_pixels = 5, .padding = ULL_PADDING_ZERO, .flip = true},
    {.crop_pixels = 5, .padding = ULL_PADDING_REFLECT, .flip = true, .flip_vertical = true},
};
enum { FRAMINGS = sizeof framings / sizeof *framings };

static ull__frame draw_frame(const ull_augment *augment, int orientation, uint64_t sample) {
  ull__image_info info = {.width = STORED_WIDTH, .height = STORED_HEIGHT};
  int width, height;
  ull__upright_size(&info, orientation, &width, &height);
  return ull__frame_draw(augment, 5, 1, sample, width, height, OUT_WIDTH, OUT_HEIGHT);
}

static void render(const ull__frame *frame, int orientation, const uint8_t *stored, int width,
                   int height, ull_dtype dtype, bool last, void *out) {
  ull__pixel_store store = plain_store(out, dtype, 3, OUT_WIDTH, OUT_HEIGHT, last);
  apply_frame(frame, orientation, stored, width, height, 4, ULL__FILTER_TRIANGLE, &store, OUT_WIDTH,
              OUT_HEIGHT);
}

/* A stored picture with an orientation gives what its upright copy gives: bit for bit where axes
 * keep their order of summation, to a rounding of 1/128 where they are swapped. */
static void orientations_equal_upright_pictures(void **state) {
  (void)state;
  uint8_t *stored = make_picture(STORED_WIDTH, STORED_HEIGHT);
  for (int turn = 1; turn <= 8; turn++) {
    int width = turn >= 5 ? STORED_HEIGHT : STORED_WIDTH;
    int height = turn >= 5 ? STORED_WIDTH : STORED_HEIGHT;
    uint8_t *upright = turn_upright(stored, STORED_WIDTH, STORED_HEIGHT, 4, turn);
    for (int i = 0; i < 10 * FRAMINGS; i++) {
      static float a[OUT_VALUES], b[OUT_VALUES];
      ull__frame frame = draw_frame(&framings[i % FRAMINGS], turn, (uint64_t)i);
      render(&frame, turn, stored, STORED_WIDTH, STORED_HEIGHT, ULL_FLOAT32, false, a);
      render(&frame, 1, upright, width, height, ULL_FLOAT32, false, b);
      for (int p = 0; p < OUT_VALUES; p++) {
        float margin = turn >= 5 ? 0.017f : 0;
        if (!(fabsf(a[p] - b[p]) <= margin)) {
          fail_msg("orientation %d, framing %d at %d: %g, not %g", turn, i % FRAMINGS, p,
                   (double)a[p], (double)b[p]);
        }
      }
    }
    free(upright);
  }
  free(stored);
}

static float half_of(uint16_t half) {
  int exponent = half >> 10 & 31, part = half & 1023;
  float size =
      exponent == 0 ? ldexpf((float)part, -24) : ldexpf((float)(part + 1024), exponent - 25);
  return half & 0x8000 ? -size : size;
}

static float brain_of(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Every dtype and layout holds the float32 result, rounded once. */
static void layouts_and_dtypes_agree(void **state) {
  (void)state;
  uint8_t *stored = make_picture(STORED_WIDTH, STORED_HEIGHT);
  for (int i = 0; i < 8 * FRAMINGS; i++) {
    static float plain[OUT_VALUES], last[OUT_VALUES];
    static uint16_t half[OUT_VALUES], brain[OUT_VALUES];
    static uint8_t bytes[OUT_VALUES], planes[OUT_VALUES];
    int turn = i / FRAMINGS + 1;
    ull__frame frame = draw_frame(&framings[i % FRAMINGS], turn, (uint64_t)i);
    render(&frame, turn, stored, STORED_WIDTH, STORED_HEIGHT, ULL_FLOAT32, false, plain);
    render(&frame, turn, stored, STORED_WIDTH, STORED_HEIGHT, ULL_FLOAT32, true, last);
    render(&frame, turn, stored, STORED_WIDTH, STORED_HEIGHT, ULL_FLOAT16, false, half);
    render(&frame, turn, stored, STORED_WIDTH, STORED_HEIGHT, ULL_BFLOAT16, true, brain);
    render(&frame, turn, stored, STORED_WIDTH, STORED_HEIGHT, ULL_UINT8, true, bytes);
    render(&frame, turn, stored, STORED_WIDTH, STORED_HEIGHT, ULL_UINT8, false, planes);
    for (int p = 0; p < OUT_VALUES; p++) {
      int q = p % (OUT_WIDTH * OUT_HEIGHT) * 3 + p / (OUT_WIDTH * OUT_HEIGHT);
      assert_true(plain[p] == last[q]);
      assert_int_equal(bytes[q], (int)floorf(plain[p] + 0.5f));
      assert_int_equal(planes[p], bytes[q]);
      assert_true(fabsf(half_of(half[p]) - plain[p]) <= plain[p] * 0x1p-11f);
      assert_true(fabsf(brain_of(brain[q]) - plain[p]) <= plain[p] * 0x1p-8f);
    }
  }
  free(stored);
}

/* Grey pictures fill three channels alike. */
static void grey_fills_three_channels(void **state) {
  (void)state;
  enum { SIDE = 31 };
  static float got[3][SIDE * SIDE], one[SIDE * SIDE];
  uint8_t *colour = make_picture(50, 40), *grey = take_channel(colour, 50, 40, 2);
  ull__frame frame = window_frame(50, 40, (ull__rect){0, 0, 50, 40}, SIDE, SIDE);
  ull__pixel_store store = plain_store(got, ULL_FLOAT32, 3, SIDE, SIDE, false);
  store.scale[1] = 2;
  store.bias[2] = 3;
  apply_frame(&frame, 1, grey, 50, 40, 1, ULL__FILTER_TRIANGLE, &store, SIDE, SIDE);
  store = plain_store(one, ULL_FLOAT32, 1, SIDE, SIDE, false);
  apply_frame(&frame, 1, grey, 50, 40, 1, ULL__FILTER_TRIANGLE, &store, SIDE, SIDE);
  for (int i = 0; i < SIDE * SIDE; i++) {
    assert_true(got[0][i] == one[i] && got[1][i] == 2 * one[i] && got[2][i] == one[i] + 3);
  }
  free(grey);
  free(colour);
}

/* ---- what comes from the decoder ---- */

/* A wider region than needed, as decoders deliver, changes nothing; a smaller one is refused. */
static void any_region_that_covers_will_do(void **state) {
  (void)state;
  enum { W = 90, H = 70, SIDE = 24 };
  uint8_t *picture = make_picture(W, H);
  static float a[SIDE * SIDE * 3], b[SIDE * SIDE * 3];
  ull__frame frame = window_frame(W, H, (ull__rect){20, 16, 40, 32}, SIDE, SIDE);
  ull__image_info info = {.width = W, .height = H};
  ull__framing framing = {.orientation = 1,
                          .filter = ULL__FILTER_TRIANGLE,
                          .channels = 4,
                          .out_width = SIDE,
                          .out_height = SIDE,
                          .upright = plain_store(a, ULL_FLOAT32, 3, SIDE, SIDE, false)};
  ull__resample_spec spec;
  assert_int_equal(ull__frame_spec(&frame, &framing, &info, &spec), ULL_OK);
  apply_spec(&spec, picture, W, 4);
  ull__rect need = spec.pixels;
  assert_true(need.x == 20 && need.y == 16 && need.width == 40 && need.height == 32);
  uint64_t bytes;
  spec.store.base = b;
  spec.pixels = (ull__rect){16, 8, 56, 48};
  assert_int_equal(ull__resample_bytes(&spec, &bytes), ULL_OK);
  uint8_t *memory = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
  ull__scratch scratch = ull__scratch_over(memory, bytes);
  ull__resampler *resampler;
  assert_int_equal(ull__resample_begin(&spec, &scratch, &resampler), ULL_OK);
  for (int y = 8; y < 56; y++) {
    assert_int_equal(ull__resample_row(resampler, y, picture + (y * W + 16) * 4), ULL_OK);
  }
  assert_memory_equal(a, b, sizeof a);
  spec.pixels.y = 17;
  ull__scratch_rewind(&scratch, 0);
  assert_int_equal(ull__resample_begin(&spec, &scratch, &resampler), ULL_ERROR_INVALID);
  spec.pixels.y = 8;
  scratch = ull__scratch_over(memory, bytes / 2);
  assert_int_equal(ull__resample_begin(&spec, &scratch, &resampler), ULL_ERROR_INVALID);
  free(memory);
  free(picture);
}

/* Windows of every position and size at every reduction are covered by what a decoder that reduces
 * would deliver for the region asked of it. */
static void reduced_deliveries_cover(void **state) {
  (void)state;
  enum { SIDE = 4, W = 517, H = 391 };
  static float out[SIDE * SIDE * 3];
  int reduced = 0;
  for (int i = 0; i < 4000; i++) {
    ull_augment augment = {.framing = i % 2 ? ULL_FRAMING_RANDOM_CROP : ULL_FRAMING_CENTRE_CROP,
                           .area_min = 0.05,
                           .area_max = 1,
                           .resize_side = 5 + i % 30};
    int width = W - i % 64, height = H - i / 64 % 64, turn = i % 8 + 1;
    ull__image_info info = {.width = width, .height = height};
    int up_width, up_height;
    ull__upright_size(&info, turn, &up_width, &up_height);
    ull__frame frame =
        ull__frame_draw(&augment, 7, 0, (uint64_t)i, up_width, up_height, SIDE, SIDE);
    ull__framing framing = {.orientation = turn,
                            .filter = ULL__FILTER_TRIANGLE,
                            .channels = 4,
                            .out_width = SIDE,
                            .out_height = SIDE,
                            .upright = plain_store(out, ULL_FLOAT32, 3, SIDE, SIDE, false)};
    ull__resample_spec spec;
    assert_int_equal(ull__frame_spec(&frame, &framing, &info, &spec), ULL_OK);
    int r = ull__frame_reduction(&spec);
    reduced += r > 1;
    ull__rect need = ull__resample_region(&spec);
    ull__image_delivery delivery = {.reduction = r};
    delivery.region.x = need.x / r;
    delivery.region.y = need.y / r;
    delivery.region.width = (need.x + need.width + r - 1) / r - delivery.region.x;
    delivery.region.height = (need.y + need.height + r - 1) / r - delivery.region.y;
    ull__resample_deliver(&spec, &delivery);
    uint64_t bytes;
    assert_int_equal(ull__resample_bytes(&spec, &bytes), ULL_OK);
    uint8_t *memory = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
    ull__scratch scratch = ull__scratch_over(memory, bytes);
    ull__resampler *resampler;
    assert_int_equal(ull__resample_begin(&spec, &scratch, &resampler), ULL_OK);
    free(memory);
  }
  assert_true(reduced > 2000);
}

/* Half a picture, resampled as a delivery of reduction 2, is that half resampled by itself. */
static void reductions_scale_the_window(void **state) {
  (void)state;
  enum { SIDE = 8 };
  static float a[SIDE * SIDE * 3], b[SIDE * SIDE * 3];
  uint8_t *half = make_picture(200, 152);
  ull__frame whole = window_frame(400, 304, (ull__rect){80, 48, 240, 192}, SIDE, SIDE);
  ull__frame same = window_frame(200, 152, (ull__rect){40, 24, 120, 96}, SIDE, SIDE);
  ull__image_info info = {.width = 400, .height = 304};
  ull__framing framing = {.orientation = 1,
                          .filter = ULL__FILTER_TRIANGLE,
                          .channels = 4,
                          .out_width = SIDE,
                          .out_height = SIDE,
                          .upright = plain_store(a, ULL_FLOAT32, 3, SIDE, SIDE, false)};
  ull__resample_spec spec;
  assert_int_equal(ull__frame_spec(&whole, &framing, &info, &spec), ULL_OK);
  assert_int_equal(ull__frame_reduction(&spec), 2);
  ull__image_delivery delivery = {.reduction = 2, .region = {0, 0, 200, 152}};
  ull__resample_deliver(&spec, &delivery);
  apply_spec(&spec, half, 200, 4);
  ull__pixel_store store = plain_store(b, ULL_FLOAT32, 3, SIDE, SIDE, false);
  apply_frame(&same, 1, half, 200, 152, 4, ULL__FILTER_TRIANGLE, &store, SIDE, SIDE);
  assert_memory_equal(a, b, sizeof a);
  free(half);
}

/* ---- refusals ---- */

static void contradictions_are_refused(void **state) {
  (void)state;
  static float out[300];
  ull__resample_spec good = {.filter = ULL__FILTER_TRIANGLE,
                             .channels = 4,
                             .x = {.to = 20, .high = 20, .outputs = 10},
                             .y = {.to = 20, .high = 20, .outputs = 10},
                             .store = plain_store(out, ULL_FLOAT32, 3, 10, 10, false)};
  uint64_t bytes;
  assert_int_equal(ull__resample_bytes(&good, &bytes), ULL_OK);
  for (int i = 0; i < 9; i++) {
    ull__resample_spec bad = good;
    if (i == 0) bad.x.to = 0;
    if (i == 1) bad.y.from = NAN;
    if (i == 2) bad.x.outputs = 0;
    if (i == 3) bad.channels = 3;
    if (i == 4) bad.store.channels = 1;
    if (i == 5) bad.store.dtype = ULL_INT64;
    if (i == 6) bad.x.low = 1;
    if (i == 7) bad.y.resized = -1;
    if (i == 8) bad.filter = ULL__FILTER_NEAREST;
    assert_int_equal(ull__resample_bytes(&bad, &bytes), ULL_ERROR_INVALID);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stored_pictures_are_met),
      cmocka_unit_test(stored_masks_are_met),
      cmocka_unit_test(sums_are_those_of_the_filter),
      cmocka_unit_test(flat_surfaces_stay_exact),
      cmocka_unit_test(orientations_equal_upright_pictures),
      cmocka_unit_test(layouts_and_dtypes_agree),
      cmocka_unit_test(grey_fills_three_channels),
      cmocka_unit_test(any_region_that_covers_will_do),
      cmocka_unit_test(reduced_deliveries_cover),
      cmocka_unit_test(reductions_scale_the_window),
      cmocka_unit_test(contradictions_are_refused),
  };
  char path[4096];
  const char *source = getenv("ULLAGE_SOURCE_DIR");
  snprintf(path, sizeof path, "%s/tests/data/pictures.safetensors", source ? source : ".");
  if (ull__safetensors_open(path, &reference) != ULL_OK) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  ull__safetensors_close(reference);
  return failed;
}
