/* The grammar of --augment, and what is drawn: distribution, distinctness, repetition. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/augment.h"
#include "data/draws.h"
#include "data/image/changes.h"
#include "data/image/geometry.h"

static ull_augment parse(const char *text) {
  ull_augment augment;
  if (ull_augment_parse(text, &augment) != ULL_OK)
    fail_msg("%s: %s", text, ull_error_last()->message);
  return augment;
}

/* ---- grammar ---- */

static void lists_are_read_and_described(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"none", "none"},
      {"crop,flip", "crop 4 (zero), flip"},
      {"crop:7", "crop 7 (zero)"},
      {"crop:12:reflect,vflip", "crop 12 (reflect), vflip"},
      {"rrc", "random resized crop 0.08-1"},
      {"flip,random-resized-crop:0.25-0.9", "random resized crop 0.25-0.9, flip"},
      {"resize", "resize, centre crop"},
      {"resize:232,flip", "resize 232, centre crop, flip"},
      {"stretch", "stretch"},
      {"crop,stretch", "stretch, crop 4 (zero)"},
      {"rotate:12.5", "rotate 12.5"},
      {"color-jitter:0.4:0.3:0.2:0.1", "color jitter 0.4 0.3 0.2 0.1"},
      {"color-jitter:0.4", "color jitter 0.4 0 0 0"},
      {"grayscale,erase", "grayscale 0.1, erase 0.5"},
      {"randaugment", "randaugment 2 (magnitude 9)"},
      {"randaugment:3:15,erase:0.25", "randaugment 3 (magnitude 15), erase 0.25"},
      {"mixup,cutmix:0.5", "mixup 0.2, cutmix 0.5"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char text[256];
    ull_augment augment = parse(pairs[i][0]);
    assert_string_equal(ull_augment_describe(&augment, text, sizeof text), pairs[i][1]);
    for (size_t bytes = 1; bytes < 20; bytes++) {
      memset(text, 'x', sizeof text);
      ull_augment_describe(&augment, text, bytes);
      assert_non_null(memchr(text, '\0', bytes));
    }
  }
  ull_augment all = parse("rrc:0.0123456-0.987654,flip,vflip,rotate:179.125,color-jitter:0.123456:"
                          "0.123456:0.123456:0.123456,grayscale:0.123456,randaugment:14:30,"
                          "erase:0.123456,mixup:0.123456,cutmix:0.123456");
  char text[256];
  assert_true(strlen(ull_augment_describe(&all, text, sizeof text)) < sizeof text - 1);
}

static void other_lists_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      ",",
      "crop,",
      ",flip",
      "flop",
      "flip:1",
      "vflip:",
      "crop:",
      "crop:0",
      "crop:4097",
      "crop:4:mirror",
      "crop:4:zero:1",
      "crop:-1",
      "rrc:0.5",
      "rrc:0.5-0.2",
      "rrc:0-1",
      "rrc:0.1-1.5",
      "rrc:0.1-",
      "rrc,resize",
      "resize,stretch",
      "rrc,crop",
      "crop:4,resize:256",
      "resize:0",
      "resize:1.5",
      "resize:x",
      "stretch:2",
      "rotate",
      "rotate:181",
      "rotate:-5",
      "rotate:nan",
      "rotate:1e1",
      "color-jitter",
      "color-jitter:0.1:0.1:0.1:0.6",
      "color-jitter:1:1:1:0:1",
      "color-jitter:",
      "grayscale:1.1",
      "randaugment:15",
      "randaugment:2:31",
      "randaugment:2:9:1",
      "randaugment:2.5",
      "erase:2",
      "mixup:101",
      "mixup:",
      "cutmix:x",
      "none,flip",
      "Crop",
      "crop flip",
      "color-jitter:0.00000000000000000000000000000000000000000000000000000000001"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ull_augment augment;
    memset(&augment, 1, sizeof augment);
    if (ull_augment_parse(bad[i], &augment) != ULL_ERROR_USAGE) fail_msg("'%s' was read", bad[i]);
    static const ull_augment nothing;
    assert_memory_equal(&augment, &nothing, sizeof nothing);
  }
}

static void photos_have_defaults(void **state) {
  (void)state;
  ull_augment training = ull_augment_default_for_photos(true), asked = parse("rrc,flip");
  assert_memory_equal(&training, &asked, sizeof asked);
  ull_augment evaluation = ull_augment_default_for_photos(false);
  assert_int_equal(ull__augment_framing(&evaluation), ULL_FRAMING_CENTRE_CROP);
  assert_false(ull__augment_changes_pixels(&training));
  ull_augment none = parse("none"), crop = parse("crop"), cut = parse("mixup,erase,flip");
  assert_int_equal(ull__augment_framing(&none), ULL_FRAMING_CENTRE_CROP);
  assert_int_equal(ull__augment_framing(&crop), ULL_FRAMING_STRETCH);
  assert_false(ull__augment_changes_pixels(&cut));
}

