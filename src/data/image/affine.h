/* Turning, shearing and shifting a finished image or mask, by the nearest pixel. */
#ifndef ULL_DATA_IMAGE_AFFINE_H
#define ULL_DATA_IMAGE_AFFINE_H

#include <stdint.h>

/* Where an output point comes from: x' = a x + b y + c, y' = d x + e y + f, in edges, not centres.
 */
typedef struct ull__affine {
  double a, b, c, d, e, f;
} ull__affine;

/* Counterclockwise around the middle. */
ull__affine ull__affine_rotation(double degrees, int width, int height);
/* Row y, or column x, moves by `slope` times its distance from the first. */
ull__affine ull__affine_shear_x(double slope);
ull__affine ull__affine_shear_y(double slope);
/* The image moves right and down. */
ull__affine ull__affine_shift(int right, int down);

/* `from` and `to` are different images of the same size, `channels` interleaved bytes a pixel. What
 * comes from outside is `fill`. Coordinates are 16-bit fractions, as Pillow's are. */
void ull__affine_apply(const ull__affine *affine, const uint8_t *from, uint8_t *to, int width,
                       int height, int channels, uint8_t fill);

#endif
