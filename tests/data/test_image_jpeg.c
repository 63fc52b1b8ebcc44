/* JPEG pixels are libjpeg's to the bit, whatever part of a picture is asked for: every sampling,
 * every phase of the crop within a coded unit, every reduction, every way of coding. Scratch is
 * what was foreseen, to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "support/data_files.h"
#include "support/image_runs.h"
#include "support/jpeg_files.h"

enum { MEMORY = 8 << 20, PHASES = 17 };

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

/* A file and what libjpeg makes of it at each reduction. */
typedef struct subject {
  uint8_t *bytes;
  size_t count;
  int channels; /* asked of the decoder */
  uint8_t *pixels[9];
  int width[9], height[9];
} subject;

static subject make_subject(const jpeg_form *form, int channels) {
  subject s = {.channels = channels};
  s.bytes = make_jpeg(form, &s.count);
  for (int reduction = 1; reduction <= 8; reduction *= 2)
    s.pixels[reduction] = plain_decode(s.bytes, s.count, channels == 1 ? 1 : 3, reduction,
                                       &s.width[reduction], &s.height[reduction]);
  return s;
}

static void free_subject(subject *s) {
  for (int reduction = 1; reduction <= 8; reduction *= 2) free(s->pixels[reduction]);
  free(s->bytes);
}

static bool row_is_equal(const subject *s, int reduction, const ull__rect *region, int y,
                         const uint8_t *row) {
  int plain = s->channels == 1 ? 1 : 3;
  const uint8_t *expected =
      s->pixels[reduction] +
      ((size_t)(region->y + y) * (size_t)s->width[reduction] + (size_t)region->x) * (size_t)plain;
  for (int x = 0; x < region->width; x++)
    if (memcmp(row + (size_t)(x * s->channels), expected + (size_t)(x * plain), (size_t)plain) != 0)
      return false;
  return true;
}

static void check_crop(const subject *s, const ull__rect *region, int reduction) {
  ull__image_request request = {
      .region = *region, .max_reduction = reduction, .channels = s->channels};
  image_run run = run_image(&bench, s->bytes, s->count, -1, &request);
  if (run.status != ULL_OK) fail_msg("%s", ull_error_last()->message);
  assert_int_equal(run.info.verdict, ULL_VERDICT_OK);
  const ull__rect *r = &run.delivery.region;
  assert_int_equal(run.delivery.reduction, reduction);
  assert_int_equal(r->x, region->x / reduction);
  assert_true((r->x + r->width) * reduction >= region->x + region->width);
  assert_int_equal(run.rows, r->height);
  assert_int_equal(run.taken, run.delivery.scratch_bytes);
  for (int y = 0; y < r->height; y++)
    if (!row_is_equal(s, reduction, r, y,
                      run.pixels + (size_t)y * (size_t)r->width * (size_t)s->channels))
      fail_msg("row %d of %d,%d,%d,%d at 1/%d differs", y, region->x, region->y, region->width,
               region->height, reduction);
  free(run.pixels);
}

static void check_whole(const subject *s) {
  for (int reduction = 1; reduction <= 8; reduction *= 2)
    check_crop(s, &(ull__rect){0, 0, s->width[1], s->height[1]}, reduction);
}

/* Corners at every phase of x, and with it another phase of y, so that all pairs come up over the
 * forms; narrow and wide, ending inside and at the picture's edge. */
static void check_phases(const subject *s) {
  int width = s->width[1], height = s->height[1];
  for (int x = 0; x < PHASES; x++) {
    int y = (x * 5 + 3) % PHASES;
    for (int reduction = 1; reduction <= 8; reduction *= 2) {
      check_crop(s, &(ull__rect){x, y, 1 + (x * 3) % 7, 1 + y % 5}, reduction);
      check_crop(s, &(ull__rect){x, y, width - x - y - 1, height - y - x - 1}, reduction);
      check_crop(s, &(ull__rect){x, y, width - x, height - y}, reduction);
      check_crop(s, &(ull__rect){0, y, x + 1, height - y}, reduction);
      check_crop(s, &(ull__rect){width - x - 1, height - y - 1, x + 1, 1 + y / 2}, reduction);
    }
  }
}

