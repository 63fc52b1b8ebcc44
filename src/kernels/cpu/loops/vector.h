/* One vector type for each instruction set, on GCC's vector extensions.
 *
 * Loops over n elements take whole vectors and a last part that is loaded into a zeroed vector and
 * stored in part, so that the tail goes through the same instructions and gives the same bits. All
 * loads and stores may be unaligned. */
#ifndef ULL_KERNELS_CPU_LOOPS_VECTOR_H
#define ULL_KERNELS_CPU_LOOPS_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE__)
#include <immintrin.h>
#endif

#include "base/isa.h"
#include "device/device.h"

/* Vectors of doubles are wider than a register and never cross a call. */
#pragma GCC diagnostic ignored "-Wpsabi"

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float vfloat __attribute__((vector_size(4 * LANES), may_alias));
typedef int32_t vint __attribute__((vector_size(4 * LANES), may_alias));
typedef uint32_t vuint __attribute__((vector_size(4 * LANES), may_alias));
typedef double vdouble __attribute__((vector_size(8 * LANES), may_alias));

#define INLINE static inline __attribute__((always_inline, unused))

#define PRAGMA(text) _Pragma(#text)
#define UNROLL(times) PRAGMA(GCC unroll times)

/* Loops over tasks; `enough` says whether the work repays waking the team. Results never depend on
 * how many threads there are. */
#ifdef _OPENMP
#include <omp.h>
#define PARALLEL_FOR(enough) PRAGMA(omp parallel for schedule(static) if (enough))
#define PARALLEL(enough) PRAGMA(omp parallel if (enough))
#define SHARED_FOR PRAGMA(omp for schedule(static))
#define SHARED_DYNAMIC_FOR PRAGMA(omp for schedule(dynamic, 1))
#define THREAD_INDEX() ((int64_t)omp_get_thread_num())
#define TEAM_SIZE() ((int64_t)omp_get_max_threads())
#else
#define PARALLEL_FOR(enough) (void)(enough);
#define PARALLEL(enough) (void)(enough);
#define SHARED_FOR
#define SHARED_DYNAMIC_FOR
#define THREAD_INDEX() ((int64_t)0)
#define TEAM_SIZE() ((int64_t)1)
#endif

/* Elements from which a streaming loop is shared by the team. */
#define ENOUGH_ELEMENTS 16384

INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

INLINE int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

INLINE int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

INLINE vfloat load(const float *from) {
#if defined(__AVX512F__)
  return (vfloat)_mm512_loadu_ps(from);
#else
  vfloat x;
  memcpy(&x, from, sizeof x);
  return x;
#endif
}

INLINE void store(float *to, vfloat x) {
#if defined(__AVX512F__)
  _mm512_storeu_ps(to, (__m512)x);
#else
  memcpy(to, &x, sizeof x);
#endif
}

INLINE vfloat splat(float x) {
  return x - (vfloat){0};
}

/* The first `count` elements (0..LANES), zeros after them. */
INLINE vfloat load_part(const float *from, int64_t count) {
#if defined(__AVX512F__)
  return (vfloat)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#else
  float buffer[LANES] = {0};
  memcpy(buffer, from, (size_t)count * sizeof *from);
  return load(buffer);
#endif
}

INLINE void store_part(float *to, vfloat x, int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)x);
#else
  memcpy(to, &x, (size_t)count * sizeof *to);
#endif
}

INLINE vfloat load_some(const float *from, int64_t count) {
  return count >= LANES ? load(from) : load_part(from, count);
}

INLINE void store_some(float *to, vfloat x, int64_t count) {
  if (count >= LANES) {
    store(to, x);
  } else {
    store_part(to, x, count);
  }
}

/* a * b + c with one rounding, on every instruction set. */
INLINE vfloat fused(vfloat a, vfloat b, vfloat c) {
#if defined(__AVX512F__)
  return (vfloat)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (vfloat)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  vfloat result;
  for (int lane = 0; lane < LANES; lane++) result[lane] = fmaf(a[lane], b[lane], c[lane]);
  return result;
#endif
}

/* a * b + c as fast as the instruction set has it: for sums whose bits may differ between
 * instruction sets. */
INLINE vfloat multiply_add(vfloat a, vfloat b, vfloat c) {
#if defined(__AVX2__)
  return fused(a, b, c);
#else
  return a * b + c;
#endif
}

INLINE vfloat choose(vint mask, vfloat yes, vfloat no) {
  return (vfloat)((mask & (vint)yes) | (~mask & (vint)no));
}

/* b where a is NaN. */
INLINE vfloat vector_max(vfloat a, vfloat b) {
#if defined(__AVX512F__)
  return (vfloat)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vfloat)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return choose(a > b, a, b);
#endif
}

INLINE vfloat vector_min(vfloat a, vfloat b) {
#if defined(__AVX512F__)
  return (vfloat)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vfloat)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return choose(a < b, a, b);
#endif
}

INLINE vdouble to_double(vfloat x) {
  return __builtin_convertvector(x, vdouble);
}

/* Sum of the lanes, by halves: the same order for the same number of lanes. */
INLINE double sum_lanes(vdouble x) {
  double lanes[LANES];
  memcpy(lanes, &x, sizeof x);
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

INLINE float max_lanes(vfloat x) {
  float lanes[LANES];
  memcpy(lanes, &x, sizeof x);
  float result = lanes[0];
  for (int lane = 1; lane < LANES; lane++) result = lanes[lane] > result ? lanes[lane] : result;
  return result;
}

#endif
