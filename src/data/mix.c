/* Partners form as many rings as the distance and the number of samples have as their greatest
 * common divisor. Walking along a ring, a sample's partner is still untouched; only the first must
 * be kept for the last. This is done for a short piece of all samples at a time. */
#include "data/mix.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "data/draws.h"

enum { PIECE_BYTES = 4096 };

/* ---- drawing ---- */

/* The logarithm of a number of the gamma distribution. Marsaglia and Tsang, "A simple method for
 * generating gamma variables", 2000; below 1 by a power of a uniform number. */
static double draw_log_gamma(ull__draws *draws, double shape) {
  double boosted = shape < 1 ? shape + 1 : shape, d = boosted - 1.0 / 3, c = 1 / sqrt(9 * d);
  double log_factor = shape < 1 ? log(1 - ull__draw_unit(draws)) / shape : 0;
  for (int i = 0; i < 1000; i++) {
    ull__philox_block block;
    double normal[2];
    for (int w = 0; w < 4; w++) block.word[w] = ull__draw_word(draws);
    ull__philox_normal(block, normal);
    double v = 1 + c * normal[0], u = 1 - ull__draw_unit(draws);
    if (v <= 0) continue;
    v = v * v * v;
    if (log(u) < 0.5 * normal[0] * normal[0] + d - d * v + d * log(v)) {
      return log(d * v) + log_factor;
    }
  }
  return log(d) + log_factor;
}

static double draw_beta(ull__draws *draws, double alpha) {
  double x = draw_log_gamma(draws, alpha), y = draw_log_gamma(draws, alpha);
  return 1 / (1 + exp(y - x));
}

static int clamp(int x, int most) {
  return x < 0 ? 0 : x > most ? most : x;
}

static void draw_box(ull__draws *draws, int width, int height, ull__mix *mix) {
  double half = 0.5 * sqrt(1 - mix->lambda);
  int x = (int)ull__draw_below(draws, (uint64_t)width);
  int y = (int)ull__draw_below(draws, (uint64_t)height);
  int half_width = (int)(half * width), half_height = (int)(half * height);
  int x0 = clamp(x - half_width, width), x1 = clamp(x + half_width, width);
  int y0 = clamp(y - half_height, height), y1 = clamp(y + half_height, height);
  mix->box = (ull__rect){x0, y0, x1 - x0, y1 - y0};
  double area = (double)width * height;
  mix->lambda = 1 - (double)mix->box.width * mix->box.height / area;
}

ull__mix ull__mix_draw(const ull_augment *augment, uint64_t key, uint64_t epoch, uint64_t batch,
                       uint64_t samples, int width, int height) {
  ull__mix mix = {.kind = ULL__MIX_NONE, .lambda = 1};
  bool blends = augment->mixup_alpha > 0, cuts = augment->cutmix_alpha > 0;
  if ((!blends && !cuts) || samples < 2) return mix;
  ull__draws draws = ull__draws_begin(key, epoch, batch, ULL__PURPOSE_MIX);
  if (blends && cuts) {
    cuts = ull__draw_word(&draws) >> 31;
    blends = !cuts;
  }
  mix.kind = cuts ? ULL__MIX_CUT : ULL__MIX_BLEND;
  mix.distance = 1 + ull__draw_below(&draws, samples - 1);
  mix.lambda = draw_beta(&draws, cuts ? augment->cutmix_alpha : augment->mixup_alpha);
  if (cuts) draw_box(&draws, width, height, &mix);
  return mix;
}

/* ---- pieces ---- */

static void blend_floats(float *restrict to, const float *restrict partner, size_t count, float own,
                         float other) {
  for (size_t i = 0; i < count; i++) to[i] = to[i] * own + partner[i] * other;
}

static void blend_halves(uint16_t *to, const uint16_t *partner, size_t count, float own,
                         float other) {
  for (size_t i = 0; i < count; i++)
    to[i] = ull__half_from_float(ull__half_to_float(to[i]) * own +
                                 ull__half_to_float(partner[i]) * other);
}

static void blend_bfloats(uint16_t *to, const uint16_t *partner, size_t count, float own,
                          float other) {
  for (size_t i = 0; i < count; i++)
    to[i] = ull__bfloat16_from_float(ull__bfloat16_to_float(to[i]) * own +
                                     ull__bfloat16_to_float(partner[i]) * other);
}

