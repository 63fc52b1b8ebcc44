/* Dropout's mask for a run of elements, one vector of Philox blocks at a time. The same words as
 * kernels/dropout.h. */
#ifndef ULL_KERNELS_CPU_LOOPS_RANDOM_H
#define ULL_KERNELS_CPU_LOOPS_RANDOM_H

#include "kernels/cpu/loops/vector.h"
#include "kernels/dropout.h"

/* High and low half of the products of 32-bit lanes. */
INLINE void multiply_wide(vuint a, uint32_t b, vuint *high, vuint *low) {
#if defined(__AVX512F__)
  __m512i factor = _mm512_set1_epi32((int)b);
  __m512i even = _mm512_mul_epu32((__m512i)a, factor);
  __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), factor);
  *low = (vuint)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
  *high = (vuint)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
#elif defined(__AVX2__)
  __m256i factor = _mm256_set1_epi32((int)b);
  __m256i even = _mm256_mul_epu32((__m256i)a, factor);
  __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), factor);
  *low = (vuint)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
  *high = (vuint)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
#else
  for (int lane = 0; lane < LANES; lane++) {
    uint64_t product = (uint64_t)a[lane] * b;
    (*high)[lane] = (uint32_t)(product >> 32);
    (*low)[lane] = (uint32_t)product;
  }
#endif
}

typedef struct philox_vector {
  vuint word[4];
} philox_vector;

/* Lane by lane ull__philox(key, stream, (counter_high, counter_low)). */
INLINE philox_vector philox_blocks(uint64_t key, vuint stream_low, vuint stream_high,
                                   vuint counter_low, vuint counter_high) {
  vuint c0 = counter_low, c1 = counter_high, c2 = stream_low, c3 = stream_high;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    vuint high0, low0, high1, low1;
    multiply_wide(c0, 0xD2511F53u, &high0, &low0);
    multiply_wide(c2, 0xCD9E8D57u, &high1, &low1);
    c0 = high1 ^ c1 ^ k0;
    c2 = high0 ^ c3 ^ k1;
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (philox_vector){{c0, c1, c2, c3}};
}

/* Writes the words block by block, where lane 4q + j holds block j * LANES / 4 + q. */
INLINE void store_words(const philox_vector *blocks, uint32_t *words) {
#if defined(__AVX512F__)
  __m512i a = _mm512_unpacklo_epi32((__m512i)blocks->word[0], (__m512i)blocks->word[1]);
  __m512i b = _mm512_unpackhi_epi32((__m512i)blocks->word[0], (__m512i)blocks->word[1]);
  __m512i c = _mm512_unpacklo_epi32((__m512i)blocks->word[2], (__m512i)blocks->word[3]);
  __m512i d = _mm512_unpackhi_epi32((__m512i)blocks->word[2], (__m512i)blocks->word[3]);
  _mm512_storeu_si512(words, _mm512_unpacklo_epi64(a, c));
  _mm512_storeu_si512(words + LANES, _mm512_unpackhi_epi64(a, c));
  _mm512_storeu_si512(words + 2 * LANES, _mm512_unpacklo_epi64(b, d));
  _mm512_storeu_si512(words + 3 * LANES, _mm512_unpackhi_epi64(b, d));
#elif defined(__AVX2__)
  __m256i a = _mm256_unpacklo_epi32((__m256i)blocks->word[0], (__m256i)blocks->word[1]);
  __m256i b = _mm256_unpackhi_epi32((__m256i)blocks->word[0], (__m256i)blocks->word[1]);
  __m256i c = _mm256_unpacklo_epi32((__m256i)blocks->word[2], (__m256i)blocks->word[3]);
  __m256i d = _mm256_unpackhi_epi32((__m256i)blocks->word[2], (__m256i)blocks->word[3]);
  _mm256_storeu_si256((__m256i *)words, _mm256_unpacklo_epi64(a, c));
  _mm256_storeu_si256((__m256i *)(words + LANES), _mm256_unpackhi_epi64(a, c));
  _mm256_storeu_si256((__m256i *)(words + 2 * LANES), _mm256_unpacklo_epi64(b, d));
  _mm256_storeu_si256((__m256i *)(words + 3 * LANES), _mm256_unpackhi_epi64(b, d));
#else
  for (int lane = 0; lane < LANES; lane++) {
    int block = lane % 4 * (LANES / 4) + lane / 4;
    for (int word = 0; word < 4; word++) words[4 * block + word] = blocks->word[word][lane];
  }
#endif
}

#endif
