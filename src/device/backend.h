/* The table of functions behind a device: what device.c dispatches to. A new kind of device is a
 * folder with one such table and a row in device.c. */
#ifndef ULL_DEVICE_BACKEND_H
#define ULL_DEVICE_BACKEND_H

#include "device/device.h"

typedef struct ull__device_backend {
  const char *name; /* what a device's text is, or begins with before ':' */
  bool is_shared;
  /* `rest` is the text behind "NAME:", or NULL for a bare name. */
  ull_status (*open)(const char *rest, const ull__device_options *options, ull__device **out);
  void (*close)(ull__device *device);
  uint64_t (*capacity_bytes)(const ull__device *device);

  ull_status (*allocate)(ull__device *device, ull__tier tier, uint64_t bytes, ull__slab_id *out);
  void (*free)(ull__device *device, ull__slab_id slab);
  uint64_t (*allocated_bytes)(const ull__device *device, ull__tier tier);
  uint64_t (*peak_bytes)(const ull__device *device, ull__tier tier);
  void *(*host_pointer)(ull__device *device, ull__slab_id slab);
  ull_status (*write)(ull__device *device, ull__place to, const void *from);
  ull_status (*read)(ull__device *device, ull__place from, void *to);

  ull_status (*event_create)(ull__device *device, ull__event_id *out);
  void (*event_destroy)(ull__device *device, ull__event_id event);
  ull_status (*launch)(ull__device *device, ull__lane lane, const ull__launch *launch);
  ull_status (*copy)(ull__device *device, ull__lane lane, ull__place to, ull__place from);
  ull_status (*upload)(ull__device *device, ull__lane lane, ull__place to, const void *from);
  ull_status (*download)(ull__device *device, ull__lane lane, ull__place from, void *to);
  ull_status (*record)(ull__device *device, ull__lane lane, ull__event_id event);
  ull_status (*wait)(ull__device *device, ull__lane lane, ull__event_id event);
  ull_status (*poison)(ull__device *device, ull__lane lane, ull__place place);
  ull_status (*synchronize)(ull__device *device);
  uint32_t (*failed_tag)(const ull__device *device);
  ull_status (*run)(ull__device *device, ull_status (*function)(void *), void *argument);

  void (*observe)(ull__device *device, ull__activity_observer observer, void *context);
  ull_status (*set_costs)(ull__device *device, ull__launch_cost cost_ns, void *context);
  uint64_t (*virtual_time_ns)(ull__device *device, ull__lane lane);
} ull__device_backend;

/* First member of every device. */
struct ull__device {
  const ull__device_backend *backend;
  uint32_t threads;
};

extern const ull__device_backend ull__cpu_backend;
extern const ull__device_backend ull__sim_backend;

#endif
