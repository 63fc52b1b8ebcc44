/* Packing in three stages: a portfolio of orders, local search, exact search; each stops at the
 * lower bound.
 *
 * An order becomes offsets through a decoder (packing_skyline.c, packing_gaps.c). What a decoder
 * gives is then shaken: dropped in order of offset, turned upside down and dropped again, which
 * never raises it. Invariant of every stage: `best` is a valid packing of height `height`. */
#include "memory/packing.h"

#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "memory/packing_internal.h"

ull__packing_options ull__packing_quick(void) {
  return (ull__packing_options){.strategies = 4, .orders = 10, .visits = 20000, .seed = 1};
}

ull__packing_options ull__packing_normal(void) {
  return (ull__packing_options){.strategies = 16, .orders = 2000, .visits = 24000000, .seed = 1};
}

ull__packing_options ull__packing_thorough(void) {
  return (ull__packing_options){.strategies = 16, .orders = 20000, .visits = 400000000, .seed = 1};
}

/* The problem. */

static void release_problem(ull__packing_problem *p) {
  ull__free(p->size);
  ull__free(p->first);
  ull__free(p->last);
  ull__free(p->origin);
  ull__free(p->load);
}

static ull_status gather(ull__packing_problem *p, const ull__packing_buffer *buffers,
                         size_t count) {
  p->size = ull__alloc(count, sizeof(uint64_t));
  p->first = ull__alloc(count, sizeof(uint32_t));
  p->last = ull__alloc(count, sizeof(uint32_t));
  p->origin = ull__alloc(count, sizeof(uint32_t));
  if (!p->size || !p->first || !p->last || !p->origin) return ULL_ERROR_OUT_OF_MEMORY;
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++) {
    const ull__packing_buffer *b = &buffers[i];
    if (b->last < b->first)
      return ULL__FAIL(ULL_ERROR_INVALID, "buffer %zu ends before it begins", i);
    if (b->size_bytes == 0) continue;
    uint64_t size;
    ULL__TRY(ull__size_align(b->size_bytes, p->alignment, "the aligned size of a buffer", &size));
    ULL__TRY(ull__size_add(total, size, "the buffers of an arena together", &total));
    p->size[p->count] = size;
    p->first[p->count] = b->first;
    p->last[p->count] = b->last;
    p->origin[p->count++] = (uint32_t)i;
  }
  return ULL_OK;
}

/* Walks births and deaths in time (deaths first) and numbers the maximal sets of live items. */
static void compress_time(ull__packing_problem *p, const ull__packing_buffer *buffers,
                          const ull__packing_entry *events, size_t event_count) {
  uint64_t live = 0, live_asked = 0;
  bool fresh = true;
  for (size_t i = 0; i < event_count; i++) {
    uint32_t item = events[i].item;
    uint64_t asked = buffers[p->origin[item]].size_bytes;
    if (events[i].key & 1) {
      if (fresh) p->sections++;
      fresh = false;
      p->first[item] = p->sections - 1;
      live += p->size[item];
      live_asked += asked;
      p->load[p->sections - 1] = live;
      if (live > p->lower_bound) {
        p->lower_bound = live;
        p->peak = p->sections - 1;
      }
      if (live_asked > p->live_bytes) p->live_bytes = live_asked;
    } else {
      fresh = true;
      p->last[item] = p->sections - 1;
      live -= p->size[item];
      live_asked -= asked;
    }
  }
}

static ull_status sweep(ull__packing_problem *p, const ull__packing_buffer *buffers) {
  ull__packing_entry *events = ull__alloc(4 * (size_t)p->count, sizeof *events);
  p->load = ull__alloc((size_t)p->count + 1, sizeof(uint64_t));
  ull_status status = events && p->load ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK) {
    for (uint32_t i = 0; i < p->count; i++) {
      events[2 * i] = (ull__packing_entry){2 * (uint64_t)p->first[i] + 1, i};
      events[2 * i + 1] = (ull__packing_entry){2 * ((uint64_t)p->last[i] + 1), i};
    }
    ull__packing_sort(events, events + 2 * (size_t)p->count, 2 * (size_t)p->count);
    compress_time(p, buffers, events, 2 * (size_t)p->count);
  }
  ull__free(events);
  return status;
}

