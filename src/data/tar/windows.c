/* Packed shards are read forward, one window at a time, into two buffers that are there from the
 * beginning. Whichever thread needs a window first loads it; the others wait for it. A window
 * behind the last one of the same shard goes on where the decompressor is; any other begins the
 * shard again, which is what a change of place costs.
 *
 * The thread that opens the middle of a window loads the next one into the other buffer, if nobody
 * needs what is there, while the others go on.
 *
 * Invariant under the mutex: a buffer with users, or that is loading, is never taken away; one
 * load runs at a time. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/permutation.h"
#include "base/philox.h"
#include "data/tar/format.h"
#include "data/tar/tar.h"

enum { BUFFERS = 2, EPOCHS = 2 };

typedef struct buffer {
  uint8_t *memory;
  uint64_t window; /* UINT64_MAX: none */
  uint64_t bytes;  /* that are there */
  uint64_t users, used_at;
  uint64_t opened; /* samples since it was loaded */
} buffer;

/* The order of one epoch: shard at place p begins at position first[p]. */
typedef struct epoch_order {
  bool known;
  uint64_t key, used_at;
  ull__permutation shards;
  uint64_t *first; /* shard_count + 1 */
} epoch_order;

struct ull__tar_windows {
  const ull__index *index;
  uint64_t shard_count, window_count;
  ull__tar_window *windows;
  uint64_t *shard_first; /* first sample of each shard, and the number of samples */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  uint64_t clock;
  bool loading;
  buffer buffers[BUFFERS];
  ull__shard_stream *stream; /* of stream_shard; belongs to whoever loads */
  uint64_t stream_shard;
  epoch_order epochs[EPOCHS];
  const epoch_order *last_epoch; /* that was asked for; NULL: samples come in their natural order */
};

/* ---- creation ---- */

static ull_status read_tables(ull__tar_windows *windows, uint64_t *largest, uint64_t *packing) {
  const ull__index *index = windows->index;
  ULL__TRY(ull__index_read(index, ULL__TAR_WINDOWS, 0, windows->windows,
                           windows->window_count * sizeof *windows->windows));
  *largest = 0;
  *packing = ULL__GZIP;
  for (uint64_t i = 0; i < windows->window_count; i++) {
    if (windows->windows[i].bytes > *largest) *largest = windows->windows[i].bytes;
  }
  ull__tar_shard shard;
  for (uint64_t i = 0; i < windows->shard_count; i++) {
    ULL__TRY(ull__index_read(index, ULL__TAR_SHARDS, i * sizeof shard, &shard, sizeof shard));
    windows->shard_first[i] = shard.first_sample;
    if (shard.packing == ULL__ZSTD) *packing = ULL__ZSTD;
  }
  const ull__tar_window *last = &windows->windows[windows->window_count - 1];
  windows->shard_first[windows->shard_count] = last->first_sample + last->samples;
  return ULL_OK;
}

static ull_status take_memory(ull_source *source, const ull_source_options *options,
                              ull__tar_windows *windows) {
  uint64_t largest, packing;
  ULL__TRY(read_tables(windows, &largest, &packing));
  ULL__TRY(ull__source_hold(source, options, source->text, BUFFERS * largest));
  ULL__TRY(ull__source_hold(source, options, source->text,
                            ull__shard_stream_bytes((ull__packing)packing)));
  for (int i = 0; i < BUFFERS; i++) {
    windows->buffers[i].window = UINT64_MAX;
    windows->buffers[i].memory = ull__alloc_aligned(64, largest + 1);
    if (windows->buffers[i].memory == NULL) return ull_error_last()->status;
  }
  for (int i = 0; i < EPOCHS; i++) {
    windows->epochs[i].first = ull__alloc(windows->shard_count + 1, sizeof(uint64_t));
    if (windows->epochs[i].first == NULL) return ull_error_last()->status;
  }
  return ULL_OK;
}

ull_status ull__tar_windows_create(ull_source *source, const ull_source_options *options,
                                   const ull__index *index, ull__tar_windows **out) {
  ull__tar_windows *windows = ull__alloc(1, sizeof *windows);
  *out = windows;
  if (windows == NULL) return ull_error_last()->status;
  pthread_mutex_init(&windows->mutex, NULL);
  pthread_cond_init(&windows->changed, NULL);
  windows->index = index;
  windows->shard_count = index->header.sections[ULL__TAR_SHARDS].bytes / sizeof(ull__tar_shard);
  windows->window_count = index->header.sections[ULL__TAR_WINDOWS].bytes / sizeof(ull__tar_window);
  if (windows->window_count == 0)
    return ULL__FAIL(ULL_ERROR_DATA, "%s: holds no samples", source->text);
  windows->windows = ull__alloc(windows->window_count, sizeof *windows->windows);
  windows->shard_first = ull__alloc(windows->shard_count + 1, sizeof(uint64_t));
  if (windows->windows == NULL || windows->shard_first == NULL) return ull_error_last()->status;
  source->resident_bytes += sizeof *windows + windows->window_count * sizeof *windows->windows +
                            (1 + EPOCHS) * (windows->shard_count + 1) * sizeof(uint64_t);
  return take_memory(source, options, windows);
}

