/* Planning: from graphs, a machine and budgets to a family of programs that fits, or to the reasons
 * why none does.
 *
 *     request ──▶ lower every program ──▶ ladders ──▶ choose rungs under the budget ──▶ pack,
 * assemble, check
 *
 * A plan that does not fit is a result, not a failure: `fits` is false, `family` is NULL, and the
 * figures say what would fit. Statuses are for what could not be planned at all. */
#ifndef ULL_PLAN_PLAN_H
#define ULL_PLAN_PLAN_H

#include "plan/ladder.h"
#include "plan/program.h"

/* Of eight lengths of sequences a step, two smaller runs and evaluation, and the update. */
#define ULL__MAX_PROGRAMS 48

typedef struct ull__program_request {
  const char *name;        /* "train", "tail", "last", "update", "eval", "eval_tail"; where samples
                              have several lengths with the length, "train@64" */
  const ull__graph *graph; /* symbolic, complete: with backward and optimizer where it has them */
  int64_t batch;
} ull__program_request;

typedef struct ull__plan_request {
  ull__program_request programs[ULL__MAX_PROGRAMS]; /* the first decides the stored layouts */
  uint32_t program_count;
  ull__provider *provider;
  bool shared; /* device and host are the same bytes: all is counted under device */
  uint64_t budget_bytes[ULL__TIER_COUNT]; /* UINT64_MAX = no limit */
  uint64_t loader_bytes;
  uint64_t process_bytes; /* the process' own base */
  uint32_t effort;        /* 0 = ULL__DEFAULT_EFFORT */
} ull__plan_request;

/* What the planner knows of one program, for explanations. */
typedef struct ull__program_plan {
  char name[32];
  ull__lowered *lowered; /* moves into the family when the plan fits */
  ull__schedule_model *model;
  ull__ladder ladder;
  size_t rung; /* chosen; SIZE_MAX where none fits */
  ull__schedule keep_all;
  uint64_t keep_all_height_bytes;
  uint64_t smallest_height_bytes;
  uint64_t largest_launch_bytes;
  ull__node_id largest_launch;
} ull__program_plan;

typedef struct ull__plan {
  bool fits;
  ull__family *family; /* NULL unless it fits */
  ull__program_plan programs[ULL__MAX_PROGRAMS];
  uint32_t program_count;
  uint64_t persistent_bytes, loader_bytes, runtime_bytes; /* committed */
  uint64_t planned_peak_bytes[ULL__TIER_COUNT]; /* of the chosen programs; of the smallest when none
                                                   fits */
  uint64_t keep_all_peak_bytes[ULL__TIER_COUNT];
  uint64_t smallest_bytes[ULL__TIER_COUNT];    /* the least budget that is accepted */
  uint64_t lower_bound_bytes[ULL__TIER_COUNT]; /* persistent + largest launch + loader + runtime */
  uint64_t keep_all_tags[ULL__TAG_COUNT][ULL__TIER_COUNT];
  double keep_all_seconds;
  /* When it does not fit: who holds the peak of the smallest schedule, and by how much it is too
   * large. */
  ull__tier short_tier;
  uint64_t shortfall_bytes;
  char holder[256];
} ull__plan;

/* `request` is borrowed for the call, its provider until the plan is destroyed. */
ull_status ull__plan_create(const ull__plan_request *request, ull__plan **out);
void ull__plan_destroy(ull__plan *plan); /* NULL is allowed */

/* Fills the thread's record with a refusal: holder, shortfall, smallest budget, `change`. Returns
 * ULL_ERROR_DOES_NOT_FIT. */
ull_status ull__plan_refuse(const ull__plan *plan, const uint64_t budget_bytes[ULL__TIER_COUNT],
                            const char *change);

/* ---- between plan.c and assemble.c ---- */

/* Gathers what lives from step to step over all programs, by name, with offsets. */
ull_status ull__family_place_persistents(ull__family *family, const ull__program_plan *programs,
                                         uint32_t count);

/* Makes one program of a chosen schedule and its offsets. */
ull_status ull__family_assemble(ull__family *family, const ull__schedule_model *model,
                                const ull__schedule *schedule, const uint64_t *offsets,
                                uint64_t height_bytes, bool shared, ull__program *program);

/* Each tag's largest live sum over a schedule's arena, persistent buffers not included. */
ull_status ull__schedule_tag_peaks(const ull__schedule_model *model, const ull__schedule *schedule,
                                   uint64_t peaks[ULL__TAG_COUNT]);

#endif
