/* The independent checker: replays programs symbolically, sharing nothing with the planner.
 *
 * Every value of the graph stands for one content of bytes (updates make new values, so a value is
 * also a version); views and twins show the bytes of another. An instruction may read a buffer only
 * while it holds the very value that the graph names. Places are checked by a sweep over births and
 * deaths, order between lanes by what each instruction knows to be complete. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash_map.h"
#include "plan/program.h"

#define ALIGNMENT_BYTES 64u

typedef struct replay {
  const ull__family *family;
  const ull__program *program;
  const ull__graph *graph;
  const ull__lowered *lowered;
  ull__value_id *shown;   /* by value: whose bytes it shows, through views and twins */
  ull__value_id *content; /* by buffer: the value it holds; ULL__NONE = nothing that may be read */
  bool *used;             /* by buffer: something was put here */
  uint32_t *runs;         /* by node */
  /* by instruction: all of a lane before this index is complete when it starts */
  uint32_t (*done)[ULL__LANE_COUNT];
  uint32_t *previous; /* by instruction: the one before it on its lane */
  uint32_t last[ULL__LANE_COUNT];
  uint32_t now;
} replay;

/* ---- messages ---- */

static const char *value_name(const replay *r, ull__value_id value) {
  return value == ULL__NONE ? "nothing" : ull__graph_value(r->graph, value)->name;
}

static const char *instruction_name(const replay *r, uint32_t index) {
  const ull__instruction *i = &r->program->instructions[index];
  if (i->node < ull__graph_node_count(r->graph)) return ull__graph_node(r->graph, i->node)->name;
  if (i->value < ull__graph_value_count(r->graph)) return value_name(r, i->value);
  return "no node";
}

static __attribute__((format(printf, 2, 3))) ull_status fail_program(const replay *r,
                                                                     const char *format, ...) {
  char reason[384];
  va_list list;
  va_start(list, format);
  vsnprintf(reason, sizeof reason, format, list);
  va_end(list);
  return ULL__FAIL(ULL_ERROR_INTERNAL, "plan check: program %s: %s", r->program->name, reason);
}

static __attribute__((format(printf, 2, 3))) ull_status fail_here(const replay *r,
                                                                  const char *format, ...) {
  char reason[384];
  va_list list;
  va_start(list, format);
  vsnprintf(reason, sizeof reason, format, list);
  va_end(list);
  ULL__FAIL(ULL_ERROR_INTERNAL, "plan check: program %s, instruction %u (%s): %s", r->program->name,
            r->now, instruction_name(r, r->now), reason);
  return ull__error_holder("%s", instruction_name(r, r->now));
}

/* ---- places ---- */

static ull_status check_place(const replay *r, uint32_t index) {
  const ull__buffer *b = &r->program->buffers[index];
  if (b->slab >= ULL__SLAB_KINDS)
    return fail_program(r, "buffer %u (%s) is in no slab", index, b->name);
  const ull__program_slab *slab = &r->family->slabs[b->slab];
  if (b->tier != slab->tier)
    return fail_program(r, "buffer %u (%s) is in another tier than its slab", index, b->name);
  if (b->offset_bytes > slab->bytes || b->size_bytes > slab->bytes - b->offset_bytes)
    return fail_program(r, "buffer %u (%s) at %llu of %llu bytes leaves its slab of %llu", index,
                        b->name, (unsigned long long)b->offset_bytes,
                        (unsigned long long)b->size_bytes, (unsigned long long)slab->bytes);
  if (b->offset_bytes % ALIGNMENT_BYTES != 0)
    return fail_program(r, "buffer %u (%s) is not aligned", index, b->name);
  if (b->first > b->last || b->last >= r->program->instruction_count)
    return fail_program(r, "buffer %u (%s) lives from %u to %u of %u instructions", index, b->name,
                        b->first, b->last, r->program->instruction_count);
  bool whole = b->first == 0 && b->last == r->program->instruction_count - 1;
  if (b->persistent ? !whole : b->slab != ULL__SLAB_ARENA)
    return fail_program(r, "buffer %u (%s) may not live from %u to %u in slab %u", index, b->name,
                        b->first, b->last, b->slab);
  return ULL_OK;
}

