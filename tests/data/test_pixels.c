/* Changes beyond geometry: against stored results of torchvision and Pillow, on a canvas, and with
 * masks that follow their image to the pixel. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/image/changes.h"
#include "model/safetensors/safetensors.h"
#include "support/data_files.h"
#include "support/pictures.h"

static ull__safetensors *reference;

/* ---- stored results ---- */

static const char *const kind_names[] = {"rotate",    "shear_x",      "shear_y",   "shift_x",
                                         "shift_y",   "brightness",   "contrast",  "saturation",
                                         "sharpness", "hue",          "grayscale", "posterize",
                                         "solarize",  "autocontrast", "equalize"};
enum {
  KINDS = sizeof kind_names / sizeof *kind_names,
  WIDTH = 48,
  HEIGHT = 40,
  PIXELS = WIDTH * HEIGHT
};

/* "change.NAME.THOUSANDTHS" */
static bool parse_change(const char *name, ull__change *change) {
  char word[32];
  int thousandths;
  if (sscanf(name, "change.%31[a-z_].%d", word, &thousandths) != 2) return false;
  for (int k = 0; k < KINDS; k++) {
    if (strcmp(word, kind_names[k]) == 0)
      *change = (ull__change){(ull__change_kind)k, thousandths / 1000.0};
  }
  return true;
}

/* make_picture without its fourth byte. */
static uint8_t *make_rgb(int width, int height) {
  uint8_t *picture = make_picture(width, height);
  for (int i = 0; i < width * height; i++) memmove(picture + 3 * i, picture + 4 * i, 3);
  return picture;
}

/* To the byte. */
static void stored_changes_are_met(void **state) {
  (void)state;
  static uint8_t wanted[3 * PIXELS];
  int met[KINDS] = {0};
  for (uint32_t i = 0; i < ull__safetensors_count(reference); i++) {
    const ull__tensor_entry *entry = ull__safetensors_at(reference, i);
    ull__change change;
    if (!parse_change(entry->name, &change)) continue;
    assert_int_equal(entry->size_bytes, sizeof wanted);
    assert_int_equal(ull__safetensors_read(reference, entry, ULL_UINT8, wanted), ULL_OK);
    uint8_t *picture = make_rgb(WIDTH, HEIGHT), *other = malloc(3 * PIXELS);
    uint8_t *image = picture, *spare = other;
    ull__change_apply(&change, &image, &spare, WIDTH, HEIGHT, 3);
    for (int p = 0; p < 3 * PIXELS; p++) {
      if (image[p] != wanted[p])
        fail_msg("%s at %d: %d, not %d", entry->name, p, image[p], wanted[p]);
    }
    free(picture);
    free(other);
    met[change.kind]++;
  }
  for (int k = 0; k < KINDS; k++) assert_true(met[k] > 0);
}

/* What RandAugment draws at every magnitude are torchvision's numbers, with either sign. */
static void magnitudes_are_torchvisions(void **state) {
  (void)state;
  static double table[31][14];
  static const int columns[14] = {-1, 1, 2, 3, 4, 0, 5, 7, 6, 8, 11, 12, 13, 14};
  const ull__tensor_entry *entry = ull__safetensors_find(reference, "randaugment");
  assert_non_null(entry);
  assert_int_equal(ull__safetensors_read(reference, entry, ULL_FLOAT64, table), ULL_OK);
  for (int magnitude = 0; magnitude <= 30; magnitude++) {
    ull_augment augment = {.operations = 1, .magnitude = magnitude};
    int seen[14] = {0}, negative = 0;
    for (uint64_t i = 0; i < 600; i++) {
      ull__changes c = ull__changes_draw(&augment, 1, 0, i);
      if (c.count == 0) continue;
      int column = 1;
      while (columns[column] != (int)c.change[0].kind) column++;
      double wanted = table[magnitude][column], got = c.change[0].value;
      bool factor = column >= 6 && column <= 9, plain = column >= 10;
      if (factor) got -= 1;
      bool shift = column == 3 || column == 4; /* kept in double until the size is known */
      assert_true(fabs(fabs(got) - wanted) < (shift ? 5e-8 : 1e-15));
      assert_true(!plain || got >= 0);
      negative += got < 0;
      seen[column]++;
    }
    for (int column = 1; column < 14; column++) assert_true(seen[column] > 0);
    assert_true(magnitude == 0 || negative > 100);
  }
}

