/* Philox4x32-10: a random number generator without state.
 *
 * A block of four random words is a pure function of a 64-bit key and a 128-bit counter, so any
 * number can be drawn again, in any order, on any thread. Keys come from the seed, counters from
 * who asks (step, sample, node, element). Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
 * easy as 1, 2, 3", 2011.
 *
 * Everything is inline and free of branches, for use inside vectorised loops. */
#ifndef ULL_BASE_PHILOX_H
#define ULL_BASE_PHILOX_H

#include <stdint.h>

typedef struct ull__philox_block {
  uint32_t word[4];
} ull__philox_block;

/* counter = counter_high * 2^64 + counter_low */
static inline ull__philox_block ull__philox(uint64_t key, uint64_t counter_high,
                                            uint64_t counter_low) {
  uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
  uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t product0 = (uint64_t)0xD2511F53u * c0;
    uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)product1;
    c3 = (uint32_t)product0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (ull__philox_block){{c0, c1, c2, c3}};
}

/* Word `index` of the stream (key, stream): word index % 4 of the block whose low counter is
 * index / 4. */
static inline uint32_t ull__philox_u32(uint64_t key, uint64_t stream, uint64_t index) {
  return ull__philox(key, stream, index >> 2).word[index & 3];
}

/* Uniform in [0, 1) with 24 bits: a multiple of 2^-24, exact in float. */
static inline float ull__philox_unit_float(uint32_t word) {
  return (float)(word >> 8) * 0x1p-24f;
}

/* Uniform in [0, 1) with 53 bits. */
static inline double ull__philox_unit_double(uint32_t high, uint32_t low) {
  return (double)((((uint64_t)high << 32) | low) >> 11) * 0x1p-53;
}

/* Uniform in [0, bound) from two words; 0 where bound is 0. The bias is below bound / 2^64. */
static inline uint64_t ull__philox_bounded(uint32_t high, uint32_t low, uint64_t bound) {
  uint64_t value = ((uint64_t)high << 32) | low;
  return (uint64_t)(((unsigned __int128)value * bound) >> 64);
}

/* Two independent numbers of the standard normal distribution, by Box and Muller in double. */
void ull__philox_normal(ull__philox_block block, double out[2]);

/* A key for one purpose out of a seed: distinct purposes ("order", "augment", "init") give
 * unrelated keys. */
uint64_t ull__philox_key(uint64_t seed, const char *purpose);

#endif
