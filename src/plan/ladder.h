/* The ladder: schedules of one lowered graph from fastest to smallest, made without looking at any
 * budget.
 *
 * A budget takes the fastest rung that fits. Since the rungs depend on graph, machine and effort
 * alone, more budget is never predicted slower, and the smallest rung is the smallest budget.
 * Effort is the number of schedules evaluated. */
#ifndef ULL_PLAN_LADDER_H
#define ULL_PLAN_LADDER_H

#include "plan/schedule.h"

typedef struct ull__rung {
  ull__decisions decisions;
  double seconds;
  uint64_t peak_bytes;   /* largest sum of live bytes */
  uint64_t height_bytes; /* of its packing; 0 before it was packed */
} ull__rung;

typedef struct ull__ladder {
  ull__rung *rungs; /* fastest first; each has the least peak or packs lowest so far */
  size_t count, capacity;
  uint32_t evaluated;
} ull__ladder;

#define ULL__DEFAULT_EFFORT 2000u

ull_status ull__ladder_build(const ull__schedule_model *model, uint32_t effort, ull__ladder *out);
void ull__ladder_free(ull__ladder *ladder);

/* The fastest rung whose packed arena fits into `arena_bytes`; SIZE_MAX where none does. */
ull_status ull__ladder_choose(const ull__schedule_model *model, ull__ladder *ladder,
                              uint64_t arena_bytes, size_t *rung);

/* The smallest packed arena of all rungs. */
ull_status ull__ladder_smallest(const ull__schedule_model *model, ull__ladder *ladder, size_t *rung,
                                uint64_t *arena_bytes);

/* Packs a schedule's buffers; offsets[b] for each. */
ull_status ull__schedule_pack(const ull__schedule *schedule, uint64_t *offsets,
                              uint64_t *height_bytes);

#endif
