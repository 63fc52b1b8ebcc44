/* Windows, mirrors, normalisation and dtypes against a plain definition, element by element. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/convert.h"
#include "support/data_files.h"

enum { CHANNELS = 3, HEIGHT = 6, WIDTH = 5, ELEMENTS = CHANNELS * HEIGHT * WIDTH };

static const ull_array_info byte_image = {.name = "image",
                                          .dtype = ULL_UINT8,
                                          .image = true,
                                          .rank = 3,
                                          .shape = {CHANNELS, HEIGHT, WIDTH},
                                          .sample_bytes = ELEMENTS};

static ull_binding bind(const ull_array_info *info, ull_dtype dtype) {
  ull_binding binding = {.name = "x", .dtype = dtype, .rank = info->rank};
  memcpy(binding.shape, info->shape, sizeof binding.shape);
  return binding;
}

static const ull_normalize three = {.active = true,
                                    .channels = 3,
                                    .scale = 1.0 / 255,
                                    .mean = {0.485, 0.456, 0.406},
                                    .deviation = {0.229, 0.224, 0.225}};

/* The pixel at (c, y, x) of the moved image: crop first, then mirror. */
static double moved_pixel(const uint8_t *image, ull_padding padding, ull__move move, int c, int y,
                          int x) {
  int row = (move.flip_vertical ? HEIGHT - 1 - y : y) + move.down,
      column = (move.flip ? WIDTH - 1 - x : x) + move.right;
  if (padding == ULL_PADDING_REFLECT) {
    row = row < 0 ? -row : row >= HEIGHT ? 2 * HEIGHT - 2 - row : row;
    column = column < 0 ? -column : column >= WIDTH ? 2 * WIDTH - 2 - column : column;
  }
  if (row < 0 || row >= HEIGHT || column < 0 || column >= WIDTH) return 0;
  return image[(c * HEIGHT + row) * WIDTH + column];
}

static void check_move(ull_dtype dtype, ull_padding padding, int pixels, ull__move move) {
  uint8_t image[ELEMENTS];
  double out[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++) image[i] = (uint8_t)(i * 7 + 13);
  ull_augment augment = {.crop_pixels = pixels, .padding = padding, .flip = true};
  ull_binding binding = bind(&byte_image, dtype);
  binding.normalize = three;
  ull__conversion conversion;
  assert_int_equal(ull__conversion_create(&byte_image, &binding, &augment, &conversion), ULL_OK);
  assert_int_equal(ull__convert(&conversion, move, image, out), ULL_OK);
  for (int i = 0; i < ELEMENTS; i++) {
    int c = i / (HEIGHT * WIDTH), y = i / WIDTH % HEIGHT, x = i % WIDTH;
    double pixel = moved_pixel(image, padding, move, c, y, x);
    double wanted = (pixel / 255 - three.mean[c]) / three.deviation[c];
    double got = dtype == ULL_FLOAT64 ? out[i] : (double)((float *)out)[i];
    double margin = dtype == ULL_FLOAT64 ? 1e-14 : 1e-6;
    if (!(fabs(got - wanted) <= margin)) {
      fail_msg("move %d,%d,%d at %d,%d,%d: %g, not %g", move.down, move.right, move.flip, c, y, x,
               got, wanted);
    }
  }
}

static void every_move(void **state) {
  (void)state;
  for (int padding = 0; padding < 2; padding++) {
    int pixels = padding == ULL_PADDING_REFLECT ? 4 : 8;
    for (int i = 0; i < (2 * pixels + 1) * (2 * pixels + 1) * 4; i++) {
      ull__move move = {.down = i / 4 % (2 * pixels + 1) - pixels,
                        .right = i / 4 / (2 * pixels + 1) - pixels,
                        .flip = i % 2,
                        .flip_vertical = i / 2 % 2};
      check_move(ULL_FLOAT32, (ull_padding)padding, pixels, move);
      check_move(ULL_FLOAT64, (ull_padding)padding, pixels, move);
    }
  }
}

static void moves_cover_their_range_evenly(void **state) {
  (void)state;
  ull_augment augment = {.crop_pixels = 4, .flip = true, .flip_vertical = true};
  int down[9] = {0}, right[9] = {0}, flips = 0, vertical_flips = 0, pairs[81] = {0};
  enum { DRAWS = 81 * 400 };
  for (uint64_t i = 0; i < DRAWS; i++) {
    ull__move move = ull__draw_move(&augment, 12345, i / 1000, i % 1000);
    assert_in_range(move.down + 4, 0, 8);
    assert_in_range(move.right + 4, 0, 8);
    down[move.down + 4]++;
    right[move.right + 4]++;
    pairs[(move.down + 4) * 9 + move.right + 4]++;
    flips += move.flip;
    vertical_flips += move.flip_vertical;
  }
  for (int i = 0; i < 9; i++) assert_true(abs(down[i] - 3600) < 300 && abs(right[i] - 3600) < 300);
  for (int i = 0; i < 81; i++) assert_true(abs(pairs[i] - 400) < 100);
  assert_true(abs(flips - DRAWS / 2) < 500 && abs(vertical_flips - DRAWS / 2) < 500);
  ull__move a = ull__draw_move(&augment, 1, 2, 3), b = ull__draw_move(&augment, 1, 2, 3);
  assert_true(a.down == b.down && a.right == b.right && a.flip == b.flip);
  ull_augment none = {0};
  a = ull__draw_move(&none, 1, 2, 3);
  assert_true(a.down == 0 && a.right == 0 && !a.flip && !a.flip_vertical);
}

