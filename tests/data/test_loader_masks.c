/* Pairs of picture and mask: whatever is drawn for the picture moves its mask as well, to the
 * pixel. The mask of these pairs is the picture itself, read as class numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "support/data_trees.h"
#include "support/picture_folders.h"
#include "support/png_files.h"

enum { PAIRS = 12, WIDTH = 60, HEIGHT = 90, PLAIN = 40 };

static ull_source *source;

/* Grey values 2 x + y + seed: neighbours differ by 2 at most. */
static uint8_t slope(int x, int y, int seed) {
  return (uint8_t)(2 * x + y / 2 + seed);
}

static byte_buffer slope_png(int width, int height, int seed) {
  png_form form = {.width = width, .height = height, .colour = PNG_GREY, .depth = 8};
  byte_buffer png = {0};
  static uint8_t rows[200 * 201], packed[200 * 201 + 1000];
  for (int y = 0; y < height; y++) {
    rows[y * (width + 1)] = 0;
    for (int x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = slope(x, y, seed);
  }
  uLongf bytes = sizeof packed;
  assert_int_equal(compress(packed, &bytes, rows, (uLong)(height * (width + 1))), Z_OK);
  append_png_begin(&png, &form);
  append_png_chunk(&png, "IDAT", packed, bytes);
  append_png_end(&png);
  return png;
}

static void put_pair(int number, int width, int height) {
  char name[64];
  byte_buffer png = slope_png(width, height, number * 5);
  snprintf(name, sizeof name, "images/%02d.png", number);
  put_buffer(root, name, &png);
  snprintf(name, sizeof name, "masks/%02d.png", number);
  put_buffer(root, name, &png);
  free_buffer(&png);
}

static void set_up_pairs(int width, int height) {
  make_root(NULL);
  for (int i = 0; i < PAIRS; i++) put_pair(i, width, height);
  source = open_or_fail(root, ULL_SPLIT_TRAIN);
}

static int tear_down(void **state) {
  ull_source_close(source);
  return remove_root(state);
}

/* Mask first: the picture leads whatever the order of bindings. */
static ull_loader_options pair_options(const char *augment, int side) {
  static ull_binding bindings[2];
  int mask = ull_source_find_array(source, "mask"), image = ull_source_find_array(source, "image");
  assert_true(mask >= 0 && image >= 0);
  bindings[0] = ull_binding_default(source, (size_t)mask);
  bindings[0].dtype = ULL_INT64;
  bindings[0].shape[0] = bindings[0].shape[1] = side;
  bindings[1] = ull_binding_default(source, (size_t)image);
  bindings[1].shape[0] = 1;
  bindings[1].shape[1] = bindings[1].shape[2] = side;
  ull_loader_options options = ull_loader_options_default(source);
  options.bindings = bindings;
  options.binding_count = 2;
  options.batch_size = PAIRS;
  options.epochs = 4;
  assert_int_equal(ull_augment_parse(augment, &options.augment), ULL_OK);
  return options;
}

/* The largest difference between picture and mask over all epochs, inside a border. */
static int largest_difference(const char *augment, int side, int border, bool *moved) {
  ull_loader_options options = pair_options(augment, side);
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  int largest = 0;
  *moved = false;
  while (ull_loader_next(loader, &batch) == ULL_OK && batch != NULL) {
    const int64_t *masks = batch->arrays[0].data;
    const uint8_t *images = batch->arrays[1].data;
    for (uint64_t i = 0; i < batch->samples; i++)
      for (int y = border; y < side - border; y++)
        for (int x = border; x < side - border; x++) {
          uint64_t at = (i * (uint64_t)side + (uint64_t)y) * (uint64_t)side + (uint64_t)x;
          int difference = abs((int)(masks[at] - images[at]));
          if (difference > largest) largest = difference;
          *moved |= masks[at] != slope(x, y, (int)batch->sample_index[i] * 5);
        }
    ull_loader_release(loader, batch);
  }
  ull_loader_destroy(loader);
  return largest;
}

static void moved_alike_to_the_pixel(void **state) {
  (void)state;
  bool moved;
  set_up_pairs(PLAIN, PLAIN);
  assert_int_equal(largest_difference("stretch", PLAIN, 0, &moved), 0);
  assert_false(moved);
  assert_int_equal(largest_difference("crop:6,flip,vflip", PLAIN, 0, &moved), 0);
  assert_true(moved);
}

/* Resized by different filters: as far as neighbours differ. */
static void cropped_and_resized_alike(void **state) {
  (void)state;
  bool moved;
  set_up_pairs(WIDTH, HEIGHT);
  assert_in_range(largest_difference("rrc:0.3-1,flip", 48, 2, &moved), 0, 4);
  assert_true(moved);
  assert_in_range(largest_difference("resize:50", 44, 0, &moved), 0, 4);
}

/* A bad mask makes the sample bad, and its path is told. */
static void bad_masks_are_bad_samples(void **state) {
  (void)state;
  set_up_pairs(PLAIN, PLAIN);
  put_file(root, "masks/03.png", "no mask");
  ull_loader_options options = pair_options("stretch", PLAIN);
  options.epochs = 1;
  ull_loader *loader = create_loader(&options);
  const ull_batch *batch;
  assert_int_equal(ull_loader_next(loader, &batch), ULL_ERROR_DATA);
  assert_non_null(strstr(ull_error_last()->message, "masks/03.png: not_an_image"));
  ull_loader_destroy(loader);
  options.on_bad = ULL_ON_BAD_REPLACE;
  options.max_bad = 1;
  loader = create_loader(&options);
  assert_int_equal(ull_loader_next(loader, &batch), ULL_OK);
  assert_int_equal(batch->replaced, 1);
  ull_loader_destroy(loader);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(moved_alike_to_the_pixel, tear_down),
      cmocka_unit_test_teardown(cropped_and_resized_alike, tear_down),
      cmocka_unit_test_teardown(bad_masks_are_bad_samples, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
