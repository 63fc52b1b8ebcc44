/* One addition a pixel and axis in fixed point: exact, and the same on every machine. */
#include "data/image/affine.h"

#include <math.h>
#include <string.h>

ull__affine ull__affine_rotation(double degrees, int width, int height) {
  const double pi = 3.14159265358979323846;
  double angle = -degrees / 180 * pi, cosine = cos(angle), sine = sin(angle);
  double x = width / 2.0, y = height / 2.0;
  return (ull__affine){.a = cosine,
                       .b = sine,
                       .c = x - cosine * x - sine * y,
                       .d = -sine,
                       .e = cosine,
                       .f = y + sine * x - cosine * y};
}

ull__affine ull__affine_shear_x(double slope) {
  return (ull__affine){.a = 1, .b = slope, .e = 1};
}

ull__affine ull__affine_shear_y(double slope) {
  return (ull__affine){.a = 1, .d = slope, .e = 1};
}

ull__affine ull__affine_shift(int right, int down) {
  return (ull__affine){.a = 1, .c = -right, .e = 1, .f = -down};
}

static int64_t fixed(double x) {
  return (int64_t)floor(x * 65536.0 + 0.5);
}

void ull__affine_apply(const ull__affine *m, const uint8_t *from, uint8_t *to, int width,
                       int height, int channels, uint8_t fill) {
  int64_t row_x = fixed(m->c + m->a * 0.5 + m->b * 0.5);
  int64_t row_y = fixed(m->f + m->d * 0.5 + m->e * 0.5);
  int64_t a = fixed(m->a), b = fixed(m->b), d = fixed(m->d), e = fixed(m->e);
  size_t bytes = (size_t)channels;
  for (int y = 0; y < height; y++, row_x += b, row_y += e) {
    int64_t at_x = row_x, at_y = row_y;
    for (int x = 0; x < width; x++, at_x += a, at_y += d, to += channels) {
      int64_t px = at_x >> 16, py = at_y >> 16;
      if (px >= 0 && px < width && py >= 0 && py < height) {
        memcpy(to, from + (py * width + px) * channels, bytes);
      } else {
        memset(to, fill, bytes);
      }
    }
  }
}