/* ---- frames ---- */

enum { WIDTH = 500, HEIGHT = 375, SIDE = 224 };

static ull__frame draw(const ull_augment *augment, uint64_t key, uint64_t epoch, uint64_t sample) {
  return ull__frame_draw(augment, key, epoch, sample, WIDTH, HEIGHT, SIDE, SIDE);
}

/* Area uniform, logarithm of the ratio uniform, place uniform: compared with the moments that those
 * have among windows that fit. */
static void random_crops_are_spread(void **state) {
  (void)state;
  enum { DRAWS = 40000, BINS = 10 };
  ull_augment augment = parse("rrc:0.08-0.5,flip");
  int area_bins[BINS] = {0}, ratio_bins[BINS] = {0}, place_bins[BINS] = {0}, flips = 0;
  for (uint64_t i = 0; i < DRAWS; i++) {
    ull__frame frame = draw(&augment, 11, i / 1000, i % 1000);
    const ull__rect *w = &frame.window;
    assert_true(w->x >= 0 && w->y >= 0 && w->x + w->width <= WIDTH && w->y + w->height <= HEIGHT);
    assert_true(w->width > 0 && w->height > 0);
    assert_true(frame.resized_width == SIDE && frame.shift_x == 0 && frame.shift_y == 0);
    double area = (double)w->width * w->height / (WIDTH * HEIGHT);
    double ratio = log((double)w->width / w->height) / log(4.0 / 3);
    assert_true(area > 0.076 && area < 0.507 && fabs(ratio) < 1.05);
    int bin = (int)((area - 0.08) / 0.42 * BINS);
    area_bins[bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin]++;
    bin = (int)((ratio + 1) / 2 * BINS);
    ratio_bins[bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin]++;
    place_bins[(int)((double)w->x / (WIDTH - w->width + 1) * BINS)]++;
    flips += frame.flip_x;
  }
  for (int i = 0; i < BINS; i++) {
    assert_in_range(area_bins[i], DRAWS / BINS - 350, DRAWS / BINS + 350);
    assert_in_range(ratio_bins[i], DRAWS / BINS - 400, DRAWS / BINS + 400);
    assert_in_range(place_bins[i], DRAWS / BINS - 350, DRAWS / BINS + 350);
  }
  assert_in_range(flips, DRAWS / 2 - 500, DRAWS / 2 + 500);
}

/* Where no window fits in ten tries, the largest centred one with an allowed ratio. */
static void hopeless_crops_fall_back_to_the_centre(void **state) {
  (void)state;
  ull_augment augment = parse("rrc:0.9-1");
  ull__frame wide = ull__frame_draw(&augment, 1, 0, 0, 1000, 100, SIDE, SIDE);
  assert_true(wide.window.x == 433 && wide.window.y == 0);
  assert_true(wide.window.width == 133 && wide.window.height == 100);
  ull__frame tall = ull__frame_draw(&augment, 1, 0, 0, 90, 1000, SIDE, SIDE);
  assert_true(tall.window.x == 0 && tall.window.y == 440);
  assert_true(tall.window.width == 90 && tall.window.height == 120);
  ull__frame one = ull__frame_draw(&augment, 1, 0, 0, 1, 1, SIDE, SIDE);
  assert_true(one.window.width == 1 && one.window.height == 1);
}

/* Sizes as torchvision's Resize and CenterCrop compute them. */
static void centre_crops_round_as_torchvision(void **state) {
  (void)state;
  static const int cases[][9] = {
      /* width, height, R, side -> resized, shift */
      {500, 375, 0, 224, 341, 256, 58, 16},   {375, 500, 0, 224, 256, 341, 16, 58},
      {333, 700, 232, 224, 232, 487, 4, 132}, {100, 80, 50, 64, 62, 50, -1, -7},
      {224, 224, 256, 225, 256, 256, 16, 16}, {300, 200, 0, 160, 274, 183, 57, 12},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int *n = cases[i];
    ull_augment augment = {.framing = ULL_FRAMING_CENTRE_CROP, .resize_side = n[2]};
    ull__frame f = ull__frame_draw(&augment, 1, 0, 0, n[0], n[1], n[3], n[3]);
    assert_int_equal(f.resized_width, n[4]);
    assert_int_equal(f.resized_height, n[5]);
    assert_int_equal(f.shift_x, n[6]);
    assert_int_equal(f.shift_y, n[7]);
  }
}

