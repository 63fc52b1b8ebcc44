/* The executor: commits, prepares, builds; then walks lists.
 *
 * A run puts every step on its lane in the order of the list and waits once, at the end. Events
 * order lanes; the list orders each of them. Counting happens while the list is walked, so what is
 * counted is what was put on the device. */
#include "run/executor.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/executor_internal.h"

/* ---- creation ---- */

static bool is_poison_wanted(const ull__executor_options *options) {
  const char *wish = getenv("ULLAGE_POISON");
  if (wish != NULL && strcmp(wish, "1") == 0) return true;
  return options != NULL && options->poison;
}

static ull_status commit_slab(ull__executor *executor, ull__slab_kind kind) {
  static const char *const names[ULL__SLAB_KINDS] = {"the persistent region", "the arena",
                                                     "the loader's ring", "the runtime"};
  const ull__program_slab *slab = &executor->family->slabs[kind];
  if (slab->bytes == 0 || kind == ULL__SLAB_RUNTIME) return ULL_OK;
  /* Where tiers are the same bytes the device counts them as one: sums are compared, not tiers. */
  uint64_t before_bytes[ULL__TIER_COUNT];
  for (int tier = 0; tier < ULL__TIER_COUNT; tier++) {
    before_bytes[tier] = ull__device_allocated_bytes(executor->device, (ull__tier)tier);
  }
  if (ull__device_allocate(executor->device, slab->tier, slab->bytes, &executor->slabs[kind]) !=
      ULL_OK) {
    return ull__error_context("committing %s", names[kind]);
  }
  executor->has_slab[kind] = true;
  for (int tier = 0; tier < ULL__TIER_COUNT; tier++) {
    executor->committed_bytes[tier] +=
        ull__device_allocated_bytes(executor->device, (ull__tier)tier) - before_bytes[tier];
  }
  return ULL_OK;
}

static ull_status commit_slabs(ull__executor *executor) {
  for (int kind = 0; kind < ULL__SLAB_KINDS; kind++) {
    ULL__TRY(commit_slab(executor, (ull__slab_kind)kind));
  }
  if (!executor->has_poison) return ULL_OK;
  ULL__TRY(ull__poison_slab(executor, ULL__SLAB_PERSISTENT));
  return ull__poison_slab(executor, ULL__SLAB_ARENA);
}

static ull_status build_executable(ull__executor *executor, ull__executable *executable) {
  ULL__TRY(ull__executable_build(executor, executable));
  ULL__TRY(ull__lifetimes_find(executor, executable));
  if (executor->has_poison) ULL__TRY(ull__red_zones_build(executor, executable));
  if (executor->records_times) ULL__TRY(ull__times_build(executor, executable));
  return ULL_OK;
}

static ull_status build_executables(ull__executor *executor) {
  const ull__family *family = executor->family;
  for (uint32_t p = 0; p < family->program_count; p++) {
    executor->event_capacity += family->programs[p].instruction_count;
  }
  executor->events =
      ull__executor_alloc(executor, executor->event_capacity, sizeof *executor->events);
  executor->executables =
      ull__executor_alloc(executor, family->program_count, sizeof *executor->executables);
  if (executor->events == NULL || executor->executables == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t p = 0; p < family->program_count; p++) {
    executor->executables[p].program = &family->programs[p];
    ULL__TRY(build_executable(executor, &executor->executables[p]));
  }
  return ULL_OK;
}

static ull_status fill_executor(ull__executor *executor) {
  ULL__TRY(commit_slabs(executor));
  ULL__TRY(build_executables(executor));
  ULL__TRY(ull__executor_prepare(executor));
  ULL__TRY(ull__executor_fill_persistents(executor));
  if (executor->records_times) ull__device_observe(executor->device, ull__times_note, executor);
  return ULL_OK;
}

