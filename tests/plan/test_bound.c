/* The lower bound of plan/bound.h holds for every schedule that a ladder has, and its proof holds
 * by itself: sums add up, values are operands, cross or are held, and no way around the cases is
 * left.
 *
 * The strongest of these looks at schedules, not at the proof: in each rung one of the cases is
 * found with all its values live, although nothing in the search knows of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "plan/bound.h"
#include "support/plans.h"

#define EFFORT 300u

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
static void check_crossing(const proof *p, const ull__bound_case *c, const ull__bound_value *v) {
  assert_true(p->must->once[v->reader] && reads(p, v->reader, v->root));
  ull__node_id end = c->before == ULL__NONE ? primary(p, c->node) : c->before;
  if (v->reader != c->before) assert_true(ull__must_precede(p->must, end, v->reader));
  if (v->maker == ULL__NONE) return;
  assert_true(p->must->once[v->maker]);
  bool made = c->before == ULL__NONE && ull__must_precede(p->must, v->maker, end);
  for (uint32_t i = 0; i < c->after_count; i++) {
    ull__node_id after = p->bound.afters.items[c->first_after + i];
    made = made || v->maker == after || ull__must_precede(p->must, v->maker, after);
  }
  if (!made)
    fail_msg("%s need not have been made when %s runs", name_of(p, v->maker), name_of(p, c->node));
}

static void check_value(const proof *p, const ull__bound_case *c, const ull__bound_value *v) {
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
    assert_true(c->holds && v->root == p->bound.needed);
    break;
  }
}

static void check_case(const proof *p, const ull__bound_case *c) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < c->value_count; i++) {
    const ull__bound_value *v = &p->bound.values.items[c->first_value + i];
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
    const ull__bound_value *v = &p->bound.values.items[c->first_value + i];
    bool form = v->reason == ULL__LIVE_READ && s->executions[e].node != c->node;
    if (v->root != ULL__NONE && !form && !is_live(s, v->root, e)) return false;
  }
  return true;
}

static void check_schedule(const proof *p, const ull__schedule *s) {
  assert_true(s->peak_bytes >= p->bound.bytes);
  for (size_t i = 0; i < p->bound.cases.count; i++)
    for (uint32_t e = 0; e < s->execution_count; e++)
      if (case_at(p, &p->bound.cases.items[i], s, e)) return;
  fail_msg(
      "no case of the proof (%s needs %s) in a schedule of %llu bytes", name_of(p, p->bound.node),
      p->bound.needed == ULL__NONE ? "nothing" : ull__graph_value(p->graph, p->bound.needed)->name,
      (unsigned long long)s->peak_bytes);
}

static size_t check_rungs(const proof *p) {
  ull__ladder ladder;
  ull__schedule s = {0};
  assert_int_equal(ull__ladder_build(p->model, EFFORT, &ladder), ULL_OK);
  size_t count = ladder.count;
  for (size_t r = 0; r < count; r++) {
    assert_int_equal(ull__schedule_generate(p->model, &ladder.rungs[r].decisions, &s), ULL_OK);
    check_schedule(p, &s);
  }
  ull__schedule_free(&s);
  ull__ladder_free(&ladder);
  return count;
}

static void check_program(const ull__program_plan *program) {
  proof p = {.program = program, .model = program->model, .graph = program->lowered->graph};
  assert_int_equal(ull__must_create(p.model, &p.must), ULL_OK);
  assert_int_equal(ull__bound_find(p.model, &p.bound), ULL_OK);
  assert_true(p.bound.cases.count > 0);
  assert_int_equal(p.bound.cases.items[0].bytes, p.bound.bytes);
  assert_true(p.bound.bytes >= program->largest_launch_bytes);
  for (size_t i = 0; i < p.bound.cases.count; i++) check_case(&p, &p.bound.cases.items[i]);
  if (p.bound.needed != ULL__NONE) check_covered(&p, p.bound.node);
  size_t schedules = check_rungs(&p);
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
                                       "zoo:resnet50?classes=10&image=96"};
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
    assert_int_equal(ull__bound_find(train->model, &bound), ULL_OK);
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
    status = ull__bound_find(c.plan->programs[0].model, &bound);
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
