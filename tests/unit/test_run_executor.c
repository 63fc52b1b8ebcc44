/* The executor on programs made by hand: numbers, counts, poison, red zones, failures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "support/hand_family.h"

/* ---- numbers ---- */

static void numbers_of(fixture *f) {
  check_value(f, "m", 3, 0);
  check_value(f, "c", 3, 100);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_float_equal(read_loss(f, 0, 7), 2 * 7 + 1 + 100, 0);
  check_value(f, "w", 7, -2 * 7);
  check_value(f, "m", 7, 2 * 7 + 1);
  assert_int_equal(ull__executor_run(f->executor, 1), ULL_OK);
  assert_float_equal(read_loss(f, 1, 7), 7 - 14, 0);
  float loss[N];
  assert_int_equal(ull__executor_read_output(f->executor, 0, "loss", loss, sizeof loss),
                   ULL_ERROR_INVALID);
  f->x[7] = 1;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_float_equal(read_loss(f, 0, 7), 2 - 14 + 100, 0);
  check_value(f, "w", 7, -14 - (2 - 14));
  check_value(f, "m", 7, 15 - 12);
}

static void programs_give_their_numbers_in_every_mode(void **state) {
  (void)state;
  in_every_mode(numbers_of);
}

static void values_of(fixture *f) {
  float image[IMAGE_ELEMENTS], back[IMAGE_ELEMENTS], vector[N];
  for (int i = 0; i < IMAGE_ELEMENTS; i++) image[i] = (float)(i + 1);
  assert_int_equal(ull__executor_write_value(f->executor, "image", image, sizeof image), ULL_OK);
  assert_int_equal(ull__executor_read_value(f->executor, "image", back, sizeof back), ULL_OK);
  assert_memory_equal(image, back, sizeof image);
  /* [1, 3, 2, 2] with channels last: element (c, s) lies at 3 s + c. */
  f->persistents[3].layout = &ull__layout_plain;
  assert_int_equal(ull__executor_read_value(f->executor, "image", back, sizeof back), ULL_OK);
  f->persistents[3].layout = &f->channels_last;
  assert_float_equal(back[1], image[4], 0);
  assert_int_equal(ull__executor_read_value(f->executor, "none", vector, sizeof vector),
                   ULL_ERROR_INVALID);
  assert_string_equal(ull_error_last()->holder, "none");
  assert_int_equal(ull__executor_write_value(f->executor, "w", vector, sizeof vector - 1),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__executor_read_output(f->executor, 0, "accuracy", vector, sizeof vector),
                   ULL_ERROR_INVALID);
  uint64_t bytes;
  assert_non_null(ull__executor_slab(f->executor, ULL__SLAB_LOADER, &bytes));
  assert_int_equal(bytes, PAGE);
  assert_null(ull__executor_slab(f->executor, ULL__SLAB_RUNTIME, &bytes));
  assert_int_equal(bytes, 0);
}

static void values_are_read_and_written_by_name(void **state) {
  (void)state;
  in_every_mode(values_of);
}

static void gradients_are_zeroed_alone(void **state) {
  (void)state;
  fixture *f = make("sim:1MiB@8GB/s");
  f->persistents[1].role = ULL__ROLE_GRADIENT; /* m */
  start(f, true);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  check_value(f, "m", 7, 15);
  uint64_t calls = ull__alloc_count().calls;
  assert_int_equal(ull__executor_zero_gradients(f->executor), ULL_OK);
  assert_int_equal(ull__alloc_count().calls, calls);
  check_value(f, "m", 7, 0);
  check_value(f, "w", 7, -14);
  check_value(f, "c", 7, 100);
  finish(f);
}

/* ---- counts ---- */