ull_status ull__executor_create(const ull__family *family, ull__provider *provider,
                                ull__device *device, const ull__executor_options *options,
                                ull__executor **out) {
  ull__executor *executor = ull__alloc(1, sizeof *executor);
  if (executor == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  executor->family = family;
  executor->provider = provider;
  executor->device = device;
  executor->has_poison = is_poison_wanted(options);
  executor->records_times = options != NULL && options->record_times;
  ull_status status = fill_executor(executor);
  if (status != ULL_OK) {
    ull__executor_destroy(executor);
    return status;
  }
  *out = executor;
  return ULL_OK;
}

void ull__executor_destroy(ull__executor *executor) {
  if (executor == NULL) return;
  if (executor->records_times) ull__device_observe(executor->device, NULL, NULL);
  for (uint32_t i = 0; i < executor->event_count; i++) {
    ull__device_event_destroy(executor->device, executor->events[i]);
  }
  for (int kind = 0; kind < ULL__SLAB_KINDS; kind++) {
    if (executor->has_slab[kind]) ull__device_free(executor->device, executor->slabs[kind]);
  }
  ull__arena_free(&executor->memory);
  ull__free(executor);
}

/* ---- inputs and slabs ---- */

int ull__executor_find_input(const ull__executor *executor, uint32_t program, const char *name) {
  const ull__executable *executable = &executor->executables[program];
  for (uint32_t i = 0; i < executable->input_count; i++) {
    if (strcmp(executable->input_names[i], name) == 0) return (int)i;
  }
  return -1;
}

void ull__executor_set_input(ull__executor *executor, uint32_t program, uint32_t input,
                             const void *bytes) {
  executor->executables[program].sources[input] = bytes;
}

void *ull__executor_slab(ull__executor *executor, ull__slab_kind slab, uint64_t *bytes) {
  *bytes = executor->has_slab[slab] ? executor->family->slabs[slab].bytes : 0;
  if (!executor->has_slab[slab]) return NULL;
  void *memory = ull__device_host_pointer(executor->device, executor->slabs[slab]);
  if (memory != NULL && slab == ULL__SLAB_ARENA) {
    executor->is_unclean = true;
    executor->last_run = NULL;
  }
  return memory;
}

/* ---- a run ---- */

static ull_status be_born(ull__executor *executor, ull__executable *executable,
                          const ull__step *step) {
  for (uint32_t i = 0; i < step->birth_count; i++) {
    const ull__track *track = &executable->tracks[step->births[i]];
    ull__counting_birth(executable, track);
    if (!executor->has_poison || track->is_copied) continue;
    ULL__TRY(ull__device_poison(executor->device, step->lane, track->place));
  }
  return ULL_OK;
}

static ull_status die(ull__executor *executor, ull__executable *executable, const ull__step *step) {
  for (uint32_t i = 0; i < step->death_count; i++) {
    const ull__track *track = &executable->tracks[step->deaths[i]];
    ull__counting_death(executable, track);
    if (!executor->has_poison || track->is_output) continue;
    ULL__TRY(ull__device_poison(executor->device, step->lane, track->place));
  }
  return ULL_OK;
}

static ull_status act(ull__executor *executor, const ull__executable *executable,
                      const ull__step *step) {
  const ull__place *places = step->launch.places;
  switch (step->action) {
  case ULL__ACTION_LAUNCH:
    return ull__device_launch(executor->device, step->lane, &step->launch);
  case ULL__ACTION_MARK:
    return ULL_OK;
  default:
    if (step->input == ULL__NONE) {
      return ull__device_copy(executor->device, step->lane, places[1], places[0]);
    }
    return ull__device_upload(executor->device, step->lane, places[0],
                              executable->sources[step->input]);
  }
}

static ull_status put_step(ull__executor *executor, ull__executable *executable,
                           const ull__step *step) {
  ull__device *device = executor->device;
  for (uint32_t w = 0; w < step->wait_count; w++) {
    ULL__TRY(ull__device_wait(device, step->lane, step->waits[w]));
  }
  ULL__TRY(be_born(executor, executable, step));
  ULL__TRY(act(executor, executable, step));
  ull__counting_touch(executor, step);
  for (uint32_t c = 0; c < step->check_count; c++) {
    ULL__TRY(ull__device_launch(device, step->lane, &step->checks[c]));
  }
  ULL__TRY(die(executor, executable, step));
  return step->has_event ? ull__device_record(device, step->lane, step->event) : ULL_OK;
}

static ull_status check_inputs(const ull__executable *executable) {
  for (uint32_t i = 0; i < executable->input_count; i++) {
    if (executable->sources[i] != NULL) continue;
    ULL__FAIL(ULL_ERROR_INVALID, "program %s runs without its input %s", executable->program->name,
              executable->input_names[i]);
    return ull__error_holder("%s", executable->input_names[i]);
  }
  return ULL_OK;
}

static ull_status put_steps(ull__executor *executor, ull__executable *executable) {
  const ull__program *program = executable->program;
  for (uint32_t s = 0; s < program->instruction_count; s++) {
    if (put_step(executor, executable, &executable->steps[s]) != ULL_OK) {
      return ull__instruction_context(program, s);
    }
  }
  return ULL_OK;
}

/* Waits for what was put; a failure to put comes before a failure of what was put. */
static ull_status finish(ull__executor *executor, const ull__executable *executable,
                         ull_status put_status) {
  ull_error put_error = *ull_error_last();
  ull_status status = ull__device_synchronize(executor->device);
  if (put_status != ULL_OK) return ull__error_restore(&put_error);
  uint32_t failed = ull__device_failed_tag(executor->device);
  if (status != ULL_OK && failed < executable->program->instruction_count) {
    return ull__instruction_context(executable->program, failed);
  }
  return status;
}

ull_status ull__executor_run(ull__executor *executor, uint32_t program) {
  if (program >= executor->family->program_count) {
    return ULL__FAIL(ULL_ERROR_INVALID, "program %u of %u", program,
                     executor->family->program_count);
  }
  ull__executable *executable = &executor->executables[program];
  ULL__TRY(check_inputs(executable));
  if (executor->has_poison) ULL__TRY(ull__poison_leftovers(executor));
  memset(executable->next_copy, 0, sizeof executable->next_copy);
  executor->running = executor->records_times ? executable : NULL;
  ull__counting_begin(executor, executable);
  ull_status status = finish(executor, executable, put_steps(executor, executable));
  executor->running = NULL;
  executor->is_unclean = executor->is_unclean || status != ULL_OK;
  executor->last_run = status == ULL_OK ? executable : NULL;
  executable->has_run = executable->has_run || status == ULL_OK;
  return status;
}
