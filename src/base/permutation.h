/* A keyed permutation of [0, n) in constant memory: position i of an epoch's order, computed when
 * asked, for any i. */
#ifndef ULL_BASE_PERMUTATION_H
#define ULL_BASE_PERMUTATION_H

#include <stdint.h>

typedef struct ull__permutation {
  uint64_t count;
  uint64_t key;
  uint32_t half_bits; /* of the Feistel network's domain, 4^half_bits >= count */
} ull__permutation;

/* `count` <= 2^62; larger counts are cut to it. */
ull__permutation ull__permutation_create(uint64_t count, uint64_t key);

/* The value at `position` < count, and the position of `value` < count. */
uint64_t ull__permutation_at(const ull__permutation *permutation, uint64_t position);
uint64_t ull__permutation_find(const ull__permutation *permutation, uint64_t value);

#endif
