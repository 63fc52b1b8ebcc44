/* Threads that fill slots in order. A worker claims a short run of samples of the oldest unfinished
 * batch under the mutex and fills it without; several workers share a batch, so that the next one
 * is ready as early as it can be. With no free slot they wait: memory never grows.
 *
 * Threads that stand by sleep until a claim takes much longer than a sample usually does: its
 * thread is held up by a disk or a lock and leaves its core idle. They then work as well until it
 * is back. They set their alarm by the oldest claim, so that nothing is polled. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "data/loader.h"

enum { CLAIMS_PER_WORKER = 4, STACK_BYTES = 512 * 1024, LATE_SAMPLES = 2, AVERAGED_OVER = 16 };

#define LEAST_LATE_NS ((uint64_t)1000000)

ull__slot *ull__loader_slot(ull_loader *loader, uint64_t sequence) {
  for (int i = 0; i < loader->options.prefetch; i++) {
    ull__slot *slot = &loader->slots[i];
    bool in_ring = slot->state == ULL__SLOT_FILLING || slot->state == ULL__SLOT_READY;
    if (in_ring && slot->sequence == sequence) return slot;
  }
  return NULL;
}

bool ull__loader_is_ready(ull_loader *loader, uint64_t sequence) {
  const ull__slot *slot = ull__loader_slot(loader, sequence);
  return slot != NULL && slot->state == ULL__SLOT_READY;
}

/* In turn, so that the ring is resident after its first round and memory is flat from then on. NULL
 * where there is none. */
static ull__slot *find_free(ull_loader *loader) {
  int slots = loader->options.prefetch;
  for (int i = 0; i < slots; i++) {
    ull__slot *slot = &loader->slots[(loader->next_slot + i) % slots];
    if (slot->state == ULL__SLOT_FREE) return slot;
  }
  return NULL;
}

static void begin_slot(ull_loader *loader, ull__slot *slot, uint64_t sequence,
                       const ull__order_batch *place) {
  slot->state = ULL__SLOT_FILLING;
  slot->sequence = sequence;
  slot->place = *place;
  slot->order = ull__order_epoch(&loader->order, place->epoch);
  slot->pending = place->samples;
  slot->replaced = 0;
  slot->failed = false;
  slot->batch.epoch = place->epoch;
  slot->batch.batch = place->batch;
  slot->batch.step = place->epoch * ull__order_batches_per_epoch(&loader->order) + place->batch;
  slot->batch.samples = place->samples;
  slot->batch.length = place->length;
  slot->batch.skipped = 0;
  uint64_t used = (uint64_t)(slot - loader->slots) + 1;
  if (used > loader->used_slots) loader->used_slots = used;
  loader->next_slot = (int)(used % (uint64_t)loader->options.prefetch);
}

/* Samples of a claim: few where they are expensive, so that threads share a batch evenly. */
static uint64_t claim_size(const ull_loader *loader, uint64_t samples) {
  if (loader->layout.has_pictures) return 1;
  return samples / (loader->layout.fillers * CLAIMS_PER_WORKER) + 1;
}

/* A batch without samples (of a rank that gets nothing of a short global batch) is ready at once.
 */
static bool begin_next(ull_loader *loader) {
  ull__slot *slot;
  ull__order_batch place;
  while ((slot = find_free(loader)) != NULL &&
         ull__order_batch_at(&loader->order, loader->claim_sequence, &place)) {
    begin_slot(loader, slot, loader->claim_sequence, &place);
    loader->claim_slot = slot;
    if (place.samples > 0) return true;
    slot->state = ULL__SLOT_READY;
    loader->claim_sequence++;
    pthread_cond_broadcast(&loader->ready);
  }
  return false;
}

void ull__loader_go(ull_loader *loader) {
  loader->paused = false;
  pthread_cond_broadcast(&loader->work);
}

bool ull__loader_claim(ull_loader *loader, ull__claim *claim) {
  if (loader->paused) return false;
  if (loader->claim_sample == 0 && !begin_next(loader)) return false;
  ull__slot *slot = loader->claim_slot;
  uint64_t samples = slot->place.samples, left = samples - loader->claim_sample;
  uint64_t run = claim_size(loader, samples);
  *claim =
      (ull__claim){.slot = slot, .first = loader->claim_sample, .count = run < left ? run : left};
  loader->claim_sample += claim->count;
  if (loader->claim_sample == samples) {
    loader->claim_sample = 0;
    loader->claim_sequence++;
  }
  loader->busy++;
  if (loader->watching > 0) pthread_cond_signal(&loader->late);
  return true;
}

/* Averages that follow slowly: a single slow sample hardly shows. */
static uint64_t follow(uint64_t average, uint64_t value) {
  if (average == 0) return value;
  if (value > 4 * average) value = 4 * average;
  return average + value / AVERAGED_OVER - average / AVERAGED_OVER;
}

