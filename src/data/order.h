/* Which samples a batch holds: a function of (seed, epoch, position) that needs no list.
 *
 * An epoch's order is a permutation of the source's samples, or the source's own where it cannot
 * reach every sample at the same price. Positions of the epoch are dealt in **global batches** of
 * batch_size * world_size samples; each rank takes a contiguous part, so that the parts of all
 * ranks, one behind the other, are the same stream for any number of ranks. The last global batch
 * may be short: its samples are dealt in contiguous parts that differ by one at most, and every
 * rank has as many batches as the others, one of them possibly empty.
 *
 * Where samples have several lengths, a global batch is of one bucket. The batches of all buckets
 * together are dealt in a keyed permutation, as are the samples of each bucket to its batches;
 * every bucket has its own short last batch. Positions count batches then: batch i of the epoch
 * begins at i * global_size, whether the ones before were full or not, and a stream begins at
 * batches alone.
 *
 * A stream begins anywhere: at a sample position of some epoch, which need not be a multiple of the
 * global batch. Batches are counted from there by `sequence`. */
#ifndef ULL_DATA_ORDER_H
#define ULL_DATA_ORDER_H

#include "base/permutation.h"
#include "data/source.h"

typedef struct ull__order {
  const ull_source *source; /* borrowed */
  uint64_t batch_size;
  uint64_t global_size;
  uint64_t rank, world_size;
  bool shuffle, drop_last;
  uint64_t epochs; /* 0 = no end */
  uint64_t key;
  uint64_t start_epoch, start_position; /* where sequence 0 begins */
  uint64_t positions;                   /* of an epoch: samples, or batches * global_size */
} ull__order;

/* Checks batch size, rank and world size, and that there is a batch at all. */
ull_status ull__order_create(const ull_loader_options *options, ull__order *order);

/* Batches of an epoch that begins at its first sample. */
uint64_t ull__order_batches_per_epoch(const ull__order *order);

/* Continues at a position of an epoch. Positions with no batch left before the epoch's end mean the
 * next epoch. ULL_ERROR_INVALID beyond the source or the last epoch. */
ull_status ull__order_move(ull__order *order, uint64_t epoch, uint64_t position);

/* One batch of this rank. */
typedef struct ull__order_batch {
  uint64_t epoch;
  uint64_t batch;    /* of the epoch: global position / global_size */
  uint64_t start;    /* global position of the global batch */
  uint64_t position; /* of the rank's first sample */
  uint64_t samples;
  int64_t length; /* of all its samples; 0 without buckets */
} ull__order_batch;

/* False behind the last epoch. */
bool ull__order_batch_at(const ull__order *order, uint64_t sequence, ull__order_batch *batch);

/* Where a stream that ended before batch `sequence` goes on. */
void ull__order_position(const ull__order *order, uint64_t sequence, uint64_t *epoch,
                         uint64_t *position);

/* The order of one epoch, ready to be asked. */
typedef struct ull__epoch_order {
  ull__permutation permutation; /* of samples, or batches where there are buckets */
  uint64_t key;
} ull__epoch_order;

ull__epoch_order ull__order_epoch(const ull__order *order, uint64_t epoch);

/* The sample (of the source's split) at a position below the source's count. */
uint64_t ull__order_sample(const ull__order *order, const ull__epoch_order *epoch,
                           uint64_t position);

/* The sample that stands in for the one at a position after `attempt` bad ones: that many places
 * further in the epoch's order, or in that of the bucket. */
uint64_t ull__order_stand_in(const ull__order *order, const ull__epoch_order *epoch,
                             uint64_t position, uint64_t attempt);

/* The place of that sample in the order of the epoch, or of its bucket: below the source's count,
 * another for each sample. */
uint64_t ull__order_stand_in_place(const ull__order *order, const ull__epoch_order *epoch,
                                   uint64_t position, uint64_t attempt);

/* Samples that can stand in for that of a batch, itself among them. */
uint64_t ull__order_candidates(const ull__order *order, int64_t length);

/* A number that differs where seed, number of samples or shuffling do; with buckets also where
 * their lengths, the global batch or drop_last do. */
uint64_t ull__order_fingerprint(const ull__order *order);

#endif
