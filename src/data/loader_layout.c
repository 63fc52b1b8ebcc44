/* What a loader takes and where everything lies, computed from its options alone:
 * ull_loader_bound_bytes and ull_loader_create walk the same code, so that the promise and the
 * loader cannot differ. */
#include <inttypes.h>

#include "base/checked.h"
#include "base/error.h"
#include "data/augment.h"
#include "data/image/changes.h"
#include "data/loader.h"

enum { ALIGNMENT = 64, PAGE = 4096, WORKERS_MAX = 1024, PREFETCH_MAX = 65536 };

#define THREAD_BYTES ((uint64_t)1 << 20)
#define LARGE_BYTES ((uint64_t)32 << 20)

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
  if (options->standby < ULL_STANDBY_NONE || options->standby > WORKERS_MAX) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%d loader threads that stand by; -1 to %d",
                     options->standby, WORKERS_MAX);
  }
  if (options->prefetch < 1 || options->prefetch > PREFETCH_MAX) {
    ULL__FAIL(ULL_ERROR_USAGE, "%d batch slots; 1 to %d", options->prefetch, PREFETCH_MAX);
    return ull__error_holder("--prefetch %d", options->prefetch);
  }
  return ULL_OK;
}

/* A batch is filled up from the next one, which must be of the same length and on the same rank. */
static ull_status check_refill(const ull_loader_options *options) {
  if (!options->refill) return ULL_OK;
  if (options->on_bad != ULL_ON_BAD_SKIP)
    return ULL__FAIL(ULL_ERROR_INVALID,
                     "only batches from which samples are left out are refilled");
  if (options->world_size > 1) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED,
              "batches that are filled up are not equally many on %" PRIu64
              " ranks: what is bad on one is not on the others",
              options->world_size);
  } else if (options->source->bucket_count > 0) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED,
              "samples of several lengths: what follows a batch is of another "
              "length and cannot fill it up");
  } else if (options->prefetch < 2) {
    ULL__FAIL(ULL_ERROR_USAGE, "one batch slot: a batch is filled up from the next one");
    ull__error_holder("--prefetch %d", options->prefetch);
    return ull__error_change("use a --prefetch of at least 2");
  } else {
    return ULL_OK;
  }
  ull__error_holder("--on-bad skip");
  return ull__error_change("--on-bad replace: the next good sample takes the place of a bad one");
}

bool ull__loader_has_pictures(const ull_loader_options *options) {
  for (size_t i = 0; i < options->binding_count; i++) {
    const ull_array_info *info = ull_source_array(options->source, options->bindings[i].array);
    if (info != NULL && info->content != ULL_CONTENT_ELEMENTS) return true;
  }
  return false;
}

/* Appends `count` items of `bytes` to the block; *at becomes their offset. */
static ull_status append(uint64_t *total, uint64_t count, uint64_t bytes, uint64_t *at) {
  uint64_t size;
  ULL__TRY(ull__size_align(*total, ALIGNMENT, "the loader", total));
  ULL__TRY(ull__size_mul(count, bytes, "the loader", &size));
  *at = *total;
  return ull__size_add(*total, size, "the loader", total);
}

/* A class number bound as [classes] float32: shares of classes, which a batch may mix. */
static bool is_soft(const ull_array_info *info, const ull_binding *binding) {
  uint64_t elements = info->sample_bytes / ull_dtype_bytes(info->dtype);
  return info->role == ULL_ARRAY_TARGET && elements == 1 && !ull__dtype_is_float(info->dtype) &&
         binding->dtype == ULL_FLOAT32 && binding->rank == 1 && binding->shape[0] > 1;
}

static ull_status plan_elements(const ull_loader_options *options, const ull_array_info *info,
                                ull__loader_array *array) {
  const ull_augment none = {0};
  const ull_augment *augment = options->source->fixed ? &none : &options->augment;
  ull_binding binding = array->binding;
  array->raw_bytes = info->sample_bytes;
  array->soft = is_soft(info, &binding);
  if (array->soft) {
    array->sample_bytes = (uint64_t)binding.shape[0] * sizeof(float);
    binding.dtype = ULL_INT64;
    binding.rank = 0;
    return ull__conversion_create(info, &binding, augment, &array->conversion);
  }
  ULL__TRY(ull__conversion_create(info, &binding, augment, &array->conversion));
  if (info->image) {
    array->channels = (int)info->shape[0];
    array->height = array->conversion.height;
    array->width = array->conversion.width;
  }
  return ull__size_mul(array->conversion.elements, ull_dtype_bytes(binding.dtype), binding.name,
                       &array->sample_bytes);
}

/* With buckets the first extent is the length of a batch, and that of an array. */
static ull_status check_lengths(const ull_loader_options *options, const ull_array_info *info,
                                const ull_binding *binding) {
  bool same = binding->rank == info->rank;
  if (options->source->bucket_count == 0) return ULL_OK;
  for (int d = 0; same && d < info->rank; d++) same = binding->shape[d] == info->shape[d];
  if (same && info->rank > 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_MISMATCH, "'%s' has samples of several lengths, which keep their shape",
            info->name);
  return ull__error_holder("'%s' of the model", binding->name);
}

