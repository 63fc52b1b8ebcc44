/* Changes of colour on pixels of 1 (grey) or 3 (red, green, blue) interleaved bytes, in place, with
 * Pillow's arithmetic: results are equal to its bytes.
 *
 * What depends on a byte's value alone goes through a table for each channel. `pixels` counts
 * pixels; they are contiguous. */
#ifndef ULL_DATA_IMAGE_COLOUR_H
#define ULL_DATA_IMAGE_COLOUR_H

#include <stdint.h>

typedef struct ull__tone {
  uint8_t table[3][256];
} ull__tone;

typedef struct ull__histogram {
  uint32_t count[3][256];
} ull__histogram;

/* grey + factor * (colour - grey), cut to a byte: between 0 and 1 a mixture, beyond an
 * exaggeration. */
uint8_t ull__blend(uint8_t grey, uint8_t colour, float factor);

void ull__histogram_of(const uint8_t *image, int64_t pixels, int channels, ull__histogram *out);

/* The mean luma, rounded half up. */
uint8_t ull__mean_luma(const uint8_t *image, int64_t pixels, int channels);

void ull__tone_apply(const ull__tone *tone, uint8_t *image, int64_t pixels, int channels);

/* Away from one grey: 0 for brightness, the mean luma for contrast. */
void ull__tone_blend(ull__tone *tone, uint8_t grey, float factor);
void ull__tone_posterize(ull__tone *tone, int bits);
void ull__tone_solarize(ull__tone *tone, float threshold);

/* Stretches each channel to the whole range; flattens its histogram. */
void ull__tone_autocontrast(ull__tone *tone, const ull__histogram *histogram);
void ull__tone_equalize(ull__tone *tone, const ull__histogram *histogram);

/* Away from each pixel's own luma. Grey stays as it is. */
void ull__saturate(uint8_t *image, int64_t pixels, int channels, float factor);
void ull__grayscale(uint8_t *image, int64_t pixels, int channels);

/* Turns the hue by `turn`, -0.5 to 0.5, by way of bytes of hue, saturation and value. */
void ull__turn_hue(uint8_t *image, int64_t pixels, int channels, double turn);

/* Away from a version smoothed over 3 x 3 pixels; the outermost pixels are not smoothed. `to` is
 * another image of the same size. */
void ull__sharpen(const uint8_t *from, uint8_t *to, int width, int height, int channels,
                  float factor);

#endif
