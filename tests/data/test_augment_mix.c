/* Mixup and cutmix of a batch in place, against a definition with a second batch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/mix.h"

enum { CHANNELS = 3, HEIGHT = 37, WIDTH = 29, PIXELS = HEIGHT * WIDTH, VALUES = CHANNELS * PIXELS };

static const ull_augment blends = {.mixup_alpha = 0.4}, cuts = {.cutmix_alpha = 1},
                         both = {.mixup_alpha = 0.2, .cutmix_alpha = 1};

/* The element of a sample at (c, y, x). */
static int64_t place(bool last, int c, int y, int x) {
  return last ? (y * WIDTH + x) * CHANNELS + c : (c * HEIGHT + y) * WIDTH + x;
}

static bool in_box(const ull__rect *box, int y, int x) {
  return y >= box->y && y < box->y + box->height && x >= box->x && x < box->x + box->width;
}

static float mixed(const ull__mix *mix, float own, float partner, int y, int x) {
  if (mix->kind == ULL__MIX_CUT) return in_box(&mix->box, y, x) ? partner : own;
  return own * (float)mix->lambda + partner * (float)(1 - mix->lambda);
}

static void check_floats(const ull__mix *mix, uint64_t samples, bool last) {
  float *before = malloc(sizeof *before * samples * VALUES);
  float *after = malloc(sizeof *after * samples * VALUES);
  for (uint64_t i = 0; i < samples * VALUES; i++)
    before[i] = (float)(i * 7919 % 10007) * 0.01f - 50;
  memcpy(after, before, sizeof *after * samples * VALUES);
  ull__mix_array array = {after, ULL_FLOAT32, samples, CHANNELS, HEIGHT, WIDTH, last};
  ull__mix_images(mix, &array);
  for (uint64_t s = 0; s < samples; s++) {
    uint64_t partner = (s + mix->distance) % samples;
    assert_true(partner != s && partner == ull__mix_partner(mix, samples, s));
    for (int i = 0; i < VALUES; i++) {
      int c = i / PIXELS, y = i % PIXELS / WIDTH, x = i % WIDTH;
      int64_t at = place(last, c, y, x);
      float own = before[(int64_t)s * VALUES + at], other = before[(int64_t)partner * VALUES + at];
      assert_true(after[(int64_t)s * VALUES + at] == mixed(mix, own, other, y, x));
    }
  }
  free(before);
  free(after);
}

static void batches_are_mixed_in_place(void **state) {
  (void)state;
  for (uint64_t samples = 2; samples <= 13; samples++) {
    for (uint64_t batch = 0; batch < 6; batch++) {
      ull__mix a = ull__mix_draw(&blends, 1, 2, batch, samples, WIDTH, HEIGHT);
      ull__mix b = ull__mix_draw(&cuts, 1, 2, batch, samples, WIDTH, HEIGHT);
      assert_true(a.kind == ULL__MIX_BLEND && b.kind == ULL__MIX_CUT);
      check_floats(&a, samples, batch % 2);
      check_floats(&b, samples, batch % 2);
    }
  }
}

/* Bytes round half up; 16-bit floats round what float32 gives to nearest even. */
static void narrow_dtypes_are_mixed(void **state) {
  (void)state;
  enum { SAMPLES = 5 };
  static uint8_t before[SAMPLES * VALUES], after[SAMPLES * VALUES];
  static uint16_t half[SAMPLES * VALUES], brain[SAMPLES * VALUES];
  ull__mix mix = ull__mix_draw(&blends, 1, 2, 3, SAMPLES, WIDTH, HEIGHT);
  for (int i = 0; i < SAMPLES * VALUES; i++) {
    before[i] = after[i] = (uint8_t)(i * 31 % 256);
    /* before[i] / 64 in both formats, exactly. */
    uint32_t bits;
    float value = before[i] / 64.0f;
    memcpy(&bits, &value, sizeof bits);
    brain[i] = (uint16_t)(bits >> 16);
    half[i] = value == 0 ? 0 : (uint16_t)(((bits >> 23) - 112) << 10 | (bits >> 13 & 1023));
  }
  ull__mix_array array = {after, ULL_UINT8, SAMPLES, CHANNELS, HEIGHT, WIDTH, false};
  ull__mix_images(&mix, &array);
  array.data = half;
  array.dtype = ULL_FLOAT16;
  ull__mix_images(&mix, &array);
  array.data = brain;
  array.dtype = ULL_BFLOAT16;
  ull__mix_images(&mix, &array);
  for (int i = 0; i < SAMPLES * VALUES; i++) {
    int partner = (i + (int)mix.distance * VALUES) % (SAMPLES * VALUES);
    double exact = before[i] * mix.lambda + before[partner] * (1 - mix.lambda);
    assert_true(fabs(after[i] - exact) <= 0.5001);
    uint32_t bits = (uint32_t)brain[i] << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    assert_true(fabs((double)wide - exact / 64) <= exact / 64 * 0x1.01p-8);
    int exponent = half[i] >> 10;
    double value =
        exponent == 0 ? ldexp(half[i], -24) : ldexp((half[i] & 1023) + 1024, exponent - 25);
    assert_true(fabs(value - exact / 64) <= exact / 64 * 0x1.01p-11 + 0x1p-25);
  }
}