void ull__tar_windows_destroy(ull__tar_windows *windows) {
  if (windows == NULL) return;
  for (int i = 0; i < BUFFERS; i++) ull__free(windows->buffers[i].memory);
  for (int i = 0; i < EPOCHS; i++) ull__free(windows->epochs[i].first);
  ull__shard_stream_close(windows->stream);
  ull__free(windows->windows);
  ull__free(windows->shard_first);
  pthread_mutex_destroy(&windows->mutex);
  pthread_cond_destroy(&windows->changed);
  ull__free(windows);
}

/* ---- loading ---- */

static ull_status open_stream(ull__tar_windows *windows, uint64_t number) {
  ull__tar_shard shard;
  char path[ULL__TAR_NAME];
  ull__shard_stream_close(windows->stream);
  windows->stream = NULL;
  ULL__TRY(ull__index_read(windows->index, ULL__TAR_SHARDS, number * sizeof shard, &shard,
                           sizeof shard));
  ULL__TRY(ull__index_text(windows->index, ULL__TAR_TEXTS, shard.path, path, sizeof path));
  ULL__TRY(ull__shard_stream_open(path, &windows->stream));
  windows->stream_shard = number;
  struct stat about;
  if (fstat(ull__shard_stream_file(windows->stream)->descriptor, &about) != 0)
    return ULL__FAIL(ULL_ERROR_IO, "%s: cannot be inspected", path);
  ull__stamp now = ull__stamp_of(&about);
  if (ull__stamp_equal(&now, &shard.stamp)) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: has changed since it was opened", path);
  return ull__error_holder("%s", path);
}

static ull_status load(ull__tar_windows *windows, uint64_t number, buffer *to) {
  const ull__tar_window *window = &windows->windows[number];
  bool goes_on = windows->stream != NULL && windows->stream_shard == window->shard &&
                 ull__shard_stream_at(windows->stream) <= window->begin;
  if (!goes_on) ULL__TRY(open_stream(windows, window->shard));
  size_t got;
  ull_status status = ull__shard_stream_read(windows->stream, window->begin, to->memory,
                                             (size_t)window->bytes, &got);
  if (status != ULL_OK) {
    ull__shard_stream_close(windows->stream);
    windows->stream = NULL;
    return status;
  }
  to->bytes = got;
  return ULL_OK;
}

