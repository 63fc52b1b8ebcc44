/* Eight bytes at a time, folded by the halves of a 128-bit product. */
#include "base/hash.h"

#include <string.h>

static uint64_t mix(uint64_t a, uint64_t b) {
  __uint128_t product =
      (__uint128_t)(a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0xe7037ed1a0b428db));
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t ull__hash_bytes(const void *bytes, size_t count) {
  const uint8_t *at = bytes;
  uint64_t hash = count, word;
  for (; count >= sizeof word; at += sizeof word, count -= sizeof word) {
    memcpy(&word, at, sizeof word);
    hash = mix(hash, word);
  }
  word = 0;
  memcpy(&word, at, count);
  return mix(mix(hash, word), UINT64_C(0x8ebc6af09c88c6e3));
}