/* ---- canvas ---- */

static float at_store(const ull__pixel_store *store, int x, int y, int c) {
  return ((float *)store->base)[x * store->x_stride + y * store->y_stride + c * store->c_stride];
}

/* A picture that goes by way of the canvas and is not changed there has, for pixels that were not
 * resized, the bits of the direct way. */
static void a_canvas_keeps_the_bits(void **state) {
  (void)state;
  static float direct[3 * PIXELS], by_canvas[3 * PIXELS];
  uint8_t *picture = make_picture(WIDTH, HEIGHT);
  ull_augment augment = {.crop_pixels = 5, .flip = true};
  ull__image_info info = {.width = WIDTH, .height = HEIGHT};
  ull__changes none = {.count = 0};
  for (uint64_t i = 0; i < 32; i++) {
    ull__frame frame = ull__frame_draw(&augment, 1, 0, i, WIDTH, HEIGHT, WIDTH, HEIGHT);
    ull__pixel_store store = plain_store(direct, ULL_FLOAT32, 3, WIDTH, HEIGHT, i % 2);
    for (int c = 0; c < 3; c++) {
      store.scale[c] = 0.017f + 0.001f * (float)c;
      store.bias[c] = -2.1f;
    }
    apply_frame(&frame, 1, picture, info.width, info.height, 4, ULL__FILTER_TRIANGLE, &store, WIDTH,
                HEIGHT);
    uint64_t bytes;
    assert_int_equal(ull__canvas_bytes(3, WIDTH, HEIGHT, &bytes), ULL_OK);
    uint8_t *memory = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
    ull__scratch scratch = ull__scratch_over(memory, bytes);
    ull__canvas canvas;
    store.base = by_canvas;
    assert_int_equal(ull__canvas_begin(&canvas, &scratch, false, &store, WIDTH, HEIGHT), ULL_OK);
    apply_frame(&frame, 1, picture, info.width, info.height, 4, ULL__FILTER_TRIANGLE,
                &canvas.upright, WIDTH, HEIGHT);
    ull__canvas_end(&canvas, &none);
    assert_memory_equal(direct, by_canvas, sizeof direct);
    scratch = ull__scratch_over(memory, bytes / 2);
    assert_int_equal(ull__canvas_begin(&canvas, &scratch, false, &store, WIDTH, HEIGHT),
                     ULL_ERROR_INVALID);
    free(memory);
  }
  free(picture);
}

/* Zeros where the rectangle is, in every dtype and layout; nothing else is touched. */
static void erasing_clears_a_rectangle(void **state) {
  (void)state;
  static float out[3 * PIXELS];
  ull_augment augment = {.erase_probability = 1};
  for (uint64_t i = 0; i < 100; i++) {
    ull__changes changes = ull__changes_draw(&augment, 1, 0, i);
    ull__rect r = ull__changes_erased(&changes, WIDTH, HEIGHT);
    ull__pixel_store store = plain_store(out, ULL_FLOAT32, 3, WIDTH, HEIGHT, i % 2);
    for (int p = 0; p < 3 * PIXELS; p++) out[p] = 1;
    ull__changes_erase(&changes, &store, WIDTH, HEIGHT);
    for (int p = 0; p < PIXELS; p++) {
      int x = p % WIDTH, y = p / WIDTH;
      bool inside = x >= r.x && x < r.x + r.width && y >= r.y && y < r.y + r.height;
      for (int c = 0; c < 3; c++) assert_true(at_store(&store, x, y, c) == (inside ? 0 : 1));
    }
  }
}

