/* The parts of a loader, shared by its files: layout and fit (what lies where, within a budget),
 * worker (threads and their claims), fill (which sample, what replaces it), sample and picture (its
 * arrays), finish (a whole batch), position, report, loader (the public functions).
 *
 * A loader is one block of memory: itself, slots, bindings, workers, scratch, region for large
 * pictures, batch data. Every field that two threads touch is guarded by `mutex`, except the
 * content of a slot, which belongs to the threads between claim and completion and to the caller
 * while it is lent. Batches are counted by `sequence` from where the stream was started or moved
 * to. */
#ifndef ULL_DATA_LOADER_H
#define ULL_DATA_LOADER_H

#include <pthread.h>
#include <sys/types.h>

#include "data/convert.h"
#include "data/image/image.h"
#include "data/known_bad.h"
#include "data/order.h"
#include "data/source.h"
#include "data/ticks.h"

typedef struct ull__loader_array {
  ull_binding binding;
  ull_array_content content;
  ull__conversion conversion;  /* of elements */
  uint64_t raw_bytes;          /* of a sample in the source; 0 of a picture */
  uint64_t sample_bytes;       /* of a sample in the batch, of the longest where lengths differ */
  uint64_t offset;             /* in the slot's data */
  int channels, height, width; /* of a picture or mask in the batch; 0 = none of them */
  bool soft;               /* a class number that becomes shares of classes: [classes] float32 */
  uint64_t classes_offset; /* in the slot's data: [batch_size] int64 of a soft array */
} ull__loader_array;

typedef enum ull__slot_state {
  ULL__SLOT_FREE,
  ULL__SLOT_FILLING,
  ULL__SLOT_READY,
  ULL__SLOT_KEPT, /* by ull_loader_next, which gathers a batch in it or from it */
  ULL__SLOT_LENT
} ull__slot_state;

typedef struct ull__slot {
  ull_batch batch;
  ull_batch_array *arrays;
  uint64_t *sample_index;
  uint8_t *verdict;      /* delivered with the batch */
  uint8_t *used_verdict; /* the same */
  uint8_t *asked;        /* [batch_size] verdicts of the samples asked for, never compacted */
  const char **reason;   /* [batch_size] why, static texts; NULL where there are no pictures */
  uint8_t *data;
  ull__slot_state state;
  uint64_t sequence;
  ull__order_batch place;
  ull__epoch_order order;
  uint64_t pending; /* samples that no thread has finished */
  uint64_t replaced;
  bool failed;
  uint64_t failed_at; /* the first failing sample of the batch, and its record */
  ull_error error;
} ull__slot;

/* Where a thread can be made to die. */
typedef enum ull__loader_fault {
  ULL__LOADER_FAULT_NONE,
  ULL__LOADER_FAULT_CLAIM, /* "loader": before anything is done */
  ULL__LOADER_FAULT_READ,
  ULL__LOADER_FAULT_DECODE,
  ULL__LOADER_FAULT_TRANSFORM,
  ULL__LOADER_FAULT_FINISH
} ull__loader_fault;

typedef struct ull__worker {
  ull_loader *loader;
  pthread_t thread;
  int index;
  bool standby;
  ull__scratch scratch;
  ull__image_reader *reader;             /* NULL where there are no pictures */
  uint64_t claimed_ns;                   /* when the claim under way began; 0 = none */
  uint64_t checked_ns;                   /* found at work then, though late; 0 = not late yet */
  pid_t number;                          /* the kernel's, of the thread */
  uint64_t stage_ticks[ULL_STAGE_COUNT]; /* of the claim under way */
  uint64_t large_used;   /* the most it ever took of the region for large pictures */
  uint64_t library_peak; /* scratch and a library's heap together, inside scratch's bound */
  uint64_t peak_bytes;   /* of scratch, as booked under the mutex */
  ull__record *record;   /* NULL where there are no pictures */
  uint64_t read_bytes;   /* encoded, of the claim under way */
} ull__worker;

/* Offsets in the block. */
typedef struct ull__loader_layout {
  uint64_t arrays, slots, slot_arrays, workers, records, known_bad, scratch, large, data;
  uint64_t slot_index_offset, slot_verdict_offset, slot_reason_offset, slot_stride;
  uint64_t scratch_stride;
  uint64_t canvas_bytes; /* of scratch_stride, where pixels are changed after resizing */
  uint64_t large_bytes;
  uint64_t total_bytes;
  uint64_t reader_bytes; /* of all threads, on the heap */
  uint64_t fillers;
  uint64_t known_bad_entries; /* 0 where bad samples are not replaced */
  int standby;
  bool has_pictures;
} ull__loader_layout;

enum { ULL__BAD_SAMPLES = 64 };

typedef struct ull__bad_sample {
  uint64_t sample, times;
  const char *reason;
  ull_verdict verdict;
} ull__bad_sample;

