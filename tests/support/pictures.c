#include "support/pictures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint8_t pixel(uint32_t x, uint32_t y, uint32_t c) {
  uint32_t noise = x * 374761393u + y * 668265263u + c * 2246822519u;
  noise = (noise ^ (noise >> 13)) * 1274126177u;
  noise = (noise ^ (noise >> 16)) & 63;
  uint32_t wave = (x * 7 + y * 4 + c * 90) % 382;
  return (uint8_t)((wave < 382 - wave ? wave : 382 - wave) + noise);
}

uint8_t *make_picture(int width, int height) {
  uint8_t *picture = malloc((size_t)width * (size_t)height * 4), *at = picture;
  assert_non_null(picture);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      for (int c = 0; c < 4; c++) *at++ = pixel((uint32_t)x, (uint32_t)y, (uint32_t)c);
    }
  }
  return picture;
}

uint8_t *take_channel(const uint8_t *picture, int width, int height, int channel) {
  size_t pixels = (size_t)width * (size_t)height;
  uint8_t *out = malloc(pixels);
  assert_non_null(out);
  for (size_t i = 0; i < pixels; i++) out[i] = picture[4 * i + (size_t)channel];
  return out;
}

/* Written out case by case, as the EXIF standard draws them. */
static void upright_place(int orientation, int x, int y, int width, int height, int *to_x,
                          int *to_y) {
  const int places[9][2] = {{x, y},
                            {x, y},
                            {width - 1 - x, y},
                            {width - 1 - x, height - 1 - y},
                            {x, height - 1 - y},
                            {y, x},
                            {height - 1 - y, x},
                            {height - 1 - y, width - 1 - x},
                            {y, width - 1 - x}};
  *to_x = places[orientation][0];
  *to_y = places[orientation][1];
}

uint8_t *turn_upright(const uint8_t *stored, int width, int height, int channels, int orientation) {
  int row = orientation >= 5 ? height : width;
  uint8_t *out = malloc((size_t)width * (size_t)height * (size_t)channels);
  assert_non_null(out);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++, stored += channels) {
      int to_x, to_y;
      upright_place(orientation, x, y, width, height, &to_x, &to_y);
      memcpy(out + (to_y * row + to_x) * channels, stored, (size_t)channels);
    }
  }
  return out;
}

ull__frame window_frame(int width, int height, ull__rect window, int out_width, int out_height) {
  return (ull__frame){.width = width,
                      .height = height,
                      .out_width = out_width,
                      .out_height = out_height,
                      .window = window,
                      .resized_width = out_width,
                      .resized_height = out_height};
}

ull__pixel_store plain_store(void *base, ull_dtype dtype, int channels, int width, int height,
                             bool last) {
  return (ull__pixel_store){.base = base,
                            .dtype = dtype,
                            .channels = channels,
                            .x_stride = last ? channels : 1,
                            .y_stride = last ? width * channels : width,
                            .c_stride = last ? 1 : (int64_t)width * height,
                            .scale = {1, 1, 1}};
}

void apply_spec(ull__resample_spec *spec, const uint8_t *stored, int width, int channels) {
  uint64_t bytes;
  ull__resampler *resampler;
  spec->pixels = ull__resample_region(spec);
  const ull__rect *r = &spec->pixels;
  assert_int_equal(ull__resample_bytes(spec, &bytes), ULL_OK);
  uint8_t *memory = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
  /* A row of its own on the heap, so that a sanitizer sees every byte too many. */
  uint8_t *row = malloc((size_t)r->width * (size_t)channels);
  ull__scratch scratch = ull__scratch_over(memory, bytes);
  assert_int_equal(ull__resample_begin(spec, &scratch, &resampler), ULL_OK);
  for (int y = r->y; y < r->y + r->height; y++) {
    memcpy(row, stored + ((int64_t)y * width + r->x) * channels,
           (size_t)r->width * (size_t)channels);
    assert_int_equal(ull__resample_row(resampler, y, row), ULL_OK);
  }
  assert_true(scratch.peak <= bytes);
  free(row);
  free(memory);
}

void apply_frame(const ull__frame *frame, int orientation, const uint8_t *stored, int width,
                 int height, int channels, ull__filter filter, const ull__pixel_store *store,
                 int out_width, int out_height) {
  ull__image_info info = {.width = width, .height = height};
  ull__framing framing = {.orientation = orientation,
                          .filter = filter,
                          .channels = channels,
                          .out_width = out_width,
                          .out_height = out_height,
                          .upright = *store};
  ull__resample_spec spec;
  assert_int_equal(ull__frame_spec(frame, &framing, &info, &spec), ULL_OK);
  apply_spec(&spec, stored, width, channels);
}
