/* From a schedule with offsets to a program: buffers and instructions as flat lists.
 *
 * Buffer indices: the schedule's buffers first, then one for each persistent value, then loader and
 * runtime. Everything is allocated from the family's arena and never changes afterwards. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "memory/packing.h"
#include "plan/plan.h"

ull__tag ull__role_tag(ull__role role) {
  switch (role) {
  case ULL__ROLE_PARAMETER:
  case ULL__ROLE_STATE:
  case ULL__ROLE_CONSTANT:
    return ULL__TAG_PARAMETER;
  case ULL__ROLE_GRADIENT:
    return ULL__TAG_GRADIENT;
  case ULL__ROLE_OPTIMIZER_STATE:
    return ULL__TAG_OPTIMIZER;
  default:
    return ULL__TAG_ACTIVATION;
  }
}

static ull__tag stored_tag(const ull__schedule_model *model, const ull__schedule *schedule,
                           const ull__stored *stored) {
  const ull__instance *instance = &schedule->instances[stored->instance];
  if (instance->value == ULL__NONE) return ULL__TAG_WORKSPACE;
  return ull__role_tag(ull__graph_value(model->lowered->graph, instance->value)->role);
}

ull_status ull__schedule_tag_peaks(const ull__schedule_model *model, const ull__schedule *schedule,
                                   uint64_t peaks[ULL__TAG_COUNT]) {
  size_t steps = schedule->execution_count + 1;
  uint64_t *change = ull__alloc(steps * ULL__TAG_COUNT, sizeof *change);
  if (!change) return ULL_ERROR_OUT_OF_MEMORY;
  for (size_t b = 0; b < schedule->buffer_count; b++) {
    const ull__stored *stored = &schedule->buffers[b];
    uint64_t *row = &change[steps * stored_tag(model, schedule, stored)];
    row[stored->first] += stored->size_bytes;
    row[stored->last + 1] -= stored->size_bytes; /* modulo 2^64, undone by the sum */
  }
  for (size_t t = 0; t < ULL__TAG_COUNT; t++) {
    uint64_t live = 0;
    peaks[t] = 0;
    for (size_t e = 0; e < steps; e++) {
      live += change[steps * t + e];
      if (live > peaks[t]) peaks[t] = live;
    }
  }
  ull__free(change);
  return ULL_OK;
}

/* ---- the persistent region ---- */

static ull__persistent *find_persistent(const ull__family *family, const char *name) {
  for (uint32_t i = 0; i < family->persistent_count; i++)
    if (strcmp(family->persistents[i].name, name) == 0) return &family->persistents[i];
  return NULL;
}

static ull_status check_same(const ull__persistent *known, const ull__value *value,
                             const ull__lowered_value *lowered) {
  if (known->layout == lowered->layout && known->size_bytes == lowered->bytes) return ULL_OK;
  ULL__FAIL(ULL_ERROR_INTERNAL, "%s lies as %s in one program and as %s in another", value->name,
            known->layout->name, lowered->layout->name);
  return ull__error_holder("%s", value->name);
}

static ull_status add_persistents(ull__family *family, const ull__schedule_model *model,
                                  uint64_t *offset) {
  const ull__graph *graph = model->lowered->graph;
  for (ull__value_id v = 0; v < model->value_count; v++) {
    if (model->root[v] != v || !model->resident[v]) continue;
    const ull__value *value = ull__graph_value(graph, v);
    const ull__lowered_value *lowered = &model->lowered->values[v];
    ull__persistent *known = find_persistent(family, value->name);
    if (known) {
      ULL__TRY(check_same(known, value, lowered));
      continue;
    }
    ull__persistent *entry = &family->persistents[family->persistent_count++];
    *entry = (ull__persistent){.name = ull__arena_strdup(&family->memory, value->name),
                               .role = value->role,
                               .dtype = value->dtype,
                               .shape = value->shape,
                               .layout = lowered->layout,
                               .offset_bytes = *offset,
                               .size_bytes = lowered->bytes};
    if (!entry->name) return ULL_ERROR_OUT_OF_MEMORY;
    ULL__TRY(ull__size_add(*offset, lowered->bytes, "persistent region", offset));
    ULL__TRY(ull__size_align(*offset, ULL__PACKING_ALIGNMENT, "persistent region", offset));
  }
  return ULL_OK;
}

ull_status ull__family_place_persistents(ull__family *family, const ull__program_plan *programs,
                                         uint32_t count) {
  size_t most = 0;
  for (uint32_t p = 0; p < count; p++) most += programs[p].model->value_count;
  family->persistents = ull__arena_alloc(&family->memory, most, sizeof *family->persistents);
  if (!family->persistents) return ULL_ERROR_OUT_OF_MEMORY;
  uint64_t bytes = 0;
  for (uint32_t p = 0; p < count; p++) ULL__TRY(add_persistents(family, programs[p].model, &bytes));
  family->slabs[ULL__SLAB_PERSISTENT].bytes = bytes;
  return ULL_OK;
}

