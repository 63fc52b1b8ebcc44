/* Plans in words: for --show, and for the header of a run. All texts are fresh memory, freed with
 * ull__free. */
#ifndef ULL_PLAN_EXPLAIN_H
#define ULL_PLAN_EXPLAIN_H

#include "base/vector.h"
#include "plan/plan.h"

/* --show memory: keep-all against planned for each tag and tier, who holds the peak, what was
 * recomputed, the memory-time curve, and a certificate where the smallest budget is more than 1.05
 * x the lower bound. Works for plans that do not fit. */
ull_status ull__plan_memory_text(const ull__plan *plan, char **out);

/* --show schedule: the instructions of every program, one a line. */
ull_status ull__plan_schedule_text(const ull__plan *plan, char **out);

/* What no schedule goes below, from plan/bound.h, in names. Every schedule meets one of the cases
 * at least; the first takes least. Names are borrowed from the plan. */
typedef struct ull__certificate_value {
  char name[160];
  const char *reason; /* "read", "written", "workspace", "crossing", "held" */
  char why[400];
  uint64_t size_bytes; /* in the arena, aligned */
  const char *made_by; /* NULL: an input */
  const char *read_by; /* of what crosses the instruction or is held; else NULL */
} ull__certificate_value;

typedef struct ull__certificate_case {
  const char *node;                  /* what runs */
  const char *before;                /* makes what is needed, and before this; NULL: just runs */
  uint32_t first_after, after_count; /* nodes that have run before it does so */
  const char *order[2];              /* in schedules that run the first before the second; NULL */
  bool holds;                        /* while values are held */
  uint64_t bytes;
  uint32_t first_value, value_count;
} ull__certificate_case;

typedef struct ull__certificate {
  const char *program;
  const char *node;      /* what needs the value; NULL where the proof is not about one */
  const char *needed;    /* the value; NULL as well */
  uint32_t instruction;  /* of the smallest schedule, where the first case's node has most live */
  uint64_t live_bytes;   /* there */
  uint64_t proved_bytes; /* of the arena */
  uint64_t proved_budget_bytes, not_proved_bytes; /* together the smallest budget */
  ULL__VECTOR(ull__certificate_case) cases;
  ULL__VECTOR(ull__certificate_value) values;
  ULL__VECTOR(const char *) afters;
} ull__certificate;

/* Whether the smallest budget is more than 1.05 x the lower bound, so that it needs one. */
bool ull__plan_needs_certificate(const ull__plan *plan);
/* Freed with ull__certificate_free, also after a failure. */
ull_status ull__plan_certificate(const ull__plan *plan, ull__certificate *out);
void ull__certificate_free(ull__certificate *certificate);

#endif
