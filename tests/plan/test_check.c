/* The checker accepts what the planner makes, and finds each kind of fault planted in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/plans.h"

/* ---- finding places for faults ---- */

typedef struct planted {
  ull__family *family;
  ull__program *program; /* training: replays, in-place, waits, updates */
  const ull__graph *graph;
} planted;

static uint32_t *operands_of(const ull__instruction *i) {
  return (uint32_t *)i->operands;
}

static bool in_arena(const planted *p, uint32_t buffer) {
  return buffer != ULL__NONE && p->program->buffers[buffer].slab == ULL__SLAB_ARENA;
}

static const ull__node *node_of(const planted *p, uint32_t instruction) {
  ull__node_id node = p->program->instructions[instruction].node;
  return node == ULL__NONE ? NULL : ull__graph_node(p->graph, node);
}

static bool is_update(const planted *p, uint32_t instruction) {
  const ull__node *node = node_of(p, instruction);
  return node && node->op->updates[0];
}

static bool reads(const ull__instruction *i, uint32_t buffer) {
  for (uint32_t k = 0; k < i->input_count; k++)
    if (i->operands[k] == buffer) return true;
  return false;
}

/* The first instruction from `from` on that fulfils `is`. */
static uint32_t find(const planted *p, uint32_t from, bool (*is)(const planted *, uint32_t)) {
  for (uint32_t i = from; i < p->program->instruction_count; i++)
    if (is(p, i)) return i;
  fail_msg("no such instruction");
  return 0;
}

static bool has_arena_input(const planted *p, uint32_t i) {
  const ull__instruction *instruction = &p->program->instructions[i];
  return i > 20 && instruction->input_count > 0 && in_arena(p, instruction->operands[0]);
}

static bool has_waits(const planted *p, uint32_t i) {
  return p->program->instructions[i].wait_count > 0;
}

static bool has_workspace(const planted *p, uint32_t i) {
  return p->program->instructions[i].has_workspace;
}

static bool is_recomputed(const planted *p, uint32_t i) {
  return p->program->instructions[i].recomputed;
}

/* An arena buffer that outlives its first instruction and has room. */
static ull__buffer *find_long_lived(const planted *p) {
  for (uint32_t b = 0; b < p->program->buffer_count; b++) {
    ull__buffer *buffer = &p->program->buffers[b];
    if (buffer->slab == ULL__SLAB_ARENA && buffer->last > buffer->first + 1 &&
        buffer->size_bytes > 1000)
      return buffer;
  }
  fail_msg("no such buffer");
  return NULL;
}

/* ---- faults ---- */

static void overlap(planted *p) {
  ull__buffer *a = find_long_lived(p);
  for (uint32_t b = 0; b < p->program->buffer_count; b++) {
    ull__buffer *other = &p->program->buffers[b];
    bool together = other->first <= a->last && a->first <= other->last;
    if (other == a || other->slab != a->slab || !together || other->size_bytes > a->size_bytes)
      continue;
    other->offset_bytes = a->offset_bytes;
    return;
  }
  fail_msg("no neighbour");
}

static void die_early(planted *p) {
  find_long_lived(p)->last--;
}

static void be_born_late(planted *p) {
  find_long_lived(p)->first++;
}

static void lose_input(planted *p) {
  operands_of(&p->program->instructions[find(p, 0, has_arena_input)])[0] = ULL__NONE;
}

static void read_another(planted *p) {
  uint32_t at = find(p, 0, has_arena_input);
  const ull__instruction *i = &p->program->instructions[at];
  for (uint32_t b = 0; b < p->program->buffer_count; b++) {
    const ull__buffer *buffer = &p->program->buffers[b];
    bool whole = buffer->first < at && at < buffer->last && buffer->size_bytes >= i->bytes[0];
    if (!in_arena(p, b) || b == i->operands[0] || !whole) continue;
    operands_of(i)[0] = b;
    return;
  }
  fail_msg("no other buffer");
}

static void read_before_written(planted *p) {
  ull__instruction *a = &p->program->instructions[find(p, 0, has_arena_input)];
  a->action = ULL__ACTION_MARK;
  a->input_count = a->output_count = a->has_workspace = 0;
}

static void forget_waits(planted *p) {
  p->program->instructions[find(p, 0, has_waits)].wait_count = 0;
}

static void wait_for_later(planted *p) {
  uint32_t at = find(p, 0, has_waits);
  *(uint32_t *)p->program->instructions[at].waits = at + 1;
}

static void change_lane(planted *p) {
  p->program->instructions[find(p, 0, has_arena_input)].lane = ULL__LANE_HOST_COMPUTE;
}

