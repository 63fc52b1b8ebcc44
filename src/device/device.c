/* Dispatch: finds the backend a text names, checks what is common to all of them, and passes calls
 * on through its table. */
#include "device/device.h"

#include <string.h>

#include "base/error.h"
#include "device/backend.h"

static const ull__device_backend *const backends[] = {&ull__cpu_backend, &ull__sim_backend};

#define BACKEND_COUNT (sizeof backends / sizeof backends[0])

static const ull__device_backend *find_backend(const char *text, size_t name_length) {
  for (size_t i = 0; i < BACKEND_COUNT; i++) {
    const char *name = backends[i]->name;
    if (strlen(name) == name_length && memcmp(name, text, name_length) == 0) return backends[i];
  }
  return NULL;
}

ull_status ull__device_open(const char *text, const ull__device_options *options,
                            ull__device **out) {
  if (text == NULL || out == NULL) return ULL__FAIL(ULL_ERROR_INVALID, "no device text");
  const ull__device_options standard = {0};
  size_t name_length = strcspn(text, ":");
  const ull__device_backend *backend = find_backend(text, name_length);
  if (backend == NULL) {
    ULL__FAIL(ULL_ERROR_USAGE, "unknown device '%.*s'", (int)(name_length < 64 ? name_length : 64),
              text);
    return ull__error_change("use cpu or sim:SIZE@RATE");
  }
  const char *rest = text[name_length] == ':' ? text + name_length + 1 : NULL;
  return backend->open(rest, options != NULL ? options : &standard, out);
}

void ull__device_close(ull__device *device) {
  if (device != NULL) device->backend->close(device);
}

const char *ull__device_name(const ull__device *device) {
  return device->backend->name;
}

uint32_t ull__device_threads(const ull__device *device) {
  return device->threads;
}

bool ull__device_is_shared(const ull__device *device) {
  return device->backend->is_shared;
}

uint64_t ull__device_capacity_bytes(const ull__device *device) {
  return device->backend->capacity_bytes(device);
}

/* ---- memory ---- */

ull_status ull__device_allocate(ull__device *device, ull__tier tier, uint64_t bytes,
                                ull__slab_id *out) {
  if ((unsigned)tier >= ULL__TIER_COUNT) {
    return ULL__FAIL(ULL_ERROR_INVALID, "tier %d does not exist", (int)tier);
  }
  if (bytes == 0) return ULL__FAIL(ULL_ERROR_INVALID, "a slab of 0 bytes");
  return device->backend->allocate(device, tier, bytes, out);
}

void ull__device_free(ull__device *device, ull__slab_id slab) {
  device->backend->free(device, slab);
}

uint64_t ull__device_allocated_bytes(const ull__device *device, ull__tier tier) {
  return device->backend->allocated_bytes(device, tier);
}

uint64_t ull__device_peak_bytes(const ull__device *device, ull__tier tier) {
  return device->backend->peak_bytes(device, tier);
}

void *ull__device_host_pointer(ull__device *device, ull__slab_id slab) {
  return device->backend->host_pointer(device, slab);
}

ull_status ull__device_write(ull__device *device, ull__place to, const void *from) {
  return device->backend->write(device, to, from);
}

ull_status ull__device_read(ull__device *device, ull__place from, void *to) {
  return device->backend->read(device, from, to);
}

/* ---- asynchronous work ---- */

static ull_status check_lane(ull__lane lane) {
  if ((unsigned)lane < ULL__LANE_COUNT) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID, "lane %d does not exist", (int)lane);
}

ull_status ull__device_event_create(ull__device *device, ull__event_id *out) {
  return device->backend->event_create(device, out);
}

void ull__device_event_destroy(ull__device *device, ull__event_id event) {
  device->backend->event_destroy(device, event);
}

ull_status ull__device_launch(ull__device *device, ull__lane lane, const ull__launch *launch) {
  ULL__TRY(check_lane(lane));
  if (launch->entry == NULL) {
    return ULL__FAIL(ULL_ERROR_INVALID, "launch %u has no entry", launch->tag);
  }
  if (launch->place_count > ULL__MAX_OPERANDS) {
    return ULL__FAIL(ULL_ERROR_INVALID, "launch %u has %u operands, more than %d", launch->tag,
                     launch->place_count, ULL__MAX_OPERANDS);
  }
  return device->backend->launch(device, lane, launch);
}

ull_status ull__device_copy(ull__device *device, ull__lane lane, ull__place to, ull__place from) {
  ULL__TRY(check_lane(lane));
  if (to.bytes != from.bytes) {
    return ULL__FAIL(ULL_ERROR_INVALID, "a copy of %llu bytes into %llu bytes",
                     (unsigned long long)from.bytes, (unsigned long long)to.bytes);
  }
  return device->backend->copy(device, lane, to, from);
}

ull_status ull__device_upload(ull__device *device, ull__lane lane, ull__place to,
                              const void *from) {
  ULL__TRY(check_lane(lane));
  return device->backend->upload(device, lane, to, from);
}

ull_status ull__device_download(ull__device *device, ull__lane lane, ull__place from, void *to) {
  ULL__TRY(check_lane(lane));
  return device->backend->download(device, lane, from, to);
}

ull_status ull__device_record(ull__device *device, ull__lane lane, ull__event_id event) {
  ULL__TRY(check_lane(lane));
  return device->backend->record(device, lane, event);
}

ull_status ull__device_wait(ull__device *device, ull__lane lane, ull__event_id event) {
  ULL__TRY(check_lane(lane));
  return device->backend->wait(device, lane, event);
}

ull_status ull__device_poison(ull__device *device, ull__lane lane, ull__place place) {
  ULL__TRY(check_lane(lane));
  return device->backend->poison(device, lane, place);
}

ull_status ull__device_synchronize(ull__device *device) {
  return device->backend->synchronize(device);
}

uint32_t ull__device_failed_tag(const ull__device *device) {
  return device->backend->failed_tag(device);
}

ull_status ull__device_run(ull__device *device, ull_status (*function)(void *), void *argument) {
  return device->backend->run(device, function, argument);
}

void ull__device_observe(ull__device *device, ull__activity_observer observer, void *context) {
  device->backend->observe(device, observer, context);
}

ull_status ull__device_set_costs(ull__device *device, ull__launch_cost cost_ns, void *context) {
  return device->backend->set_costs(device, cost_ns, context);
}

uint64_t ull__device_virtual_time_ns(ull__device *device, ull__lane lane) {
  if ((unsigned)lane >= ULL__LANE_COUNT) return 0;
  return device->backend->virtual_time_ns(device, lane);
}
