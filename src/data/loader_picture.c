/* Pictures and masks of one sample: opened, decoded and resampled straight into the batch slot.
 *
 * A thread works in scratch of its own; what a picture needs beyond that comes from the one region
 * for large pictures, which one thread at a time has. Whether a picture is too big depends on the
 * size of that region alone. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "data/image/changes.h"
#include "data/image/geometry.h"
#include "data/image/image.h"
#include "data/image/orientation.h"
#include "data/image/resample.h"
#include "data/loader.h"

enum { SIDE_MAX = 65536, ROWS_TIMED = 7 };

/* ---- what a binding may ask ---- */

static ull_status mismatch(const ull_array_info *info, const ull_binding *binding,
                           const char *why) {
  ULL__FAIL(ULL_ERROR_MISMATCH, "the pictures of array '%s' cannot fill '%s': %s", info->name,
            binding->name, why);
  return ull__error_holder("array '%s'", info->name);
}

static ull_status plan_mask(const ull_array_info *info, ull__loader_array *array) {
  const ull_binding *binding = &array->binding;
  const int64_t *shape = binding->shape + (binding->rank == 3);
  bool shaped = binding->rank == 2 || (binding->rank == 3 && binding->shape[0] == 1);
  if (!shaped) return mismatch(info, binding, "a mask is [height, width]");
  if (binding->dtype != ULL_UINT8 && binding->dtype != ULL_INT32 && binding->dtype != ULL_INT64) {
    return mismatch(info, binding, "class numbers are uint8, int32 or int64");
  }
  if (binding->normalize.active) return mismatch(info, binding, "class numbers are not normalised");
  if (shape[0] < 1 || shape[1] < 1 || shape[0] > SIDE_MAX || shape[1] > SIDE_MAX) {
    return mismatch(info, binding, "a side has 1 to 65536 pixels");
  }
  array->channels = 1;
  array->height = (int)shape[0];
  array->width = (int)shape[1];
  return ULL_OK;
}

static ull_status plan_image(const ull_array_info *info, ull__loader_array *array) {
  const ull_binding *binding = &array->binding;
  if (binding->rank != 3) return mismatch(info, binding, "a picture has three dimensions");
  const int64_t *sides = binding->shape + (binding->channels_last ? 0 : 1);
  int64_t channels = binding->shape[binding->channels_last ? 2 : 0];
  if (channels != 1 && channels != 3) {
    return mismatch(info, binding, "a picture has 1 or 3 channels");
  }
  if (sides[0] < 1 || sides[1] < 1 || sides[0] > SIDE_MAX || sides[1] > SIDE_MAX) {
    return mismatch(info, binding, "a side has 1 to 65536 pixels");
  }
  bool real = binding->dtype == ULL_FLOAT32 || binding->dtype == ULL_FLOAT16 ||
              binding->dtype == ULL_BFLOAT16;
  if (!real && binding->dtype != ULL_UINT8) {
    return mismatch(info, binding, "pixels are float32, float16, bfloat16 or uint8");
  }
  ull__normalize_suit(&array->binding.normalize, channels);
  int means = binding->normalize.channels;
  if (binding->normalize.active && (!real || (means != 1 && means != channels))) {
    return mismatch(info, binding, "the normalisation does not suit dtype or channels");
  }
  array->channels = (int)channels;
  array->height = (int)sides[0];
  array->width = (int)sides[1];
  return ULL_OK;
}

ull_status ull__loader_plan_picture(const ull_array_info *info, ull__loader_array *array) {
  if (array->content == ULL_CONTENT_MASK) {
    ULL__TRY(plan_mask(info, array));
  } else {
    ULL__TRY(plan_image(info, array));
  }
  uint64_t elements = (uint64_t)array->channels * (uint64_t)array->height * (uint64_t)array->width;
  array->sample_bytes = elements * ull_dtype_bytes(array->binding.dtype);
  return ULL_OK;
}

/* ---- one picture ---- */

typedef struct picture_work {
  ull_loader *loader;
  ull__worker *worker;
  const ull__slot *slot;
  const ull__loader_array *array;
  uint64_t stored, place;
  ull__image_info info;
  ull__frame frame;
  ull__changes changes;
  ull__canvas canvas;
  bool has_canvas;
  bool has_frame;
  ull__resample_spec spec;
  ull__image_request request;
  ull__image_delivery delivery;
  ull__resampler *resampler;
  int rows;
  uint64_t resample_ticks;
} picture_work;