/* ---- distinct, and equal ---- */

static int compare_words(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Streams of different samples, epochs and purposes never draw the same numbers: 64 bits each are
 * pairwise distinct. */
static void streams_are_pairwise_distinct(void **state) {
  (void)state;
  enum { SAMPLES = 4000, EPOCHS = 8, PURPOSES = 8, COUNT = SAMPLES * EPOCHS * PURPOSES };
  uint64_t *words = malloc(COUNT * sizeof *words), *at = words;
  for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
      for (int purpose = 0; purpose < PURPOSES; purpose++) {
        ull__draws draws = ull__draws_begin(99, epoch, sample, (ull__purpose)purpose);
        uint64_t high = ull__draw_word(&draws);
        *at++ = high << 32 | ull__draw_word(&draws);
      }
    }
  }
  qsort(words, COUNT, sizeof *words, compare_words);
  for (int i = 1; i < COUNT; i++) assert_true(words[i] != words[i - 1]);
  free(words);
}

static bool same_frame(const ull__frame *a, const ull__frame *b) {
  return memcmp(&a->window, &b->window, sizeof a->window) == 0 && a->flip_x == b->flip_x &&
         a->flip_y == b->flip_y && a->shift_x == b->shift_x && a->shift_y == b->shift_y;
}

static bool same_changes(const ull__changes *a, const ull__changes *b) {
  if (a->count != b->count || a->erases != b->erases) return false;
  for (int i = 0; i < a->count; i++) {
    if (a->change[i].kind != b->change[i].kind || a->change[i].value != b->change[i].value)
      return false;
  }
  return true;
}

/* All parameters of a sample, in all epochs and for all samples, are their own; the same (seed,
 * epoch, id) gives the same. */
static void parameters_are_pairwise_distinct(void **state) {
  (void)state;
  enum { SAMPLES = 60, EPOCHS = 12, COUNT = SAMPLES * EPOCHS };
  ull_augment augment = parse("rrc,flip,vflip,rotate:30,color-jitter:0.4:0.4:0.4:0.1,randaugment");
  static ull__frame frames[COUNT];
  static ull__changes changes[COUNT];
  for (uint64_t i = 0; i < COUNT; i++) {
    frames[i] = draw(&augment, 3, i / SAMPLES, i % SAMPLES);
    changes[i] = ull__changes_draw(&augment, 3, i / SAMPLES, i % SAMPLES);
    ull__frame again = draw(&augment, 3, i / SAMPLES, i % SAMPLES);
    ull__changes same = ull__changes_draw(&augment, 3, i / SAMPLES, i % SAMPLES);
    assert_true(same_frame(&frames[i], &again) && same_changes(&changes[i], &same));
    ull__changes other = ull__changes_draw(&augment, 4, i / SAMPLES, i % SAMPLES);
    assert_false(same_changes(&changes[i], &other));
  }
  for (int i = 0; i < COUNT; i++) {
    for (int j = 0; j < i; j++) {
      assert_false(same_frame(&frames[i], &frames[j]));
      assert_false(same_changes(&changes[i], &changes[j]));
    }
  }
}

/* Asking for one more change leaves the others as they were. */
static void purposes_do_not_disturb_each_other(void **state) {
  (void)state;
  ull_augment few = parse("rrc,rotate:30,color-jitter:0:0.4"),
              many = parse(
                  "rrc,flip,vflip,rotate:30,color-jitter:0.2:0.4:0.1:0.1,grayscale:1,erase:1");
  for (uint64_t i = 0; i < 200; i++) {
    ull__frame a = draw(&few, 3, 0, i), b = draw(&many, 3, 0, i);
    assert_memory_equal(&a.window, &b.window, sizeof a.window);
    ull__changes x = ull__changes_draw(&few, 3, 0, i), y = ull__changes_draw(&many, 3, 0, i);
    assert_true(x.count == 2 && y.count == 6);
    assert_true(x.change[0].value == y.change[0].value);
    for (int k = 1; k < 5; k++) {
      if (y.change[k].kind == ULL__CHANGE_CONTRAST)
        assert_true(y.change[k].value == x.change[1].value);
    }
    assert_int_equal(y.change[5].kind, ULL__CHANGE_GRAYSCALE);
  }
}

/* ---- changes ---- */