/* Converts one element. */
static ull_status convert_one(ull_dtype from, const void *value, ull_dtype to, void *out) {
  ull_array_info info = {.name = "a", .dtype = from, .sample_bytes = ull_dtype_bytes(from)};
  ull_binding binding = bind(&info, to);
  ull_augment none = {0};
  ull__conversion conversion;
  ull_status status = ull__conversion_create(&info, &binding, &none, &conversion);
  return status != ULL_OK ? status : ull__convert(&conversion, (ull__move){0}, value, out);
}

static void dtypes_convert(void **state) {
  (void)state;
  uint8_t byte = 200;
  int64_t wide = 0;
  int32_t narrow = 0;
  float single = 0;
  double real = 0;
  assert_int_equal(convert_one(ULL_UINT8, &byte, ULL_INT64, &wide), ULL_OK);
  assert_int_equal(wide, 200);
  assert_int_equal(convert_one(ULL_UINT8, &byte, ULL_FLOAT32, &single), ULL_OK);
  assert_true(single == 200.0f);
  wide = -5;
  assert_int_equal(convert_one(ULL_INT64, &wide, ULL_INT32, &narrow), ULL_OK);
  assert_int_equal(narrow, -5);
  assert_int_equal(convert_one(ULL_INT64, &wide, ULL_FLOAT64, &real), ULL_OK);
  assert_true(real == -5.0);
  uint16_t halves[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000, 0x7c00};
  float values[] = {1.0f, -2.0f, 65504.0f, 0x1p-24f, -0.0f, INFINITY};
  for (int i = 0; i < 6; i++) {
    assert_int_equal(convert_one(ULL_FLOAT16, &halves[i], ULL_FLOAT32, &single), ULL_OK);
    assert_memory_equal(&single, &values[i], sizeof single);
  }
  single = -0.0f;
  assert_int_equal(convert_one(ULL_FLOAT32, &single, ULL_FLOAT64, &real), ULL_OK);
  assert_true(real == 0.0 && signbit(real));
}

static void narrowing_is_checked(void **state) {
  (void)state;
  int64_t wide = 1ll << 31;
  int32_t narrow = 300;
  uint8_t byte = 2;
  uint8_t out[8];
  assert_int_equal(convert_one(ULL_INT64, &wide, ULL_INT32, out), ULL_ERROR_DATA);
  assert_string_equal(ull_error_last()->message,
                      "element 0 is 2147483648, which int32 cannot hold");
  assert_int_equal(convert_one(ULL_INT32, &narrow, ULL_UINT8, out), ULL_ERROR_DATA);
  assert_int_equal(convert_one(ULL_UINT8, &byte, ULL_BOOL, out), ULL_ERROR_DATA);
  float single = 1;
  assert_int_equal(convert_one(ULL_FLOAT32, &single, ULL_INT64, out), ULL_ERROR_MISMATCH);
  assert_int_equal(convert_one(ULL_FLOAT32, &single, ULL_FLOAT16, out), ULL_ERROR_MISMATCH);
}

static void shapes_must_match(void **state) {
  (void)state;
  ull_augment none = {0};
  ull__conversion conversion;
  ull_binding binding = bind(&byte_image, ULL_FLOAT32);
  binding.shape[2]++;
  assert_int_equal(ull__conversion_create(&byte_image, &binding, &none, &conversion),
                   ULL_ERROR_MISMATCH);
  assert_string_equal(
      ull_error_last()->message,
      "array 'image' (uint8) cannot fill 'x' (float32): 108 elements a sample are wanted, "
      "it has 90");
  binding = bind(&byte_image, ULL_FLOAT32);
  binding.rank = 1;
  binding.shape[0] = ELEMENTS;
  assert_int_equal(ull__conversion_create(&byte_image, &binding, &none, &conversion), ULL_OK);
  binding.normalize = three;
  binding.normalize.channels = 2;
  assert_int_equal(ull__conversion_create(&byte_image, &binding, &none, &conversion),
                   ULL_ERROR_MISMATCH);
  binding.normalize.active = false;
  ull_augment wide = {.crop_pixels = WIDTH, .padding = ULL_PADDING_REFLECT};
  assert_int_equal(ull__conversion_create(&byte_image, &binding, &wide, &conversion),
                   ULL_ERROR_MISMATCH);
}

