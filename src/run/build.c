/* From instructions to steps: every operand becomes a place, every wait an event, every input a
 * slot, once, so that a run only hands them to the device. Contradictions in the plan are found
 * here, not in a run. */
#include <string.h>

#include "base/error.h"
#include "run/executor_internal.h"

void *ull__executor_alloc(ull__executor *executor, size_t count, size_t size) {
  return ull__arena_alloc(&executor->memory, count > 0 ? count : 1, size);
}

const char *ull__instruction_name(const ull__program *program, uint32_t instruction) {
  const ull__instruction *i = &program->instructions[instruction];
  const ull__graph *graph = program->lowered->graph;
  if (i->node != ULL__NONE) return ull__graph_node(graph, i->node)->name;
  return i->value != ULL__NONE ? ull__graph_value(graph, i->value)->name : "mark";
}

ull_status ull__instruction_context(const ull__program *program, uint32_t instruction) {
  return ull__error_context("program %s, instruction %u (%s)", program->name, instruction,
                            ull__instruction_name(program, instruction));
}

/* ---- operands ---- */

static uint32_t operand_count(const ull__instruction *instruction) {
  return instruction->input_count + instruction->output_count + instruction->has_workspace;
}

static ull_status place_operand(const ull__executor *executor, const ull__program *program,
                                uint32_t buffer_index, uint64_t bytes, ull__place *place) {
  if (buffer_index == ULL__NONE || bytes == 0) return ULL_OK;
  if (buffer_index >= program->buffer_count) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "buffer %u of %u", buffer_index, program->buffer_count);
  }
  const ull__buffer *buffer = &program->buffers[buffer_index];
  if (bytes > buffer->size_bytes) {
    ULL__FAIL(ULL_ERROR_INTERNAL, "%llu bytes of the %llu of %s", (unsigned long long)bytes,
              (unsigned long long)buffer->size_bytes, buffer->name);
    return ull__error_holder("%s", buffer->name);
  }
  uint64_t slab_bytes = executor->family->slabs[buffer->slab].bytes;
  if (buffer->offset_bytes > slab_bytes || bytes > slab_bytes - buffer->offset_bytes ||
      !executor->has_slab[buffer->slab]) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "%s lies outside its slab", buffer->name);
  }
  *place = (ull__place){
      .slab = executor->slabs[buffer->slab], .offset = buffer->offset_bytes, .bytes = bytes};
  return ULL_OK;
}

static ull_status build_places(ull__executor *executor, const ull__program *program,
                               const ull__instruction *instruction, ull__step *step) {
  uint32_t count = operand_count(instruction);
  if (count > ULL__MAX_OPERANDS) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "%u operands, more than %d", count, ULL__MAX_OPERANDS);
  }
  ull__place *places = ull__executor_alloc(executor, count, sizeof *places);
  if (places == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    ULL__TRY(place_operand(executor, program, instruction->operands[i], instruction->bytes[i],
                           &places[i]));
  }
  step->launch.places = places;
  step->launch.place_count = count;
  return ULL_OK;
}

/* ---- inputs ---- */

static ull_status add_input(ull__executable *executable, const ull__instruction *instruction,
                            uint32_t *out) {
  const ull__lowered *lowered = executable->program->lowered;
  const ull__value *value = ull__graph_value(lowered->graph, instruction->value);
  const ull__layout *layout = lowered->values[instruction->value].layout;
  if (layout != NULL && layout->kind != ULL__LAYOUT_PLAIN) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "input %s lies as %s, not in row-major order", value->name,
                     layout->name);
  }
  for (uint32_t i = 0; i < executable->input_count; i++) {
    *out = i;
    if (strcmp(executable->input_names[i], value->name) == 0) return ULL_OK;
  }
  *out = executable->input_count++;
  executable->input_names[*out] = value->name;
  return ULL_OK;
}

static bool is_input_copy(const ull__program *program, const ull__instruction *instruction) {
  return instruction->action == ULL__ACTION_COPY_IN && instruction->input_count == 0 &&
         instruction->output_count == 1 && instruction->value != ULL__NONE &&
         ull__graph_value(program->lowered->graph, instruction->value)->role == ULL__ROLE_INPUT;
}

