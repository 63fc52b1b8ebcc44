/* A range of bytes inside a slab. Plans and programs write places this way, never as addresses. */
#ifndef ULL_MEMORY_SPAN_H
#define ULL_MEMORY_SPAN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__span {
  uint32_t slab;
  uint64_t offset;
  uint64_t bytes;
} ull__span;

/* One past the last byte. Offsets and sizes stay below 2^63, so the sum is exact. */
static inline uint64_t ull__span_end(ull__span span) {
  return span.offset + span.bytes;
}

/* Whether the two share a byte; an empty span shares none. */
static inline bool ull__span_overlaps(ull__span a, ull__span b) {
  return a.slab == b.slab && a.bytes > 0 && b.bytes > 0 && a.offset < ull__span_end(b) &&
         b.offset < ull__span_end(a);
}

/* Whether `inner` lies in `outer`; an empty span may sit at its end. */
static inline bool ull__span_contains(ull__span outer, ull__span inner) {
  return outer.slab == inner.slab && inner.offset >= outer.offset &&
         ull__span_end(inner) <= ull__span_end(outer);
}

#endif
