/* Plans in words: the texts say the plan's own figures and names, also when it does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "plan/explain.h"
#include "support/plans.h"

static char *memory_text(const plan_case *c) {
  char *text = NULL;
  if (ull__plan_memory_text(c->plan, &text) != ULL_OK) fail_msg("%s", ull_error_last()->message);
  if (getenv("ULLAGE_PRINT")) puts(text);
  return text;
}

static char *schedule_text(const plan_case *c) {
  char *text = NULL;
  if (ull__plan_schedule_text(c->plan, &text) != ULL_OK) fail_msg("%s", ull_error_last()->message);
  if (getenv("ULLAGE_PRINT")) puts(text);
  return text;
}

static void expect(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

static void expect_number(const char *text, uint64_t number) {
  char part[32];
  snprintf(part, sizeof part, "%llu", (unsigned long long)number);
  expect(text, part);
}

static uint32_t count(const char *text, const char *part) {
  uint32_t found = 0;
  for (; (text = strstr(text, part)); text += strlen(part)) found++;
  return found;
}

static void test_memory_of_keep_all(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:resnet8", 4, true, 1, &c);
  char *text = memory_text(&c);
  expect(text, "everything is kept");
  expect_number(text, c.plan->planned_peak_bytes[ULL__TIER_DEVICE]);
  expect_number(text, c.plan->smallest_bytes[ULL__TIER_DEVICE]);
  ull__free(text);
  plan_case_free(&c);
}

/* The tag table is made of schedules; the program counts buffers. */
static void test_memory_of_a_tight_plan(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:resnet8", 4, false, 0, &c);
  char *text = memory_text(&c);
  uint64_t activation = 0;
  for (uint32_t p = 0; p < c.plan->family->program_count; p++) {
    uint64_t own = c.plan->family->programs[p].tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE];
    if (own > activation) activation = own;
  }
  expect_number(text, activation);
  expect(text, "so that their outputs need not be held");
  expect(text, "▸");
  expect(text, "is read by it");
  ull__free(text);
  plan_case_free(&c);
}

static void check_certificate(const plan_case *c, const char *text) {
  ull__certificate certificate;
  assert_int_equal(ull__plan_certificate(c->plan, &certificate), ULL_OK);
  expect_number(text, certificate.proved_budget_bytes);
  if (certificate.not_proved_bytes > 0) expect_number(text, certificate.not_proved_bytes);
  assert_int_equal(certificate.proved_budget_bytes + certificate.not_proved_bytes,
                   c->plan->smallest_bytes[ULL__TIER_DEVICE]);
  for (size_t i = 0; i < certificate.cases.count; i++) {
    expect(text, certificate.cases.items[i].node);
    expect_number(text, certificate.cases.items[i].bytes);
  }
  for (uint32_t v = 0; v < certificate.cases.items[0].value_count; v++)
    expect(text, certificate.values.items[certificate.cases.items[0].first_value + v].name);
  ull__certificate_free(&certificate);
}

static void test_certificate(void **state) {
  (void)state;
  static const char *const models[] = {"zoo:mlp", "zoo:lenet", "zoo:resnet8", "zoo:gpt2_tiny"};
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    plan_case c;
    plan_case_make(models[i], 8, true, 0, &c);
    char *text = memory_text(&c);
    double ratio = (double)c.plan->smallest_bytes[ULL__TIER_DEVICE] /
                   (double)c.plan->lower_bound_bytes[ULL__TIER_DEVICE];
    assert_int_equal(strstr(text, "no schedule of train takes less than") != NULL, ratio > 1.05);
    if (ratio > 1.05) check_certificate(&c, text);
    ull__free(text);
    plan_case_free(&c);
  }
}

static void test_plan_that_does_not_fit(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:lenet", 4, true, -1, &c);
  assert_false(c.plan->fits);
  char *text = memory_text(&c);
  expect(text, "does not fit: 1 B of device are missing");
  expect(text, c.plan->holder);
  ull__free(text);
  text = schedule_text(&c);
  expect(text, "no schedule fits");
  ull__free(text);
  plan_case_free(&c);
}

static void test_schedule(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:resnet8", 2, false, 0, &c);
  char *text = schedule_text(&c);
  uint32_t recomputed = 0, lines = 0;
  for (uint32_t p = 0; p < c.plan->family->program_count; p++) {
    const ull__program *program = &c.plan->family->programs[p];
    lines += program->instruction_count + 2;
    for (uint32_t i = 0; i < program->instruction_count; i++)
      recomputed += program->instructions[i].recomputed;
  }
  assert_true(recomputed > 0);
  assert_int_equal(count(text, "↻"), recomputed);
  assert_int_equal(count(text, "\n"), lines);
  expect(text, "copy of target");
  expect(text, "waits for");
  ull__free(text);
  plan_case_free(&c);
}

static void test_out_of_memory(void **state) {
  (void)state;
  plan_case c;
  plan_case_make("zoo:lenet", 4, true, 0, &c);
  char *text = NULL;
  ull_status status = ULL_ERROR_OUT_OF_MEMORY;
  for (uint64_t n = 1; status == ULL_ERROR_OUT_OF_MEMORY; n += 1 + n / 4) {
    ull__alloc_fail_at(n);
    status = ull__plan_memory_text(c.plan, &text);
  }
  ull__alloc_fail_at(0);
  assert_int_equal(status, ULL_OK);
  ull__free(text);
  plan_case_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_of_keep_all), cmocka_unit_test(test_memory_of_a_tight_plan),
      cmocka_unit_test(test_certificate),        cmocka_unit_test(test_plan_that_does_not_fit),
      cmocka_unit_test(test_schedule),           cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