static void check_form(const jpeg_form *form) {
  for (int channels = 1; channels <= (form->colours == JPEG_GREY ? 1 : 4); channels += 3) {
    subject s = make_subject(form, channels);
    check_whole(&s);
    check_phases(&s);
    free_subject(&s);
  }
}

static const int samplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}, {3, 1}};

static void every_sampling(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof samplings / sizeof samplings[0]; i++)
    check_form(&(jpeg_form){.width = 83,
                            .height = 75,
                            .colours = JPEG_YCC,
                            .h = samplings[i][0],
                            .v = samplings[i][1]});
}

static void every_way_of_coding(void **state) {
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    jpeg_form form = {
        .width = 71, .height = 67, .colours = JPEG_YCC, .h = samplings[i][0], .v = samplings[i][1]};
    form.progressive = true;
    check_form(&form);
    form.arithmetic = true;
    check_form(&form);
    form.progressive = false;
    check_form(&form);
    form.arithmetic = false;
    form.restart_rows = 1;
    check_form(&form);
  }
}

static void grey_and_rgb(void **state) {
  (void)state;
  check_form(&(jpeg_form){.width = 83, .height = 75, .colours = JPEG_GREY, .h = 1, .v = 1});
  check_form(&(jpeg_form){.width = 83, .height = 75, .colours = JPEG_GREY, .h = 2, .v = 2});
  check_form(&(jpeg_form){.width = 83, .height = 75, .colours = JPEG_RGB, .h = 1, .v = 1});
}

/* All pairs of phases for the sampling that photos have most. */
static void every_pair_of_phases(void **state) {
  (void)state;
  subject s =
      make_subject(&(jpeg_form){.width = 59, .height = 53, .colours = JPEG_YCC, .h = 2, .v = 2}, 4);
  for (int y = 0; y < PHASES; y++)
    for (int x = 0; x < PHASES; x++) {
      check_crop(&s, &(ull__rect){x, y, 19, 5}, 1);
      check_crop(&s, &(ull__rect){x, y, 59 - x, 34}, 1);
    }
  free_subject(&s);
}

/* Sizes around the coded units, where edges have rules of their own. */
static void every_small_size(void **state) {
  (void)state;
  for (int size = 1; size <= 20; size++)
    for (int i = 0; i < 4; i++) {
      subject s = make_subject(&(jpeg_form){.width = size,
                                            .height = 21 - size,
                                            .colours = JPEG_YCC,
                                            .h = samplings[i][0],
                                            .v = samplings[i][1]},
                               4);
      check_whole(&s);
      check_crop(&s, &(ull__rect){size / 2, (21 - size) / 2, size - size / 2, 1}, 1);
      free_subject(&s);
    }
}

static uint8_t product(unsigned c, unsigned k) {
  return (uint8_t)((double)c * (double)k / 255.0 + 0.5);
}

/* Adobe stores the inks inverted; libjpeg's compressor writes its marker and leaves inverting to
 * the caller. */
static void cmyk_is_converted(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    jpeg_form form = {.width = 61,
                      .height = 47,
                      .colours = kind ? JPEG_YCCK : JPEG_CMYK,
                      .h = 1 + kind,
                      .v = 1 + kind};
    size_t count;
    int width, height;
    uint8_t *bytes = make_jpeg(&form, &count);
    uint8_t *inks = plain_decode(bytes, count, 4, 1, &width, &height);
    image_run run = run_image(&bench, bytes, count, -1,
                              &(ull__image_request){.region = {5, 7, 50, 30}, .channels = 4});
    assert_int_equal(run.status, ULL_OK);
    assert_int_equal(run.info.verdict, ULL_VERDICT_REPAIRED);
    assert_int_equal(run.taken, run.delivery.scratch_bytes);
    for (int y = 0; y < 30; y++)
      for (int x = 0; x < 50; x++) {
        const uint8_t *ink = inks + ((y + 7) * width + x + 5) * 4;
        for (int c = 0; c < 3; c++)
          assert_int_equal(run.pixels[(y * 50 + x) * 4 + c], product(ink[c], ink[3]));
      }
    free(run.pixels);
    free(inks);
    free(bytes);
  }
}