static void jitter_is_uniform_in_any_order(void **state) {
  (void)state;
  enum { DRAWS = 24000 };
  ull_augment augment = parse("color-jitter:0.4:1.5:0.2:0.1");
  static const double least[4] = {0.6, 0, 0.8, -0.1}, most[4] = {1.4, 2.5, 1.2, 0.1};
  int orders[256] = {0}, halves[4] = {0}, found = 0;
  for (uint64_t i = 0; i < DRAWS; i++) {
    ull__changes c = ull__changes_draw(&augment, 8, i % 3, i);
    assert_int_equal(c.count, 4);
    int code = 0;
    for (int k = 0; k < 4; k++) {
      int which = c.change[k].kind == ULL__CHANGE_HUE
                      ? 3
                      : (int)(c.change[k].kind - ULL__CHANGE_BRIGHTNESS);
      double value = c.change[k].value;
      assert_true(value >= least[which] && value <= most[which]);
      halves[which] += value > (least[which] + most[which]) / 2;
      code = code * 4 + which;
    }
    orders[code]++;
  }
  for (int i = 0; i < 256; i++) {
    if (orders[i] == 0) continue;
    found++;
    assert_in_range(orders[i], DRAWS / 24 - 150, DRAWS / 24 + 150);
  }
  assert_int_equal(found, 24);
  for (int i = 0; i < 4; i++) assert_in_range(halves[i], DRAWS / 2 - 400, DRAWS / 2 + 400);
}

static void probabilities_are_met(void **state) {
  (void)state;
  enum { DRAWS = 20000 };
  ull_augment augment = parse("grayscale:0.2,erase:0.3,rotate:10");
  int grey = 0, erased = 0, right = 0;
  double area = 0, ratio = 0;
  for (uint64_t i = 0; i < DRAWS; i++) {
    ull__changes c = ull__changes_draw(&augment, 8, 1, i);
    assert_true(c.change[0].kind == ULL__CHANGE_ROTATE && fabs(c.change[0].value) <= 10);
    right += c.change[0].value < 0;
    grey += c.count == 2;
    ull__rect r = ull__changes_erased(&c, SIDE, SIDE);
    assert_true(c.erases == (r.width > 0));
    if (r.width == 0) continue;
    assert_true(r.x >= 0 && r.y >= 0 && r.x + r.width <= SIDE && r.y + r.height <= SIDE);
    erased++;
    area += (double)r.width * r.height / (SIDE * SIDE);
    ratio += log((double)r.height / r.width);
  }
  assert_in_range(grey, DRAWS / 5 - 250, DRAWS / 5 + 250);
  assert_in_range(erased, DRAWS * 3 / 10 - 280, DRAWS * 3 / 10 + 280);
  assert_in_range(right, DRAWS / 2 - 300, DRAWS / 2 + 300);
  /* Windows of extreme ratio that do not fit are drawn again, so the mean is a little below 0.175.
   */
  assert_true(fabs(area / erased - 0.173) < 0.005 && fabs(ratio / erased) < 0.03);
}

static void operations_are_uniform(void **state) {
  (void)state;
  enum { DRAWS = 28000 };
  ull_augment augment = parse("randaugment:1:9");
  int kinds[ULL__CHANGE_EQUALIZE + 1] = {0}, identity = 0, negative = 0;
  for (uint64_t i = 0; i < DRAWS; i++) {
    ull__changes c = ull__changes_draw(&augment, 8, 0, i);
    identity += c.count == 0;
    if (c.count == 0) continue;
    kinds[c.change[0].kind]++;
    negative += c.change[0].kind == ULL__CHANGE_ROTATE && c.change[0].value < 0;
  }
  assert_in_range(identity, DRAWS / 14 - 200, DRAWS / 14 + 200);
  for (int k = 0; k <= ULL__CHANGE_EQUALIZE; k++) {
    bool never = k == ULL__CHANGE_HUE || k == ULL__CHANGE_GRAYSCALE;
    if (never) {
      assert_int_equal(kinds[k], 0);
    } else {
      assert_in_range(kinds[k], DRAWS / 14 - 200, DRAWS / 14 + 200);
    }
  }
  assert_in_range(negative, kinds[ULL__CHANGE_ROTATE] / 2 - 120,
                  kinds[ULL__CHANGE_ROTATE] / 2 + 120);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_read_and_described),
      cmocka_unit_test(other_lists_are_refused),
      cmocka_unit_test(photos_have_defaults),
      cmocka_unit_test(random_crops_are_spread),
      cmocka_unit_test(hopeless_crops_fall_back_to_the_centre),
      cmocka_unit_test(centre_crops_round_as_torchvision),
      cmocka_unit_test(streams_are_pairwise_distinct),
      cmocka_unit_test(parameters_are_pairwise_distinct),
      cmocka_unit_test(purposes_do_not_disturb_each_other),
      cmocka_unit_test(jitter_is_uniform_in_any_order),
      cmocka_unit_test(probabilities_are_met),
      cmocka_unit_test(operations_are_uniform),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
