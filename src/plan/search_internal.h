/* What the parts of the search share: starts and the way up in search.c, ways down in
 * search_down.c, the smallest schedules in search_smallest.c. */
#ifndef ULL_PLAN_SEARCH_INTERNAL_H
#define ULL_PLAN_SEARCH_INTERNAL_H

#include "plan/ladder.h"

typedef struct ull__search_state {
  const ull__schedule_model *model;
  ull__ladder *ladder;
  ull__schedule schedule; /* the one evaluated last */
  uint32_t effort;
  uint64_t *crossing;       /* by forward node: bytes made up to it and read by forward after it */
  ull__node_id *old_order;  /* scratch */
  ull__node_id *best_order; /* of the smallest schedule */
  uint64_t best_bytes;      /* peak of that schedule; UINT64_MAX before there is one */
  double best_seconds;
  uint32_t *last_read; /* by root: the last forward node that reads it */
} ull__search_state;

/* How far a walk down has come. Several executions often reach the same peak: getting rid of one is
 * progress. */
typedef struct ull__depth {
  uint64_t peak_bytes;
  uint32_t peak_count;
} ull__depth;

ull__depth ull__depth_of(const ull__schedule *schedule);
bool ull__is_deeper(ull__depth a, ull__depth b);

bool ull__search_exhausted(const ull__search_state *s);
ull_status ull__search_evaluate(ull__search_state *s, const ull__decisions *decisions);

/* Makes the schedule just evaluated a rung unless one is both as fast and as small. With
 * `height_bytes`, its packed arena, it is one unless a rung is as fast and known to pack as low. */
ull_status ull__search_record(ull__search_state *s, const ull__decisions *decisions,
                              uint64_t height_bytes);

/* Tries other orders of backward around the peak; keeps the first that lowers it. The schedule is
 * that of `decisions` when this returns. */
ull_status ull__search_improve_order(ull__search_state *s, ull__decisions *decisions,
                                     bool *improved);

/* As far down as moves lead, within `most` evaluations. Leaves `decisions` at the lowest peak,
 * evaluated. */
ull_status ull__search_descend(ull__search_state *s, ull__decisions *decisions, uint32_t most);

/* Keeps again what fits under the peak of the schedule of `decisions`, which is evaluated, dearest
 * seconds first. Where `height_bytes` is not 0, under that packed height as well. */
ull_status ull__search_ascend(ull__search_state *s, ull__decisions *decisions,
                              uint64_t height_bytes);

void ull__search_keep_nothing(const ull__search_state *s, ull__decisions *decisions);

/* The low end of the ladder. */
ull_status ull__search_smallest(ull__search_state *s);

#endif
