/* PNG: every colour type and depth, interlaced or not, whole and in part, against the values that
 * were written, by rules stated here once more. Checksums, cut files and hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/alloc.h"
#include "support/image_runs.h"
#include "support/png_files.h"

enum { MEMORY = 4 << 20 };

static image_bench bench;

static int set_up(void **state) {
  (void)state;
  open_bench(&bench, MEMORY);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  close_bench(&bench);
  return 0;
}

static image_run run_png(const byte_buffer *png, const ull__image_request *request) {
  return run_image(&bench, png->bytes, png->count, -1, request);
}

/* ---- the rules ---- */

static uint8_t to_eight_bits(unsigned value, int depth) {
  unsigned most = (1u << depth) - 1;
  return (uint8_t)((value * 255 + most / 2) / most);
}

static void expected_colour(const png_form *form, int x, int y, uint8_t rgb[3]) {
  if (form->colour == PNG_PALETTE) {
    png_entry(png_sample(form, x, y, 0), rgb);
    return;
  }
  bool colour = png_channels(form->colour) >= 3;
  for (int c = 0; c < 3; c++)
    rgb[c] = to_eight_bits(png_sample(form, x, y, colour ? c : 0), form->depth);
}

static uint8_t expected_grey(const png_form *form, int x, int y) {
  uint8_t rgb[3];
  expected_colour(form, x, y, rgb);
  if (rgb[0] == rgb[1] && rgb[1] == rgb[2]) return rgb[0];
  return (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 32768) / 65536);
}

static void check_pixels(const png_form *form, const image_run *run, int channels) {
  const ull__rect *r = &run->delivery.region;
  for (int y = 0; y < r->height; y++)
    for (int x = 0; x < r->width; x++) {
      const uint8_t *pixel =
          run->pixels + ((size_t)y * (size_t)r->width + (size_t)x) * (size_t)channels;
      uint8_t rgb[3];
      expected_colour(form, r->x + x, r->y + y, rgb);
      bool same = channels == 4 ? memcmp(pixel, rgb, 3) == 0
                                : *pixel == expected_grey(form, r->x + x, r->y + y);
      if (!same)
        fail_msg("colour type %d, %d bits, %sinterlaced: pixel %d,%d of %d channels", form->colour,
                 form->depth, form->interlaced ? "" : "not ", r->x + x, r->y + y, channels);
    }
}

static void check_region(const png_form *form, const byte_buffer *png, ull__rect region,
                         int channels) {
  ull__image_request request = {.region = region, .max_reduction = 8, .channels = channels};
  image_run run = run_png(png, &request);
  if (run.status != ULL_OK) fail_msg("%s", ull_error_last()->message);
  assert_int_equal(run.info.verdict, ULL_VERDICT_OK);
  assert_int_equal(run.delivery.reduction, 1);
  assert_int_equal(run.rows, run.delivery.region.height);
  assert_int_equal(run.taken, run.delivery.scratch_bytes);
  check_pixels(form, &run, channels);
  free(run.pixels);
}

static void check_form(const png_form *form) {
  byte_buffer png = make_png(form);
  for (int channels = 1; channels <= 4; channels += 3) {
    check_region(form, &png, (ull__rect){0, 0, form->width, form->height}, channels);
    check_region(form, &png, (ull__rect){3, 5, 9, 7}, channels);
    check_region(form, &png, (ull__rect){form->width - 1, form->height - 1, 1, 1}, channels);
  }
  free_buffer(&png);
}

static const struct {
  int colour, depths[6];
} kinds[] = {{PNG_GREY, {1, 2, 4, 8, 16}},
             {PNG_RGB, {8, 16}},
             {PNG_PALETTE, {1, 2, 4, 8}},
             {PNG_GREY_ALPHA, {8, 16}},
             {PNG_RGB_ALPHA, {8, 16}}};

static void every_kind(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    for (const int *depth = kinds[k].depths; *depth != 0; depth++)
      for (int interlaced = 0; interlaced < 2; interlaced++)
        check_form(&(png_form){.width = 37,
                               .height = 29,
                               .colour = kinds[k].colour,
                               .depth = *depth,
                               .interlaced = interlaced == 1,
                               .piece = 50});
}

