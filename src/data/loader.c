/* The consumer's side of the ring: create, lend, take back, move, destroy. Batches are lent
 * strictly in order; a failure is reported when its batch is due, never earlier, so that what was
 * delivered does not depend on threads. */
#include "data/loader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/philox.h"

enum { BLOCK_ALIGNMENT = 64 };

ull_binding ull_binding_default(const ull_source *source, size_t array) {
  ull_binding binding = {.array = array};
  const ull_array_info *info = ull_source_array(source, array);
  if (info == NULL) return binding;
  binding.name = info->name;
  binding.dtype = info->dtype;
  binding.rank = info->rank;
  memcpy(binding.shape, info->shape, sizeof binding.shape);
  return binding;
}

ull_loader_options ull_loader_options_default(const ull_source *source) {
  return (ull_loader_options){
      .source = source, .batch_size = 64, .workers = 2, .prefetch = 4, .shuffle = true};
}

static ull_status take_block(const ull_loader_options *options, uint64_t bytes, void **block) {
  if (options->memory != NULL) {
    if (options->memory_bytes < bytes || (uintptr_t)options->memory % BLOCK_ALIGNMENT != 0) {
      ULL__FAIL(ULL_ERROR_INVALID, "the loader needs %" PRIu64 " bytes at %d-byte alignment", bytes,
                BLOCK_ALIGNMENT);
      return ull__error_bytes(bytes, options->memory_bytes);
    }
    *block = options->memory;
  } else if (options->allocate != NULL) {
    *block = options->allocate(options->context, bytes, BLOCK_ALIGNMENT);
  } else {
    *block = ull__alloc_aligned(BLOCK_ALIGNMENT, bytes);
  }
  if (*block != NULL) return ULL_OK;
  ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "no memory for a loader of %" PRIu64 " bytes", bytes);
  ull__error_change("use a smaller --prefetch or --batch-size");
  return ull__error_bytes(bytes, 0);
}

static void give_block(const ull_loader_options *options, void *block, uint64_t bytes) {
  if (options->memory != NULL) return;
  if (options->allocate == NULL) {
    ull__free(block);
  } else if (options->deallocate != NULL) {
    options->deallocate(options->context, block, bytes);
  }
}

static uint64_t read_fault(void) {
  static const char prefix[] = "loader:";
  const char *text = getenv("ULLAGE_FAULT");
  if (text == NULL || strncmp(text, prefix, sizeof prefix - 1) != 0) return 0;
  return strtoull(text + sizeof prefix - 1, NULL, 10);
}

static ull_status check_ranges(const ull_loader_options *options) {
  for (size_t i = 0; i < options->binding_count; i++) {
    const ull_binding *binding = &options->bindings[i];
    if (!binding->has_range) continue;
    ULL__TRY(ull_source_check_range(options->source, binding->array, binding->minimum,
                                    binding->maximum));
  }
  return ULL_OK;
}

static void set_keys(ull_loader *loader) {
  loader->order_key_seed = ull__philox_key(loader->options.seed, "data order");
  loader->augment_key = ull__philox_key(loader->options.seed, "augment");
  loader->fault_at = read_fault();
}

static ull_loader *build(void *block, const ull_loader_options *options,
                         const ull__loader_layout *layout) {
  ull_loader *loader = block;
  memset(block, 0, layout->data);
  loader->options = *options;
  loader->options.bindings = NULL;
  if (options->source->fixed) loader->options.shuffle = false;
  loader->source = options->source;
  loader->layout = *layout;
  loader->block = block;
  loader->arrays = (ull__loader_array *)((uint8_t *)block + layout->arrays);
  uint64_t batches = layout->batches_per_epoch;
  bool bounded = options->epochs != 0 && options->epochs <= UINT64_MAX / batches;
  loader->end_step = bounded ? options->epochs * batches : UINT64_MAX;
  set_keys(loader);
  return loader;
}

ull_status ull_loader_create(const ull_loader_options *options, ull_loader **out) {
  ull__loader_layout layout;
  void *block;
  *out = NULL;
  ULL__TRY(ull__loader_plan(options, &layout, NULL));
  ULL__TRY(check_ranges(options));
  ULL__TRY(take_block(options, layout.total_bytes, &block));
  ull_loader *loader = build(block, options, &layout);
  ull_status status = ull__loader_plan(options, &layout, loader->arrays);
  ull__loader_place(loader);
  pthread_mutex_init(&loader->mutex, NULL);
  pthread_cond_init(&loader->work, NULL);
  pthread_cond_init(&loader->ready, NULL);
  if (status == ULL_OK) status = ull__loader_start_workers(loader);
  if (status != ULL_OK) {
    ull_loader_destroy(loader);
    return status;
  }
  *out = loader;
  return ULL_OK;
}

void ull_loader_destroy(ull_loader *loader) {
  if (loader == NULL) return;
  ull__loader_stop_workers(loader);
  pthread_cond_destroy(&loader->ready);
  pthread_cond_destroy(&loader->work);
  pthread_mutex_destroy(&loader->mutex);
  ull_loader_options options = loader->options;
  give_block(&options, loader->block, loader->layout.total_bytes);
}

static void wait_for_slot(ull_loader *loader, ull__slot *slot) {
  if (loader->options.workers == 0) {
    ull__loader_fill_inline(loader);
    return;
  }
  while (!ull__slot_is_complete(slot, loader->next_step) && loader->live_workers > 0) {
    pthread_cond_wait(&loader->ready, &loader->mutex);
  }
}

static ull_status too_many_bad(const ull_loader *loader, uint64_t replaced) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: %" PRIu64 " samples were unusable; %" PRIu64 " are allowed",
            loader->source->text, replaced, loader->options.max_bad);
  ull__error_holder("--max-bad %" PRIu64, loader->options.max_bad);
  return ull__error_change("mend the data, or raise --max-bad");
}

