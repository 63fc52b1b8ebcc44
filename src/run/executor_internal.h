/* What the files of the executor share: programs with every launch built, and the counters that are
 * kept apart from the plan. */
#ifndef ULL_RUN_EXECUTOR_INTERNAL_H
#define ULL_RUN_EXECUTOR_INTERNAL_H

#include "memory/arena.h"
#include "run/executor.h"

#define ULL__RED_ZONE_BYTES 64u

/* One buffer as the instructions use it. */
typedef struct ull__track {
  ull__place place; /* bytes: the most any operand touches */
  ull__tag tag;
  ull__tier tier;
  ull__slab_kind slab;
  bool is_touched; /* by any instruction */
  bool is_placed;  /* in the arena: born and dead within a run */
  bool is_output;  /* read after the run */
  bool is_copied;  /* born as the target of a copy, which writes all of it */
  bool is_early;   /* born on another lane than compute: may be written before its turn */
  uint32_t first, last;
} ull__track;

/* Places next to the operands of one instruction that belong to nobody. */
typedef struct ull__zone_check {
  const char *program;
  const char *node;
  uint32_t instruction;
  const ull__place *places;
  const char *buffers[ULL__MAX_OPERANDS]; /* whose neighbour a zone is */
} ull__zone_check;

/* An instruction made executable. */
typedef struct ull__step {
  ull__action action;
  ull__lane lane;
  bool has_event;
  ull__event_id event; /* recorded behind it */
  uint32_t wait_count, birth_count, death_count, check_count;
  ull__event_id *waits;
  uint32_t *births, *deaths; /* tracks */
  ull__launch launch;        /* its places are all operands, whatever the action */
  uint32_t input;            /* copy of an input: which; else ULL__NONE */
  ull__launch *checks;       /* of red zones, after the step; only with poison */
} ull__step;

typedef struct ull__executable {
  const ull__program *program;
  ull__step *steps;
  ull__track *tracks;
  const char **input_names;
  const void **sources; /* by input; NULL = never set */
  uint32_t input_count;
  bool has_run;
  uint64_t live_bytes[ULL__TAG_COUNT][ULL__TIER_COUNT];
  uint64_t tag_peaks[ULL__TAG_COUNT][ULL__TIER_COUNT];
  ull__instruction_times *times;
  uint32_t *copies[ULL__LANE_COUNT]; /* instructions that copy, lane by lane */
  uint32_t next_copy[ULL__LANE_COUNT];
} ull__executable;

struct ull__executor {
  const ull__family *family;
  ull__provider *provider;
  ull__device *device;
  bool has_poison;
  bool records_times;
  bool is_unclean; /* the arena holds what a failed run or somebody else left */
  ull__slab_id slabs[ULL__SLAB_KINDS];
  bool has_slab[ULL__SLAB_KINDS];
  uint64_t committed_bytes[ULL__TIER_COUNT];
  uint64_t extent_bytes[ULL__SLAB_KINDS];
  ull__executable *executables;
  const ull__executable *running;  /* whose times are noted */
  const ull__executable *last_run; /* whose outputs are still in the arena */
  ull__launch *gradient_zeroes;
  uint32_t gradient_count;
  ull__event_id *events;
  uint32_t event_count, event_capacity;
  ull__arena memory; /* tables that live as long as the executor */
};

/* Zeroed items of the executor's arena; also for 0 items. */
void *ull__executor_alloc(ull__executor *executor, size_t count, size_t size);

/* "train, instruction 17 (conv1)"; for COPY and MARK the value or "mark" in the parentheses. */
const char *ull__instruction_name(const ull__program *program, uint32_t instruction);
/* Puts it before the message of the current record. */
ull_status ull__instruction_context(const ull__program *program, uint32_t instruction);

/* build.c: operands, inputs, waits and launches of one program. */
ull_status ull__executable_build(ull__executor *executor, ull__executable *executable);

/* lifetimes.c: first and last touch of each buffer, from the operands alone; then what is born and
 * what dies at each step. */
ull_status ull__lifetimes_find(ull__executor *executor, ull__executable *executable);

/* red_zones.c: the checks behind each step. */
ull_status ull__red_zones_build(ull__executor *executor, ull__executable *executable);
/* Fills persistent region and arena before their first use; lanes are empty afterwards. */
ull_status ull__poison_slab(ull__executor *executor, ull__slab_kind slab);
/* What an earlier run left in the arena becomes nobody's again; lanes are empty afterwards. */
ull_status ull__poison_leftovers(ull__executor *executor);

/* prepare.c: creates the primitives of all kernels, each once, on the compute thread. */
ull_status ull__executor_prepare(ull__executor *executor);

/* values.c: constants, and zeroes where a program adds to what was there. */
ull_status ull__executor_fill_persistents(ull__executor *executor);

/* counting.c */
void ull__counting_begin(const ull__executor *executor, ull__executable *executable);
void ull__counting_birth(ull__executable *executable, const ull__track *track);
void ull__counting_death(ull__executable *executable, const ull__track *track);
void ull__counting_touch(ull__executor *executor, const ull__step *step);
ull_status ull__times_build(ull__executor *executor, ull__executable *executable);
void ull__times_note(void *executor, const ull__activity *activity);

#endif
