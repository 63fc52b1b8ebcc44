/* Moves at the peak. What is idle there, and could be made again, may go; what is idle there and
 * runs once may be had later or be used up earlier, by another order of backward. */
#include "plan/moves.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static bool reads_value(const ull__schedule_model *model, const ull__node *node,
                        ull__value_id root) {
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != ULL__NONE && model->root[node->inputs[i]] == root) return true;
  return false;
}

static bool is_operand_at(const ull__schedule *s, uint32_t execution, uint32_t instance) {
  const ull__execution *e = &s->executions[execution];
  uint32_t operands = e->input_count + e->output_count + e->has_workspace;
  for (uint32_t i = 0; i < operands; i++) {
    const ull__operand *operand = &s->operands[e->first_operand + i];
    if (operand->kind == ULL__OPERAND_INSTANCE && operand->index == instance) return true;
  }
  return false;
}

/* Whether forward still reads the value after the peak: then dropping it for backward frees nothing
 * there. */
static bool forward_needs_after(const ull__schedule_model *model, const ull__schedule *s,
                                const ull__forward_reads *reads, ull__value_id root) {
  const ull__execution *peak = &s->executions[s->peak_execution];
  bool in_forward = peak->node != ULL__NONE && peak->node < model->forward_end && !peak->recomputed;
  return in_forward && reads->last_read[root] > peak->node;
}

static bool is_idle_at_peak(const ull__schedule *s, uint32_t instance) {
  const ull__instance *i = &s->instances[instance];
  return i->first < s->peak_execution && i->last > s->peak_execution && i->value != ULL__NONE &&
         !is_operand_at(s, s->peak_execution, instance);
}

/* Every backward reader must have another form: the forms' bytes against making the value again. */
static void prefer_form(const ull__schedule_model *model, ull__move *move) {
  ull__value_id root = move->root;
  if (model->readers[root] == 0 || model->form_readers[root] != model->readers[root]) return;
  double bytes = (double)model->bytes[root], seconds = 1e-9;
  for (ull__node_id n = model->forward_end; n < model->node_count; n++) {
    const ull__node *node = ull__graph_node(model->lowered->graph, n);
    if (model->alternative[n] == ULL__NONE || !reads_value(model, node, root)) continue;
    const ull__node *encoder = ull__graph_node(model->lowered->graph, model->encoder[n]);
    bytes -= (double)model->bytes[model->root[encoder->outputs[0]]];
    seconds += model->lowered->nodes[model->encoder[n]].kernel.seconds;
  }
  if (bytes / seconds <= move->score) return;
  move->score = bytes / seconds;
  move->kind = ULL__MOVE_FORM;
}

static bool move_for(const ull__schedule_model *model, const ull__schedule *s,
                     const ull__decisions *decisions, const ull__instance *instance,
                     ull__move *move) {
  ull__node_id producer = model->producer[instance->value];
  bool replayed = s->executions[instance->first].recomputed ||
                  (!decisions->keep[instance->value] && instance->first > 0);
  move->root = instance->value;
  if (decisions->keep[instance->value])
    move->kind = ULL__MOVE_DROP;
  else if (replayed && !decisions->fleeting[producer])
    move->kind = ULL__MOVE_FLEETING;
  else
    return false;
  double seconds = model->lowered->nodes[producer].kernel.seconds;
  move->score = (double)model->bytes[instance->value] / (seconds + 1e-9);
  if (move->kind == ULL__MOVE_DROP) prefer_form(model, move);
  return true;
}

bool ull__find_move(const ull__schedule_model *model, const ull__schedule *schedule,
                    const ull__decisions *decisions, const ull__forward_reads *reads,
                    ull__move *out) {
  out->score = -1;
  for (uint32_t i = 0; i < schedule->instance_count; i++) {
    const ull__instance *instance = &schedule->instances[i];
    ull__move move;
    if (!is_idle_at_peak(schedule, i) || !model->droppable[instance->value]) continue;
    if (forward_needs_after(model, schedule, reads, instance->value)) continue;
    if (!move_for(model, schedule, decisions, instance, &move) || move.score <= out->score)
      continue;
    *out = move;
  }
  return out->score >= 0;
}

