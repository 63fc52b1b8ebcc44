/* Across: a block of eight output pixels at a time; the four channels of two taps meet in one
 * multiply-add of pairs. Down: the same with pairs of rows. */
#include "data/loops/resample.h"

#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "base/isa.h"

#define INLINE static inline __attribute__((always_inline))

enum { HALF = 128 }; /* of the bits that `across` drops */

/* ---- across ---- */

#if defined(__AVX512BW__)

INLINE __m512i load_four(const uint8_t *pixels, const int32_t *first, int64_t tap) {
  __m512i x = _mm512_castsi128_si512(
      _mm_loadu_si128((const __m128i *)(pixels + ((int64_t)first[0] + tap) * 4)));
  const uint8_t *b = pixels + ((int64_t)first[1] + tap) * 4;
  const uint8_t *c = pixels + ((int64_t)first[2] + tap) * 4;
  const uint8_t *d = pixels + ((int64_t)first[3] + tap) * 4;
  x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)b), 1);
  x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)c), 2);
  return _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)d), 3);
}

INLINE __m512i sum_four(const uint8_t *pixels, const int32_t *first, const int16_t *weights,
                        int64_t groups) {
  const __m512i first_pair =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
  const __m512i second_pair = _mm512_broadcast_i32x4(
      _mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
  const __m512i even = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6);
  const __m512i odd = _mm512_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7);
  __m512i sum = _mm512_set1_epi32(HALF);
  for (int64_t g = 0; g < groups; g++, weights += 4 * ULL__ACROSS_TAPS) {
    __m512i x = load_four(pixels, first, g * ULL__ACROSS_TAPS);
    __m512i w = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)weights));
    sum = _mm512_sub_epi32(sum, _mm512_madd_epi16(_mm512_shuffle_epi8(x, first_pair),
                                                  _mm512_permutexvar_epi32(even, w)));
    sum = _mm512_sub_epi32(sum, _mm512_madd_epi16(_mm512_shuffle_epi8(x, second_pair),
                                                  _mm512_permutexvar_epi32(odd, w)));
  }
  return sum;
}

INLINE void across_block(const ull__across *across, const uint8_t *pixels, int64_t x,
                         int64_t groups, int16_t *to) {
  const int16_t *weights = across->weights + x * groups * ULL__ACROSS_TAPS;
  const int32_t *first = across->first + x;
  __m512i low = sum_four(pixels, first, weights, groups);
  __m512i high = sum_four(pixels, first + 4, weights + 16 * groups, groups);
  /* Words: red 0, red 4, green 0, green 4, ...; the next lane has pixels 1 and 5. */
  __m512i words =
      _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(low, 8), _mm512_slli_epi32(high, 8));
  const __m512i order =
      _mm512_setr_epi32(0x080000, 0x180010, 0x090001, 0x190011, 0x0A0002, 0x1A0012, 0x0B0003,
                        0x1B0013, 0x0C0004, 0x1C0014, 0x0D0005, 0x1D0015, 0, 0, 0, 0);
  __m512i planes = _mm512_permutexvar_epi16(order, words);
  _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(planes));
  _mm_storeu_si128((__m128i *)(to + across->plane), _mm512_extracti32x4_epi32(planes, 1));
  _mm_storeu_si128((__m128i *)(to + 2 * across->plane), _mm512_extracti32x4_epi32(planes, 2));
}

#elif defined(__AVX2__)

INLINE __m256i sum_two(const uint8_t *pixels, const int32_t *first, const int16_t *weights,
                       int64_t groups) {
  const __m256i first_pair = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
  const __m256i second_pair = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
  const __m256i even = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
  const __m256i odd = _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3);
  const uint8_t *a = pixels + (int64_t)first[0] * 4, *b = pixels + (int64_t)first[1] * 4;
  __m256i sum = _mm256_set1_epi32(HALF);
  for (int64_t g = 0; g < groups; g++, weights += 4 * ULL__ACROSS_TAPS) {
    __m256i x = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(a + g * 16))),
        _mm_loadu_si128((const __m128i *)(b + g * 16)), 1);
    __m256 w =
        _mm256_castsi256_ps(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)weights)));
    __m256i w_even = _mm256_castps_si256(_mm256_permutevar_ps(w, even));
    __m256i w_odd = _mm256_castps_si256(_mm256_permutevar_ps(w, odd));
    sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(x, first_pair), w_even));
    sum = _mm256_sub_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(x, second_pair), w_odd));
  }
  return sum;
}