static void counts_of(fixture *f) {
  ull__measurement m;
  ull__executor_measure(f->executor, 0, &m);
  assert_int_equal(m.tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE], 0);
  for (int i = 0; i < 3; i++) assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  ull__executor_measure(f->executor, 0, &m);
  ull__tier host = f->family.slabs[ULL__SLAB_LOADER].tier;
  assert_int_equal(m.tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE], 2 * VALUE_BYTES);
  assert_int_equal(m.tag_peaks[ULL__TAG_WORKSPACE][ULL__TIER_DEVICE], WORKSPACE_BYTES);
  assert_int_equal(m.tag_peaks[ULL__TAG_PARAMETER][ULL__TIER_DEVICE], 2 * VALUE_BYTES + 48);
  assert_int_equal(m.tag_peaks[ULL__TAG_OPTIMIZER][ULL__TIER_DEVICE], VALUE_BYTES);
  assert_int_equal(m.tag_peaks[ULL__TAG_GRADIENT][ULL__TIER_DEVICE], 0);
  assert_int_equal(m.tag_peaks[ULL__TAG_LOADER][host], PAGE);
  assert_int_equal(m.tag_peaks[ULL__TAG_RUNTIME][host], 2 * PAGE);
  assert_int_equal(m.extent_bytes[ULL__SLAB_ARENA], 256 + WORKSPACE_BYTES);
  assert_int_equal(m.extent_bytes[ULL__SLAB_PERSISTENT], 256 + VALUE_BYTES);
  bool is_shared = host == ULL__TIER_DEVICE;
  assert_int_equal(m.peak_bytes[ULL__TIER_DEVICE], is_shared ? 5 * PAGE : 2 * PAGE);
  assert_int_equal(m.peak_bytes[ULL__TIER_HOST], is_shared ? 0 : 3 * PAGE);
  assert_int_equal(ull__executor_run(f->executor, 1), ULL_OK);
  ull__executor_measure(f->executor, 1, &m);
  assert_int_equal(m.tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE], 2 * VALUE_BYTES);
  assert_int_equal(m.extent_bytes[ULL__SLAB_ARENA], 256 + VALUE_BYTES);
}

static void bytes_are_counted_from_what_runs(void **state) {
  (void)state;
  in_every_mode(counts_of);
}

/* The plan says one thing, the operands another: the count follows the operands. */
static void counts_do_not_believe_the_plan(void **state) {
  (void)state;
  fixture *f = make("cpu");
  for (int b = 0; b <= B_LOSS; b++) f->buffers[0][b].last = f->buffers[0][b].first;
  f->operands[0][4][1] = B_X; /* x is read once more at the end, after h and y */
  start(f, false);
  ull__measurement m;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  ull__executor_measure(f->executor, 0, &m);
  assert_int_equal(m.tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE], 3 * VALUE_BYTES);
  finish(f);
}

static void allocations_of(fixture *f) {
  for (uint32_t p = 0; p < 2; p++) assert_int_equal(ull__executor_run(f->executor, p), ULL_OK);
  uint64_t calls = ull__alloc_count().calls;
  for (int i = 0; i < 40; i++) {
    assert_int_equal(ull__executor_run(f->executor, i % 4 == 3), ULL_OK);
  }
  assert_int_equal(ull__alloc_count().calls, calls);
}

static void runs_allocate_nothing(void **state) {
  (void)state;
  in_every_mode(allocations_of);
}

static void kernels_of(fixture *f) {
  assert_int_equal(f->scale.prepared, 1);
  assert_int_equal(f->plain.prepared, 1); /* three nodes of two programs run it */
}

static void kernels_are_prepared_once(void **state) {
  (void)state;
  in_every_mode(kernels_of);
}

static void times_of(fixture *f) {
  for (int i = 0; i < 3; i++) assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  const ull__instruction_times *times = ull__executor_times(f->executor, 0);
  assert_non_null(times);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(times[i].runs, 3);
    assert_true(times[i].last_begin_ns <= times[i].last_end_ns);
    assert_true(times[i].total_ns >= times[i].last_end_ns - times[i].last_begin_ns);
    if (i > 0) assert_true(times[i - 1].last_end_ns <= times[i].last_begin_ns);
  }
  assert_int_equal(ull__executor_times(f->executor, 1)[0].runs, 0);
}

static void every_instruction_is_timed(void **state) {
  (void)state;
  in_every_mode(times_of);
}

/* ---- poison ---- */

static void partial_kernel(fixture *f, bool poison, float expected) {
  f->scale.is_partial = true;
  start(f, poison);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  float loss = read_loss(f, 0, N - 1);
  assert_true(isnan(expected) ? isnan(loss) : !isnan(loss));
  assert_false(isnan(read_loss(f, 0, N - 2)));
  finish(f);
}

static void what_is_not_written_is_nan(void **state) {
  (void)state;
  partial_kernel(make("cpu"), true, NAN);
  partial_kernel(make("sim:1MiB@8GB/s"), true, NAN);
  partial_kernel(make("cpu"), false, 0);
}