void ull__apply_move(const ull__schedule_model *model, const ull__move *move,
                     ull__decisions *decisions) {
  if (move->kind == ULL__MOVE_FLEETING)
    decisions->fleeting[model->producer[move->root]] = true;
  else
    decisions->keep[move->root] = false;
  for (ull__node_id n = model->forward_end; n < model->node_count; n++) {
    const ull__node *node = ull__graph_node(model->lowered->graph, n);
    if (move->kind == ULL__MOVE_FORM && model->alternative[n] != ULL__NONE &&
        reads_value(model, node, move->root))
      decisions->other_form[n] = true;
  }
}

/* ---- holding on ---- */

static bool is_base(const ull__schedule_model *model, const ull__execution *e) {
  return e->node != ULL__NONE && e->node >= model->forward_end;
}

/* The latest execution of `node` in backward before `until`; UINT32_MAX where there is none. */
static uint32_t find_earlier(const ull__schedule_model *model, const ull__schedule *s,
                             ull__node_id node, uint32_t until) {
  uint32_t found = UINT32_MAX;
  for (uint32_t e = until; e-- > 0 && found == UINT32_MAX;)
    if (s->executions[e].node == node) found = e;
  for (uint32_t e = 0; e < found && found != UINT32_MAX; e++)
    if (is_base(model, &s->executions[e])) return found;
  return UINT32_MAX;
}

uint32_t ull__find_retentions(const ull__schedule_model *model, const ull__schedule *s,
                              const ull__decisions *decisions, ull__retention *out, uint32_t most) {
  uint32_t base = s->peak_execution, begin = s->peak_execution, count = 0;
  while (base < s->execution_count && !is_base(model, &s->executions[base])) base++;
  while (begin > 0 && !is_base(model, &s->executions[begin - 1])) begin--;
  if (base == s->execution_count) return 0;
  const ull__execution *e = &s->executions[base];
  for (uint32_t i = 0; i < e->input_count && count < most; i++) {
    const ull__operand *operand = &s->operands[e->first_operand + i];
    if (operand->kind != ULL__OPERAND_INSTANCE) continue;
    const ull__instance *instance = &s->instances[operand->index];
    if (instance->first < begin || instance->value == ULL__NONE) continue;
    ull__node_id node = model->producer[instance->value];
    if (node == ULL__NONE || node >= model->forward_end) continue;
    uint32_t earlier = find_earlier(model, s, node, begin);
    if (earlier == UINT32_MAX) continue;
    uint32_t segment = s->executions[earlier].segment;
    if (decisions->hold[node] >= segment && !decisions->fleeting[node]) continue;
    out[count++] = (ull__retention){node, segment};
  }
  return count;
}

/* ---- what replays leave behind ---- */

#define HOLDS_TRIED 3u
#define SMALL_SHARE 256 /* of the peak: what is smaller changes nothing */

typedef struct changes {
  const ull__schedule_model *model;
  const ull__schedule *schedule;
  const ull__decisions *decisions;
  uint32_t begin, base; /* the replay at the peak, and the node of backward it is for */
  ull__replay_change *items;
  uint32_t count, most;
} changes;

static void add_change(changes *c, ull__replay_change change) {
  if (c->count < c->most) c->items[c->count++] = change;
}

/* The last node of backward before the peak that reads the instance. */
static ull__node_id find_last_reader(const changes *c, uint32_t instance) {
  const ull__schedule *s = c->schedule;
  for (uint32_t e = s->peak_execution; e-- > s->instances[instance].first;) {
    if (!is_base(c->model, &s->executions[e]) || !is_operand_at(s, e, instance)) continue;
    ull__node_id node = s->executions[e].node;
    ull__node_id primary = ull__graph_node(c->model->lowered->graph, node)->alternative_of;
    return primary == ULL__NONE ? node : primary;
  }
  return ULL__NONE;
}

/* Ways for an idle instance to be gone at the peak: no longer held that long, gone with the node
 * that read it last, gone with its first reader. */
static void add_releases(changes *c, uint32_t index) {
  const ull__decisions *d = c->decisions;
  const ull__instance *instance = &c->schedule->instances[index];
  ull__node_id node = c->model->producer[instance->value];
  uint32_t made_for = c->schedule->executions[instance->first].segment;
  if (d->keep[instance->value]) {
    add_change(c, (ull__replay_change){node, d->hold[node], d->fleeting[node], true});
    return;
  }
  bool earlier = instance->first < c->begin && d->hold[node] >= made_for;
  if (earlier && made_for > d->segment[node])
    add_change(c, (ull__replay_change){node, made_for - 1, d->fleeting[node], false});
  ull__node_id reader = find_last_reader(c, index);
  if (reader != ULL__NONE && !d->fleeting[reader])
    add_change(c, (ull__replay_change){reader, d->hold[reader], true, false});
  if (!d->fleeting[node]) add_change(c, (ull__replay_change){node, d->hold[node], true, false});
}

