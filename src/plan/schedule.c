/* The generator: walks the graph's order once, replays what is missing, then trims every life to
 * its last reader.
 *
 * While walking, a value counts as available from the moment it is made until a decision takes it
 * away; only after the walk is known who read it last, and that is how long it lives. Sharing in
 * place is decided afterwards, from those lives. */
#include "plan/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/vector.h"
#include "memory/packing.h"

/* Replays inside replays, and executions for each node, beyond which a schedule is given up. */
#define MOST_DEPTH 24
#define MOST_REPLAYS 150

typedef struct walk {
  const ull__schedule_model *model;
  const ull__graph *graph;
  const ull__decisions *decisions;
  ull__schedule *schedule;
  uint32_t *available;   /* by root: its instance, or ULL__NONE */
  bool *made;            /* by node: has run in this step */
  bool *awake;           /* by node: dormant, but its form was chosen */
  bool *needed;          /* by node: forward has a reader for it */
  bool *late;            /* by node: an update that must wait for the end */
  bool *updated;         /* by root of the persistent region */
  ull__node_id *updater; /* by root: who updated it */
  uint32_t *marked;      /* by node: number of the last replay that wanted it */
  uint32_t replay;
  ull__node_id *closure; /* a stack: a replay inside a replay lies on top */
  size_t closure_count, closure_capacity;
  uint32_t segment;       /* of what the base node asked for */
  size_t most_executions; /* beyond, a schedule is hopeless */
  bool hopeless;
  bool restart;
} walk;

/* ---- growing the schedule's lists; they keep their memory from call to call ---- */

static ull_status reserve(void **items, size_t *capacity, size_t count, size_t size) {
  return count < *capacity ? ULL_OK : ull__vector_grow(items, capacity, count, 1, size);
}

static ull_status push_operand(ull__schedule *s, ull__operand operand) {
  ULL__TRY(
      reserve((void **)&s->operands, &s->operand_capacity, s->operand_count, sizeof *s->operands));
  s->operands[s->operand_count++] = operand;
  return ULL_OK;
}

static ull_status push_instance(ull__schedule *s, ull__instance instance, uint32_t *index) {
  ULL__TRY(reserve((void **)&s->instances, &s->instance_capacity, s->instance_count,
                   sizeof *s->instances));
  *index = (uint32_t)s->instance_count;
  s->instances[s->instance_count++] = instance;
  return ULL_OK;
}

static ull_status push_execution(ull__schedule *s, ull__execution execution) {
  ULL__TRY(reserve((void **)&s->executions, &s->execution_capacity, s->execution_count,
                   sizeof *s->executions));
  s->executions[s->execution_count++] = execution;
  return ULL_OK;
}

/* ---- running one node ---- */

/* A value of the persistent region may not be read in its old state once it was updated. */
static void note_resident_read(walk *w, ull__value_id value, ull__value_id root) {
  if (!w->updated[root]) return;
  const ull__value *read = ull__graph_value(w->graph, value);
  if (read->producer == w->updater[root]) return;
  w->late[w->updater[root]] = true;
  w->restart = true;
}

static ull_status push_input(walk *w, ull__value_id value, uint32_t now) {
  if (value == ULL__NONE)
    return push_operand(w->schedule, (ull__operand){.kind = ULL__OPERAND_ABSENT});
  ull__value_id root = w->model->root[value];
  uint64_t bytes = w->model->lowered->values[value].bytes;
  if (w->model->resident[root]) {
    note_resident_read(w, value, root);
    return push_operand(w->schedule, (ull__operand){ULL__OPERAND_RESIDENT, root, bytes});
  }
  uint32_t instance = w->available[root];
  if (instance == ULL__NONE)
    return ULL__FAIL(ULL_ERROR_INTERNAL, "schedule: value %s is read before it is made",
                     ull__graph_value(w->graph, value)->name);
  w->schedule->instances[instance].last = now;
  return push_operand(w->schedule, (ull__operand){ULL__OPERAND_INSTANCE, instance, bytes});
}

