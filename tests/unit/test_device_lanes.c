/* Lanes, events, failures and calls, on cpu and on sim. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "device/device.h"

static const char *const device_texts[] = {"cpu", "sim:1MiB@8GB/s"};

static ull__device *open_device(const char *text) {
  ull__device *device = NULL;
  const ull__device_options options = {.threads = 1};
  assert_int_equal(ull__device_open(text, &options, &device), ULL_OK);
  return device;
}

static void on_every_device(void (*check)(ull__device *)) {
  for (size_t i = 0; i < sizeof device_texts / sizeof device_texts[0]; i++) {
    ull__device *device = open_device(device_texts[i]);
    check(device);
    ull__device_close(device);
  }
}

/* ---- a gate that launches can be held at ---- */

typedef struct gate {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool is_open;
  uint32_t arrived;
} gate;

#define GATE_INITIALIZER \
  { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static ull_status pass_gate(const ull__launch_frame *frame) {
  gate *held = *(gate *const *)frame->constants;
  pthread_mutex_lock(&held->mutex);
  held->arrived++;
  pthread_cond_broadcast(&held->changed);
  while (!held->is_open) pthread_cond_wait(&held->changed, &held->mutex);
  pthread_mutex_unlock(&held->mutex);
  return ULL_OK;
}

static void await_arrival(gate *held) {
  pthread_mutex_lock(&held->mutex);
  while (held->arrived == 0) pthread_cond_wait(&held->changed, &held->mutex);
  pthread_mutex_unlock(&held->mutex);
}

static void open_gate(gate *held) {
  pthread_mutex_lock(&held->mutex);
  held->is_open = true;
  pthread_cond_broadcast(&held->changed);
  pthread_mutex_unlock(&held->mutex);
}

static void hold_lane(ull__device *device, ull__lane lane, gate *const *held) {
  const ull__launch launch = {.entry = pass_gate, .constants = held};
  assert_int_equal(ull__device_launch(device, lane, &launch), ULL_OK);
}

/* ---- order ---- */

#define MOST_STEPS 200u

typedef struct step {
  uint32_t index;
  atomic_uint begun; /* place in the order of the run, from 1; 0 = not yet */
  atomic_uint done;
} step;

static atomic_uint moment;

static ull_status take_step(const ull__launch_frame *frame) {
  step *self = *(step *const *)frame->constants;
  atomic_store(&self->begun, atomic_fetch_add(&moment, 1) + 1);
  atomic_store(&self->done, atomic_fetch_add(&moment, 1) + 1);
  return ULL_OK;
}

static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

typedef struct graph {
  step steps[MOST_STEPS];
  step *pointers[MOST_STEPS];
  ull__lane lanes[MOST_STEPS];
  bool edges[MOST_STEPS][MOST_STEPS];
} graph;

static void put_random_graph(ull__device *device, graph *work, uint64_t seed,
                             const ull__event_id events[MOST_STEPS]) {
  uint64_t state = seed;
  for (uint32_t i = 0; i < MOST_STEPS; i++) {
    work->steps[i].index = i;
    work->pointers[i] = &work->steps[i];
    work->lanes[i] = (ull__lane)(next_random(&state) % ULL__LANE_COUNT);
    for (uint32_t edge = next_random(&state) % 4; edge > 0 && i > 0; edge--) {
      uint32_t from = next_random(&state) % i;
      work->edges[from][i] = true;
      assert_int_equal(ull__device_wait(device, work->lanes[i], events[from]), ULL_OK);
    }
    const ull__launch launch = {.entry = take_step, .constants = &work->pointers[i], .tag = i};
    assert_int_equal(ull__device_launch(device, work->lanes[i], &launch), ULL_OK);
    assert_int_equal(ull__device_record(device, work->lanes[i], events[i]), ULL_OK);
  }
}

static void check_order(const graph *work) {
  for (uint32_t to = 0; to < MOST_STEPS; to++) {
    assert_true(work->steps[to].done > 0);
    for (uint32_t from = 0; from < to; from++) {
      if (!work->edges[from][to] && work->lanes[from] != work->lanes[to]) continue;
      assert_true(work->steps[from].done < work->steps[to].begun);
    }
  }
}

static void random_graphs_on(ull__device *device) {
  ull__event_id events[MOST_STEPS];
  for (uint32_t i = 0; i < MOST_STEPS; i++) {
    assert_int_equal(ull__device_event_create(device, &events[i]), ULL_OK);
  }
  for (uint64_t seed = 1; seed <= 20; seed++) {
    static graph work;
    memset(&work, 0, sizeof work);
    atomic_store(&moment, 0);
    put_random_graph(device, &work, seed, events);
    assert_int_equal(ull__device_synchronize(device), ULL_OK);
    check_order(&work);
  }
  for (uint32_t i = 0; i < MOST_STEPS; i++) ull__device_event_destroy(device, events[i]);
}

static void random_graphs_run_in_order(void **state) {
  (void)state;
  on_every_device(random_graphs_on);
}

static void last_record_on(ull__device *device) {
  gate held = GATE_INITIALIZER;
  gate *pointer = &held;
  static step before, after;
  before = after = (step){0};
  step *const pointers[] = {&before, &after};
  ull__event_id event;
  assert_int_equal(ull__device_event_create(device, &event), ULL_OK);
  assert_int_equal(ull__device_wait(device, ULL__LANE_COPY_IN, event), ULL_OK); /* not recorded */
  const ull__launch first = {.entry = take_step, .constants = &pointers[0]};
  assert_int_equal(ull__device_launch(device, ULL__LANE_COPY_IN, &first), ULL_OK);
  assert_int_equal(ull__device_record(device, ULL__LANE_COPY_IN, event), ULL_OK);
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
  assert_true(before.done > 0);
  hold_lane(device, ULL__LANE_COMPUTE, &pointer);
  assert_int_equal(ull__device_record(device, ULL__LANE_COMPUTE, event), ULL_OK);
  assert_int_equal(ull__device_wait(device, ULL__LANE_COPY_IN, event), ULL_OK);
  const ull__launch second = {.entry = take_step, .constants = &pointers[1]};
  assert_int_equal(ull__device_launch(device, ULL__LANE_COPY_IN, &second), ULL_OK);
  await_arrival(&held);
  assert_true(after.begun == 0);
  open_gate(&held);
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
  assert_true(after.done > 0);
}

static void a_wait_captures_the_last_record(void **state) {
  (void)state;
  on_every_device(last_record_on);
}

static void waiting_lane_on(ull__device *device) {
  gate held = GATE_INITIALIZER;
  gate *pointer = &held;
  static step other;
  other = (step){0};
  step *const other_pointer = &other;
  ull__event_id event;
  assert_int_equal(ull__device_event_create(device, &event), ULL_OK);
  hold_lane(device, ULL__LANE_COPY_IN, &pointer);
  assert_int_equal(ull__device_record(device, ULL__LANE_COPY_IN, event), ULL_OK);
  assert_int_equal(ull__device_wait(device, ULL__LANE_COMPUTE, event), ULL_OK);
  const ull__launch launch = {.entry = take_step, .constants = &other_pointer};
  assert_int_equal(ull__device_launch(device, ULL__LANE_HOST_COMPUTE, &launch), ULL_OK);
  while (atomic_load(&other.done) == 0) { /* the test hangs here where the thread is held up */
    sched_yield();
  }
  open_gate(&held);
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
}

static void a_waiting_lane_does_not_hold_up_its_thread(void **state) {
  (void)state;
  on_every_device(waiting_lane_on);
}

/* ---- failures ---- */

static ull_status fail_loudly(const ull__launch_frame *frame) {
  const uint32_t *bytes = frame->constants;
  ULL__FAIL(ULL_ERROR_NUMERIC, "kernel %u broke", *bytes);
  ull__error_holder("layer %u", *bytes);
  return ull__error_bytes(*bytes, 1);
}

static ull_status fail_silently(const ull__launch_frame *frame) {
  (void)frame;
  return ULL_ERROR_DEVICE;
}

static void failures_on(ull__device *device) {
  static const uint32_t first = 7, second = 8;
  static step later;
  later = (step){0};
  step *const later_pointer = &later;
  const ull__launch failing = {.entry = fail_loudly, .constants = &first};
  const ull__launch failing_too = {.entry = fail_loudly, .constants = &second};
  const ull__launch good = {.entry = take_step, .constants = &later_pointer};
  ull_error_clear();
  assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &failing), ULL_OK);
  assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &failing_too), ULL_OK);
  assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &good), ULL_OK);
  assert_int_equal(ull__device_synchronize(device), ULL_ERROR_NUMERIC);
  assert_string_equal(ull_error_last()->message, "kernel 7 broke");
  assert_string_equal(ull_error_last()->holder, "layer 7");
  assert_int_equal(ull_error_last()->wanted_bytes, 7);
  assert_true(later.done == 0);
  assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &good), ULL_OK);
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
  assert_true(later.done > 0);
  const ull__launch silent = {.entry = fail_silently, .tag = 41};
  assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &silent), ULL_OK);
  assert_int_equal(ull__device_synchronize(device), ULL_ERROR_DEVICE);
  assert_non_null(strstr(ull_error_last()->message, "41"));
  assert_int_equal(ull__device_failed_tag(device), 41);
}