static bool makes_much(const changes *c, ull__node_id n) {
  const ull__node *node = ull__graph_node(c->model->lowered->graph, n);
  uint64_t bytes = 0;
  for (uint32_t o = 0; o < node->output_count; o++)
    bytes += c->model->bytes[c->model->root[node->outputs[o]]];
  return bytes >= c->schedule->peak_bytes / SMALL_SHARE;
}

/* Earlier replays that made the same and could have left it, nearest first. */
static void add_holds(changes *c, ull__node_id node) {
  bool fleeting = c->decisions->fleeting[node];
  uint32_t hold = c->decisions->hold[node], tried = 0;
  for (uint32_t e = c->begin; e-- > 0 && tried < HOLDS_TRIED;) {
    const ull__execution *execution = &c->schedule->executions[e];
    if (execution->node != node || !execution->recomputed) continue;
    if (!fleeting && execution->segment <= hold) continue;
    if (execution->segment > hold) hold = execution->segment;
    fleeting = false;
    add_change(c, (ull__replay_change){node, hold, false, false});
    tried++;
  }
}

uint32_t ull__find_replay_changes(const ull__schedule_model *model, const ull__schedule *s,
                                  const ull__decisions *decisions, ull__replay_change *out,
                                  uint32_t most) {
  changes c = {model, s, decisions, s->peak_execution, s->peak_execution, out, 0, most};
  while (c.base < s->execution_count && !is_base(model, &s->executions[c.base])) c.base++;
  while (c.begin > 0 && !is_base(model, &s->executions[c.begin - 1])) c.begin--;
  if (c.base == s->execution_count) return 0;
  for (uint32_t i = 0; i < s->instance_count; i++) {
    const ull__instance *instance = &s->instances[i];
    bool large = instance->bytes >= s->peak_bytes / SMALL_SHARE;
    if (large && is_idle_at_peak(s, i) && model->droppable[instance->value]) add_releases(&c, i);
  }
  for (uint32_t e = c.base; e-- > s->peak_execution;) {
    ull__node_id node = s->executions[e].node;
    if (node != ULL__NONE && makes_much(&c, node)) add_holds(&c, node);
  }
  return c.count;
}

/* ---- another order ---- */

uint32_t ull__find_held(const ull__schedule_model *model, const ull__schedule *schedule,
                        ull__value_id *out, uint32_t most) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < schedule->instance_count; i++) {
    ull__value_id root = schedule->instances[i].value;
    if (!is_idle_at_peak(schedule, i)) continue;
    if (model->droppable[root] || model->producer[root] == ULL__NONE) continue;
    if (model->producer[root] < model->forward_end) continue;
    uint32_t place = count < most ? count++ : most;
    while (place > 0 && model->bytes[out[place - 1]] < model->bytes[root]) {
      if (place < most) out[place] = out[place - 1];
      place--;
    }
    if (place < most) out[place] = root;
  }
  return count;
}

typedef struct reordering {
  const ull__schedule_model *model;
  const ull__graph *graph;
  ull__node_id *order;
  uint32_t count;
  uint32_t *position; /* by node: index in the order; UINT32_MAX for forward */
  bool *moves;        /* by index in the order */
} reordering;

/* The base node during which, or for whose replay, the peak arises: its index in the order. */
static uint32_t find_peak_index(const reordering *r, const ull__schedule *s) {
  for (size_t e = s->peak_execution; e < s->execution_count; e++) {
    ull__node_id node = s->executions[e].node;
    if (node == ULL__NONE || node < r->model->forward_end) continue;
    ull__node_id primary = ull__graph_node(r->graph, node)->alternative_of;
    return r->position[primary == ULL__NONE ? node : primary];
  }
  return UINT32_MAX;
}

/* Whether the node at `index` must run before the one at `later`: makes an input of it, or reads
 * what it updates. */
