/* One sweep from the end of the step to its begin: a node comes after all that must follow it. */
#include "plan/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define SMALL_SHARE 256 /* of the limit: smaller values are not tracked */
#define DEPTH 3u        /* makers of what makers read, looked at */

enum { UNKNOWN, HOLDABLE, NOT_HOLDABLE };

static const ull__schedule_model *model_of(const ull__facts *f) {
  return f->must->model;
}

static bool reaches_limit(ull__facts *f, uint64_t bytes) {
  if (bytes < f->limit_bytes) return false;
  if (bytes < f->least_bytes) f->least_bytes = bytes;
  return true;
}

static bool is_tracked(const ull__facts *f, ull__value_id value, uint32_t *index) {
  if (value == ULL__NONE) return false;
  *index = f->index[model_of(f)->root[value]];
  return *index != ULL__NONE;
}

/* ---- making it late, holding it ---- */

static bool can_hold(ull__facts *f, uint32_t value, ull__node_id over);

/* Whether the value can be made after one node and before another below the limit. */
static bool can_make(ull__facts *f, uint32_t value, ull__node_id after, ull__node_id before,
                     uint32_t depth) {
  ull__node_id maker = model_of(f)->producer[f->tracked[value]];
  ull__company c = {.crossed = before, .arriving = true, .after = &after, .after_count = 1};
  if (reaches_limit(f, ull__must_live_bytes(f->must, maker, &c, NULL))) return false;
  const ull__node *node = ull__graph_node(model_of(f)->lowered->graph, maker);
  for (uint32_t i = 0; i < node->input_count && depth > 0; i++) {
    uint32_t input;
    if (!is_tracked(f, node->inputs[i], &input)) continue;
    if (!can_make(f, input, after, before, depth - 1) && !can_hold(f, input, after)) return false;
  }
  return true;
}

static bool find_can_hold(ull__facts *f, uint32_t value, ull__node_id over) {
  const ull__held held = {f->tracked[value], ULL__NONE};
  ull__company c = {.crossed = over, .held = &held, .held_count = 1};
  if (reaches_limit(f, ull__must_live_bytes(f->must, over, &c, NULL))) return false;
  for (uint32_t i = f->first_latest[over]; i < f->first_latest[over + 1]; i++) {
    ull__node_id earlier = f->latest[i];
    if (!can_make(f, value, earlier, over, 1) && !can_hold(f, value, earlier)) return false;
  }
  return true;
}

/* Whether the value can be there, made before, while the node runs. */
static bool can_hold(ull__facts *f, uint32_t value, ull__node_id over) {
  uint8_t *known = &f->holdable[(size_t)over * f->tracked_count + value];
  if (*known == UNKNOWN) *known = find_can_hold(f, value, over) ? HOLDABLE : NOT_HOLDABLE;
  return *known == HOLDABLE;
}

/* ---- the sweep ---- */

uint32_t ull__facts_held(const ull__facts *f, ull__node_id node, ull__held *out) {
  const ull__node_id *holder = f->holder + (size_t)node * f->tracked_count;
  uint32_t count = 0;
  for (uint32_t i = 0; i < f->tracked_count; i++)
    if (holder[i] != ULL__NONE) out[count++] = (ull__held){f->tracked[i], holder[i]};
  return count;
}

static void require(ull__facts *f, uint32_t value, ull__node_id node, ull__node_id holder) {
  for (uint32_t i = f->first_latest[node]; i < f->first_latest[node + 1]; i++) {
    ull__node_id *slot = f->holder + (size_t)f->latest[i] * f->tracked_count + value;
    if (*slot == ULL__NONE && !can_make(f, value, f->latest[i], node, DEPTH)) *slot = holder;
  }
}

static void follow(ull__facts *f, ull__node_id n, ull__held *held) {
  uint32_t count = ull__facts_held(f, n, held);
  ull__company c = {.crossed = n, .held = held, .held_count = count};
  if (reaches_limit(f, ull__must_live_bytes(f->must, n, &c, NULL))) {
    f->contradiction = n;
    return;
  }
  const ull__node *node = ull__graph_node(model_of(f)->lowered->graph, n);
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t value;
    if (!is_tracked(f, node->inputs[i], &value)) continue;
    if (ull__must_use(f->must, n, f->tracked[value])) require(f, value, n, n);
  }
  for (uint32_t i = 0; i < count; i++) require(f, f->index[held[i].root], n, held[i].holder);
}

