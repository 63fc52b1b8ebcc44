/* Orders of items: by measures of the items, and by what a packing says. Sorting is stable and by
 * integers, so that an order is a function of the problem alone. */
#include <string.h>

#include "memory/packing_internal.h"

enum { RUN = 16 };

static void sort_run(ull__packing_entry *entries, size_t count) {
  for (size_t i = 1; i < count; i++) {
    ull__packing_entry entry = entries[i];
    size_t at = i;
    for (; at > 0 && entries[at - 1].key > entry.key; at--) entries[at] = entries[at - 1];
    entries[at] = entry;
  }
}

void ull__packing_sort(ull__packing_entry *entries, ull__packing_entry *scratch, size_t count) {
  for (size_t i = 0; i < count; i += RUN) sort_run(entries + i, count - i < RUN ? count - i : RUN);
  ull__packing_entry *from = entries, *to = scratch;
  for (size_t width = RUN; width < count; width *= 2) {
    for (size_t begin = 0; begin < count; begin += 2 * width) {
      size_t middle = begin + width < count ? begin + width : count;
      size_t end = middle + width < count ? middle + width : count;
      size_t a = begin, b = middle;
      for (size_t i = begin; i < end; i++)
        to[i] = a < middle && (b == end || from[a].key <= from[b].key) ? from[a++] : from[b++];
    }
    ull__packing_entry *swap = from;
    from = to;
    to = swap;
  }
  if (from != entries) memcpy(entries, from, count * sizeof *entries);
}

void ull__packing_take_order(ull__packing_state *state) {
  uint32_t count = state->problem->count;
  ull__packing_sort(state->entries, state->entries_scratch, count);
  for (uint32_t i = 0; i < count; i++) state->order[i] = state->entries[i].item;
}

void ull__packing_order_by_offset(ull__packing_state *state, const uint64_t *offset) {
  for (uint32_t i = 0; i < state->problem->count; i++)
    state->entries[i] = (ull__packing_entry){offset[i], i};
  ull__packing_take_order(state);
}

/* Bits of a double >= 0, which sort as the number does. */
static uint64_t sortable(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint64_t find_largest_load(const ull__packing_problem *p, uint32_t item) {
  uint64_t load = 0;
  for (uint32_t t = p->first[item]; t <= p->last[item]; t++)
    if (p->load[t] > load) load = p->load[t];
  return load;
}

/* The key by which the item comes earlier the smaller it is. */
static uint64_t measure_item(const ull__packing_problem *p, ull__packing_measure what,
                             uint32_t item) {
  uint32_t first = p->first[item], last = p->last[item];
  switch (what) {
  case ULL__PACKING_LIFETIME:
    return UINT32_MAX - (last - first);
  case ULL__PACKING_SIZE:
    return UINT64_MAX - p->size[item];
  case ULL__PACKING_AREA:
    return UINT64_MAX - sortable((double)p->size[item] * (last - first + 1));
  case ULL__PACKING_PEAK:
    return first > p->peak ? first - p->peak : last < p->peak ? p->peak - last : 0;
  case ULL__PACKING_START:
    return first;
  case ULL__PACKING_LOAD:
    return UINT64_MAX - find_largest_load(p, item);
  case ULL__PACKING_INDEX:
    break;
  }
  return item;
}

void ull__packing_order_by(ull__packing_state *state, const ull__packing_measure *measures,
                           size_t measure_count) {
  const ull__packing_problem *p = state->problem;
  for (uint32_t i = 0; i < p->count; i++) state->entries[i].item = i;
  for (size_t m = measure_count; m-- > 0;) {
    for (uint32_t i = 0; i < p->count; i++)
      state->entries[i].key = measure_item(p, measures[m], state->entries[i].item);
    ull__packing_sort(state->entries, state->entries_scratch, p->count);
  }
  for (uint32_t i = 0; i < p->count; i++) state->order[i] = state->entries[i].item;
}
