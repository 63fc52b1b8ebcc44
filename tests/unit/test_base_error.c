/* The status table and the thread's error record. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void statuses_have_names_and_exit_codes(void **state) {
  (void)state;
  assert_string_equal(ull_status_name(ULL_OK), "ok");
  assert_string_equal(ull_status_name(ULL_ERROR_DOES_NOT_FIT), "does_not_fit");
  assert_int_equal(ull_status_exit_code(ULL_OK), 0);
  assert_int_equal(ull_status_exit_code(ULL_ERROR_USAGE), 2);
  assert_int_equal(ull_status_exit_code(ULL_ERROR_DOES_NOT_FIT), 3);
  assert_int_equal(ull_status_exit_code(ULL_ERROR_OUT_OF_MEMORY), 4);
  assert_int_equal(ull_status_exit_code(ULL_ERROR_STOPPED), 5);
  assert_int_equal(ull_status_exit_code(ULL_ERROR_DATA), 6);
  assert_int_equal(ull_status_exit_code(ULL_ERROR_NUMERIC), 7);
  for (int status = 0; status < ULL_STATUS_COUNT; status++) {
    assert_true(strlen(ull_status_name((ull_status)status)) > 0);
    assert_true(strlen(ull_status_text((ull_status)status)) > 0);
    for (int other = 0; other < status; other++) {
      assert_string_not_equal(ull_status_name((ull_status)status),
                              ull_status_name((ull_status)other));
    }
  }
}

static void values_outside_the_table_are_answered(void **state) {
  (void)state;
  assert_string_equal(ull_status_name((ull_status)9999), "unknown");
  assert_non_null(ull_status_text((ull_status)-1));
  assert_int_equal(ull_status_exit_code((ull_status)9999), 1);
}

static void a_failure_fills_the_record(void **state) {
  (void)state;
  assert_int_equal(ULL__FAIL(ULL_ERROR_DATA, "row %d\nof %s", 3, "a.npz"), ULL_ERROR_DATA);
  ull__error_holder("array %s", "x");
  ull__error_change("fix it");
  assert_int_equal(ull__error_bytes(10, 4), ULL_ERROR_DATA);
  const ull_error *error = ull_error_last();
  assert_string_equal(error->message, "row 3 of a.npz");
  assert_string_equal(error->holder, "array x");
  assert_string_equal(error->change, "fix it");
  assert_int_equal(error->wanted_bytes, 10);
  assert_int_equal(error->available_bytes, 4);
  ULL__FAIL(ULL_ERROR_IO, "another");
  assert_string_equal(error->holder, "");
  assert_int_equal(error->wanted_bytes, 0);
  ull_error_clear();
  assert_int_equal(ull_error_last()->status, ULL_OK);
}

static void a_message_may_quote_the_record_itself(void **state) {
  (void)state;
  ULL__FAIL(ULL_ERROR_IO, "inner");
  ULL__FAIL(ULL_ERROR_DATA, "outer (%s)", ull_error_last()->message);
  assert_string_equal(ull_error_last()->message, "outer (inner)");
}

static void context_goes_in_front_and_long_texts_are_cut(void **state) {
  (void)state;
  char text[2000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  ULL__FAIL(ULL_ERROR_DATA, "bad magic");
  assert_int_equal(ull__error_context("file %s", "a.npy"), ULL_ERROR_DATA);
  assert_string_equal(ull_error_last()->message, "file a.npy: bad magic");
  ull__error_context("%s", text);
  assert_int_equal(strlen(ull_error_last()->message), sizeof ull_error_last()->message - 1);
  ULL__FAIL(ULL_ERROR_DATA, "%s", text);
  ull__error_holder("%s", text);
  assert_int_equal(strlen(ull_error_last()->message), sizeof ull_error_last()->message - 1);
  assert_int_equal(strlen(ull_error_last()->holder), sizeof ull_error_last()->holder - 1);
}

static void *fail_on_another_thread(void *out) {
  ULL__FAIL(ULL_ERROR_DEVICE, "lane 3 died");
  ull__error_bytes(7, 5);
  *(ull_error *)out = *ull_error_last();
  return NULL;
}

static void each_thread_has_its_own_record(void **state) {
  (void)state;
  ull_error other;
  pthread_t thread;
  ull_error_clear();
  assert_int_equal(pthread_create(&thread, NULL, fail_on_another_thread, &other), 0);
  pthread_join(thread, NULL);
  assert_int_equal(ull_error_last()->status, ULL_OK);
  assert_int_equal(ull__error_restore(&other), ULL_ERROR_DEVICE);
  assert_string_equal(ull_error_last()->message, "lane 3 died");
  assert_int_equal(ull_error_last()->wanted_bytes, 7);
  assert_int_equal(ull__error_restore(ull_error_last()), ULL_ERROR_DEVICE);
}

static ull_status pass_on(ull_status status, int *reached) {
  ULL__TRY(status);
  *reached = 1;
  return ULL_OK;
}

static ull_status clean_up(ull_status given, int *cleaned) {
  ull_status status;
  ULL__TRY_GOTO(status, given, done);
  *cleaned += 1;
done:
  *cleaned += 10;
  return status;
}

static void try_macros_return_and_jump(void **state) {
  (void)state;
  int reached = 0;
  assert_int_equal(pass_on(ULL_ERROR_IO, &reached), ULL_ERROR_IO);
  assert_int_equal(reached, 0);
  assert_int_equal(pass_on(ULL_OK, &reached), ULL_OK);
  assert_int_equal(reached, 1);
  int cleaned = 0;
  assert_int_equal(clean_up(ULL_ERROR_IO, &cleaned), ULL_ERROR_IO);
  assert_int_equal(cleaned, 10);
  assert_int_equal(clean_up(ULL_OK, &cleaned), ULL_OK);
  assert_int_equal(cleaned, 21);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statuses_have_names_and_exit_codes),
      cmocka_unit_test(values_outside_the_table_are_answered),
      cmocka_unit_test(a_failure_fills_the_record),
      cmocka_unit_test(a_message_may_quote_the_record_itself),
      cmocka_unit_test(context_goes_in_front_and_long_texts_are_cut),
      cmocka_unit_test(each_thread_has_its_own_record),
      cmocka_unit_test(try_macros_return_and_jump),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
