/* Devices whose kernels run on this machine's processor: what cpu and sim share.
 *
 *     callers ──▶ a queue for each lane ──▶ workers: the compute thread, copy threads ──▶ events
 *
 * A queue is a ring of commands of fixed capacity, served in order by one worker. A worker serves
 * several queues, of several devices: it takes the first command of any of them that may start, and
 * sleeps where there is none. A wait is a command that may start once its event has been completed,
 * so a waiting lane never holds up the thread it shares. All queues, events and failures of the
 * process are guarded by one lock, which is never held while a command runs. */
#ifndef ULL_DEVICE_HOST_HOST_H
#define ULL_DEVICE_HOST_HOST_H

#include <pthread.h>

#include "device/backend.h"
#include "memory/slab.h"

#define ULL__QUEUE_CAPACITY 256u
#define ULL__SLAB_CAPACITY 256u
#define ULL__COPY_WORKERS 2u

typedef struct ull__host_device ull__host_device;
typedef struct ull__lane_queue ull__lane_queue;

typedef enum ull__command_kind {
  ULL__COMMAND_LAUNCH,
  ULL__COMMAND_COPY,
  ULL__COMMAND_UPLOAD,
  ULL__COMMAND_DOWNLOAD,
  ULL__COMMAND_POISON,
  ULL__COMMAND_RECORD,
  ULL__COMMAND_WAIT,
  ULL__COMMAND_RUN,
} ull__command_kind;

/* A function another thread waits for. Lives on the waiting thread's stack. */
typedef struct ull__call {
  ull_status (*function)(void *);
  void *argument;
  ull_status status;
  bool done;
  ull_error error;
} ull__call;

typedef struct ull__command {
  ull__command_kind kind;
  union {
    ull__launch launch;
    struct {
      ull__place to, from;
    } copy;
    struct {
      ull__place place;
      void *memory; /* of the caller; only read by an upload */
    } transfer;
    ull__place poison;
    struct {
      ull__event_id id;
      uint64_t target;  /* which recording of the event */
      uint64_t time_ns; /* virtual time of that recording, once known */
    } event;
    ull__call *call;
  };
} ull__command;

/* Counts its recordings: put on a lane, and reached by it. */
typedef struct ull__event {
  bool used;
  uint64_t recorded;
  uint64_t completed;
  uint64_t time_ns;
} ull__event;

/* Calls that can be made to fail; see faults.c. */
typedef enum ull__fault_stage {
  ULL__FAULT_LAUNCH,
  ULL__FAULT_COPY,
  ULL__FAULT_ALLOCATE,
  ULL__FAULT_COUNT
} ull__fault_stage;

/* A thread and the queues it serves. `begin` runs first on the thread. */
typedef struct ull__worker {
  pthread_t thread;
  pthread_cond_t wake;
  bool is_asleep;
  bool must_stop;
  ull__lane_queue *queues;
  void (*begin)(void *argument);
  void *begin_argument;
  char name[16];
} ull__worker;

struct ull__lane_queue {
  ull__host_device *device;
  ull__worker *worker;
  ull__lane_queue *next; /* of the same worker */
  ull__lane lane;
  uint32_t head;
  uint32_t count;
  bool has_blocked_caller;
  uint64_t sequence;
  uint64_t virtual_ns;
  ull__command commands[ULL__QUEUE_CAPACITY];
};

/* Where launches and copies find a slab. */
typedef struct ull__host_slab {
  bool used;
  ull__tier tier;
  uint64_t bytes;
  unsigned char *address;
  bool is_host_memory; /* the host may touch it */
  ull__slab mapping;   /* ordinary memory */
  void *window;        /* sim: the reservation that holds the private mapping */
  void *guard;         /* sim: the address given out, which faults */
} ull__host_slab;

struct ull__host_device {
  ull__device base;
  bool poison;

  /* memory */
  ull_status (*map)(ull__host_slab *slab);
  void (*unmap)(ull__host_slab *slab);
  uint64_t capacity_bytes;
  uint64_t allocated_bytes[ULL__TIER_COUNT];
  uint64_t peak_bytes[ULL__TIER_COUNT];
  ull__host_slab slabs[ULL__SLAB_CAPACITY];

  /* the link between host and device tier; a rate of 0 is no link */
  uint64_t link_bytes_per_second;
  uint64_t link_latency_ns;
  bool has_virtual_clock;
  ull__launch_cost cost_ns;
  void *cost_context;

  ull__activity_observer observer;
  void *observer_context;

  /* lanes and events, under the lock */
  ull__worker *compute;
  ull__worker copy_workers[ULL__COPY_WORKERS];
  uint32_t copy_worker_count;
  ull__lane_queue queues[ULL__LANE_COUNT];
  ull__event *events;
  size_t event_count;
  size_t event_capacity;
  uint64_t outstanding; /* commands put and not yet finished, over all queues */
  uint32_t waiting_callers;
  pthread_cond_t progress;
  bool has_failed;
  ull_error failure;
  uint32_t failed_tag;
  uint64_t fault_at[ULL__FAULT_COUNT];
  uint64_t calls_until_fault[ULL__FAULT_COUNT]; /* 0 = never; under the lock */
};

/* ---- host.c: creation and the calls of the backend table that do not depend on the memory ---- */

/* Fills `device` (zeroed, with base, map, unmap and the link set) and starts its threads. Compute
 * and host compute run on the compute thread, `copy_out_worker` serves copy out, disk and network,
 * worker 0 copy in. */
ull_status ull__host_create(ull__host_device *device, const ull__device_options *options,
                            uint32_t copy_worker_count);
/* Waits for all lanes, stops the threads, unmaps what is left and frees the device. */
void ull__host_close(ull__device *device);

