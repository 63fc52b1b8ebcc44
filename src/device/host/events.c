/* Events of host devices: two counters each. Recording puts a numbered mark on a lane; waiting
 * captures the number of the last mark put so far, and is over when that mark has been reached. An
 * event that was never recorded holds nobody up.
 *
 * Waits that sit in a queue already are told the virtual time of their mark when it is reached,
 * since the event may be recorded again before the wait is taken. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"
#include "device/host/host.h"

static ull__host_device *host(ull__device *device) {
  return (ull__host_device *)device;
}

static size_t find_unused(const ull__host_device *device) {
  size_t index = 0;
  while (index < device->event_count && device->events[index].used) index++;
  return index;
}

ull_status ull__host_event_create(ull__device *base, ull__event_id *out) {
  ull__host_device *device = host(base);
  ull_status status = ULL_OK;
  ull__schedule_lock();
  size_t index = find_unused(device);
  if (index == device->event_count) {
    status = ull__vector_grow((void **)&device->events, &device->event_capacity,
                              device->event_count, 1, sizeof *device->events);
    if (status == ULL_OK) device->event_count++;
  }
  if (status == ULL_OK) {
    device->events[index] = (ull__event){.used = true};
    *out = (ull__event_id)index;
  }
  ull__schedule_unlock();
  return status;
}

void ull__host_event_destroy(ull__device *base, ull__event_id event) {
  ull__host_device *device = host(base);
  ull__schedule_lock();
  while (device->outstanding > 0) ull__await_progress(device);
  if (event < device->event_count) device->events[event].used = false;
  ull__schedule_unlock();
}

static ull_status put(ull__host_device *device, ull__lane lane, ull__event_id id,
                      ull__command_kind kind) {
  ull__schedule_lock();
  if (id >= device->event_count || !device->events[id].used) {
    ull__schedule_unlock();
    return ULL__FAIL(ULL_ERROR_INVALID, "event %u does not exist", id);
  }
  ull__lane_queue *queue = &device->queues[lane];
  ull__command *command = ull__queue_claim(queue);
  ull__event *event = &device->events[id];
  if (kind == ULL__COMMAND_RECORD) event->recorded++;
  *command = (ull__command){.kind = kind};
  command->event.id = id;
  command->event.target = event->recorded;
  command->event.time_ns = event->completed == event->recorded ? event->time_ns : 0;
  ull__queue_commit(queue);
  ull__schedule_unlock();
  return ULL_OK;
}

ull_status ull__host_record(ull__device *device, ull__lane lane, ull__event_id event) {
  return put(host(device), lane, event, ULL__COMMAND_RECORD);
}

ull_status ull__host_wait(ull__device *device, ull__lane lane, ull__event_id event) {
  return put(host(device), lane, event, ULL__COMMAND_WAIT);
}

bool ull__event_is_reached(const ull__host_device *device, const ull__command *wait) {
  return device->events[wait->event.id].completed >= wait->event.target;
}

static void tell_waits(ull__lane_queue *queue, const ull__command *record, uint64_t time_ns) {
  for (uint32_t i = 0; i < queue->count; i++) {
    ull__command *command = &queue->commands[(queue->head + i) % ULL__QUEUE_CAPACITY];
    if (command->kind == ULL__COMMAND_WAIT && command->event.id == record->event.id &&
        command->event.target == record->event.target) {
      command->event.time_ns = time_ns;
    }
  }
}

/* Two lanes may record one event, so marks can be reached out of order: the highest counts. */
void ull__event_complete(ull__lane_queue *queue, const ull__command *record) {
  ull__host_device *device = queue->device;
  ull__event *event = &device->events[record->event.id];
  if (device->has_virtual_clock) {
    for (int lane = 0; lane < ULL__LANE_COUNT; lane++) {
      tell_waits(&device->queues[lane], record, queue->virtual_ns);
    }
  }
  if (event->completed < record->event.target) {
    event->completed = record->event.target;
    event->time_ns = queue->virtual_ns;
  }
  ull__wake_workers(device);
}
