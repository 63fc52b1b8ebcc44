/* How the camera was held: eight orientations in three formats, turned upright and left alone,
 * whole and in part; metadata that contradicts, lies or is malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <webp/encode.h>
#include <zlib.h>

#include "data/image/exif.h"
#include "support/jpeg_files.h"
#include "support/png_files.h"
#include "ullage/image.h"

enum { WIDTH = 41, HEIGHT = 27 };

typedef byte_buffer (*make_turned)(int orientation, bool big_endian);

static byte_buffer turned_jpeg(int orientation, bool big_endian) {
  size_t count, plain_count;
  uint8_t *plain =
      make_jpeg(&(jpeg_form){.width = WIDTH, .height = HEIGHT, .colours = JPEG_YCC, .h = 2, .v = 2},
                &plain_count);
  uint8_t *bytes = with_orientation(plain, plain_count, orientation, big_endian, &count);
  byte_buffer buffer = {0};
  append_bytes(&buffer, bytes, count);
  free(plain);
  free(bytes);
  return buffer;
}

static const png_form png = {.width = WIDTH, .height = HEIGHT, .colour = PNG_RGB, .depth = 8};

static byte_buffer turned_png(int orientation, bool big_endian) {
  uint8_t exif[26];
  byte_buffer buffer = {0};
  make_exif(exif, orientation, big_endian);
  append_png_begin(&buffer, &png);
  append_png_chunk(&buffer, "eXIf", exif, sizeof exif);
  append_png_pixels(&buffer, &png);
  append_png_end(&buffer);
  return buffer;
}

static void append_riff(byte_buffer *buffer, const char name[4], const void *content,
                        size_t count) {
  append_bytes(buffer, name, 4);
  append_little(buffer, count, 4);
  append_bytes(buffer, content, count);
  if (count & 1) append_bytes(buffer, "", 1);
}

static byte_buffer turned_webp(int orientation, bool big_endian) {
  uint8_t pixels[HEIGHT][WIDTH][3], exif[26], *coded;
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++)
      for (int c = 0; c < 3; c++) pixels[y][x][c] = (uint8_t)png_sample(&png, x, y, c);
  size_t count = WebPEncodeLosslessRGB(&pixels[0][0][0], WIDTH, HEIGHT, WIDTH * 3, &coded);
  byte_buffer chunks = {0}, buffer = {0};
  uint8_t canvas[10] = {8, 0, 0, 0, WIDTH - 1, 0, 0, HEIGHT - 1, 0, 0};
  make_exif(exif, orientation, big_endian);
  append_bytes(&chunks, "WEBP", 4);
  append_riff(&chunks, "VP8X", canvas, sizeof canvas);
  append_bytes(&chunks, coded + 12, count - 12);
  append_riff(&chunks, "EXIF", exif, sizeof exif);
  append_riff(&buffer, "RIFF", chunks.bytes, chunks.count);
  free_buffer(&chunks);
  WebPFree(coded);
  return buffer;
}

/* EXIF's own words: the row 0 and column 0 of what is stored are this side of the scene. */
static void place(int orientation, int x, int y, int *to_x, int *to_y) {
  switch (orientation) {
  case 2: /* top, right */
    *to_x = WIDTH - 1 - x, *to_y = y;
    break;
  case 3: /* bottom, right */
    *to_x = WIDTH - 1 - x, *to_y = HEIGHT - 1 - y;
    break;
  case 4: /* bottom, left */
    *to_x = x, *to_y = HEIGHT - 1 - y;
    break;
  case 5: /* left, top */
    *to_x = y, *to_y = x;
    break;
  case 6: /* right, top */
    *to_x = HEIGHT - 1 - y, *to_y = x;
    break;
  case 7: /* right, bottom */
    *to_x = HEIGHT - 1 - y, *to_y = WIDTH - 1 - x;
    break;
  case 8: /* left, bottom */
    *to_x = y, *to_y = WIDTH - 1 - x;
    break;
  default: /* top, left */
    *to_x = x, *to_y = y;
  }
}

static ull_image decode(const byte_buffer *file, const ull_image_options *options) {
  ull_image image;
  ull_status status = ull_image_decode_memory(file->bytes, file->count, "a", options, &image);
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
  return image;
}

/* The crop of the upright picture that `options` name, against the stored pixels. */
static void check_turned(const byte_buffer *file, const ull_image *stored, int orientation,
                         const ull_image_options *options) {
  ull_image image = decode(file, options);
  assert_int_equal(image.orientation, orientation);
  assert_int_equal(image.verdict, orientation == 1 ? ULL_VERDICT_OK : ULL_VERDICT_REPAIRED);
  int left = options->crop ? options->x : 0, top = options->crop ? options->y : 0, seen = 0;
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++) {
      int to_x, to_y;
      place(orientation, x, y, &to_x, &to_y);
      to_x -= left, to_y -= top;
      if (to_x < 0 || to_y < 0 || to_x >= image.width || to_y >= image.height) continue;
      const uint8_t *there = image.pixels + ((size_t)to_y * (size_t)image.width + (size_t)to_x) * 3;
      assert_memory_equal(there, stored->pixels + ((size_t)y * WIDTH + (size_t)x) * 3, 3);
      seen++;
    }
  assert_int_equal(seen, image.width * image.height);
  ull_image_free(&image);
}

static void check_format(make_turned make) {
  for (int orientation = 1; orientation <= 8; orientation++)
    for (int big_endian = 0; big_endian < 2; big_endian++) {
      byte_buffer file = make(orientation, big_endian == 1);
      ull_image_options options = ull_image_options_default();
      options.ignore_orientation = true;
      ull_image stored = decode(&file, &options);
      assert_int_equal(stored.verdict, ULL_VERDICT_OK);
      assert_int_equal(stored.width, WIDTH);
      options.ignore_orientation = false;
      check_turned(&file, &stored, orientation, &options);
      options.crop = true;
      options.x = 3, options.y = 5, options.width = 17, options.height = 14;
      check_turned(&file, &stored, orientation, &options);
      ull_image_free(&stored);
      free_buffer(&file);
    }
}