static int compare_first(const void *x, const void *y) {
  const ull__buffer *a = *(ull__buffer *const *)x, *b = *(ull__buffer *const *)y;
  return (a->first > b->first) - (a->first < b->first);
}

static int compare_last(const void *x, const void *y) {
  const ull__buffer *a = *(ull__buffer *const *)x, *b = *(ull__buffer *const *)y;
  return (a->last > b->last) - (a->last < b->last);
}

/* The live ranges of the sweep: disjoint, ordered by slab and offset. */
typedef struct live_ranges {
  const ull__buffer **items;
  size_t count;
} live_ranges;

static size_t find_range(const live_ranges *live, const ull__buffer *b) {
  size_t low = 0, high = live->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const ull__buffer *m = live->items[middle];
    bool before = m->slab != b->slab ? m->slab < b->slab : m->offset_bytes < b->offset_bytes;
    if (before)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool spaces_overlap(const ull__buffer *a, const ull__buffer *b) {
  return a->slab == b->slab && a->offset_bytes < b->offset_bytes + b->size_bytes &&
         b->offset_bytes < a->offset_bytes + a->size_bytes;
}

static ull_status insert_range(const replay *r, live_ranges *live, const ull__buffer *b) {
  size_t place = find_range(live, b);
  for (size_t i = place > 0 ? place - 1 : 0; i < live->count && i <= place; i++)
    if (spaces_overlap(live->items[i], b))
      return fail_program(r, "%s (%u to %u) and %s (%u to %u) overlap in slab %u at offset %llu",
                          live->items[i]->name, live->items[i]->first, live->items[i]->last,
                          b->name, b->first, b->last, b->slab, (unsigned long long)b->offset_bytes);
  memmove(&live->items[place + 1], &live->items[place],
          (live->count - place) * sizeof *live->items);
  live->items[place] = b;
  live->count++;
  return ULL_OK;
}

static void remove_range(live_ranges *live, const ull__buffer *b) {
  size_t place = find_range(live, b);
  live->count--;
  memmove(&live->items[place], &live->items[place + 1],
          (live->count - place) * sizeof *live->items);
}

/* Births in order of time; a range leaves before the first birth after its last instruction. */
static ull_status sweep(const replay *r, const ull__buffer **births, const ull__buffer **deaths,
                        size_t count, live_ranges *live) {
  size_t dead = 0;
  qsort(births, count, sizeof *births, compare_first);
  qsort(deaths, count, sizeof *deaths, compare_last);
  for (size_t i = 0; i < count; i++) {
    while (deaths[dead]->last < births[i]->first) remove_range(live, deaths[dead++]);
    ULL__TRY(insert_range(r, live, births[i]));
  }
  return ULL_OK;
}

static ull_status check_places(const replay *r) {
  uint32_t buffers = r->program->buffer_count;
  size_t count = 0;
  for (uint32_t b = 0; b < buffers; b++) ULL__TRY(check_place(r, b));
  const ull__buffer **lists = ull__alloc((size_t)buffers * 3, sizeof *lists);
  if (!lists) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t b = 0; b < buffers; b++) {
    if (r->program->buffers[b].size_bytes == 0) continue;
    lists[count] = lists[buffers + count] = &r->program->buffers[b];
    count++;
  }
  live_ranges live = {&lists[2 * (size_t)buffers], 0};
  ull_status status = sweep(r, lists, &lists[buffers], count, &live);
  ull__free(lists);
  return status;
}

/* ---- what lives from step to step ---- */

static ull_status check_persistent(const replay *r, const ull__text_map *names,
                                   const ull__buffer *b) {
  if (!b->persistent || b->slab != ULL__SLAB_PERSISTENT) return ULL_OK;
  const uint64_t *index = ull__text_map_find(names, b->name);
  const ull__persistent *p = index ? &r->family->persistents[*index] : NULL;
  if (!p || p->offset_bytes != b->offset_bytes || p->size_bytes != b->size_bytes)
    return fail_program(r, "%s lies elsewhere than the family's %s", b->name, b->name);
  if (b->value == ULL__NONE) return ULL_OK;
  const ull__value *value = ull__graph_value(r->graph, b->value);
  if (value->producer != ULL__NONE || strcmp(value->name, b->name) != 0)
    return fail_program(r, "%s does not live from step to step as %s", value->name, b->name);
  return ULL_OK;
}

