/* Sixteen-bit floating point by its bits, without compiler or processor support. */
#include "model/half.h"

#include <string.h>

bool ull__is_floating(ull_dtype dtype) {
  return dtype == ULL_FLOAT64 || dtype == ULL_FLOAT32 || dtype == ULL_FLOAT16 ||
         dtype == ULL_BFLOAT16;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

float ull__half_to_float(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 31, mantissa = half & 0x3FFu;
  if (exponent == 31) return float_of(sign | 0x7F800000u | mantissa << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
  const float small = (float)mantissa * 0x1p-24f;
  return sign ? -small : small;
}

/* Drops the low `shift` bits, rounding to nearest even. */
static uint32_t round_off(uint32_t bits, uint32_t shift) {
  const uint32_t kept = bits >> shift, rest = bits & ((1u << shift) - 1), half = 1u << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t ull__half_from_float(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu, exponent = magnitude >> 23;
  if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7C00u);
  if (exponent >= 113) return (uint16_t)(sign | round_off(magnitude - (112u << 23), 13));
  if (exponent < 102) return (uint16_t)sign;
  const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
  return (uint16_t)(sign | round_off(mantissa, 126 - exponent));
}

float ull__bfloat16_to_float(uint16_t bits) {
  return float_of((uint32_t)bits << 16);
}

uint16_t ull__bfloat16_from_float(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)round_off(bits, 16);
}

static double load(ull_dtype dtype, const void *bytes, uint64_t i) {
  switch (dtype) {
  case ULL_FLOAT64:
    return ((const double *)bytes)[i];
  case ULL_FLOAT16:
    return ull__half_to_float(((const uint16_t *)bytes)[i]);
  case ULL_BFLOAT16:
    return ull__bfloat16_to_float(((const uint16_t *)bytes)[i]);
  default:
    return ((const float *)bytes)[i];
  }
}

static void store(ull_dtype dtype, void *bytes, uint64_t i, double value) {
  switch (dtype) {
  case ULL_FLOAT64:
    ((double *)bytes)[i] = value;
    break;
  case ULL_FLOAT16:
    ((uint16_t *)bytes)[i] = ull__half_from_float((float)value);
    break;
  case ULL_BFLOAT16:
    ((uint16_t *)bytes)[i] = ull__bfloat16_from_float((float)value);
    break;
  default:
    ((float *)bytes)[i] = (float)value;
    break;
  }
}

void ull__from_float32(const float *values, ull_dtype dtype, void *bytes, uint64_t first,
                       uint64_t count) {
  for (uint64_t i = 0; i < count; i++) store(dtype, bytes, first + i, values[i]);
}

void ull__convert_floats(ull_dtype from, const void *source, ull_dtype to, void *target,
                         uint64_t count) {
  for (uint64_t i = 0; i < count; i++) store(to, target, i, load(from, source, i));
}