/* ---- one program ---- */

typedef struct assembly {
  ull__family *family;
  const ull__schedule_model *model;
  const ull__graph *graph;
  const ull__schedule *schedule;
  ull__program *program;
  bool shared;
  uint32_t *persistent_buffer; /* by root */
  uint32_t *copied_by; /* by instance: the copy that brings it in and was not waited for; else
                          ULL__NONE */
} assembly;

static void place_arena_buffers(assembly *a, const uint64_t *offsets) {
  for (size_t b = 0; b < a->schedule->buffer_count; b++) {
    const ull__stored *stored = &a->schedule->buffers[b];
    const ull__instance *instance = &a->schedule->instances[stored->instance];
    ull__buffer *buffer = &a->program->buffers[a->program->buffer_count++];
    *buffer = (ull__buffer){.value = instance->value,
                            .tag = stored_tag(a->model, a->schedule, stored),
                            .tier = ULL__TIER_DEVICE,
                            .slab = ULL__SLAB_ARENA,
                            .offset_bytes = offsets[b],
                            .size_bytes = stored->size_bytes,
                            .first = stored->first,
                            .last = stored->last};
    buffer->name = instance->value != ULL__NONE
                       ? ull__graph_value(a->graph, instance->value)->name
                       : ull__arena_format(&a->family->memory, "%s.workspace",
                                           ull__graph_node(a->graph, instance->node)->name);
  }
}

/* `value` is ULL__NONE where only other programs use it. */
static void add_persistent(assembly *a, ull__value_id value, const ull__persistent *p) {
  if (value != ULL__NONE) a->persistent_buffer[value] = a->program->buffer_count;
  a->program->buffers[a->program->buffer_count++] =
      (ull__buffer){.value = value,
                    .name = p->name,
                    .tag = ull__role_tag(p->role),
                    .tier = ULL__TIER_DEVICE,
                    .slab = ULL__SLAB_PERSISTENT,
                    .offset_bytes = p->offset_bytes,
                    .size_bytes = p->size_bytes,
                    .last = (uint32_t)a->schedule->execution_count - 1,
                    .persistent = true};
}

static void add_foreign(assembly *a, ull__slab_kind slab, ull__tag tag, uint64_t bytes) {
  if (bytes == 0) return;
  a->program->buffers[a->program->buffer_count++] =
      (ull__buffer){.value = ULL__NONE,
                    .name = ull__tag_name(tag),
                    .tag = tag,
                    .tier = a->family->slabs[slab].tier,
                    .slab = slab,
                    .size_bytes = bytes,
                    .last = (uint32_t)a->schedule->execution_count - 1,
                    .persistent = true};
}

/* Persistent values of other programs stay resident while this one runs: they are listed, so that
 * sums agree. */
static void add_all_persistents(assembly *a) {
  for (uint32_t i = 0; i < a->family->persistent_count; i++) {
    const ull__persistent *p = &a->family->persistents[i];
    ull__value_id v = ull__graph_find_value(a->graph, p->name);
    bool used = v != ULL__NONE && a->model->resident[v] && a->model->root[v] == v;
    add_persistent(a, used ? v : ULL__NONE, p);
  }
}

static uint32_t operand_buffer(const assembly *a, const ull__operand *operand) {
  if (operand->kind == ULL__OPERAND_ABSENT) return ULL__NONE;
  if (operand->kind == ULL__OPERAND_RESIDENT) return a->persistent_buffer[operand->index];
  return a->schedule->instances[operand->index].buffer;
}

/* A compute instruction waits for each copy whose result it is the first to read. */
static ull_status list_waits(assembly *a, const ull__execution *e, ull__instruction *instruction) {
  uint32_t waits[ULL__MAX_INPUTS];
  for (uint32_t i = 0; i < e->input_count; i++) {
    const ull__operand *operand = &a->schedule->operands[e->first_operand + i];
    if (operand->kind != ULL__OPERAND_INSTANCE || a->copied_by[operand->index] == ULL__NONE)
      continue;
    waits[instruction->wait_count++] = a->copied_by[operand->index];
    a->copied_by[operand->index] = ULL__NONE;
  }
  if (instruction->wait_count == 0) return ULL_OK;
  uint32_t *list = ull__arena_alloc(&a->family->memory, instruction->wait_count, sizeof *list);
  if (!list) return ULL_ERROR_OUT_OF_MEMORY;
  memcpy(list, waits, instruction->wait_count * sizeof *list);
  instruction->waits = list;
  return ULL_OK;
}

