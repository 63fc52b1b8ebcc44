/* Checked size arithmetic: nothing is stored unless the exact result fits. */
#include "base/checked.h"

#include "base/error.h"

static ull_status overflow(uint64_t a, const char *operation, uint64_t b, const char *what) {
  return ULL__FAIL(ULL_ERROR_OVERFLOW, "the size of %s does not fit into 63 bits: %llu %s %llu",
                   what, (unsigned long long)a, operation, (unsigned long long)b);
}

ull_status ull__size_add(uint64_t a, uint64_t b, const char *what, uint64_t *out) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum) || sum > ULL__SIZE_MAX) return overflow(a, "+", b, what);
  *out = sum;
  return ULL_OK;
}

ull_status ull__size_mul(uint64_t a, uint64_t b, const char *what, uint64_t *out) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product) || product > ULL__SIZE_MAX) {
    return overflow(a, "x", b, what);
  }
  *out = product;
  return ULL_OK;
}

ull_status ull__size_align(uint64_t size, uint64_t alignment, const char *what, uint64_t *out) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%s aligned to %llu, which is no power of two", what,
                     (unsigned long long)alignment);
  }
  if (size > ULL__SIZE_MAX - (alignment - 1)) return overflow(size, "aligned to", alignment, what);
  *out = ull__align_up(size, alignment);
  return ULL_OK;
}
