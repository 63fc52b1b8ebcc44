/* Clocks of the system, in nanoseconds. */
#include "base/clock.h"

#include <time.h>

static uint64_t read_clock_ns(clockid_t clock) {
  struct timespec now = {0};
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ull__clock_now_ns(void) {
  return read_clock_ns(CLOCK_MONOTONIC);
}

uint64_t ull__clock_process_ns(void) {
  return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

double ull__clock_wall_seconds(void) {
  return (double)read_clock_ns(CLOCK_REALTIME) * 1e-9;
}
