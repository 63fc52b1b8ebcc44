/* The memory summary: counting, checking planned against counted, its two written forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "memory/summary.h"

static ull__summary make_counted(void) {
  ull__summary summary = {0};
  ull__summary_add(&summary, ULL__TAG_PARAMETER, ULL__TIER_DEVICE, 4096);
  ull__summary_add(&summary, ULL__TAG_ACTIVATION, ULL__TIER_DEVICE, 1000);
  assert_int_equal(ull__summary_remove(&summary, ULL__TAG_ACTIVATION, ULL__TIER_DEVICE, 1000),
                   ULL_OK);
  ull__summary_add(&summary, ULL__TAG_WORKSPACE, ULL__TIER_DEVICE, 600);
  ull__summary_add(&summary, ULL__TAG_LOADER, ULL__TIER_HOST, 64);
  return summary;
}

static void tags_and_totals_peak_on_their_own(void **state) {
  (void)state;
  ull__summary summary = make_counted();
  assert_int_equal(summary.cells[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE].peak_bytes, 1000);
  assert_int_equal(summary.cells[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE].live_bytes, 0);
  assert_int_equal(summary.totals[ULL__TIER_DEVICE].peak_bytes, 5096);
  assert_int_equal(summary.totals[ULL__TIER_DEVICE].live_bytes, 4696);
  assert_int_equal(summary.totals[ULL__TIER_HOST].peak_bytes, 64);
  ull__summary_restart_peaks(&summary);
  assert_int_equal(summary.totals[ULL__TIER_DEVICE].peak_bytes, 4696);
  assert_int_equal(summary.cells[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE].peak_bytes, 0);
}

static void more_deaths_than_births_are_an_error(void **state) {
  (void)state;
  ull__summary summary = make_counted();
  assert_int_equal(ull__summary_remove(&summary, ULL__TAG_LOADER, ULL__TIER_HOST, 65),
                   ULL_ERROR_INTERNAL);
  assert_int_equal(ull_error_last()->available_bytes, 64);
  assert_int_equal(summary.totals[ULL__TIER_HOST].live_bytes, 64);
}

static void one_byte_off_is_a_mismatch(void **state) {
  (void)state;
  ull__summary summary = make_counted();
  for (int tier = 0; tier < ULL__TIER_COUNT; tier++) {
    summary.totals[tier].planned_bytes = summary.totals[tier].peak_bytes;
    for (int tag = 0; tag < ULL__TAG_COUNT; tag++) {
      summary.cells[tag][tier].planned_bytes = summary.cells[tag][tier].peak_bytes;
    }
  }
  assert_int_equal(ull__summary_check(&summary), ULL_OK);
  summary.cells[ULL__TAG_WORKSPACE][ULL__TIER_DEVICE].planned_bytes++;
  assert_int_equal(ull__summary_check(&summary), ULL_ERROR_MISMATCH);
  assert_string_equal(ull_error_last()->message,
                      "workspace on the device tier: 601 bytes planned, 600 counted");
  summary.cells[ULL__TAG_WORKSPACE][ULL__TIER_DEVICE].planned_bytes--;
  summary.totals[ULL__TIER_DISK].planned_bytes = 1;
  assert_int_equal(ull__summary_check(&summary), ULL_ERROR_MISMATCH);
}

static void json_has_every_tag_and_tier(void **state) {
  (void)state;
  ull__summary summary = make_counted();
  json_t *tiers, *tags;
  char *line;
  summary.planned_padding_bytes[ULL__TIER_DEVICE] = 4;
  assert_int_equal(ull__summary_tiers_json(&summary, ULL__SUMMARY_PEAK, &tiers), ULL_OK);
  assert_int_equal(ull__json_line(tiers, &line), ULL_OK);
  assert_string_equal(line, "{\"device\":5100,\"host\":64,\"disk\":0}");
  ull__free(line);
  json_decref(tiers);
  assert_int_equal(ull__summary_tags_json(&summary, ULL__SUMMARY_LIVE, &tags), ULL_OK);
  assert_int_equal(json_object_size(tags), ULL__TAG_COUNT);
  json_t *workspace = json_object_get(tags, "workspace");
  assert_int_equal(json_integer_value(json_object_get(workspace, "device")), 600);
  json_decref(tags);
}

static void the_table_leaves_out_what_is_empty(void **state) {
  (void)state;
  ull__summary summary = make_counted();
  char *table;
  summary.totals[ULL__TIER_DEVICE].planned_bytes = 6144;
  summary.cells[ULL__TAG_PARAMETER][ULL__TIER_DEVICE].planned_bytes = 4096;
  summary.planned_padding_bytes[ULL__TIER_DEVICE] = 1024;
  assert_int_equal(ull__summary_table(&summary, &table), ULL_OK);
  assert_string_equal(table, "tag          tier          planned         live         peak\n"
                             "parameter    device        4.0 KiB      4.0 KiB      4.0 KiB\n"
                             "activation   device            0 B          0 B       1000 B\n"
                             "workspace    device            0 B        600 B        600 B\n"
                             "padding      device        1.0 KiB          0 B      1.0 KiB\n"
                             "total        device        7.0 KiB      4.6 KiB      6.0 KiB\n"
                             "loader       host              0 B         64 B         64 B\n"
                             "total        host              0 B         64 B         64 B\n");
  ull__free(table);
}

static void failing_allocations_leave_nothing_behind(void **state) {
  (void)state;
  ull__summary summary = make_counted();
  ull__json_start();
  uint64_t live = ull__alloc_count().live_bytes;
  for (uint64_t n = 1; n < 100; n++) {
    json_t *tags = NULL;
    ull__alloc_fail_at(n);
    ull_status status = ull__summary_tags_json(&summary, ULL__SUMMARY_PEAK, &tags);
    ull__alloc_fail_at(0);
    if (status == ULL_OK) json_decref(tags);
    assert_int_equal(ull__alloc_count().live_bytes, live);
  }
}

static void names_are_those_of_the_interface(void **state) {
  (void)state;
  static const char *const names[] = {"parameter",  "gradient",  "optimizer",
                                      "activation", "workspace", "staging",
                                      "loader",     "runtime",   "other"};
  assert_int_equal(ULL__TAG_COUNT, 9);
  for (int tag = 0; tag < ULL__TAG_COUNT; tag++) {
    assert_string_equal(ull__tag_name((ull__tag)tag), names[tag]);
  }
  assert_string_equal(ull__tag_name((ull__tag)99), "unknown");
  assert_string_equal(ull__tier_name(ULL__TIER_DISK), "disk");
  assert_string_equal(ull__tier_name((ull__tier)-1), "unknown");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tags_and_totals_peak_on_their_own),
      cmocka_unit_test(more_deaths_than_births_are_an_error),
      cmocka_unit_test(one_byte_off_is_a_mismatch),
      cmocka_unit_test(json_has_every_tag_and_tier),
      cmocka_unit_test(the_table_leaves_out_what_is_empty),
      cmocka_unit_test(failing_allocations_leave_nothing_behind),
      cmocka_unit_test(names_are_those_of_the_interface),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
