/* The verifier of packings: a sweep over time with the live buffers in a balanced tree keyed by
 * offset.
 *
 * A buffer that is born is compared with its neighbours below and above only: while the live
 * buffers are disjoint, no other can touch it. The tree is a treap whose priorities are a hash of
 * the index. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "memory/packing.h"

#define NONE UINT32_MAX

typedef struct node {
  uint32_t left, right;
  uint32_t priority;
} node;

typedef struct event {
  uint64_t
      time; /* 2 * instruction + 1 for a birth; 2 * (last + 1) for a death: deaths come first */
  uint32_t buffer;
} event;

typedef struct check {
  const ull__packing_buffer *buffers;
  node *nodes;
  uint32_t root;
} check;

static bool lies_below(const check *c, uint32_t a, uint32_t b) {
  uint64_t x = c->buffers[a].offset_bytes, y = c->buffers[b].offset_bytes;
  return x < y || (x == y && a < b);
}

static uint32_t hash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

static void split(check *c, uint32_t tree, uint32_t at, uint32_t *below, uint32_t *above) {
  while (tree != NONE) {
    if (lies_below(c, tree, at)) {
      *below = tree;
      below = &c->nodes[tree].right;
      tree = *below;
    } else {
      *above = tree;
      above = &c->nodes[tree].left;
      tree = *above;
    }
  }
  *below = *above = NONE;
}

static void insert(check *c, uint32_t item) {
  uint32_t *link = &c->root;
  while (*link != NONE && c->nodes[*link].priority >= c->nodes[item].priority)
    link = lies_below(c, item, *link) ? &c->nodes[*link].left : &c->nodes[*link].right;
  uint32_t rest = *link;
  *link = item;
  split(c, rest, item, &c->nodes[item].left, &c->nodes[item].right);
}

static void erase(check *c, uint32_t item) {
  uint32_t *link = &c->root;
  while (*link != item)
    link = lies_below(c, item, *link) ? &c->nodes[*link].left : &c->nodes[*link].right;
  uint32_t left = c->nodes[item].left, right = c->nodes[item].right;
  while (left != NONE && right != NONE) {
    if (c->nodes[left].priority >= c->nodes[right].priority) {
      *link = left;
      link = &c->nodes[left].right;
      left = *link;
    } else {
      *link = right;
      link = &c->nodes[right].left;
      right = *link;
    }
  }
  *link = left != NONE ? left : right;
}

static void find_neighbours(const check *c, uint32_t item, uint32_t *below, uint32_t *above) {
  *below = *above = NONE;
  for (uint32_t at = c->root; at != NONE;) {
    if (lies_below(c, at, item)) {
      *below = at;
      at = c->nodes[at].right;
    } else {
      *above = at;
      at = c->nodes[at].left;
    }
  }
}

static ull_status fail_overlap(const check *c, uint32_t a, uint32_t b) {
  const ull__packing_buffer *x = &c->buffers[a], *y = &c->buffers[b];
  return ULL__FAIL(ULL_ERROR_INTERNAL,
                   "buffers %" PRIu32 " (offset %" PRIu64 ", %" PRIu64 " bytes) and %" PRIu32
                   " (offset %" PRIu64 ", %" PRIu64 " bytes) overlap while both live",
                   a, x->offset_bytes, x->size_bytes, b, y->offset_bytes, y->size_bytes);
}

static ull_status give_birth(check *c, uint32_t item) {
  uint32_t below, above;
  find_neighbours(c, item, &below, &above);
  const ull__packing_buffer *b = c->buffers;
  if (below != NONE && b[below].offset_bytes + b[below].size_bytes > b[item].offset_bytes)
    return fail_overlap(c, below, item);
  if (above != NONE && b[item].offset_bytes + b[item].size_bytes > b[above].offset_bytes)
    return fail_overlap(c, item, above);
  insert(c, item);
  return ULL_OK;
}

static void sift_down(event *events, size_t at, size_t count) {
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && events[child + 1].time > events[child].time) child++;
    if (events[at].time >= events[child].time) return;
    event swap = events[at];
    events[at] = events[child];
    events[child] = swap;
  }
}

static void sort_events(event *events, size_t count) {
  for (size_t i = count / 2; i-- > 0;) sift_down(events, i, count);
  for (size_t end = count; end-- > 1;) {
    event swap = events[0];
    events[0] = events[end];
    events[end] = swap;
    sift_down(events, 0, end);
  }
}

static ull_status check_buffer(const ull__packing_buffer *b, size_t index, uint64_t alignment,
                               uint64_t height_bytes) {
  if (b->last < b->first)
    return ULL__FAIL(ULL_ERROR_INVALID, "buffer %zu ends before it begins", index);
  if (b->offset_bytes % alignment != 0)
    return ULL__FAIL(ULL_ERROR_INTERNAL,
                     "buffer %zu lies at offset %" PRIu64 ", not aligned to %" PRIu64, index,
                     b->offset_bytes, alignment);
  if (b->size_bytes > height_bytes || b->offset_bytes > height_bytes - b->size_bytes)
    return ULL__FAIL(ULL_ERROR_INTERNAL,
                     "buffer %zu (offset %" PRIu64 ", %" PRIu64
                     " bytes) leaves the arena of %" PRIu64 " bytes",
                     index, b->offset_bytes, b->size_bytes, height_bytes);
  return ULL_OK;
}

static ull_status sweep(check *c, const event *events, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (events[i].time & 1)
      ULL__TRY(give_birth(c, events[i].buffer));
    else
      erase(c, events[i].buffer);
  }
  return ULL_OK;
}

ull_status ull__packing_check(const ull__packing_buffer *buffers, size_t count, uint64_t alignment,
                              uint64_t height_bytes) {
  if (alignment == 0 || count >= NONE)
    return ULL__FAIL(ULL_ERROR_INVALID, "%zu buffers at alignment %" PRIu64, count, alignment);
  check c = {buffers, ull__alloc(count, sizeof(node)), NONE};
  event *events = ull__alloc(2 * count, sizeof(event));
  ull_status status = c.nodes && events ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  size_t event_count = 0;
  for (size_t i = 0; i < count && status == ULL_OK; i++) {
    status = check_buffer(&buffers[i], i, alignment, height_bytes);
    if (status != ULL_OK || buffers[i].size_bytes == 0) continue;
    c.nodes[i] = (node){NONE, NONE, hash((uint32_t)i)};
    events[event_count++] = (event){2 * (uint64_t)buffers[i].first + 1, (uint32_t)i};
    events[event_count++] = (event){2 * ((uint64_t)buffers[i].last + 1), (uint32_t)i};
  }
  if (status == ULL_OK) {
    sort_events(events, event_count);
    status = sweep(&c, events, event_count);
  }
  ull__free(events);
  ull__free(c.nodes);
  return status;
}
