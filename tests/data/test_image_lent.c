/* Scratch is lent to a decode for the call: it may be gone when the picture is closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>
#include <webp/encode.h>

#include "data/image/image.h"
#include "support/jpeg_files.h"
#include "support/png_files.h"

enum { WIDTH = 150, HEIGHT = 90, MAPPED = 4 << 20 };

static ull_status count_row(void *context, int y, const uint8_t *pixels) {
  (void)y, (void)pixels;
  ++*(int *)context;
  return ULL_OK;
}

/* Decodes the part of the picture above `height` in memory that is gone before it is closed. */
static void decode_lent(ull__image_reader *reader, ull__scratch *fixed, const ull__record *record,
                        int height) {
  int rows = 0;
  ull__image_info info;
  ull__image_delivery delivery;
  ull__image_sink sink = {count_row, &rows};
  void *memory = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  ull__scratch lent = ull__scratch_over(memory, MAPPED);
  assert_int_equal(ull__image_open(reader, record, fixed, &info), ULL_OK);
  ull__image_request request = {
      .region = {0, 0, info.width, height}, .max_reduction = 1, .channels = 4};
  assert_int_equal(ull__image_prepare(reader, &request, &info, &delivery), ULL_OK);
  assert_int_equal(ull__image_decode(reader, &request, &delivery, &lent, &sink, &info), ULL_OK);
  assert_int_equal(rows, height);
  assert_int_equal(munmap(memory, MAPPED), 0);
  ull__image_close(reader);
}

static void check(const uint8_t *bytes, size_t count) {
  ull__image_limits limits = {.memory_bytes = MAPPED / 2};
  ull__image_reader *reader;
  ull__record *record = calloc(1, sizeof *record);
  void *memory = aligned_alloc(ULL__SCRATCH_ALIGNMENT, ull__image_fixed_bytes());
  ull__scratch fixed = ull__scratch_over(memory, ull__image_fixed_bytes());
  strcpy(record->path, "lent");
  record->memory = bytes;
  record->descriptor = -1;
  record->bytes = count;
  assert_int_equal(ull__image_reader_create(&limits, &reader), ULL_OK);
  decode_lent(reader, &fixed, record, HEIGHT);
  decode_lent(reader, &fixed, record, HEIGHT / 2);
  ull__image_reader_destroy(reader);
  free(memory);
  free(record);
}

static void jpeg_outlives_scratch(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    size_t count;
    jpeg_form form = {.width = WIDTH, .height = HEIGHT, .colours = JPEG_YCC, .h = 2, .v = 2};
    form.progressive = i & 1;
    form.arithmetic = i & 2;
    uint8_t *bytes = make_jpeg(&form, &count);
    check(bytes, count);
    free(bytes);
  }
}

static void png_outlives_scratch(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    png_form form = {.width = WIDTH, .height = HEIGHT, .colour = PNG_RGB, .depth = 8};
    form.interlaced = i & 1;
    byte_buffer buffer = make_png(&form);
    check(buffer.bytes, buffer.count);
    free_buffer(&buffer);
  }
}

static void webp_outlives_scratch(void **state) {
  (void)state;
  static uint8_t pixels[HEIGHT][WIDTH][3];
  for (int i = 0; i < 2; i++) {
    uint8_t *coded;
    for (size_t p = 0; p < sizeof pixels; p++) (&pixels[0][0][0])[p] = (uint8_t)(p * p >> 9);
    size_t count = i ? WebPEncodeRGB(&pixels[0][0][0], WIDTH, HEIGHT, WIDTH * 3, 80, &coded)
                     : WebPEncodeLosslessRGB(&pixels[0][0][0], WIDTH, HEIGHT, WIDTH * 3, &coded);
    assert_true(count > 0);
    check(coded, count);
    WebPFree(coded);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jpeg_outlives_scratch),
      cmocka_unit_test(png_outlives_scratch),
      cmocka_unit_test(webp_outlives_scratch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