/* One row in some is timed: clocks cost as well. */
static ull_status take_row(void *context, int y, const uint8_t *pixels) {
  picture_work *work = context;
  if (++work->rows % ROWS_TIMED != 0) return ull__resample_row(work->resampler, y, pixels);
  uint64_t since = ull__ticks_now();
  ull_status status = ull__resample_row(work->resampler, y, pixels);
  work->resample_ticks += (ull__ticks_now() - since) * ROWS_TIMED;
  return status;
}

static ull__pixel_store make_store(const picture_work *work) {
  const ull__loader_array *array = work->array;
  const ull_normalize *normalize = &array->binding.normalize;
  int64_t width = array->width, height = array->height;
  bool last = array->binding.channels_last;
  ull__pixel_store store = {.dtype = array->binding.dtype, .channels = array->channels};
  store.base = work->slot->data + array->offset + work->place * array->sample_bytes;
  store.c_stride = last ? 1 : width * height;
  store.x_stride = last ? array->channels : 1;
  store.y_stride = last ? width * array->channels : width;
  for (int c = 0; c < 3; c++) {
    int from = normalize->channels == 1 ? 0 : c;
    double deviation = normalize->active ? normalize->deviation[from] : 1.0;
    store.scale[c] = (float)(normalize->active ? normalize->scale / deviation : 1.0);
    store.bias[c] = (float)(normalize->active ? -normalize->mean[from] / deviation : 0.0);
  }
  return store;
}

static ull_status too_big(picture_work *work, uint64_t bytes) {
  work->info.verdict = ULL_VERDICT_TOO_BIG;
  work->info.reason = "needs more memory than the region for large pictures has";
  ULL__FAIL(ULL_ERROR_DATA, "%s: needs %llu bytes to be decoded", work->worker->record->path,
            (unsigned long long)bytes);
  ull__error_holder("%s", work->worker->record->path);
  ull__error_change("a --loader-memory of at least %llu", (unsigned long long)bytes * 4);
  return ull__error_bytes(bytes, work->loader->layout.large_bytes);
}

/* Times of opening or decoding: reading and resampling happen inside. */
static void book_decode(picture_work *work, uint64_t since) {
  uint64_t *ticks = work->worker->stage_ticks;
  uint64_t all = ull__ticks_now() - since, read = ull__record_take_ticks();
  uint64_t inside = read + work->resample_ticks;
  ticks[ULL_STAGE_READ] += read;
  ticks[ULL_STAGE_RESAMPLE] += work->resample_ticks;
  work->resample_ticks = 0;
  ticks[ULL_STAGE_DECODE] += all > inside ? all - inside : 0;
}

static ull_status decode_in(picture_work *work, ull__scratch *scratch) {
  uint64_t since = ull__ticks_now(), mark = scratch->used;
  ull__image_sink sink = {take_row, work};
  ull_status status = ull__resample_begin(&work->spec, scratch, &work->resampler);
  if (status == ULL_OK) {
    status = ull__image_decode(work->worker->reader, &work->request, &work->delivery, scratch,
                               &sink, &work->info);
  }
  ull__scratch_rewind(scratch, mark);
  book_decode(work, since);
  return status;
}

/* The most that this picture takes of the region, whatever window is drawn. */
static uint64_t held_bytes(const picture_work *work, uint64_t bytes) {
  const ull__image_delivery *delivery = &work->delivery;
  uint64_t region = work->loader->large.bytes - delivery->library_bytes;
  if (delivery->whole_bytes > delivery->scratch_bytes)
    bytes += delivery->whole_bytes - delivery->scratch_bytes;
  return bytes < region ? bytes : region;
}

/* From `keep` on, whole pages. */
static void give_back_pages(ull_loader *loader, uint64_t keep) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)loader->large.memory;
  uintptr_t first = (begin + keep + page - 1) / page * page;
  uintptr_t end = (begin + loader->large.bytes) / page * page;
  if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
  loader->large_resident = keep;
}

/* Pages of the region stay resident, as many as the picture of the largest need took, so that they
 * are after one epoch what they are after many. What a library takes on the heap is counted as part
 * of the region: that much of it is given back, where that is possible. */