static ull_status fill_persistents(replay *r, const ull__text_map *names) {
  for (uint32_t i = 0; i < r->program->buffer_count; i++) {
    const ull__buffer *b = &r->program->buffers[i];
    if (b->value != ULL__NONE && b->value >= ull__graph_value_count(r->graph))
      return fail_program(r, "buffer %u (%s) holds no value of the graph", i, b->name);
    ULL__TRY(check_persistent(r, names, b));
    if (!b->persistent) continue;
    r->content[i] = b->value;
    r->used[i] = true;
  }
  return ULL_OK;
}

/* ---- order between lanes ---- */

static void learn(uint32_t *done, const uint32_t *more) {
  for (uint32_t l = 0; l < ULL__LANE_COUNT; l++)
    if (more[l] > done[l]) done[l] = more[l];
}

static ull_status follow_waits(replay *r, const ull__instruction *i) {
  uint32_t *done = r->done[r->now];
  if (i->lane >= ULL__LANE_COUNT) return fail_here(r, "lane %u is none", (unsigned)i->lane);
  r->previous[r->now] = r->last[i->lane];
  if (r->previous[r->now] != ULL__NONE) learn(done, r->done[r->previous[r->now]]);
  done[i->lane] = r->now;
  for (uint32_t w = 0; w < i->wait_count; w++) {
    uint32_t awaited = i->waits[w];
    if (awaited >= r->now) return fail_here(r, "waits for %u, which is not earlier", awaited);
    learn(done, r->done[awaited]);
    uint32_t *lane = &done[r->program->instructions[awaited].lane];
    if (*lane <= awaited) *lane = awaited + 1;
  }
  r->last[i->lane] = r->now;
  return ULL_OK;
}

static uint32_t operand_count(const ull__instruction *i) {
  return i->input_count + i->output_count + i->has_workspace;
}

/* Whether two touch the same bytes, one of them writing. */
static bool clash(const replay *r, const ull__instruction *a, const ull__instruction *b) {
  for (uint32_t x = 0; x < operand_count(a); x++)
    for (uint32_t y = 0; y < operand_count(b); y++) {
      bool writes = x >= a->input_count || y >= b->input_count;
      if (!writes || a->operands[x] == ULL__NONE || b->operands[y] == ULL__NONE) continue;
      if (spaces_overlap(&r->program->buffers[a->operands[x]],
                         &r->program->buffers[b->operands[y]]))
        return true;
    }
  return false;
}

/* Instructions of other lanes that may still run must not touch what this one writes, nor write
 * what it touches. */
static ull_status check_order(const replay *r, const ull__instruction *i) {
  for (uint32_t l = 0; l < ULL__LANE_COUNT; l++) {
    if (l == i->lane) continue;
    for (uint32_t other = r->last[l]; other != ULL__NONE && other >= r->done[r->now][l];
         other = r->previous[other])
      if (clash(r, i, &r->program->instructions[other]))
        return fail_here(r, "does not wait for instruction %u (%s), which uses the same bytes",
                         other, instruction_name(r, other));
  }
  return ULL_OK;
}

/* ---- one instruction ---- */

static ull_status check_operand(const replay *r, const ull__instruction *i, uint32_t operand,
                                ull__value_id value, uint64_t bytes) {
  uint32_t index = i->operands[operand];
  if (index == ULL__NONE && value == ULL__NONE) return ULL_OK;
  if (index == ULL__NONE)
    return fail_here(r, "operand %u (%s) is missing", operand, value_name(r, value));
  if (index >= r->program->buffer_count)
    return fail_here(r, "operand %u is buffer %u, which does not exist", operand, index);
  const ull__buffer *b = &r->program->buffers[index];
  if (b->slab != ULL__SLAB_ARENA && b->slab != ULL__SLAB_PERSISTENT)
    return fail_here(r, "operand %u is %s, which no instruction may touch", operand, b->name);
  if (r->now < b->first || r->now > b->last)
    return fail_here(r, "uses %s, which lives from %u to %u", b->name, b->first, b->last);
  if (i->bytes[operand] != bytes || bytes > b->size_bytes)
    return fail_here(r, "operand %u takes %llu bytes of %s, which has %llu for the %llu wanted",
                     operand, (unsigned long long)i->bytes[operand], b->name,
                     (unsigned long long)b->size_bytes, (unsigned long long)bytes);
  return ULL_OK;
}

