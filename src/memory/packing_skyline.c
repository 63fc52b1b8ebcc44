/* The skyline decoder: always fills the lowest stretch of the wall with the best buffer that fits
 * into it in time.
 *
 * The wall is a list of segments, neighbours of different height. The lowest one (leftmost of
 * equals) either takes the buffer of least rank whose lifetime lies inside it, or, where none does,
 * is raised to its lower neighbour. Each step adds at most two segments or removes one, so a
 * packing takes O(n) steps. The candidates sit in a segment tree over buffers sorted by first
 * section; a node knows the least rank and the earliest end below it. Nested lifetimes, as forward
 * and backward passes make them, come out without holes. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "memory/packing_internal.h"

#define NONE UINT32_MAX

typedef struct segment {
  uint64_t height;
  uint32_t first, last;
  uint32_t left, right; /* neighbours */
  uint32_t slot;        /* position in the heap */
} segment;

typedef struct skyline {
  ull__packing_state *state;
  segment *segments;
  uint32_t segment_count;
  uint32_t *free_list, free_count;
  uint32_t *heap, heap_count;
  uint32_t *leaf_of; /* item -> leaf */
  uint32_t *starts;  /* section -> first leaf of items that begin there or later */
  uint32_t *least_rank, *least_end;
  uint32_t leaves;
} skyline;

static bool is_lower(const skyline *s, uint32_t a, uint32_t b) {
  const segment *x = &s->segments[a], *y = &s->segments[b];
  return x->height < y->height || (x->height == y->height && x->first < y->first);
}

static void put(skyline *s, uint32_t slot, uint32_t id) {
  s->heap[slot] = id;
  s->segments[id].slot = slot;
}

static void settle(skyline *s, uint32_t id) {
  uint32_t slot = s->segments[id].slot;
  for (; slot > 0 && is_lower(s, id, s->heap[(slot - 1) / 2]); slot = (slot - 1) / 2)
    put(s, slot, s->heap[(slot - 1) / 2]);
  for (uint32_t child; (child = 2 * slot + 1) < s->heap_count; slot = child) {
    if (child + 1 < s->heap_count && is_lower(s, s->heap[child + 1], s->heap[child])) child++;
    if (!is_lower(s, s->heap[child], id)) break;
    put(s, slot, s->heap[child]);
  }
  put(s, slot, id);
}

static uint32_t add_segment(skyline *s, segment value) {
  uint32_t id = s->free_count > 0 ? s->free_list[--s->free_count] : s->segment_count++;
  s->segments[id] = value;
  if (value.left != NONE) s->segments[value.left].right = id;
  if (value.right != NONE) s->segments[value.right].left = id;
  put(s, s->heap_count++, id);
  settle(s, id);
  return id;
}

static void remove_segment(skyline *s, uint32_t id) {
  segment gone = s->segments[id];
  if (gone.left != NONE) s->segments[gone.left].right = gone.right;
  if (gone.right != NONE) s->segments[gone.right].left = gone.left;
  uint32_t moved = s->heap[--s->heap_count];
  if (moved != id) {
    put(s, gone.slot, moved);
    settle(s, moved);
  }
  s->free_list[s->free_count++] = id;
}

/* Joins the segment with neighbours of the same height. */
static void join(skyline *s, uint32_t id) {
  segment *self = &s->segments[id];
  uint32_t left = self->left, right = self->right;
  if (right != NONE && s->segments[right].height == self->height) {
    self->last = s->segments[right].last;
    remove_segment(s, right);
  }
  if (left != NONE && s->segments[left].height == self->height) {
    uint32_t first = s->segments[left].first;
    remove_segment(s, left);
    self->first = first;
    settle(s, id);
  }
}

static void raise_to_neighbour(skyline *s, uint32_t id) {
  segment *self = &s->segments[id];
  uint64_t left = self->left == NONE ? UINT64_MAX : s->segments[self->left].height;
  uint64_t right = self->right == NONE ? UINT64_MAX : s->segments[self->right].height;
  self->height = left < right ? left : right;
  settle(s, id);
  join(s, id);
}

static void place(skyline *s, uint32_t id, uint32_t item) {
  const ull__packing_problem *p = s->state->problem;
  segment old = s->segments[id];
  s->state->trial[item] = old.height;
  segment *self = &s->segments[id];
  self->first = p->first[item];
  self->last = p->last[item];
  self->height = old.height + p->size[item];
  settle(s, id);
  if (old.first < p->first[item])
    add_segment(s, (segment){.height = old.height,
                             .first = old.first,
                             .last = p->first[item] - 1,
                             .left = old.left,
                             .right = id});
  if (old.last > p->last[item])
    add_segment(s, (segment){.height = old.height,
                             .first = p->last[item] + 1,
                             .last = old.last,
                             .left = id,
                             .right = old.right});
  join(s, id);
}

static uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