static void hold_pages(ull_loader *loader, uint64_t held, uint64_t library) {
  const ull_loader_options *options = &loader->options;
  bool from_heap = options->memory == NULL && options->allocate == NULL;
  uint64_t keep = loader->large.bytes - library;
  if (loader->large_held > keep) loader->large_held = keep;
  if (loader->large_held < held) loader->large_held = held;
  if (!from_heap && !options->ordinary_memory) return;
  if (loader->large_resident > keep) give_back_pages(loader, keep);
  if (loader->large_resident >= held) return;
  memset(loader->large.memory + loader->large_resident, 0, held - loader->large_resident);
  loader->large_resident = held;
}

static ull_status decode_in_region(picture_work *work, uint64_t bytes) {
  ull_loader *loader = work->loader;
  ull__worker *worker = work->worker;
  uint64_t since = ull__ticks_now(), library = work->delivery.library_bytes;
  pthread_mutex_lock(&loader->large_mutex);
  ull__loader_stamp(worker, ULL_STAGE_QUEUE, since);
  hold_pages(loader, held_bytes(work, bytes - library), library);
  ull_status status = decode_in(work, &loader->large);
  if (loader->large_held + library > worker->large_used)
    worker->large_used = loader->large_held + library;
  pthread_mutex_unlock(&loader->large_mutex);
  return status;
}

/* Finds room for what the picture needs, and decodes there. */
static ull_status decode(picture_work *work) {
  ull__worker *worker = work->worker;
  const ull__scratch *own = &worker->scratch;
  uint64_t bytes = 0;
  ULL__TRY(ull__image_prepare(worker->reader, &work->request, &work->info, &work->delivery));
  ull__resample_deliver(&work->spec, &work->delivery);
  ULL__TRY(ull__resample_bytes(&work->spec, &bytes));
  bytes = ull__scratch_cost(bytes) + ull__scratch_cost(work->delivery.scratch_bytes) +
          work->delivery.library_bytes;
  if (bytes + ULL__SCRATCH_ALIGNMENT <= own->bytes - own->used) {
    uint64_t whole = own->used + bytes;
    if (work->delivery.library_bytes > 0 && whole > worker->library_peak)
      worker->library_peak = whole;
    return decode_in(work, &worker->scratch);
  }
  if (bytes > work->loader->large.bytes) return too_big(work, bytes);
  return decode_in_region(work, bytes);
}

static ull_status open_picture(picture_work *work) {
  ull_loader *loader = work->loader;
  ull__worker *worker = work->worker;
  uint64_t since = ull__ticks_now();
  worker->record->descriptor = -1;
  worker->record->owns_descriptor = false;
  worker->record->hold = NULL;
  ull_status status = loader->source->kind->open_record(loader->source, work->stored,
                                                        work->array->binding.array, worker->record);
  ull__loader_stamp(worker, ULL_STAGE_OPEN, since);
  if (status == ULL_OK) return ULL_OK;
  work->info.verdict = ULL_VERDICT_UNREADABLE;
  work->info.reason = "cannot be opened";
  return status;
}

static void close_picture(picture_work *work) {
  const ull_source *source = work->loader->source;
  ull__image_close(work->worker->reader);
  work->worker->read_bytes += work->worker->record->bytes;
  if (source->kind->close_record != NULL) {
    source->kind->close_record(source, work->worker->record);
  }
  ull__record_close(work->worker->record);
}

/* Which part the sample shows: decided by the picture that leads it. Masks follow. */
static void choose_frame(picture_work *work) {
  ull_loader *loader = work->loader;
  const ull__loader_array *array = work->array;
  int width, height;
  ull__upright_size(&work->info, work->info.orientation, &width, &height);
  work->frame =
      ull__frame_draw(&loader->options.augment, loader->augment_key, work->slot->place.epoch,
                      work->stored, width, height, array->width, array->height);
  work->changes = ull__changes_draw(&loader->options.augment, loader->augment_key,
                                    work->slot->place.epoch, work->stored);
  work->has_frame = true;
}

/* Where the picture is resampled to: its place in the batch, or a canvas that is changed first. */
static ull_status choose_store(picture_work *work, bool mask, ull__pixel_store *store) {
  const ull__loader_array *array = work->array;
  *store = make_store(work);
  work->has_canvas = ull__changes_apply_to(&work->changes, mask);
  if (!work->has_canvas) return ULL_OK;
  ULL__TRY(ull__canvas_begin(&work->canvas, &work->worker->scratch, mask, store, array->width,
                             array->height));
  *store = work->canvas.upright;
  return ULL_OK;
}

