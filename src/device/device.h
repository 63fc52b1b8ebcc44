/* The device interface: memory in tiers, lanes that run in order, events between lanes, and
 * launches.
 *
 * A device owns slabs (contiguous ranges in one tier) and lanes (queues served in order). Places in
 * memory are written {slab, offset}: addresses exist only inside a launch, where the device
 * resolves spans to pointers. Work is ordered by lanes and events alone. Nothing is allocated by
 * copy, launch, record or wait: queues have a fixed capacity and block the caller while they are
 * full.
 *
 * The device knows no graph: a launch is an entry point, a table of spans and constants built by
 * src/kernels.
 *
 * Thread safety: one thread at a time may call into a device, except where said. */
#ifndef ULL_DEVICE_DEVICE_H
#define ULL_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/tier.h"
#include "ullage/status.h"

typedef struct ull__device ull__device;
typedef uint32_t ull__slab_id;
typedef uint32_t ull__event_id;

/* Lanes every device has; a device may serve several by one queue. */
typedef enum ull__lane {
  ULL__LANE_COMPUTE,
  ULL__LANE_HOST_COMPUTE,
  ULL__LANE_COPY_IN,  /* towards the device */
  ULL__LANE_COPY_OUT, /* towards the host */
  ULL__LANE_DISK,
  ULL__LANE_NETWORK,
  ULL__LANE_COUNT
} ull__lane;

/* A place: `bytes` may be 0 for an absent operand, which resolves to NULL. */
typedef struct ull__place {
  ull__slab_id slab;
  uint32_t reserved;
  uint64_t offset;
  uint64_t bytes;
} ull__place;

/* What an entry sees while it runs, on the device's compute thread. `operands` are the resolved
 * places, in the order of the launch. Entries must not keep them. */
typedef struct ull__launch_frame {
  void *const *operands;
  uint32_t operand_count;
  const void *constants; /* as given with the launch */
} ull__launch_frame;

typedef ull_status (*ull__entry)(const ull__launch_frame *frame);

/* All borrowed until the launch has run. */
typedef struct ull__launch {
  ull__entry entry;
  const void *constants;
  const ull__place *places;
  uint32_t place_count;
  uint32_t tag; /* for recordings: the instruction's index */
} ull__launch;

#define ULL__MAX_OPERANDS 24

/* "cpu", "sim:512MiB@8GB/s". `threads` = size of the compute team, 0 = usable cores. The record
 * names the part of the text that is wrong. */
typedef struct ull__device_options {
  uint32_t threads;
  bool poison;        /* tests: see ull__device_poison */
  bool virtual_clock; /* sim: time by recorded costs instead of the wall */
} ull__device_options;

ull_status ull__device_open(const char *text, const ull__device_options *options,
                            ull__device **out);

/* Waits for all lanes, frees what is left. NULL is allowed. */
void ull__device_close(ull__device *device);

const char *ull__device_name(const ull__device *device); /* "cpu", "sim" */
uint32_t ull__device_threads(const ull__device *device);
/* Whether device and host tier are the same bytes, as on a cpu. */
bool ull__device_is_shared(const ull__device *device);
/* Capacity of the device tier where the device itself has one (sim); else UINT64_MAX. */
uint64_t ull__device_capacity_bytes(const ull__device *device);

/* ---- memory ---- */

/* Reserves and commits `bytes` in a tier; all pages are resident afterwards. Refused with
 * ULL_ERROR_OUT_OF_MEMORY. */
ull_status ull__device_allocate(ull__device *device, ull__tier tier, uint64_t bytes,
                                ull__slab_id *out);
void ull__device_free(ull__device *device, ull__slab_id slab);

/* Bytes now allocated in a tier, and the most that ever were. */
uint64_t ull__device_allocated_bytes(const ull__device *device, ull__tier tier);
uint64_t ull__device_peak_bytes(const ull__device *device, ull__tier tier);

/* Host address of a HOST-tier slab (on a cpu: of any slab); NULL for memory the host cannot touch.
 * Thread-safe. */
void *ull__device_host_pointer(ull__device *device, ull__slab_id slab);

/* Blocking transfers between a place and the caller's memory; wait for all lanes first. For weights
 * and results, not for steps. */
ull_status ull__device_write(ull__device *device, ull__place to, const void *from);
ull_status ull__device_read(ull__device *device, ull__place from, void *to);

/* ---- asynchronous work ---- */

ull_status ull__device_event_create(ull__device *device, ull__event_id *out);
void ull__device_event_destroy(ull__device *device, ull__event_id event);

ull_status ull__device_launch(ull__device *device, ull__lane lane, const ull__launch *launch);
ull_status ull__device_copy(ull__device *device, ull__lane lane, ull__place to, ull__place from);
/* Copies between a place and memory of the caller, in lane order; that memory is borrowed until the
 * copy has run. For the inputs of a step and its results. */
ull_status ull__device_upload(ull__device *device, ull__lane lane, ull__place to, const void *from);
ull_status ull__device_download(ull__device *device, ull__lane lane, ull__place from, void *to);
/* The event completes when all work put on `lane` before has; a lane that waits starts nothing
 * further until then. */
ull_status ull__device_record(ull__device *device, ull__lane lane, ull__event_id event);
ull_status ull__device_wait(ull__device *device, ull__lane lane, ull__event_id event);

/* Fills a place with NaN bytes (0xFF), in lane order: poison at the birth and death of a range. */
ull_status ull__device_poison(ull__device *device, ull__lane lane, ull__place place);

/* Blocks until all lanes are empty. The first failure of any launch since the last call is
 * returned, with its record; after a failure lanes drop their work until then. */
ull_status ull__device_synchronize(ull__device *device);
/* Tag of the launch whose failure the last failing synchronize returned; UINT32_MAX for others. */
uint32_t ull__device_failed_tag(const ull__device *device);

/* What one launch or copy took. `sequence` counts the launches and copies put on its lane since the
 * device was opened, from 0; copies of any kind have tag UINT32_MAX. Times are of
 * ull__clock_now_ns, or of the lane's virtual clock where the device has one. */
typedef struct ull__activity {
  ull__lane lane;
  uint32_t tag;
  bool is_copy;
  uint64_t sequence;
  uint64_t begin_ns;
  uint64_t end_ns;
} ull__activity;

/* Called on a device thread, one at a time for each lane, after each launch and copy that was done;
 * must not call the device. */
typedef void (*ull__activity_observer)(void *context, const ull__activity *activity);

/* NULL switches it off. Waits for all lanes. `context` is borrowed until the next call or close. */
void ull__device_observe(ull__device *device, ull__activity_observer observer, void *context);

/* Virtual clock: what a launch costs on its lane. Without one launches cost nothing. Called on
 * device threads. Refused with ULL_ERROR_UNSUPPORTED where the device was opened without
 * `virtual_clock`. */
typedef uint64_t (*ull__launch_cost)(void *context, ull__lane lane, uint32_t tag);
ull_status ull__device_set_costs(ull__device *device, ull__launch_cost cost_ns, void *context);

/* Time the lane has reached on the virtual clock, 0 at opening and on other devices; wait for the
 * lanes first. */
uint64_t ull__device_virtual_time_ns(ull__device *device, ull__lane lane);

/* Runs `function(argument)` on the compute thread and waits: for library calls that must meet the
 * one OpenMP team (creating primitives, measuring rates). */
ull_status ull__device_run(ull__device *device, ull_status (*function)(void *), void *argument);

#endif
