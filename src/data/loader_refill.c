/* Batches that keep their size although bad samples are left out (options.refill).
 *
 * Threads fill slots with the samples of fixed positions, as ever. The caller's side reads them
 * place after place: good samples are gathered in the slot they come from, or, once it was read to
 * its end, behind the others of a slot that has room left. A batch is full with its last good
 * sample, and whatever comes behind belongs to the next: where a batch begins is a position of the
 * epoch, what it holds a function of that position and the verdicts. So a state needs no more than
 * it has, and where nothing is bad nothing is moved. */
#include <inttypes.h>

#include "base/error.h"
#include "data/loader.h"

/* With the mutex held. Nothing of it is left to be read. */
static void leave_read(ull_loader *loader) {
  if (loader->read != loader->gathered) {
    loader->read->state = ULL__SLOT_FREE;
    pthread_cond_broadcast(&loader->work);
  }
  loader->read = NULL;
}

/* The next slot, to be read from its first place on; false at the end of the epoch that is
 * gathered, or of the stream. */
static ull_status read_next(ull_loader *loader, bool *found, uint64_t *wait_ns) {
  ull__order_batch place;
  ull__slot *slot;
  *found = ull__order_batch_at(&loader->order, loader->next_sequence, &place) &&
           (loader->gathered == NULL || loader->gathered->batch.epoch == place.epoch);
  if (!*found) return ULL_OK;
  ULL__TRY(ull__loader_await(loader, &slot, wait_ns));
  slot->state = ULL__SLOT_KEPT;
  loader->next_sequence++;
  loader->read = slot;
  loader->read_place = 0;
  return ULL_OK;
}

/* A batch begins at the place that is read next. Its number is that of a batch without bad samples
 * that would hold its first position: other batches have others. */
static void begin_batch(ull_loader *loader) {
  ull__slot *slot = loader->gathered = loader->read;
  uint64_t position = slot->place.position + loader->read_place;
  loader->gathered_position = position;
  slot->batch.batch = position / loader->order.global_size;
  slot->batch.step =
      slot->place.epoch * ull__order_batches_per_epoch(&loader->order) + slot->batch.batch;
  slot->batch.samples = 0;
  slot->batch.skipped = 0;
}

/* With the mutex held, but not while samples are moved: a loan may be given back meanwhile. */
static void gather_places(ull_loader *loader) {
  ull__slot *to = loader->gathered, *from = loader->read;
  uint64_t places = from->place.samples;
  while (loader->read_place < places && to->batch.samples < loader->options.batch_size) {
    uint64_t place = loader->read_place++;
    ull__loader_book_place(loader, from, place);
    if (ull_verdict_is_bad((ull_verdict)from->asked[place])) {
      to->batch.skipped++;
      continue;
    }
    uint64_t at = to->batch.samples++;
    if (from == to && at == place) continue;
    pthread_mutex_unlock(&loader->mutex);
    ull__loader_move_sample(loader, from, place, to, at);
    pthread_mutex_lock(&loader->mutex);
  }
  if (loader->read_place == places) leave_read(loader);
}

/* Gathers until the batch is full, or there is no more of its epoch. */
static ull_status fill_up(ull_loader *loader, uint64_t *wait_ns) {
  bool more = true;
  while (loader->gathered == NULL || loader->gathered->batch.samples < loader->options.batch_size) {
    if (loader->read == NULL) ULL__TRY(read_next(loader, &more, wait_ns));
    if (!more) return ULL_OK;
    if (loader->gathered == NULL) begin_batch(loader);
    gather_places(loader);
  }
  return ULL_OK;
}

/* An epoch that does not make one batch would be followed by others like it for ever. */
static ull_status check_epoch(const ull_loader *loader) {
  const ull_batch *batch = &loader->gathered->batch;
  uint64_t all = loader->source->count;
  if (loader->options.drop_last) all -= all % loader->options.batch_size;
  if (batch->samples + batch->skipped < all) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: %" PRIu64 " of %" PRIu64 " samples are unusable: not one batch",
            loader->source->text, batch->skipped, all);
  ull__error_holder("%s", loader->source->text);
  return ull__error_change("mend the data; ullage data scan tells what is wrong with every file");
}

static void drop_gathered(ull_loader *loader) {
  loader->gathered->state = ULL__SLOT_FREE;
  loader->gathered = NULL;
  pthread_cond_broadcast(&loader->work);
}

static bool is_worth(const ull_loader *loader) {
  uint64_t samples = loader->gathered->batch.samples;
  return samples == loader->options.batch_size || (samples > 0 && !loader->options.drop_last);
}

/* The mutex is not needed for a batch that nobody else knows. */
static ull_status mix(ull_loader *loader, ull__slot *slot) {
  pthread_mutex_unlock(&loader->mutex);
  ull_status status = ull__loader_mix(loader, slot);
  pthread_mutex_lock(&loader->mutex);
  return status;
}

ull_status ull__loader_gather(ull_loader *loader, ull__slot **slot, uint64_t *wait_ns) {
  *slot = NULL;
  for (;;) {
    ULL__TRY(fill_up(loader, wait_ns));
    if (loader->gathered == NULL) return ULL_OK;
    ULL__TRY(ull__loader_check_bad(loader, NULL));
    if (is_worth(loader)) break;
    ULL__TRY(check_epoch(loader));
    drop_gathered(loader);
  }
  *slot = loader->gathered;
  loader->gathered = NULL;
  return mix(loader, *slot);
}

void ull__loader_find_position(const ull_loader *loader, uint64_t *epoch, uint64_t *position,
                               uint64_t *bad) {
  ull__order_position(&loader->order, loader->next_sequence, epoch, position);
  *bad = loader->bad;
  if (loader->gathered != NULL) { /* it failed before it was full */
    *epoch = loader->gathered->batch.epoch;
    *position = loader->gathered_position;
    *bad -= loader->gathered->batch.skipped;
  } else if (loader->read != NULL) {
    *epoch = loader->read->place.epoch;
    *position = loader->read->place.position + loader->read_place;
  }
}
