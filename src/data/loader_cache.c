/* The kernel's page cache on the loader's behalf.
 *
 * Ahead: while reading is slow (a cold cache), a thread that begins a sample asks the kernel for
 * the one that is due some samples later, so that disk and decoder work at the same time. Behind:
 * where the source is larger than what a cgroup leaves to the cache, pages are given back as soon
 * as they were read: they would be evicted before they are read again, and reclaiming them costs
 * more. */
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/system_limits.h"
#include "data/loader.h"

enum { AHEAD_SAMPLES = 32, AHEAD_FOR = 2048, AVERAGED_OVER = 16 };

#define SLOW_READ_NS 150000 /* of a sample; from the cache it takes a fifth of that */

static bool is_cgroup(const ull__limit_part *part) {
  return strncmp(part->name, "cgroup ", 7) == 0;
}

void ull__loader_read_limits(ull_loader *loader) {
  ull__system_limits limits;
  uint64_t left = UINT64_MAX, own = loader->layout.total_bytes + loader->layout.reader_bytes;
  loader->cache_bytes = UINT64_MAX;
  if (!loader->layout.has_pictures) return;
  if (ull__system_limits_read("", &limits) != ULL_OK) {
    ull_error_clear();
    return;
  }
  for (uint32_t i = 0; i < limits.part_count; i++) {
    const ull__limit_part *part = &limits.parts[i];
    if (is_cgroup(part) && part->left_bytes < left) left = part->left_bytes;
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
  loader->drops_behind = all > (double)loader->cache_bytes;
}

/* The position that this rank reads `ahead` samples after a place of a slot. */
static uint64_t position_ahead(const ull_loader *loader, const ull__slot *slot, uint64_t place) {
  const ull__order *order = &loader->order;
  uint64_t at = place + AHEAD_SAMPLES, batch = at / order->batch_size;
  return slot->place.position + batch * order->global_size + at % order->batch_size;
}

/* Failures are found when the sample itself is read. */
static void ask_for(ull_loader *loader, ull__worker *worker, uint64_t stored, size_t array) {
  const ull__source_kind *kind = loader->source->kind;
  ull__record *record = worker->record;
  if (kind->open_record(loader->source, stored, array, record) != ULL_OK) {
    ull_error_clear();
    return;
  }
  if (record->memory == NULL && record->descriptor >= 0) {
    posix_fadvise(record->descriptor, (off_t)record->offset, (off_t)record->bytes,
                  POSIX_FADV_WILLNEED);
  }
  if (kind->close_record != NULL) kind->close_record(loader->source, record);
  ull__record_close(record);
}

void ull__loader_read_ahead(ull_loader *loader, ull__worker *worker, const ull__claim *claim) {
  uint64_t since = ull__ticks_now();
  uint64_t position = position_ahead(loader, claim->slot, claim->first);
  if (position >= loader->source->count) return;
  uint64_t sample = ull__order_sample(&loader->order, &claim->slot->order, position);
  uint64_t stored = ull__source_stored_index(loader->source, sample);
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    if (loader->arrays[i].content == ULL_CONTENT_ELEMENTS) continue;
    ask_for(loader, worker, stored, loader->arrays[i].binding.array);
  }
  ull__loader_stamp(worker, ULL_STAGE_OPEN, since);
}

void ull__loader_leave_record(const ull__worker *worker) {
  const ull__record *record = worker->record;
  if (!worker->drops_behind || record->memory != NULL || record->descriptor < 0) return;
  posix_fadvise(record->descriptor, (off_t)record->offset, (off_t)record->bytes,
                POSIX_FADV_DONTNEED);
}