/* Reads a buffer after its death: the plan's range was given away by then. */
static void what_is_dead_is_nan(void **state) {
  (void)state;
  fixture *f = make("cpu");
  f->buffers[0][B_LOSS].offset_bytes = 512;
  f->operands[0][3][1] = B_WORKSPACE; /* loss = y + (dead workspace) */
  f->buffers[0][B_WORKSPACE].size_bytes = VALUE_BYTES;
  ull__buffer again = f->buffers[0][B_WORKSPACE];
  f->buffers[0][B_RUNTIME] = again; /* a second buffer over the same range, never written */
  f->operands[0][3][1] = B_RUNTIME;
  f->bytes[0][2][3] = f->bytes[0][3][1] = VALUE_BYTES;
  start(f, true);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_true(isnan(read_loss(f, 0, 0)));
  finish(f);
}

static void stray_write(const char *device, int element, const char *neighbour) {
  fixture *f = make(device);
  f->scale.stray = element;
  start(f, true);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_ERROR_INTERNAL);
  const char *message = ull_error_last()->message;
  if (strstr(message, "train") == NULL || strstr(message, "double") == NULL ||
      strstr(message, neighbour) == NULL) {
    fail_msg("'%s' does not name train, double and %s", message, neighbour);
  }
  assert_string_equal(ull_error_last()->holder, "double");
  f->scale.stray = 0;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK); /* the arena is clean again */
  finish(f);
}

static void stray_writes_name_their_instruction(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "sim:1MiB@8GB/s"};
  for (int d = 0; d < 2; d++) {
    stray_write(devices[d], N, "h");      /* in the padding behind h */
    stray_write(devices[d], N + 15, "h"); /* the last element of its red zone */
    stray_write(devices[d], -1, "h");     /* between x and h */
  }
}

static void the_arena_may_be_written_between_runs(void **state) {
  (void)state;
  fixture *f = make("cpu");
  float loss[N];
  uint64_t bytes;
  start(f, true);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  memset(ull__executor_slab(f->executor, ULL__SLAB_ARENA, &bytes), 0, PAGE);
  assert_int_equal(ull__executor_read_output(f->executor, 0, "loss", loss, sizeof loss),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  finish(f);
}

static void red_zones_are_off_without_poison(void **state) {
  (void)state;
  fixture *f = make("cpu");
  f->scale.stray = N;
  start(f, false);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  finish(f);
}

static void the_environment_switches_poison_on(void **state) {
  (void)state;
  setenv("ULLAGE_POISON", "1", 1);
  fixture *f = make("cpu");
  f->scale.stray = N;
  start(f, false);
  unsetenv("ULLAGE_POISON");
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_ERROR_INTERNAL);
  finish(f);
}

/* ---- failures ---- */

static void failing_kernel_of(fixture *f) {
  f->scale.fails = true;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_ERROR_NUMERIC);
  assert_string_equal(ull_error_last()->message,
                      "program train, instruction 1 (double): inputs are not finite");
  f->scale.fails = false;
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_OK);
  assert_float_equal(read_loss(f, 0, 7), 2 * 7 + 1 + 100, 0); /* nothing ran after the failure */
}

static void a_failure_names_program_instruction_and_node(void **state) {
  (void)state;
  in_every_mode(failing_kernel_of);
}

static void unset_input_of(fixture *f) {
  ull__executor_set_input(f->executor, 0, 0, NULL);
  assert_int_equal(ull__executor_run(f->executor, 0), ULL_ERROR_INVALID);
  assert_string_equal(ull_error_last()->holder, "x");
  assert_int_equal(ull__executor_run(f->executor, 1), ULL_OK);
  assert_int_equal(ull__executor_run(f->executor, 2), ULL_ERROR_INVALID);
  assert_int_equal(ull__executor_find_input(f->executor, 0, "y"), -1);
}

static void an_input_must_be_set(void **state) {
  (void)state;
  in_every_mode(unset_input_of);
}

