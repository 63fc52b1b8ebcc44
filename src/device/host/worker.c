/* The lock, queues and threads of host devices.
 *
 * Invariants, all under the lock: the command at a queue's head stays there while it runs, so an
 * empty queue is an idle lane; only the queue's worker removes commands; a worker that finds
 * nothing to start is asleep on its own condition and is woken by every commit and every completed
 * event that could concern it. Callers sleep on their device's condition. */
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/error.h"
#include "device/host/host.h"

static pthread_mutex_t schedule_mutex = PTHREAD_MUTEX_INITIALIZER;

void ull__schedule_lock(void) {
  pthread_mutex_lock(&schedule_mutex);
}

void ull__schedule_unlock(void) {
  pthread_mutex_unlock(&schedule_mutex);
}

/* ---- callers ---- */

static void wake_worker(ull__worker *worker) {
  if (worker->is_asleep) pthread_cond_signal(&worker->wake);
}

void ull__wake_workers(ull__host_device *device) {
  wake_worker(device->compute);
  for (uint32_t i = 0; i < device->copy_worker_count; i++) wake_worker(&device->copy_workers[i]);
}

void ull__await_progress(ull__host_device *device) {
  device->waiting_callers++;
  pthread_cond_wait(&device->progress, &schedule_mutex);
  device->waiting_callers--;
}

static void wake_callers(ull__host_device *device) {
  if (device->waiting_callers > 0) pthread_cond_broadcast(&device->progress);
}

ull__command *ull__queue_claim(ull__lane_queue *queue) {
  while (queue->count == ULL__QUEUE_CAPACITY) {
    queue->has_blocked_caller = true;
    ull__await_progress(queue->device);
  }
  return &queue->commands[(queue->head + queue->count) % ULL__QUEUE_CAPACITY];
}

void ull__queue_commit(ull__lane_queue *queue) {
  queue->count++;
  queue->device->outstanding++;
  wake_worker(queue->worker);
}

/* ---- workers ---- */

static bool may_start(const ull__lane_queue *queue) {
  if (queue->count == 0) return false;
  const ull__command *command = &queue->commands[queue->head];
  return command->kind != ULL__COMMAND_WAIT || ull__event_is_reached(queue->device, command);
}

static ull__lane_queue *find_ready(const ull__worker *worker) {
  for (ull__lane_queue *queue = worker->queues; queue != NULL; queue = queue->next) {
    if (may_start(queue)) return queue;
  }
  return NULL;
}

/* Moves a queue behind the others of its worker, so that none starves. */
static void rotate(ull__worker *worker, ull__lane_queue *queue) {
  if (queue->next == NULL) return;
  ull__lane_queue **link = &worker->queues;
  while (*link != queue) link = &(*link)->next;
  *link = queue->next;
  queue->next = NULL;
  while (*link != NULL) link = &(*link)->next;
  *link = queue;
}

/* A blocked caller is woken when half the ring is free, not for every place. */
static void remove_head(ull__lane_queue *queue) {
  ull__host_device *device = queue->device;
  queue->head = (queue->head + 1) % ULL__QUEUE_CAPACITY;
  queue->count--;
  device->outstanding--;
  bool has_room = queue->has_blocked_caller && queue->count <= ULL__QUEUE_CAPACITY / 2;
  if (has_room) queue->has_blocked_caller = false;
  if (has_room || device->outstanding == 0) wake_callers(device);
}

static uint32_t tag_of(const ull__command *command) {
  return command->kind == ULL__COMMAND_LAUNCH ? command->launch.tag : UINT32_MAX;
}

static void keep_failure(ull__host_device *device, const ull__command *command, ull_status status) {
  if (device->has_failed) return;
  device->has_failed = true;
  device->failure = *ull_error_last();
  device->failed_tag = tag_of(command);
  if (device->failure.status == status) return;
  ull__fail(status, "launch %u failed without saying why", device->failed_tag);
  device->failure = *ull_error_last();
}

static void observe(ull__lane_queue *queue, const ull__command *command, uint64_t begin_ns,
                    uint64_t end_ns) {
  const ull__host_device *device = queue->device;
  const ull__activity activity = {
      .lane = queue->lane,
      .tag = tag_of(command),
      .is_copy = command->kind != ULL__COMMAND_LAUNCH,
      .sequence = queue->sequence,
      .begin_ns = begin_ns,
      .end_ns = end_ns,
  };
  device->observer(device->observer_context, &activity);
}

/* Launches and copies of any kind come first in the enumeration. */
static bool is_activity(const ull__command *command) {
  return command->kind <= ULL__COMMAND_DOWNLOAD;
}