/* Words: red 0, red 2, green 0, green 2, ... and in the upper lane pixels 1 and 3. */
INLINE __m256i join_four(const uint8_t *pixels, const int32_t *first, const int16_t *weights,
                         int64_t groups) {
  __m256i low = sum_two(pixels, first, weights, groups);
  __m256i high = sum_two(pixels, first + 2, weights + 2 * ULL__ACROSS_TAPS, groups);
  return _mm256_blend_epi16(_mm256_srli_epi32(low, 8), _mm256_slli_epi32(high, 8), 0xAA);
}

INLINE void across_block(const ull__across *across, const uint8_t *pixels, int64_t x,
                         int64_t groups, int16_t *to) {
  const int16_t *weights = across->weights + x * groups * ULL__ACROSS_TAPS;
  const int32_t *first = across->first + x;
  __m256i low = join_four(pixels, first, weights, groups);
  __m256i high = join_four(pixels, first + 4, weights + 16 * groups, groups);
  __m256i red_green = _mm256_unpacklo_epi32(low, high), blue = _mm256_unpackhi_epi32(low, high);
  __m128i even = _mm256_castsi256_si128(red_green), odd = _mm256_extracti128_si256(red_green, 1);
  _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi16(even, odd));
  _mm_storeu_si128((__m128i *)(to + across->plane), _mm_unpackhi_epi16(even, odd));
  __m128i blues =
      _mm_unpacklo_epi16(_mm256_castsi256_si128(blue), _mm256_extracti128_si256(blue, 1));
  _mm_storeu_si128((__m128i *)(to + 2 * across->plane), blues);
}

#elif defined(__SSE2__)

/* Red, green, blue and the rest of two pixels, in pairs of words. */
INLINE __m128i pair_up(__m128i words) {
  return _mm_unpacklo_epi16(words, _mm_srli_si128(words, 8));
}

INLINE __m128i sum_one(const uint8_t *pixel, const int16_t *weights, int64_t groups) {
  const __m128i zero = _mm_setzero_si128();
  __m128i sum = _mm_set1_epi32(HALF);
  for (int64_t g = 0; g < groups; g++, pixel += 16, weights += 4 * ULL__ACROSS_TAPS) {
    __m128i x = _mm_loadu_si128((const __m128i *)pixel);
    __m128i w = _mm_loadl_epi64((const __m128i *)weights);
    __m128i low = pair_up(_mm_unpacklo_epi8(x, zero)), high = pair_up(_mm_unpackhi_epi8(x, zero));
    sum = _mm_sub_epi32(sum, _mm_madd_epi16(low, _mm_shuffle_epi32(w, 0x00)));
    sum = _mm_sub_epi32(sum, _mm_madd_epi16(high, _mm_shuffle_epi32(w, 0x55)));
  }
  return _mm_srai_epi32(sum, 8);
}

INLINE void across_four(const ull__across *across, const uint8_t *pixels, int64_t x, int64_t groups,
                        int16_t *to) {
  const int16_t *weights = across->weights + x * groups * ULL__ACROSS_TAPS;
  __m128i sums[4];
  for (int i = 0; i < 4; i++) {
    const uint8_t *pixel = pixels + (int64_t)across->first[x + i] * 4;
    sums[i] = sum_one(pixel, weights + i * ULL__ACROSS_TAPS, groups);
  }
  __m128i a = _mm_packs_epi32(sums[0], sums[1]), b = _mm_packs_epi32(sums[2], sums[3]);
  __m128i even = _mm_unpacklo_epi16(a, b), odd = _mm_unpackhi_epi16(a, b);
  __m128i red_green = _mm_unpacklo_epi16(even, odd), blue = _mm_unpackhi_epi16(even, odd);
  _mm_storel_epi64((__m128i *)to, red_green);
  _mm_storel_epi64((__m128i *)(to + across->plane), _mm_srli_si128(red_green, 8));
  _mm_storel_epi64((__m128i *)(to + 2 * across->plane), blue);
}

