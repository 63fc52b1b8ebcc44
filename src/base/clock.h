/* Time. Durations come from the monotonic clock; the calendar is only for people. */
#ifndef ULL_BASE_CLOCK_H
#define ULL_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary moment; never runs backwards. */
uint64_t ull__clock_now_ns(void);

/* Nanoseconds of processor time this process has used, all threads together. */
uint64_t ull__clock_process_ns(void);

/* Seconds since 1970. */
double ull__clock_wall_seconds(void);

#endif
