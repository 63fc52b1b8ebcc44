/* A balanced Feistel network permutes [0, 4^half_bits); values outside [0, count) are sent through
 * it again until they fall inside (cycle walking), which keeps it a permutation of [0, count). The
 * domain is less than 4 times the count, or 64 at least, so that the halves are wide enough for
 * the rounds to mix. */
#include "base/permutation.h"

#include "base/philox.h"

enum { ROUNDS = 6, LEAST_HALF_BITS = 3 };

ull__permutation ull__permutation_create(uint64_t count, uint64_t key) {
  const uint64_t most = 1ull << 62;
  ull__permutation permutation = {
      .count = count < most ? count : most, .key = key, .half_bits = LEAST_HALF_BITS};
  while ((1ull << (2 * permutation.half_bits)) < permutation.count) permutation.half_bits++;
  return permutation;
}

static uint64_t mix(const ull__permutation *permutation, uint32_t round, uint64_t half) {
  ull__philox_block block = ull__philox(permutation->key, round, half);
  return block.word[0] & ((1ull << permutation->half_bits) - 1);
}

static uint64_t forward(const ull__permutation *permutation, uint64_t value) {
  uint32_t bits = permutation->half_bits;
  uint64_t left = value >> bits, right = value & ((1ull << bits) - 1);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    uint64_t next = left ^ mix(permutation, round, right);
    left = right;
    right = next;
  }
  return (left << bits) | right;
}

static uint64_t backward(const ull__permutation *permutation, uint64_t value) {
  uint32_t bits = permutation->half_bits;
  uint64_t left = value >> bits, right = value & ((1ull << bits) - 1);
  for (uint32_t round = ROUNDS; round-- > 0;) {
    uint64_t previous = right ^ mix(permutation, round, left);
    right = left;
    left = previous;
  }
  return (left << bits) | right;
}

uint64_t ull__permutation_at(const ull__permutation *permutation, uint64_t position) {
  if (position >= permutation->count) return position;
  uint64_t value = position;
  do {
    value = forward(permutation, value);
  } while (value >= permutation->count);
  return value;
}

uint64_t ull__permutation_find(const ull__permutation *permutation, uint64_t value) {
  if (value >= permutation->count) return value;
  uint64_t position = value;
  do {
    position = backward(permutation, position);
  } while (position >= permutation->count);
  return position;
}
