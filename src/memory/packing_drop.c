/* The drop decoder: each buffer falls on the highest thing below it, as bricks on a wall.
 *
 * Every packing that cannot sink further is reached by dropping its buffers in order of offset, so
 * the orders are a complete search space. A segment tree over the sections answers "how high is the
 * wall in [first, last]": `floor` of a node holds for all its sections, `top` is the largest height
 * anywhere in it. What is dropped always becomes the highest thing in its range, so heights only
 * rise and nothing is ever pushed down the tree. */
#include <string.h>

#include "memory/packing_internal.h"

static inline uint64_t largest(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static uint64_t wall_height(const ull__packing_state *state, uint32_t first, uint32_t last) {
  uint64_t height = 0;
  uint32_t left = first + state->leaves, right = last + state->leaves + 1;
  for (uint32_t l = left, r = right; l < r; l >>= 1, r >>= 1) {
    if (l & 1) height = largest(height, state->top[l++]);
    if (r & 1) height = largest(height, state->top[--r]);
  }
  uint32_t a = left >> 1, b = (right - 1) >> 1;
  for (; a != b; a >>= 1, b >>= 1)
    height = largest(height, largest(state->floor[a], state->floor[b]));
  for (; a != 0; a >>= 1) height = largest(height, state->floor[a]);
  return height;
}

static void raise_wall(ull__packing_state *state, uint32_t first, uint32_t last, uint64_t height) {
  uint32_t left = first + state->leaves, right = last + state->leaves + 1;
  for (uint32_t l = left, r = right; l < r; l >>= 1, r >>= 1) {
    if (l & 1) {
      state->floor[l] = state->top[l] = height;
      l++;
    }
    if (r & 1) {
      r--;
      state->floor[r] = state->top[r] = height;
    }
  }
  uint32_t a = left >> 1, b = (right - 1) >> 1;
  for (; a != b; a >>= 1, b >>= 1) {
    state->top[a] = largest(state->top[a], height);
    state->top[b] = largest(state->top[b], height);
  }
  for (; a != 0; a >>= 1) state->top[a] = largest(state->top[a], height);
}

uint64_t ull__packing_drop(ull__packing_state *state, const uint32_t *order, uint64_t limit) {
  const ull__packing_problem *p = state->problem;
  size_t bytes = 2 * (size_t)state->leaves * sizeof(uint64_t);
  memset(state->floor, 0, bytes);
  memset(state->top, 0, bytes);
  uint64_t highest = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    uint32_t item = order[i];
    uint64_t offset = wall_height(state, p->first[item], p->last[item]);
    uint64_t top = offset + p->size[item];
    if (top > limit) return UINT64_MAX;
    state->trial[item] = offset;
    raise_wall(state, p->first[item], p->last[item], top);
    highest = largest(highest, top);
  }
  return highest;
}
