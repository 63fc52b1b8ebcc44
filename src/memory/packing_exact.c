/* Canonical branch and bound: is there a packing of at most `target` bytes?
 *
 * Buffers are placed by ascending offset, each as low as what lies below it allows, so every
 * packing that cannot sink is met once. At a node, `level` is the offset placed last; all others
 * must end up at or above it. Pruning:
 * - a section's floor is the least offset that any of its open buffers may get; floor + open bytes
 * must fit the target;
 * - a buffer is no candidate where another open one would fit entirely below it (that one could
 * sink there);
 * - one that rests on nothing at the level is no candidate: it should have been placed before;
 * - sections that no open buffer crosses split the rest into parts that are solved one by one, each
 * with its own level;
 * - where a buffer has no open buffer above it, its place is not to blame for a failure: the node
 * fails at once. Effort is counted in open buffers visited. Three orders of the candidates take
 * turns with doubling limits. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"
#include "memory/packing_internal.h"

#define NONE UINT32_MAX

enum { LARGEST_COUNT = 4000 };

typedef enum outcome { SOLVED, REFUTED, GIVEN_UP } outcome;

typedef struct change {
  uint64_t lowest;
  uint32_t item;
} change;

typedef struct solver {
  ull__packing_state *state;
  uint64_t target;
  uint64_t visits, limit;
  uint64_t *lowest;      /* item -> top of what it must rest on so far */
  uint64_t *open;        /* section -> bytes of open items */
  uint32_t *next, *prev; /* open items by first section; the list's head is item `count` */
  uint32_t *paint;       /* section -> next section without a floor, for one node */
  ULL__VECTOR(change) trail;
  ULL__VECTOR(uint32_t) placed;
  ull_status status;
} solver;

/* The open items of one part: sections [first, last], items from `begin` up to but not including
 * `end`. */
typedef struct part {
  uint32_t begin, end;
  uint64_t level;
  uint32_t level_rank;
} part;

static outcome solve(solver *s, part part);