static void every_small_size(void **state) {
  (void)state;
  for (int width = 1; width <= 9; width++)
    for (int height = 1; height <= 9; height++)
      for (int interlaced = 0; interlaced < 2; interlaced++) {
        png_form form = {.width = width,
                         .height = height,
                         .colour = PNG_PALETTE,
                         .depth = 2,
                         .interlaced = interlaced == 1};
        byte_buffer png = make_png(&form);
        check_region(&form, &png, (ull__rect){0, 0, width, height}, 4);
        free_buffer(&png);
      }
}

/* ---- class numbers ---- */

static void class_numbers_are_what_is_stored(void **state) {
  (void)state;
  ull__image_request request = {.channels = 1, .class_numbers = true};
  const int colours[] = {PNG_GREY, PNG_PALETTE};
  for (int k = 0; k < 2; k++)
    for (int depth = 1; depth <= 8; depth *= 2) {
      png_form form = {.width = 20, .height = 13, .colour = colours[k], .depth = depth};
      byte_buffer png = make_png(&form);
      image_run run = run_png(&png, &request);
      assert_int_equal(run.status, ULL_OK);
      for (int i = 0; i < 20 * 13; i++)
        assert_int_equal(run.pixels[i], png_sample(&form, i % 20, i / 20, 0));
      free(run.pixels);
      free_buffer(&png);
    }
}

static void colours_are_no_class_numbers(void **state) {
  (void)state;
  ull__image_request request = {.channels = 1, .class_numbers = true};
  const png_form forms[] = {{.width = 20, .height = 13, .colour = PNG_RGB, .depth = 8},
                            {.width = 20, .height = 13, .colour = PNG_GREY, .depth = 16}};
  for (int i = 0; i < 2; i++) {
    byte_buffer png = make_png(&forms[i]);
    image_run run = run_png(&png, &request);
    assert_int_equal(run.status, ULL_ERROR_DATA);
    assert_int_equal(run.info.verdict, ULL_VERDICT_UNSUPPORTED);
    free(run.pixels);
    free_buffer(&png);
  }
}

/* ---- what is wrong with a file ---- */

static const png_form plain = {
    .width = 64, .height = 48, .colour = PNG_RGB, .depth = 8, .piece = 1000};

static ull_verdict verdict_of(const byte_buffer *png, ull__rect region) {
  image_run run = run_png(png, &(ull__image_request){.region = region, .channels = 4});
  free(run.pixels);
  return run.info.verdict;
}

static void checksums_are_checked(void **state) {
  (void)state;
  byte_buffer png = {0};
  append_png_begin(&png, &plain);
  size_t side = png.count;
  append_png_chunk(&png, "tEXt", "Title\0Nothing", 13);
  size_t pixels = png.count;
  append_png_pixels(&png, &plain);
  append_png_end(&png);
  ull__rect all = {0, 0, 0, 0};
  assert_int_equal(verdict_of(&png, all), ULL_VERDICT_OK);
  png.bytes[side + 10] ^= 1;
  assert_int_equal(verdict_of(&png, all), ULL_VERDICT_WARNED);
  png.bytes[side + 10] ^= 1;
  png.bytes[pixels + 8 + 1000] ^= 1; /* the checksum itself: pixels are as they were */
  image_run run = run_png(&png, &(ull__image_request){.channels = 4});
  assert_int_equal(run.status, ULL_OK);
  assert_int_equal(run.info.verdict, ULL_VERDICT_DAMAGED);
  check_pixels(&plain, &run, 4);
  free(run.pixels);
  free_buffer(&png);
}

