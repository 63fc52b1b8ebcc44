/* Births and deaths as the instructions show them: a buffer of the arena is born where it is first
 * an operand and dies where it is last one. A lane other than compute holds its operands until an
 * instruction waits for it, and an output lives until the run is over. The plan's own first and
 * last are not looked at: that is what makes the counts a check of the plan. */
#include "base/error.h"
#include "run/executor_internal.h"

static void touch(ull__track *track, uint32_t instruction, const ull__place *place) {
  if (!track->is_touched) {
    track->is_touched = true;
    track->first = track->last = instruction;
    track->place = *place;
  }
  if (track->last < instruction) track->last = instruction;
  if (track->place.bytes < place->bytes) track->place.bytes = place->bytes;
}

static void touch_operands(ull__executable *executable, uint32_t index) {
  const ull__instruction *instruction = &executable->program->instructions[index];
  const ull__step *step = &executable->steps[index];
  for (uint32_t i = 0; i < step->launch.place_count; i++) {
    if (step->launch.places[i].bytes == 0) continue;
    ull__track *track = &executable->tracks[instruction->operands[i]];
    bool is_birth = !track->is_touched;
    touch(track, index, &step->launch.places[i]);
    if (!is_birth) continue;
    track->is_early = instruction->lane != ULL__LANE_COMPUTE;
    track->is_copied =
        instruction->action == ULL__ACTION_COPY_IN || instruction->action == ULL__ACTION_COPY_OUT;
  }
}

/* Operands of what instruction `index` waits for on other lanes live until then. */
static void hold_until_waited(ull__executable *executable, uint32_t index) {
  const ull__program *program = executable->program;
  const ull__instruction *waiting = &program->instructions[index];
  for (uint32_t w = 0; w < waiting->wait_count; w++) {
    const ull__instruction *awaited = &program->instructions[waiting->waits[w]];
    if (awaited->lane == ULL__LANE_COMPUTE) continue;
    uint32_t count = awaited->input_count + awaited->output_count + awaited->has_workspace;
    for (uint32_t i = 0; i < count; i++) {
      if (awaited->operands[i] == ULL__NONE) continue;
      ull__track *track = &executable->tracks[awaited->operands[i]];
      if (track->last < index) track->last = index;
    }
  }
}

static ull_status mark_outputs(ull__executable *executable) {
  const ull__program *program = executable->program;
  for (uint32_t o = 0; o < program->output_count; o++) {
    const ull__program_output *output = &program->outputs[o];
    if (output->buffer >= program->buffer_count) {
      return ULL__FAIL(ULL_ERROR_INTERNAL, "output %s of program %s lies in no buffer",
                       output->name, program->name);
    }
    ull__track *track = &executable->tracks[output->buffer];
    track->is_output = true;
    if (program->instruction_count > 0) track->last = program->instruction_count - 1;
  }
  return ULL_OK;
}

static void describe_tracks(ull__executable *executable) {
  const ull__program *program = executable->program;
  for (uint32_t b = 0; b < program->buffer_count; b++) {
    ull__track *track = &executable->tracks[b];
    const ull__buffer *buffer = &program->buffers[b];
    track->tag = buffer->tag;
    track->tier = buffer->tier;
    track->slab = (ull__slab_kind)buffer->slab;
    track->is_placed = track->is_touched && track->slab == ULL__SLAB_ARENA;
  }
}

/* ---- what happens at each step ---- */

static ull_status take_lists(ull__executor *executor, ull__executable *executable) {
  for (uint32_t s = 0; s < executable->program->instruction_count; s++) {
    ull__step *step = &executable->steps[s];
    step->births = ull__executor_alloc(executor, step->birth_count, sizeof *step->births);
    step->deaths = ull__executor_alloc(executor, step->death_count, sizeof *step->deaths);
    if (step->births == NULL || step->deaths == NULL) return ULL_ERROR_OUT_OF_MEMORY;
    step->birth_count = step->death_count = 0;
  }
  return ULL_OK;
}

static ull_status list_events(ull__executor *executor, ull__executable *executable) {
  uint32_t count = executable->program->buffer_count;
  for (uint32_t b = 0; b < count; b++) {
    const ull__track *track = &executable->tracks[b];
    if (!track->is_placed) continue;
    executable->steps[track->first].birth_count++;
    executable->steps[track->last].death_count++;
  }
  ULL__TRY(take_lists(executor, executable));
  for (uint32_t b = 0; b < count; b++) {
    const ull__track *track = &executable->tracks[b];
    if (!track->is_placed) continue;
    ull__step *birth = &executable->steps[track->first], *death = &executable->steps[track->last];
    birth->births[birth->birth_count++] = b;
    death->deaths[death->death_count++] = b;
  }
  return ULL_OK;
}

ull_status ull__lifetimes_find(ull__executor *executor, ull__executable *executable) {
  const ull__program *program = executable->program;
  executable->tracks =
      ull__executor_alloc(executor, program->buffer_count, sizeof *executable->tracks);
  if (executable->tracks == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < program->instruction_count; i++) touch_operands(executable, i);
  for (uint32_t i = 0; i < program->instruction_count; i++) hold_until_waited(executable, i);
  ULL__TRY(mark_outputs(executable));
  describe_tracks(executable);
  return list_events(executor, executable);
}