static inline uint64_t largest(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static bool place(solver *s, const part *where, uint32_t item, uint64_t offset) {
  const ull__packing_problem *p = s->state->problem;
  uint64_t top = offset + p->size[item];
  bool covered = false;
  s->state->trial[item] = offset;
  s->next[s->prev[item]] = s->next[item];
  s->prev[s->next[item]] = s->prev[item];
  for (uint32_t t = p->first[item]; t <= p->last[item]; t++) s->open[t] -= p->size[item];
  if (ull__vector_push(&s->placed, item) != ULL_OK) s->status = ULL_ERROR_OUT_OF_MEMORY;
  uint32_t begin = where->begin == item ? s->next[item] : where->begin;
  for (uint32_t i = begin; i != where->end && p->first[i] <= p->last[item]; i = s->next[i]) {
    if (p->last[i] < p->first[item]) continue;
    covered = true;
    if (s->lowest[i] >= top) continue;
    change old = {s->lowest[i], i};
    if (ull__vector_push(&s->trail, old) != ULL_OK) s->status = ULL_ERROR_OUT_OF_MEMORY;
    s->lowest[i] = top;
  }
  return covered;
}

static void undo(solver *s, size_t placed, size_t trail) {
  const ull__packing_problem *p = s->state->problem;
  while (s->trail.count > trail) {
    change old = s->trail.items[--s->trail.count];
    s->lowest[old.item] = old.lowest;
  }
  while (s->placed.count > placed) {
    uint32_t item = s->placed.items[--s->placed.count];
    s->next[s->prev[item]] = s->prev[s->next[item]] = item;
    for (uint32_t t = p->first[item]; t <= p->last[item]; t++) s->open[t] += p->size[item];
  }
}

/* Gives each section the least offset among its open items and checks that the open bytes fit above
 * it. */
static bool floors_fit(solver *s, uint32_t count) {
  const ull__packing_problem *p = s->state->problem;
  ull__packing_entry *entries = s->state->entries;
  ull__packing_sort(entries, s->state->entries_scratch, count);
  bool fit = true;
  for (uint32_t i = 0; i < count && fit; i++) {
    uint32_t item = entries[i].item, t = p->first[item];
    while (t <= p->last[item]) {
      if (s->paint[t] != t) {
        uint32_t beyond = s->paint[s->paint[t]];
        s->paint[t] = beyond;
        t = beyond;
        continue;
      }
      if (entries[i].key + s->open[t] > s->target) fit = false;
      s->paint[t] = t + 1;
      t++;
    }
  }
  return fit;
}

typedef struct survey {
  uint32_t count;
  uint64_t least_top; /* least end of an item placed now */
  uint32_t gap; /* first item after a section that no open item crosses; the part's end where there
                   is none */
} survey;

static survey look(solver *s, const part *part) {
  const ull__packing_problem *p = s->state->problem;
  survey found = {.least_top = UINT64_MAX, .gap = part->end};
  uint32_t reach = p->last[part->begin];
  for (uint32_t i = part->begin; i != part->end; i = s->next[i]) {
    uint64_t offset = largest(s->lowest[i], part->level);
    if (offset + p->size[i] < found.least_top) found.least_top = offset + p->size[i];
    if (p->first[i] > reach && found.gap == part->end) found.gap = i;
    if (p->last[i] > reach) reach = p->last[i];
    s->state->entries[found.count++] = (ull__packing_entry){offset, i};
  }
  for (uint32_t t = p->first[part->begin]; t <= reach; t++) s->paint[t] = t;
  s->paint[reach + 1] = reach + 1;
  s->visits += found.count;
  return found;
}

/* The next candidate after (offset, rank) in that order, NONE at the end. */
static uint32_t find_candidate(const solver *s, const part *part, uint64_t least_top,
                               uint64_t offset, uint32_t rank, bool inclusive) {
  const uint32_t *ranks = s->state->rank;
  uint32_t best = NONE;
  for (uint32_t i = part->begin; i != part->end; i = s->next[i]) {
    uint64_t at = s->lowest[i];
    if (at >= least_top || at < offset) continue;
    if (at == offset && (inclusive ? ranks[i] < rank : ranks[i] <= rank)) continue;
    if (best != NONE && (at > s->lowest[best] || (at == s->lowest[best] && ranks[i] > ranks[best])))
      continue;
    best = i;
  }
  return best;
}

static outcome branch(solver *s, const part *part, uint64_t least_top) {
  uint64_t offset = part->level;
  uint32_t rank = part->level_rank;
  bool inclusive = true;
  for (uint32_t item;
       (item = find_candidate(s, part, least_top, offset, rank, inclusive)) != NONE;) {
    size_t placed = s->placed.count, trail = s->trail.count;
    offset = s->lowest[item];
    rank = s->state->rank[item];
    inclusive = false;
    struct part rest = {part->begin == item ? s->next[item] : part->begin, part->end, offset, rank};
    bool covered = place(s, part, item, offset);
    outcome result = s->status == ULL_OK ? solve(s, rest) : GIVEN_UP;
    if (result == SOLVED) return SOLVED;
    undo(s, placed, trail);
    if (result == GIVEN_UP || !covered) return result;
  }
  return REFUTED;
}

static outcome solve(solver *s, part part) {
  if (part.begin == part.end) return SOLVED;
  survey found = look(s, &part);
  if (s->visits > s->limit) return GIVEN_UP;
  if (!floors_fit(s, found.count)) return REFUTED;
  if (found.gap == part.end) return branch(s, &part, found.least_top);
  size_t placed = s->placed.count, trail = s->trail.count;
  struct part left = part, right = part;
  left.end = right.begin = found.gap;
  outcome result = solve(s, left);
  if (result == SOLVED) result = solve(s, right);
  if (result != SOLVED) undo(s, placed, trail);
  return result;
}

/* All items open, in order of first section. */
static uint32_t open_all(solver *s) {
  const ull__packing_problem *p = s->state->problem;
  for (uint32_t i = 0; i < p->count; i++) {
    s->state->entries[i] = (ull__packing_entry){p->first[i], i};
    s->lowest[i] = 0;
  }
  memcpy(s->open, p->load, p->sections * sizeof(uint64_t));
  ull__packing_sort(s->state->entries, s->state->entries_scratch, p->count);
  uint32_t before = p->count;
  for (uint32_t i = 0; i < p->count; i++) {
    uint32_t item = s->state->entries[i].item;
    s->next[before] = item;
    s->prev[item] = before;
    before = item;
  }
  s->next[before] = p->count;
  s->prev[p->count] = before;
  s->trail.count = s->placed.count = 0;
  return s->next[p->count];
}

static outcome attempt(solver *s, uint64_t target, unsigned turn, uint64_t limit) {
  const ull__packing_problem *p = s->state->problem;
  static const ull__packing_measure orders[3][3] = {
      {ULL__PACKING_LIFETIME, ULL__PACKING_AREA, ULL__PACKING_LOAD},
      {ULL__PACKING_LOAD, ULL__PACKING_AREA, ULL__PACKING_LIFETIME},
      {ULL__PACKING_LOAD, ULL__PACKING_LIFETIME, ULL__PACKING_AREA},
  };
  ull__packing_order_by(s->state, orders[turn % 3], 3);
  for (uint32_t i = 0; i < p->count; i++) s->state->rank[s->state->order[i]] = i;
  s->target = target;
  s->limit = s->visits + limit;
  outcome result = solve(s, (part){open_all(s), p->count, 0, 0});
  s->state->orders_tried++;
  return result;
}

static uint64_t measure_height(const ull__packing_state *state) {
  const ull__packing_problem *p = state->problem;
  uint64_t height = 0;
  for (uint32_t i = 0; i < p->count; i++) height = largest(height, state->trial[i] + p->size[i]);
  return height;
}

/* Tries one target with all orders in turn until `visits` more are spent. */
static outcome try_target(solver *s, uint64_t target, uint64_t visits) {
  uint64_t count = s->state->problem->count, end = s->visits + visits;
  uint64_t limit = 2 * count * count + 1000;
  for (unsigned turn = 0; s->visits < end; turn++) {
    uint64_t left = end - s->visits;
    outcome result = attempt(s, target, turn, limit < left ? limit : left);
    if (result == SOLVED) ull__packing_consider(s->state, measure_height(s->state));
    if (result != GIVEN_UP || s->status != ULL_OK) return result;
    if (turn % 3 == 2) limit *= 2;
  }
  return GIVEN_UP;
}

static void bisect(solver *s, uint64_t visits) {
  ull__packing_state *state = s->state;
  uint64_t bound = state->problem->lower_bound, unit = state->problem->alignment;
  while (s->status == ULL_OK && s->visits < visits && state->height - bound > unit) {
    uint64_t target = bound + (state->height - bound) / 2 / unit * unit;
    if (target == bound) break;
    if (try_target(s, target, visits / 4) != SOLVED) bound = target;
  }
}

ull_status ull__packing_exact(ull__packing_state *state, ull__packing_goal goal, uint64_t visits) {
  const ull__packing_problem *p = state->problem;
  if (p->count > LARGEST_COUNT) return ULL_OK;
  solver s = {.state = state};
  s.lowest = ull__alloc(p->count, sizeof(uint64_t));
  s.open = ull__alloc(p->sections, sizeof(uint64_t));
  s.next = ull__alloc((size_t)p->count + 1, sizeof(uint32_t));
  s.prev = ull__alloc((size_t)p->count + 1, sizeof(uint32_t));
  s.paint = ull__alloc((size_t)p->sections + 2, sizeof(uint32_t));
  bool ok = s.lowest && s.open && s.next && s.prev && s.paint;
  s.status = ok ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  if (ok && goal == ULL__PACKING_BOUND) try_target(&s, p->lower_bound, visits);
  if (ok && goal == ULL__PACKING_LOWER) bisect(&s, visits);
  state->visits += s.visits;
  ull__vector_free(&s.trail);
  ull__vector_free(&s.placed);
  ull__free(s.lowest);
  ull__free(s.open);
  ull__free(s.next);
  ull__free(s.prev);
  ull__free(s.paint);
  return s.status;
}