static ull_status push_output(walk *w, ull__node_id n, ull__value_id value, uint32_t now) {
  ull__value_id root = w->model->root[value];
  uint64_t bytes = w->model->lowered->values[value].bytes;
  if (w->model->resident[root]) {
    w->updated[root] = true;
    w->updater[root] = n;
    return push_operand(w->schedule, (ull__operand){ULL__OPERAND_RESIDENT, root, bytes});
  }
  if (root != value) { /* an update of something in the arena: the same storage */
    w->schedule->instances[w->available[root]].last = now;
    return push_operand(w->schedule,
                        (ull__operand){ULL__OPERAND_INSTANCE, w->available[root], bytes});
  }
  ull__instance instance = {.value = root, .node = n, .bytes = bytes, .first = now, .last = now};
  ULL__TRY(push_instance(w->schedule, instance, &w->available[root]));
  return push_operand(w->schedule,
                      (ull__operand){ULL__OPERAND_INSTANCE, w->available[root], bytes});
}

static ull_status run_node(walk *w, ull__node_id n) {
  const ull__node *node = ull__graph_node(w->graph, n);
  const ull__node *stands_for =
      node->alternative_of == ULL__NONE ? node : ull__graph_node(w->graph, node->alternative_of);
  const ull__kernel *kernel = &w->model->lowered->nodes[n].kernel;
  uint32_t now = (uint32_t)w->schedule->execution_count;
  ull__execution execution = {.node = n,
                              .copied = ULL__NONE,
                              .recomputed = w->made[n],
                              .segment = w->segment,
                              .first_operand = (uint32_t)w->schedule->operand_count,
                              .input_count = node->input_count,
                              .output_count = node->output_count,
                              .has_workspace = kernel->workspace_bytes > 0};
  for (uint32_t i = 0; i < node->input_count; i++) ULL__TRY(push_input(w, node->inputs[i], now));
  for (uint32_t o = 0; o < node->output_count; o++) {
    ULL__TRY(push_output(w, n, stands_for->outputs[o], now));
    if (w->made[n])
      w->schedule->recomputed_bytes += w->model->lowered->values[node->outputs[o]].bytes;
  }
  if (execution.has_workspace) {
    ull__instance instance = {ULL__NONE, n, kernel->workspace_bytes, now, now, 0};
    uint32_t index;
    ULL__TRY(push_instance(w->schedule, instance, &index));
    ULL__TRY(
        push_operand(w->schedule, (ull__operand){ULL__OPERAND_INSTANCE, index, instance.bytes}));
  }
  w->schedule->seconds += kernel->seconds;
  if (w->made[n]) w->schedule->recomputed_seconds += kernel->seconds;
  w->made[n] = true;
  return push_execution(w->schedule, execution);
}

/* ---- replays ---- */

static bool is_missing(const walk *w, ull__value_id value) {
  if (value == ULL__NONE) return false;
  ull__value_id root = w->model->root[value];
  return !w->model->resident[root] && w->available[root] == ULL__NONE;
}

/* Adds the nodes that must run again for the missing inputs of `n` to the list, which is also the
 * queue of the collection. */
static ull_status collect_missing(walk *w, ull__node_id n) {
  const ull__node *node = ull__graph_node(w->graph, n);
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (!is_missing(w, node->inputs[i])) continue;
    ull__node_id producer = w->model->producer[w->model->root[node->inputs[i]]];
    if (producer == ULL__NONE || w->marked[producer] == w->replay) continue;
    w->marked[producer] = w->replay;
    ULL__TRY(
        reserve((void **)&w->closure, &w->closure_capacity, w->closure_count, sizeof *w->closure));
    w->closure[w->closure_count++] = producer;
  }
  return ULL_OK;
}

