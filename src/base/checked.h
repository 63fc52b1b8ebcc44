/* Size arithmetic that cannot wrap. Every byte count and element count in Ullage is computed with
 * these.
 *
 * Sizes are uint64_t and at most ULL__SIZE_MAX (2^63 - 1), so that differences fit into int64_t. A
 * function that would leave that range returns ULL_ERROR_OVERFLOW, fills the record with `what`,
 * and leaves *out alone. */
#ifndef ULL_BASE_CHECKED_H
#define ULL_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

#include "ullage/status.h"

#define ULL__SIZE_MAX ((uint64_t)INT64_MAX)

ull_status ull__size_add(uint64_t a, uint64_t b, const char *what, uint64_t *out);
ull_status ull__size_mul(uint64_t a, uint64_t b, const char *what, uint64_t *out);

/* Rounds up to a multiple of `alignment`, a power of two. */
ull_status ull__size_align(uint64_t size, uint64_t alignment, const char *what, uint64_t *out);

/* Rounds up without a check: for sizes already known to be far below the limit. */
static inline uint64_t ull__align_up(uint64_t size, uint64_t alignment) {
  return (size + alignment - 1) & ~(alignment - 1);
}

#endif