struct ull_loader {
  ull_loader_options options;
  const ull_source *source;
  ull__loader_layout layout;
  ull__loader_array *arrays;
  ull__slot *slots;
  ull__worker *workers; /* one at least; its thread is the caller where options.workers is 0 */
  void *block;
  uint64_t augment_key;
  ull__known_bad known_bad;
  ull__loader_fault fault;
  uint64_t fault_at; /* ULLAGE_FAULT: the sample of the stream, from 1, at which a thread dies */

  pthread_mutex_t large_mutex; /* held while the region for large pictures is in use */
  ull__scratch large;
  uint64_t large_held;     /* bytes of it that pictures took and that were not given back */
  uint64_t large_resident; /* bytes of it that may be resident */

  pthread_mutex_t mutex;
  pthread_cond_t work;   /* something to claim, or to stop for */
  pthread_cond_t late;   /* a claim has begun that somebody may have to stand in for */
  pthread_cond_t relief; /* whoever watched for claims that are late has found one */
  pthread_cond_t ready;  /* a slot is complete, a worker is gone, or everything stands still */
  ull__order order;
  int started_workers, live_workers, dead_workers, busy;
  int wanted_workers; /* no more are to run; all where the pace is not measured */
  bool is_watched;    /* a thread that stands by watches claims */
  int watching;       /* threads standing by that wait for a claim to begin */
  bool stopping, paused;
  int next_slot;         /* where the next free slot is looked for */
  ull__slot *claim_slot; /* of claim_sequence, where claim_sample is above 0 or was just begun */
  uint64_t claim_sequence, claim_sample;
  uint64_t next_sequence;
  uint64_t sample_ns; /* what a sample takes a thread: a moving average; 0 = unknown */
  uint64_t read_ns;   /* what reading a sample takes: a moving average */
  uint64_t read_bytes, read_samples; /* encoded, since the beginning */
  uint64_t ahead_left;               /* samples for which the kernel is still asked ahead */
  uint64_t cache_bytes;   /* what a cgroup leaves to the page cache; UINT64_MAX: no limit */
  uint32_t kept_samples;  /* of 65536: those whose pages are not given back */
  uint64_t lent_ns;       /* when the last batch was lent */
  uint64_t wait_began_ns; /* for the next one, by ull_loader_wait; 0 = not yet */
  uint64_t step_ns;       /* what the caller does between two batches: a moving average */
  ull__ticks ticks;
  uint64_t stage_ticks[ULL_STAGE_COUNT];
  uint64_t peak_large;        /* as booked under the mutex */
  uint64_t used_slots;        /* the highest number of a slot that ever held a batch */
  ull__slot *gathered;        /* where batches are refilled: the batch that is being gathered, */
  ull__slot *read;            /* the slot whose samples come next, which may be the same; */
  uint64_t gathered_position; /* of the epoch, where that batch begins */
  uint64_t read_place;        /* the first place of the other that was not looked at */
  uint64_t bad;               /* met in the stream, also before a state that was restored */
  uint64_t dealt;             /* samples asked for in the stream, for shares of them */
  ull__bad_sample bad_samples[ULL__BAD_SAMPLES];
  size_t bad_sample_count;
  ull_error death; /* why the first worker died */
  ull_loader_counts counts;
};

/* Checks the options and computes the layout; `arrays` (binding_count of them) is filled where not
 * NULL. */
ull_status ull__loader_plan(const ull_loader_options *options, ull__loader_layout *layout,
                            ull__loader_array *arrays);

/* Points everything in a zeroed block at its place. */
void ull__loader_place(ull_loader *loader);

/* Shape, dtype and size of a picture or mask in the batch. */
ull_status ull__loader_plan_picture(const ull_array_info *info, ull__loader_array *array);

/* Whether a binding takes encoded pictures, masks included. */
bool ull__loader_has_pictures(const ull_loader_options *options);

/* A budget that a loader does not have alone: beside the source, with another loader of its size.
 */
typedef struct ull__loader_budget {
  uint64_t bytes, held_bytes;
  uint64_t loaders;
} ull__loader_budget;

/* ull_loader_fit; a refusal names the whole budget that would do. */
ull_status ull__loader_fit_into(ull_loader_options *options, const ull__loader_budget *budget);

/* A claimed run of samples of one slot. */
typedef struct ull__claim {
  ull__slot *slot;
  uint64_t first, count;
} ull__claim;

/* What came of it; kept until the mutex is held again. */
typedef struct ull__outcome {
  bool failed, died;
  uint64_t failed_at;
  uint64_t replaced;
  ull_error error;
} ull__outcome;

/* Fills the samples without holding the mutex. */
void ull__loader_fill(ull_loader *loader, const ull__claim *claim, ull__worker *worker,
                      ull__outcome *outcome);

/* What one try at a sample found. */
typedef struct ull__sample_result {
  ull_verdict verdict; /* the worst of its arrays */
  const char *reason;  /* static; "" where there is nothing to say */
  const char *path;    /* of the worst file, until the thread opens another; NULL = the sample's */
  bool died;
} ull__sample_result;

/* Fills all arrays of one sample at its place in the slot. A sample with a bad verdict is a
 * failure, whatever could be decoded. `fault` makes the thread die in that stage. */