static void the_first_failure_is_kept_and_later_work_dropped(void **state) {
  (void)state;
  on_every_device(failures_on);
}

static void waits_after_failure_on(ull__device *device) {
  static const uint32_t first = 7;
  const ull__launch failing = {.entry = fail_loudly, .constants = &first};
  ull__event_id event;
  assert_int_equal(ull__device_event_create(device, &event), ULL_OK);
  assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &failing), ULL_OK);
  assert_int_equal(ull__device_record(device, ULL__LANE_COMPUTE, event), ULL_OK);
  assert_int_equal(ull__device_wait(device, ULL__LANE_COPY_IN, event), ULL_OK);
  assert_int_equal(ull__device_synchronize(device), ULL_ERROR_NUMERIC);
}

static void a_failure_does_not_leave_lanes_waiting(void **state) {
  (void)state;
  on_every_device(waits_after_failure_on);
}

static void wrong_work_on(ull__device *device) {
  ull__slab_id slab;
  assert_int_equal(ull__device_allocate(device, ULL__TIER_HOST, 4096, &slab), ULL_OK);
  const ull__place beyond = {.slab = slab, .offset = 4000, .bytes = 97};
  const ull__place wrapped = {.slab = slab, .offset = UINT64_MAX, .bytes = 8};
  const ull__place nowhere = {.slab = 99, .bytes = 8};
  const ull__place good = {.slab = slab, .bytes = 97};
  const ull__place wrong[] = {beyond, wrapped, nowhere};
  for (int i = 0; i < 3; i++) {
    const ull__launch launch = {.entry = take_step, .places = &wrong[i], .place_count = 1};
    assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &launch), ULL_ERROR_INVALID);
    assert_int_equal(ull__device_poison(device, ULL__LANE_COMPUTE, wrong[i]), ULL_ERROR_INVALID);
  }
  assert_int_equal(ull__device_copy(device, ULL__LANE_COPY_IN, good, beyond), ULL_ERROR_INVALID);
  assert_int_equal(ull__device_copy(device, ULL__LANE_COPY_IN, beyond, good), ULL_ERROR_INVALID);
  const ull__launch empty = {.entry = NULL};
  assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &empty), ULL_ERROR_INVALID);
  const ull__launch full = {.entry = take_step, .place_count = ULL__MAX_OPERANDS + 1};
  assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &full), ULL_ERROR_INVALID);
  assert_int_equal(ull__device_record(device, ULL__LANE_COMPUTE, 12345), ULL_ERROR_INVALID);
  assert_int_equal(ull__device_record(device, ULL__LANE_COUNT, 0), ULL_ERROR_INVALID);
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
}

