/* Floating-point elements of any type, to and from float32, rounded to nearest even. Sixteen-bit
 * ones by their bits, without compiler or processor support; inline, since loops over elements call
 * them. */
#ifndef ULL_BASE_HALF_H
#define ULL_BASE_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ullage/dtype.h"

bool ull__dtype_is_float(ull_dtype dtype);

/* Stores `count` numbers as elements [first, first + count) of `bytes`; `dtype` is floating. */
void ull__from_float32(const float *values, ull_dtype dtype, void *bytes, uint64_t first,
                       uint64_t count);

/* Converts `count` elements between floating types (through double, so float64 to float64 is
 * exact). The arrays may not overlap. */
void ull__convert_floats(ull_dtype from, const void *source, ull_dtype to, void *target,
                         uint64_t count);

/* ---- sixteen bits ---- */

static inline float ull__float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t ull__bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float ull__half_to_float(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 31, mantissa = half & 0x3FFu;
  if (exponent == 31) return ull__float_of_bits(sign | 0x7F800000u | mantissa << 13);
  if (exponent != 0) return ull__float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float small = (float)mantissa * 0x1p-24f;
  return sign ? -small : small;
}

/* Drops the low `shift` bits, rounding to nearest even. */
static inline uint32_t ull__round_off(uint32_t bits, uint32_t shift) {
  return (bits + (1u << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
}

static inline uint16_t ull__half_from_float(float value) {
  const uint32_t bits = ull__bits_of_float(value), sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu, exponent = magnitude >> 23;
  if (exponent - 113 < 30) return (uint16_t)(sign | ull__round_off(magnitude - (112u << 23), 13));
  if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  if (exponent >= 143) return (uint16_t)(sign | 0x7C00u);
  if (exponent < 102) return (uint16_t)sign;
  const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
  return (uint16_t)(sign | ull__round_off(mantissa, 126 - exponent));
}

static inline float ull__bfloat16_to_float(uint16_t bits) {
  return ull__float_of_bits((uint32_t)bits << 16);
}

static inline uint16_t ull__bfloat16_from_float(float value) {
  const uint32_t bits = ull__bits_of_float(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)ull__round_off(bits, 16);
}

#endif
