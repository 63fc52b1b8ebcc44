/* Saved plans, read back and replayed outside the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "support/plans.h"

static char path[] = "/tmp/ullage-plan-XXXXXX";

static int make_file(void **state) {
  (void)state;
  int descriptor = mkstemp(path);
  return descriptor < 0 || close(descriptor) != 0;
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

static void save(const plan_case *c, const char *header) {
  if (ull__family_save(c->plan->family, path, header) != ULL_OK)
    fail_msg("%s", ull_error_last()->message);
}

static json_t *load(void) {
  json_t *plan;
  assert_int_equal(ull__json_load(path, 64 << 20, &plan), ULL_OK);
  return plan;
}

/* Exit code of tests/plan/replay.py on the file. */
static int replay(const uint64_t *budget_bytes) {
  const char *root = getenv("ULLAGE_SOURCE_DIR");
  char command[512];
  snprintf(command, sizeof command,
           "python3 '%s/tests/plan/replay.py' '%s' --budget %llu >/dev/null", root ? root : ".",
           path, (unsigned long long)(budget_bytes[ULL__TIER_DEVICE] & INT64_MAX));
  return system(command);
}

static void test_replayed_outside(void **state) {
  static const struct {
    const char *model;
    bool shared;
    double room;
  } cases[] = {{"zoo:mlp", true, 1},
               {"zoo:lenet", false, 0},
               {"zoo:resnet8", true, 0.4},
               {"zoo:gpt2_tiny", false, 0.1}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    plan_case c;
    plan_case_make(cases[i].model, 4, cases[i].shared, cases[i].room, &c);
    save(&c, NULL);
    assert_int_equal(replay(c.budget_bytes), 0);
    plan_case_free(&c);
  }
}

static void test_replay_sees_a_budget_exceeded(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:mlp", 4, true, 1, &c);
  save(&c, NULL);
  const uint64_t budget[ULL__TIER_COUNT] = {1 << 20};
  assert_int_not_equal(replay(budget), 0);
  plan_case_free(&c);
}

static void test_keys(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:lenet", 4, false, 0, &c);
  save(&c, "{\"fits\":true,\"schema\":1,\"model\":\"zoo:\\\"lenet\\\"\",\"programs\":3}");
  json_t *plan = load();
  assert_string_equal(json_object_iter_key(json_object_iter(plan)), "fits");
  assert_string_equal(json_string_value(json_object_get(plan, "model")), "zoo:\"lenet\"");
  assert_int_equal(json_integer_value(json_object_get(plan, "schema")), 1);
  assert_int_equal(json_integer_value(json_object_get(plan, "runtime_bytes")),
                   c.plan->runtime_bytes);
  json_t *programs = json_object_get(plan, "programs");
  assert_int_equal(json_array_size(programs), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(programs, 1), "name")),
                      "eval");
  json_t *train = json_array_get(programs, 0);
  assert_true(json_equal(json_object_get(train, "buffers"), json_object_get(plan, "buffers")));
  assert_true(
      json_equal(json_object_get(train, "instructions"), json_object_get(plan, "instructions")));
  json_decref(plan);
  plan_case_free(&c);
}

static void check_indices(const json_t *array, const ull__instruction *i, uint32_t first,
                          uint32_t count) {
  size_t at = 0;
  for (uint32_t k = first; k < first + count; k++)
    if (i->operands[k] != ULL__NONE)
      assert_int_equal(json_integer_value(json_array_get(array, at++)), i->operands[k]);
  assert_int_equal(json_array_size(array), at);
}

static void test_instructions(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:resnet8", 2, false, 0, &c);
  save(&c, NULL);
  json_t *plan = load(), *list = json_object_get(plan, "instructions");
  const ull__program *program = &c.plan->family->programs[0];
  uint32_t recomputed = 0;
  assert_int_equal(json_array_size(list), program->instruction_count);
  for (uint32_t n = 0; n < program->instruction_count; n++) {
    const ull__instruction *i = &program->instructions[n];
    const json_t *record = json_array_get(list, n);
    uint32_t written = i->output_count + i->has_workspace;
    check_indices(json_object_get(record, "reads"), i, 0, i->input_count);
    check_indices(json_object_get(record, "writes"), i, i->input_count, written);
    assert_int_equal(json_array_size(json_object_get(record, "waits")), i->wait_count);
    assert_true(json_real_value(json_object_get(record, "seconds")) == i->seconds);
    recomputed += json_is_true(json_object_get(record, "recomputed"));
  }
  assert_true(recomputed > 0);
  json_decref(plan);
  plan_case_free(&c);
}

static void test_failures(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:mlp", 4, true, 1, &c);
  assert_int_equal(ull__family_save(c.plan->family, "/no/such/folder/plan.json", NULL),
                   ULL_ERROR_IO);
  assert_int_equal(ull__family_save(c.plan->family, path, "{\"a\":"), ULL_ERROR_DATA);
  plan_case_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replayed_outside),
      cmocka_unit_test(test_replay_sees_a_budget_exceeded),
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_instructions),
      cmocka_unit_test(test_failures),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
