/* Elements one by one, through double. */
#include "base/half.h"

bool ull__dtype_is_float(ull_dtype dtype) {
  return dtype == ULL_FLOAT64 || dtype == ULL_FLOAT32 || dtype == ULL_FLOAT16 ||
         dtype == ULL_BFLOAT16;
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
