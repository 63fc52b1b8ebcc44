/* Bounds from limits that no schedule stays below: the facts that follow from a limit meet at a
 * node that takes as much, or they do in either order of two nodes that both must run before a
 * third. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/bound_internal.h"
#include "plan/facts.h"

#define TRIES 7u
#define SMALL_SHARE 32 /* of the limit: for smaller outputs order matters little */

typedef struct proof {
  const ull__must *must;
  uint64_t limit_bytes;
  uint64_t least_bytes; /* of all sums that were found too large: the limit may be as high */
  ull__bound found;     /* cases, values, afters */
  bool holds;
} proof;

/* The case in which a contradiction ends. */
static ull_status end_case(proof *p, const ull__facts *facts, const ull__node_id order[2]) {
  ull__held *held = ull__alloc(facts->tracked_count + 1, sizeof *held);
  if (!held) return ULL_ERROR_OUT_OF_MEMORY;
  ull__company c = {.crossed = facts->contradiction,
                    .held = held,
                    .held_count = ull__facts_held(facts, facts->contradiction, held)};
  ull_status status =
      ull__bound_add_case(&p->found, facts->must, facts->contradiction, ULL__NONE, &c);
  if (status == ULL_OK)
    memcpy(p->found.cases.items[p->found.cases.count - 1].order, order, 2 * sizeof *order);
  if (facts->least_bytes < p->least_bytes) p->least_bytes = facts->least_bytes;
  ull__free(held);
  return status;
}

static ull_status try_facts(proof *p, const ull__must *must, const ull__node_id order[2],
                            bool *ends) {
  ull__facts facts;
  ull_status status = ull__facts_derive(must, p->limit_bytes, &facts);
  *ends = status == ULL_OK && facts.contradiction != ULL__NONE;
  if (*ends) status = end_case(p, &facts, order);
  ull__facts_free(&facts);
  return status;
}

static void start_over(proof *p) {
  p->found.cases.count = p->found.values.count = p->found.afters.count = 0;
  p->least_bytes = UINT64_MAX;
}

static ull_status try_order(proof *p, ull__node_id first, ull__node_id second, bool *ends) {
  ull__must *ordered = NULL;
  ULL__TRY(ull__must_create_ordered(p->must, first, second, &ordered));
  ull_status status = try_facts(p, ordered, (const ull__node_id[]){first, second}, ends);
  ull__must_destroy(ordered);
  return status;
}

static ull_status try_pair(proof *p, ull__node_id a, ull__node_id b) {
  bool ends;
  start_over(p);
  ULL__TRY(try_order(p, a, b, &ends));
  if (ends) ULL__TRY(try_order(p, b, a, &ends));
  p->holds = ends;
  return ULL_OK;
}

/* Bytes that the node makes and the other reads. */
static uint64_t fed_bytes(const proof *p, ull__node_id node, ull__node_id reader) {
  const ull__schedule_model *m = p->must->model;
  const ull__node *maker = ull__graph_node(m->lowered->graph, node);
  uint64_t bytes = 0;
  for (uint32_t o = 0; o < maker->output_count; o++) {
    ull__value_id root = m->root[maker->outputs[o]];
    if (!m->resident[root] && ull__must_use(p->must, reader, root)) bytes += m->bytes[root];
  }
  return bytes;
}

/* Whether what `first` makes for the reader weighs while `second` runs. */
static bool weighs(const proof *p, ull__node_id first, ull__node_id second, ull__node_id reader) {
  uint64_t fed = fed_bytes(p, first, reader);
  ull__company alone = {.crossed = second};
  return fed >= p->limit_bytes / SMALL_SHARE &&
         ull__must_live_bytes(p->must, second, &alone, NULL) + fed >= p->limit_bytes / 2;
}

static ull_status try_pairs(proof *p, ull__node_id *latest) {
  uint32_t nodes = p->must->model->node_count;
  for (ull__node_id n = 0; n < nodes && !p->holds; n++) {
    if (!p->must->once[n]) continue;
    uint32_t count = ull__must_latest(p->must, n, latest);
    for (uint32_t i = 0; i < count && !p->holds; i++)
      for (uint32_t j = i + 1; j < count && !p->holds; j++)
        if (weighs(p, latest[i], latest[j], n) && weighs(p, latest[j], latest[i], n))
          ULL__TRY(try_pair(p, latest[i], latest[j]));
  }
  return ULL_OK;
}

static ull_status try_limit(proof *p, uint64_t limit_bytes) {
  p->limit_bytes = limit_bytes;
  start_over(p);
  ULL__TRY(try_facts(p, p->must, (const ull__node_id[]){ULL__NONE, ULL__NONE}, &p->holds));
  if (p->holds) return ULL_OK;
  ull__node_id *latest = ull__alloc(p->must->model->node_count, sizeof *latest);
  if (!latest) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = try_pairs(p, latest);
  ull__free(latest);
  return status;
}

static void take(proof *p, ull__bound *out) {
  ull__bound_free(out);
  *out = p->found;
  out->bytes = p->least_bytes;
  out->node = out->needed = ULL__NONE;
  p->found = (ull__bound){0};
}

/* Halves what lies between what is proved and what is not. */
ull_status ull__bound_by_limit(const ull__must *must, uint64_t target_bytes, ull__bound *out,
                               bool *proved) {
  proof p = {.must = must};
  uint64_t limit = target_bytes, low = out->bytes, high = target_bytes;
  ull_status status = ULL_OK;
  *proved = false;
  for (uint32_t t = 0; t < TRIES && status == ULL_OK && limit > low; t++) {
    status = try_limit(&p, limit);
    if (status == ULL_OK && p.holds) {
      low = p.least_bytes;
      take(&p, out);
      *proved = true;
    } else {
      high = limit;
    }
    limit = low + (high - low + 1) / 2;
  }
  ull__bound_free(&p.found);
  return status;
}
