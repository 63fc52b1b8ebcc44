/* Byte pair encoding: which pairs of symbols merge into which, and the loop that merges them.
 *
 * The rule of Sennrich et al. ("Neural machine translation of rare words with subword units",
 * 2016): of all neighbours that may merge, those of the lowest rank do, the leftmost first. */
#ifndef ULL_DATA_TEXT_MERGES_H
#define ULL_DATA_TEXT_MERGES_H

#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

typedef struct ull__merge {
  uint64_t pair; /* left and right, 32 bits each */
  uint32_t rank, id;
} ull__merge;

/* Zero-initialise; read by any number of threads once it is complete. */
typedef struct ull__merges {
  ull__merge *slots; /* id UINT32_MAX: free */
  size_t slot_count, count;
} ull__merges;

/* A pair that is there already takes the new rank. */
ull_status ull__merges_put(ull__merges *merges, uint32_t left, uint32_t right, uint32_t rank,
                           uint32_t id);
void ull__merges_free(ull__merges *merges);

/* What the loop works in; grows to the longest word. Zero-initialise. */
typedef struct ull__merge_room {
  struct ull__merge_link *links;
  size_t link_capacity;
  struct ull__merge_chance *heap;
  size_t heap_capacity;
} ull__merge_room;

/* Merges `count` symbols in place; *left of them remain. Time n log n. */
ull_status ull__merges_apply(const ull__merges *merges, ull__merge_room *room, uint32_t *symbols,
                             size_t count, size_t *left);
void ull__merge_room_free(ull__merge_room *room);

#endif
