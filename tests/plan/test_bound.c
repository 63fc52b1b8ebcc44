/* The lower bound of plan/bound.h holds for the schedules of ladders and for drawn ones, and its
 * proof holds by itself: sums add up, values are operands, cross or are held, and no way around the
 * cases is left.
 *
 * The strongest of these looks at schedules, not at the proof: in each one of the cases is found
 * with all its values live, and each fact that follows from a limit holds, or the limit is reached.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "plan/bound.h"
#include "plan/facts.h"
#include "support/plans.h"

#define EFFORT 800u

typedef struct proof {
  const ull__program_plan *program;
  const ull__schedule_model *model;
  const ull__graph *graph;
  ull__must *must;
  ull__bound bound;
} proof;

static const char *name_of(const proof *p, ull__node_id node) {
  return ull__graph_node(p->graph, node)->name;
}

static bool reads(const proof *p, ull__node_id n, ull__value_id root) {
  const ull__node *node = ull__graph_node(p->graph, n);
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != ULL__NONE && p->model->root[node->inputs[i]] == root) return true;
  return false;
}

static bool writes(const proof *p, ull__node_id n, ull__value_id root) {
  const ull__node *node = ull__graph_node(p->graph, n);
  if (node->alternative_of != ULL__NONE) node = ull__graph_node(p->graph, node->alternative_of);
  for (uint32_t o = 0; o < node->output_count; o++)
    if (p->model->root[node->outputs[o]] == root) return true;
  return false;
}

static ull__node_id primary(const proof *p, ull__node_id n) {
  ull__node_id stands_for = ull__graph_node(p->graph, n)->alternative_of;
  return stands_for == ULL__NONE ? n : stands_for;
}

/* ---- one case ---- */

/* What crosses was made by a copy or by a node that must have run by then, and is read by one that
 * cannot have. */
static bool precedes(const proof *p, const ull__bound_case *c, ull__node_id first,
                     ull__node_id second) {
  if (ull__must_precede(p->must, first, second)) return true;
  if (c->order[0] == ULL__NONE) return false;
  return (first == c->order[0] || ull__must_precede(p->must, first, c->order[0])) &&
         (second == c->order[1] || ull__must_precede(p->must, c->order[1], second));
}

static void check_crossing(const proof *p, const ull__bound_case *c, const ull__live_value *v) {
  assert_true(p->must->once[v->reader] && reads(p, v->reader, v->root));
  ull__node_id end = c->before == ULL__NONE ? primary(p, c->node) : c->before;
  if (v->reader != c->before) assert_true(precedes(p, c, end, v->reader));
  if (v->maker == ULL__NONE) return;
  assert_true(p->must->once[v->maker]);
  bool made = c->before == ULL__NONE && precedes(p, c, v->maker, end);
  for (uint32_t i = 0; i < c->after_count; i++) {
    ull__node_id after = p->bound.afters.items[c->first_after + i];
    made = made || v->maker == after || ull__must_precede(p->must, v->maker, after);
  }
  if (!made)
    fail_msg("%s need not have been made when %s runs", name_of(p, v->maker), name_of(p, c->node));
}

static void check_value(const proof *p, const ull__bound_case *c, const ull__live_value *v) {
  switch (v->reason) {
  case ULL__LIVE_READ:
    assert_true(reads(p, c->node, v->root));
    break;
  case ULL__LIVE_WRITTEN:
    assert_true(writes(p, c->node, v->root));
    break;
  case ULL__LIVE_WORKSPACE:
    assert_true(p->model->lowered->nodes[c->node].kernel.workspace_bytes > 0);
    break;
  case ULL__LIVE_CROSSING:
    check_crossing(p, c, v);
    break;
  case ULL__LIVE_HELD:
    assert_true(c->holds && p->model->droppable[v->root]);
    assert_true(p->bound.needed == ULL__NONE || v->root == p->bound.needed);
    assert_true(ull__must_use(p->must, v->reader, v->root));
    assert_true(precedes(p, c, primary(p, c->node), v->reader));
    break;
  }
}

