/* Threads that fill slots in order. A worker claims a short run of samples of the oldest unfinished
 * batch under the mutex and fills it without; several workers share a batch, so that the next one
 * is ready as early as it can be. With no free slot they wait: memory never grows. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/philox.h"
#include "data/loader.h"

enum { CLAIMS_PER_WORKER = 4, STACK_BYTES = 512 * 1024 };

uint64_t ull__loader_batch_samples(const ull_loader *loader, uint64_t step) {
  uint64_t begin = step % loader->layout.batches_per_epoch * loader->options.batch_size;
  uint64_t left = loader->source->count - begin;
  return left < loader->options.batch_size ? left : loader->options.batch_size;
}

ull__slot *ull__loader_slot(ull_loader *loader, uint64_t step) {
  return &loader->slots[step % (uint64_t)loader->options.prefetch];
}

bool ull__slot_is_complete(const ull__slot *slot, uint64_t step) {
  return slot->state == ULL__SLOT_FILLING && slot->step == step && slot->pending == 0;
}

static void begin_slot(ull_loader *loader, ull__slot *slot, uint64_t step) {
  uint64_t epoch = step / loader->layout.batches_per_epoch;
  uint64_t samples = ull__loader_batch_samples(loader, step);
  slot->state = ULL__SLOT_FILLING;
  slot->step = step;
  slot->pending = samples;
  slot->replaced = 0;
  slot->failed = false;
  slot->batch.step = step;
  slot->batch.epoch = epoch;
  slot->batch.batch = step % loader->layout.batches_per_epoch;
  slot->batch.samples = samples;
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    slot->arrays[i].shape[0] = (int64_t)samples;
    slot->arrays[i].bytes = samples * loader->arrays[i].sample_bytes;
  }
  ull__philox_block key = ull__philox(loader->order_key_seed, 0, epoch);
  slot->order =
      ull__permutation_create(loader->source->count, (uint64_t)key.word[1] << 32 | key.word[0]);
}

bool ull__loader_claim(ull_loader *loader, ull__claim *claim) {
  if (loader->paused || loader->claim_step >= loader->end_step) return false;
  ull__slot *slot = ull__loader_slot(loader, loader->claim_step);
  if (loader->claim_sample == 0) {
    if (slot->state != ULL__SLOT_FREE) return false;
    begin_slot(loader, slot, loader->claim_step);
  }
  uint64_t samples = slot->batch.samples, left = samples - loader->claim_sample;
  uint64_t fillers = loader->options.workers > 0 ? (uint64_t)loader->options.workers : 1;
  uint64_t run = samples / (fillers * CLAIMS_PER_WORKER) + 1;
  *claim =
      (ull__claim){.slot = slot, .first = loader->claim_sample, .count = run < left ? run : left};
  loader->claim_sample += claim->count;
  if (loader->claim_sample == samples) {
    loader->claim_sample = 0;
    loader->claim_step++;
  }
  loader->busy++;
  return true;
}

void ull__loader_complete(ull_loader *loader, const ull__claim *claim,
                          const ull__outcome *outcome) {
  ull__slot *slot = claim->slot;
  loader->busy--;
  slot->replaced += outcome->replaced;
  if (outcome->failed && (!slot->failed || outcome->failed_at < slot->failed_at)) {
    slot->failed = true;
    slot->failed_at = outcome->failed_at;
    slot->error = outcome->error;
  }
  slot->pending -= claim->count;
  if (slot->pending == 0 || loader->paused) pthread_cond_broadcast(&loader->ready);
}

/* With the mutex held. */
static void leave(ull_loader *loader, const ull__outcome *outcome) {
  loader->live_workers--;
  if (outcome->died && loader->death.status == ULL_OK) loader->death = outcome->error;
  pthread_cond_broadcast(&loader->ready);
}

static void *run_worker(void *argument) {
  ull__worker *worker = argument;
  ull_loader *loader = worker->loader;
  ull__outcome outcome = {0};
  pthread_mutex_lock(&loader->mutex);
  while (!loader->stopping && !outcome.died) {
    ull__claim claim;
    if (!ull__loader_claim(loader, &claim)) {
      pthread_cond_wait(&loader->work, &loader->mutex);
      continue;
    }
    pthread_mutex_unlock(&loader->mutex);
    ull__loader_fill(loader, &claim, worker->scratch, &outcome);
    pthread_mutex_lock(&loader->mutex);
    ull__loader_complete(loader, &claim, &outcome);
  }
  leave(loader, &outcome);
  pthread_mutex_unlock(&loader->mutex);
  return NULL;
}

void ull__loader_fill_inline(ull_loader *loader) {
  uint64_t step = loader->next_step;
  ull__slot *slot = ull__loader_slot(loader, step);
  ull__claim claim;
  ull__outcome outcome;
  while (!ull__slot_is_complete(slot, step) && ull__loader_claim(loader, &claim)) {
    ull__loader_fill(loader, &claim, loader->workers[0].scratch, &outcome);
    ull__loader_complete(loader, &claim, &outcome);
  }
}

static int start_worker(ull__worker *worker, const pthread_attr_t *attributes) {
  int error = pthread_create(&worker->thread, attributes, run_worker, worker);
  if (error != 0) return error;
  char name[16];
  snprintf(name, sizeof name, "ull-loader-%d", worker->index % 1000);
  pthread_setname_np(worker->thread, name);
  return 0;
}

/* Signals stay with the threads that the program made. */
static int start_all(ull_loader *loader, const pthread_attr_t *attributes) {
  sigset_t all, before;
  int error = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < loader->options.workers && error == 0; i++) {
    pthread_mutex_lock(&loader->mutex);
    loader->live_workers++;
    pthread_mutex_unlock(&loader->mutex);
    error = start_worker(&loader->workers[i], attributes);
    if (error == 0) loader->started_workers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

ull_status ull__loader_start_workers(ull_loader *loader) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  int error = start_all(loader, &attributes);
  pthread_attr_destroy(&attributes);
  if (error == 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "loader thread %d of %d cannot be started: %s",
            loader->started_workers + 1, loader->options.workers, strerror(error));
  ull__error_holder("--workers %d", loader->options.workers);
  return ull__error_change("use fewer --workers");
}

void ull__loader_stop_workers(ull_loader *loader) {
  pthread_mutex_lock(&loader->mutex);
  loader->stopping = true;
  pthread_cond_broadcast(&loader->work);
  pthread_mutex_unlock(&loader->mutex);
  for (int i = 0; i < loader->started_workers; i++) pthread_join(loader->workers[i].thread, NULL);
}
