/* All positions are below the source's count; sums of a position and a global batch are checked
 * when the order is created. */
#include "data/order.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/philox.h"

static ull_status check_ranks(const ull_loader_options *options, uint64_t *rank, uint64_t *world) {
  *world = options->world_size > 0 ? options->world_size : 1;
  *rank = options->rank;
  if (*rank < *world) return ULL_OK;
  ULL__FAIL(ULL_ERROR_USAGE, "rank %" PRIu64 " of %" PRIu64 "; ranks count from 0", *rank, *world);
  return ull__error_holder("--rank %" PRIu64, *rank);
}

static ull_status check_batch(const ull__order *order) {
  uint64_t samples = order->source->count, end;
  ULL__TRY(ull__size_add(samples, order->global_size, "a global batch", &end));
  if (ull__order_batches_per_epoch(order) > 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: %" PRIu64 " samples do not make one batch of %" PRIu64,
            order->source->text, samples, order->global_size);
  ull__error_holder("--batch-size %" PRIu64, order->batch_size);
  return ull__error_change("use a batch size of at most %" PRIu64, samples / order->world_size);
}

ull_status ull__order_create(const ull_loader_options *options, ull__order *order) {
  *order = (ull__order){.source = options->source,
                        .batch_size = options->batch_size,
                        .drop_last = options->drop_last,
                        .epochs = options->epochs};
  ULL__TRY(check_ranks(options, &order->rank, &order->world_size));
  ULL__TRY(
      ull__size_mul(order->batch_size, order->world_size, "a global batch", &order->global_size));
  order->shuffle = options->shuffle && !options->source->fixed;
  order->key = ull__philox_key(options->seed, "data order");
  return check_batch(order);
}

/* Batches from `position` to the end of its epoch. */
static uint64_t batches_from(const ull__order *order, uint64_t position) {
  uint64_t left = order->source->count - position;
  return left / order->global_size + (!order->drop_last && left % order->global_size != 0);
}

uint64_t ull__order_batches_per_epoch(const ull__order *order) {
  return batches_from(order, 0);
}

ull_status ull__order_move(ull__order *order, uint64_t epoch, uint64_t position) {
  bool known = position <= order->source->count && epoch < UINT64_MAX;
  if (known && batches_from(order, position) == 0) {
    epoch++;
    position = 0;
  }
  bool ended = order->epochs != 0 && epoch >= order->epochs;
  if (!known || (ended && (epoch > order->epochs || position > 0))) {
    return ULL__FAIL(ULL_ERROR_INVALID,
                     "epoch %" PRIu64 ", sample %" PRIu64 " is no position; an epoch has %" PRIu64
                     " samples",
                     epoch, position, order->source->count);
  }
  order->start_epoch = epoch;
  order->start_position = position;
  return ULL_OK;
}

/* The global batch of a sequence number: its epoch and first position. */
static void locate(const ull__order *order, uint64_t sequence, uint64_t *epoch, uint64_t *start) {
  uint64_t first = batches_from(order, order->start_position);
  if (sequence < first) {
    *epoch = order->start_epoch;
    *start = order->start_position + sequence * order->global_size;
    return;
  }
  uint64_t batches = ull__order_batches_per_epoch(order), later = sequence - first;
  *epoch = order->start_epoch + 1 + later / batches;
  *start = later % batches * order->global_size;
}

/* Part `rank` of a global batch of `total` samples: full parts, or parts that differ by one. */
static uint64_t part_begin(const ull__order *order, uint64_t rank, uint64_t total) {
  if (total == order->global_size) return rank * order->batch_size;
  return (uint64_t)((unsigned __int128)total * rank / order->world_size);
}

bool ull__order_batch_at(const ull__order *order, uint64_t sequence, ull__order_batch *batch) {
  uint64_t epoch, start;
  locate(order, sequence, &epoch, &start);
  if (order->epochs != 0 && epoch >= order->epochs) return false;
  uint64_t left = order->source->count - start;
  uint64_t total = left < order->global_size ? left : order->global_size;
  uint64_t begin = part_begin(order, order->rank, total);
  *batch = (ull__order_batch){.epoch = epoch, .batch = start / order->global_size, .start = start};
  batch->position = start + begin;
  batch->samples = part_begin(order, order->rank + 1, total) - begin;
  return true;
}

void ull__order_position(const ull__order *order, uint64_t sequence, uint64_t *epoch,
                         uint64_t *position) {
  locate(order, sequence, epoch, position);
}

ull__epoch_order ull__order_epoch(const ull__order *order, uint64_t epoch) {
  ull__philox_block block = ull__philox(order->key, 0, epoch);
  uint64_t key = (uint64_t)block.word[1] << 32 | block.word[0];
  return (ull__epoch_order){ull__permutation_create(order->source->count, key), key};
}

uint64_t ull__order_sample(const ull__order *order, const ull__epoch_order *epoch,
                           uint64_t position) {
  const ull_source *source = order->source;
  if (!order->shuffle) return position;
  if (source->kind->order != NULL && !source->has_held_order) {
    return source->kind->order(source, epoch->key, position);
  }
  return ull__permutation_at(&epoch->permutation, position);
}

uint64_t ull__order_fingerprint(const ull__order *order) {
  ull__philox_block block = ull__philox(order->key, order->shuffle, order->source->count);
  return (uint64_t)block.word[3] << 32 | block.word[2];
}
