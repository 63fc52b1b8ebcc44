/* Counts what oneDNN takes from the heap.
 *
 * The library has no hook for it, and C libraries have none any more. So its own imports of malloc
 * and its like are pointed at counters, which call what they stood for: the tables of the objects
 * libdnnl and libstdc++ alone, nothing of the program or of any other library. Where that is not
 * possible (another object format, a static oneDNN) nothing is counted. */
#ifndef ULL_KERNELS_CPU_LIBRARY_HEAP_H
#define ULL_KERNELS_CPU_LIBRARY_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* Begins counting, for as long as the process lives; whether it does. Any thread. */
bool ull__library_heap_watch(void);

typedef struct ull__library_heap {
  uint64_t calls;      /* that took something */
  uint64_t most_bytes; /* at once */
  uint64_t kept_bytes; /* at the end, code included, by what of it is resident */
} ull__library_heap;

/* Between the two, on one thread at a time, all the library's threads are counted. */
void ull__library_heap_begin(void);
ull__library_heap ull__library_heap_end(void);

#endif
