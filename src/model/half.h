/* Floating-point elements of any type, to and from float32, rounded to nearest even. */
#ifndef ULL_MODEL_HALF_H
#define ULL_MODEL_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "ullage/dtype.h"

bool ull__is_floating(ull_dtype dtype);

float ull__half_to_float(uint16_t bits);
uint16_t ull__half_from_float(float value);
float ull__bfloat16_to_float(uint16_t bits);
uint16_t ull__bfloat16_from_float(float value);

/* Stores `count` numbers as elements [first, first + count) of `bytes`; `dtype` is floating. */
void ull__from_float32(const float *values, ull_dtype dtype, void *bytes, uint64_t first,
                       uint64_t count);

/* Converts `count` elements between floating types (through double, so float64 to float64 is
 * exact). The arrays may not overlap. */
void ull__convert_floats(ull_dtype from, const void *source, ull_dtype to, void *target,
                         uint64_t count);

#endif
