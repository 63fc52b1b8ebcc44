/* A ring of samples under one mutex. Two places a worker keep all of them busy while the caller
 * writes. */
#include "data/pack/queue.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { MOST_WORKERS = 64, PLACES_MORE = 2 };

typedef struct place {
  ull__pack_sample sample;
  bool made;
  ull_error error; /* of a failure */
} place;

typedef struct worker {
  ull__pack_queue *queue;
  ull__pack_shrinker shrinker;
  pthread_t thread;
  bool started;
} worker;

struct ull__pack_queue {
  const ull_source *source;
  ull__pack_room room;
  bool may_skip;
  pthread_mutex_t mutex;
  pthread_cond_t made, freed;
  uint64_t next;  /* to be made */
  uint64_t taken; /* the one that the caller gets or has */
  bool stop;
  int place_count, worker_count;
  place *places;
  worker workers[MOST_WORKERS];
};

/* The next number, or false at the end. With the mutex held. */
static bool claim(ull__pack_queue *queue, uint64_t *number) {
  while (!queue->stop && queue->next < queue->source->count &&
         queue->next >= queue->taken + (uint64_t)queue->place_count)
    pthread_cond_wait(&queue->freed, &queue->mutex);
  if (queue->stop || queue->next >= queue->source->count) return false;
  *number = queue->next++;
  return true;
}

static void make(worker *w, uint64_t number) {
  ull__pack_queue *queue = w->queue;
  place *to = &queue->places[number % (uint64_t)queue->place_count];
  ull_status status =
      ull__pack_sample_make(queue->source, number, queue->may_skip, &w->shrinker, &to->sample);
  to->error = status == ULL_OK ? (ull_error){0} : *ull_error_last();
}

static void *run(void *argument) {
  worker *w = argument;
  ull__pack_queue *queue = w->queue;
  uint64_t number;
  pthread_mutex_lock(&queue->mutex);
  while (claim(queue, &number)) {
    pthread_mutex_unlock(&queue->mutex);
    make(w, number);
    pthread_mutex_lock(&queue->mutex);
    queue->places[number % (uint64_t)queue->place_count].made = true;
    pthread_cond_signal(&queue->made);
  }
  pthread_mutex_unlock(&queue->mutex);
  return NULL;
}

/* ---- life ---- */

static void prepare(ull__pack_queue *queue, const ull_pack_options *options) {
  pthread_mutex_init(&queue->mutex, NULL);
  pthread_cond_init(&queue->made, NULL);
  pthread_cond_init(&queue->freed, NULL);
  pthread_mutex_init(&queue->room.mutex, NULL);
  pthread_cond_init(&queue->room.given_back, NULL);
  queue->room.bytes = options->memory_bytes;
  queue->may_skip = options->on_bad == ULL_ON_BAD_SKIP;
  queue->worker_count = options->workers < MOST_WORKERS ? options->workers : MOST_WORKERS;
  queue->place_count = 2 * queue->worker_count + PLACES_MORE;
}

static ull_status create_places(ull__pack_queue *queue) {
  queue->places = ull__alloc((size_t)queue->place_count, sizeof *queue->places);
  if (queue->places == NULL) return ull_error_last()->status;
  for (int i = 0; i < queue->place_count; i++)
    ULL__TRY(ull__pack_sample_create(queue->source, &queue->places[i].sample));
  return ULL_OK;
}

static ull_status start(ull__pack_queue *queue, const ull_pack_options *options, int number) {
  worker *w = &queue->workers[number];
  char name[16];
  w->queue = queue;
  w->shrinker.max_side = options->max_side;
  w->shrinker.quality = options->quality > 0 ? options->quality : 90;
  w->shrinker.encode_all = options->quality > 0;
  ULL__TRY(ull__pack_shrinker_create(&w->shrinker, &queue->room));
  int error = pthread_create(&w->thread, NULL, run, w);
  if (error != 0)
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "cannot start a thread: %s", strerror(error));
  w->started = true;
  snprintf(name, sizeof name, "ull-pack-%d", number);
  pthread_setname_np(w->thread, name);
  return ULL_OK;
}

ull_status ull__pack_queue_create(const ull_source *source, const ull_pack_options *options,
                                  uint64_t first, ull__pack_queue **out) {
  *out = NULL;
  ull__pack_queue *queue = ull__alloc(1, sizeof *queue);
  if (queue == NULL) return ull_error_last()->status;
  queue->source = source;
  queue->next = queue->taken = first;
  prepare(queue, options);
  ull_status status = create_places(queue);
  for (int i = 0; i < queue->worker_count && status == ULL_OK; i++)
    status = start(queue, options, i);
  if (status == ULL_OK)
    *out = queue;
  else
    ull__pack_queue_destroy(queue);
  return status;
}

void ull__pack_queue_destroy(ull__pack_queue *queue) {
  if (queue == NULL) return;
  pthread_mutex_lock(&queue->mutex);
  queue->stop = true;
  pthread_cond_broadcast(&queue->freed);
  pthread_mutex_unlock(&queue->mutex);
  for (int i = 0; i < queue->worker_count; i++) {
    if (queue->workers[i].started) pthread_join(queue->workers[i].thread, NULL);
    ull__pack_shrinker_destroy(&queue->workers[i].shrinker);
  }
  for (int i = 0; queue->places != NULL && i < queue->place_count; i++)
    ull__pack_sample_destroy(queue->source, &queue->places[i].sample);
  pthread_mutex_destroy(&queue->room.mutex);
  pthread_cond_destroy(&queue->room.given_back);
  pthread_mutex_destroy(&queue->mutex);
  pthread_cond_destroy(&queue->made);
  pthread_cond_destroy(&queue->freed);
  ull__free(queue->places);
  ull__free(queue);
}

/* ---- the caller's side ---- */

static place *current(ull__pack_queue *queue) {
  return &queue->places[queue->taken % (uint64_t)queue->place_count];
}

ull_status ull__pack_queue_take(ull__pack_queue *queue, const ull__pack_sample **sample) {
  place *from = current(queue);
  pthread_mutex_lock(&queue->mutex);
  while (!from->made) pthread_cond_wait(&queue->made, &queue->mutex);
  pthread_mutex_unlock(&queue->mutex);
  if (from->error.status != ULL_OK) return ull__error_restore(&from->error);
  *sample = &from->sample;
  return ULL_OK;
}

void ull__pack_queue_release(ull__pack_queue *queue) {
  place *from = current(queue);
  ull__pack_sample_clear(queue->source, &from->sample);
  pthread_mutex_lock(&queue->mutex);
  from->made = false;
  queue->taken++;
  pthread_cond_broadcast(&queue->freed);
  pthread_mutex_unlock(&queue->mutex);
}