/* With the lock held. */
static bool must_fail(ull__host_device *device, const ull__command *command) {
  if (!is_activity(command)) return false;
  bool is_launch = command->kind == ULL__COMMAND_LAUNCH;
  return ull__fault_is_due(device, is_launch ? ULL__FAULT_LAUNCH : ULL__FAULT_COPY);
}

static ull_status fail(const ull__host_device *device, const ull__command *command) {
  bool is_launch = command->kind == ULL__COMMAND_LAUNCH;
  return ull__fault_fail(device, is_launch ? ULL__FAULT_LAUNCH : ULL__FAULT_COPY);
}

/* Launches, copies, poison: dropped after a failure. Entered and left with the lock held. */
static void run_work(ull__lane_queue *queue, const ull__command *command) {
  ull__host_device *device = queue->device;
  bool is_observed = is_activity(command) && device->observer != NULL;
  if (!device->has_failed) {
    uint64_t cost_ns = 0, begin_ns = queue->virtual_ns;
    bool must_break = must_fail(device, command);
    ull__schedule_unlock();
    if (is_observed && !device->has_virtual_clock) begin_ns = ull__clock_now_ns();
    ull_status status = must_break ? fail(device, command) : ull__execute(queue, command, &cost_ns);
    uint64_t end_ns = begin_ns + cost_ns;
    if (is_observed && !device->has_virtual_clock) end_ns = ull__clock_now_ns();
    if (is_observed && status == ULL_OK) observe(queue, command, begin_ns, end_ns);
    ull__schedule_lock();
    queue->virtual_ns += cost_ns;
    if (status != ULL_OK) keep_failure(device, command, status);
  }
  if (is_activity(command)) queue->sequence++;
}

/* Calls are done whatever happened before: their callers wait for them. */
static void run_call(ull__lane_queue *queue, ull__call *call) {
  ull__schedule_unlock();
  call->status = call->function(call->argument);
  if (call->status != ULL_OK) call->error = *ull_error_last();
  ull__schedule_lock();
  call->done = true;
  wake_callers(queue->device);
}

static void run_head(ull__lane_queue *queue) {
  const ull__command *command = &queue->commands[queue->head];
  switch (command->kind) {
  case ULL__COMMAND_WAIT:
    if (queue->virtual_ns < command->event.time_ns) queue->virtual_ns = command->event.time_ns;
    break;
  case ULL__COMMAND_RECORD:
    ull__event_complete(queue, command);
    break;
  case ULL__COMMAND_RUN:
    run_call(queue, command->call);
    break;
  default:
    run_work(queue, command);
    break;
  }
  remove_head(queue);
}

static void *serve(void *argument) {
  ull__worker *worker = argument;
  prctl(PR_SET_NAME, worker->name);
  if (worker->begin != NULL) worker->begin(worker->begin_argument);
  ull__schedule_lock();
  for (;;) {
    ull__lane_queue *queue = find_ready(worker);
    if (queue != NULL) {
      rotate(worker, queue);
      run_head(queue);
    } else if (worker->must_stop) {
      break;
    } else {
      worker->is_asleep = true;
      pthread_cond_wait(&worker->wake, &schedule_mutex);
      worker->is_asleep = false;
    }
  }
  ull__schedule_unlock();
  return NULL;
}

ull_status ull__worker_start(ull__worker *worker, const char *name, void (*begin)(void *),
                             void *begin_argument) {
  *worker = (ull__worker){.begin = begin, .begin_argument = begin_argument};
  strncpy(worker->name, name, sizeof worker->name - 1);
  pthread_cond_init(&worker->wake, NULL);
  int code = pthread_create(&worker->thread, NULL, serve, worker);
  if (code == 0) return ULL_OK;
  pthread_cond_destroy(&worker->wake);
  return ULL__FAIL(ULL_ERROR_DEVICE, "cannot start the thread %s: %s", name, strerror(code));
}

void ull__worker_stop(ull__worker *worker) {
  ull__schedule_lock();
  worker->must_stop = true;
  wake_worker(worker);
  ull__schedule_unlock();
  pthread_join(worker->thread, NULL);
  pthread_cond_destroy(&worker->wake);
}

void ull__worker_attach(ull__worker *worker, ull__lane_queue *queue) {
  ull__schedule_lock();
  queue->worker = worker;
  queue->next = worker->queues;
  worker->queues = queue;
  ull__schedule_unlock();
}

void ull__worker_detach(ull__lane_queue *queue) {
  ull__schedule_lock();
  ull__lane_queue **link = &queue->worker->queues;
  while (*link != queue) link = &(*link)->next;
  *link = queue->next;
  ull__schedule_unlock();
}