/* ---- masks ---- */

/* Renders a picture, or a mask to its class numbers, as the loader would. */
static void render(const ull_augment *augment, uint64_t sample, int turn, const uint8_t *stored,
                   int width, int height, int channels, const ull__frame *frame,
                   const ull__pixel_store *store, int out_width, int out_height) {
  bool mask = channels == 1;
  ull__changes changes = ull__changes_draw(augment, 3, 1, sample);
  ull__filter filter = mask ? ULL__FILTER_NEAREST : ULL__FILTER_TRIANGLE;
  if (!ull__changes_apply_to(&changes, mask)) {
    apply_frame(frame, turn, stored, width, height, channels, filter, store, out_width, out_height);
    return;
  }
  uint64_t bytes;
  assert_int_equal(ull__canvas_bytes(store->channels, out_width, out_height, &bytes), ULL_OK);
  uint8_t *memory = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
  ull__scratch scratch = ull__scratch_over(memory, bytes);
  ull__canvas canvas;
  assert_int_equal(ull__canvas_begin(&canvas, &scratch, mask, store, out_width, out_height),
                   ULL_OK);
  apply_frame(frame, turn, stored, width, height, channels, filter, &canvas.upright, out_width,
              out_height);
  ull__canvas_end(&canvas, &changes);
  free(memory);
}

/* At the scale of 1 an image pixel is a mask pixel: the two must stay the same number through every
 * orientation, crop, mirror, border and rotation. */
static void masks_stay_aligned_at_full_size(void **state) {
  (void)state;
  enum { W = 45, H = 45 };
  static const ull_augment augments[] = {
      {.crop_pixels = 6, .flip = true, .flip_vertical = true},
      {.crop_pixels = 6, .padding = ULL_PADDING_REFLECT, .flip = true},
      {.framing = ULL_FRAMING_CENTRE_CROP, .resize_side = W, .rotate_degrees = 40},
      {.framing = ULL_FRAMING_STRETCH, .flip = true, .operations = 3, .magnitude = 12},
  };
  static float image[3 * W * H];
  static int64_t mask[W * H];
  uint8_t *picture = make_picture(W, H);
  for (int i = 0; i < W * H; i++) picture[4 * i + 1] = picture[4 * i + 2] = picture[4 * i];
  uint8_t *numbers = take_channel(picture, W, H, 0);
  int compared = 0;
  for (int i = 0; i < 8 * 40; i++) {
    const ull_augment *augment = &augments[i / 8 % 4];
    uint64_t sample = (uint64_t)i;
    ull__changes changes = ull__changes_draw(augment, 3, 1, sample);
    bool moves_only = true;
    for (int k = 0; k < changes.count; k++)
      moves_only &= changes.change[k].kind <= ULL__CHANGE_SHIFT_Y;
    if (!moves_only) continue;
    ull__frame frame = ull__frame_draw(augment, 3, 1, sample, W, H, W, H);
    ull__pixel_store colour = plain_store(image, ULL_FLOAT32, 3, W, H, false);
    ull__pixel_store plain = plain_store(mask, ULL_INT64, 1, W, H, false);
    render(augment, sample, i % 8 + 1, picture, W, H, 4, &frame, &colour, W, H);
    render(augment, sample, i % 8 + 1, numbers, W, H, 1, &frame, &plain, W, H);
    for (int p = 0; p < W * H; p++) assert_true(image[p] == (float)mask[p]);
    compared++;
  }
  assert_true(compared > 240);
  free(numbers);
  free(picture);
}

/* At other scales: where everything that the filter sees is of one class, the mask has that class.
 */
