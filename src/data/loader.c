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

#define NS_PER_S UINT64_C(1000000000)

enum { BLOCK_ALIGNMENT = 4096, LEAST_ALIGNMENT = 64, DEFAULT_SIDE = 224 };

ull_binding ull_binding_default(const ull_source *source, size_t array) {
  ull_binding binding = {.array = array};
  const ull_array_info *info = ull_source_array(source, array);
  if (info == NULL) return binding;
  binding.name = info->name;
  binding.dtype = info->dtype;
  binding.rank = info->rank;
  memcpy(binding.shape, info->shape, sizeof binding.shape);
  if (info->content == ULL_CONTENT_ELEMENTS) return binding;
  bool mask = info->content == ULL_CONTENT_MASK;
  binding.dtype = ULL_UINT8;
  binding.rank = mask ? 2 : 3;
  if (!mask) binding.shape[0] = 3;
  binding.shape[binding.rank - 2] = binding.shape[binding.rank - 1] = DEFAULT_SIDE;
  return binding;
}

ull_loader_options ull_loader_options_default(const ull_source *source) {
  return (ull_loader_options){
      .source = source, .batch_size = 64, .workers = 2, .prefetch = 4, .shuffle = true};
}

static ull_status take_block(const ull_loader_options *options, uint64_t bytes, void **block) {
  if (options->memory != NULL) {
    if (options->memory_bytes < bytes || (uintptr_t)options->memory % LEAST_ALIGNMENT != 0) {
      ULL__FAIL(ULL_ERROR_INVALID, "the loader needs %" PRIu64 " bytes at %d-byte alignment", bytes,
                LEAST_ALIGNMENT);
      return ull__error_bytes(bytes, options->memory_bytes);
    }
    *block = options->memory;
  } else if (options->allocate != NULL) {
    *block = options->allocate(options->context, bytes, LEAST_ALIGNMENT);
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

/* "stage:n" for one of the loader's stages. */
static void read_fault(ull_loader *loader) {
  static const struct {
    const char *prefix;
    ull__loader_fault fault;
  } stages[] = {{"loader:", ULL__LOADER_FAULT_CLAIM},
                {"read:", ULL__LOADER_FAULT_READ},
                {"decode:", ULL__LOADER_FAULT_DECODE},
                {"transform:", ULL__LOADER_FAULT_TRANSFORM},
                {"finish:", ULL__LOADER_FAULT_FINISH}};
  const char *text = getenv("ULLAGE_FAULT");
  for (size_t i = 0; text != NULL && i < sizeof stages / sizeof *stages; i++) {
    size_t length = strlen(stages[i].prefix);
    if (strncmp(text, stages[i].prefix, length) != 0) continue;
    loader->fault = stages[i].fault;
    loader->fault_at = strtoull(text + length, NULL, 10);
  }
}

static ull_status check_ranges(const ull_loader_options *options) {
  for (size_t i = 0; i < options->binding_count; i++) {
    ULL__TRY(ull__source_check_binding(options->source, &options->bindings[i]));
  }
  return ULL_OK;
}

static ull_loader *build(void *block, const ull_loader_options *options,
                         const ull__loader_layout *layout) {
  ull_loader *loader = block;
  memset(block, 0, layout->large); /* scratch too: what is resident does not creep up later */
  loader->options = *options;
  loader->options.bindings = NULL;
  loader->source = options->source;
  loader->layout = *layout;
  loader->block = block;
  loader->arrays = (ull__loader_array *)((uint8_t *)block + layout->arrays);
  loader->augment_key = ull__philox_key(options->seed, "augment");
  loader->wanted_workers = options->workers;
  loader->paused = true; /* until the first batch is asked for, or a place is set */
  loader->ticks = ull__ticks_begin();
  read_fault(loader);
  return loader;
}

static void init_locks(ull_loader *loader) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&loader->mutex, NULL);
  pthread_mutex_init(&loader->large_mutex, NULL);
  pthread_cond_init(&loader->work, NULL);
  pthread_cond_init(&loader->late, &monotonic);
  pthread_cond_init(&loader->relief, NULL);
  pthread_cond_init(&loader->ready, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static ull_status create_readers(ull_loader *loader) {
  if (!loader->layout.has_pictures) return ULL_OK;
  ull__image_limits limits = {.pixels = loader->options.max_pixels,
                              .memory_bytes = loader->layout.large_bytes};
  for (uint64_t i = 0; i < loader->layout.fillers; i++) {
    ULL__TRY(ull__image_reader_create(&limits, &loader->workers[i].reader));
  }
  return ULL_OK;
}

/* With the memory at hand. */
static ull_status start(ull_loader *loader, const ull_loader_options *options) {
  ull__loader_layout layout;
  ULL__TRY(ull__loader_plan(options, &layout, loader->arrays));
  ULL__TRY(ull__order_create(options, &loader->order));
  ull__loader_place(loader);
  ull__loader_read_limits(loader);
  ULL__TRY(create_readers(loader));
  return ull__loader_start_workers(loader);
}

ull_status ull_loader_create(const ull_loader_options *options, ull_loader **out) {
  ull__loader_layout layout;
  void *block;
  *out = NULL;
  ULL__TRY(ull__loader_plan(options, &layout, NULL));
  ULL__TRY(check_ranges(options));
  ULL__TRY(take_block(options, layout.total_bytes, &block));
  ull_loader *loader = build(block, options, &layout);
  init_locks(loader);
  ull_status status = start(loader, options);
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
  for (uint64_t i = 0; loader->workers != NULL && i < loader->layout.fillers; i++) {
    ull__image_reader_destroy(loader->workers[i].reader);
  }
  pthread_cond_destroy(&loader->ready);
  pthread_cond_destroy(&loader->late);
  pthread_cond_destroy(&loader->relief);
  pthread_cond_destroy(&loader->work);
  pthread_mutex_destroy(&loader->large_mutex);
  pthread_mutex_destroy(&loader->mutex);
  ull_loader_options options = loader->options;
  give_block(&options, loader->block, loader->layout.total_bytes);
}

static void wait_for_next(ull_loader *loader) {
  if (loader->options.workers == 0) {
    ull__loader_fill_inline(loader);
    return;
  }
  while (!ull__loader_is_ready(loader, loader->next_sequence) && loader->live_workers > 0) {
    pthread_cond_wait(&loader->ready, &loader->mutex);
  }
}

/* Whether the slot that is due came to a batch; NULL where it was not even begun. */
static ull_status judge_slot(const ull_loader *loader, const ull__slot *slot) {
  if (slot != NULL && slot->failed) return ull__error_restore(&slot->error);
  if (slot == NULL || slot->state != ULL__SLOT_READY) {
    if (loader->death.status != ULL_OK) return ull__error_restore(&loader->death);
    return ULL__FAIL(ULL_ERROR_INTERNAL, "no loader thread is left");
  }
  return ULL_OK;
}

static void lend(ull_loader *loader, ull__slot *slot, uint64_t wait_ns) {
  ull_loader_counts *counts = &loader->counts;
  ull_batch *batch = &slot->batch;
  slot->state = ULL__SLOT_LENT;
  batch->replaced = slot->replaced;
  batch->wait_ns = wait_ns;
  for (size_t i = 0; i < loader->options.binding_count; i++) {
    slot->arrays[i].shape[0] = (int64_t)batch->samples;
    if (batch->length > 0) slot->arrays[i].shape[1] = batch->length;
    slot->arrays[i].bytes =
        batch->samples * ull__loader_sample_bytes(&loader->arrays[i], batch->length);
  }
  counts->samples += batch->samples;
  counts->batches++;
  counts->wait_ns += wait_ns;
  counts->replaced += slot->replaced;
  counts->skipped += batch->skipped;
}

/* How many workers the pace of the caller needs: what a batch costs over what the caller does with
 * one, with a quarter to spare. */
static void follow_pace(ull_loader *loader, uint64_t now, uint64_t samples) {
  uint64_t before = loader->lent_ns;
  loader->lent_ns = ull__clock_now_ns();
  if (!loader->options.adaptive || before == 0 || now <= before) return;
  uint64_t step = now - before;
  loader->step_ns = loader->step_ns == 0 ? step : loader->step_ns - loader->step_ns / 8 + step / 8;
  double needed =
      1.25 * (double)loader->sample_ns * (double)samples / (double)(loader->step_ns + 1);
  int most = loader->options.workers, before_workers = loader->wanted_workers;
  loader->wanted_workers = needed >= most ? most : (int)needed + 1;
  if (loader->wanted_workers > before_workers) pthread_cond_broadcast(&loader->work);
}

static bool all_lent(const ull_loader *loader) {
  for (int i = 0; i < loader->options.prefetch; i++)
    if (loader->slots[i].state < ULL__SLOT_KEPT) return false;
  return true;
}

/* Whether ull_loader_next has nothing to wait for. */
static bool is_due(ull_loader *loader) {
  ull__order_batch place;
  return !ull__order_batch_at(&loader->order, loader->next_sequence, &place) || all_lent(loader) ||
         loader->options.workers == 0 || loader->live_workers == 0 ||
         ull__loader_is_ready(loader, loader->next_sequence);
}

static bool wait_locked(ull_loader *loader, uint64_t timeout_ns) {
  if (is_due(loader)) return true;
  uint64_t now = ull__clock_now_ns(), end = now + timeout_ns;
  if (end < now) end = INT64_MAX;
  const struct timespec until = {.tv_sec = (time_t)(end / NS_PER_S),
                                 .tv_nsec = (long)(end % NS_PER_S)};
  if (loader->wait_began_ns == 0) loader->wait_began_ns = now;
  if (loader->paused) ull__loader_go(loader);
  while (!is_due(loader))
    if (pthread_cond_timedwait(&loader->ready, &loader->mutex, &until) != 0) break;
  return is_due(loader);
}

bool ull_loader_wait(ull_loader *loader, uint64_t timeout_ns) {
  pthread_mutex_lock(&loader->mutex);
  bool due = wait_locked(loader, timeout_ns);
  pthread_mutex_unlock(&loader->mutex);
  return due;
}

ull_status ull__loader_await(ull_loader *loader, ull__slot **slot, uint64_t *wait_ns) {
  ull__order_batch place;
  *slot = NULL;
  if (!ull__order_batch_at(&loader->order, loader->next_sequence, &place)) return ULL_OK;
  if (all_lent(loader)) {
    return ULL__FAIL(ULL_ERROR_INVALID,
                     "all %d batch slots are on loan; release one before the next batch",
                     loader->options.prefetch);
  }
  uint64_t waited_from = loader->wait_began_ns;
  uint64_t start_ns = waited_from != 0 ? waited_from : ull__clock_now_ns();
  loader->wait_began_ns = 0;
  if (loader->paused) ull__loader_go(loader);
  bool waits = !ull__loader_is_ready(loader, loader->next_sequence);
  if (waits) wait_for_next(loader);
  if (waits || waited_from != 0) *wait_ns += ull__clock_now_ns() - start_ns;
  ull__slot *found = ull__loader_slot(loader, loader->next_sequence);
  ULL__TRY(judge_slot(loader, found));
  *slot = found;
  return ULL_OK;
}

/* The batch that is due, its bad samples booked. */
static ull_status take_due(ull_loader *loader, ull__slot **slot, uint64_t *wait_ns) {
  ULL__TRY(ull__loader_await(loader, slot, wait_ns));
  if (*slot == NULL) return ULL_OK;
  ULL__TRY(ull__loader_check_bad(loader, *slot));
  for (uint64_t p = 0; p < (*slot)->place.samples; p++) ull__loader_book_place(loader, *slot, p);
  loader->next_sequence++;
  return ULL_OK;
}

static ull_status next_locked(ull_loader *loader, const ull_batch **batch) {
  ull__slot *slot;
  uint64_t wait_ns = 0, waited_from = loader->wait_began_ns;
  uint64_t start_ns = waited_from != 0 ? waited_from : ull__clock_now_ns();
  ULL__TRY(loader->options.refill ? ull__loader_gather(loader, &slot, &wait_ns)
                                  : take_due(loader, &slot, &wait_ns));
  if (slot == NULL) return ULL_OK;
  lend(loader, slot, wait_ns);
  follow_pace(loader, start_ns, slot->place.samples);
  *batch = &slot->batch;
  return ULL_OK;
}

ull_status ull_loader_next(ull_loader *loader, const ull_batch **batch) {
  const ull_error before = *ull_error_last(); /* bad samples that are replaced are no failure */
  *batch = NULL;
  pthread_mutex_lock(&loader->mutex);
  ull_status status = next_locked(loader, batch);
  pthread_mutex_unlock(&loader->mutex);
  return ull__error_unless(status, &before);
}

void ull_loader_release(ull_loader *loader, const ull_batch *batch) {
  if (batch == NULL) return;
  pthread_mutex_lock(&loader->mutex);
  for (int i = 0; i < loader->options.prefetch; i++) {
    ull__slot *slot = &loader->slots[i];
    if (&slot->batch != batch || slot->state != ULL__SLOT_LENT) continue;
    slot->state = ULL__SLOT_FREE;
    pthread_cond_broadcast(&loader->work);
  }
  pthread_mutex_unlock(&loader->mutex);
}