static void wrong_work_is_refused_by_the_call(void **state) {
  (void)state;
  on_every_device(wrong_work_on);
}

static void break_launch(ull__device *device, int n, const char *holder) {
  ull__slab_id slab;
  assert_int_equal(ull__device_allocate(device, ULL__TIER_HOST, 64, &slab), ULL_OK);
  const ull__place place = {.slab = slab, .bytes = 64};
  static unsigned char memory[64];
  static step taken;
  taken = (step){0};
  step *const pointer = &taken;
  const ull__launch launch = {.entry = take_step, .constants = &pointer, .tag = 9};
  bool is_copy = strstr(holder, "copy") != NULL;
  for (int i = 0; i < 10; i++) {
    if (is_copy) {
      assert_int_equal(ull__device_upload(device, ULL__LANE_COPY_IN, place, memory), ULL_OK);
    } else {
      assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &launch), ULL_OK);
    }
    assert_int_equal(ull__device_synchronize(device), i + 1 == n ? ULL_ERROR_DEVICE : ULL_OK);
  }
  assert_string_equal(ull_error_last()->holder, holder);
}

static void calls_fail_on_demand(void **state) {
  (void)state;
  static const char *const stages[] = {"launch", "copy"};
  for (int n = 1; n <= 10; n += 3) {
    for (int s = 0; s < 2; s++) {
      char fault[32], holder[64];
      snprintf(fault, sizeof fault, "%s:%d", stages[s], n);
      snprintf(holder, sizeof holder, "ULLAGE_FAULT=%s", fault);
      setenv("ULLAGE_FAULT", fault, 1);
      ull__device *device = open_device("cpu");
      unsetenv("ULLAGE_FAULT");
      break_launch(device, n, holder);
      ull__device_close(device);
    }
  }
  setenv("ULLAGE_FAULT", "allocate:2", 1);
  ull__device *device = open_device("cpu");
  unsetenv("ULLAGE_FAULT");
  ull__slab_id slab;
  assert_int_equal(ull__device_allocate(device, ULL__TIER_HOST, 64, &slab), ULL_OK);
  assert_int_equal(ull__device_allocate(device, ULL__TIER_HOST, 64, &slab),
                   ULL_ERROR_OUT_OF_MEMORY);
  assert_int_equal(ull__device_allocate(device, ULL__TIER_HOST, 64, &slab), ULL_OK);
  ull__device_close(device);
}