static int compare_ids(const void *a, const void *b) {
  ull__node_id x = *(const ull__node_id *)a, y = *(const ull__node_id *)b;
  return (x > y) - (x < y);
}

static void forget_outputs(walk *w, ull__node_id n) {
  const ull__node *node = ull__graph_node(w->graph, n);
  for (uint32_t o = 0; o < node->output_count; o++) {
    ull__value_id root = w->model->root[node->outputs[o]];
    if (w->model->droppable[root] && !w->decisions->keep[root]) w->available[root] = ULL__NONE;
  }
}

/* A fleeting node of backward takes with it what it read. */
static void forget_inputs(walk *w, ull__node_id n) {
  const ull__node *node = ull__graph_node(w->graph, n);
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == ULL__NONE) continue;
    ull__node_id producer = w->model->producer[w->model->root[node->inputs[i]]];
    if (producer != ULL__NONE) forget_outputs(w, producer);
  }
}

/* Inputs that fleeting nodes made go with their first reader. */
static void forget_fleeting(walk *w, ull__node_id n) {
  const ull__node *node = ull__graph_node(w->graph, n);
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == ULL__NONE) continue;
    ull__node_id producer = w->model->producer[w->model->root[node->inputs[i]]];
    if (producer != ULL__NONE && w->decisions->fleeting[producer]) forget_outputs(w, producer);
  }
}

static ull_status run_with_replay(walk *w, ull__node_id n, uint32_t depth);

/* Runs the collected nodes in their old order; each may find that a fleeting input has gone again.
 */
static ull_status run_closure(walk *w, size_t from, size_t to, uint32_t depth) {
  for (size_t i = from; i < to; i++) {
    ull__node_id n = w->closure[i];
    ULL__TRY(run_with_replay(w, n, depth + 1));
    forget_fleeting(w, n);
  }
  return ULL_OK;
}

/* Makes every input of `n` available, and leaves the nodes that ran for it on the stack. */
static ull_status replay_missing(walk *w, ull__node_id n, uint32_t depth, bool *ran) {
  size_t from = w->closure_count;
  w->replay++;
  ULL__TRY(collect_missing(w, n));
  size_t asked = w->closure_count;
  *ran = asked > from;
  for (size_t i = from; i < asked && depth == 0; i++) {
    uint32_t segment = w->decisions->segment[w->closure[i]];
    if (segment > w->segment) w->segment = segment;
  }
  for (size_t i = from; i < w->closure_count; i++) ULL__TRY(collect_missing(w, w->closure[i]));
  size_t to = w->closure_count;
  if (to - from > 1) qsort(w->closure + from, to - from, sizeof *w->closure, compare_ids);
  return run_closure(w, from, to, depth);
}

/* A replay may use up a fleeting input that an earlier one made: so again, until all are there at
 * once. */
static ull_status run_with_replay(walk *w, ull__node_id n, uint32_t depth) {
  size_t from = w->closure_count;
  bool ran = true;
  if (depth == 0) w->segment = 0;
  for (uint32_t round = 0; ran; round++) {
    bool too_long = w->schedule->execution_count > w->most_executions;
    w->hopeless = w->hopeless || depth > MOST_DEPTH || round > MOST_DEPTH || too_long;
    if (w->hopeless) return ULL_OK;
    ULL__TRY(replay_missing(w, n, depth, &ran));
  }
  if (w->hopeless) return ULL_OK;
  ULL__TRY(run_node(w, n));
  for (size_t i = from; i < w->closure_count; i++) {
    bool stays =
        w->decisions->hold[w->closure[i]] >= w->segment && !w->decisions->fleeting[w->closure[i]];
    if (!stays) forget_outputs(w, w->closure[i]);
  }
  w->closure_count = from;
  return ULL_OK;
}

/* ---- the walk ---- */

static void wake_encoders(walk *w) {
  for (ull__node_id n = w->model->forward_end; n < w->model->node_count; n++)
    if (w->decisions->other_form[n]) w->awake[w->model->encoder[n]] = true;
}