/* One picture's tables must not decode the next one. */
static void tables_are_forgotten(void **state) {
  (void)state;
  size_t count;
  uint8_t *bytes = make_jpeg(
      &(jpeg_form){.width = 16, .height = 16, .colours = JPEG_YCC, .h = 1, .v = 1}, &count);
  ull__image_request request = {.channels = 4};
  image_run sound = run_image(&bench, bytes, count, -1, &request);
  assert_int_equal(sound.info.verdict, ULL_VERDICT_OK);
  free(sound.pixels);
  for (size_t at = 2; bytes[at + 1] != 0xda;) {
    if (bytes[at + 1] == 0xdb) bytes[at + 1] = 0xfe; /* quantisation tables become a comment */
    at += 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
  }
  image_run bare = run_image(&bench, bytes, count, -1, &request);
  assert_int_equal(bare.status, ULL_ERROR_DATA);
  assert_int_equal(bare.info.verdict, ULL_VERDICT_DAMAGED);
  free(bare.pixels);
  free(bytes);
}

/* The end is looked for where decoding does not come. */
static void a_cut_below_the_crop_is_seen(void **state) {
  (void)state;
  size_t count;
  uint8_t *bytes = make_jpeg(
      &(jpeg_form){.width = 320, .height = 320, .colours = JPEG_YCC, .h = 2, .v = 2}, &count);
  ull__image_request top = {.region = {10, 10, 100, 50}, .channels = 4};
  image_run whole = run_image(&bench, bytes, count, -1, &top);
  assert_int_equal(whole.info.verdict, ULL_VERDICT_OK);
  image_run cut = run_image(&bench, bytes, count - 100, -1, &top);
  assert_int_equal(cut.status, ULL_OK);
  assert_int_equal(cut.info.verdict, ULL_VERDICT_TRUNCATED);
  assert_memory_equal(cut.pixels, whole.pixels, 100 * 50 * 4);
  free(whole.pixels);
  free(cut.pixels);
  free(bytes);
}

static void what_needs_too_much_is_refused_beforehand(void **state) {
  (void)state;
  size_t count;
  uint8_t *bytes = make_jpeg(
      &(jpeg_form){
          .width = 2500, .height = 2000, .colours = JPEG_YCC, .h = 1, .v = 1, .progressive = true},
      &count);
  uint64_t calls = ull__alloc_count().calls;
  image_run run = run_image(&bench, bytes, count, -1, &(ull__image_request){.channels = 4});
  assert_int_equal(run.status, ULL_ERROR_DATA);
  assert_int_equal(run.info.verdict, ULL_VERDICT_TOO_BIG);
  assert_int_equal(run.taken, 0);
  assert_int_equal(ull__alloc_count().calls, calls);
  assert_true(ull_error_last()->wanted_bytes >= 2500 * 2000 * 3 * 2);
  assert_non_null(strstr(ull_error_last()->message, "needs "));
  free(bytes);
}

/* Longer than two windows of the reader, with comments before the orientation so that it lies
 * across the first window's end. */
static byte_buffer make_long_file(void) {
  size_t count, turned_count;
  uint8_t *plain = make_jpeg(
      &(jpeg_form){.width = 900, .height = 800, .colours = JPEG_YCC, .h = 1, .v = 1}, &count);
  uint8_t *turned = with_orientation(plain, count, 6, true, &turned_count);
  byte_buffer file = {0};
  append_bytes(&file, turned, 2);
  size_t left = (256 << 10) - 20 - 2;
  while (left > 0) {
    size_t length = left < 60000 ? left : 60000;
    uint8_t *comment = calloc(1, length);
    comment[0] = 0xff, comment[1] = 0xfe;
    comment[2] = (uint8_t)((length - 2) >> 8), comment[3] = (uint8_t)(length - 2);
    append_bytes(&file, comment, length);
    free(comment);
    left -= length;
  }
  append_bytes(&file, turned + 2, turned_count - 2);
  free(plain);
  free(turned);
  return file;
}

