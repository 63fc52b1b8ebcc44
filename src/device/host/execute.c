/* What a worker does for a launch, a copy and a poison: the only places where {slab, offset}
 * becomes an address.
 *
 * A copy that crosses the link between host and device tier takes the time the link would: the
 * bytes are moved at once and the thread sleeps until the link would be done. Under a virtual clock
 * nobody sleeps and the time is added to the lane's. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "device/host/host.h"

static ull_status execute_launch(const ull__lane_queue *queue, const ull__launch *launch,
                                 uint64_t *cost_ns) {
  const ull__host_device *device = queue->device;
  void *operands[ULL__MAX_OPERANDS];
  for (uint32_t i = 0; i < launch->place_count; i++) {
    operands[i] = ull__host_resolve(device, launch->places[i]);
  }
  const ull__launch_frame frame = {
      .operands = operands,
      .operand_count = launch->place_count,
      .constants = launch->constants,
  };
  ull_error_clear();
  if (device->cost_ns != NULL) {
    *cost_ns = device->cost_ns(device->cost_context, queue->lane, launch->tag);
  }
  return launch->entry(&frame);
}

static uint64_t link_ns(const ull__host_device *device, uint64_t bytes) {
  unsigned __int128 rate = device->link_bytes_per_second;
  unsigned __int128 time_ns = ((unsigned __int128)bytes * 1000000000u + rate - 1) / rate;
  return device->link_latency_ns + (uint64_t)time_ns;
}

static void sleep_until(uint64_t time_ns) {
  const struct timespec until = {
      .tv_sec = (time_t)(time_ns / 1000000000u),
      .tv_nsec = (long)(time_ns % 1000000000u),
  };
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}

/* Moves bytes that cross the link where `crosses` says so. */
static void move(const ull__host_device *device, void *to, const void *from, uint64_t bytes,
                 bool crosses, uint64_t *cost_ns) {
  bool is_paced = crosses && device->link_bytes_per_second > 0;
  uint64_t begin_ns = is_paced && !device->has_virtual_clock ? ull__clock_now_ns() : 0;
  memmove(to, from, bytes);
  if (!is_paced) return;
  if (device->has_virtual_clock) {
    *cost_ns = link_ns(device, bytes);
  } else {
    sleep_until(begin_ns + link_ns(device, bytes));
  }
}

static void execute_copy(const ull__host_device *device, ull__place to, ull__place from,
                         uint64_t *cost_ns) {
  if (to.bytes == 0) return;
  bool crosses = device->slabs[to.slab].tier != device->slabs[from.slab].tier;
  move(device, ull__host_resolve(device, to), ull__host_resolve(device, from), to.bytes, crosses,
       cost_ns);
}

static void execute_transfer(const ull__host_device *device, const ull__command *command,
                             uint64_t *cost_ns) {
  ull__place place = command->transfer.place;
  if (place.bytes == 0) return;
  void *address = ull__host_resolve(device, place), *memory = command->transfer.memory;
  bool is_upload = command->kind == ULL__COMMAND_UPLOAD;
  move(device, is_upload ? address : memory, is_upload ? memory : address, place.bytes,
       device->slabs[place.slab].tier == ULL__TIER_DEVICE, cost_ns);
}

ull_status ull__execute(ull__lane_queue *queue, const ull__command *command, uint64_t *cost_ns) {
  const ull__host_device *device = queue->device;
  switch (command->kind) {
  case ULL__COMMAND_LAUNCH:
    return execute_launch(queue, &command->launch, cost_ns);
  case ULL__COMMAND_COPY:
    execute_copy(device, command->copy.to, command->copy.from, cost_ns);
    return ULL_OK;
  case ULL__COMMAND_UPLOAD:
  case ULL__COMMAND_DOWNLOAD:
    execute_transfer(device, command, cost_ns);
    return ULL_OK;
  case ULL__COMMAND_POISON:
    if (command->poison.bytes > 0) {
      memset(ull__host_resolve(device, command->poison), 0xFF, command->poison.bytes);
    }
    return ULL_OK;
  default:
    return ULL__FAIL(ULL_ERROR_INTERNAL, "command %d has no work", (int)command->kind);
  }
}