static ull_status plan_array(const ull_loader_options *options, const ull_binding *binding,
                             ull__loader_array *array) {
  const ull_array_info *info = ull_source_array(options->source, binding->array);
  if (info == NULL) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: there is no array %zu for '%s'", options->source->text,
                     binding->array, binding->name);
  }
  array->binding = *binding;
  array->content = info->content;
  ULL__TRY(check_lengths(options, info, binding));
  if (info->content == ULL_CONTENT_ELEMENTS) return plan_elements(options, info, array);
  return ull__loader_plan_picture(info, array);
}

static ull_status plan_slot(const ull_loader_options *options, ull__loader_layout *layout,
                            ull__loader_array *arrays) {
  uint64_t total = 0, scratch = 0;
  for (size_t i = 0; i < options->binding_count; i++) {
    ull__loader_array array = {0};
    ULL__TRY(plan_array(options, &options->bindings[i], &array));
    ULL__TRY(append(&total, options->batch_size, array.sample_bytes, &array.offset));
    bool converts = array.content == ULL_CONTENT_ELEMENTS && !array.conversion.copies;
    if (array.soft) {
      ULL__TRY(append(&total, options->batch_size, sizeof(int64_t), &array.classes_offset));
    }
    if (converts && array.raw_bytes > scratch) scratch = array.raw_bytes;
    if (arrays != NULL) arrays[i] = array;
  }
  ULL__TRY(append(&total, options->batch_size, sizeof(uint64_t), &layout->slot_index_offset));
  ULL__TRY(append(&total, options->batch_size, 3, &layout->slot_verdict_offset));
  if (layout->has_pictures) {
    ULL__TRY(append(&total, options->batch_size, sizeof(char *), &layout->slot_reason_offset));
  }
  ULL__TRY(ull__size_align(total, ALIGNMENT, "a batch", &layout->slot_stride));
  return ull__size_align(scratch, ALIGNMENT, "a sample", &layout->scratch_stride);
}

/* The largest canvas of the pictures bound; 0 where pixels stay as they are after resizing. */
static ull_status plan_canvas(const ull_loader_options *options, uint64_t *bytes) {
  *bytes = 0;
  if (!ull__augment_changes_pixels(&options->augment)) return ULL_OK;
  for (size_t i = 0; i < options->binding_count; i++) {
    ull__loader_array array = {0};
    uint64_t needed;
    ULL__TRY(plan_array(options, &options->bindings[i], &array));
    if (array.content == ULL_CONTENT_ELEMENTS) continue;
    ULL__TRY(ull__canvas_bytes(array.channels, array.width, array.height, &needed));
    if (needed > *bytes) *bytes = needed;
  }
  return ull__size_align(*bytes, ALIGNMENT, "a canvas", bytes);
}

/* Memory for pictures: each thread's, and the region that they share. */
static ull_status plan_pictures(const ull_loader_options *options, ull__loader_layout *layout) {
  if (!layout->has_pictures) return ULL_OK;
  uint64_t bytes = options->thread_bytes > 0 ? options->thread_bytes : THREAD_BYTES;
  ULL__TRY(ull__size_add(bytes, ull__image_fixed_bytes(), "a thread", &bytes));
  if (bytes > layout->scratch_stride) layout->scratch_stride = bytes;
  ULL__TRY(ull__size_align(layout->scratch_stride, ALIGNMENT, "a thread", &layout->scratch_stride));
  layout->large_bytes = options->large_bytes > 0 ? options->large_bytes : LARGE_BYTES;
  if (layout->large_bytes < bytes) layout->large_bytes = bytes;
  ULL__TRY(plan_canvas(options, &layout->canvas_bytes));
  ULL__TRY(ull__size_add(layout->scratch_stride, layout->canvas_bytes, "a thread",
                         &layout->scratch_stride));
  ULL__TRY(ull__size_align(layout->large_bytes, PAGE, "a picture", &layout->large_bytes));
  return ull__size_mul(layout->fillers, ull__image_reader_bytes(), "decoders",
                       &layout->reader_bytes);
}

/* Two at least, since one may be held up as well. */
static int suit_standby(const ull_loader_options *options) {
  if (options->workers == 0 || options->standby == ULL_STANDBY_NONE) return 0;
  if (options->standby > 0) return options->standby;
  if (options->source->kind->open_record == NULL) return 0;
  return options->workers < 4 ? 2 : options->workers / 2;
}