static void the_reading_window_does_not_show(void **state) {
  (void)state;
  byte_buffer file = make_long_file();
  assert_true(file.count > 600 << 10);
  int descriptor = memfd_create("picture", MFD_CLOEXEC);
  assert_true(pwrite(descriptor, file.bytes, file.count, 0) == (ssize_t)file.count);
  const ull__rect regions[] = {{0, 0, 900, 800}, {100, 130, 500, 300}};
  for (int i = 0; i < 2; i++) {
    ull__image_request request = {.region = regions[i], .channels = 4};
    image_run memory = run_image(&bench, file.bytes, file.count, -1, &request);
    image_run from_file = run_image(&bench, NULL, file.count, descriptor, &request);
    assert_int_equal(memory.info.verdict, ULL_VERDICT_OK);
    assert_int_equal(from_file.info.verdict, ULL_VERDICT_OK);
    assert_int_equal(from_file.info.orientation, 6);
    assert_memory_equal(memory.pixels, from_file.pixels,
                        (size_t)regions[i].width * (size_t)regions[i].height * 4);
    image_run cut = run_image(&bench, NULL, file.count - 5, descriptor, &request);
    assert_int_equal(cut.info.verdict, ULL_VERDICT_TRUNCATED);
    free(memory.pixels);
    free(from_file.pixels);
    free(cut.pixels);
  }
  close(descriptor);
  free_buffer(&file);
}

static void a_reader_holds_no_more_than_it_says(void **state) {
  (void)state;
  enum { READERS = 16 };
  ull__image_reader *readers[READERS];
  ull__image_limits limits = {.memory_bytes = MEMORY};
  size_t before = mallinfo2().uordblks;
  for (int i = 0; i < READERS; i++)
    assert_int_equal(ull__image_reader_create(&limits, &readers[i]), ULL_OK);
  size_t held = mallinfo2().uordblks - before;
  for (int i = 0; i < READERS; i++) ull__image_reader_destroy(readers[i]);
  assert_true(held <= READERS * ull__image_reader_bytes());
}

/* The last row of the region is the sink's last. */
static ull_status fail_at_three(void *context, int y, const uint8_t *pixels) {
  (void)context, (void)pixels;
  return y == 3 ? ULL_ERROR_STOPPED : ULL_OK;
}

static void a_failing_sink_ends_the_decode(void **state) {
  (void)state;
  size_t count;
  uint8_t *bytes = make_jpeg(
      &(jpeg_form){.width = 64, .height = 64, .colours = JPEG_YCC, .h = 2, .v = 2}, &count);
  ull__image_info info;
  ull__image_delivery delivery;
  ull__image_request request = {.region = {0, 0, 64, 64}, .max_reduction = 1, .channels = 4};
  ull__image_sink sink = {fail_at_three, NULL};
  bench.record.memory = bytes;
  bench.record.bytes = count;
  bench.scratch.used = 0;
  assert_int_equal(ull__image_open(bench.reader, &bench.record, &bench.scratch, &info), ULL_OK);
  assert_int_equal(ull__image_prepare(bench.reader, &request, &info, &delivery), ULL_OK);
  assert_int_equal(
      ull__image_decode(bench.reader, &request, &delivery, &bench.scratch, &sink, &info),
      ULL_ERROR_STOPPED);
  ull__image_close(bench.reader);
  free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_sampling),
      cmocka_unit_test(every_way_of_coding),
      cmocka_unit_test(grey_and_rgb),
      cmocka_unit_test(every_pair_of_phases),
      cmocka_unit_test(every_small_size),
      cmocka_unit_test(cmyk_is_converted),
      cmocka_unit_test(tables_are_forgotten),
      cmocka_unit_test(a_cut_below_the_crop_is_seen),
      cmocka_unit_test(what_needs_too_much_is_refused_beforehand),
      cmocka_unit_test(the_reading_window_does_not_show),
      cmocka_unit_test(a_reader_holds_no_more_than_it_says),
      cmocka_unit_test(a_failing_sink_ends_the_decode),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