/* ---- capacity, allocation, closing ---- */

typedef struct producer {
  ull__device *device;
  const ull__launch *launch;
  uint32_t launches;
  atomic_uint put;
} producer;

static void *produce(void *argument) {
  producer *self = argument;
  for (uint32_t i = 0; i < self->launches; i++) {
    if (ull__device_launch(self->device, ULL__LANE_COMPUTE, self->launch) != ULL_OK) break;
    atomic_fetch_add(&self->put, 1);
  }
  return NULL;
}

static atomic_uint runs;

static ull_status count_run(const ull__launch_frame *frame) {
  (void)frame;
  atomic_fetch_add(&runs, 1);
  return ULL_OK;
}

static void full_queue_on(ull__device *device) {
  gate held = GATE_INITIALIZER;
  gate *pointer = &held;
  atomic_store(&runs, 0);
  hold_lane(device, ULL__LANE_COMPUTE, &pointer);
  await_arrival(&held);
  const ull__launch launch = {.entry = count_run};
  producer self = {.device = device, .launch = &launch, .launches = 3000};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, produce, &self), 0);
  uint32_t seen = 0;
  for (int quiet = 0; quiet < 100; quiet++) { /* until the producer stands still */
    const struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
    if (atomic_load(&self.put) != seen) quiet = 0;
    seen = atomic_load(&self.put);
  }
  assert_true(seen > 0 && seen < 3000);
  assert_int_equal(atomic_load(&runs), 0);
  open_gate(&held);
  pthread_join(thread, NULL);
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
  assert_int_equal(atomic_load(&runs), 3000);
}

static void a_full_queue_blocks_the_caller(void **state) {
  (void)state;
  on_every_device(full_queue_on);
}

static void no_allocation_on(ull__device *device) {
  ull__event_id event, done;
  ull__slab_id host, inner;
  assert_int_equal(ull__device_event_create(device, &event), ULL_OK);
  assert_int_equal(ull__device_event_create(device, &done), ULL_OK);
  assert_int_equal(ull__device_allocate(device, ULL__TIER_HOST, 4096, &host), ULL_OK);
  assert_int_equal(ull__device_allocate(device, ULL__TIER_DEVICE, 4096, &inner), ULL_OK);
  const ull__place from = {.slab = host, .bytes = 4096}, to = {.slab = inner, .bytes = 4096};
  const ull__launch launch = {.entry = count_run, .places = &to, .place_count = 1};
  uint64_t calls = ull__alloc_count().calls;
  for (int i = 0; i < 500; i++) {
    assert_int_equal(ull__device_wait(device, ULL__LANE_COPY_IN, done), ULL_OK);
    assert_int_equal(ull__device_copy(device, ULL__LANE_COPY_IN, to, from), ULL_OK);
    assert_int_equal(ull__device_record(device, ULL__LANE_COPY_IN, event), ULL_OK);
    assert_int_equal(ull__device_wait(device, ULL__LANE_COMPUTE, event), ULL_OK);
    assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &launch), ULL_OK);
    assert_int_equal(ull__device_poison(device, ULL__LANE_COMPUTE, to), ULL_OK);
    assert_int_equal(ull__device_record(device, ULL__LANE_COMPUTE, done), ULL_OK);
  }
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
  assert_int_equal(ull__alloc_count().calls, calls);
}

