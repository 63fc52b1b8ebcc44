/* Luma is ITU-R 601 in 16-bit fractions. Hue, saturation and value are the hexcone model, cut to
 * bytes on the way in and rounded on the way out. */
#include "data/image/colour.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static uint8_t luma(const uint8_t *p) {
  return (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
}

static uint8_t cut(float x) {
  return x <= 0 ? 0 : x >= 255 ? 255 : (uint8_t)x;
}

uint8_t ull__blend(uint8_t grey, uint8_t colour, float factor) {
  return cut((float)grey + factor * (float)(colour - grey));
}

/* ---- tables ---- */

void ull__histogram_of(const uint8_t *image, int64_t pixels, int channels, ull__histogram *out) {
  memset(out, 0, sizeof *out);
  for (int64_t i = 0; i < pixels; i++) {
    for (int c = 0; c < channels; c++) out->count[c][image[i * channels + c]]++;
  }
}

uint8_t ull__mean_luma(const uint8_t *image, int64_t pixels, int channels) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < pixels; i++) sum += channels == 1 ? image[i] : luma(image + 3 * i);
  return (uint8_t)((double)sum / (double)pixels + 0.5);
}

void ull__tone_apply(const ull__tone *tone, uint8_t *image, int64_t pixels, int channels) {
  for (int64_t i = 0; i < pixels; i++) {
    for (int c = 0; c < channels; c++) {
      image[i * channels + c] = tone->table[c][image[i * channels + c]];
    }
  }
}

/* All channels alike. */
static void share(ull__tone *tone) {
  memcpy(tone->table[1], tone->table[0], sizeof tone->table[0]);
  memcpy(tone->table[2], tone->table[0], sizeof tone->table[0]);
}

void ull__tone_blend(ull__tone *tone, uint8_t grey, float factor) {
  for (int v = 0; v < 256; v++) tone->table[0][v] = ull__blend(grey, (uint8_t)v, factor);
  share(tone);
}

void ull__tone_posterize(ull__tone *tone, int bits) {
  for (int v = 0; v < 256; v++) tone->table[0][v] = (uint8_t)(v & ~((1 << (8 - bits)) - 1));
  share(tone);
}

void ull__tone_solarize(ull__tone *tone, float threshold) {
  for (int v = 0; v < 256; v++) {
    tone->table[0][v] = (uint8_t)((float)v < threshold ? v : 255 - v);
  }
  share(tone);
}

static void set_identity(uint8_t *table) {
  for (int v = 0; v < 256; v++) table[v] = (uint8_t)v;
}

static void stretch(uint8_t *table, const uint32_t *count) {
  int low = 0, high = 255;
  while (low < 255 && count[low] == 0) low++;
  while (high > 0 && count[high] == 0) high--;
  if (high <= low) {
    set_identity(table);
    return;
  }
  double scale = 255.0 / (high - low), offset = -low * scale;
  for (int v = 0; v < 256; v++) {
    int to = (int)(v * scale + offset);
    table[v] = (uint8_t)(to < 0 ? 0 : to > 255 ? 255 : to);
  }
}

void ull__tone_autocontrast(ull__tone *tone, const ull__histogram *histogram) {
  for (int c = 0; c < 3; c++) stretch(tone->table[c], histogram->count[c]);
}

static void flatten(uint8_t *table, const uint32_t *count) {
  uint64_t sum = 0;
  uint32_t last = 0;
  for (int v = 0; v < 256; v++) {
    sum += count[v];
    if (count[v] > 0) last = count[v];
  }
  uint64_t step = (sum - last) / 255;
  if (step == 0) { /* also where there is one value only */
    set_identity(table);
    return;
  }
  uint64_t reached = step / 2;
  for (int v = 0; v < 256; v++) {
    uint64_t to = reached / step;
    table[v] = (uint8_t)(to > 255 ? 255 : to);
    reached += count[v];
  }
}

void ull__tone_equalize(ull__tone *tone, const ull__histogram *histogram) {
  for (int c = 0; c < 3; c++) flatten(tone->table[c], histogram->count[c]);
}

/* ---- pixels ---- */

