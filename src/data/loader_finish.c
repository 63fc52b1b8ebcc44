/* A whole batch: the gaps of bad samples that were left out are closed, so that what is lent is
 * contiguous; then samples are mixed, and class numbers become shares of classes. */
#include <string.h>

#include "base/error.h"
#include "data/loader.h"
#include "data/mix.h"

void ull__loader_move_sample(const ull_loader *loader, const ull__slot *from, uint64_t from_place,
                             ull__slot *to, uint64_t to_place) {
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    const ull__loader_array *array = &loader->arrays[i];
    uint64_t bytes = ull__loader_sample_bytes(array, from->place.length), at = array->offset;
    if (array->soft) {
      bytes = sizeof(int64_t);
      at = array->classes_offset;
    }
    memcpy(to->data + at + to_place * bytes, from->data + at + from_place * bytes, bytes);
  }
  to->sample_index[to_place] = from->sample_index[from_place];
  to->verdict[to_place] = from->verdict[from_place];
  to->used_verdict[to_place] = from->used_verdict[from_place];
}

static uint64_t close_gaps(const ull_loader *loader, ull__slot *slot) {
  uint64_t kept = 0;
  for (uint64_t place = 0; place < slot->place.samples; place++) {
    if (ull_verdict_is_bad((ull_verdict)slot->asked[place])) continue;
    if (kept != place) ull__loader_move_sample(loader, slot, place, slot, kept);
    kept++;
  }
  return kept;
}

/* Of one array: the mix drawn for its own size, which has the same numbers. */
static void mix_array(const ull_loader *loader, ull__slot *slot, const ull__loader_array *array) {
  ull_batch *batch = &slot->batch;
  ull__mix mix = ull__mix_draw(&loader->options.augment, loader->augment_key, batch->epoch,
                               batch->batch, batch->samples, array->width, array->height);
  if (mix.kind == ULL__MIX_NONE) return;
  if (array->content == ULL_CONTENT_MASK && mix.kind != ULL__MIX_CUT) return;
  ull__mix_array images = {.data = slot->data + array->offset,
                           .dtype = array->binding.dtype,
                           .samples = batch->samples,
                           .channels = array->channels,
                           .height = array->height,
                           .width = array->width,
                           .channels_last = array->binding.channels_last};
  ull__mix_images(&mix, &images);
}

/* The mix that labels follow: that of the first picture. A fixed source is not augmented. */
static ull__mix find_mix(const ull_loader *loader, const ull__slot *slot) {
  const ull_batch *batch = &slot->batch;
  for (size_t i = 0; i < loader->options.binding_count && !loader->source->fixed; i++) {
    const ull__loader_array *array = &loader->arrays[i];
    if (array->width == 0 || array->content == ULL_CONTENT_MASK) continue;
    return ull__mix_draw(&loader->options.augment, loader->augment_key, batch->epoch, batch->batch,
                         batch->samples, array->width, array->height);
  }
  return (ull__mix){.kind = ULL__MIX_NONE, .lambda = 1};
}

ull_status ull__loader_mix(const ull_loader *loader, ull__slot *slot) {
  ull__mix mix = find_mix(loader, slot);
  ull_batch *batch = &slot->batch;
  bool mixed = mix.kind != ULL__MIX_NONE;
  batch->mix_lambda = mixed ? mix.lambda : 1;
  batch->mix_distance = mixed ? mix.distance : 0;
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    const ull__loader_array *array = &loader->arrays[i];
    if (mixed && array->width > 0) mix_array(loader, slot, array);
    if (!array->soft) continue;
    ULL__TRY(ull__mix_labels(&mix, (const int64_t *)(slot->data + array->classes_offset),
                             batch->samples, (uint64_t)array->binding.shape[0],
                             (float *)(slot->data + array->offset)));
  }
  return ULL_OK;
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
  if (loader->options.refill) return ULL_OK; /* the batch is gathered and mixed when it is due */
  if (loader->options.on_bad == ULL_ON_BAD_SKIP) {
    uint64_t kept = close_gaps(loader, slot);
    slot->batch.skipped = slot->place.samples - kept;
    slot->batch.samples = kept;
  }
  return ull__loader_mix(loader, slot);
}