static void work_allocates_nothing(void **state) {
  (void)state;
  on_every_device(no_allocation_on);
}

static void closing_waits_for_work(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof device_texts / sizeof device_texts[0]; i++) {
    ull__device *device = open_device(device_texts[i]);
    const ull__launch launch = {.entry = count_run};
    ull__event_id event;
    assert_int_equal(ull__device_event_create(device, &event), ULL_OK);
    atomic_store(&runs, 0);
    for (int k = 0; k < 200; k++) {
      assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &launch), ULL_OK);
      assert_int_equal(ull__device_record(device, ULL__LANE_COMPUTE, event), ULL_OK);
      assert_int_equal(ull__device_wait(device, ULL__LANE_COPY_OUT, event), ULL_OK);
      assert_int_equal(ull__device_launch(device, ULL__LANE_COPY_OUT, &launch), ULL_OK);
    }
    ull__device_close(device);
    assert_int_equal(atomic_load(&runs), 400);
  }
  ull__device_close(NULL);
}

/* ---- the compute thread ---- */

static ull_status read_thread(void *argument) {
  pthread_t *thread = argument;
  *thread = pthread_self();
  return ULL_OK;
}

static ull_status read_launch_thread(const ull__launch_frame *frame) {
  return read_thread(*(pthread_t *const *)frame->constants);
}

static ull_status read_thread_name(void *argument) {
  return pthread_getname_np(pthread_self(), argument, 16) == 0 ? ULL_OK : ULL_ERROR_INTERNAL;
}

static ull_status refuse_call(void *argument) {
  return ULL__FAIL(ULL_ERROR_DATA, "call %d", *(int *)argument);
}

static void devices_share_one_compute_thread(void **state) {
  (void)state;
  ull__device *cpu = open_device("cpu"), *sim = open_device("sim:1MiB@8GB/s");
  pthread_t called[2], launched;
  pthread_t *const launched_pointer = &launched;
  char name[16];
  assert_int_equal(ull__device_run(cpu, read_thread, &called[0]), ULL_OK);
  assert_int_equal(ull__device_run(sim, read_thread, &called[1]), ULL_OK);
  const ull__launch launch = {.entry = read_launch_thread, .constants = &launched_pointer};
  assert_int_equal(ull__device_launch(sim, ULL__LANE_COMPUTE, &launch), ULL_OK);
  assert_int_equal(ull__device_synchronize(sim), ULL_OK);
  assert_true(pthread_equal(called[0], called[1]));
  assert_true(pthread_equal(called[0], launched));
  assert_false(pthread_equal(called[0], pthread_self()));
  assert_int_equal(ull__device_run(cpu, read_thread_name, name), ULL_OK);
  assert_string_equal(name, "ull-compute");
  int argument = 5;
  assert_int_equal(ull__device_run(cpu, refuse_call, &argument), ULL_ERROR_DATA);
  assert_string_equal(ull_error_last()->message, "call 5");
  ull__device_close(cpu);
  assert_int_equal(ull__device_run(sim, read_thread, &called[0]), ULL_OK);
  ull__device_close(sim);
}

static ull_status halve_smallest_number(void *argument) {
  volatile float smallest = 1.17549435e-38f;
  *(float *)argument = smallest * 0.5f;
  return ULL_OK;
}

static void denormals_are_flushed(void **state) {
  (void)state;
  ull__device *device = open_device("cpu");
  float half = 1;
  assert_int_equal(ull__device_run(device, halve_smallest_number, &half), ULL_OK);
  assert_true(half == 0.0f);
  ull__device_close(device);
}