static ull_status check_input(const replay *r, const ull__instruction *i, const ull__node *node,
                              uint32_t input) {
  ull__value_id value = node->inputs[input];
  if (value == ULL__NONE)
    return i->operands[input] == ULL__NONE
               ? ULL_OK
               : fail_here(r, "input %u is absent in the graph and there in the plan", input);
  ULL__TRY(check_operand(r, i, input, value, r->lowered->values[value].bytes));
  ull__value_id held = r->content[i->operands[input]];
  if (held == ULL__NONE || r->shown[held] != r->shown[value])
    return fail_here(r, "reads %s from buffer %u, which holds %s", value_name(r, value),
                     i->operands[input], value_name(r, held));
  return ULL_OK;
}

/* An output's bytes may be those of an input only where the graph or the kernel says so, and then
 * of no other operand. */
static ull_status check_in_place(const replay *r, const ull__instruction *i, const ull__node *node,
                                 uint32_t output) {
  uint32_t buffer = i->operands[i->input_count + output];
  uint32_t updated = node->op->updates[output];
  uint16_t allowed =
      node->op->overwrites[output] & r->lowered->nodes[i->node].may_overwrite[output];
  if (updated) allowed = (uint16_t)(1u << (updated - 1));
  if (updated && i->operands[updated - 1] != buffer)
    return fail_here(r, "does not update %s where it lies",
                     value_name(r, node->inputs[updated - 1]));
  if (!updated && r->program->buffers[buffer].persistent)
    return fail_here(r, "writes %s over %s, which lives from step to step",
                     value_name(r, node->outputs[output]), r->program->buffers[buffer].name);
  for (uint32_t k = 0; k < operand_count(i); k++) {
    bool itself = k == i->input_count + output;
    if (itself || i->operands[k] != buffer) continue;
    if (k >= i->input_count || !(allowed >> k & 1))
      return fail_here(r, "writes %s over its operand %u (%s)",
                       value_name(r, node->outputs[output]), k, r->program->buffers[buffer].name);
  }
  return ULL_OK;
}

static ull_status check_first_value(const replay *r, uint32_t buffer, ull__value_id value) {
  ull__value_id named = r->program->buffers[buffer].value;
  bool same = named == value || (named < ull__graph_value_count(r->graph) && value != ULL__NONE &&
                                 r->shown[named] == r->shown[value]);
  if (r->used[buffer] || same) return ULL_OK;
  return fail_here(r, "buffer %u is said to hold %s first, and gets %s", buffer,
                   value_name(r, named), value_name(r, value));
}

static ull_status check_outputs(const replay *r, const ull__instruction *i, const ull__node *node) {
  uint64_t workspace = r->lowered->nodes[i->node].kernel.workspace_bytes;
  for (uint32_t o = 0; o < i->output_count; o++) {
    ull__value_id value = node->outputs[o];
    ULL__TRY(check_operand(r, i, i->input_count + o, value, r->lowered->values[value].bytes));
    ULL__TRY(check_in_place(r, i, node, o));
    ULL__TRY(check_first_value(r, i->operands[i->input_count + o], value));
  }
  if (i->has_workspace != (workspace > 0)) return fail_here(r, "has a wrong workspace");
  if (!i->has_workspace) return ULL_OK;
  uint32_t operand = i->input_count + i->output_count;
  if (i->operands[operand] == ULL__NONE) return fail_here(r, "its workspace is missing");
  ULL__TRY(check_operand(r, i, operand, ULL__NONE, workspace));
  for (uint32_t k = 0; k < operand; k++)
    if (i->operands[k] == i->operands[operand])
      return fail_here(r, "its workspace is also its operand %u", k);
  return check_first_value(r, i->operands[operand], ULL__NONE);
}

