/* A whole batch: the gaps of bad samples that were left out are closed, so that what is lent is
 * contiguous; then samples are mixed, and class numbers become shares of classes. */
#include <string.h>

#include "base/error.h"
#include "data/loader.h"
#include "data/mix.h"

static void move_sample(const ull_loader *loader, ull__slot *slot, uint64_t from, uint64_t to) {
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    const ull__loader_array *array = &loader->arrays[i];
    uint8_t *data = slot->data + array->offset;
    if (array->soft) {
      int64_t *classes = (int64_t *)(slot->data + array->classes_offset);
      classes[to] = classes[from];
      continue;
    }
    uint64_t bytes = ull__loader_sample_bytes(array, slot->place.length);
    memcpy(data + to * bytes, data + from * bytes, bytes);
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

static ull_status mix_batch(const ull_loader *loader, ull__slot *slot) {
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
  if (loader->options.on_bad == ULL_ON_BAD_SKIP) {
    uint64_t kept = close_gaps(loader, slot);
    slot->batch.skipped = slot->place.samples - kept;
    slot->batch.samples = kept;
  }
  return mix_batch(loader, slot);
}