static bool must_precede(const reordering *r, uint32_t index, uint32_t later) {
  const ull__node *first = ull__graph_node(r->graph, r->order[index]);
  const ull__node *second = ull__graph_node(r->graph, r->order[later]);
  for (uint32_t o = 0; o < first->output_count; o++)
    for (uint32_t i = 0; i < second->input_count; i++)
      if (second->inputs[i] == first->outputs[o]) return true;
  for (uint32_t o = 0; o < second->output_count; o++) {
    ull__value_id root = r->model->root[second->outputs[o]];
    if (root != second->outputs[o] && reads_value(r->model, first, root)) return true;
  }
  /* views hand storage on under another id */
  for (uint32_t o = 0; o < first->output_count; o++) {
    ull__value_id root = r->model->root[first->outputs[o]];
    if (root == first->outputs[o] && reads_value(r->model, second, root)) return true;
  }
  return false;
}

/* Marks what must move along with the marked nodes of (from, to]. */
static void mark_ancestors(reordering *r, uint32_t from, uint32_t to) {
  for (uint32_t later = to; later > from; later--) {
    if (!r->moves[later]) continue;
    for (uint32_t index = from; index < later; index++)
      if (!r->moves[index] && must_precede(r, index, later)) r->moves[index] = true;
  }
}

/* Puts the marked nodes of [at, to] in front of the others there, both keeping their order. */
static ull_status rearrange(reordering *r, uint32_t at, uint32_t to) {
  uint32_t count = to - at + 1, used = 0;
  ull__node_id *moved = ull__alloc(count, sizeof *moved);
  if (!moved) return ULL_ERROR_OUT_OF_MEMORY;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = at; i <= to; i++)
      if (r->moves[i] == (pass == 0)) moved[used++] = r->order[i];
  memcpy(r->order + at, moved, count * sizeof *moved);
  ull__free(moved);
  return ULL_OK;
}

/* Readers of the held value, and the optimizer steps that free it, move in front of the peak's
 * node. */
static ull_status move_readers(reordering *r, ull__value_id held, uint32_t peak, bool *moved) {
  uint32_t last = peak;
  for (uint32_t i = peak + 1; i < r->count; i++)
    if (reads_value(r->model, ull__graph_node(r->graph, r->order[i]), held)) {
      r->moves[i] = true;
      last = i;
    }
  if (last == peak) return ULL_OK;
  mark_ancestors(r, peak, last);
  if (r->moves[peak]) return ULL_OK;
  *moved = true;
  return rearrange(r, peak, last);
}

/* Marks the readers of what the node at `index` makes; returns the last of them. */
static uint32_t mark_readers(reordering *r, uint32_t index) {
  const ull__node *node = ull__graph_node(r->graph, r->order[index]);
  uint32_t last = index;
  for (uint32_t o = 0; o < node->output_count; o++)
    for (uint32_t i = index + 1; i < r->count; i++)
      if (reads_value(r->model, ull__graph_node(r->graph, r->order[i]), node->outputs[o])) {
        r->moves[i] = true;
        if (i > last) last = i;
      }
  return last;
}

/* The peak's node moves in front of the held value's maker, alone or with its readers. */
static ull_status move_peak(reordering *r, ull__value_id held, uint32_t peak, bool with_readers,
                            bool *moved) {
  uint32_t maker = r->position[r->model->producer[held]], last = peak;
  if (maker == UINT32_MAX || maker >= peak) return ULL_OK;
  r->moves[peak] = true;
  if (with_readers) last = mark_readers(r, peak);
  mark_ancestors(r, maker, last);
  if (r->moves[maker] || (with_readers && last == peak)) return ULL_OK;
  *moved = true;
  return rearrange(r, maker, last);
}

ull_status ull__reorder_held(const ull__schedule_model *model, const ull__schedule *schedule,
                             ull__decisions *decisions, ull__value_id held, ull__order_move move,
                             bool *moved) {
  reordering r = {.model = model,
                  .graph = model->lowered->graph,
                  .order = decisions->order,
                  .count = model->node_count - model->forward_end};
  *moved = false;
  r.position = ull__alloc(model->node_count, sizeof *r.position);
  r.moves = ull__alloc(r.count, sizeof *r.moves);
  ull_status status = r.position && r.moves ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK) {
    memset(r.position, 0xFF, model->node_count * sizeof *r.position);
    for (uint32_t i = 0; i < r.count; i++) r.position[r.order[i]] = i;
    uint32_t peak = find_peak_index(&r, schedule);
    if (peak != UINT32_MAX)
      status = move == ULL__ORDER_READERS_EARLIER
                   ? move_readers(&r, held, peak, moved)
                   : move_peak(&r, held, peak, move == ULL__ORDER_PEAK_AND_READERS_EARLIER, moved);
  }
  ull__free(r.position);
  ull__free(r.moves);
  return status;
}
