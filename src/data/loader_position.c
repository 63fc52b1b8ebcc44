/* Where a stream is, in two forms: epoch and batch for those who count batches, and a state that
 * counts samples of all ranks, for those who come back with other ranks or batches. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/philox.h"
#include "data/loader.h"

enum { STATE_VERSION = 1 };

_Static_assert(sizeof(ull_loader_state) == 56, "the state is stored as it is");

static void read_position(const ull_loader *loader, uint64_t *epoch, uint64_t *position) {
  uint64_t bad;
  pthread_mutex_t *mutex = &((ull_loader *)loader)->mutex;
  pthread_mutex_lock(mutex);
  ull__loader_find_position(loader, epoch, position, &bad);
  pthread_mutex_unlock(mutex);
}

ull_loader_position ull_loader_get_position(const ull_loader *loader) {
  uint64_t epoch, position;
  read_position(loader, &epoch, &position);
  return (ull_loader_position){.epoch = epoch, .batch = position / loader->order.global_size};
}

/* Batches on loan stay what they are. */
void ull__loader_restart(ull_loader *loader) {
  for (int i = 0; i < loader->options.prefetch; i++) {
    ull__slot *slot = &loader->slots[i];
    if (slot->state != ULL__SLOT_LENT) slot->state = ULL__SLOT_FREE;
  }
  loader->gathered = loader->read = NULL;
  loader->claim_sequence = loader->next_sequence = 0;
  loader->claim_sample = 0;
}

/* With the mutex held. */
static ull_status move_locked(ull_loader *loader, uint64_t epoch, uint64_t position) {
  ull__order order = loader->order;
  ULL__TRY(ull__order_move(&order, epoch, position));
  loader->paused = true;
  while (loader->busy > 0) pthread_cond_wait(&loader->ready, &loader->mutex);
  loader->order = order;
  ull__loader_restart(loader);
  ull__loader_go(loader);
  return ULL_OK;
}

static ull_status move(ull_loader *loader, uint64_t epoch, uint64_t position) {
  pthread_mutex_lock(&loader->mutex);
  ull_status status = move_locked(loader, epoch, position);
  pthread_mutex_unlock(&loader->mutex);
  return status;
}

ull_status ull_loader_set_position(ull_loader *loader, ull_loader_position position) {
  uint64_t batches = ull__order_batches_per_epoch(&loader->order);
  uint64_t epochs = loader->options.epochs, most = epochs != 0 ? epochs : UINT64_MAX;
  bool at_end = position.epoch == epochs && position.batch == 0;
  if (position.batch >= batches || (position.epoch >= most && !at_end)) {
    return ULL__FAIL(ULL_ERROR_INVALID,
                     "epoch %" PRIu64 ", batch %" PRIu64 " is no position; an epoch has %" PRIu64
                     " batches",
                     position.epoch, position.batch, batches);
  }
  return move(loader, position.epoch, position.batch * loader->order.global_size);
}

uint64_t ull_loader_batches_per_epoch(const ull_loader *loader) {
  return ull__order_batches_per_epoch(&loader->order);
}

/* ---- state ---- */

static uint64_t check_of(const ull_loader_state *state) {
  ull__philox_block a = ull__philox(state->fingerprint, state->epoch, state->position);
  uint64_t key = (uint64_t)a.word[1] << 32 | a.word[0];
  ull__philox_block b = ull__philox(key ^ state->version, state->seed, state->bad);
  return (uint64_t)b.word[1] << 32 | b.word[0];
}

ull_loader_state ull_loader_get_state(const ull_loader *loader) {
  ull_loader_state state;
  memset(&state, 0, sizeof state);
  state.version = STATE_VERSION;
  state.fingerprint = ull__order_fingerprint(&loader->order);
  state.seed = loader->options.seed;
  pthread_mutex_t *mutex = &((ull_loader *)loader)->mutex;
  pthread_mutex_lock(mutex);
  ull__loader_find_position(loader, &state.epoch, &state.position, &state.bad);
  pthread_mutex_unlock(mutex);
  state.check = check_of(&state);
  return state;
}

static ull_status check_state(const ull_loader *loader, const ull_loader_state *state) {
  if (state->version != STATE_VERSION || state->reserved != 0 || state->check != check_of(state)) {
    return ULL__FAIL(ULL_ERROR_INVALID, "this is no state of a loader, or a damaged one");
  }
  if (state->fingerprint == ull__order_fingerprint(&loader->order)) return ULL_OK;
  if (loader->source->bucket_count > 0) {
    ULL__FAIL(ULL_ERROR_MISMATCH, "the state is that of a stream with another seed, other buckets "
                                  "of lengths or other global batches");
    return ull__error_change(
        "use the same data, buckets, seed, shuffling, drop_last and batch_size "
        "* world_size as when it was taken");
  }
  ULL__FAIL(ULL_ERROR_MISMATCH,
            "the state is that of a stream with seed %" PRIu64 "; this one has seed %" PRIu64
            " and %" PRIu64 " samples",
            state->seed, loader->options.seed, loader->source->count);
  return ull__error_change("use the same data, seed and shuffling as when it was taken");
}

ull_status ull_loader_set_state(ull_loader *loader, const ull_loader_state *state) {
  ULL__TRY(check_state(loader, state));
  pthread_mutex_lock(&loader->mutex);
  ull_status status = move_locked(loader, state->epoch, state->position);
  if (status == ULL_OK) loader->bad = state->bad;
  pthread_mutex_unlock(&loader->mutex);
  return status;
}