static void apply_changes(picture_work *work) {
  const ull__loader_array *array = work->array;
  uint64_t since = ull__ticks_now();
  if (work->has_canvas) ull__canvas_end(&work->canvas, &work->changes);
  if (work->changes.erases && array->content == ULL_CONTENT_IMAGE) {
    ull__pixel_store store = make_store(work);
    ull__changes_erase(&work->changes, &store, array->width, array->height);
  }
  ull__loader_stamp(work->worker, ULL_STAGE_CONVERT, since);
}

static ull_status choose_geometry(picture_work *work) {
  const ull__loader_array *array = work->array;
  bool mask = array->content == ULL_CONTENT_MASK;
  if (!mask || !work->has_frame) choose_frame(work);
  ull__framing framing = {.orientation = work->info.orientation,
                          .filter = mask ? ULL__FILTER_NEAREST : ULL__FILTER_TRIANGLE,
                          .channels = array->channels == 1 ? 1 : 4,
                          .out_width = array->width,
                          .out_height = array->height};
  ULL__TRY(choose_store(work, mask, &framing.upright));
  ULL__TRY(ull__frame_spec(&work->frame, &framing, &work->info, &work->spec));
  work->request = (ull__image_request){.channels = framing.channels, .class_numbers = mask};
  work->request.region = ull__resample_region(&work->spec);
  work->request.max_reduction = mask ? 1 : ull__frame_reduction(&work->spec);
  return ULL_OK;
}

/* Decodes what the geometry wants of the open picture. */
static ull_status fill_open(picture_work *work, ull__loader_fault fault,
                            ull__sample_result *result) {
  uint64_t since = ull__ticks_now();
  ull_status status = ull__image_open(work->worker->reader, work->worker->record,
                                      &work->worker->scratch, &work->info);
  book_decode(work, since);
  ULL__TRY(status);
  if (fault == ULL__LOADER_FAULT_DECODE) return ull__loader_die(work->loader, result);
  ULL__TRY(choose_geometry(work));
  if (fault == ULL__LOADER_FAULT_TRANSFORM) return ull__loader_die(work->loader, result);
  ULL__TRY(decode(work));
  ull__image_note_turned(&work->info, false);
  apply_changes(work);
  return ULL_OK;
}

static void note(ull__sample_result *result, const picture_work *work) {
  if (work->info.verdict <= result->verdict) return;
  result->verdict = work->info.verdict;
  result->reason = work->info.reason;
  result->path = work->worker->record->path;
}

/* A picture with a bad verdict is a failure even where all its rows came. */
static ull_status bad_picture(const picture_work *work) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: %s", work->worker->record->path, work->info.reason);
  return ull__error_holder("%s", work->worker->record->path);
}

static ull_status fill_picture(picture_work *work, ull__loader_fault fault,
                               ull__sample_result *result) {
  work->info = (ull__image_info){.reason = ""};
  ull_status status = open_picture(work);
  if (status == ULL_OK) {
    status = fault == ULL__LOADER_FAULT_READ ? ull__loader_die(work->loader, result)
                                             : fill_open(work, fault, result);
    close_picture(work);
  }
  note(result, work);
  if (status == ULL_OK && ull_verdict_is_bad(work->info.verdict)) return bad_picture(work);
  return status;
}

ull_status ull__loader_fill_pictures(ull_loader *loader, ull__worker *worker, ull__slot *slot,
                                     uint64_t sample, uint64_t place, ull__loader_fault fault,
                                     ull__sample_result *result) {
  static const ull_array_content passes[] = {ULL_CONTENT_IMAGE, ULL_CONTENT_MASK};
  picture_work work = {.loader = loader, .worker = worker, .slot = slot, .place = place};
  work.stored = ull__source_stored_index(loader->source, sample);
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < loader->options.binding_count; i++) {
      if (loader->arrays[i].content != passes[pass]) continue;
      work.array = &loader->arrays[i];
      work.rows = 0;
      ULL__TRY(fill_picture(&work, fault, result));
      fault = ULL__LOADER_FAULT_NONE;
    }
  }
  return ULL_OK;
}
