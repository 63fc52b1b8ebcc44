/* Creating and closing host devices, and putting work on their lanes. Places are checked here, on
 * the caller's thread, so that a worker never meets a wrong one. */
#include "device/host/host.h"

#include "base/alloc.h"
#include "base/error.h"

static ull__host_device *host(ull__device *device) {
  return (ull__host_device *)device;
}

/* ---- life ---- */

static ull__worker *worker_of(ull__host_device *device, ull__lane lane) {
  switch (lane) {
  case ULL__LANE_COMPUTE:
  case ULL__LANE_HOST_COMPUTE:
    return device->compute;
  case ULL__LANE_COPY_IN:
    return &device->copy_workers[0];
  default:
    return &device->copy_workers[device->copy_worker_count - 1];
  }
}

static ull_status start_copy_workers(ull__host_device *device, uint32_t count) {
  static const char *const names[ULL__COPY_WORKERS] = {"ull-copy", "ull-copy-out"};
  for (uint32_t i = 0; i < count; i++) {
    ULL__TRY(ull__worker_start(&device->copy_workers[i], names[i], NULL, NULL));
    device->copy_worker_count++;
  }
  return ULL_OK;
}

static void stop_copy_workers(ull__host_device *device) {
  for (uint32_t i = 0; i < device->copy_worker_count; i++) {
    ull__worker_stop(&device->copy_workers[i]);
  }
}

ull_status ull__host_create(ull__host_device *device, const ull__device_options *options,
                            uint32_t copy_worker_count) {
  device->poison = options->poison;
  ull__faults_read(device);
  ULL__TRY(ull__compute_acquire(options->threads, &device->compute, &device->base.threads));
  ull_status status = start_copy_workers(device, copy_worker_count);
  if (status != ULL_OK) {
    stop_copy_workers(device);
    ull__compute_release();
    return status;
  }
  pthread_cond_init(&device->progress, NULL);
  for (int lane = 0; lane < ULL__LANE_COUNT; lane++) {
    ull__lane_queue *queue = &device->queues[lane];
    queue->device = device;
    queue->lane = (ull__lane)lane;
    ull__worker_attach(worker_of(device, (ull__lane)lane), queue);
  }
  return ULL_OK;
}

static void drain(ull__host_device *device) {
  ull__schedule_lock();
  while (device->outstanding > 0) ull__await_progress(device);
  ull__schedule_unlock();
}

void ull__host_close(ull__device *base) {
  ull__host_device *device = host(base);
  drain(device);
  for (int lane = 0; lane < ULL__LANE_COUNT; lane++) ull__worker_detach(&device->queues[lane]);
  stop_copy_workers(device);
  ull__compute_release();
  ull__host_unmap_all(device);
  pthread_cond_destroy(&device->progress);
  ull__free(device->events);
  ull__free(device);
}

/* ---- work ---- */

static void put(ull__lane_queue *queue, const ull__command *command) {
  ull__schedule_lock();
  *ull__queue_claim(queue) = *command;
  ull__queue_commit(queue);
  ull__schedule_unlock();
}

ull_status ull__host_launch(ull__device *base, ull__lane lane, const ull__launch *launch) {
  ull__host_device *device = host(base);
  for (uint32_t i = 0; i < launch->place_count; i++) {
    if (ull__host_check_place(device, launch->places[i]) != ULL_OK) {
      return ull__error_context("launch %u, operand %u", launch->tag, i);
    }
  }
  const ull__command command = {.kind = ULL__COMMAND_LAUNCH, .launch = *launch};
  put(&device->queues[lane], &command);
  return ULL_OK;
}

ull_status ull__host_copy(ull__device *base, ull__lane lane, ull__place to, ull__place from) {
  ull__host_device *device = host(base);
  ULL__TRY(ull__host_check_place(device, to));
  ULL__TRY(ull__host_check_place(device, from));
  const ull__command command = {.kind = ULL__COMMAND_COPY, .copy = {.to = to, .from = from}};
  put(&device->queues[lane], &command);
  return ULL_OK;
}

static ull_status put_transfer(ull__device *base, ull__lane lane, ull__command_kind kind,
                               ull__place place, void *memory) {
  ull__host_device *device = host(base);
  ULL__TRY(ull__host_check_place(device, place));
  const ull__command command = {.kind = kind, .transfer = {.place = place, .memory = memory}};
  put(&device->queues[lane], &command);
  return ULL_OK;
}

ull_status ull__host_upload(ull__device *device, ull__lane lane, ull__place to, const void *from) {
  return put_transfer(device, lane, ULL__COMMAND_UPLOAD, to, (void *)from);
}

ull_status ull__host_download(ull__device *device, ull__lane lane, ull__place from, void *to) {
  return put_transfer(device, lane, ULL__COMMAND_DOWNLOAD, from, to);
}

ull_status ull__host_poison(ull__device *base, ull__lane lane, ull__place place) {
  ull__host_device *device = host(base);
  ULL__TRY(ull__host_check_place(device, place));
  const ull__command command = {.kind = ULL__COMMAND_POISON, .poison = place};
  put(&device->queues[lane], &command);
  return ULL_OK;
}

ull_status ull__host_synchronize(ull__device *base) {
  ull__host_device *device = host(base);
  ull_error failure = {.status = ULL_OK};
  ull__schedule_lock();
  while (device->outstanding > 0) ull__await_progress(device);
  if (device->has_failed) failure = device->failure;
  device->has_failed = false;
  ull__schedule_unlock();
  return failure.status == ULL_OK ? ULL_OK : ull__error_restore(&failure);
}

uint32_t ull__host_failed_tag(const ull__device *device) {
  return ((const ull__host_device *)device)->failed_tag;
}

ull_status ull__host_run(ull__device *base, ull_status (*function)(void *), void *argument) {
  ull__host_device *device = host(base);
  if (ull__compute_is_current()) return function(argument);
  ull__call call = {.function = function, .argument = argument};
  const ull__command command = {.kind = ULL__COMMAND_RUN, .call = &call};
  ull__schedule_lock();
  *ull__queue_claim(&device->queues[ULL__LANE_COMPUTE]) = command;
  ull__queue_commit(&device->queues[ULL__LANE_COMPUTE]);
  while (!call.done) ull__await_progress(device);
  ull__schedule_unlock();
  return call.status == ULL_OK ? ULL_OK : ull__error_restore(&call.error);
}

/* ---- recordings and the virtual clock ---- */

void ull__host_observe(ull__device *base, ull__activity_observer observer, void *context) {
  ull__host_device *device = host(base);
  drain(device);
  device->observer = observer;
  device->observer_context = context;
}

ull_status ull__host_set_costs(ull__device *base, ull__launch_cost cost_ns, void *context) {
  ull__host_device *device = host(base);
  if (!device->has_virtual_clock) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "the device %s was opened without a virtual clock",
                     base->backend->name);
  }
  drain(device);
  device->cost_ns = cost_ns;
  device->cost_context = context;
  return ULL_OK;
}

uint64_t ull__host_virtual_time_ns(ull__device *base, ull__lane lane) {
  ull__host_device *device = host(base);
  ull__schedule_lock();
  uint64_t time_ns = device->queues[lane].virtual_ns;
  ull__schedule_unlock();
  return time_ns;
}