static void masks_stay_aligned_at_any_size(void **state) {
  (void)state;
  enum { W = 211, H = 157, OUT_W = 64, OUT_H = 56 };
  static uint8_t picture[W * H * 4], numbers[W * H];
  static float image[3 * OUT_W * OUT_H];
  static int32_t mask[OUT_W * OUT_H];
  static const ull_augment augment = {.framing = ULL_FRAMING_RANDOM_CROP,
                                      .area_min = 0.08,
                                      .area_max = 1,
                                      .flip = true,
                                      .flip_vertical = true,
                                      .rotate_degrees = 20};
  for (int i = 0; i < W * H; i++) {
    numbers[i] = (uint8_t)((i % W / 37 * 3 + i / W / 29 * 5) % 7 + 1);
    memset(picture + 4 * i, numbers[i] * 30, 4);
  }
  int64_t pure = 0, all = 0;
  for (int i = 0; i < 160; i++) {
    int turn = i % 8 + 1, width = turn >= 5 ? H : W, height = turn >= 5 ? W : H;
    ull__frame frame = ull__frame_draw(&augment, 3, 1, (uint64_t)i, width, height, OUT_W, OUT_H);
    ull__pixel_store colour = plain_store(image, ULL_FLOAT32, 3, OUT_W, OUT_H, false);
    ull__pixel_store plain = plain_store(mask, ULL_INT32, 1, OUT_W, OUT_H, false);
    render(&augment, (uint64_t)i, turn, picture, W, H, 4, &frame, &colour, OUT_W, OUT_H);
    render(&augment, (uint64_t)i, turn, numbers, W, H, 1, &frame, &plain, OUT_W, OUT_H);
    for (int y = 1; y + 1 < OUT_H; y++) {
      for (int x = 1; x + 1 < OUT_W; x++) {
        int p = y * OUT_W + x;
        float here = image[p];
        bool flat = image[p - 1] == here && image[p + 1] == here && image[p - OUT_W] == here &&
                    image[p + OUT_W] == here;
        all++;
        if (!flat || here == 0) continue;
        pure++;
        assert_int_equal(mask[p], (int)here / 30);
      }
    }
  }
  assert_true(pure > all / 2);
}

/* A mask of another size than its picture shows the same part of the scene. */
static void masks_may_have_another_size(void **state) {
  (void)state;
  enum { W = 100, H = 80, OUT = 20 };
  static uint8_t small[W / 2 * (H / 2)], large[W * H];
  static uint8_t a[OUT * OUT], b[OUT * OUT / 4];
  for (int i = 0; i < W * H; i++) large[i] = (uint8_t)((i % W / 20 + i / W / 20 * 5) * 3);
  for (int i = 0; i < W * H / 4; i++) small[i] = large[i / (W / 2) * 2 * W + i % (W / 2) * 2];
  ull__frame frame = window_frame(W, H, (ull__rect){20, 40, 40, 40}, OUT, OUT);
  ull__pixel_store store = plain_store(a, ULL_UINT8, 1, OUT, OUT, false);
  apply_frame(&frame, 1, small, W / 2, H / 2, 1, ULL__FILTER_NEAREST, &store, OUT, OUT);
  store = plain_store(b, ULL_UINT8, 1, OUT / 2, OUT / 2, false);
  apply_frame(&frame, 1, large, W, H, 1, ULL__FILTER_NEAREST, &store, OUT / 2, OUT / 2);
  for (int i = 0; i < OUT * OUT; i++) {
    int class_number = (1 + i % OUT / 10 + (2 + i / OUT / 10) * 5) * 3;
    assert_int_equal(a[i], class_number);
    assert_int_equal(b[i / OUT / 2 * (OUT / 2) + i % OUT / 2], class_number);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stored_changes_are_met),
      cmocka_unit_test(magnitudes_are_torchvisions),
      cmocka_unit_test(a_canvas_keeps_the_bits),
      cmocka_unit_test(erasing_clears_a_rectangle),
      cmocka_unit_test(masks_stay_aligned_at_full_size),
      cmocka_unit_test(masks_stay_aligned_at_any_size),
      cmocka_unit_test(masks_may_have_another_size),
  };
  const char *path = source_path("tests/data/pictures.safetensors");
  if (ull__safetensors_open(path, &reference) != ULL_OK) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  ull__safetensors_close(reference);
  return failed;
}
