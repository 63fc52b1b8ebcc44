/* Plans in words: for --show, and for the header of a run. All texts are fresh memory, freed with
 * ull__free. */
#ifndef ULL_PLAN_EXPLAIN_H
#define ULL_PLAN_EXPLAIN_H

#include "plan/plan.h"

/* --show memory: keep-all against planned for each tag and tier, who holds the peak, what was
 * recomputed, the memory-time curve, and a certificate where the smallest budget is more than 1.05
 * x the lower bound. Works for plans that do not fit. */
ull_status ull__plan_memory_text(const ull__plan *plan, char **out);

/* --show schedule: the instructions of every program, one a line. */
ull_status ull__plan_schedule_text(const ull__plan *plan, char **out);

#endif