/* Exchanges an update with the reader of the old state that stands right before it. */
static void update_early(planted *p) {
  ull__instruction *list = p->program->instructions;
  for (uint32_t i = 0; i + 1 < p->program->instruction_count; i++) {
    if (!is_update(p, i + 1)) continue;
    uint32_t state = list[i + 1].operands[list[i + 1].input_count];
    bool depends = false;
    for (uint32_t o = 0; o < list[i].output_count; o++)
      depends |= reads(&list[i + 1], list[i].operands[list[i].input_count + o]);
    if (!reads(&list[i], state) || depends || is_update(p, i)) continue;
    ull__instruction reader = list[i];
    list[i] = list[i + 1];
    list[i + 1] = reader;
    for (uint32_t b = 0; b < p->program->buffer_count; b++) { /* alive at both */
      ull__buffer *buffer = &p->program->buffers[b];
      if (buffer->first == i + 1) buffer->first = i;
      if (buffer->last == i) buffer->last = i + 1;
    }
    return;
  }
  fail_msg("no reader stands before an update");
}

static void update_elsewhere(planted *p) {
  const ull__instruction *i = &p->program->instructions[find(p, 0, is_update)];
  uint32_t *output = &operands_of(i)[i->input_count];
  for (uint32_t b = 0; b < p->program->buffer_count; b++) {
    const ull__buffer *buffer = &p->program->buffers[b];
    if (b == *output || buffer->slab != ULL__SLAB_PERSISTENT ||
        buffer->size_bytes < p->program->buffers[*output].size_bytes)
      continue;
    *output = b;
    return;
  }
}

static void update_twice(planted *p) {
  p->program->instructions[p->program->instruction_count - 1] =
      p->program->instructions[find(p, 0, is_update)];
}

static void never_update(planted *p) {
  uint32_t last = p->program->instruction_count - 1;
  while (!is_update(p, last)) last--;
  ull__instruction *i = &p->program->instructions[last];
  *i = (ull__instruction){.action = ULL__ACTION_MARK, .node = ULL__NONE, .value = ULL__NONE};
}

static void leave_slab(planted *p) {
  find_long_lived(p)->offset_bytes = p->family->slabs[ULL__SLAB_ARENA].bytes;
}

static void leave_slab_by_wrapping(planted *p) {
  find_long_lived(p)->size_bytes = UINT64_MAX - 63;
}

static void lose_alignment(planted *p) {
  find_long_lived(p)->offset_bytes += 4;
}

static bool overwrites(const planted *p, uint32_t at, bool allowed) {
  const ull__instruction *i = &p->program->instructions[at];
  if (i->node == ULL__NONE || i->input_count == 0 || i->output_count == 0) return false;
  if (!in_arena(p, i->operands[0]) || !in_arena(p, i->operands[i->input_count])) return false;
  const ull__buffer *input = &p->program->buffers[i->operands[0]];
  const ull__node *node = node_of(p, at);
  uint16_t may = node->op->overwrites[0] & p->program->lowered->nodes[i->node].may_overwrite[0];
  return input->size_bytes >= i->bytes[i->input_count] && (may & 1) == allowed &&
         i->operands[0] != i->operands[i->input_count];
}

static bool may_not_overwrite(const planted *p, uint32_t at) {
  return overwrites(p, at, false);
}

static bool may_overwrite_but_is_read_later(const planted *p, uint32_t at) {
  return overwrites(p, at, true) &&
         p->program->buffers[p->program->instructions[at].operands[0]].last > at;
}

static void write_over_input(planted *p) {
  const ull__instruction *i = &p->program->instructions[find(p, 0, may_not_overwrite)];
  operands_of(i)[i->input_count] = i->operands[0];
}

static void write_over_what_is_read_later(planted *p) {
  const ull__instruction *i =
      &p->program->instructions[find(p, 0, may_overwrite_but_is_read_later)];
  operands_of(i)[i->input_count] = i->operands[0];
}

static void work_in_input(planted *p) {
  const ull__instruction *i = &p->program->instructions[find(p, 0, has_workspace)];
  uint32_t workspace = i->input_count + i->output_count;
  operands_of(i)[workspace] = i->operands[0];
}

static void lose_workspace(planted *p) {
  p->program->instructions[find(p, 0, has_workspace)].has_workspace = false;
}

static void write_over_parameter(planted *p) {
  const ull__instruction *i = &p->program->instructions[find(p, 0, has_arena_input)];
  for (uint32_t b = 0; b < p->program->buffer_count; b++) {
    const ull__buffer *buffer = &p->program->buffers[b];
    if (buffer->slab != ULL__SLAB_PERSISTENT || buffer->size_bytes < i->bytes[i->input_count])
      continue;
    operands_of(i)[i->input_count] = b;
    return;
  }
}

static void touch_runtime(planted *p) {
  uint32_t runtime = p->program->buffer_count - 1;
  operands_of(&p->program->instructions[find(p, 0, has_arena_input)])[0] = runtime;
}

static void shorten_bytes(planted *p) {
  *(uint64_t *)p->program->instructions[find(p, 0, has_arena_input)].bytes -= 4;
}

static void mark_wrongly(planted *p) {
  p->program->instructions[find(p, 0, is_recomputed)].recomputed = false;
}

static void copy_a_parameter(planted *p) {
  for (ull__value_id v = 0; v < ull__graph_value_count(p->graph); v++)
    if (ull__graph_value(p->graph, v)->role == ULL__ROLE_PARAMETER)
      p->program->instructions[0].value = v;
}

