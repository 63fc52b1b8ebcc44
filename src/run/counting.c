/* What runs really use: bytes alive for each tag and tier, counted at births and deaths; how far
 * instructions reach into each slab; how long each takes. The plan's figures are not used. */
#include <string.h>

#include "base/error.h"
#include "run/executor_internal.h"

static void raise_peak(ull__executable *executable, ull__tag tag, ull__tier tier) {
  uint64_t live_bytes = executable->live_bytes[tag][tier];
  if (executable->tag_peaks[tag][tier] < live_bytes) executable->tag_peaks[tag][tier] = live_bytes;
}

static void add(ull__executable *executable, ull__tag tag, ull__tier tier, uint64_t bytes) {
  executable->live_bytes[tag][tier] += bytes;
  raise_peak(executable, tag, tier);
}

/* What is alive before the first instruction: the values of the persistent region, the loader's
 * ring, the allowance for the process. */
void ull__counting_begin(const ull__executor *executor, ull__executable *executable) {
  const ull__family *family = executor->family;
  memset(executable->live_bytes, 0, sizeof executable->live_bytes);
  for (uint32_t i = 0; i < family->persistent_count; i++) {
    const ull__persistent *value = &family->persistents[i];
    add(executable, ull__role_tag(value->role), family->slabs[ULL__SLAB_PERSISTENT].tier,
        value->size_bytes);
  }
  const ull__program_slab *loader = &family->slabs[ULL__SLAB_LOADER];
  const ull__program_slab *runtime = &family->slabs[ULL__SLAB_RUNTIME];
  add(executable, ULL__TAG_LOADER, loader->tier, loader->bytes);
  add(executable, ULL__TAG_RUNTIME, runtime->tier, runtime->bytes);
}

void ull__counting_birth(ull__executable *executable, const ull__track *track) {
  add(executable, track->tag, track->tier, track->place.bytes);
}

void ull__counting_death(ull__executable *executable, const ull__track *track) {
  executable->live_bytes[track->tag][track->tier] -= track->place.bytes;
}

static ull__slab_kind kind_of(const ull__executor *executor, ull__slab_id slab) {
  int kind = 0;
  while (kind + 1 < ULL__SLAB_KINDS &&
         !(executor->has_slab[kind] && executor->slabs[kind] == slab)) {
    kind++;
  }
  return (ull__slab_kind)kind;
}

void ull__counting_touch(ull__executor *executor, const ull__step *step) {
  for (uint32_t i = 0; i < step->launch.place_count; i++) {
    const ull__place *place = &step->launch.places[i];
    if (place->bytes == 0) continue;
    uint64_t *extent_bytes = &executor->extent_bytes[kind_of(executor, place->slab)];
    if (*extent_bytes < place->offset + place->bytes) *extent_bytes = place->offset + place->bytes;
  }
}

void ull__executor_measure(const ull__executor *executor, uint32_t program, ull__measurement *out) {
  const ull__program_slab *runtime = &executor->family->slabs[ULL__SLAB_RUNTIME];
  *out = (ull__measurement){0};
  memcpy(out->peak_bytes, executor->committed_bytes, sizeof out->peak_bytes);
  out->peak_bytes[runtime->tier] += runtime->bytes;
  memcpy(out->extent_bytes, executor->extent_bytes, sizeof out->extent_bytes);
  const ull__executable *executable = &executor->executables[program];
  if (executable->has_run) {
    memcpy(out->tag_peaks, executable->tag_peaks, sizeof out->tag_peaks);
  }
}

/* ---- times ---- */

static bool is_copy(const ull__step *step) {
  return step->action == ULL__ACTION_COPY_IN || step->action == ULL__ACTION_COPY_OUT;
}

ull_status ull__times_build(ull__executor *executor, ull__executable *executable) {
  uint32_t count = executable->program->instruction_count;
  executable->times = ull__executor_alloc(executor, count, sizeof *executable->times);
  if (executable->times == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (int lane = 0; lane < ULL__LANE_COUNT; lane++) {
    uint32_t *copies = ull__executor_alloc(executor, count, sizeof *copies);
    if (copies == NULL) return ULL_ERROR_OUT_OF_MEMORY;
    uint32_t found = 0;
    for (uint32_t s = 0; s < count; s++) {
      const ull__step *step = &executable->steps[s];
      if (is_copy(step) && step->lane == (ull__lane)lane) copies[found++] = s;
    }
    executable->copies[lane] = copies;
  }
  return ULL_OK;
}

/* On a device thread. A copy has no tag: the copies of a lane come in the order of the list. */
void ull__times_note(void *context, const ull__activity *activity) {
  ull__executor *executor = context;
  ull__executable *executable = (ull__executable *)executor->running;
  if (executable == NULL) return;
  uint32_t instruction = activity->tag;
  if (activity->is_copy) {
    instruction = executable->copies[activity->lane][executable->next_copy[activity->lane]++];
  }
  if (instruction >= executable->program->instruction_count) return;
  ull__instruction_times *times = &executable->times[instruction];
  times->runs++;
  times->total_ns += activity->end_ns - activity->begin_ns;
  times->last_begin_ns = activity->begin_ns;
  times->last_end_ns = activity->end_ns;
}

const ull__instruction_times *ull__executor_times(const ull__executor *executor, uint32_t program) {
  return executor->records_times ? executor->executables[program].times : NULL;
}
