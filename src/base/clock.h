/* Time, from the monotonic clock. */
#ifndef ULL_BASE_CLOCK_H
#define ULL_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary moment; never runs backwards. */
uint64_t ull__clock_now_ns(void);

#endif