/* Forward nodes that neither forward nor a kept value needs do not run before backward asks for
 * them. */
static void find_needed(walk *w) {
  const ull__schedule_model *m = w->model;
  bool *wanted = ull__alloc(m->value_count, sizeof *wanted);
  if (!wanted) {
    memset(w->needed, 1, m->node_count * sizeof *w->needed);
    return;
  }
  for (uint32_t i = 0; i < ull__graph_output_count(w->graph); i++)
    wanted[m->root[ull__graph_output(w->graph, i)->value]] = true;
  for (ull__node_id n = m->forward_end; n < m->node_count; n++) {
    const ull__node *node = ull__graph_node(w->graph, n);
    for (uint32_t i = 0; i < node->input_count && !m->skipped[n]; i++) {
      if (node->inputs[i] == ULL__NONE) continue;
      ull__value_id root = m->root[node->inputs[i]];
      if (w->decisions->keep[root] || !m->droppable[root]) wanted[root] = true;
    }
  }
  for (ull__node_id n = m->forward_end; n-- > 0;) {
    const ull__node *node = ull__graph_node(w->graph, n);
    bool needed = !m->recomputable[n];
    for (uint32_t o = 0; o < node->output_count; o++) needed |= wanted[m->root[node->outputs[o]]];
    w->needed[n] = needed;
    bool runs = needed && (!m->skipped[n] || w->awake[n]);
    for (uint32_t i = 0; i < node->input_count && runs; i++)
      if (node->inputs[i] != ULL__NONE) wanted[m->root[node->inputs[i]]] = true;
  }
  ull__free(wanted);
}

static ull_status copy_inputs(walk *w) {
  for (ull__value_id v = 0; v < w->model->value_count; v++) {
    const ull__value *value = ull__graph_value(w->graph, v);
    if (value->role != ULL__ROLE_INPUT || !w->model->read[v]) continue;
    uint32_t now = (uint32_t)w->schedule->execution_count;
    uint64_t bytes = w->model->lowered->values[v].bytes;
    ull__execution execution = {.node = ULL__NONE,
                                .copied = v,
                                .first_operand = (uint32_t)w->schedule->operand_count,
                                .output_count = 1};
    ull__instance instance = {v, ULL__NONE, bytes, now, now, 0};
    ULL__TRY(push_instance(w->schedule, instance, &w->available[v]));
    ULL__TRY(
        push_operand(w->schedule, (ull__operand){ULL__OPERAND_INSTANCE, w->available[v], bytes}));
    ULL__TRY(push_execution(w->schedule, execution));
  }
  return ULL_OK;
}

static void forget_dropped(walk *w) {
  for (ull__value_id v = 0; v < w->model->value_count; v++)
    if (w->model->droppable[v] && !w->decisions->keep[v]) w->available[v] = ULL__NONE;
}

/* Backward and optimizer in the decided order; updates that must wait run in a second pass. */
static ull_status walk_backward(walk *w, bool late) {
  uint32_t count = w->model->node_count - w->model->forward_end;
  for (uint32_t i = 0; i < count && !w->restart && !w->hopeless; i++) {
    ull__node_id n = w->decisions->order[i];
    if (w->model->skipped[n] || w->late[n] != late) continue;
    ull__node_id runs = w->decisions->other_form[n] ? w->model->alternative[n] : n;
    ULL__TRY(run_with_replay(w, runs, 0));
    if (w->decisions->fleeting[n]) forget_inputs(w, runs);
  }
  return ULL_OK;
}

