/* A whole batch: the gaps of bad samples that were left out are closed, so that what is lent is
 * contiguous. */
#include <string.h>

#include "base/error.h"
#include "data/loader.h"

static void move_sample(const ull_loader *loader, ull__slot *slot, uint64_t from, uint64_t to) {
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    const ull__loader_array *array = &loader->arrays[i];
    uint8_t *data = slot->data + array->offset;
    memcpy(data + to * array->sample_bytes, data + from * array->sample_bytes, array->sample_bytes);
  }
  slot->sample_index[to] = slot->sample_index[from];
  slot->verdict[to] = slot->verdict[from];
  slot->used_verdict[to] = slot->used_verdict[from];
}

static uint64_t close_gaps(const ull_loader *loader, ull__slot *slot) {
  uint64_t kept = 0;
  for (uint64_t place = 0; place < slot->place.samples; place++) {
    if (ull_verdict_is_bad((ull_verdict)slot->asked[place])) continue;
    if (kept != place) move_sample(loader, slot, place, kept);
    kept++;
  }
  return kept;
}

static bool dies_here(const ull_loader *loader, const ull__slot *slot) {
  if (loader->fault != ULL__LOADER_FAULT_FINISH || loader->fault_at == 0) return false;
  return (loader->fault_at - 1) / loader->options.batch_size == slot->sequence;
}

ull_status ull__loader_finish(ull_loader *loader, ull__slot *slot) {
  if (dies_here(loader, slot)) {
    ull__sample_result result;
    return ull__loader_die(loader, &result);
  }
  if (loader->options.on_bad == ULL_ON_BAD_SKIP) {
    uint64_t kept = close_gaps(loader, slot);
    slot->batch.skipped = slot->place.samples - kept;
    slot->batch.samples = kept;
  }
  return ULL_OK;
}