static void check_case(const proof *p, const ull__bound_case *c) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < c->value_count; i++) {
    const ull__live_value *v = &p->bound.values.items[c->first_value + i];
    for (uint32_t j = 0; j < i && v->root != ULL__NONE; j++)
      assert_int_not_equal(v->root, p->bound.values.items[c->first_value + j].root);
    if (v->root != ULL__NONE) assert_int_equal(v->bytes, p->model->bytes[v->root]);
    check_value(p, c, v);
    sum += v->bytes;
  }
  assert_int_equal(sum, c->bytes);
  assert_true(c->bytes >= p->bound.bytes);
}

/* ---- nothing is left out ---- */

static const ull__bound_case *find_case(const proof *p, ull__node_id before, ull__node_id runs) {
  for (size_t i = 0; i < p->bound.cases.count; i++) {
    const ull__bound_case *c = &p->bound.cases.items[i];
    if (before != ULL__NONE ? c->before == before : c->holds && primary(p, c->node) == runs)
      return c;
  }
  return NULL;
}

/* The value is needed when `n` runs: made after the case's nodes, or held over one of them. */
static void check_covered(const proof *p, ull__node_id n) {
  const ull__bound_case *late = find_case(p, n, ULL__NONE);
  if (!late) fail_msg("%s is made before %s: no case", name_of(p, p->bound.node), name_of(p, n));
  assert_int_equal(late->node, p->model->producer[p->bound.needed]);
  for (uint32_t i = 0; i < late->after_count; i++) {
    ull__node_id a = p->bound.afters.items[late->first_after + i];
    assert_true(p->must->once[a] && ull__must_precede(p->must, a, n));
    if (!find_case(p, ULL__NONE, a)) check_covered(p, a);
  }
}

/* ---- in a schedule ---- */

static bool is_live(const ull__schedule *s, ull__value_id root, uint32_t execution) {
  for (size_t i = 0; i < s->instance_count; i++)
    if (s->instances[i].value == root && s->instances[i].first <= execution &&
        execution <= s->instances[i].last)
      return true;
  return false;
}

static bool case_at(const proof *p, const ull__bound_case *c, const ull__schedule *s, uint32_t e) {
  if (s->executions[e].node == ULL__NONE) return false;
  if (primary(p, s->executions[e].node) != primary(p, c->node)) return false;
  for (uint32_t i = 0; i < c->value_count; i++) {
    const ull__live_value *v = &p->bound.values.items[c->first_value + i];
    bool form = v->reason == ULL__LIVE_READ && s->executions[e].node != c->node;
    if (v->root != ULL__NONE && !form && !is_live(s, v->root, e)) return false;
  }
  return true;
}

/* A proof by a limit says nothing of schedules above it. */
static void check_schedule(const proof *p, const ull__schedule *s) {
  assert_true(s->peak_bytes >= p->bound.bytes);
  if (p->bound.needed == ULL__NONE && s->peak_bytes > p->bound.bytes) return;
  for (size_t i = 0; i < p->bound.cases.count; i++)
    for (uint32_t e = 0; e < s->execution_count; e++)
      if (case_at(p, &p->bound.cases.items[i], s, e)) return;
  fail_msg(
      "no case of the proof (%s needs %s) in a schedule of %llu bytes", name_of(p, p->bound.node),
      p->bound.needed == ULL__NONE ? "nothing" : ull__graph_value(p->graph, p->bound.needed)->name,
      (unsigned long long)s->peak_bytes);
}

/* Index of the execution of a node that runs once. */
static uint32_t find_run(const proof *p, const ull__schedule *s, ull__node_id n) {
  for (uint32_t e = 0; e < s->execution_count; e++)
    if (s->executions[e].node != ULL__NONE && primary(p, s->executions[e].node) == n) return e;
  fail_msg("%s does not run", name_of(p, n));
  return 0;
}

/* A value is held where the facts say so, or else the limit is reached before its holder has run.
 * Returns whether it is held. */
