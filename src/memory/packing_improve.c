/* Local search on the order in which buffers are dropped.
 *
 * The order of a packing by offset reproduces it. A move takes a buffer that ends above the lower
 * bound, or one of those it rests on some levels down, and puts it earlier in the order; the trial
 * is dropped anew and given up as soon as it rises above the current height. The cost is the
 * height, then the bytes above the lower bound summed over buffers; equal costs are accepted, so
 * that the search drifts over plateaus. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "memory/packing_internal.h"

typedef struct walk {
  ull__packing_state *state;
  uint64_t *current;  /* offsets of the packing the search stands on */
  uint32_t *sequence; /* its items by offset */
  uint32_t *trial;    /* the moved sequence */
  uint32_t *high;     /* items that end above the lower bound */
  uint32_t high_count;
  uint64_t height, excess;
  uint64_t random;
} walk;

static uint32_t draw(walk *w, uint32_t bound) {
  uint64_t z = (w->random += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (uint32_t)(((z >> 32) * bound) >> 32);
}

static uint64_t sum_excess(const ull__packing_problem *p, const uint64_t *offset) {
  uint64_t excess = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    uint64_t top = offset[i] + p->size[i];
    if (top > p->lower_bound) excess += top - p->lower_bound;
  }
  return excess;
}

static void adopt(walk *w, const uint64_t *offset, uint64_t height) {
  const ull__packing_problem *p = w->state->problem;
  memmove(w->current, offset, p->count * sizeof *offset);
  w->height = height;
  w->excess = sum_excess(p, offset);
  ull__packing_order_by_offset(w->state, offset);
  memcpy(w->sequence, w->state->order, p->count * sizeof(uint32_t));
  w->high_count = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    w->state->rank[w->sequence[i]] = i;
    if (offset[i] + p->size[i] > p->lower_bound) w->high[w->high_count++] = i;
  }
}

/* One of the items that `item` rests on, UINT32_MAX on the ground. */
static uint32_t find_support(walk *w, uint32_t item) {
  const ull__packing_problem *p = w->state->problem;
  uint32_t found = UINT32_MAX, seen = 0;
  if (w->current[item] == 0) return found;
  for (uint32_t i = 0; i < p->count; i++) {
    if (w->current[i] + p->size[i] != w->current[item]) continue;
    if (p->first[i] > p->last[item] || p->last[i] < p->first[item]) continue;
    if (draw(w, ++seen) == 0) found = i;
  }
  return found;
}

static uint32_t choose_item(walk *w) {
  uint32_t item = w->high[draw(w, w->high_count)];
  while (draw(w, 3) != 0) {
    uint32_t below = find_support(w, item);
    if (below == UINT32_MAX) break;
    item = below;
  }
  return item;
}

/* Copies the sequence with one item moved to an earlier place; false where it has none. */
static bool move_earlier(walk *w, uint32_t item) {
  uint32_t from = w->state->rank[item];
  if (from == 0) return false;
  uint32_t reach = draw(w, 2) ? from : (from < 16 ? from : 16);
  uint32_t to = from - 1 - draw(w, reach);
  memcpy(w->trial, w->sequence, w->state->problem->count * sizeof(uint32_t));
  memmove(w->trial + to + 1, w->trial + to, (from - to) * sizeof(uint32_t));
  w->trial[to] = item;
  return true;
}

static bool step(walk *w) {
  ull__packing_state *state = w->state;
  bool moved = move_earlier(w, choose_item(w));
  if (moved && draw(w, 4) == 0) {
    uint32_t a = draw(w, state->problem->count), b = draw(w, state->problem->count);
    uint32_t swap = w->trial[a];
    w->trial[a] = w->trial[b];
    w->trial[b] = swap;
  }
  uint64_t height = moved ? ull__packing_drop(state, w->trial, w->height) : UINT64_MAX;
  if (height == UINT64_MAX) {
    state->orders_tried++;
    return false;
  }
  uint64_t excess = sum_excess(state->problem, state->trial);
  bool done = ull__packing_consider(state, height);
  if (height < w->height || excess <= w->excess) adopt(w, state->trial, height);
  return done;
}

ull_status ull__packing_improve(ull__packing_state *state, uint64_t orders, uint64_t seed) {
  uint32_t count = state->problem->count;
  walk w = {.state = state, .random = seed};
  w.current = ull__alloc(count, sizeof(uint64_t));
  w.sequence = ull__alloc(count, sizeof(uint32_t));
  w.trial = ull__alloc(count, sizeof(uint32_t));
  w.high = ull__alloc(count, sizeof(uint32_t));
  bool ok = w.current && w.sequence && w.trial && w.high;
  if (ok) {
    adopt(&w, state->best, state->height);
    for (uint64_t i = 0; i < orders && !step(&w); i++) {
    }
  }
  ull__free(w.current);
  ull__free(w.sequence);
  ull__free(w.trial);
  ull__free(w.high);
  return ok ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}
