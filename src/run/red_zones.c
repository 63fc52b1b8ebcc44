/* Poison and red zones.
 *
 * With poison every byte of persistent region and arena that belongs to nobody is 0xFF: both are
 * filled once, and a range is filled again when it dies. What lies next to an operand and belongs
 * to nobody while its instruction runs must therefore still be 0xFF behind it; how far to look is
 * found beforehand, from all buffers alive at that instruction. Slabs end at guard pages, so what
 * has no neighbour faults.
 *
 * Only the compute lane is checked, and in its own time: elsewhere an instruction may run beside
 * later ones. A range that another lane will write may be written before its turn in the list, so
 * it counts as somebody's from the start. */
#include "base/error.h"
#include "run/executor_internal.h"

typedef struct zone {
  ull__place place;
  uint32_t buffer;
} zone;

typedef struct zone_list {
  zone zones[2 * ULL__MAX_OPERANDS];
  uint32_t count;
} zone_list;

static uint64_t end_of(ull__place place) {
  return place.offset + place.bytes;
}

static bool is_alive(const ull__track *track, uint32_t instruction) {
  if (!track->is_placed) return true;
  uint32_t first = track->is_early ? 0 : track->first;
  return first <= instruction && instruction <= track->last;
}

/* Shrinks [*begin, *end) next to `own` by what `other` owns of it. */
static void keep_clear(ull__place own, ull__place other, uint64_t *begin, uint64_t *end) {
  bool is_before = *end == own.offset;
  if (other.offset >= *end || end_of(other) <= *begin) return;
  if (is_before) {
    *begin = end_of(other) < *end ? end_of(other) : *end;
  } else {
    *end = other.offset > *begin ? other.offset : *begin;
  }
}

/* Persistent values that no instruction of this program touches have an owner too. */
static ull__place place_of(const ull__executable *executable, uint32_t buffer) {
  const ull__buffer *b = &executable->program->buffers[buffer];
  const ull__track *track = &executable->tracks[buffer];
  uint64_t bytes = track->is_placed ? track->place.bytes : b->size_bytes;
  return (ull__place){.offset = b->offset_bytes, .bytes = bytes};
}

static void add_zone(const ull__executable *executable, uint32_t instruction, uint32_t buffer,
                     uint64_t begin, uint64_t end, zone_list *list) {
  ull__place own = place_of(executable, buffer);
  const ull__track *self = &executable->tracks[buffer];
  for (uint32_t b = 0; b < executable->program->buffer_count && begin < end; b++) {
    const ull__track *other = &executable->tracks[b];
    if (b == buffer || other->slab != self->slab || !is_alive(other, instruction)) continue;
    if (other->slab == ULL__SLAB_ARENA && !other->is_placed) continue;
    keep_clear(own, place_of(executable, b), &begin, &end);
  }
  if (begin >= end) return;
  list->zones[list->count++] = (zone){
      .buffer = buffer,
      .place = {.slab = self->place.slab, .offset = begin, .bytes = end - begin},
  };
}

static void find_zones(const ull__executor *executor, const ull__executable *executable,
                       uint32_t index, zone_list *list) {
  const ull__instruction *instruction = &executable->program->instructions[index];
  list->count = 0;
  /* Backwards: what goes astray more likely started from an output than from an input. */
  for (uint32_t i = executable->steps[index].launch.place_count; i-- > 0;) {
    uint32_t buffer = instruction->operands[i];
    if (buffer == ULL__NONE || executable->steps[index].launch.places[i].bytes == 0) continue;
    ull__place own = place_of(executable, buffer);
    uint64_t slab_bytes = executor->family->slabs[executable->tracks[buffer].slab].bytes;
    uint64_t from = own.offset > ULL__RED_ZONE_BYTES ? own.offset - ULL__RED_ZONE_BYTES : 0;
    uint64_t to = end_of(own) + ULL__RED_ZONE_BYTES;
    add_zone(executable, index, buffer, from, own.offset, list);
    add_zone(executable, index, buffer, end_of(own), to < slab_bytes ? to : slab_bytes, list);
  }
}