static ull_status walk_nodes(walk *w) {
  const ull__schedule_model *m = w->model;
  ULL__TRY(copy_inputs(w));
  for (ull__node_id n = 0; n < m->forward_end; n++)
    if ((!m->skipped[n] && w->needed[n]) || w->awake[n]) ULL__TRY(run_node(w, n));
  if (m->forward_end < m->node_count) forget_dropped(w);
  ULL__TRY(walk_backward(w, false));
  ULL__TRY(walk_backward(w, true));
  if (w->restart || w->hopeless) return ULL_OK;
  uint32_t end = (uint32_t)w->schedule->execution_count - 1;
  for (uint32_t i = 0; i < ull__graph_output_count(w->graph); i++) {
    ull__value_id root = m->root[ull__graph_output(w->graph, i)->value];
    if (!m->resident[root]) w->schedule->instances[w->available[root]].last = end;
  }
  return ULL_OK;
}

/* ---- sharing in place, and the profile ---- */

static bool may_share(const walk *w, const ull__execution *e, const ull__operand *operands,
                      uint32_t i, uint32_t now, const ull__instance *output) {
  if (operands[i].kind != ULL__OPERAND_INSTANCE) return false;
  const ull__instance *input = &w->schedule->instances[operands[i].index];
  if (input->last != now || input->first == now) return false;
  for (uint32_t j = 0; j < e->input_count; j++)
    if (j != i && operands[j].kind == ULL__OPERAND_INSTANCE &&
        operands[j].index == operands[i].index)
      return false;
  return ull__align_up(input->bytes, ULL__PACKING_ALIGNMENT) ==
         ull__align_up(output->bytes, ULL__PACKING_ALIGNMENT);
}

/* Gives output `o` the storage of a dying input, or storage of its own. */
static ull_status place_output(walk *w, const ull__execution *e, uint32_t now, uint32_t o,
                               uint32_t *taken) {
  ull__schedule *s = w->schedule;
  const ull__operand *operands = &s->operands[e->first_operand];
  ull__instance *output = &s->instances[operands[e->input_count + o].index];
  if (output->first != now) return ULL_OK; /* an update keeps its place */
  uint16_t mask = e->node == ULL__NONE ? 0 : w->model->lowered->nodes[e->node].may_overwrite[o];
  for (uint32_t i = 0; i < e->input_count && mask; i++) {
    if (!(mask >> i & 1) || (*taken >> i & 1) || !may_share(w, e, operands, i, now, output))
      continue;
    *taken |= 1u << i;
    output->buffer = s->instances[operands[i].index].buffer;
    ull__stored *shared = &s->buffers[output->buffer];
    if (shared->last < output->last) shared->last = output->last;
    if (shared->size_bytes < output->bytes) shared->size_bytes = output->bytes;
    return ULL_OK;
  }
  ULL__TRY(reserve((void **)&s->buffers, &s->buffer_capacity, s->buffer_count, sizeof *s->buffers));
  output->buffer = (uint32_t)s->buffer_count;
  s->buffers[s->buffer_count++] =
      (ull__stored){ull__align_up(output->bytes, ULL__PACKING_ALIGNMENT), output->bytes,
                    output->first, output->last, operands[e->input_count + o].index};
  return ULL_OK;
}

static ull_status place_instances(walk *w) {
  ull__schedule *s = w->schedule;
  for (uint32_t now = 0; now < s->execution_count; now++) {
    const ull__execution *e = &s->executions[now];
    uint32_t taken = 0, outputs = e->output_count + e->has_workspace;
    for (uint32_t o = 0; o < outputs; o++) {
      const ull__operand *operand = &s->operands[e->first_operand + e->input_count + o];
      if (operand->kind != ULL__OPERAND_INSTANCE) continue;
      bool workspace = o == e->output_count;
      if (workspace) taken = UINT32_MAX; /* shares with nothing */
      ULL__TRY(place_output(w, e, now, workspace ? e->output_count : o, &taken));
    }
  }
  return ULL_OK;
}