/* ---- actions ---- */

static ull_status build_launch(const ull__program *program, const ull__instruction *instruction,
                               uint32_t index, ull__step *step) {
  if (instruction->node >= ull__graph_node_count(program->lowered->graph)) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "a launch of no node");
  }
  const ull__kernel *kernel = &program->lowered->nodes[instruction->node].kernel;
  if (kernel->entry == NULL) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "the plan was made for a machine without kernels");
    return ull__error_change("plan on this machine: without --machine");
  }
  step->launch.entry = kernel->entry;
  step->launch.constants = kernel->constants;
  step->launch.tag = index;
  return ULL_OK;
}

static ull_status build_copy(ull__executable *executable, const ull__instruction *instruction,
                             ull__step *step) {
  if (is_input_copy(executable->program, instruction)) {
    return add_input(executable, instruction, &step->input);
  }
  if (instruction->input_count == 1 && instruction->output_count == 1) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "a copy with %u sources and %u targets",
                   instruction->input_count, instruction->output_count);
}

static ull_status build_action(ull__executable *executable, uint32_t index) {
  const ull__instruction *instruction = &executable->program->instructions[index];
  ull__step *step = &executable->steps[index];
  switch (instruction->action) {
  case ULL__ACTION_LAUNCH:
    return build_launch(executable->program, instruction, index, step);
  case ULL__ACTION_COPY_IN:
  case ULL__ACTION_COPY_OUT:
    return build_copy(executable, instruction, step);
  case ULL__ACTION_MARK:
    return ULL_OK;
  default:
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "action %d cannot be run on this device",
                     (int)instruction->action);
  }
}

/* ---- waits ---- */

static ull_status give_event(ull__executor *executor, ull__step *step) {
  if (step->has_event) return ULL_OK;
  if (executor->event_count == executor->event_capacity) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "more events than instructions");
  }
  ULL__TRY(ull__device_event_create(executor->device, &step->event));
  step->has_event = true;
  executor->events[executor->event_count++] = step->event;
  return ULL_OK;
}

static ull_status build_waits(ull__executor *executor, ull__executable *executable,
                              uint32_t index) {
  const ull__instruction *instruction = &executable->program->instructions[index];
  ull__step *step = &executable->steps[index];
  step->waits = ull__executor_alloc(executor, instruction->wait_count, sizeof *step->waits);
  if (step->waits == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t w = 0; w < instruction->wait_count; w++) {
    uint32_t awaited = instruction->waits[w];
    if (awaited >= index) {
      return ULL__FAIL(ULL_ERROR_INTERNAL, "a wait for instruction %u, which is not earlier",
                       awaited);
    }
    ULL__TRY(give_event(executor, &executable->steps[awaited]));
    step->waits[step->wait_count++] = executable->steps[awaited].event;
  }
  return ULL_OK;
}

/* ---- one program ---- */

static ull_status build_step(ull__executor *executor, ull__executable *executable, uint32_t index) {
  const ull__instruction *instruction = &executable->program->instructions[index];
  ull__step *step = &executable->steps[index];
  step->action = instruction->action;
  step->lane = instruction->lane;
  step->input = ULL__NONE;
  ULL__TRY(build_places(executor, executable->program, instruction, step));
  ULL__TRY(build_action(executable, index));
  return build_waits(executor, executable, index);
}

ull_status ull__executable_build(ull__executor *executor, ull__executable *executable) {
  const ull__program *program = executable->program;
  uint32_t count = program->instruction_count;
  executable->steps = ull__executor_alloc(executor, count, sizeof *executable->steps);
  executable->input_names = ull__executor_alloc(executor, count, sizeof(char *));
  if (executable->steps == NULL || executable->input_names == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    if (build_step(executor, executable, i) != ULL_OK) return ull__instruction_context(program, i);
  }
  executable->sources =
      ull__executor_alloc(executor, executable->input_count, sizeof *executable->sources);
  return executable->sources != NULL ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}