static bool check_fact(const proof *p, const ull__facts *facts, const ull__schedule *s,
                       ull__node_id n, uint32_t value) {
  ull__value_id root = facts->tracked[value];
  ull__node_id holder = facts->holder[(size_t)n * facts->tracked_count + value];
  uint32_t e = find_run(p, s, n), until = find_run(p, s, holder);
  bool held = is_live(s, root, e - 1) && is_live(s, root, e) && is_live(s, root, e + 1);
  bool reached = false;
  for (uint32_t i = 0; i <= until && !reached && !held; i++)
    reached = s->live[i] >= facts->limit_bytes;
  if (!held && !reached)
    fail_msg("%s is not held while %s runs, for %s", ull__graph_value(p->graph, root)->name,
             name_of(p, n), name_of(p, holder));
  return held;
}

static void check_facts(const proof *p, const ull__facts *facts, const ull__schedule *s,
                        uint32_t counts[2]) {
  if (facts->contradiction != ULL__NONE) assert_true(s->peak_bytes >= facts->least_bytes);
  for (size_t c = 0; c < (size_t)p->model->node_count * facts->tracked_count; c++)
    if (facts->holder[c] != ULL__NONE)
      counts[check_fact(p, facts, s, (ull__node_id)(c / facts->tracked_count),
                        (uint32_t)(c % facts->tracked_count))]++;
}

/* Limits below the smallest schedule, where facts are many, and above, where they must hold. */
static void check_limits(const proof *p, const ull__schedule *schedules, size_t count) {
  static const uint32_t percents[] = {60, 75, 90, 100, 102, 104, 106, 110, 120};
  uint32_t counts[2] = {0, 0};
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < count; i++)
    if (schedules[i].peak_bytes < least) least = schedules[i].peak_bytes;
  for (size_t l = 0; l < sizeof percents / sizeof *percents; l++) {
    ull__facts facts;
    uint64_t limit = least * percents[l] / 100 + 1;
    assert_int_equal(ull__facts_derive(p->must, limit, &facts), ULL_OK);
    for (size_t i = 0; i < count; i++) check_facts(p, &facts, &schedules[i], counts);
    ull__facts_free(&facts);
  }
  if (counts[0] + counts[1] > 0)
    print_message("%u times held, %u times at the limit\n", counts[1], counts[0]);
}

/* ---- schedules ---- */

#define DRAWN 60u

static uint32_t draw(uint32_t *state, uint32_t below) {
  *state = *state * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)(*state >> 8) * below) >> 24);
}

/* Anything goes: what is kept, held, fleeting, and in which form. */
static void draw_decisions(const proof *p, uint32_t seed, ull__decisions *d) {
  uint32_t state = seed * 7919u + 1, keep = draw(&state, 4), hold = draw(&state, 3);
  for (ull__value_id v = 0; v < p->model->value_count; v++)
    if (p->model->droppable[v]) d->keep[v] = draw(&state, 8) < keep;
  for (ull__node_id n = 0; n < p->model->forward_end; n++) {
    d->segment[n] = d->hold[n] = n;
    if (draw(&state, 4) < hold) d->hold[n] = n + draw(&state, p->model->forward_end - n);
    d->fleeting[n] = draw(&state, 8) == 0;
  }
  for (ull__node_id n = p->model->forward_end; n < p->model->node_count; n++) {
    d->fleeting[n] = draw(&state, 8) == 0;
    d->other_form[n] = p->model->alternative[n] != ULL__NONE && draw(&state, 2);
  }
}

/* A ladder's schedules and drawn ones; `out` has room for all. */
static size_t list_schedules(const proof *p, const ull__ladder *ladder, ull__schedule *out) {
  size_t count = 0;
  for (size_t r = 0; r < ladder->count; r++)
    assert_int_equal(ull__schedule_generate(p->model, &ladder->rungs[r].decisions, &out[count++]),
                     ULL_OK);
  for (uint32_t i = 0; i < DRAWN && p->model->forward_end < p->model->node_count; i++) {
    ull__decisions d = {0};
    assert_int_equal(ull__decisions_create(p->model, &d), ULL_OK);
    draw_decisions(p, i, &d);
    assert_int_equal(ull__schedule_generate(p->model, &d, &out[count]), ULL_OK);
    if (out[count].peak_bytes != UINT64_MAX)
      count++;
    else
      ull__schedule_free(&out[count]);
    ull__decisions_free(&d);
  }
  return count;
}