/* Whether the slot that is due may be lent. */
static ull_status judge_slot(const ull_loader *loader, const ull__slot *slot) {
  bool current = slot->state == ULL__SLOT_FILLING && slot->step == loader->next_step;
  if (current && slot->failed) return ull__error_restore(&slot->error);
  if (!ull__slot_is_complete(slot, loader->next_step)) {
    if (loader->death.status != ULL_OK) return ull__error_restore(&loader->death);
    return ULL__FAIL(ULL_ERROR_INTERNAL, "no loader thread is left");
  }
  uint64_t replaced = loader->counts.replaced + slot->replaced;
  return replaced > loader->options.max_bad ? too_many_bad(loader, replaced) : ULL_OK;
}

static void lend(ull_loader *loader, ull__slot *slot, uint64_t wait_ns) {
  ull_loader_counts *counts = &loader->counts;
  slot->state = ULL__SLOT_LENT;
  slot->batch.replaced = slot->replaced;
  slot->batch.wait_ns = wait_ns;
  counts->samples += slot->batch.samples;
  counts->wait_ns += wait_ns;
  counts->replaced += slot->replaced;
  for (uint64_t i = 0; i < slot->batch.samples; i++) counts->verdicts[slot->verdict[i]]++;
  loader->next_step++;
}

static ull_status next_locked(ull_loader *loader, const ull_batch **batch) {
  if (loader->next_step >= loader->end_step) return ULL_OK;
  ull__slot *slot = ull__loader_slot(loader, loader->next_step);
  if (slot->state == ULL__SLOT_LENT) {
    return ULL__FAIL(
        ULL_ERROR_INVALID,
        "the oldest of %d batch slots is still on loan; release it before the next batch",
        loader->options.prefetch);
  }
  uint64_t wait_ns = 0;
  if (!ull__slot_is_complete(slot, loader->next_step)) {
    uint64_t start_ns = ull__clock_now_ns();
    wait_for_slot(loader, slot);
    wait_ns = ull__clock_now_ns() - start_ns;
  }
  ULL__TRY(judge_slot(loader, slot));
  lend(loader, slot, wait_ns);
  *batch = &slot->batch;
  return ULL_OK;
}

ull_status ull_loader_next(ull_loader *loader, const ull_batch **batch) {
  *batch = NULL;
  pthread_mutex_lock(&loader->mutex);
  ull_status status = next_locked(loader, batch);
  pthread_mutex_unlock(&loader->mutex);
  return status;
}

void ull_loader_release(ull_loader *loader, const ull_batch *batch) {
  if (batch == NULL) return;
  pthread_mutex_lock(&loader->mutex);
  ull__slot *slot = ull__loader_slot(loader, batch->step);
  if (&slot->batch == batch && slot->state == ULL__SLOT_LENT) {
    slot->state = ULL__SLOT_FREE;
    pthread_cond_broadcast(&loader->work);
  }
  pthread_mutex_unlock(&loader->mutex);
}

ull_loader_position ull_loader_get_position(const ull_loader *loader) {
  pthread_mutex_t *mutex = &((ull_loader *)loader)->mutex;
  pthread_mutex_lock(mutex);
  uint64_t step = loader->next_step;
  pthread_mutex_unlock(mutex);
  return (ull_loader_position){.epoch = step / loader->layout.batches_per_epoch,
                               .batch = step % loader->layout.batches_per_epoch};
}

static ull_status step_of(const ull_loader *loader, ull_loader_position position, uint64_t *step) {
  uint64_t batches = loader->layout.batches_per_epoch;
  bool known = position.batch < batches && position.epoch < UINT64_MAX / batches;
  *step = known ? position.epoch * batches + position.batch : 0;
  if (known && *step <= loader->end_step) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID,
                   "epoch %" PRIu64 ", batch %" PRIu64 " is no position; an epoch has %" PRIu64
                   " batches",
                   position.epoch, position.batch, batches);
}

static bool any_lent(const ull_loader *loader) {
  for (int i = 0; i < loader->options.prefetch; i++) {
    if (loader->slots[i].state == ULL__SLOT_LENT) return true;
  }
  return false;
}

/* With the mutex held and no claim under way, everything in the ring is forgotten. */
static void restart(ull_loader *loader, uint64_t step) {
  for (int i = 0; i < loader->options.prefetch; i++) loader->slots[i].state = ULL__SLOT_FREE;
  loader->claim_step = loader->next_step = loader->first_step = step;
  loader->claim_sample = 0;
}

ull_status ull_loader_set_position(ull_loader *loader, ull_loader_position position) {
  uint64_t step;
  ULL__TRY(step_of(loader, position, &step));
  pthread_mutex_lock(&loader->mutex);
  bool lent = any_lent(loader);
  if (!lent) {
    loader->paused = true;
    while (loader->busy > 0) pthread_cond_wait(&loader->ready, &loader->mutex);
    restart(loader, step);
    loader->paused = false;
    pthread_cond_broadcast(&loader->work);
  }
  pthread_mutex_unlock(&loader->mutex);
  return lent ? ULL__FAIL(ULL_ERROR_INVALID, "a batch is on loan; release it before moving")
              : ULL_OK;
}

uint64_t ull_loader_batches_per_epoch(const ull_loader *loader) {
  return loader->layout.batches_per_epoch;
}

ull_loader_counts ull_loader_count(const ull_loader *loader) {
  pthread_mutex_t *mutex = &((ull_loader *)loader)->mutex;
  pthread_mutex_lock(mutex);
  ull_loader_counts counts = loader->counts;
  pthread_mutex_unlock(mutex);
  return counts;
}
