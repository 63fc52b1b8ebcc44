/* Short words look for their best pair again after each merge; long ones keep a heap of chances,
 * where one that is out of date is known by its pair no longer being there. */
#include "data/text/merges.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"

enum { SHORT_WORD = 40 };
enum { NOTHING = -1 };

static uint64_t pair_of(uint32_t left, uint32_t right) {
  return (uint64_t)left << 32 | right;
}

static size_t slot_of(const ull__merges *merges, uint64_t pair) {
  uint64_t hash = pair * UINT64_C(0x9e3779b97f4a7c15);
  return (hash ^ hash >> 32) & (merges->slot_count - 1);
}

static ull__merge *find_slot(const ull__merges *merges, uint64_t pair) {
  size_t slot = slot_of(merges, pair);
  while (merges->slots[slot].id != UINT32_MAX && merges->slots[slot].pair != pair)
    slot = (slot + 1) & (merges->slot_count - 1);
  return &merges->slots[slot];
}

static ull_status grow(ull__merges *merges) {
  ull__merges more = {.slot_count = merges->slot_count ? merges->slot_count * 2 : 256};
  if ((merges->count + 1) * 2 <= merges->slot_count) return ULL_OK;
  more.slots = ull__alloc(more.slot_count, sizeof *more.slots);
  if (more.slots == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < more.slot_count; i++) more.slots[i].id = UINT32_MAX;
  for (size_t i = 0; i < merges->slot_count; i++) {
    if (merges->slots[i].id != UINT32_MAX)
      *find_slot(&more, merges->slots[i].pair) = merges->slots[i];
  }
  more.count = merges->count;
  ull__free(merges->slots);
  *merges = more;
  return ULL_OK;
}

ull_status ull__merges_put(ull__merges *merges, uint32_t left, uint32_t right, uint32_t rank,
                           uint32_t id) {
  ULL__TRY(grow(merges));
  ull__merge *slot = find_slot(merges, pair_of(left, right));
  merges->count += slot->id == UINT32_MAX;
  *slot = (ull__merge){pair_of(left, right), rank, id};
  return ULL_OK;
}

static const ull__merge *find_merge(const ull__merges *merges, uint32_t left, uint32_t right) {
  if (merges->slot_count == 0) return NULL;
  const ull__merge *slot = find_slot(merges, pair_of(left, right));
  return slot->id == UINT32_MAX ? NULL : slot;
}

void ull__merges_free(ull__merges *merges) {
  ull__free(merges->slots);
  *merges = (ull__merges){0};
}

/* ---- short words ---- */

static size_t merge_short(const ull__merges *merges, uint32_t *symbols, size_t count) {
  const ull__merge *chances[SHORT_WORD];
  for (size_t i = 0; i + 1 < count; i++)
    chances[i] = find_merge(merges, symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = count;
    uint32_t rank = UINT32_MAX;
    for (size_t i = 0; i + 1 < count; i++) {
      if (chances[i] == NULL || chances[i]->rank >= rank) continue;
      best = i;
      rank = chances[i]->rank;
    }
    if (best == count) break;
    symbols[best] = chances[best]->id;
    count--;
    memmove(symbols + best + 1, symbols + best + 2, (count - best - 1) * sizeof *symbols);
    if (best + 1 < count)
      memmove(chances + best + 1, chances + best + 2, (count - best - 2) * sizeof *chances);
    if (best + 1 < count) chances[best] = find_merge(merges, symbols[best], symbols[best + 1]);
    if (best > 0) chances[best - 1] = find_merge(merges, symbols[best - 1], symbols[best]);
  }
  return count;
}

/* ---- long words ---- */

typedef struct ull__merge_link {
  int32_t before, after; /* NOTHING at the ends */
  uint32_t symbol;       /* UINT32_MAX: merged into the one before */
} link;

typedef struct ull__merge_chance {
  uint32_t rank;
  int32_t at; /* the left one */
  uint32_t left, right;
} chance;

typedef struct heap {
  chance *items;
  size_t count;
} heap;

static bool is_before(const chance *a, const chance *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(heap *h, chance added) {
  size_t at = h->count++;
  while (at > 0 && is_before(&added, &h->items[(at - 1) / 2])) {
    h->items[at] = h->items[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  h->items[at] = added;
}

static chance pop(heap *h) {
  chance first = h->items[0], last = h->items[--h->count];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= h->count) break;
    if (child + 1 < h->count && is_before(&h->items[child + 1], &h->items[child])) child++;
    if (!is_before(&h->items[child], &last)) break;
    h->items[at] = h->items[child];
    at = child;
  }
  h->items[at] = last;
  return first;
}

static void offer(const ull__merges *merges, heap *h, const link *links, int32_t at) {
  if (at == NOTHING || links[at].after == NOTHING) return;
  uint32_t left = links[at].symbol, right = links[links[at].after].symbol;
  const ull__merge *merge = find_merge(merges, left, right);
  if (merge != NULL) push(h, (chance){merge->rank, at, left, right});
}

static void take(const ull__merges *merges, heap *h, link *links, const chance *best) {
  link *at = &links[best->at];
  if (at->symbol != best->left || at->after == NOTHING) return;
  link *gone = &links[at->after];
  if (gone->symbol != best->right) return;
  at->symbol = find_merge(merges, best->left, best->right)->id;
  at->after = gone->after;
  gone->symbol = UINT32_MAX;
  if (at->after != NOTHING) links[at->after].before = best->at;
  offer(merges, h, links, at->before);
  offer(merges, h, links, best->at);
}

/* Each merge offers two chances and ends one pair: 3 n are enough. */
static ull_status make_room(ull__merge_room *room, size_t count) {
  ULL__TRY(
      ull__vector_grow((void **)&room->links, &room->link_capacity, 0, count, sizeof *room->links));
  return ull__vector_grow((void **)&room->heap, &room->heap_capacity, 0, 3 * count,
                          sizeof *room->heap);
}

static ull_status merge_long(const ull__merges *merges, ull__merge_room *room, uint32_t *symbols,
                             size_t count, size_t *left) {
  ULL__TRY(make_room(room, count));
  link *links = room->links;
  heap h = {.items = room->heap};
  for (size_t i = 0; i < count; i++) {
    links[i] = (link){(int32_t)i - 1, i + 1 < count ? (int32_t)i + 1 : NOTHING, symbols[i]};
  }
  for (size_t i = 0; i + 1 < count; i++) offer(merges, &h, links, (int32_t)i);
  while (h.count > 0) {
    chance best = pop(&h);
    take(merges, &h, links, &best);
  }
  *left = 0;
  for (int32_t i = 0; i != NOTHING; i = links[i].after) symbols[(*left)++] = links[i].symbol;
  return ULL_OK;
}

ull_status ull__merges_apply(const ull__merges *merges, ull__merge_room *room, uint32_t *symbols,
                             size_t count, size_t *left) {
  if (count > SHORT_WORD) {
    if (count > INT32_MAX / 4) return ULL__FAIL(ULL_ERROR_OVERFLOW, "a word of %zu symbols", count);
    return merge_long(merges, room, symbols, count, left);
  }
  *left = merge_short(merges, symbols, count);
  return ULL_OK;
}

void ull__merge_room_free(ull__merge_room *room) {
  ull__free(room->links);
  ull__free(room->heap);
  *room = (ull__merge_room){0};
}
