/* Work in a process of its own: its result, its failure, and every way to die come back. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/apart.h"
#include "base/error.h"
#include "base/log.h"

typedef struct task {
  int number; /* of a signal to die by */
  uint64_t squares[1000];
} task;

static int outside; /* what the copy changes here stays there */

static ull_status make_squares(void *context) {
  task *task = context;
  outside = 1;
  for (uint64_t i = 0; i < 1000; i++) task->squares[i] = i * i;
  return ULL_OK;
}

static ull_status fail_with_record(void *context) {
  (void)context;
  ULL__FAIL(ULL_ERROR_MISMATCH, "four is not five");
  ull__error_holder("four");
  ull__error_change("count again");
  return ull__error_bytes(5, 4);
}

static ull_status die_by_signal(void *context) {
  raise(((task *)context)->number);
  return ULL_OK;
}

static ull_status leave(void *context) {
  (void)context;
  _exit(3);
}

static ull_status say_something(void *context) {
  (void)context;
  ULL__LOG_WARNING("said in the copy");
  return ULL_OK;
}

static ull_status run(ull__apart_work work, task *task) {
  return ull__run_apart("file.odd", work, task, task, sizeof *task);
}

static void check_squares(void) {
  task task = {0};
  outside = 0;
  assert_int_equal(run(make_squares, &task), ULL_OK);
  for (uint64_t i = 0; i < 1000; i++) assert_int_equal(task.squares[i], i * i);
  assert_int_equal(outside, 0);
}

static void test_result(void **state) {
  (void)state;
  check_squares();
  int status;
  assert_int_equal(waitpid(-1, &status, WNOHANG), -1); /* nobody is left behind */
}

static void test_failure(void **state) {
  (void)state;
  task task = {0};
  assert_int_equal(run(fail_with_record, &task), ULL_ERROR_MISMATCH);
  const ull_error *error = ull_error_last();
  assert_int_equal(error->status, ULL_ERROR_MISMATCH);
  assert_string_equal(error->message, "four is not five");
  assert_string_equal(error->holder, "four");
  assert_string_equal(error->change, "count again");
  assert_int_equal(error->wanted_bytes, 5);
  assert_int_equal(error->available_bytes, 4);
}

static void test_deaths(void **state) {
  (void)state;
  static const struct {
    int number;
    ull_status status;
  } deaths[] = {{SIGABRT, ULL_ERROR_DATA},
                {SIGXCPU, ULL_ERROR_DATA},
                {SIGKILL, ULL_ERROR_OUT_OF_MEMORY},
                {SIGINT, ULL_ERROR_STOPPED},
                {SIGTERM, ULL_ERROR_STOPPED}};
  for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
    task task = {.number = deaths[i].number};
    assert_int_equal(run(die_by_signal, &task), deaths[i].status);
    assert_non_null(strstr(ull_error_last()->message, "file.odd"));
    assert_int_equal(task.squares[999], 0);
  }
  task task = {0};
  assert_int_equal(run(leave, &task), ULL_ERROR_DATA);
}

/* The program's own handling of signals and children is neither used nor needed. */
static void test_programs_that_ignore_children(void **state) {
  (void)state;
  signal(SIGCHLD, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  check_squares();
  task task = {.number = SIGINT};
  assert_int_not_equal(run(die_by_signal, &task), ULL_OK);
  signal(SIGINT, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);
}

static int messages;

static void count_message(void *user, ull_log_level level, const char *message) {
  (void)user, (void)level, (void)message;
  messages++;
  abort(); /* in the copy, as a callback into another language might */
}

static void test_messages_are_dropped(void **state) {
  (void)state;
  task task = {0};
  ull_log_set(count_message, NULL, ULL_LOG_DEBUG);
  assert_int_equal(run(say_something, &task), ULL_OK);
  ull_log_set(NULL, NULL, ULL_LOG_INFO);
  assert_int_equal(messages, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_result),
      cmocka_unit_test(test_failure),
      cmocka_unit_test(test_deaths),
      cmocka_unit_test(test_programs_that_ignore_children),
      cmocka_unit_test(test_messages_are_dropped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
