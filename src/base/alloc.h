/* The one door to the heap: tagged, counted, checked, and able to fail on demand.
 *
 * Everything Ullage itself allocates goes through here; nothing else calls malloc. Arenas that hold
 * tensors do not: they are mapped by devices (src/memory). Counters are exact and cost one relaxed
 * atomic addition. */
#ifndef ULL_BASE_ALLOC_H
#define ULL_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

/* Zeroed memory for `count` items of `size` bytes; NULL with a record when the product overflows or
 * memory is out. A count of 0 gives a valid pointer that may be freed. */
void *ull__alloc(size_t count, size_t size);

/* As realloc for arrays; the old array stays valid when NULL is returned. New bytes are not zeroed.
 */
void *ull__realloc(void *pointer, size_t count, size_t size);

/* Memory aligned to `alignment` (a power of two), not zeroed. Freed with ull__free. */
void *ull__alloc_aligned(size_t alignment, size_t bytes);

char *ull__strdup(const char *text);
char *ull__strndup(const char *text, size_t length);

/* printf into fresh memory; NULL with a record when memory is out. */
char *ull__format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* NULL is allowed. */
void ull__free(void *pointer);

typedef struct ull__alloc_counts {
  uint64_t calls;      /* allocations and reallocations since the process began */
  uint64_t live_bytes; /* usable bytes now on loan */
  uint64_t peak_bytes; /* the most live_bytes has been */
} ull__alloc_counts;

ull__alloc_counts ull__alloc_count(void);

/* Fault injection for tests: the n-th allocation from now fails (1 = the next). 0 switches it off.
 */
void ull__alloc_fail_at(uint64_t n);

#endif
