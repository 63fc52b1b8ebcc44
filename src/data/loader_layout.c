/* What a loader takes and where everything lies, computed from its options alone:
 * ull_loader_bound_bytes and ull_loader_create walk the same code, so that the promise and the
 * loader cannot differ. */
#include <inttypes.h>

#include "base/checked.h"
#include "base/error.h"
#include "data/loader.h"

enum { ALIGNMENT = 64, WORKERS_MAX = 1024, PREFETCH_MAX = 65536 };

static ull_status check_counts(const ull_loader_options *options) {
  if (options->source == NULL || options->bindings == NULL || options->binding_count == 0) {
    return ULL__FAIL(ULL_ERROR_INVALID, "a loader needs a source and at least one binding");
  }
  if (options->binding_count > ULL_DATA_MAX_ARRAYS) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%zu bindings; at most %d", options->binding_count,
                     ULL_DATA_MAX_ARRAYS);
  }
  if (options->batch_size == 0) {
    ULL__FAIL(ULL_ERROR_USAGE, "a batch of 0 samples");
    ull__error_holder("--batch-size 0");
    return ull__error_change("give a batch size of at least 1");
  }
  if (options->workers < 0 || options->workers > WORKERS_MAX) {
    ULL__FAIL(ULL_ERROR_USAGE, "%d loader threads; 0 to %d", options->workers, WORKERS_MAX);
    return ull__error_holder("--workers %d", options->workers);
  }
  if (options->prefetch < 1 || options->prefetch > PREFETCH_MAX) {
    ULL__FAIL(ULL_ERROR_USAGE, "%d batch slots; 1 to %d", options->prefetch, PREFETCH_MAX);
    return ull__error_holder("--prefetch %d", options->prefetch);
  }
  return ULL_OK;
}

static ull_status count_batches(const ull_loader_options *options, uint64_t *batches) {
  uint64_t samples = options->source->count, size = options->batch_size;
  *batches = samples / size + (!options->drop_last && samples % size != 0);
  if (*batches > 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: %" PRIu64 " samples do not make one batch of %" PRIu64,
            options->source->text, samples, size);
  ull__error_holder("--batch-size %" PRIu64, size);
  return ull__error_change("use a batch size of at most %" PRIu64, samples);
}

/* Appends `count` items of `bytes` to the block; *at becomes their offset. */
static ull_status append(uint64_t *total, uint64_t count, uint64_t bytes, uint64_t *at) {
  uint64_t size;
  ULL__TRY(ull__size_align(*total, ALIGNMENT, "the loader", total));
  ULL__TRY(ull__size_mul(count, bytes, "the loader", &size));
  *at = *total;
  return ull__size_add(*total, size, "the loader", total);
}

static ull_status plan_array(const ull_loader_options *options, const ull_binding *binding,
                             ull__loader_array *array) {
  const ull_array_info *info = ull_source_array(options->source, binding->array);
  if (info == NULL) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: there is no array %zu for '%s'", options->source->text,
                     binding->array, binding->name);
  }
  const ull_augment none = {0};
  const ull_augment *augment = options->source->fixed ? &none : &options->augment;
  ULL__TRY(ull__conversion_create(info, binding, augment, &array->conversion));
  array->binding = *binding;
  array->raw_bytes = info->sample_bytes;
  return ull__size_mul(array->conversion.elements, ull_dtype_bytes(binding->dtype), binding->name,
                       &array->sample_bytes);
}

static ull_status plan_slot(const ull_loader_options *options, ull__loader_layout *layout,
                            ull__loader_array *arrays) {
  uint64_t total = 0, scratch = 0;
  for (size_t i = 0; i < options->binding_count; i++) {
    ull__loader_array array = {0};
    ULL__TRY(plan_array(options, &options->bindings[i], &array));
    ULL__TRY(append(&total, options->batch_size, array.sample_bytes, &array.offset));
    if (!array.conversion.copies && array.raw_bytes > scratch) scratch = array.raw_bytes;
    if (arrays != NULL) arrays[i] = array;
  }
  ULL__TRY(append(&total, options->batch_size, sizeof(uint64_t), &layout->slot_index_offset));
  ULL__TRY(append(&total, options->batch_size, 1, &layout->slot_verdict_offset));
  ULL__TRY(ull__size_align(total, ALIGNMENT, "a batch", &layout->slot_stride));
  return ull__size_align(scratch, ALIGNMENT, "a sample", &layout->scratch_stride);
}

static uint64_t filler_count(const ull_loader_options *options) {
  return options->workers > 0 ? (uint64_t)options->workers : 1;
}

