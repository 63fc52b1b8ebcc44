/* What is live at a moment of a schedule, and why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "memory/slab.h"
#include "plan/explain_internal.h"

/* The rung that the smallest budget gets: the fastest whose arena takes no more pages than the
 * smallest. */
ull_status ull__smallest_schedule(const ull__program_plan *program, ull__schedule *schedule) {
  const ull__ladder *ladder = &program->ladder;
  uint64_t most = ull__align_up(program->smallest_height_bytes, ull__page_bytes());
  for (size_t r = 0; r < ladder->count; r++) {
    uint64_t height = ladder->rungs[r].height_bytes;
    if (ladder->rungs[r].peak_bytes > most || height > most) continue;
    ULL__TRY(ull__schedule_generate(program->model, &ladder->rungs[r].decisions, schedule));
    if (height == 0) ULL__TRY(ull__schedule_pack(schedule, NULL, &height));
    if (height <= most) return ULL_OK;
  }
  return ULL__FAIL(ULL_ERROR_INTERNAL, "explain: no schedule of program %s is the smallest",
                   program->name);
}

ull_status ull__explained_schedule(const ull__plan *plan, uint32_t program,
                                   ull__schedule *schedule) {
  const ull__program_plan *p = &plan->programs[program];
  if (p->rung == SIZE_MAX) return ull__smallest_schedule(p, schedule);
  return ull__schedule_generate(p->model, &p->ladder.rungs[p->rung].decisions, schedule);
}

const char *ull__execution_name(const ull__schedule_model *model, const ull__execution *execution) {
  const ull__graph *graph = model->lowered->graph;
  return execution->node == ULL__NONE ? ull__graph_value(graph, execution->copied)->name
                                      : ull__graph_node(graph, execution->node)->name;
}

char *ull__instance_name(const ull__schedule_model *model, const ull__instance *instance,
                         char *text, size_t size) {
  const ull__graph *graph = model->lowered->graph;
  if (instance->value == ULL__NONE)
    snprintf(text, size, "%s.workspace", ull__graph_node(graph, instance->node)->name);
  else
    snprintf(text, size, "%s", ull__graph_value(graph, instance->value)->name);
  return text;
}

/* ---- the list ---- */

static int compare_bytes(const void *x, const void *y) {
  const ull__instance *a = *(ull__instance *const *)x, *b = *(ull__instance *const *)y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return (a->first > b->first) - (a->first < b->first);
}

/* Of instances that share storage in place, the latest stands for it. */
ull_status ull__list_live(const ull__schedule *schedule, uint32_t execution, ull__live_list *out) {
  *out = (ull__live_list){ull__alloc(schedule->instance_count, sizeof *out->items), 0};
  bool *seen = ull__alloc(schedule->buffer_count, sizeof *seen);
  if (!out->items || !seen) {
    ull__free(seen);
    ull__free(out->items);
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  for (size_t i = schedule->instance_count; i-- > 0;) {
    const ull__instance *instance = &schedule->instances[i];
    bool live = instance->first <= execution && execution <= instance->last;
    if (!live || seen[instance->buffer]) continue;
    seen[instance->buffer] = true;
    out->items[out->count++] = instance;
  }
  ull__free(seen);
  if (out->count > 1) qsort(out->items, out->count, sizeof *out->items, compare_bytes);
  return ULL_OK;
}

/* ---- reasons ---- */

/* Index of the instance among the operands of an execution, or -1. */
static int operand_of(const ull__schedule *s, uint32_t execution, const ull__instance *instance) {
  const ull__execution *e = &s->executions[execution];
  for (uint32_t k = 0; k < e->input_count + e->output_count + e->has_workspace; k++) {
    const ull__operand *operand = &s->operands[e->first_operand + k];
    if (operand->kind == ULL__OPERAND_INSTANCE && &s->instances[operand->index] == instance)
      return (int)k;
  }
  return -1;
}

static const char *explain_operand(const ull__execution *e, uint32_t operand) {
  if (operand < e->input_count) return "is read by it";
  return operand < e->input_count + e->output_count ? "is written by it" : "is its workspace";
}

static const ull__execution *next_reader(const ull__schedule *s, const ull__instance *instance,
                                         uint32_t after) {
  for (uint32_t e = after + 1; e <= instance->last; e++)
    if (operand_of(s, e, instance) >= 0) return &s->executions[e];
  return NULL;
}

/* Why it is not made again instead of being held. */
static const char *explain_holding(const ull__schedule_model *model, const ull__schedule *s,
                                   const ull__instance *instance) {
  const ull__graph *graph = model->lowered->graph;
  const ull__value *value = ull__graph_value(graph, instance->value);
  if (value->producer == ULL__NONE) return "an input of the step, copied once";
  const ull__node *node = ull__graph_node(graph, value->producer);
  if (node->phase == ULL__PHASE_OPTIMIZER) return "made by the optimizer, which runs once";
  if (value->role == ULL__ROLE_GRADIENT) return "a gradient, complete only when all have added";
  if (node->phase == ULL__PHASE_BACKWARD) return "made by backward, which runs once";
  if (!model->recomputable[value->producer]) return "made by a node that changes state";
  if (s->executions[instance->first].recomputed) return "needed by the replay";
  return "recomputable, and held because that is faster or as small";
}

char *ull__explain_instance(const ull__schedule_model *model, const ull__schedule *s,
                            const ull__instance *instance, uint32_t execution, char *text,
                            size_t size) {
  int operand = operand_of(s, execution, instance);
  if (operand >= 0) {
    snprintf(text, size, "%s", explain_operand(&s->executions[execution], (uint32_t)operand));
    return text;
  }
  const ull__execution *reader = next_reader(s, instance, execution);
  const char *why = instance->value == ULL__NONE ? "" : explain_holding(model, s, instance);
  if (reader)
    snprintf(text, size, "read next by %s; %s", ull__execution_name(model, reader), why);
  else
    snprintf(text, size, "an output, held to the end");
  return text;
}
