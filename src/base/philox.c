/* The parts of Philox that need the maths library or text. */
#include "base/philox.h"

#include <math.h>

void ull__philox_normal(ull__philox_block block, double out[2]) {
  const double two_pi = 6.28318530717958647692;
  /* 1 - u lies in (0, 1], where the logarithm is finite. */
  double u = 1.0 - ull__philox_unit_double(block.word[0], block.word[1]);
  double angle = two_pi * ull__philox_unit_double(block.word[2], block.word[3]);
  double radius = sqrt(-2.0 * log(u));
  out[0] = radius * cos(angle);
  out[1] = radius * sin(angle);
}

/* FNV-1a over the purpose, then one Philox block to spread seed and purpose over all bits. */
uint64_t ull__philox_key(uint64_t seed, const char *purpose) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char *c = purpose; *c != '\0'; c++) {
    hash = (hash ^ (unsigned char)*c) * 0x100000001B3u;
  }
  ull__philox_block block = ull__philox(seed, hash, 0);
  return ((uint64_t)block.word[0] << 32) | block.word[1];
}