static ull_status build_problem(ull__packing_problem *p, const ull__packing_buffer *buffers,
                                size_t count, uint64_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0)
    return ULL__FAIL(ULL_ERROR_INVALID, "alignment %llu is no power of two",
                     (unsigned long long)alignment);
  if (count >= UINT32_MAX / 4)
    return ULL__FAIL(ULL_ERROR_OVERFLOW, "%zu buffers in one arena", count);
  p->alignment = alignment;
  ULL__TRY(gather(p, buffers, count));
  return sweep(p, buffers);
}

/* The state. */

static void release_state(ull__packing_state *s) {
  void *all[] = {s->best,    s->trial,           s->order, s->rank,
                 s->entries, s->entries_scratch, s->floor, s->top};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) ull__free(all[i]);
}

static ull_status build_state(ull__packing_state *s, const ull__packing_problem *p) {
  s->problem = p;
  s->height = UINT64_MAX;
  for (s->leaves = 1; s->leaves < p->sections; s->leaves *= 2) {
  }
  s->best = ull__alloc(p->count, sizeof(uint64_t));
  s->trial = ull__alloc(p->count, sizeof(uint64_t));
  s->order = ull__alloc(p->count, sizeof(uint32_t));
  s->rank = ull__alloc(p->count, sizeof(uint32_t));
  s->entries = ull__alloc(p->count, sizeof *s->entries);
  s->entries_scratch = ull__alloc(p->count, sizeof *s->entries);
  s->floor = ull__alloc(2 * (size_t)s->leaves, sizeof(uint64_t));
  s->top = ull__alloc(2 * (size_t)s->leaves, sizeof(uint64_t));
  bool ok = s->best && s->trial && s->order && s->rank && s->entries && s->entries_scratch &&
            s->floor && s->top;
  return ok ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

bool ull__packing_consider(ull__packing_state *state, uint64_t height) {
  state->orders_tried++;
  if (height < state->height) {
    state->height = height;
    memcpy(state->best, state->trial, state->problem->count * sizeof(uint64_t));
  }
  return state->height == state->problem->lower_bound;
}

/* The portfolio. */

typedef enum decoder { SKYLINE, BEST_GAP, LOWEST_GAP } decoder;

typedef struct strategy {
  decoder decoder;
  ull__packing_measure measures[2];
} strategy;

#define LIFETIME ULL__PACKING_LIFETIME
#define SIZE ULL__PACKING_SIZE
#define AREA ULL__PACKING_AREA
#define PEAK ULL__PACKING_PEAK
#define START ULL__PACKING_START
#define INDEX ULL__PACKING_INDEX

static const strategy portfolio[] = {
    {SKYLINE, {LIFETIME, SIZE}}, {SKYLINE, {PEAK, LIFETIME}},    {SKYLINE, {AREA, LIFETIME}},
    {LOWEST_GAP, {AREA, SIZE}},  {BEST_GAP, {SIZE, LIFETIME}},   {BEST_GAP, {SIZE, INDEX}},
    {BEST_GAP, {PEAK, SIZE}},    {LOWEST_GAP, {SIZE, LIFETIME}}, {SKYLINE, {SIZE, LIFETIME}},
    {LOWEST_GAP, {PEAK, SIZE}},  {LOWEST_GAP, {LIFETIME, SIZE}}, {LOWEST_GAP, {START, SIZE}},
};

/* Drops the trial from below, then from above, until neither lowers it. */
static bool shake(ull__packing_state *state, uint64_t height) {
  const ull__packing_problem *p = state->problem;
  for (uint64_t before = UINT64_MAX; height < before;) {
    before = height;
    for (int turn = 0; turn < 2; turn++) {
      for (uint32_t i = 0; i < p->count; i++) {
        uint64_t key = turn == 0 ? state->trial[i] : UINT64_MAX - (state->trial[i] + p->size[i]);
        state->entries[i] = (ull__packing_entry){key, i};
      }
      ull__packing_take_order(state);
      height = ull__packing_drop(state, state->order, UINT64_MAX);
      if (ull__packing_consider(state, height)) return true;
    }
  }
  return false;
}

static ull_status run_strategy(ull__packing_state *state, const strategy *how) {
  uint64_t height = 0;
  ull__packing_order_by(state, how->measures, 2);
  if (how->decoder == SKYLINE)
    ULL__TRY(ull__packing_skyline(state, &height));
  else
    ULL__TRY(ull__packing_gaps(state, how->decoder == BEST_GAP, &height));
  if (!ull__packing_consider(state, height)) shake(state, height);
  return ULL_OK;
}

static ull_status run_portfolio(ull__packing_state *state, uint32_t strategies) {
  uint32_t count = sizeof portfolio / sizeof *portfolio;
  if (strategies < 1) strategies = 1;
  for (uint32_t i = 0; i < count && i < strategies; i++) {
    ULL__TRY(run_strategy(state, &portfolio[i]));
    if (state->height == state->problem->lower_bound) break;
  }
  return ULL_OK;
}

static bool at_bound(const ull__packing_state *state) {
  return state->height == state->problem->lower_bound;
}

static ull_status search(ull__packing_state *state, const ull__packing_options *options) {
  const ull__packing_problem *p = state->problem;
  uint64_t orders = (uint64_t)options->orders * 1000 / (p->count < 100 ? 100 : p->count);
  ULL__TRY(run_portfolio(state, options->strategies));
  if (!at_bound(state) && options->visits > 0)
    ULL__TRY(ull__packing_exact(state, ULL__PACKING_BOUND, options->visits / 2));
  if (!at_bound(state) && orders > 0) ULL__TRY(ull__packing_improve(state, orders, options->seed));
  if (!at_bound(state) && options->visits > 0)
    ULL__TRY(ull__packing_exact(state, ULL__PACKING_LOWER, options->visits / 2));
  return ULL_OK;
}

static void deliver(const ull__packing_state *state, ull__packing_buffer *buffers, size_t count) {
  const ull__packing_problem *p = state->problem;
  for (size_t i = 0; i < count; i++) buffers[i].offset_bytes = 0;
  for (uint32_t i = 0; i < p->count; i++) buffers[p->origin[i]].offset_bytes = state->best[i];
}

ull_status ull__pack(ull__packing_buffer *buffers, size_t count, uint64_t alignment,
                     const ull__packing_options *options, ull__packing_result *result) {
  ull__packing_options normal = ull__packing_normal();
  ull__packing_problem problem = {0};
  ull__packing_state state = {0};
  ull_status status;
  ULL__TRY_GOTO(status, build_problem(&problem, buffers, count, alignment), end);
  ULL__TRY_GOTO(status, build_state(&state, &problem), end);
  if (problem.count > 0)
    ULL__TRY_GOTO(status, search(&state, options ? options : &normal), end);
  else
    state.height = 0;
  deliver(&state, buffers, count);
  *result = (ull__packing_result){.height_bytes = state.height,
                                  .lower_bound_bytes = problem.lower_bound,
                                  .padding_bytes = state.height - problem.live_bytes,
                                  .orders_tried = state.orders_tried,
                                  .visits = state.visits};
end:
  release_state(&state);
  release_problem(&problem);
  return status;
}

ull_status ull__packing_bound(const ull__packing_buffer *buffers, size_t count, uint64_t alignment,
                              ull__packing_result *result) {
  ull__packing_problem problem = {0};
  ull_status status = build_problem(&problem, buffers, count, alignment);
  if (status == ULL_OK)
    *result = (ull__packing_result){.height_bytes = problem.lower_bound,
                                    .lower_bound_bytes = problem.lower_bound,
                                    .padding_bytes = problem.lower_bound - problem.live_bytes};
  release_problem(&problem);
  return status;
}