static void labels_follow(void **state) {
  (void)state;
  enum { SAMPLES = 7, CLASSES = 4 };
  static const int64_t labels[SAMPLES] = {0, 3, 2, 2, 1, 0, 3};
  float soft[SAMPLES * CLASSES];
  for (uint64_t batch = 0; batch < 40; batch++) {
    ull__mix mix = ull__mix_draw(&both, 1, 0, batch, SAMPLES, WIDTH, HEIGHT);
    assert_int_equal(ull__mix_labels(&mix, labels, SAMPLES, CLASSES, soft), ULL_OK);
    for (uint64_t s = 0; s < SAMPLES; s++) {
      int64_t other = labels[ull__mix_partner(&mix, SAMPLES, s)];
      for (int64_t c = 0; c < CLASSES; c++) {
        double wanted = (c == labels[s]) * mix.lambda + (c == other) * (1 - mix.lambda);
        assert_true(fabs((double)soft[s * CLASSES + (uint64_t)c] - wanted) < 1e-6);
      }
    }
  }
  ull__mix none = ull__mix_draw(&(ull_augment){0}, 1, 0, 0, SAMPLES, WIDTH, HEIGHT);
  assert_int_equal(ull__mix_labels(&none, labels, SAMPLES, CLASSES, soft), ULL_OK);
  for (int i = 0; i < SAMPLES * CLASSES; i++)
    assert_true(soft[i] == (labels[i / CLASSES] == i % CLASSES));
  assert_int_equal(ull__mix_labels(&none, labels, SAMPLES, 3, soft), ULL_ERROR_DATA);
}

/* Lambda is of the beta distribution: mean 1/2, variance 1 / (4 (2 alpha + 1)), symmetric. */
static void lambda_is_beta(void **state) {
  (void)state;
  enum { DRAWS = 40000 };
  static const double alphas[] = {0.05, 0.2, 1, 3.5};
  for (size_t a = 0; a < 4; a++) {
    ull_augment augment = {.mixup_alpha = alphas[a]};
    double sum = 0, squares = 0, cubes = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
      double x = ull__mix_draw(&augment, 3, i % 7, i, 8, 1, 1).lambda - 0.5;
      assert_true(x >= -0.5 && x <= 0.5);
      sum += x;
      squares += x * x;
      cubes += x * x * x;
    }
    double variance = 1 / (4 * (2 * alphas[a] + 1));
    assert_true(fabs(sum / DRAWS) < 0.01);
    assert_true(fabs(squares / DRAWS / variance - 1) < 0.03);
    assert_true(fabs(cubes / DRAWS) < 0.003);
  }
}

/* For alpha 1 and before the edges cut, 1 - lambda would be uniform; the rectangle's share of the
 * area is what lambda says, and lies within the image. */
static void boxes_say_what_lambda_is(void **state) {
  (void)state;
  enum { DRAWS = 5000 };
  int empty = 0;
  double sum = 0;
  for (uint64_t i = 0; i < DRAWS; i++) {
    ull__mix mix = ull__mix_draw(&cuts, 3, 1, i, 8, 200, 100);
    const ull__rect *b = &mix.box;
    assert_true(b->x >= 0 && b->y >= 0 && b->width >= 0 && b->height >= 0);
    assert_true(b->x + b->width <= 200 && b->y + b->height <= 100);
    assert_true(fabs(1 - b->width * b->height / 20000.0 - mix.lambda) < 1e-12);
    empty += b->width == 0;
    sum += 1 - mix.lambda;
  }
  assert_true(empty < DRAWS / 50);
  /* E of the cut share: integral over r in [0, 1] of 2 r * (r - r^2 / 4)^2 for sides r. */
  double wanted = 0;
  for (int k = 0; k < 1000; k++) {
    double r = (k + 0.5) / 1000, side = r - r * r / 4;
    wanted += 2 * r * side * side / 1000;
  }
  assert_true(fabs(sum / DRAWS - wanted) < 0.015);
}

static void batches_draw_their_own(void **state) {
  (void)state;
  enum { BATCHES = 400 };
  double lambdas[BATCHES];
  int kinds[3] = {0};
  for (uint64_t i = 0; i < BATCHES; i++) {
    ull__mix mix = ull__mix_draw(&both, 3, i % 4, i / 4, 16, 64, 64), again = mix;
    mix = ull__mix_draw(&both, 3, i % 4, i / 4, 16, 64, 64);
    assert_true(mix.lambda == again.lambda && mix.distance == again.distance);
    assert_in_range(mix.distance, 1, 15);
    kinds[mix.kind]++;
    ull_augment one = {.mixup_alpha = 2};
    lambdas[i] = ull__mix_draw(&one, 3, i % 4, i / 4, 16, 64, 64).lambda;
    for (uint64_t j = 0; j < i; j++) assert_true(lambdas[i] != lambdas[j]);
  }
  assert_int_equal(kinds[ULL__MIX_NONE], 0);
  assert_in_range(kinds[ULL__MIX_CUT], BATCHES / 2 - 50, BATCHES / 2 + 50);
  assert_int_equal(ull__mix_draw(&both, 3, 0, 0, 1, 64, 64).kind, ULL__MIX_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_are_mixed_in_place),
      cmocka_unit_test(narrow_dtypes_are_mixed),
      cmocka_unit_test(labels_follow),
      cmocka_unit_test(lambda_is_beta),
      cmocka_unit_test(boxes_say_what_lambda_is),
      cmocka_unit_test(batches_draw_their_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