static ull_status plan_block(const ull_loader_options *options, ull__loader_layout *layout) {
  uint64_t total = sizeof(ull_loader), slots = (uint64_t)options->prefetch;
  uint64_t bindings = options->binding_count, fillers = filler_count(options);
  ULL__TRY(append(&total, bindings, sizeof(ull__loader_array), &layout->arrays));
  ULL__TRY(append(&total, slots, sizeof(ull__slot), &layout->slots));
  ULL__TRY(append(&total, slots * bindings, sizeof(ull_batch_array), &layout->slot_arrays));
  ULL__TRY(append(&total, fillers, sizeof(ull__worker), &layout->workers));
  ULL__TRY(append(&total, fillers, layout->scratch_stride, &layout->scratch));
  ULL__TRY(append(&total, slots, layout->slot_stride, &layout->data));
  return ull__size_align(total, ALIGNMENT, "the loader", &layout->total_bytes);
}

ull_status ull__loader_plan(const ull_loader_options *options, ull__loader_layout *layout,
                            ull__loader_array *arrays) {
  *layout = (ull__loader_layout){0};
  ULL__TRY(check_counts(options));
  ULL__TRY(count_batches(options, &layout->batches_per_epoch));
  ULL__TRY(plan_slot(options, layout, arrays));
  return plan_block(options, layout);
}

static void place_slot(ull_loader *loader, uint64_t index) {
  ull__loader_layout *layout = &loader->layout;
  uint8_t *block = loader->block;
  ull__slot *slot = &loader->slots[index];
  size_t bindings = loader->options.binding_count;
  slot->arrays = (ull_batch_array *)(block + layout->slot_arrays) + index * bindings;
  slot->data = block + layout->data + index * layout->slot_stride;
  slot->sample_index = (uint64_t *)(slot->data + layout->slot_index_offset);
  slot->verdict = slot->data + layout->slot_verdict_offset;
  slot->batch = (ull_batch){.arrays = slot->arrays, .array_count = bindings};
  slot->batch.sample_index = slot->sample_index;
  slot->batch.verdict = slot->verdict;
  for (size_t i = 0; i < bindings; i++) {
    const ull_binding *binding = &loader->arrays[i].binding;
    slot->arrays[i] = (ull_batch_array){
        .name = binding->name, .dtype = binding->dtype, .rank = binding->rank + 1};
    slot->arrays[i].data = slot->data + loader->arrays[i].offset;
    for (int d = 0; d < binding->rank; d++) slot->arrays[i].shape[d + 1] = binding->shape[d];
  }
}

void ull__loader_place(ull_loader *loader) {
  ull__loader_layout *layout = &loader->layout;
  uint8_t *block = loader->block;
  loader->slots = (ull__slot *)(block + layout->slots);
  loader->workers = (ull__worker *)(block + layout->workers);
  for (uint64_t i = 0; i < (uint64_t)loader->options.prefetch; i++) place_slot(loader, i);
  for (uint64_t i = 0; i < filler_count(&loader->options); i++) {
    loader->workers[i] = (ull__worker){.loader = loader, .index = (int)i};
    loader->workers[i].scratch = block + layout->scratch + i * layout->scratch_stride;
  }
}

ull_status ull_loader_bound_bytes(const ull_loader_options *options, ull_loader_bound *out) {
  ull__loader_layout layout;
  ULL__TRY(ull__loader_plan(options, &layout, NULL));
  uint64_t data_bytes = layout.slot_stride * (uint64_t)options->prefetch;
  uint64_t scratch_bytes = layout.scratch_stride * filler_count(options);
  *out = (ull_loader_bound){
      .slot_bytes = layout.slot_stride,
      .scratch_bytes = layout.scratch_stride,
      .control_bytes = layout.total_bytes - data_bytes - scratch_bytes,
      .total_bytes = layout.total_bytes,
      .source_bytes = options->source->resident_bytes,
  };
  return ULL_OK;
}

static ull_status total_bytes(const ull_loader_options *options, uint64_t *bytes) {
  ull__loader_layout layout;
  ULL__TRY(ull__loader_plan(options, &layout, NULL));
  *bytes = layout.total_bytes;
  return ULL_OK;
}

static ull_status refuse_budget(uint64_t needed_bytes, uint64_t budget_bytes) {
  ULL__FAIL(ULL_ERROR_DOES_NOT_FIT,
            "the loader needs %" PRIu64 " bytes for one batch and one thread", needed_bytes);
  ull__error_holder("--loader-memory %" PRIu64, budget_bytes);
  ull__error_change("allow %" PRIu64 " bytes, or use a smaller --batch-size", needed_bytes);
  return ull__error_bytes(needed_bytes, budget_bytes);
}

ull_status ull_loader_fit(ull_loader_options *options, uint64_t budget_bytes) {
  ull_loader_options smaller = *options;
  uint64_t bytes;
  ULL__TRY(total_bytes(&smaller, &bytes));
  while (bytes > budget_bytes && (smaller.prefetch > 1 || smaller.workers > 1)) {
    if (smaller.prefetch > 1) {
      smaller.prefetch--;
    } else {
      smaller.workers--;
    }
    ULL__TRY(total_bytes(&smaller, &bytes));
  }
  if (bytes > budget_bytes) return refuse_budget(bytes, budget_bytes);
  *options = smaller;
  return ULL_OK;
}