static uint64_t window_of(const ull__tar_windows *windows, uint64_t stored) {
  uint64_t low = 0, high = windows->window_count;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (windows->windows[middle].first_sample <= stored)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static buffer *find_window(ull__tar_windows *windows, uint64_t number) {
  for (int i = 0; i < BUFFERS; i++) {
    if (windows->buffers[i].window == number) return &windows->buffers[i];
  }
  return NULL;
}

static buffer *find_free(ull__tar_windows *windows) {
  buffer *best = NULL;
  for (int i = 0; i < BUFFERS; i++) {
    buffer *buffer = &windows->buffers[i];
    if (buffer->users == 0 && (best == NULL || buffer->used_at < best->used_at)) best = buffer;
  }
  return best;
}

/* With the mutex held, which is given up while the window is read. */
static ull_status load_into(ull__tar_windows *windows, uint64_t number, buffer *to) {
  to->window = UINT64_MAX;
  to->users = 1;
  windows->loading = true;
  pthread_mutex_unlock(&windows->mutex);
  ull_status status = load(windows, number, to);
  pthread_mutex_lock(&windows->mutex);
  windows->loading = false;
  to->users = 0;
  if (status == ULL_OK) to->window = number;
  to->opened = 0;
  pthread_cond_broadcast(&windows->changed);
  return status;
}

/* The place of a shard in an epoch's order. */
static uint64_t place_of(const epoch_order *order, uint64_t shard) {
  return ull__permutation_find(&order->shards, shard);
}

/* The window that follows in the order that was last asked for; UINT64_MAX at its end. */
static uint64_t next_window(const ull__tar_windows *windows, uint64_t number) {
  uint64_t shard = windows->windows[number].shard;
  const epoch_order *order = windows->last_epoch;
  bool same = number + 1 < windows->window_count && windows->windows[number + 1].shard == shard;
  if (same || order == NULL) return number + 1 < windows->window_count ? number + 1 : UINT64_MAX;
  for (uint64_t place = place_of(order, shard) + 1; place < windows->shard_count; place++) {
    uint64_t next = ull__permutation_at(&order->shards, place);
    if (windows->shard_first[next] < windows->shard_first[next + 1])
      return window_of(windows, windows->shard_first[next]);
  }
  return UINT64_MAX;
}

/* With the mutex held, and `current` in use. What goes wrong is said when the window is needed. */
static void load_next(ull__tar_windows *windows, const buffer *current, uint64_t number) {
  uint64_t next = next_window(windows, number);
  buffer *other = &windows->buffers[current == &windows->buffers[0]];
  if (next == UINT64_MAX || windows->loading || other->users > 0 ||
      find_window(windows, next) != NULL)
    return;
  if (load_into(windows, next, other) != ULL_OK) ull_error_clear();
}

ull_status ull__tar_window_hold(ull__tar_windows *windows, uint64_t stored, void **hold,
                                const ull__tar_window **window, const uint8_t **memory,
                                uint64_t *bytes) {
  uint64_t number = window_of(windows, stored);
  ull_status status = ULL_OK;
  buffer *found;
  pthread_mutex_lock(&windows->mutex);
  while ((found = find_window(windows, number)) == NULL && status == ULL_OK) {
    buffer *free = windows->loading ? NULL : find_free(windows);
    if (free != NULL)
      status = load_into(windows, number, free);
    else
      pthread_cond_wait(&windows->changed, &windows->mutex);
  }
  if (found != NULL) {
    found->users++;
    found->used_at = ++windows->clock;
    *hold = found;
    *window = &windows->windows[number];
    *memory = found->memory;
    *bytes = found->bytes;
    if (++found->opened == (windows->windows[number].samples + 1) / 2)
      load_next(windows, found, number);
  }
  pthread_mutex_unlock(&windows->mutex);
  return status;
}

void ull__tar_window_release(ull__tar_windows *windows, void *hold) {
  buffer *buffer = hold;
  pthread_mutex_lock(&windows->mutex);
  if (--buffer->users == 0) pthread_cond_broadcast(&windows->changed);
  pthread_mutex_unlock(&windows->mutex);
}

/* ---- order ---- */

static void plan_epoch(const ull__tar_windows *windows, uint64_t key, epoch_order *order) {
  order->known = true;
  order->key = key;
  order->shards = ull__permutation_create(windows->shard_count, key);
  uint64_t position = 0;
  for (uint64_t place = 0; place < windows->shard_count; place++) {
    uint64_t shard = ull__permutation_at(&order->shards, place);
    order->first[place] = position;
    position += windows->shard_first[shard + 1] - windows->shard_first[shard];
  }
  order->first[windows->shard_count] = position;
}

/* With the mutex held. */
static const epoch_order *find_epoch(ull__tar_windows *windows, uint64_t key) {
  epoch_order *oldest = &windows->epochs[0];
  for (int i = 0; i < EPOCHS; i++) {
    epoch_order *order = &windows->epochs[i];
    if (order->known && order->key == key) {
      order->used_at = ++windows->clock;
      return order;
    }
    if (order->used_at < oldest->used_at) oldest = order;
  }
  if (windows->last_epoch == oldest) windows->last_epoch = NULL;
  plan_epoch(windows, key, oldest);
  oldest->used_at = ++windows->clock;
  return oldest;
}

/* The sample in natural order at `position`, once the shards are permuted. */
static uint64_t through_shards(ull__tar_windows *windows, uint64_t key, uint64_t position) {
  pthread_mutex_lock(&windows->mutex);
  const epoch_order *order = find_epoch(windows, key);
  windows->last_epoch = order;
  uint64_t low = 0, high = windows->shard_count;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (order->first[middle] <= position)
      low = middle;
    else
      high = middle;
  }
  uint64_t shard = ull__permutation_at(&order->shards, low);
  uint64_t sample = windows->shard_first[shard] + (position - order->first[low]);
  pthread_mutex_unlock(&windows->mutex);
  return sample;
}

uint64_t ull__tar_windows_order(ull__tar_windows *windows, uint64_t key, uint64_t position) {
  uint64_t sample = through_shards(windows, key, position);
  uint64_t number = window_of(windows, sample);
  const ull__tar_window *window = &windows->windows[number];
  ull__philox_block block = ull__philox(key, 1, number);
  ull__permutation inside =
      ull__permutation_create(window->samples, (uint64_t)block.word[1] << 32 | block.word[0]);
  return window->first_sample + ull__permutation_at(&inside, sample - window->first_sample);
}