static void book_times(ull_loader *loader, ull__worker *worker, const ull__claim *claim) {
  uint64_t took = ull__clock_now_ns() - worker->claimed_ns;
  worker->claimed_ns = 0;
  loader->sample_ns = follow(loader->sample_ns, took / claim->count + 1);
  if (loader->layout.has_pictures) ull__loader_follow_reads(loader, worker, claim->count);
  for (int s = 0; s < ULL_STAGE_COUNT; s++) {
    loader->stage_ticks[s] += worker->stage_ticks[s];
    worker->stage_ticks[s] = 0;
  }
  worker->peak_bytes =
      worker->scratch.peak > worker->library_peak ? worker->scratch.peak : worker->library_peak;
  if (worker->large_used > loader->peak_large) loader->peak_large = worker->large_used;
  loader->counts.filled += claim->count;
  if (worker->standby) loader->counts.stood_in += claim->count;
}

bool ull__loader_complete(ull_loader *loader, ull__worker *worker, const ull__claim *claim,
                          const ull__outcome *outcome) {
  ull__slot *slot = claim->slot;
  book_times(loader, worker, claim);
  slot->replaced += outcome->replaced;
  if (outcome->failed && (!slot->failed || outcome->failed_at < slot->failed_at)) {
    slot->failed = true;
    slot->failed_at = outcome->failed_at;
    slot->error = outcome->error;
  }
  slot->pending -= claim->count;
  return slot->pending == 0;
}

static void fail_slot(ull__slot *slot, uint64_t place) {
  slot->failed = true;
  slot->failed_at = place;
  slot->error = *ull_error_last();
}

/* With the mutex held, but not while it works. */
static void finish_slot(ull_loader *loader, ull__worker *worker, ull__slot *slot,
                        ull__outcome *outcome) {
  if (!slot->failed) {
    pthread_mutex_unlock(&loader->mutex);
    uint64_t since = ull__ticks_now();
    ull_status status = ull__loader_finish(loader, slot);
    ull__loader_stamp(worker, ULL_STAGE_FINISH, since);
    if (status != ULL_OK) {
      fail_slot(slot, slot->place.samples);
      outcome->died = status == ULL_ERROR_INTERNAL;
      outcome->error = slot->error;
    }
    pthread_mutex_lock(&loader->mutex);
  }
  slot->state = ULL__SLOT_READY;
  pthread_cond_broadcast(&loader->ready);
}

void ull__loader_work(ull_loader *loader, ull__worker *worker, const ull__claim *claim,
                      ull__outcome *outcome) {
  worker->claimed_ns = ull__clock_now_ns();
  worker->checked_ns = 0;
  bool ahead = loader->ahead_left > 0;
  uint32_t kept_samples = loader->kept_samples;
  worker->read_bytes = 0;
  pthread_mutex_unlock(&loader->mutex);
  if (ahead) ull__loader_advise(loader, worker, claim, kept_samples);
  ull__loader_fill(loader, claim, worker, outcome);
  pthread_mutex_lock(&loader->mutex);
  if (ull__loader_complete(loader, worker, claim, outcome)) {
    finish_slot(loader, worker, claim->slot, outcome);
  }
  loader->busy--;
  if (loader->paused) pthread_cond_broadcast(&loader->ready);
}

/* ---- threads ---- */

/* With the mutex held. Somebody who stands by takes the place of the dead. */
static void leave(ull_loader *loader, const ull__outcome *outcome) {
  loader->live_workers--;
  loader->dead_workers += outcome->died;
  if (outcome->died && loader->death.status == ULL_OK) loader->death = outcome->error;
  pthread_cond_broadcast(&loader->ready);
  pthread_cond_broadcast(&loader->late);
  pthread_cond_broadcast(&loader->relief);
}

static void wait_for_work(ull_loader *loader, ull__worker *worker) {
  uint64_t since = ull__ticks_now();
  bool counts = !worker->standby && !loader->paused;
  pthread_cond_wait(&loader->work, &loader->mutex);
  if (counts) loader->stage_ticks[ULL_STAGE_IDLE] += ull__ticks_now() - since;
}

/* Claims that take longer than this are late. */
static uint64_t late_ns(const ull_loader *loader) {
  uint64_t usual = LATE_SAMPLES * loader->sample_ns * (loader->layout.has_pictures ? 1 : 8);
  return usual > LEAST_LATE_NS ? usual : LEAST_LATE_NS;
}

/* Whether a thread sleeps, as the kernel tells: one that waits for a core is not held up. */
static bool is_held_up(const ull__worker *worker) {
  char path[64], text[128];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)worker->number);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t count = file >= 0 ? read(file, text, sizeof text - 1) : 0;
  if (file >= 0) close(file);
  text[count > 0 ? count : 0] = '\0';
  const char *name_end = strrchr(text, ')'); /* "12 (ull-loader-0) S 1 ..." */
  return name_end != NULL && name_end[1] == ' ' && name_end[2] != 'R';
}