static void the_team_has_one_size(void **state) {
  (void)state;
#if defined(ULL__OPENMP)
  ull__device *first = NULL, *second = NULL;
  const ull__device_options two = {.threads = 2}, three = {.threads = 3};
  assert_int_equal(ull__device_open("cpu", &two, &first), ULL_OK);
  assert_int_equal(ull__device_threads(first), 2);
  assert_int_equal(ull__device_open("cpu", &three, &second), ULL_ERROR_MISMATCH);
  assert_int_equal(ull__device_open("cpu", NULL, &second), ULL_OK);
  assert_int_equal(ull__device_threads(second), 2);
  ull__device_close(first);
  ull__device_close(second);
  assert_int_equal(ull__device_open("cpu", &three, &first), ULL_OK);
  assert_int_equal(ull__device_threads(first), 3);
  ull__device_close(first);
#else
  skip();
#endif
}

/* ---- recordings ---- */

typedef struct log {
  ull__activity items[64];
  atomic_uint count;
} log_of_activity;

static void note_activity(void *context, const ull__activity *activity) {
  log_of_activity *notes = context;
  notes->items[atomic_fetch_add(&notes->count, 1)] = *activity;
}

static void activity_on(ull__device *device) {
  log_of_activity notes = {0};
  ull__slab_id host, inner;
  assert_int_equal(ull__device_allocate(device, ULL__TIER_HOST, 4096, &host), ULL_OK);
  assert_int_equal(ull__device_allocate(device, ULL__TIER_DEVICE, 4096, &inner), ULL_OK);
  const ull__place from = {.slab = host, .bytes = 4096}, to = {.slab = inner, .bytes = 4096};
  ull__device_observe(device, note_activity, &notes);
  for (uint32_t i = 0; i < 5; i++) {
    const ull__launch launch = {.entry = count_run, .tag = 10 + i};
    assert_int_equal(ull__device_launch(device, ULL__LANE_COMPUTE, &launch), ULL_OK);
    assert_int_equal(ull__device_poison(device, ULL__LANE_COMPUTE, to), ULL_OK);
  }
  assert_int_equal(ull__device_synchronize(device), ULL_OK);
  assert_int_equal(ull__device_copy(device, ULL__LANE_COPY_IN, to, from), ULL_OK);
  ull__device_observe(device, NULL, NULL);
  assert_int_equal(notes.count, 6);
  for (uint32_t i = 0; i < 5; i++) {
    assert_int_equal(notes.items[i].lane, ULL__LANE_COMPUTE);
    assert_int_equal(notes.items[i].tag, 10 + i);
    assert_int_equal(notes.items[i].sequence, i);
    assert_false(notes.items[i].is_copy);
    assert_true(notes.items[i].begin_ns <= notes.items[i].end_ns);
    if (i > 0) assert_true(notes.items[i - 1].end_ns <= notes.items[i].begin_ns);
  }
  assert_int_equal(notes.items[5].lane, ULL__LANE_COPY_IN);
  assert_int_equal(notes.items[5].tag, UINT32_MAX);
  assert_true(notes.items[5].is_copy);
  assert_int_equal(notes.items[5].sequence, 0);
}

static void launches_and_copies_are_observed(void **state) {
  (void)state;
  on_every_device(activity_on);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_graphs_run_in_order),
      cmocka_unit_test(a_wait_captures_the_last_record),
      cmocka_unit_test(a_waiting_lane_does_not_hold_up_its_thread),
      cmocka_unit_test(the_first_failure_is_kept_and_later_work_dropped),
      cmocka_unit_test(a_failure_does_not_leave_lanes_waiting),
      cmocka_unit_test(wrong_work_is_refused_by_the_call),
      cmocka_unit_test(calls_fail_on_demand),
      cmocka_unit_test(a_full_queue_blocks_the_caller),
      cmocka_unit_test(work_allocates_nothing),
      cmocka_unit_test(closing_waits_for_work),
      cmocka_unit_test(devices_share_one_compute_thread),
      cmocka_unit_test(denormals_are_flushed),
      cmocka_unit_test(the_team_has_one_size),
      cmocka_unit_test(launches_and_copies_are_observed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