static bool has_effect(const ull__node *node) {
  bool effect = (node->op->flags & ULL__OP_ONCE) != 0;
  for (uint32_t o = 0; o < node->output_count; o++) effect |= node->op->updates[o] != 0;
  return effect;
}

static ull_status check_launch(replay *r, const ull__instruction *i) {
  if (i->node >= ull__graph_node_count(r->graph)) return fail_here(r, "launches no node");
  const ull__node *node = ull__graph_node(r->graph, i->node);
  if (i->input_count != node->input_count || i->output_count != node->output_count)
    return fail_here(r, "has %u inputs and %u outputs, its node %u and %u", i->input_count,
                     i->output_count, node->input_count, node->output_count);
  if (node->op->flags & ULL__OP_VIEW) return fail_here(r, "launches a view");
  if (has_effect(node) && r->runs[i->node] > 0)
    return fail_here(r, "changes state and has run before");
  if (i->recomputed != (r->runs[i->node] > 0))
    return fail_here(r, "is %smarked as recomputed", i->recomputed ? "" : "not ");
  for (uint32_t k = 0; k < i->input_count; k++) ULL__TRY(check_input(r, i, node, k));
  ULL__TRY(check_outputs(r, i, node));
  r->runs[i->node]++;
  return ULL_OK;
}

static ull_status check_copy_in(const replay *r, const ull__instruction *i) {
  if (i->value >= ull__graph_value_count(r->graph)) return fail_here(r, "copies no value");
  const ull__value *value = ull__graph_value(r->graph, i->value);
  if (value->role != ULL__ROLE_INPUT || value->producer != ULL__NONE)
    return fail_here(r, "copies in a value that is no input");
  if (i->input_count != 0 || i->output_count != 1 || i->has_workspace)
    return fail_here(r, "a copy in has one output and no more");
  ULL__TRY(check_operand(r, i, 0, i->value, r->lowered->values[i->value].bytes));
  if (r->program->buffers[i->operands[0]].persistent)
    return fail_here(r, "copies over what lives from step to step");
  return check_first_value(r, i->operands[0], i->value);
}

static void write_operands(replay *r, const ull__instruction *i) {
  bool copy = i->action == ULL__ACTION_COPY_IN;
  const ull__value_id *values = copy ? &i->value : ull__graph_node(r->graph, i->node)->outputs;
  for (uint32_t o = 0; o < i->output_count + i->has_workspace; o++) {
    uint32_t buffer = i->operands[i->input_count + o];
    r->content[buffer] = o < i->output_count ? values[o] : ULL__NONE;
    r->used[buffer] = true;
  }
}

static ull_status check_instruction(replay *r) {
  const ull__instruction *i = &r->program->instructions[r->now];
  ULL__TRY(follow_waits(r, i));
  if (i->action == ULL__ACTION_MARK)
    return operand_count(i) == 0 ? ULL_OK : fail_here(r, "a mark has no operands");
  if (i->action != ULL__ACTION_LAUNCH && i->action != ULL__ACTION_COPY_IN)
    return fail_here(r, "action %u is not known to the checker", (unsigned)i->action);
  ULL__TRY(i->action == ULL__ACTION_LAUNCH ? check_launch(r, i) : check_copy_in(r, i));
  ULL__TRY(check_order(r, i));
  write_operands(r, i);
  return ULL_OK;
}

/* ---- the end of a program ---- */

static ull_status check_end(const replay *r) {
  for (ull__node_id n = 0; n < ull__graph_node_count(r->graph); n++) {
    const ull__node *node = ull__graph_node(r->graph, n);
    if (has_effect(node) && r->runs[n] == 0)
      return fail_program(r, "%s changes state and never runs", node->name);
  }
  if (r->program->output_count != ull__graph_output_count(r->graph))
    return fail_program(r, "has %u outputs, its graph %u", r->program->output_count,
                        ull__graph_output_count(r->graph));
  for (uint32_t o = 0; o < r->program->output_count; o++) {
    const ull__program_output *output = &r->program->outputs[o];
    ull__value_id value = ull__graph_output(r->graph, o)->value;
    if (output->value != value || output->buffer >= r->program->buffer_count)
      return fail_program(r, "output %s is not the graph's", output->name);
    ull__value_id held = r->content[output->buffer];
    bool alive = r->program->buffers[output->buffer].last == r->program->instruction_count - 1;
    if (!alive || held == ULL__NONE || r->shown[held] != r->shown[value])
      return fail_program(r, "output %s is not in its buffer at the end, which holds %s",
                          output->name, alive ? value_name(r, held) : "nothing");
  }
  return ULL_OK;
}

