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

/* Why no smaller schedule was found: the instruction at which the smallest one peaks, and what is
 * live there. */
typedef struct ull__certificate_value {
  char name[160];
  char why[320];
  uint64_t size_bytes;
} ull__certificate_value;

typedef struct ull__certificate {
  const char *program; /* borrowed from the plan */
  const char *node;    /* borrowed from the plan */
  uint32_t instruction;
  uint64_t live_bytes; /* of the arena */
  uint64_t packed_bytes;
  uint32_t value_count;
  ull__certificate_value values[12]; /* largest first */
} ull__certificate;

/* Whether the smallest budget is more than 1.05 x the lower bound, so that it needs one. */
bool ull__plan_needs_certificate(const ull__plan *plan);
ull_status ull__plan_certificate(const ull__plan *plan, ull__certificate *out);

#endif