/* When a claim is to be looked at; those found at work get as long again. */
static uint64_t deadline(const ull__worker *worker, uint64_t allowed) {
  return (worker->checked_ns > 0 ? worker->checked_ns : worker->claimed_ns) + allowed;
}

/* Threads that are held up or dead less those that already stand in for them; *alarm_ns: when the
 * next claim is to be looked at (0: none is under way). */
static int count_missing(ull_loader *loader, uint64_t now, uint64_t *alarm_ns) {
  uint64_t allowed = late_ns(loader);
  int missing = loader->dead_workers;
  *alarm_ns = 0;
  for (uint64_t i = 0; i < loader->layout.fillers; i++) {
    ull__worker *worker = &loader->workers[i];
    if (worker->claimed_ns == 0) continue;
    if (now >= deadline(worker, allowed)) {
      if (is_held_up(worker)) {
        missing += !worker->standby;
        continue;
      }
      worker->checked_ns = now;
    }
    missing -= worker->standby;
    uint64_t next = deadline(worker, allowed);
    if (*alarm_ns == 0 || next < *alarm_ns) *alarm_ns = next;
  }
  return missing;
}

static void wait_until(ull_loader *loader, uint64_t alarm_ns) {
  struct timespec moment = {.tv_sec = (time_t)(alarm_ns / 1000000000u),
                            .tv_nsec = (long)(alarm_ns % 1000000000u)};
  pthread_cond_timedwait(&loader->late, &loader->mutex, &moment);
}

/* With the mutex held: sleeps until a claim is to be looked at, or until one begins. */
static void watch(ull_loader *loader, uint64_t alarm_ns) {
  loader->is_watched = true;
  if (alarm_ns > 0) {
    wait_until(loader, alarm_ns);
  } else {
    loader->watching++;
    pthread_cond_wait(&loader->late, &loader->mutex);
    loader->watching--;
  }
  loader->is_watched = false;
}

/* Sleeps until somebody is late, or the loader stops. One thread watches, the others wait for it to
 * find work. A thread that has just done a sample looks for itself first: whom it stood in for may
 * still be held up. */
static bool wait_for_late(ull_loader *loader) {
  while (!loader->stopping) {
    uint64_t alarm_ns;
    if (count_missing(loader, ull__clock_now_ns(), &alarm_ns) > 0) {
      if (!loader->is_watched) pthread_cond_signal(&loader->relief);
      return true;
    }
    if (loader->is_watched)
      pthread_cond_wait(&loader->relief, &loader->mutex);
    else
      watch(loader, alarm_ns);
  }
  return false;
}

/* Whether a thread may claim now. One that stands by sleeps until somebody is late. */
static bool is_wanted(ull_loader *loader, const ull__worker *worker) {
  return worker->standby ? wait_for_late(loader) : worker->index < loader->wanted_workers;
}

static void *run_worker(void *argument) {
  ull__worker *worker = argument;
  ull_loader *loader = worker->loader;
  ull__outcome outcome = {0};
  pthread_mutex_lock(&loader->mutex);
  worker->number = gettid();
  while (!loader->stopping && !outcome.died) {
    ull__claim claim;
    if (is_wanted(loader, worker) && ull__loader_claim(loader, &claim)) {
      ull__loader_work(loader, worker, &claim, &outcome);
    } else if (!loader->stopping) {
      wait_for_work(loader, worker);
    }
  }
  leave(loader, &outcome);
  pthread_mutex_unlock(&loader->mutex);
  return NULL;
}

void ull__loader_fill_inline(ull_loader *loader) {
  ull__claim claim;
  ull__outcome outcome;
  while (!ull__loader_is_ready(loader, loader->next_sequence) &&
         ull__loader_claim(loader, &claim)) {
    ull__loader_work(loader, &loader->workers[0], &claim, &outcome);
  }
}

static int start_worker(ull__worker *worker, const pthread_attr_t *attributes) {
  char name[16];
  int error = pthread_create(&worker->thread, attributes, run_worker, worker);
  if (error != 0) return error;
  snprintf(name, sizeof name, worker->standby ? "ull-standby-%d" : "ull-loader-%d",
           worker->index % 1000);
  pthread_setname_np(worker->thread, name);
  return 0;
}

/* Signals stay with the threads that the program made. */
static int start_all(ull_loader *loader, const pthread_attr_t *attributes) {
  sigset_t all, before;
  int error = 0, threads = loader->options.workers > 0 ? (int)loader->layout.fillers : 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < threads && error == 0; i++) {
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
  pthread_cond_broadcast(&loader->late);
  pthread_cond_broadcast(&loader->relief);
  pthread_mutex_unlock(&loader->mutex);
  for (int i = 0; i < loader->started_workers; i++) pthread_join(loader->workers[i].thread, NULL);
}