/* The rows of a backend table that are the same for cpu and sim. */
#define ULL__HOST_BACKEND_ROWS                                                            \
  .close = ull__host_close, .capacity_bytes = ull__host_capacity_bytes,                   \
  .allocate = ull__host_allocate, .free = ull__host_free,                                 \
  .allocated_bytes = ull__host_allocated_bytes, .peak_bytes = ull__host_peak_bytes,       \
  .host_pointer = ull__host_pointer, .write = ull__host_write, .read = ull__host_read,    \
  .event_create = ull__host_event_create, .event_destroy = ull__host_event_destroy,       \
  .launch = ull__host_launch, .copy = ull__host_copy, .upload = ull__host_upload,         \
  .download = ull__host_download, .record = ull__host_record, .wait = ull__host_wait,     \
  .poison = ull__host_poison, .synchronize = ull__host_synchronize,                       \
  .failed_tag = ull__host_failed_tag, .run = ull__host_run, .observe = ull__host_observe, \
  .set_costs = ull__host_set_costs, .virtual_time_ns = ull__host_virtual_time_ns

ull_status ull__host_launch(ull__device *device, ull__lane lane, const ull__launch *launch);
ull_status ull__host_copy(ull__device *device, ull__lane lane, ull__place to, ull__place from);
ull_status ull__host_upload(ull__device *device, ull__lane lane, ull__place to, const void *from);
ull_status ull__host_download(ull__device *device, ull__lane lane, ull__place from, void *to);
ull_status ull__host_poison(ull__device *device, ull__lane lane, ull__place place);
ull_status ull__host_synchronize(ull__device *device);
uint32_t ull__host_failed_tag(const ull__device *device);
ull_status ull__host_run(ull__device *device, ull_status (*function)(void *), void *argument);
void ull__host_observe(ull__device *device, ull__activity_observer observer, void *context);
ull_status ull__host_set_costs(ull__device *device, ull__launch_cost cost_ns, void *context);
uint64_t ull__host_virtual_time_ns(ull__device *device, ull__lane lane);

/* ---- memory.c ---- */

uint64_t ull__host_capacity_bytes(const ull__device *device);
ull_status ull__host_allocate(ull__device *device, ull__tier tier, uint64_t bytes,
                              ull__slab_id *out);
void ull__host_free(ull__device *device, ull__slab_id slab);
uint64_t ull__host_allocated_bytes(const ull__device *device, ull__tier tier);
uint64_t ull__host_peak_bytes(const ull__device *device, ull__tier tier);
void *ull__host_pointer(ull__device *device, ull__slab_id slab);
ull_status ull__host_write(ull__device *device, ull__place to, const void *from);
ull_status ull__host_read(ull__device *device, ull__place from, void *to);

/* Ordinary memory for a slab: the host tier, and every tier of a cpu. */
ull_status ull__host_map_memory(ull__host_slab *slab);
void ull__host_unmap_memory(ull__host_slab *slab);

/* Whether a place lies inside a slab in use; places of 0 bytes always do. */
ull_status ull__host_check_place(const ull__host_device *device, ull__place place);
/* Address of a checked place; NULL for one of 0 bytes. */
void *ull__host_resolve(const ull__host_device *device, ull__place place);
void ull__host_unmap_all(ull__host_device *device);

/* ---- events.c ---- */

ull_status ull__host_event_create(ull__device *device, ull__event_id *out);
void ull__host_event_destroy(ull__device *device, ull__event_id event);
ull_status ull__host_record(ull__device *device, ull__lane lane, ull__event_id event);
ull_status ull__host_wait(ull__device *device, ull__lane lane, ull__event_id event);

/* Called by workers, with the lock held. */
bool ull__event_is_reached(const ull__host_device *device, const ull__command *wait);
void ull__event_complete(ull__lane_queue *queue, const ull__command *record);

/* ---- worker.c: the lock, queues and threads ---- */

void ull__schedule_lock(void);
void ull__schedule_unlock(void);

ull_status ull__worker_start(ull__worker *worker, const char *name, void (*begin)(void *),
                             void *begin_argument);
/* Its queues must be empty. */
void ull__worker_stop(ull__worker *worker);
/* Puts a queue under a worker, and takes it away once it is empty. */
void ull__worker_attach(ull__worker *worker, ull__lane_queue *queue);
void ull__worker_detach(ull__lane_queue *queue);

/* With the lock held: a free command at the end of the queue (blocking while it is full), to be
 * filled and committed before the lock is given back. */
ull__command *ull__queue_claim(ull__lane_queue *queue);
void ull__queue_commit(ull__lane_queue *queue);
/* With the lock held: lets every worker of the device look again. */
void ull__wake_workers(ull__host_device *device);
/* With the lock held: waits until something has finished. */
void ull__await_progress(ull__host_device *device);

/* ---- faults.c ---- */

void ull__faults_read(ull__host_device *device);
/* With the lock held: counts one call; true for the one that shall fail. */
bool ull__fault_is_due(ull__host_device *device, ull__fault_stage stage);
/* Fills the record; returns its status. */
ull_status ull__fault_fail(const ull__host_device *device, ull__fault_stage stage);

/* ---- execute.c ---- */

/* Runs a launch, copy, poison or call, on the worker's thread, without the lock. */
ull_status ull__execute(ull__lane_queue *queue, const ull__command *command, uint64_t *cost_ns);

/* ---- compute_team.c ---- */

/* The process' one compute thread, started by the first caller with a team of `threads` (0 = usable
 * cores, or what is there already). Refused with ULL_ERROR_MISMATCH where it runs with another
 * size. */
ull_status ull__compute_acquire(uint32_t threads, ull__worker **out, uint32_t *team_threads);
void ull__compute_release(void);
/* Whether the caller is the compute thread. */
bool ull__compute_is_current(void);

#endif