INLINE void across_block(const ull__across *across, const uint8_t *pixels, int64_t x,
                         int64_t groups, int16_t *to) {
  across_four(across, pixels, x, groups, to);
  across_four(across, pixels, x + 4, groups, to + 4);
}

#else

INLINE void across_block(const ull__across *across, const uint8_t *pixels, int64_t x,
                         int64_t groups, int16_t *to) {
  for (int64_t i = 0; i < ULL__ACROSS_BLOCK; i++) {
    const uint8_t *pixel = pixels + (int64_t)across->first[x + i] * 4;
    const int16_t *weights =
        across->weights + ((x + i) / 4 * groups * 4 + i % 4) * ULL__ACROSS_TAPS;
    int32_t sum[4] = {HALF, HALF, HALF, HALF};
    for (int64_t g = 0; g < groups; g++, weights += 4 * ULL__ACROSS_TAPS) {
      for (int tap = 0; tap < ULL__ACROSS_TAPS; tap++, pixel += 4) {
        for (int c = 0; c < 4; c++) sum[c] -= pixel[c] * weights[tap];
      }
    }
    for (int c = 0; c < 3; c++) to[c * across->plane + i] = (int16_t)(sum[c] >> 8);
  }
}

#endif

static void across_colour(const ull__across *across, const uint8_t *pixels, int16_t *planes) {
  if (across->groups == 1) {
    for (int64_t x = 0; x < across->outputs; x += ULL__ACROSS_BLOCK) {
      across_block(across, pixels, x, 1, planes + x);
    }
    return;
  }
  for (int64_t x = 0; x < across->outputs; x += ULL__ACROSS_BLOCK) {
    across_block(across, pixels, x, across->groups, planes + x);
  }
}

static void across_grey(const ull__across *across, const uint8_t *pixels, int16_t *plane) {
  int64_t groups = across->groups;
  for (int64_t x = 0; x < across->outputs; x++) {
    const uint8_t *pixel = pixels + across->first[x];
    const int16_t *weights = across->weights + (x / 4 * groups * 4 + x % 4) * ULL__ACROSS_TAPS;
    int32_t sum = HALF;
    for (int64_t g = 0; g < groups; g++, pixel += ULL__ACROSS_TAPS, weights += 16) {
      for (int tap = 0; tap < ULL__ACROSS_TAPS; tap++) sum -= pixel[tap] * weights[tap];
    }
    plane[x] = (int16_t)(sum >> 8);
  }
}

/* ---- down ---- */

/* The widest registers that there are. `put` stores what was interleaved lane by lane in order. */
#if defined(__AVX512BW__)

enum { STEP = 32 };
typedef __m512i wide;
typedef __m512 wide_floats;
#define WIDE(operation) _mm512_##operation

INLINE void put(wide_floats lower, wide_floats upper, float *to) {
  const wide front = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const wide back = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  _mm512_storeu_ps(to, _mm512_permutex2var_ps(lower, front, upper));
  _mm512_storeu_ps(to + 16, _mm512_permutex2var_ps(lower, back, upper));
}

#elif defined(__AVX2__)

enum { STEP = 16 };
typedef __m256i wide;
typedef __m256 wide_floats;
#define WIDE(operation) _mm256_##operation

INLINE void put(wide_floats lower, wide_floats upper, float *to) {
  _mm256_storeu_ps(to, _mm256_permute2f128_ps(lower, upper, 0x20));
  _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(lower, upper, 0x31));
}

#elif defined(__SSE2__)

enum { STEP = 8 };
typedef __m128i wide;
typedef __m128 wide_floats;
#define WIDE(operation) _mm_##operation

INLINE void put(wide_floats lower, wide_floats upper, float *to) {
  _mm_storeu_ps(to, lower);
  _mm_storeu_ps(to + 4, upper);
}

