/* The arrays of one sample, each into its place in the batch. */
#include <inttypes.h>

#include "base/error.h"
#include "data/loader.h"

static ull_status read_elements(ull_loader *loader, uint64_t sample, size_t array, void *to,
                                ull__worker *worker, ull_verdict *verdict) {
  uint64_t since = ull__ticks_now();
  ull_status status = ull_source_read(loader->source, sample, array, to, verdict);
  ull__loader_stamp(worker, ULL_STAGE_READ, since);
  return status;
}

/* The conversion of as many elements as samples of that length have. */
static const ull__conversion *suit_length(const ull__loader_array *array, int64_t length,
                                          ull__conversion *shorter) {
  if (length == 0 || length == array->binding.shape[0]) return &array->conversion;
  *shorter = array->conversion;
  shorter->elements =
      array->conversion.elements / (uint64_t)array->binding.shape[0] * (uint64_t)length;
  return shorter;
}

static ull_status fill_elements(ull_loader *loader, ull__worker *worker, const ull__slot *slot,
                                const ull__loader_array *array, uint64_t sample, uint64_t place,
                                ull__sample_result *result) {
  uint64_t bytes = ull__loader_sample_bytes(array, slot->place.length);
  uint8_t *to = slot->data + array->offset + place * bytes;
  if (array->soft) to = slot->data + array->classes_offset + place * sizeof(int64_t);
  uint8_t *scratch = worker->scratch.memory;
  ull__conversion shorter;
  const ull__conversion *conversion = suit_length(array, slot->place.length, &shorter);
  size_t number = array->binding.array;
  if (conversion->copies) {
    return read_elements(loader, sample, number, to, worker, &result->verdict);
  }
  ULL__TRY(read_elements(loader, sample, number, scratch, worker, &result->verdict));
  uint64_t since = ull__ticks_now();
  uint64_t stored = ull__source_stored_index(loader->source, sample);
  ull__move move = {0};
  if (conversion->moves) {
    move = ull__draw_move(&loader->options.augment, loader->augment_key, slot->place.epoch, stored);
  }
  ull_status status = ull__convert(conversion, move, scratch, to);
  ull__loader_stamp(worker, ULL_STAGE_CONVERT, since);
  if (array->raw_bytes > worker->scratch.peak) worker->scratch.peak = array->raw_bytes;
  if (status == ULL_OK) return ULL_OK;
  result->verdict = ULL_VERDICT_DAMAGED;
  return ull__error_context("%s: sample %" PRIu64 " of '%s'", loader->source->text, stored,
                            loader->source->arrays[number].name);
}

static ull_status fill_all_elements(ull_loader *loader, ull__worker *worker, ull__slot *slot,
                                    uint64_t sample, uint64_t place, ull__sample_result *worst) {
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    const ull__loader_array *array = &loader->arrays[i];
    if (array->content != ULL_CONTENT_ELEMENTS) continue;
    ull__sample_result result = {.verdict = ULL_VERDICT_OK};
    ull_status status = fill_elements(loader, worker, slot, array, sample, place, &result);
    if (result.verdict > worst->verdict) worst->verdict = result.verdict;
    ULL__TRY(status);
  }
  return ULL_OK;
}

ull_status ull__loader_fill_sample(ull_loader *loader, ull__worker *worker, ull__slot *slot,
                                   uint64_t sample, uint64_t place, ull__loader_fault fault,
                                   ull__sample_result *result) {
  if (fault == ULL__LOADER_FAULT_CLAIM) return ull__loader_die(loader, result);
  if (!loader->layout.has_pictures) {
    if (fault == ULL__LOADER_FAULT_READ) return ull__loader_die(loader, result);
    ULL__TRY(fill_all_elements(loader, worker, slot, sample, place, result));
    bool dies = fault == ULL__LOADER_FAULT_DECODE || fault == ULL__LOADER_FAULT_TRANSFORM;
    return dies ? ull__loader_die(loader, result) : ULL_OK;
  }
  ULL__TRY(ull__loader_fill_pictures(loader, worker, slot, sample, place, fault, result));
  return fill_all_elements(loader, worker, slot, sample, place, result);
}