ull_status ull__loader_fill_sample(ull_loader *loader, ull__worker *worker, ull__slot *slot,
                                   uint64_t sample, uint64_t place, ull__loader_fault fault,
                                   ull__sample_result *result);

/* The pictures and masks of one sample; what ull__loader_fill_sample does where there are any. */
ull_status ull__loader_fill_pictures(ull_loader *loader, ull__worker *worker, ull__slot *slot,
                                     uint64_t sample, uint64_t place, ull__loader_fault fault,
                                     ull__sample_result *result);

/* Bytes of a sample of that length in the batch, as ull__order_batch has it. */
static inline uint64_t ull__loader_sample_bytes(const ull__loader_array *array, int64_t length) {
  if (length == 0) return array->sample_bytes;
  return array->sample_bytes / (uint64_t)array->binding.shape[0] * (uint64_t)length;
}

/* The death that ULLAGE_FAULT asks for. */
ull_status ull__loader_die(const ull_loader *loader, ull__sample_result *result);

/* A batch all of whose samples are there: closes gaps, mixes. On the thread that filled the last
 * sample, without the mutex. */
ull_status ull__loader_finish(ull_loader *loader, ull__slot *slot);

/* Page cache (loader_cache.c): what cgroups leave to it; how reading goes, with the mutex held; the
 * kernel asked for a sample that is due later, and told of one that was read, unless it is among
 * the `kept_samples` of 65536. */
enum { ULL__KEEPS_ALL = 65536 };
void ull__loader_read_limits(ull_loader *loader);
void ull__loader_follow_reads(ull_loader *loader, const ull__worker *worker, uint64_t samples);
void ull__loader_advise(ull_loader *loader, ull__worker *worker, const ull__claim *claim,
                        uint32_t kept_samples);

/* With the mutex held: threads may claim. */
void ull__loader_go(ull_loader *loader);

/* With the mutex held: takes the next run of samples if there is a slot for it. */
bool ull__loader_claim(ull_loader *loader, ull__claim *claim);

/* With the mutex held: books what came of a claim. True where the slot is to be finished by the
 * caller. */
bool ull__loader_complete(ull_loader *loader, ull__worker *worker, const ull__claim *claim,
                          const ull__outcome *outcome);

/* Fills and books a claim, and finishes its slot where it was the last; with the mutex held at
 * beginning and end, not between. */
void ull__loader_work(ull_loader *loader, ull__worker *worker, const ull__claim *claim,
                      ull__outcome *outcome);

ull_status ull__loader_start_workers(ull_loader *loader);
void ull__loader_stop_workers(ull_loader *loader);

/* Claims and fills on the calling thread until the slot of next_sequence is complete (no worker
 * threads). */
void ull__loader_fill_inline(ull_loader *loader);

/* With the mutex held: waits for the batch of next_sequence; *slot is NULL behind the last. Where
 * it failed, or no thread is left, why. Adds to *wait_ns. */
ull_status ull__loader_await(ull_loader *loader, ull__slot **slot, uint64_t *wait_ns);

/* The same where batches are refilled (loader_refill.c): a batch of good samples, ready to be lent
 * and booked. The mutex is given up while samples are moved. */
ull_status ull__loader_gather(ull_loader *loader, ull__slot **slot, uint64_t *wait_ns);

/* With the mutex held: where the next batch begins, and the bad samples met before it. */
void ull__loader_find_position(const ull_loader *loader, uint64_t *epoch, uint64_t *position,
                               uint64_t *bad);

/* Moves a sample of one slot to a place of another, or of the same. */
void ull__loader_move_sample(const ull_loader *loader, const ull__slot *from, uint64_t from_place,
                             ull__slot *to, uint64_t to_place);

/* Mixes samples and class numbers of a batch without gaps. */
ull_status ull__loader_mix(const ull_loader *loader, ull__slot *slot);

/* The slot in which that batch is or is being filled; NULL where it is not begun, or lent. */
ull__slot *ull__loader_slot(ull_loader *loader, uint64_t sequence);
bool ull__loader_is_ready(ull_loader *loader, uint64_t sequence);

/* The sample that place `place` of a slot asks for. */
uint64_t ull__loader_asked(const ull_loader *loader, const ull__slot *slot, uint64_t place);

/* With the mutex held, before a batch is lent: whether its bad samples are too many. NULL: those
 * that were booked. */
ull_status ull__loader_check_bad(const ull_loader *loader, const ull__slot *slot);

/* With the mutex held, when what was asked for at a place becomes part of the stream: remembers
 * whether it is bad. */
void ull__loader_book_place(ull_loader *loader, const ull__slot *slot, uint64_t place);

/* With the mutex held and no claim under way: everything in the ring is forgotten. */
void ull__loader_restart(ull_loader *loader);

/* Adds the time since `since` to a stage of the claim under way; returns now. */
static inline uint64_t ull__loader_stamp(ull__worker *worker, ull_loader_stage stage,
                                         uint64_t since) {
  uint64_t now = ull__ticks_now();
  worker->stage_ticks[stage] += now - since;
  return now;
}

#endif