static void cuts_are_seen(void **state) {
  (void)state;
  byte_buffer png = make_png(&plain);
  size_t whole = png.count;
  ull__rect all = {0, 0, 0, 0}, top = {0, 0, 64, 4};
  for (size_t cut = 1; cut < whole - 8; cut++) {
    png.count = whole - cut;
    bool pixels_whole = cut <= 12 + 4, pixels_cut = cut > 12 + 4 + 24;
    ull_verdict verdict = verdict_of(&png, all);
    if (pixels_whole) assert_int_equal(verdict, ULL_VERDICT_WARNED);
    if (pixels_cut) assert_int_equal(verdict, ULL_VERDICT_TRUNCATED);
    assert_true(verdict == ULL_VERDICT_WARNED || verdict == ULL_VERDICT_TRUNCATED);
    assert_int_equal(verdict_of(&png, top), verdict); /* rows below decide about both */
  }
  png.count = whole;
  assert_int_equal(verdict_of(&png, top), ULL_VERDICT_OK);
  append_bytes(&png, "junk behind the end", 19);
  assert_int_equal(verdict_of(&png, all), ULL_VERDICT_OK);
  assert_int_equal(verdict_of(&png, top), ULL_VERDICT_OK);
  free_buffer(&png);
}

static void a_chunk_between_the_pixels_ends_them(void **state) {
  (void)state;
  byte_buffer whole = make_png(&plain), png = {0};
  size_t first = 8 + 25 + 12 + 1000; /* signature, header, one piece */
  append_bytes(&png, whole.bytes, first);
  append_png_chunk(&png, "tEXt", "a\0b", 3);
  append_bytes(&png, whole.bytes + first, whole.count - first);
  assert_int_equal(verdict_of(&png, (ull__rect){0, 0, 0, 0}), ULL_VERDICT_DAMAGED);
  free_buffer(&whole);
  free_buffer(&png);
}

/* 64 MiB of zeros in a compressed text: nothing of it may be kept or inflated. */
static void texts_are_not_inflated(void **state) {
  (void)state;
  uLongf length = compressBound(64 << 20);
  uint8_t *zeros = calloc(1, 64 << 20), *text = malloc(length + 8);
  memcpy(text, "Title\0\0", 7);
  compress(text + 7, &length, zeros, 64 << 20);
  byte_buffer png = {0};
  append_png_begin(&png, &plain);
  append_png_chunk(&png, "zTXt", text, length + 7);
  append_png_pixels(&png, &plain);
  append_png_end(&png);
  free(zeros);
  free(text);
  uint64_t calls = ull__alloc_count().calls;
  check_region(&plain, &png, (ull__rect){0, 0, 64, 48}, 4);
  assert_int_equal(ull__alloc_count().calls, calls);
  free_buffer(&png);
}

static void what_is_too_large_is_refused_beforehand(void **state) {
  (void)state;
  byte_buffer png = {0};
  png_form form = {.width = 60000, .height = 50000, .colour = PNG_RGB_ALPHA, .depth = 16};
  append_png_begin(&png, &form);
  append_png_chunk(&png, "IDAT", "x", 1);
  assert_int_equal(verdict_of(&png, (ull__rect){0, 0, 0, 0}), ULL_VERDICT_TOO_BIG);
  assert_non_null(strstr(ull_error_last()->message, "60000 x 50000"));
  free_buffer(&png);
  form =
      (png_form){.width = 4000, .height = 4000, .colour = PNG_RGB, .depth = 8, .interlaced = true};
  append_png_begin(&png, &form);
  append_png_chunk(&png, "IDAT", "x", 1);
  image_run run = run_png(&png, &(ull__image_request){.channels = 4});
  assert_int_equal(run.info.verdict, ULL_VERDICT_TOO_BIG);
  assert_int_equal(run.taken, 0);
  assert_true(ull_error_last()->wanted_bytes > 4000 * 4000 * 3);
  free_buffer(&png);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind),
      cmocka_unit_test(every_small_size),
      cmocka_unit_test(class_numbers_are_what_is_stored),
      cmocka_unit_test(colours_are_no_class_numbers),
      cmocka_unit_test(checksums_are_checked),
      cmocka_unit_test(cuts_are_seen),
      cmocka_unit_test(a_chunk_between_the_pixels_ends_them),
      cmocka_unit_test(texts_are_not_inflated),
      cmocka_unit_test(what_is_too_large_is_refused_beforehand),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
