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
  size_t buckets = order->source->bucket_count;
  uint64_t most = samples;
  for (size_t b = 0; b < buckets; b++) {
    uint64_t here = order->source->buckets[b].split.samples;
    if (b == 0 || here > most) most = here;
  }
  ULL__FAIL(ULL_ERROR_DATA, "%s: %" PRIu64 " samples%s do not make one batch of %" PRIu64,
            order->source->text, most, buckets > 1 ? " of one length" : "", order->global_size);
  ull__error_holder("--batch-size %" PRIu64, order->batch_size);
  return ull__error_change("use a batch size of at most %" PRIu64, most / order->world_size);
}

static uint64_t batches_of(const ull__order *order, uint64_t samples) {
  return samples / order->global_size + (!order->drop_last && samples % order->global_size != 0);
}

static ull_status count_positions(ull__order *order) {
  const ull_source *source = order->source;
  uint64_t batches = 0;
  order->positions = source->count;
  if (source->bucket_count == 0) return ULL_OK;
  for (size_t b = 0; b < source->bucket_count; b++)
    batches += batches_of(order, source->buckets[b].split.samples);
  return ull__size_mul(batches, order->global_size, "an epoch", &order->positions);
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
  ULL__TRY(count_positions(order));
  return check_batch(order);
}

/* Batches from `position` to the end of its epoch. */
static uint64_t batches_from(const ull__order *order, uint64_t position) {
  return batches_of(order, order->positions - position);
}

uint64_t ull__order_batches_per_epoch(const ull__order *order) {
  return batches_from(order, 0);
}

ull_status ull__order_move(ull__order *order, uint64_t epoch, uint64_t position) {
  bool known = position <= order->positions && epoch < UINT64_MAX;
  if (order->source->bucket_count > 0) known = known && position % order->global_size == 0;
  if (known && batches_from(order, position) == 0) {
    epoch++;
    position = 0;
  }
  bool ended = order->epochs != 0 && epoch >= order->epochs;
  if (!known || (ended && (epoch > order->epochs || position > 0))) {
    return ULL__FAIL(ULL_ERROR_INVALID,
                     "epoch %" PRIu64 ", sample %" PRIu64 " is no position; an epoch has %" PRIu64
                     " samples",
                     epoch, position, order->positions);
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

/* A batch of a bucket. */
typedef struct bucket_batch {
  size_t bucket;
  uint64_t batch; /* of the bucket */
} bucket_batch;

static bucket_batch find_in_buckets(const ull__order *order, const ull__epoch_order *epoch,
                                    uint64_t position) {
  uint64_t number = position / order->global_size;
  bucket_batch at = {0};
  at.batch = order->shuffle ? ull__permutation_at(&epoch->permutation, number) : number;
  for (;; at.bucket++) {
    uint64_t batches = batches_of(order, order->source->buckets[at.bucket].split.samples);
    if (at.batch < batches) return at;
    at.batch -= batches;
  }
}

/* Samples of the global batch that begins at a position, and their length. */
static uint64_t measure_batch(const ull__order *order, uint64_t epoch, uint64_t start,
                              int64_t *length) {
  uint64_t left = order->positions - start;
  *length = 0;
  if (order->source->bucket_count > 0) {
    ull__epoch_order epoch_order = ull__order_epoch(order, epoch);
    bucket_batch at = find_in_buckets(order, &epoch_order, start);
    const ull_bucket *bucket = &order->source->buckets[at.bucket].split;
    left = bucket->samples - at.batch * order->global_size;
    *length = bucket->length;
  }
  return left < order->global_size ? left : order->global_size;
}

bool ull__order_batch_at(const ull__order *order, uint64_t sequence, ull__order_batch *batch) {
  uint64_t epoch, start;
  locate(order, sequence, &epoch, &start);
  if (order->epochs != 0 && epoch >= order->epochs) return false;
  *batch = (ull__order_batch){.epoch = epoch, .batch = start / order->global_size, .start = start};
  uint64_t total = measure_batch(order, epoch, start, &batch->length);
  uint64_t begin = part_begin(order, order->rank, total);
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
  bool has_buckets = order->source->bucket_count > 0;
  uint64_t count = has_buckets ? order->positions / order->global_size : order->source->count;
  return (ull__epoch_order){ull__permutation_create(count, key), key};
}

static uint64_t bucket_key(uint64_t epoch_key, size_t bucket) {
  ull__philox_block block = ull__philox(epoch_key, 1, bucket);
  return (uint64_t)block.word[1] << 32 | block.word[0];
}

/* The place after `attempt` others in its bucket. */
static uint64_t place_in_bucket(const ull__order *order, const bucket_batch *at, uint64_t position,
                                uint64_t attempt) {
  uint64_t place = at->batch * order->global_size + position % order->global_size;
  return (place + attempt) % order->source->buckets[at->bucket].split.samples;
}

static uint64_t sample_of_bucket(const ull__order *order, const ull__epoch_order *epoch,
                                 uint64_t position, uint64_t attempt) {
  bucket_batch at = find_in_buckets(order, epoch, position);
  const ull_bucket *bucket = &order->source->buckets[at.bucket].split;
  uint64_t place = place_in_bucket(order, &at, position, attempt);
  if (!order->shuffle) return bucket->first + place;
  ull__permutation samples =
      ull__permutation_create(bucket->samples, bucket_key(epoch->key, at.bucket));
  return bucket->first + ull__permutation_at(&samples, place);
}

uint64_t ull__order_stand_in(const ull__order *order, const ull__epoch_order *epoch,
                             uint64_t position, uint64_t attempt) {
  if (order->source->bucket_count > 0) return sample_of_bucket(order, epoch, position, attempt);
  return ull__order_sample(order, epoch, (position + attempt) % order->source->count);
}

uint64_t ull__order_stand_in_place(const ull__order *order, const ull__epoch_order *epoch,
                                   uint64_t position, uint64_t attempt) {
  if (order->source->bucket_count == 0) return (position + attempt) % order->source->count;
  bucket_batch at = find_in_buckets(order, epoch, position);
  return order->source->buckets[at.bucket].split.first +
         place_in_bucket(order, &at, position, attempt);
}

uint64_t ull__order_candidates(const ull__order *order, int64_t length) {
  const ull_source *source = order->source;
  for (size_t b = 0; b < source->bucket_count; b++)
    if (source->buckets[b].split.length == length) return source->buckets[b].split.samples;
  return source->count;
}

uint64_t ull__order_sample(const ull__order *order, const ull__epoch_order *epoch,
                           uint64_t position) {
  const ull_source *source = order->source;
  if (source->bucket_count > 0) return sample_of_bucket(order, epoch, position, 0);
  if (!order->shuffle) return position;
  if (source->kind->order != NULL && !source->has_held_order) {
    return source->kind->order(source, epoch->key, position);
  }
  return ull__permutation_at(&epoch->permutation, position);
}

uint64_t ull__order_fingerprint(const ull__order *order) {
  const ull_source *source = order->source;
  ull__philox_block block = ull__philox(order->key, order->shuffle, source->count);
  uint64_t print = (uint64_t)block.word[3] << 32 | block.word[2];
  for (size_t b = 0; b < source->bucket_count; b++) {
    const ull_bucket *bucket = &source->buckets[b].split;
    block = ull__philox(print ^ order->global_size << 1 ^ order->drop_last,
                        (uint64_t)bucket->length, bucket->samples);
    print = (uint64_t)block.word[3] << 32 | block.word[2];
  }
  return print;
}