static size_t check_schedules(const proof *p) {
  ull__ladder ladder;
  assert_int_equal(ull__ladder_build(p->model, EFFORT, &ladder), ULL_OK);
  ull__schedule *schedules = ull__alloc(ladder.count + DRAWN, sizeof *schedules);
  assert_non_null(schedules);
  size_t count = list_schedules(p, &ladder, schedules);
  for (size_t i = 0; i < count; i++) check_schedule(p, &schedules[i]);
  check_limits(p, schedules, count);
  for (size_t i = 0; i < count; i++) ull__schedule_free(&schedules[i]);
  ull__free(schedules);
  ull__ladder_free(&ladder);
  return count;
}

static void check_program(const ull__program_plan *program) {
  proof p = {.program = program, .model = program->model, .graph = program->lowered->graph};
  assert_int_equal(ull__must_create(p.model, &p.must), ULL_OK);
  assert_int_equal(ull__bound_find(p.model, program->smallest_height_bytes, &p.bound), ULL_OK);
  assert_true(p.bound.cases.count > 0);
  assert_true(p.bound.bytes >= program->largest_launch_bytes);
  for (size_t i = 0; i < p.bound.cases.count; i++) check_case(&p, &p.bound.cases.items[i]);
  if (p.bound.needed != ULL__NONE) check_covered(&p, p.bound.node);
  size_t schedules = check_schedules(&p);
  print_message("%s: at least %llu of %llu bytes, %zu cases, %zu schedules\n", program->name,
                (unsigned long long)p.bound.bytes,
                (unsigned long long)program->smallest_height_bytes, p.bound.cases.count, schedules);
  ull__bound_free(&p.bound);
  ull__must_destroy(p.must);
}

static void test_bounds_hold(void **state) {
  (void)state;
  static const char *const models[] = {"zoo:mlp",
                                       "zoo:lenet",
                                       "zoo:resnet8",
                                       "zoo:resnet14",
                                       "zoo:resnet20",
                                       "zoo:gpt2_tiny",
                                       "zoo:small_resnet",
                                       "zoo:resnet18?classes=10&image=32",
                                       "zoo:resnet50?classes=10&image=224"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    plan_case c;
    plan_case_make(models[i], 8, true, 0, &c);
    print_message("%s\n", models[i]);
    for (uint32_t p = 0; p < c.plan->program_count; p++) check_program(&c.plan->programs[p]);
    plan_case_free(&c);
  }
}

/* Residual networks need more than a launch: the shortcut's gradient and a value that has to be
 * made beside it. The proof finds that, and the smallest schedule is within 5 % of it. */
static void test_bound_beyond_a_launch(void **state) {
  (void)state;
  static const char *const models[] = {"zoo:resnet8", "zoo:resnet14", "zoo:resnet20"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    plan_case c;
    ull__bound bound;
    plan_case_make(models[i], 32, true, 0, &c);
    const ull__program_plan *train = &c.plan->programs[0];
    assert_int_equal(ull__bound_find(train->model, train->smallest_height_bytes, &bound), ULL_OK);
    assert_true(bound.bytes * 10 > train->largest_launch_bytes * 12);
    assert_true(train->smallest_height_bytes * 100 <= bound.bytes * 105);
    ull__bound_free(&bound);
    plan_case_free(&c);
  }
}

static void test_out_of_memory(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:resnet8", 4, true, 0, &c);
  ull_status status = ULL_ERROR_OUT_OF_MEMORY;
  for (uint64_t n = 1; status == ULL_ERROR_OUT_OF_MEMORY; n += 1 + n / 4) {
    ull__bound bound;
    ull__alloc_fail_at(n);
    status = ull__bound_find(c.plan->programs[0].model, UINT64_MAX / 2, &bound);
    ull__bound_free(&bound);
  }
  ull__alloc_fail_at(0);
  assert_int_equal(status, ULL_OK);
  plan_case_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bounds_hold),
      cmocka_unit_test(test_bound_beyond_a_launch),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