static ull_status profile(ull__schedule *s) {
  size_t steps = s->execution_count;
  if (s->live_capacity < steps + 1) {
    ULL__TRY(ull__vector_grow((void **)&s->live, &s->live_capacity, 0, steps + 1, sizeof *s->live));
  }
  memset(s->live, 0, (steps + 1) * sizeof *s->live);
  for (size_t b = 0; b < s->buffer_count; b++) {
    s->live[s->buffers[b].first] += s->buffers[b].bytes;
    s->live[s->buffers[b].last + 1] -= s->buffers[b].bytes; /* modulo 2^64, undone by the sum */
  }
  s->peak_bytes = 0;
  s->peak_execution = 0;
  for (size_t e = 0; e < steps; e++) {
    if (e > 0) s->live[e] += s->live[e - 1];
    if (s->live[e] == s->peak_bytes) s->peak_count++;
    if (s->live[e] <= s->peak_bytes) continue;
    s->peak_bytes = s->live[e];
    s->peak_execution = (uint32_t)e;
    s->peak_count = 1;
  }
  return ULL_OK;
}

/* ---- one generation ---- */

static ull_status walk_create(walk *w) {
  uint32_t values = w->model->value_count, nodes = w->model->node_count;
  w->available = ull__alloc(values, sizeof *w->available);
  w->updated = ull__alloc(values, sizeof *w->updated);
  w->updater = ull__alloc(values, sizeof *w->updater);
  w->made = ull__alloc(nodes, sizeof *w->made);
  w->needed = ull__alloc(nodes, sizeof *w->needed);
  w->late = ull__alloc(nodes, sizeof *w->late);
  w->awake = ull__alloc(nodes, sizeof *w->awake);
  w->marked = ull__alloc(nodes, sizeof *w->marked);
  bool enough = w->available && w->updated && w->updater && w->made && w->needed && w->late &&
                w->awake && w->marked;
  return enough ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static void walk_destroy(walk *w) {
  ull__free(w->available);
  ull__free(w->updated);
  ull__free(w->updater);
  ull__free(w->made);
  ull__free(w->needed);
  ull__free(w->late);
  ull__free(w->awake);
  ull__free(w->marked);
  ull__free(w->closure);
}

static void walk_reset(walk *w) {
  ull__schedule *s = w->schedule;
  s->execution_count = s->operand_count = s->instance_count = s->buffer_count = 0;
  s->seconds = s->recomputed_seconds = 0;
  s->recomputed_bytes = 0;
  memset(w->available, 0xFF, w->model->value_count * sizeof *w->available);
  memset(w->updated, 0, w->model->value_count * sizeof *w->updated);
  memset(w->made, 0, w->model->node_count * sizeof *w->made);
  memset(w->marked, 0, w->model->node_count * sizeof *w->marked);
  w->replay = 0;
  w->closure_count = 0;
  w->restart = w->hopeless = false;
  w->most_executions = (size_t)w->model->node_count * MOST_REPLAYS;
}

static ull_status walk_until_settled(walk *w) {
  ULL__TRY(walk_create(w));
  wake_encoders(w);
  find_needed(w);
  do {
    walk_reset(w);
    ULL__TRY(walk_nodes(w));
  } while (w->restart);
  if (w->hopeless) {
    w->schedule->peak_bytes = UINT64_MAX;
    w->schedule->seconds = HUGE_VAL;
    return ULL_OK;
  }
  ULL__TRY(place_instances(w));
  return profile(w->schedule);
}

ull_status ull__schedule_generate(const ull__schedule_model *model, const ull__decisions *decisions,
                                  ull__schedule *schedule) {
  walk w = {
      .model = model, .graph = model->lowered->graph, .decisions = decisions, .schedule = schedule};
  ull_status status = walk_until_settled(&w);
  walk_destroy(&w);
  return status;
}

void ull__schedule_free(ull__schedule *schedule) {
  ull__free(schedule->executions);
  ull__free(schedule->operands);
  ull__free(schedule->instances);
  ull__free(schedule->buffers);
  ull__free(schedule->live);
  *schedule = (ull__schedule){0};
}
