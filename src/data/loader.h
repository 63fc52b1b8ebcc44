/* The parts of a loader, shared by its files: layout (what lies where), fill (one sample), worker
 * (threads), loader (the public functions).
 *
 * A loader is one block of memory: itself, slots, bindings, workers, scratch, batch data. Every
 * field that two threads touch is guarded by `mutex`, except the content of a slot, which belongs
 * to the workers between claim and completion and to the caller while it is lent. */
#ifndef ULL_DATA_LOADER_H
#define ULL_DATA_LOADER_H

#include <pthread.h>

#include "base/permutation.h"
#include "data/convert.h"
#include "data/source.h"

typedef struct ull__loader_array {
  ull_binding binding;
  ull__conversion conversion;
  uint64_t raw_bytes;    /* of a sample in the source */
  uint64_t sample_bytes; /* of a sample in the batch */
  uint64_t offset;       /* in the slot's data */
} ull__loader_array;

typedef enum ull__slot_state { ULL__SLOT_FREE, ULL__SLOT_FILLING, ULL__SLOT_LENT } ull__slot_state;

typedef struct ull__slot {
  ull_batch batch;
  ull_batch_array *arrays;
  uint64_t *sample_index;
  uint8_t *verdict;
  uint8_t *data;
  ull__slot_state state;
  uint64_t step;
  uint64_t pending; /* samples that no worker has finished */
  uint64_t replaced;
  ull__permutation order;
  bool failed;
  uint64_t failed_at; /* the first failing sample of the batch, and its record */
  ull_error error;
} ull__slot;

typedef struct ull__worker {
  ull_loader *loader;
  pthread_t thread;
  int index;
  uint8_t *scratch;
} ull__worker;

/* Offsets in the block. */
typedef struct ull__loader_layout {
  uint64_t arrays, slots, slot_arrays, workers, scratch, data;
  uint64_t slot_index_offset, slot_verdict_offset, slot_stride;
  uint64_t scratch_stride;
  uint64_t total_bytes;
  uint64_t batches_per_epoch;
} ull__loader_layout;

struct ull_loader {
  ull_loader_options options;
  const ull_source *source;
  ull__loader_layout layout;
  ull__loader_array *arrays;
  ull__slot *slots;
  ull__worker *workers; /* one at least; its thread is the caller where options.workers is 0 */
  void *block;
  uint64_t order_key_seed, augment_key;
  uint64_t
      fault_at; /* ULLAGE_FAULT: the sample, counted from 1, at which a worker dies; 0 = never */
  uint64_t end_step;

  pthread_mutex_t mutex;
  pthread_cond_t work;  /* something to claim, or to stop for */
  pthread_cond_t ready; /* a slot is complete, a worker is gone, or everything stands still */
  int started_workers, live_workers, busy;
  bool stopping, paused;
  uint64_t claim_step, claim_sample;
  uint64_t first_step; /* where the stream began or was set */
  uint64_t next_step;
  ull_error death; /* why the first worker died */
  ull_loader_counts counts;
};

/* Checks the options and computes the layout; `arrays` (binding_count of them) is filled where not
 * NULL. */
ull_status ull__loader_plan(const ull_loader_options *options, ull__loader_layout *layout,
                            ull__loader_array *arrays);

/* Points everything in a zeroed block at its place. */
void ull__loader_place(ull_loader *loader);

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
void ull__loader_fill(ull_loader *loader, const ull__claim *claim, uint8_t *scratch,
                      ull__outcome *outcome);

/* With the mutex held: takes the next run of samples if there is a slot for it. */
bool ull__loader_claim(ull_loader *loader, ull__claim *claim);

/* With the mutex held: books what came of a claim. */
void ull__loader_complete(ull_loader *loader, const ull__claim *claim, const ull__outcome *outcome);

ull_status ull__loader_start_workers(ull_loader *loader);
void ull__loader_stop_workers(ull_loader *loader);

/* Claims and fills on the calling thread until the slot of next_step is complete (no worker
 * threads). */
void ull__loader_fill_inline(ull_loader *loader);

uint64_t ull__loader_batch_samples(const ull_loader *loader, uint64_t step);
ull__slot *ull__loader_slot(ull_loader *loader, uint64_t step);
bool ull__slot_is_complete(const ull__slot *slot, uint64_t step);

#endif