/* ---- the check, as a launch ---- */

static ull_status check_zones(const ull__launch_frame *frame) {
  const ull__zone_check *check = frame->constants;
  for (uint32_t z = 0; z < frame->operand_count; z++) {
    const unsigned char *bytes = frame->operands[z];
    for (uint64_t i = 0; i < check->places[z].bytes; i++) {
      if (bytes[i] == 0xFF) continue;
      ULL__FAIL(ULL_ERROR_INTERNAL,
                "program %s, instruction %u (%s) wrote beside %s: byte %llu of its slab",
                check->program, check->instruction, check->node, check->buffers[z],
                (unsigned long long)(check->places[z].offset + i));
      return ull__error_holder("%s", check->node);
    }
  }
  return ULL_OK;
}

static ull_status build_check(ull__executor *executor, const ull__executable *executable,
                              uint32_t index, const zone *zones, uint32_t count,
                              ull__launch *launch) {
  ull__zone_check *check = ull__executor_alloc(executor, 1, sizeof *check);
  ull__place *places = ull__executor_alloc(executor, count, sizeof *places);
  if (check == NULL || places == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  check->program = executable->program->name;
  check->node = ull__instruction_name(executable->program, index);
  check->instruction = index;
  for (uint32_t z = 0; z < count; z++) {
    places[z] = zones[z].place;
    check->buffers[z] = executable->program->buffers[zones[z].buffer].name;
  }
  check->places = places;
  *launch = (ull__launch){.entry = check_zones,
                          .constants = check,
                          .places = places,
                          .place_count = count,
                          .tag = UINT32_MAX};
  return ULL_OK;
}

ull_status ull__red_zones_build(ull__executor *executor, ull__executable *executable) {
  for (uint32_t s = 0; s < executable->program->instruction_count; s++) {
    ull__step *step = &executable->steps[s];
    zone_list list;
    if (step->lane != ULL__LANE_COMPUTE) continue;
    find_zones(executor, executable, s, &list);
    uint32_t launches = (list.count + ULL__MAX_OPERANDS - 1) / ULL__MAX_OPERANDS;
    step->checks = ull__executor_alloc(executor, launches, sizeof *step->checks);
    if (step->checks == NULL) return ULL_ERROR_OUT_OF_MEMORY;
    for (uint32_t z = 0; z < list.count; z += ULL__MAX_OPERANDS) {
      uint32_t left = list.count - z;
      ULL__TRY(build_check(executor, executable, s, &list.zones[z],
                           left < ULL__MAX_OPERANDS ? left : ULL__MAX_OPERANDS,
                           &step->checks[step->check_count]));
      step->check_count++;
    }
  }
  return ULL_OK;
}

/* ---- filling ---- */

ull_status ull__poison_slab(ull__executor *executor, ull__slab_kind slab) {
  if (!executor->has_slab[slab]) return ULL_OK;
  const ull__place whole = {.slab = executor->slabs[slab],
                            .bytes = executor->family->slabs[slab].bytes};
  ULL__TRY(ull__device_poison(executor->device, ULL__LANE_COMPUTE, whole));
  return ull__device_synchronize(executor->device);
}

ull_status ull__poison_leftovers(ull__executor *executor) {
  const ull__executable *last = executor->last_run;
  if (executor->is_unclean) {
    executor->is_unclean = false;
    executor->last_run = NULL;
    return ull__poison_slab(executor, ULL__SLAB_ARENA);
  }
  if (last == NULL) return ULL_OK;
  for (uint32_t b = 0; b < last->program->buffer_count; b++) {
    const ull__track *track = &last->tracks[b];
    if (!track->is_output || !track->is_placed) continue;
    ULL__TRY(ull__device_poison(executor->device, ULL__LANE_COMPUTE, track->place));
  }
  executor->last_run = NULL;
  return ull__device_synchronize(executor->device);
}