static void augment_texts(void **state) {
  (void)state;
  static const struct {
    const char *text, *described;
  } good[] = {
      {"none", "none"},
      {"crop", "crop 4 (zero)"},
      {"flip", "flip"},
      {"crop,flip", "crop 4 (zero), flip"},
      {"flip,crop:2:reflect", "crop 2 (reflect), flip"},
      {"crop:12", "crop 12 (zero)"},
  };
  static const char *const bad[] = {"",           "crop:", "crop:0", "crop:-3",       "crop:4:wrap",
                                    "crop,,flip", "flip,", "mixed",  "crop:4:zero:1", "crop:99999",
                                    "cropx"};
  ull_augment augment;
  char text[64];
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_int_equal(ull_augment_parse(good[i].text, &augment), ULL_OK);
    assert_string_equal(ull_augment_describe(&augment, text, sizeof text), good[i].described);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    if (ull_augment_parse(bad[i], &augment) != ULL_ERROR_USAGE)
      fail_msg("'%s' was accepted", bad[i]);
  }
}

static ull_source *open_idx(const char *folder, ull_split split) {
  char text[600];
  snprintf(text, sizeof text, "idx:%s", folder);
  ull_source_options options = ull_source_options_default();
  options.split = split;
  ull_source *source;
  assert_int_equal(ull_source_open(text, &options, &source), ULL_OK);
  return source;
}

static void normalize_texts(void **state) {
  (void)state;
  const char *folder = make_folder();
  write_idx_pair(folder, "train", 40, 5, 7, 4, true);
  ull_source *source = open_idx(folder, ULL_SPLIT_TRAIN);
  static const char *const bad[] = {"",     "mean", "0.5",   "0.5:0", "0.5:-1", "1,2:1",
                                    "1:1x", " 1:1", "nan:1", "1:inf", "1,:1",   "1:1,"};
  ull_normalize normalize;
  char text[128];
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    if (ull_normalize_parse(bad[i], source, 0, &normalize) != ULL_ERROR_USAGE) {
      fail_msg("'%s' was accepted", bad[i]);
    }
  }
  assert_int_equal(ull_normalize_parse("0.5,0.25:1,2", source, 0, &normalize), ULL_OK);
  assert_string_equal(ull_normalize_describe(&normalize, text, sizeof text),
                      "x/255, mean 0.5000,0.2500, std 1.0000,2.0000");
  assert_int_equal(ull_normalize_parse("none", source, 0, &normalize), ULL_OK);
  assert_string_equal(ull_normalize_describe(&normalize, text, sizeof text), "none");
  assert_int_equal(ull_normalize_parse("auto", source, 1, &normalize), ULL_OK);
  assert_string_equal(ull_normalize_describe(&normalize, text, sizeof text), "none (auto)");
  ull_source_close(source);
  remove_tree(folder);
}

/* `auto` = mean and deviation of all training pixels, for the evaluation split too. */
static void automatic_normalisation_is_of_the_training_files(void **state) {
  (void)state;
  const char *folder = make_folder();
  write_idx_pair(folder, "train", 40, 5, 7, 4, true);
  write_idx_pair(folder, "t10k", 3, 5, 7, 4, false);
  double sum = 0, square_sum = 0, count = 40 * 35;
  for (uint32_t i = 0; i < 40 * 35; i++) {
    double pixel = idx_pixel(i / 35, i % 35 / 7, i % 7) / 255.0;
    sum += pixel;
    square_sum += pixel * pixel;
  }
  double deviation = sqrt(square_sum / count - sum / count * (sum / count));
  for (int split = 0; split < 2; split++) {
    ull_source *source = open_idx(folder, (ull_split)split);
    ull_normalize normalize;
    assert_int_equal(ull_normalize_parse("auto", source, 0, &normalize), ULL_OK);
    assert_true(normalize.active && normalize.automatic && normalize.channels == 1);
    assert_true(fabs(normalize.mean[0] - sum / count) < 1e-12);
    assert_true(fabs(normalize.deviation[0] - deviation) < 1e-12);
    ull_source_close(source);
  }
  remove_tree(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_move),
      cmocka_unit_test(moves_cover_their_range_evenly),
      cmocka_unit_test(dtypes_convert),
      cmocka_unit_test(narrowing_is_checked),
      cmocka_unit_test(shapes_must_match),
      cmocka_unit_test(augment_texts),
      cmocka_unit_test(normalize_texts),
      cmocka_unit_test(automatic_normalisation_is_of_the_training_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