/* ---- order, lists ---- */

typedef struct place {
  uint32_t ancestors;
  ull__node_id node;
} place;

static int compare_places(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->ancestors != y->ancestors) return x->ancestors > y->ancestors ? -1 : 1;
  return (x->node < y->node) - (x->node > y->node);
}

static uint32_t count_ancestors(const ull__must *must, ull__node_id n) {
  uint32_t count = 0;
  for (uint32_t w = 0; w < must->words; w++)
    count += (uint32_t)__builtin_popcountll(must->before[(size_t)n * must->words + w]);
  return count;
}

static ull_status sweep(ull__facts *f) {
  uint32_t nodes = model_of(f)->node_count, count = 0;
  place *order = ull__alloc(nodes, sizeof *order);
  ull__held *held = ull__alloc(f->tracked_count + 1, sizeof *held);
  bool enough = order && held;
  for (ull__node_id n = 0; n < nodes && enough; n++)
    if (f->must->once[n]) order[count++] = (place){count_ancestors(f->must, n), n};
  if (enough && count > 1) qsort(order, count, sizeof *order, compare_places);
  for (uint32_t i = 0; i < count && f->contradiction == ULL__NONE; i++)
    follow(f, order[i].node, held);
  ull__free(order);
  ull__free(held);
  return enough ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static ull_status find_latest(ull__facts *f) {
  ULL__VECTOR(ull__node_id) all = {0};
  uint32_t nodes = model_of(f)->node_count;
  ull__node_id *own = ull__alloc(nodes, sizeof *own);
  f->first_latest = ull__alloc(nodes + 1, sizeof *f->first_latest);
  ull_status status = own && f->first_latest ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  for (ull__node_id n = 0; n < nodes && status == ULL_OK; n++) {
    uint32_t count = f->must->once[n] ? ull__must_latest(f->must, n, own) : 0;
    for (uint32_t i = 0; i < count && status == ULL_OK; i++)
      status = ull__vector_push(&all, own[i]);
    f->first_latest[n + 1] = (uint32_t)all.count;
  }
  f->latest = all.items;
  ull__free(own);
  return status;
}

static ull_status find_tracked(ull__facts *f) {
  const ull__schedule_model *m = model_of(f);
  f->index = ull__alloc(m->value_count, sizeof *f->index);
  f->tracked = ull__alloc(m->value_count, sizeof *f->tracked);
  if (!f->index || !f->tracked) return ULL_ERROR_OUT_OF_MEMORY;
  memset(f->index, 0xFF, m->value_count * sizeof *f->index);
  for (ull__value_id v = 0; v < m->value_count; v++) {
    bool large = m->bytes[v] >= f->limit_bytes / SMALL_SHARE;
    if (!m->droppable[v] || m->resident[v] || !large || m->skipped[m->producer[v]]) continue;
    f->index[v] = f->tracked_count;
    f->tracked[f->tracked_count++] = v;
  }
  size_t cells = (size_t)m->node_count * f->tracked_count + 1;
  f->holder = ull__alloc(cells, sizeof *f->holder);
  f->holdable = ull__alloc(cells, sizeof *f->holdable);
  if (!f->holder || !f->holdable) return ULL_ERROR_OUT_OF_MEMORY;
  memset(f->holder, 0xFF, cells * sizeof *f->holder);
  return ULL_OK;
}

ull_status ull__facts_derive(const ull__must *must, uint64_t limit_bytes, ull__facts *out) {
  *out = (ull__facts){.must = must,
                      .limit_bytes = limit_bytes,
                      .contradiction = ULL__NONE,
                      .least_bytes = UINT64_MAX};
  ULL__TRY(find_tracked(out));
  ULL__TRY(find_latest(out));
  return sweep(out);
}

void ull__facts_free(ull__facts *facts) {
  ull__free(facts->tracked);
  ull__free(facts->index);
  ull__free(facts->holder);
  ull__free(facts->holdable);
  ull__free(facts->latest);
  ull__free(facts->first_latest);
}