static ull_status assemble_instruction(assembly *a, uint32_t index) {
  const ull__execution *e = &a->schedule->executions[index];
  ull__instruction *instruction = &a->program->instructions[index];
  uint32_t count = e->input_count + e->output_count + e->has_workspace;
  uint32_t *operands = ull__arena_alloc(&a->family->memory, count, sizeof *operands);
  uint64_t *bytes = ull__arena_alloc(&a->family->memory, count, sizeof *bytes);
  if (!operands || !bytes) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    const ull__operand *operand = &a->schedule->operands[e->first_operand + i];
    operands[i] = operand_buffer(a, operand);
    bytes[i] = operand->bytes;
  }
  bool copy = e->node == ULL__NONE;
  *instruction =
      (ull__instruction){.action = copy ? ULL__ACTION_COPY_IN : ULL__ACTION_LAUNCH,
                         .lane = copy && !a->shared ? ULL__LANE_COPY_IN : ULL__LANE_COMPUTE,
                         .node = e->node,
                         .value = e->copied,
                         .recomputed = e->recomputed,
                         .input_count = e->input_count,
                         .output_count = e->output_count,
                         .has_workspace = e->has_workspace,
                         .operands = operands,
                         .bytes = bytes,
                         .seconds = copy ? 0 : a->model->lowered->nodes[e->node].kernel.seconds};
  if (copy && !a->shared) a->copied_by[a->schedule->operands[e->first_operand].index] = index;
  return copy ? ULL_OK : list_waits(a, e, instruction);
}

static ull_status assemble_outputs(assembly *a) {
  ull__program *program = a->program;
  uint32_t count = ull__graph_output_count(a->graph);
  program->outputs = ull__arena_alloc(&a->family->memory, count, sizeof *program->outputs);
  if (!program->outputs) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    const ull__output *output = ull__graph_output(a->graph, i);
    ull__value_id root = a->model->root[output->value];
    uint32_t buffer = a->model->resident[root] ? a->persistent_buffer[root] : ULL__NONE;
    for (size_t n = a->schedule->instance_count; n-- > 0 && buffer == ULL__NONE;)
      if (a->schedule->instances[n].value == root) buffer = a->schedule->instances[n].buffer;
    program->outputs[program->output_count++] = (ull__program_output){
        ull__arena_strdup(&a->family->memory, output->name), buffer, output->value};
  }
  return ULL_OK;
}

static ull_status count_tags(assembly *a) {
  uint64_t peaks[ULL__TAG_COUNT];
  ULL__TRY(ull__schedule_tag_peaks(a->model, a->schedule, peaks));
  for (size_t t = 0; t < ULL__TAG_COUNT; t++) a->program->tag_peaks[t][ULL__TIER_DEVICE] = peaks[t];
  for (uint32_t b = 0; b < a->program->buffer_count; b++) {
    const ull__buffer *buffer = &a->program->buffers[b];
    if (buffer->persistent) a->program->tag_peaks[buffer->tag][buffer->tier] += buffer->size_bytes;
  }
  return ULL_OK;
}

static ull_status assemble(assembly *a, const uint64_t *offsets) {
  ull__program *program = a->program;
  uint32_t most = (uint32_t)a->schedule->buffer_count + a->family->persistent_count + 2;
  program->buffers = ull__arena_alloc(&a->family->memory, most, sizeof *program->buffers);
  program->instruction_count = (uint32_t)a->schedule->execution_count;
  program->instructions = ull__arena_alloc(&a->family->memory, program->instruction_count,
                                           sizeof *program->instructions);
  if (!program->buffers || !program->instructions) return ULL_ERROR_OUT_OF_MEMORY;
  place_arena_buffers(a, offsets);
  add_all_persistents(a);
  add_foreign(a, ULL__SLAB_LOADER, ULL__TAG_LOADER, a->family->slabs[ULL__SLAB_LOADER].bytes);
  add_foreign(a, ULL__SLAB_RUNTIME, ULL__TAG_RUNTIME, a->family->slabs[ULL__SLAB_RUNTIME].bytes);
  for (uint32_t i = 0; i < program->instruction_count; i++) ULL__TRY(assemble_instruction(a, i));
  ULL__TRY(assemble_outputs(a));
  return count_tags(a);
}

ull_status ull__family_assemble(ull__family *family, const ull__schedule_model *model,
                                const ull__schedule *schedule, const uint64_t *offsets,
                                uint64_t height_bytes, bool shared, ull__program *program) {
  assembly a = {.family = family,
                .model = model,
                .graph = model->lowered->graph,
                .schedule = schedule,
                .program = program,
                .shared = shared};
  program->arena_bytes = height_bytes;
  program->lower_bound_bytes = schedule->peak_bytes;
  program->seconds = schedule->seconds;
  a.persistent_buffer = ull__alloc(model->value_count, sizeof *a.persistent_buffer);
  a.copied_by = ull__alloc(schedule->instance_count, sizeof *a.copied_by);
  ull_status status = a.persistent_buffer && a.copied_by ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK) {
    memset(a.copied_by, 0xFF, schedule->instance_count * sizeof *a.copied_by);
    status = assemble(&a, offsets);
  }
  ull__free(a.persistent_buffer);
  ull__free(a.copied_by);
  return status;
}