void ull__saturate(uint8_t *image, int64_t pixels, int channels, float factor) {
  if (channels == 1) return;
  for (int64_t i = 0; i < pixels; i++) {
    uint8_t *p = image + 3 * i, grey = luma(p);
    for (int c = 0; c < 3; c++) p[c] = ull__blend(grey, p[c], factor);
  }
}

void ull__grayscale(uint8_t *image, int64_t pixels, int channels) {
  if (channels == 1) return;
  for (int64_t i = 0; i < pixels; i++) memset(image + 3 * i, luma(image + 3 * i), 3);
}

typedef struct hsv {
  uint8_t hue, saturation, value;
} hsv;

static uint8_t cut_integer(int x) {
  return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

static hsv to_hsv(const uint8_t *p) {
  int r = p[0], g = p[1], b = p[2];
  int most = r > g ? r : g, least = r < g ? r : g;
  most = most > b ? most : b;
  least = least < b ? least : b;
  if (most == least) return (hsv){0, 0, (uint8_t)most};
  float spread = (float)(most - least), saturation = spread / (float)most;
  float red = (float)(most - r) / spread, green = (float)(most - g) / spread,
        blue = (float)(most - b) / spread, hue;
  if (r == most) {
    hue = blue - green;
  } else if (g == most) {
    hue = (float)(2.0 + (double)red - (double)blue);
  } else {
    hue = (float)(4.0 + (double)green - (double)red);
  }
  hue = (float)fmod((double)hue / 6.0 + 1.0, 1.0);
  return (hsv){cut_integer((int)((double)hue * 255.0)),
               cut_integer((int)((double)saturation * 255.0)), (uint8_t)most};
}

static uint8_t cut_rounded(double x) {
  return cut_integer((int)round(x));
}

static void from_hsv(hsv x, uint8_t *p) {
  uint8_t v = x.value;
  if (x.saturation == 0) {
    memset(p, v, 3);
    return;
  }
  int sector = (int)floor((double)((float)x.hue * 6.0f) / 255.0);
  float part = (float)((double)((float)x.hue * 6.0f) / 255.0 - sector);
  float saturation = (float)((float)x.saturation / 255.0);
  double s = (double)saturation, f = (double)part;
  uint8_t low = cut_rounded(v * (1.0 - s)), falling = cut_rounded(v * (1.0 - s * f)),
          rising = cut_rounded(v * (1.0 - s * (1.0 - f)));
  const uint8_t colours[6][3] = {{v, rising, low},  {falling, v, low}, {low, v, rising},
                                 {low, falling, v}, {rising, low, v},  {v, low, falling}};
  memcpy(p, colours[sector % 6], 3);
}

void ull__turn_hue(uint8_t *image, int64_t pixels, int channels, double turn) {
  if (channels == 1) return;
  uint8_t by = (uint8_t)(int)(turn * 255);
  for (int64_t i = 0; i < pixels; i++) {
    hsv x = to_hsv(image + 3 * i);
    x.hue = (uint8_t)(x.hue + by);
    from_hsv(x, image + 3 * i);
  }
}

/* ---- neighbours ---- */

/* Weight 5 in the middle, 1 around it, 13 in all, rounded; thirteenths never lie half way. */
static uint8_t smooth(const uint8_t *p, int64_t row, int channels) {
  int sum = 4 * p[0];
  for (int dy = -1; dy <= 1; dy++) {
    for (int dx = -1; dx <= 1; dx++) sum += p[dy * row + dx * channels];
  }
  return (uint8_t)((2 * sum + 13) / 26);
}

void ull__sharpen(const uint8_t *from, uint8_t *to, int width, int height, int channels,
                  float factor) {
  int64_t row = (int64_t)width * channels;
  for (int y = 0; y < height; y++) {
    const uint8_t *p = from + y * row;
    for (int64_t i = 0; i < row; i++) {
      bool edge = y == 0 || y == height - 1 || i < channels || i >= row - channels;
      uint8_t grey = edge ? p[i] : smooth(p + i, row, channels);
      to[y * row + i] = ull__blend(grey, p[i], factor);
    }
  }
}