static void lose_output(planted *p) {
  p->program->outputs[0].buffer = (uint32_t)(find_long_lived(p) - p->program->buffers);
}

static void move_persistent(planted *p) {
  for (uint32_t b = 0; b < p->program->buffer_count; b++) {
    ull__buffer *buffer = &p->program->buffers[b];
    bool last = buffer->slab == ULL__SLAB_PERSISTENT;
    for (uint32_t o = 0; o < p->program->buffer_count && last; o++)
      last = p->program->buffers[o].slab != buffer->slab ||
             p->program->buffers[o].offset_bytes <= buffer->offset_bytes;
    if (last) buffer->size_bytes--;
  }
}

static void use_unknown_action(planted *p) {
  p->program->instructions[0].action = ULL__ACTION_COLLECTIVE;
}

static void name_no_buffer(planted *p) {
  operands_of(&p->program->instructions[find(p, 0, has_arena_input)])[0] = p->program->buffer_count;
}

static void launch_no_node(planted *p) {
  p->program->instructions[find(p, 0, has_arena_input)].node = ull__graph_node_count(p->graph);
}

static const struct {
  const char *name;
  void (*plant)(planted *);
  const char *message; /* part of what the checker says */
} faults[] = {
    {"overlap", overlap, "overlap in slab"},
    {"die early", die_early, "which lives from"},
    {"be born late", be_born_late, "which lives from"},
    {"lose input", lose_input, "is missing"},
    {"read another", read_another, "which holds"},
    {"read before written", read_before_written, "which holds"},
    {"forget waits", forget_waits, "does not wait for instruction"},
    {"wait for later", wait_for_later, "which is not earlier"},
    {"change lane", change_lane, "does not wait for instruction"},
    {"update early", update_early, "which holds"},
    {"update elsewhere", update_elsewhere, "does not update"},
    {"update twice", update_twice, "has run before"},
    {"never update", never_update, "never runs"},
    {"leave slab", leave_slab, "leaves its slab"},
    {"leave slab by wrapping", leave_slab_by_wrapping, "leaves its slab"},
    {"lose alignment", lose_alignment, "is not aligned"},
    {"write over input", write_over_input, "over its operand"},
    {"write over what is read later", write_over_what_is_read_later, "instruction"},
    {"work in input", work_in_input, "its workspace is also its operand"},
    {"lose workspace", lose_workspace, "has a wrong workspace"},
    {"write over parameter", write_over_parameter, "which lives from step to step"},
    {"touch runtime", touch_runtime, "which no instruction may touch"},
    {"shorten bytes", shorten_bytes, "wanted"},
    {"mark wrongly", mark_wrongly, "marked as recomputed"},
    {"copy a parameter", copy_a_parameter, "that is no input"},
    {"lose output", lose_output, "is not in its buffer at the end"},
    {"move persistent", move_persistent, "lies elsewhere"},
    {"use unknown action", use_unknown_action, "is not known"},
    {"name no buffer", name_no_buffer, "does not exist"},
    {"launch no node", launch_no_node, "launches no node"},
};

static void test_faults(void **state) {
  (void)state;
  for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++) {
    plan_case c;
    /* only keep-all still reads later what could be overwritten */
    double share = faults[f].plant == write_over_what_is_read_later ? 1 : 0;
    plan_case_make("zoo:resnet8", 2, false, share, &c);
    planted p = {c.plan->family, &c.plan->family->programs[0],
                 c.plan->family->programs[0].lowered->graph};
    faults[f].plant(&p);
    ull_error_clear();
    if (ull__family_check(c.plan->family, c.budget_bytes) != ULL_ERROR_INTERNAL)
      fail_msg("'%s' was not found", faults[f].name);
    if (!strstr(ull_error_last()->message, faults[f].message))
      fail_msg("'%s': %s", faults[f].name, ull_error_last()->message);
    plan_case_free(&c);
  }
}

static void test_sound_plans(void **state) {
  (void)state;
  static const char *const models[] = {"zoo:mlp", "zoo:lenet", "zoo:resnet8", "zoo:gpt2_tiny"};
  for (size_t m = 0; m < sizeof models / sizeof models[0]; m++)
    for (int r = 0; r <= 4; r++) {
      plan_case c;
      plan_case_make(models[m], 3, r % 2 == 0, r / 4.0, &c);
      assert_true(c.plan->fits);
      assert_int_equal(ull__family_check(c.plan->family, c.budget_bytes), ULL_OK);
      plan_case_free(&c);
    }
}

static void test_budget(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:lenet", 2, false, 0, &c);
  uint64_t budget[ULL__TIER_COUNT];
  memcpy(budget, c.plan->planned_peak_bytes, sizeof budget);
  assert_int_equal(ull__family_check(c.plan->family, budget), ULL_OK);
  budget[ULL__TIER_HOST]--;
  assert_int_equal(ull__family_check(c.plan->family, budget), ULL_ERROR_INTERNAL);
  budget[ULL__TIER_HOST]++;
  budget[ULL__TIER_DEVICE]--;
  assert_int_equal(ull__family_check(c.plan->family, budget), ULL_ERROR_INTERNAL);
  plan_case_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sound_plans),
      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
