/* A clock cheap enough for every row of a picture: the processor's time stamp counter where there
 * is one, read against the monotonic clock when times are asked for. */
#ifndef ULL_DATA_TICKS_H
#define ULL_DATA_TICKS_H

#include <stdint.h>

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t ull__ticks_now(void) {
  return __rdtsc();
}
#else
static inline uint64_t ull__ticks_now(void) {
  return ull__clock_now_ns();
}
#endif

/* A moment on both clocks. */
typedef struct ull__ticks {
  uint64_t ticks, ns;
} ull__ticks;

static inline ull__ticks ull__ticks_begin(void) {
  return (ull__ticks){ull__ticks_now(), ull__clock_now_ns()};
}

/* Nanoseconds in a tick, as measured since `begin`. */
static inline double ull__ticks_ns(const ull__ticks *begin) {
  ull__ticks now = ull__ticks_begin();
  if (now.ticks <= begin->ticks) return 0;
  return (double)(now.ns - begin->ns) / (double)(now.ticks - begin->ticks);
}

#endif