#endif

#if defined(WIDE)

INLINE void down_block(const int16_t *const *rows, int64_t at, const int16_t *weights, int taps,
                       float scale, float bias, float *to) {
  wide lower = {0}, upper = {0}, a, b;
  for (int k = 0; k < taps; k += 2) {
    int32_t pair;
    memcpy(&pair, weights + k, sizeof pair);
    memcpy(&a, rows[k] + at, sizeof a);
    memcpy(&b, rows[k + 1] + at, sizeof b);
    wide w = WIDE(set1_epi32)(pair);
    lower = WIDE(sub_epi32)(lower, WIDE(madd_epi16)(WIDE(unpacklo_epi16)(a, b), w));
    upper = WIDE(sub_epi32)(upper, WIDE(madd_epi16)(WIDE(unpackhi_epi16)(a, b), w));
  }
  wide_floats s = WIDE(set1_ps)(scale), t = WIDE(set1_ps)(bias);
  put(WIDE(add_ps)(WIDE(mul_ps)(WIDE(cvtepi32_ps)(lower), s), t),
      WIDE(add_ps)(WIDE(mul_ps)(WIDE(cvtepi32_ps)(upper), s), t), to);
}

#else

enum { STEP = 16 };

INLINE void down_block(const int16_t *const *rows, int64_t at, const int16_t *weights, int taps,
                       float scale, float bias, float *to) {
  int32_t sum[STEP] = {0};
  for (int k = 0; k < taps; k++) {
    const int16_t *row = rows[k] + at;
    for (int i = 0; i < STEP; i++) sum[i] -= row[i] * weights[k];
  }
  for (int i = 0; i < STEP; i++) to[i] = (float)sum[i] * scale + bias;
}

#endif

static void down(const int16_t *const *rows, int64_t offset, const int16_t *weights, int taps,
                 int count, float scale, float bias, float *to) {
  int i = 0;
  for (; i + STEP <= count; i += STEP) {
    down_block(rows, offset + i, weights, taps, scale, bias, to + i);
  }
  if (i == count) return;
  float last[STEP];
  down_block(rows, offset + i, weights, taps, scale, bias, last);
  memcpy(to + i, last, (size_t)(count - i) * sizeof *to);
}

static void down_add(const int16_t *restrict row, int16_t weight, int64_t count,
                     int32_t *restrict sums) {
  for (int64_t i = 0; i < count; i++) sums[i] -= row[i] * weight;
}

static void down_end(const int32_t *restrict sums, int count, float scale, float bias,
                     float *restrict to) {
  for (int i = 0; i < count; i++) to[i] = (float)sums[i] * scale + bias;
}

static void scale_bytes(const uint8_t *restrict from, int step, int count, float scale, float bias,
                        float *restrict to) {
  for (int i = 0; i < count; i++) to[i] = (float)from[(int64_t)i * step] * scale + bias;
}

/* ---- stores ---- */

INLINE uint8_t byte_of(float x) {
  x = x > 0 ? x : 0; /* also where x is NaN */
  x = x < 255 ? x : 255;
  return (uint8_t)(int32_t)(x + 0.5f);
}

INLINE uint16_t bfloat16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

INLINE uint16_t float16_of(float x) {
#if defined(__F16C__)
  return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
#else
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
  if (size > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (size >> 13 & 0x3FF));
  if (size >= 0x477FF000) return (uint16_t)(sign | 0x7C00);
  if (size < 0x38800000) { /* below the smallest normal number: let the adder round */
    float shifted;
    memcpy(&shifted, &size, sizeof shifted);
    shifted += 0.5f;
    memcpy(&size, &shifted, sizeof size);
    return (uint16_t)(sign | (size - 0x3F000000));
  }
  size += 0xFFF + (size >> 13 & 1);
  return (uint16_t)(sign | ((size - 0x38000000) >> 13));
#endif
}