static void remove_item(skyline *s, uint32_t item) {
  uint32_t node = s->leaf_of[item] + s->leaves;
  s->least_rank[node] = s->least_end[node] = NONE;
  while (node >>= 1) {
    s->least_rank[node] = smaller(s->least_rank[2 * node], s->least_rank[2 * node + 1]);
    s->least_end[node] = smaller(s->least_end[2 * node], s->least_end[2 * node + 1]);
  }
}

/* The least rank below `node` that is under `bound` and ends by `end`; `bound` where there is none.
 */
static uint32_t search(const skyline *s, uint32_t node, uint32_t end, uint32_t bound) {
  if (s->least_rank[node] >= bound || s->least_end[node] > end) return bound;
  if (node >= s->leaves) return s->least_rank[node];
  uint32_t near = 2 * node, far = 2 * node + 1;
  if (s->least_rank[far] < s->least_rank[near]) near = far, far = 2 * node;
  bound = search(s, near, end, bound);
  return search(s, far, end, bound);
}

static uint32_t find_item(const skyline *s, const segment *where) {
  uint32_t rank = NONE;
  uint32_t l = s->starts[where->first] + s->leaves, r = s->starts[where->last + 1] + s->leaves;
  for (; l < r; l >>= 1, r >>= 1) {
    if (l & 1) rank = search(s, l++, where->last, rank);
    if (r & 1) rank = search(s, --r, where->last, rank);
  }
  return rank == NONE ? NONE : s->state->order[rank];
}

static ull_status allocate(skyline *s) {
  const ull__packing_problem *p = s->state->problem;
  size_t segments = 2 * (size_t)p->count + 2;
  for (s->leaves = 1; s->leaves < p->count; s->leaves *= 2) {
  }
  s->segments = ull__alloc(segments, sizeof *s->segments);
  s->free_list = ull__alloc(segments, sizeof(uint32_t));
  s->heap = ull__alloc(segments, sizeof(uint32_t));
  s->leaf_of = ull__alloc(p->count, sizeof(uint32_t));
  s->starts = ull__alloc((size_t)p->sections + 2, sizeof(uint32_t));
  s->least_rank = ull__alloc(2 * (size_t)s->leaves, sizeof(uint32_t));
  s->least_end = ull__alloc(2 * (size_t)s->leaves, sizeof(uint32_t));
  bool ok = s->segments && s->free_list && s->heap && s->leaf_of && s->starts && s->least_rank &&
            s->least_end;
  return ok ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static void release(skyline *s) {
  void *all[] = {s->segments, s->free_list,  s->heap,     s->leaf_of,
                 s->starts,   s->least_rank, s->least_end};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) ull__free(all[i]);
}

/* Counting sort of the items by first section, then the tree above them. */
static void build_tree(skyline *s) {
  const ull__packing_problem *p = s->state->problem;
  for (uint32_t i = 0; i < p->count; i++) s->starts[p->first[i] + 1]++;
  for (uint32_t t = 0; t <= p->sections; t++) s->starts[t + 1] += s->starts[t];
  memset(s->least_rank, 0xff, 2 * (size_t)s->leaves * sizeof(uint32_t));
  memset(s->least_end, 0xff, 2 * (size_t)s->leaves * sizeof(uint32_t));
  for (uint32_t i = 0; i < p->count; i++) {
    uint32_t leaf = s->starts[p->first[i]]++;
    s->leaf_of[i] = leaf;
    s->least_end[leaf + s->leaves] = p->last[i];
  }
  for (uint32_t t = p->sections + 1; t > 0; t--) s->starts[t] = s->starts[t - 1];
  s->starts[0] = 0;
  for (uint32_t rank = 0; rank < p->count; rank++)
    s->least_rank[s->leaf_of[s->state->order[rank]] + s->leaves] = rank;
  for (uint32_t node = s->leaves - 1; node > 0; node--) {
    s->least_rank[node] = smaller(s->least_rank[2 * node], s->least_rank[2 * node + 1]);
    s->least_end[node] = smaller(s->least_end[2 * node], s->least_end[2 * node + 1]);
  }
}

ull_status ull__packing_skyline(ull__packing_state *state, uint64_t *height) {
  const ull__packing_problem *p = state->problem;
  skyline s = {.state = state};
  ull_status status = allocate(&s);
  if (status == ULL_OK) {
    build_tree(&s);
    add_segment(&s, (segment){.first = 0, .last = p->sections - 1, .left = NONE, .right = NONE});
    *height = 0;
    for (uint32_t placed = 0; placed < p->count;) {
      uint32_t id = s.heap[0], item = find_item(&s, &s.segments[id]);
      if (item == NONE) {
        raise_to_neighbour(&s, id);
        continue;
      }
      remove_item(&s, item);
      place(&s, id, item);
      if (state->trial[item] + p->size[item] > *height)
        *height = state->trial[item] + p->size[item];
      placed++;
    }
  }
  release(&s);
  return status;
}
