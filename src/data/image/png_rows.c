/* Samples of any depth to bytes. Rules: 1, 2 and 4 bits of grey are stretched to 255; 16 bits are
 * rounded to 8; alpha is left out; class numbers are what is stored. */
#include "data/image/png.h"

/* value * 255 / 65535 to the nearest. */
static uint8_t narrow(unsigned value) {
  return (uint8_t)((value * 255 + 32895) >> 16);
}

static unsigned sample16(const uint8_t *row, size_t index) {
  return ((const uint16_t *)(const void *)row)[index]; /* libspng's rows are aligned, host order */
}

/* Sample `x` of a row of 1, 2, 4 or 8 bits. */
static unsigned packed(const uint8_t *row, int x, int depth) {
  size_t bit = (size_t)x * (size_t)depth;
  return row[bit >> 3] >> (8 - (unsigned)depth - (bit & 7)) & ((1u << depth) - 1);
}

static int channels_of(int colour) {
  switch (colour) {
  case SPNG_COLOR_TYPE_TRUECOLOR:
    return 3;
  case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
    return 4;
  case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
    return 2;
  default:
    return 1;
  }
}

static void put(uint8_t *to, uint8_t red, uint8_t green, uint8_t blue) {
  to[0] = red;
  to[1] = green;
  to[2] = blue;
  to[3] = 255;
}

/* ---- one sample a pixel: grey or an index ---- */

static void convert_packed(const ull__png_layout *l, const uint8_t *row, int first, int count,
                           uint8_t *to) {
  bool indexed = l->colour == SPNG_COLOR_TYPE_INDEXED;
  unsigned stretch = 255 / ((1u << l->depth) - 1);
  for (int x = 0; x < count; x++) {
    unsigned value = packed(row, first + x, l->depth);
    const struct spng_plte_entry *entry = &l->palette[value];
    uint8_t grey = (uint8_t)(value * stretch);
    if (l->class_numbers)
      to[x] = (uint8_t)value;
    else if (l->grey)
      to[x] = indexed ? l->palette_grey[value] : grey;
    else if (indexed)
      put(to + (size_t)x * 4, entry->red, entry->green, entry->blue);
    else
      put(to + (size_t)x * 4, grey, grey, grey);
  }
}

/* ---- several samples a pixel, or wide ones ---- */

static uint8_t sample8(const ull__png_layout *l, const uint8_t *row, size_t index) {
  return l->depth == 16 ? narrow(sample16(row, index)) : row[index];
}

static void convert_grey(const ull__png_layout *l, const uint8_t *row, int first, int count,
                         uint8_t *to) {
  size_t channels = (size_t)channels_of(l->colour);
  for (int x = 0; x < count; x++) {
    uint8_t grey = sample8(l, row, (size_t)(first + x) * channels);
    if (l->grey)
      to[x] = grey;
    else
      put(to + (size_t)x * 4, grey, grey, grey);
  }
}

static void convert_colour(const ull__png_layout *l, const uint8_t *row, int first, int count,
                           uint8_t *to) {
  size_t channels = (size_t)channels_of(l->colour);
  for (int x = 0; x < count; x++) {
    size_t at = (size_t)(first + x) * channels;
    uint8_t red = sample8(l, row, at), green = sample8(l, row, at + 1),
            blue = sample8(l, row, at + 2);
    if (l->grey)
      to[x] = (uint8_t)ull__image_luma(red, green, blue);
    else
      put(to + (size_t)x * 4, red, green, blue);
  }
}

static void copy_rgb(const uint8_t *row, size_t channels, int count, uint8_t *to) {
  for (int x = 0; x < count; x++, row += channels, to += 4) put(to, row[0], row[1], row[2]);
}

/* ---- class numbers ---- */

static unsigned stored(const ull__png_layout *l, const uint8_t *row, size_t index) {
  return l->depth == 16 ? sample16(row, index) : row[index];
}

static void convert_classes(ull__png_layout *l, const uint8_t *row, int first, int count,
                            uint8_t *to) {
  size_t channels = (size_t)channels_of(l->colour);
  for (int x = 0; x < count; x++) {
    size_t at = (size_t)(first + x) * channels;
    unsigned value = stored(l, row, at);
    if (channels >= 3 && (stored(l, row, at + 1) != value || stored(l, row, at + 2) != value))
      l->problem = "a coloured picture as a mask";
    if (value > 255) l->problem = "class numbers above 255";
    to[x] = (uint8_t)value;
  }
}

void ull__png_convert(ull__png_layout *l, const uint8_t *row, int first, int count, uint8_t *to) {
  bool colour = channels_of(l->colour) >= 3;
  if (channels_of(l->colour) == 1 && l->depth <= 8)
    convert_packed(l, row, first, count, to);
  else if (l->class_numbers)
    convert_classes(l, row, first, count, to);
  else if (colour && l->depth == 8 && !l->grey)
    copy_rgb(row + (size_t)first * (size_t)channels_of(l->colour), (size_t)channels_of(l->colour),
             count, to);
  else if (colour)
    convert_colour(l, row, first, count, to);
  else
    convert_grey(l, row, first, count, to);
}
