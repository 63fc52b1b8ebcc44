/* Colours that libjpeg leaves to its callers. */
#include "data/image/jpeg.h"

/* c * k / 255 to the nearest. */
static unsigned times(unsigned c, unsigned k) {
  return (c * k + 127) / 255;
}

void ull__jpeg_convert_cmyk(uint8_t *row, int width, bool inverted) {
  uint8_t flip = inverted ? 0 : 255;
  for (uint8_t *p = row; p < row + (size_t)width * 4; p += 4) {
    unsigned k = p[3] ^ flip;
    for (int c = 0; c < 3; c++) p[c] = (uint8_t)times(p[c] ^ flip, k);
    p[3] = 255;
  }
}

void ull__jpeg_convert_cmyk_to_grey(const uint8_t *row, uint8_t *to, int width, bool inverted) {
  uint8_t flip = inverted ? 0 : 255;
  for (int x = 0; x < width; x++) {
    const uint8_t *p = row + (size_t)x * 4;
    unsigned k = p[3] ^ flip;
    to[x] = (uint8_t)ull__image_luma(times(p[0] ^ flip, k), times(p[1] ^ flip, k),
                                     times(p[2] ^ flip, k));
  }
}