static void break_operand(fixture *f) {
  f->operands[0][2][0] = B_COUNT;
}
static void break_bytes(fixture *f) {
  f->bytes[0][2][0] = VALUE_BYTES + 1;
}
static void break_place(fixture *f) {
  f->buffers[0][B_H].offset_bytes = PAGE - 1;
}
static void break_output(fixture *f) {
  f->outputs[0].buffer = ULL__NONE;
}
static void break_wait(fixture *f) {
  static const uint32_t later = 3;
  f->instructions[0][2].wait_count = 1;
  f->instructions[0][2].waits = &later;
}
static void break_constant(fixture *f) {
  f->persistents[2].name = "d";
}

static void plans_that_contradict_themselves_are_refused(void **state) {
  (void)state;
  void (*const breaks[])(fixture *) = {break_operand, break_bytes,  break_place,
                                       break_wait,    break_output, break_constant};
  for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
    fixture *f = make("cpu");
    breaks[i](f);
    assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                     ULL_ERROR_INTERNAL);
    assert_null(f->executor);
    assert_int_equal(ull__device_allocated_bytes(f->device, ULL__TIER_DEVICE), 0);
    finish(f);
  }
}

static void kernels_may_be_missing_or_refuse(void **state) {
  (void)state;
  fixture *f = make("cpu");
  f->nodes[0][2].kernel.entry = NULL;
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                   ULL_ERROR_UNSUPPORTED);
  f->nodes[0][2].kernel.entry = run_add;
  f->nodes[0][3].kernel.prepare = refuse_to_prepare;
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                   ULL_ERROR_DEVICE);
  assert_non_null(strstr(ull_error_last()->message, "update"));
  f->instructions[0][3].action = ULL__ACTION_DISK_READ;
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                   ULL_ERROR_UNSUPPORTED);
  finish(f);
}

static void a_slab_that_cannot_be_had_is_named(void **state) {
  (void)state;
  fixture *f = make("sim:4KiB@8GB/s");
  assert_int_equal(ull__executor_create(&f->family, NULL, f->device, NULL, &f->executor),
                   ULL_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(ull_error_last()->message, "the arena"));
  assert_int_equal(ull_error_last()->wanted_bytes, PAGE);
  assert_int_equal(ull_error_last()->available_bytes, 0);
  assert_int_equal(ull__device_allocated_bytes(f->device, ULL__TIER_DEVICE), 0);
  finish(f);
}

static void every_failed_allocation_is_survived(void **state) {
  (void)state;
  fixture *f = make("sim:1MiB@8GB/s");
  const ull__executor_options options = {.poison = true, .record_times = true};
  uint64_t live_bytes = ull__alloc_count().live_bytes;
  uint32_t failures = 0;
  ull_status status;
  do {
    ull__alloc_fail_at(failures + 1);
    status = ull__executor_create(&f->family, NULL, f->device, &options, &f->executor);
    if (status == ULL_OK) break;
    assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    assert_int_equal(ull__device_allocated_bytes(f->device, ULL__TIER_DEVICE), 0);
    if (failures++ > 1) assert_true(ull__alloc_count().live_bytes <= live_bytes + 65536);
  } while (failures < 1000);
  ull__alloc_fail_at(0);
  assert_true(failures > 2 && failures < 1000);
  finish(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(programs_give_their_numbers_in_every_mode),
      cmocka_unit_test(values_are_read_and_written_by_name),
      cmocka_unit_test(gradients_are_zeroed_alone),
      cmocka_unit_test(bytes_are_counted_from_what_runs),
      cmocka_unit_test(counts_do_not_believe_the_plan),
      cmocka_unit_test(runs_allocate_nothing),
      cmocka_unit_test(kernels_are_prepared_once),
      cmocka_unit_test(every_instruction_is_timed),
      cmocka_unit_test(what_is_not_written_is_nan),
      cmocka_unit_test(what_is_dead_is_nan),
      cmocka_unit_test(stray_writes_name_their_instruction),
      cmocka_unit_test(the_arena_may_be_written_between_runs),
      cmocka_unit_test(red_zones_are_off_without_poison),
      cmocka_unit_test(the_environment_switches_poison_on),
      cmocka_unit_test(a_failure_names_program_instruction_and_node),
      cmocka_unit_test(an_input_must_be_set),
      cmocka_unit_test(plans_that_contradict_themselves_are_refused),
      cmocka_unit_test(kernels_may_be_missing_or_refuse),
      cmocka_unit_test(a_slab_that_cannot_be_had_is_named),
      cmocka_unit_test(every_failed_allocation_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