static void find_shown(replay *r) {
  for (ull__value_id v = 0; v < ull__graph_value_count(r->graph); v++) r->shown[v] = v;
  for (ull__node_id n = 0; n < ull__graph_node_count(r->graph); n++) {
    const ull__node *node = ull__graph_node(r->graph, n);
    if (node->op->flags & ULL__OP_VIEW) r->shown[node->outputs[0]] = r->shown[node->inputs[0]];
    for (uint32_t o = 0; o < node->output_count && node->alternative_of != ULL__NONE; o++)
      r->shown[node->outputs[o]] = ull__graph_node(r->graph, node->alternative_of)->outputs[o];
  }
}

static ull_status replay_program(replay *r, const ull__text_map *names) {
  memset(r->last, 0xFF, sizeof r->last);
  memset(r->content, 0xFF, r->program->buffer_count * sizeof *r->content);
  find_shown(r);
  ULL__TRY(check_places(r));
  ULL__TRY(fill_persistents(r, names));
  for (r->now = 0; r->now < r->program->instruction_count; r->now++) ULL__TRY(check_instruction(r));
  return check_end(r);
}

static ull_status check_program(const ull__family *family, const ull__program *program,
                                const ull__text_map *names) {
  const ull__graph *graph = program->lowered->graph;
  ull__arena memory = {0};
  replay r = {.family = family, .program = program, .graph = graph, .lowered = program->lowered};
  r.shown = ull__arena_alloc(&memory, ull__graph_value_count(graph), sizeof *r.shown);
  r.runs = ull__arena_alloc(&memory, ull__graph_node_count(graph), sizeof *r.runs);
  r.content = ull__arena_alloc(&memory, program->buffer_count, sizeof *r.content);
  r.used = ull__arena_alloc(&memory, program->buffer_count, sizeof *r.used);
  r.done = ull__arena_alloc(&memory, program->instruction_count, sizeof *r.done);
  r.previous = ull__arena_alloc(&memory, program->instruction_count, sizeof *r.previous);
  bool enough = r.shown && r.runs && r.content && r.used && r.done && r.previous;
  ull_status status = enough ? replay_program(&r, names) : ULL_ERROR_OUT_OF_MEMORY;
  ull__arena_free(&memory);
  return status;
}

static ull_status check_budgets(const ull__family *family,
                                const uint64_t budget_bytes[ULL__TIER_COUNT]) {
  uint64_t left[ULL__TIER_COUNT];
  memcpy(left, budget_bytes, sizeof left);
  for (uint32_t s = 0; s < ULL__SLAB_KINDS; s++) {
    const ull__program_slab *slab = &family->slabs[s];
    if (slab->bytes > left[slab->tier])
      return ULL__FAIL(ULL_ERROR_INTERNAL, "plan check: slabs need more than the %llu bytes of %s",
                       (unsigned long long)budget_bytes[slab->tier], ull__tier_name(slab->tier));
    if (left[slab->tier] != UINT64_MAX) left[slab->tier] -= slab->bytes;
  }
  return ULL_OK;
}

ull_status ull__family_check(const ull__family *family,
                             const uint64_t budget_bytes[ULL__TIER_COUNT]) {
  ull__text_map names = {0};
  ull_status status = check_budgets(family, budget_bytes);
  for (uint32_t p = 0; p < family->persistent_count && status == ULL_OK; p++)
    status = ull__text_map_put(&names, family->persistents[p].name, p);
  for (uint32_t p = 0; p < family->program_count && status == ULL_OK; p++)
    status = check_program(family, &family->programs[p], &names);
  ull__text_map_free(&names);
  return status;
}