#define STORE(name, type, convert)                                                             \
  static void name(const float *restrict from, int count, int64_t stride, void *restrict to) { \
    type *at = to;                                                                             \
    if (stride == 1) {                                                                         \
      for (int i = 0; i < count; i++) at[i] = convert(from[i]);                                \
    } else {                                                                                   \
      for (int i = 0; i < count; i++) at[i * stride] = convert(from[i]);                       \
    }                                                                                          \
  }
STORE(store_bytes, uint8_t, byte_of)
STORE(store_float16, uint16_t, float16_of)
STORE(store_bfloat16, uint16_t, bfloat16_of)
STORE(store_float32, float, )
STORE(store_int32, int32_t, (int32_t))
STORE(store_int64, int64_t, (int64_t))
#undef STORE

static void store(const float *from, int count, const ull__row_store *how, void *to) {
  switch (how->dtype) {
  case ULL_FLOAT16:
    store_float16(from, count, how->stride, to);
    break;
  case ULL_BFLOAT16:
    store_bfloat16(from, count, how->stride, to);
    break;
  case ULL_FLOAT32:
    store_float32(from, count, how->stride, to);
    break;
  case ULL_INT32:
    store_int32(from, count, how->stride, to);
    break;
  case ULL_INT64:
    store_int64(from, count, how->stride, to);
    break;
  default:
    store_bytes(from, count, how->stride, to);
    break;
  }
}

#if defined(__AVX2__)

/* Eight floats to the low bytes of 32-bit lanes. */
INLINE __m256i bytes_of_eight(const float *from) {
  __m256 x = _mm256_max_ps(_mm256_loadu_ps(from), _mm256_setzero_ps());
  x = _mm256_add_ps(_mm256_min_ps(x, _mm256_set1_ps(255)), _mm256_set1_ps(0.5f));
  return _mm256_cvttps_epi32(x);
}

INLINE __m128i bytes_of_sixteen(const float *from) {
  __m256i words = _mm256_packus_epi32(bytes_of_eight(from), bytes_of_eight(from + 8));
  words = _mm256_permute4x64_epi64(words, 0xD8);
  return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

INLINE __m128i join(__m128i r, __m128i g, __m128i b, __m128i from_r, __m128i from_g,
                    __m128i from_b) {
  return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, from_r), _mm_shuffle_epi8(g, from_g)),
                      _mm_shuffle_epi8(b, from_b));
}

INLINE void store_sixteen(const float *planes, int64_t plane, uint8_t *to) {
  __m128i r = bytes_of_sixteen(planes), g = bytes_of_sixteen(planes + plane);
  __m128i b = bytes_of_sixteen(planes + 2 * plane);
  const __m128i x0 = _mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5);
  const __m128i x1 = _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1);
  const __m128i x2 = _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1);
  const __m128i y0 = _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1);
  const __m128i y1 = _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10);
  const __m128i y2 = _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1);
  const __m128i z0 = _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1);
  const __m128i z1 = _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1);
  const __m128i z2 = _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15);
  _mm_storeu_si128((__m128i *)to, join(r, g, b, x0, x1, x2));
  _mm_storeu_si128((__m128i *)(to + 16), join(r, g, b, y0, y1, y2));
  _mm_storeu_si128((__m128i *)(to + 32), join(r, g, b, z0, z1, z2));
}

#endif

static void store_rgb(const float *restrict planes, int64_t plane, int count,
                      uint8_t *restrict to) {
  int i = 0;
#if defined(__AVX2__)
  for (; i + 16 <= count; i += 16) store_sixteen(planes + i, plane, to + 3 * i);
#endif
  for (; i < count; i++) {
    to[3 * i] = byte_of(planes[i]);
    to[3 * i + 1] = byte_of(planes[plane + i]);
    to[3 * i + 2] = byte_of(planes[2 * plane + i]);
  }
}

const ull__resample_loops *ULL__ISA_NAME(ull__resample_loops)(void) {
  static const ull__resample_loops loops = {
      .across_colour = across_colour,
      .across_grey = across_grey,
      .down = down,
      .down_add = down_add,
      .down_end = down_end,
      .scale_bytes = scale_bytes,
      .store = store,
      .store_rgb = store_rgb,
  };
  return &loops;
}
