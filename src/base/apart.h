/* Work in a process of its own, for libraries that nobody wants inside: what they load, allocate or
 * break is gone with that process. */
#ifndef ULL_BASE_APART_H
#define ULL_BASE_APART_H

#include <stddef.h>

#include "ullage/status.h"

typedef ull_status (*ull__apart_work)(void *context);

/* Runs `work` in a copy of this process, and waits for it. Files it writes stay; of memory only the
 * `bytes` at `result` come back, which it changes in place. A failure comes back with its record.
 * Where the copy dies without one, `name` is named: ULL_ERROR_DATA after a crash,
 * ULL_ERROR_OUT_OF_MEMORY where it was killed, ULL_ERROR_STOPPED after an interrupt.
 *
 * `work` runs on the copy's only thread and must not wait for others. Its log messages are dropped.
 * Thread safe. */
ull_status ull__run_apart(const char *name, ull__apart_work work, void *context, void *result,
                          size_t bytes);

#endif
