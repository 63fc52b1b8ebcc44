/* Samples of several lengths: which samples of the split, and of the files, a bucket has.
 *
 * A part is held out of every bucket by itself, so that both splits keep a bucket's samples
 * together. */
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "data/source.h"

size_t ull_source_bucket_count(const ull_source *source) {
  return source->bucket_count;
}

const ull_bucket *ull_source_bucket(const ull_source *source, size_t bucket) {
  return bucket < source->bucket_count ? &source->buckets[bucket].split : NULL;
}

const char *ull_source_bucket_lengths(const ull_source *source) {
  return source->bucket_lengths;
}

void ull__source_add_bucket(ull_source *source, int64_t length, uint64_t samples) {
  if (samples == 0 || source->bucket_count == ULL_DATA_MAX_BUCKETS) return;
  uint64_t first = source->stored_count;
  source->buckets[source->bucket_count++] =
      (ull__bucket){.split = {.length = length, .first = first, .samples = samples},
                    .stored_first = first,
                    .stored_samples = samples};
  source->stored_count += samples;
}

static const ull__bucket *find(const ull_source *source, uint64_t sample) {
  const ull__bucket *bucket = source->buckets;
  while (sample - bucket->split.first >= bucket->split.samples) bucket++;
  return bucket;
}

uint64_t ull__bucket_stored_index(const ull_source *source, uint64_t sample) {
  const ull__bucket *bucket = find(source, sample);
  uint64_t within = sample - bucket->split.first;
  if (source->has_held_order)
    within = ull__permutation_at(&bucket->held_order, bucket->held_first + within);
  return bucket->stored_first + within;
}

int64_t ull__source_sample_length(const ull_source *source, uint64_t sample) {
  return source->bucket_count > 0 ? find(source, sample)->split.length : 0;
}

uint64_t ull__source_bytes_of_length(const ull_source *source, size_t array, int64_t length) {
  const ull_array_info *info = &source->arrays[array];
  if (length == 0) return info->sample_bytes;
  return info->sample_bytes / (uint64_t)info->shape[0] * (uint64_t)length;
}

uint64_t ull__buckets_hold_out(ull_source *source, double part, uint64_t key) {
  uint64_t first = 0;
  size_t kept = 0;
  for (size_t b = 0; b < source->bucket_count; b++) {
    ull__bucket bucket = source->buckets[b];
    uint64_t held = (uint64_t)llround((double)bucket.stored_samples * part);
    bool eval = source->split == ULL_SPLIT_EVAL;
    bucket.held_order = ull__permutation_create(bucket.stored_samples, key + b);
    bucket.held_first = eval ? bucket.stored_samples - held : 0;
    bucket.split.first = first;
    bucket.split.samples = eval ? held : bucket.stored_samples - held;
    first += bucket.split.samples;
    if (bucket.split.samples > 0) source->buckets[kept++] = bucket;
  }
  source->bucket_count = kept;
  return first;
}