static void blend_bytes(uint8_t *restrict to, const uint8_t *restrict partner, size_t count,
                        float own, float other) {
  for (size_t i = 0; i < count; i++) {
    to[i] = (uint8_t)(int)((float)to[i] * own + (float)partner[i] * other + 0.5f);
  }
}

static void mix_piece(const ull__mix *mix, ull_dtype dtype, void *to, const void *partner,
                      size_t bytes) {
  float own = (float)mix->lambda, other = (float)(1 - mix->lambda);
  if (mix->kind == ULL__MIX_CUT) {
    memcpy(to, partner, bytes);
  } else if (dtype == ULL_FLOAT32) {
    blend_floats(to, partner, bytes / 4, own, other);
  } else if (dtype == ULL_UINT8) {
    blend_bytes(to, partner, bytes, own, other);
  } else if (dtype == ULL_FLOAT16) {
    blend_halves(to, partner, bytes / 2, own, other);
  } else if (dtype == ULL_BFLOAT16) {
    blend_bfloats(to, partner, bytes / 2, own, other);
  }
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b > 0) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The same bytes of all samples. */
static void mix_all(const ull__mix *mix, const ull__mix_array *array, uint64_t sample_bytes,
                    uint64_t at, size_t bytes) {
  _Alignas(16) uint8_t kept[PIECE_BYTES];
  uint8_t *data = (uint8_t *)array->data + at;
  uint64_t samples = array->samples, rings = common_divisor(samples, mix->distance);
  for (uint64_t first = 0; first < rings; first++) {
    uint64_t sample = first;
    memcpy(kept, data + first * sample_bytes, bytes);
    for (;;) {
      uint64_t partner = ull__mix_partner(mix, samples, sample);
      const uint8_t *from = partner == first ? kept : data + partner * sample_bytes;
      mix_piece(mix, array->dtype, data + sample * sample_bytes, from, bytes);
      if (partner == first) break;
      sample = partner;
    }
  }
}

static void mix_run(const ull__mix *mix, const ull__mix_array *array, uint64_t sample_bytes,
                    uint64_t at, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += PIECE_BYTES) {
    uint64_t left = bytes - done;
    mix_all(mix, array, sample_bytes, at + done, left < PIECE_BYTES ? left : PIECE_BYTES);
  }
}

void ull__mix_images(const ull__mix *mix, const ull__mix_array *array) {
  uint64_t width = (uint64_t)array->width, height = (uint64_t)array->height;
  uint64_t channels = (uint64_t)array->channels, element = ull_dtype_bytes(array->dtype);
  uint64_t sample_bytes = channels * height * width * element;
  if (mix->kind == ULL__MIX_NONE || array->samples < 2) return;
  if (mix->kind == ULL__MIX_BLEND) {
    mix_run(mix, array, sample_bytes, 0, sample_bytes);
    return;
  }
  uint64_t planes = array->channels_last ? 1 : channels;
  uint64_t pixel = array->channels_last ? channels * element : element;
  for (uint64_t plane = 0; plane < planes; plane++) {
    for (uint64_t y = 0; y < (uint64_t)mix->box.height; y++) {
      uint64_t row = (plane * height + (uint64_t)mix->box.y + y) * width;
      mix_run(mix, array, sample_bytes, (row + (uint64_t)mix->box.x) * pixel,
              (uint64_t)mix->box.width * pixel);
    }
  }
}

/* ---- labels ---- */

ull_status ull__mix_labels(const ull__mix *mix, const int64_t *labels, uint64_t samples,
                           uint64_t classes, float *soft) {
  for (uint64_t i = 0; i < samples; i++) {
    if (labels[i] < 0 || (uint64_t)labels[i] >= classes) {
      return ULL__FAIL(ULL_ERROR_DATA, "label %" PRId64 " is none of %" PRIu64 " classes",
                       labels[i], classes);
    }
  }
  memset(soft, 0, samples * classes * sizeof *soft);
  for (uint64_t i = 0; i < samples; i++) {
    float *row = soft + i * classes;
    uint64_t partner = ull__mix_partner(mix, samples, i);
    row[labels[i]] += (float)mix->lambda;
    if (mix->kind != ULL__MIX_NONE) row[labels[partner]] += (float)(1 - mix->lambda);
  }
  return ULL_OK;
}