static void jpegs_are_turned(void **state) {
  (void)state;
  check_format(turned_jpeg);
}

static void pngs_are_turned(void **state) {
  (void)state;
  check_format(turned_png);
}

static void webps_are_turned(void **state) {
  (void)state;
  check_format(turned_webp);
}

/* ---- texts ---- */

static const char xmp[] = "<rdf:Description tiff:Orientation=\"6\"/>";

static int orientation_of(const byte_buffer *file) {
  ull_image_options options = ull_image_options_default();
  ull_image image = decode(file, &options);
  int orientation = image.orientation;
  ull_image_free(&image);
  return orientation;
}

static byte_buffer png_with(const char type[4], const void *content, size_t count) {
  byte_buffer buffer = {0};
  append_png_begin(&buffer, &png);
  append_png_chunk(&buffer, type, content, count);
  append_png_pixels(&buffer, &png);
  append_png_end(&buffer);
  return buffer;
}

static void texts_in_png_are_read(void **state) {
  (void)state;
  byte_buffer text = {0};
  append_bytes(&text, "XML:com.adobe.xmp\0\0\0\0", 22);
  append_bytes(&text, xmp, sizeof xmp - 1);
  byte_buffer file = png_with("iTXt", text.bytes, text.count);
  assert_int_equal(orientation_of(&file), 6);
  free_buffer(&file);
  free_buffer(&text);
  static const char digits[] =
      "\nexif\n      32\n4578696600004d4d002a000000080001011200030000000100"
      "0\n30000\n";
  append_bytes(&text, "Raw profile type exif\0", 22);
  append_bytes(&text, digits, sizeof digits - 1);
  file = png_with("tEXt", text.bytes, text.count);
  assert_int_equal(orientation_of(&file), 3);
  free_buffer(&file);
  uint8_t packed[256] = "Raw profile type exif\0";
  uLongf length = sizeof packed - 23;
  compress(packed + 23, &length, (const Bytef *)digits, sizeof digits - 1);
  file = png_with("zTXt", packed, 23 + length);
  assert_int_equal(orientation_of(&file), 3);
  free_buffer(&file);
  free_buffer(&text);
}

static byte_buffer with_xmp(const byte_buffer *jpeg) {
  static const char head[] = "http://ns.adobe.com/xap/1.0/";
  byte_buffer buffer = {0};
  size_t count = 2 + sizeof head + sizeof xmp;
  uint8_t lead[] = {0xff, 0xe1, (uint8_t)(count >> 8), (uint8_t)count};
  append_bytes(&buffer, jpeg->bytes, 2);
  append_bytes(&buffer, lead, sizeof lead);
  append_bytes(&buffer, head, sizeof head);
  append_bytes(&buffer, xmp, sizeof xmp);
  append_bytes(&buffer, jpeg->bytes + 2, jpeg->count - 2);
  return buffer;
}

static void exif_goes_over_xmp(void **state) {
  (void)state;
  byte_buffer exif = turned_jpeg(3, true), silent = turned_jpeg(0, true);
  byte_buffer both = with_xmp(&exif), alone = with_xmp(&silent);
  assert_int_equal(orientation_of(&both), 3);
  assert_int_equal(orientation_of(&alone), 6);
  free_buffer(&exif);
  free_buffer(&silent);
  free_buffer(&both);
  free_buffer(&alone);
}

/* ---- malformed ---- */

static void nonsense_means_upright(void **state) {
  (void)state;
  uint8_t exif[26];
  const int wrong[] = {0, 9, 255, 65535};
  for (int i = 0; i < 4; i++) {
    make_exif(exif, wrong[i], false);
    assert_int_equal(ull__exif_orientation(exif, sizeof exif), 0);
  }
  make_exif(exif, 6, true);
  assert_int_equal(ull__exif_orientation(exif, sizeof exif), 6);
  for (size_t count = 0; count < 22; count++)
    assert_int_equal(ull__exif_orientation(exif, count), 0);
  make_exif(exif, 6, false);
  memset(exif + 4, 0xff, 4); /* the directory is far behind the end */
  assert_int_equal(ull__exif_orientation(exif, sizeof exif), 0);
  assert_int_equal(ull__xmp_orientation((const uint8_t *)"tiff:Orientation=", 17), 0);
  assert_int_equal(ull__xmp_orientation((const uint8_t *)"tiff:Orientation>8", 18), 8);
  assert_int_equal(ull__hex_profile_orientation((const uint8_t *)"\n\n\n", 3), 0);
}

static void malformed_exif_never_fails_the_pixels(void **state) {
  (void)state;
  for (int byte = 0; byte < 26; byte++)
    for (int value = 0; value < 256; value += 17) {
      byte_buffer file = turned_jpeg(1, byte & 1);
      file.bytes[12 + byte] = (uint8_t)value;
      ull_image_options options = ull_image_options_default();
      ull_image image = decode(&file, &options);
      assert_true(image.verdict <= ULL_VERDICT_REPAIRED);
      ull_image_free(&image);
      free_buffer(&file);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jpegs_are_turned),
      cmocka_unit_test(pngs_are_turned),
      cmocka_unit_test(webps_are_turned),
      cmocka_unit_test(texts_in_png_are_read),
      cmocka_unit_test(exif_goes_over_xmp),
      cmocka_unit_test(nonsense_means_upright),
      cmocka_unit_test(malformed_exif_never_fails_the_pixels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