static ull_status plan_block(const ull_loader_options *options, ull__loader_layout *layout) {
  uint64_t total = sizeof(ull_loader), slots = (uint64_t)options->prefetch;
  uint64_t bindings = options->binding_count, fillers = layout->fillers;
  ULL__TRY(append(&total, bindings, sizeof(ull__loader_array), &layout->arrays));
  ULL__TRY(append(&total, slots, sizeof(ull__slot), &layout->slots));
  ULL__TRY(append(&total, slots * bindings, sizeof(ull_batch_array), &layout->slot_arrays));
  ULL__TRY(append(&total, fillers, sizeof(ull__worker), &layout->workers));
  uint64_t record_bytes = layout->has_pictures ? sizeof(ull__record) : 0;
  ULL__TRY(append(&total, fillers, record_bytes, &layout->records));
  ULL__TRY(append(&total, layout->known_bad_entries, sizeof(uint64_t), &layout->known_bad));
  ULL__TRY(append(&total, fillers, layout->scratch_stride, &layout->scratch));
  ULL__TRY(append(&total, 1, layout->large_bytes, &layout->large));
  ULL__TRY(append(&total, slots, layout->slot_stride, &layout->data));
  return ull__size_align(total, ALIGNMENT, "the loader", &layout->total_bytes);
}

/* What only encoded pictures take would change nothing, and nobody would know. */
static ull_status check_augment(const ull_loader_options *options, bool has_pictures) {
  const ull_augment *augment = &options->augment;
  bool for_pictures = augment->framing != ULL_FRAMING_UNSET || augment->erase_probability > 0 ||
                      ull__augment_changes_pixels(augment);
  if (!for_pictures || has_pictures || options->source->fixed) return ULL_OK;
  char text[256];
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has no encoded pictures for the augmentation '%s'",
            ull_source_text(options->source), ull_augment_describe(augment, text, sizeof text));
  ull__error_holder("--augment");
  return ull__error_change("keep to crop, flip, vflip, mixup and cutmix");
}

ull_status ull__loader_plan(const ull_loader_options *options, ull__loader_layout *layout,
                            ull__loader_array *arrays) {
  ull__order order;
  *layout = (ull__loader_layout){0};
  ULL__TRY(check_counts(options));
  ULL__TRY(check_refill(options));
  ULL__TRY(ull__order_create(options, &order));
  layout->has_pictures = ull__loader_has_pictures(options);
  ULL__TRY(check_augment(options, layout->has_pictures));
  layout->standby = suit_standby(options);
  layout->fillers = options->workers > 0 ? (uint64_t)(options->workers + layout->standby) : 1;
  if (options->on_bad == ULL_ON_BAD_REPLACE)
    layout->known_bad_entries = ull__known_bad_entries(options->source->count);
  ULL__TRY(plan_slot(options, layout, arrays));
  ULL__TRY(plan_pictures(options, layout));
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
  slot->used_verdict = slot->verdict + loader->options.batch_size;
  slot->asked = slot->used_verdict + loader->options.batch_size;
  if (layout->has_pictures) slot->reason = (const char **)(slot->data + layout->slot_reason_offset);
  slot->batch = (ull_batch){.arrays = slot->arrays, .array_count = bindings};
  slot->batch.sample_index = slot->sample_index;
  slot->batch.verdict = slot->verdict;
  slot->batch.used_verdict = slot->used_verdict;
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
  loader->known_bad.places = (_Atomic uint64_t *)(block + layout->known_bad);
  loader->known_bad.count = layout->known_bad_entries;
  loader->large = ull__scratch_over(block + layout->large, layout->large_bytes);
  bool from_heap = loader->options.memory == NULL && loader->options.allocate == NULL;
  loader->large_resident = from_heap ? 0 : layout->large_bytes;
  for (uint64_t i = 0; i < (uint64_t)loader->options.prefetch; i++) place_slot(loader, i);
  for (uint64_t i = 0; i < layout->fillers; i++) {
    ull__worker *worker = &loader->workers[i];
    *worker = (ull__worker){.loader = loader, .index = (int)i};
    worker->standby = loader->options.workers > 0 && (int)i >= loader->options.workers;
    if (layout->has_pictures) worker->record = (ull__record *)(block + layout->records) + i;
    worker->scratch = ull__scratch_over(block + layout->scratch + i * layout->scratch_stride,
                                        layout->scratch_stride);
  }
}

ull_status ull_loader_bound_bytes(const ull_loader_options *options, ull_loader_bound *out) {
  ull__loader_layout layout;
  ULL__TRY(ull__loader_plan(options, &layout, NULL));
  uint64_t data_bytes = layout.slot_stride * (uint64_t)options->prefetch;
  uint64_t scratch_bytes = layout.scratch_stride * layout.fillers;
  *out = (ull_loader_bound){
      .slot_bytes = layout.slot_stride,
      .scratch_bytes = layout.scratch_stride,
      .control_bytes = layout.total_bytes - data_bytes - scratch_bytes - layout.large_bytes,
      .total_bytes = layout.total_bytes,
      .source_bytes = options->source->resident_bytes,
      .large_bytes = layout.large_bytes,
      .threads = layout.fillers,
      .slots = (uint64_t)options->prefetch,
      .reader_bytes = layout.reader_bytes,
  };
  return ULL_OK;
}
