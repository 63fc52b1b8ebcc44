/* The kernel's page cache on the loader's behalf.
 *
 * Ahead: while reading is slow (a cold cache), a thread that begins a sample asks the kernel for
 * the one that is due some samples later, so that disk and decoder work at the same time. Behind:
 * where the source is larger than what a cgroup leaves to the cache, a part of the samples that
 * fits is left there, the same one in every epoch, and the pages of all others are given back some
 * samples after they were read (at once, the kernel would look for them in every core's lists and
 * wait for those that are busy). Left to itself the kernel keeps what was read last, which a new
 * order of every epoch asks for last, and reclaims it at a price. Only while reading is slow: what
 * comes out of the cache was put there by somebody whom it serves. */
#include <fcntl.h>

#include "base/error.h"
#include "base/system_limits.h"
#include "data/loader.h"

enum { AWAY_SAMPLES = 32, AHEAD_FOR = 2048, AVERAGED_OVER = 16 };

/* Of what is left to the cache; the rest is for what is read ahead. */
#define KEPT_OF_CACHE 0.85

#define SLOW_READ_NS 150000 /* of a sample; from the cache it takes a fifth of that */

void ull__loader_read_limits(ull_loader *loader) {
  ull__system_limits limits;
  uint64_t left = UINT64_MAX, own = loader->layout.total_bytes + loader->layout.reader_bytes;
  loader->cache_bytes = UINT64_MAX;
  loader->kept_samples = ULL__KEEPS_ALL;
  if (!loader->layout.has_pictures) return;
  if (ull__system_limits_read("", &limits) != ULL_OK) {
    ull_error_clear();
    return;
  }
  for (uint32_t i = 0; i < limits.part_count; i++) {
    const ull__limit_part *part = &limits.parts[i];
    if (part->of_cgroup && part->left_bytes < left) left = part->left_bytes;
  }
  if (left != UINT64_MAX) loader->cache_bytes = left > own ? left - own : 0;
}

void ull__loader_follow_reads(ull_loader *loader, const ull__worker *worker, uint64_t samples) {
  double ns = (double)worker->stage_ticks[ULL_STAGE_READ] * ull__ticks_ns(&loader->ticks);
  uint64_t each = (uint64_t)ns / samples;
  loader->read_ns += each / AVERAGED_OVER;
  loader->read_ns -= loader->read_ns / AVERAGED_OVER;
  if (loader->read_ns > SLOW_READ_NS) loader->ahead_left = AHEAD_FOR;
  if (loader->ahead_left > 0) loader->ahead_left--;
  loader->read_bytes += worker->read_bytes;
  loader->read_samples += samples;
  double all =
      (double)loader->read_bytes / (double)loader->read_samples * (double)loader->source->count;
  double cache = (double)loader->cache_bytes;
  bool fits = all <= cache;
  loader->kept_samples =
      fits ? ULL__KEEPS_ALL : (uint32_t)(KEPT_OF_CACHE * cache / all * ULL__KEEPS_ALL);
}

/* The position that this rank reads AWAY_SAMPLES after a place of a slot, or before; false where it
 * is of another epoch. */
static bool find_position(const ull_loader *loader, const ull__slot *slot, uint64_t place,
                          bool ahead, uint64_t *position) {
  const ull__order *order = &loader->order;
  uint64_t size = order->batch_size, back = ahead ? 0 : (AWAY_SAMPLES + size - 1) / size;
  uint64_t at = place + (ahead ? AWAY_SAMPLES : back * size - AWAY_SAMPLES);
  uint64_t position_then = slot->place.position + at / size * order->global_size + at % size;
  if (position_then < back * order->global_size) return false;
  *position = position_then - back * order->global_size;
  return *position < loader->source->count;
}

/* Failures are found when the sample itself is read. */
static void advise_array(ull_loader *loader, ull__worker *worker, uint64_t stored, size_t array,
                         int advice) {
  const ull__source_kind *kind = loader->source->kind;
  ull__record *record = worker->record;
  if (kind->open_record(loader->source, stored, array, record) != ULL_OK) {
    ull_error_clear();
    return;
  }
  if (record->memory == NULL && record->descriptor >= 0) {
    posix_fadvise(record->descriptor, (off_t)record->offset, (off_t)record->bytes, advice);
  }
  if (kind->close_record != NULL) kind->close_record(loader->source, record);
  ull__record_close(record);
}

/* A fixed part of the samples, wherever they lie. */
static bool is_kept(uint64_t stored, uint32_t kept_samples) {
  return (stored * 0x9e3779b97f4a7c15u) >> 48 < kept_samples;
}

static void advise(ull_loader *loader, ull__worker *worker, const ull__slot *slot,
                   uint64_t position, int advice, uint32_t kept_samples) {
  uint64_t sample = ull__order_sample(&loader->order, &slot->order, position);
  uint64_t stored = ull__source_stored_index(loader->source, sample);
  if (advice == POSIX_FADV_DONTNEED && is_kept(stored, kept_samples)) return;
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    if (loader->arrays[i].content == ULL_CONTENT_ELEMENTS) continue;
    advise_array(loader, worker, stored, loader->arrays[i].binding.array, advice);
  }
}

void ull__loader_advise(ull_loader *loader, ull__worker *worker, const ull__claim *claim,
                        uint32_t kept_samples) {
  uint64_t since = ull__ticks_now(), position;
  if (find_position(loader, claim->slot, claim->first, true, &position))
    advise(loader, worker, claim->slot, position, POSIX_FADV_WILLNEED, kept_samples);
  if (kept_samples < ULL__KEEPS_ALL &&
      find_position(loader, claim->slot, claim->first, false, &position))
    advise(loader, worker, claim->slot, position, POSIX_FADV_DONTNEED, kept_samples);
  ull__loader_stamp(worker, ULL_STAGE_OPEN, since);
}
