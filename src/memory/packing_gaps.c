/* The gap decoder: greedy placement in a given order, each buffer into the best or the lowest gap
 * between the buffers already placed that live with it.
 *
 * Placed buffers are kept sorted by offset in a list of blocks that split when full, like the
 * leaves of a B-tree. A block knows the span of its lifetimes, so a walk over gaps skips blocks
 * that live elsewhere in time. No interference list is ever built: a placement needs O(1) memory.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "memory/packing_internal.h"

enum { BLOCK_ITEMS = 64 };
#define NONE UINT32_MAX

typedef struct block {
  uint32_t count, next;
  uint32_t first, last; /* hull of the lifetimes */
  uint32_t item_first[BLOCK_ITEMS], item_last[BLOCK_ITEMS];
  uint64_t offset[BLOCK_ITEMS], top[BLOCK_ITEMS];
} block;

typedef struct blocks {
  block *items;
  uint32_t count;
} blocks;

typedef struct brick {
  uint64_t offset, top;
  uint32_t first, last;
} brick;

static uint64_t find_gap(const blocks *list, uint64_t size, uint32_t first, uint32_t last,
                         bool best_fit) {
  uint64_t height = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
  for (uint32_t at = 0; at != NONE; at = list->items[at].next) {
    const block *b = &list->items[at];
    if (b->count == 0 || b->first > last || b->last < first) continue;
    for (uint32_t i = 0; i < b->count; i++) {
      if (b->item_first[i] > last || b->item_last[i] < first || b->top[i] <= height) continue;
      if (b->offset[i] >= height + size && b->offset[i] - height < best_gap) {
        if (!best_fit) return height;
        best = height;
        best_gap = b->offset[i] - height;
      }
      height = b->top[i];
    }
  }
  return best_gap != UINT64_MAX ? best : height;
}

static void split_block(blocks *list, uint32_t at) {
  block *lower = &list->items[at], *upper = &list->items[list->count];
  uint32_t half = BLOCK_ITEMS / 2, bytes = half * (uint32_t)sizeof(uint64_t);
  memcpy(upper->offset, lower->offset + half, bytes);
  memcpy(upper->top, lower->top + half, bytes);
  memcpy(upper->item_first, lower->item_first + half, bytes / 2);
  memcpy(upper->item_last, lower->item_last + half, bytes / 2);
  upper->count = lower->count = half;
  upper->first = lower->first;
  upper->last = lower->last;
  upper->next = lower->next;
  lower->next = list->count++;
}

static uint32_t find_block(const blocks *list, uint64_t offset) {
  uint32_t at = 0;
  for (uint32_t next;
       (next = list->items[at].next) != NONE && list->items[next].offset[0] <= offset;)
    at = next;
  return at;
}

static void insert(blocks *list, const brick *new) {
  uint32_t at = find_block(list, new->offset);
  if (list->items[at].count == BLOCK_ITEMS) {
    split_block(list, at);
    at = find_block(list, new->offset);
  }
  block *b = &list->items[at];
  uint32_t i = b->count++;
  for (; i > 0 && b->offset[i - 1] > new->offset; i--) {
    b->offset[i] = b->offset[i - 1];
    b->top[i] = b->top[i - 1];
    b->item_first[i] = b->item_first[i - 1];
    b->item_last[i] = b->item_last[i - 1];
  }
  b->offset[i] = new->offset;
  b->top[i] = new->top;
  b->item_first[i] = new->first;
  b->item_last[i] = new->last;
  if (b->count == 1 || new->first < b->first) b->first = new->first;
  if (b->count == 1 || new->last > b->last) b->last = new->last;
}

ull_status ull__packing_gaps(ull__packing_state *state, bool best_fit, uint64_t *height) {
  const ull__packing_problem *p = state->problem;
  blocks list = {ull__alloc(p->count / (BLOCK_ITEMS / 2) + 2, sizeof(block)), 1};
  if (!list.items) return ULL_ERROR_OUT_OF_MEMORY;
  list.items[0].next = NONE;
  *height = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    uint32_t item = state->order[i];
    uint64_t at = find_gap(&list, p->size[item], p->first[item], p->last[item], best_fit);
    state->trial[item] = at;
    if (at + p->size[item] > *height) *height = at + p->size[item];
    insert(&list, &(brick){at, at + p->size[item], p->first[item], p->last[item]});
  }
  ull__free(list.items);
  return ULL_OK;
}
