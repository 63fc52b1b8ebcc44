/* One sample into its place in a batch: which one it is, what replaces it when it is bad, how it is
 * augmented. All of it is a function of (seed, epoch, position) and of what the samples are like;
 * threads do not matter. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "data/loader.h"

static uint64_t sample_at(const ull_loader *loader, const ull__slot *slot, uint64_t position) {
  if (!loader->options.shuffle) return position;
  return ull__permutation_at(&slot->order, position);
}

static ull_status fill_array(ull_loader *loader, const ull__slot *slot,
                             const ull__loader_array *array, uint64_t sample, uint64_t place,
                             uint8_t *scratch, ull_verdict *verdict) {
  uint8_t *to = slot->data + array->offset + place * array->sample_bytes;
  const ull__conversion *conversion = &array->conversion;
  if (conversion->copies) {
    return ull_source_read(loader->source, sample, array->binding.array, to, verdict);
  }
  ULL__TRY(ull_source_read(loader->source, sample, array->binding.array, scratch, verdict));
  uint64_t stored = ull__source_stored_index(loader->source, sample);
  ull__move move = {0};
  if (conversion->moves) {
    move = ull__draw_move(&loader->options.augment, loader->augment_key, slot->batch.epoch, stored);
  }
  if (ull__convert(conversion, move, scratch, to) == ULL_OK) return ULL_OK;
  *verdict = ULL_VERDICT_DAMAGED;
  return ull__error_context("%s: sample %" PRIu64 " of '%s'", loader->source->text, stored,
                            loader->source->arrays[array->binding.array].name);
}

/* Fills all arrays of one sample; the verdict is the worst of them. */
static ull_status fill_arrays(ull_loader *loader, const ull__slot *slot, uint64_t sample,
                              uint64_t place, uint8_t *scratch, ull_verdict *worst) {
  *worst = ULL_VERDICT_OK;
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    ull_verdict verdict = ULL_VERDICT_OK;
    ull_status status =
        fill_array(loader, slot, &loader->arrays[i], sample, place, scratch, &verdict);
    if (verdict > *worst) *worst = verdict;
    if (status != ULL_OK) return status;
  }
  return ULL_OK;
}

/* A run of more bad samples than max_bad is not searched to its end. */
static bool may_replace(const ull_loader *loader, ull_status status, uint64_t attempt) {
  return loader->options.on_bad == ULL_ON_BAD_REPLACE && attempt < loader->options.max_bad &&
         (status == ULL_ERROR_DATA || status == ULL_ERROR_IO);
}

static ull_status fill_sample(ull_loader *loader, ull__slot *slot, uint64_t place, uint8_t *scratch,
                              uint64_t *replaced) {
  uint64_t count = loader->source->count;
  uint64_t position = slot->batch.batch * loader->options.batch_size + place;
  for (uint64_t attempt = 0;; attempt++) {
    ull_verdict verdict;
    uint64_t sample = sample_at(loader, slot, (position + attempt) % count);
    ull_status status = fill_arrays(loader, slot, sample, place, scratch, &verdict);
    if (attempt == 0) slot->verdict[place] = (uint8_t)verdict;
    slot->sample_index[place] = sample;
    if (status == ULL_OK || !may_replace(loader, status, attempt) || attempt + 1 == count) {
      *replaced += status == ULL_OK && attempt > 0;
      return status;
    }
  }
}

static bool must_die(const ull_loader *loader, const ull__slot *slot, uint64_t place) {
  if (loader->fault_at == 0) return false;
  uint64_t earlier = (slot->step - loader->first_step) * loader->options.batch_size;
  return earlier + place + 1 == loader->fault_at;
}

static void fail_at(ull__outcome *outcome, uint64_t place) {
  outcome->failed = true;
  outcome->failed_at = place;
  outcome->error = *ull_error_last();
}

void ull__loader_fill(ull_loader *loader, const ull__claim *claim, uint8_t *scratch,
                      ull__outcome *outcome) {
  *outcome = (ull__outcome){0};
  for (uint64_t i = 0; i < claim->count && !outcome->failed; i++) {
    uint64_t place = claim->first + i;
    if (must_die(loader, claim->slot, place)) {
      ULL__FAIL(ULL_ERROR_INTERNAL, "a loader thread died at sample %" PRIu64, loader->fault_at);
      ull__error_holder("ULLAGE_FAULT=loader:%" PRIu64, loader->fault_at);
      outcome->died = true;
      fail_at(outcome, place);
    } else if (fill_sample(loader, claim->slot, place, scratch, &outcome->replaced) != ULL_OK) {
      fail_at(outcome, place);
    }
  }
}
