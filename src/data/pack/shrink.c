/* Decoding goes through the loader's own geometry: a picture turned upright and resized here looks
 * as it would there. Decoders do not reduce: what is stored once should be as good as can be. */
#include "data/pack/shrink.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/image/geometry.h"
#include "data/image/orientation.h"
#include "data/image/resample.h"

enum { LONGEST_SIDE = 65500 /* of a JPEG */ };

ull_status ull__pack_shrinker_create(ull__pack_shrinker *shrinker, ull__pack_room *room) {
  ull__image_limits limits = {.memory_bytes = room->bytes};
  shrinker->room = room;
  ULL__TRY(ull__image_reader_create(&limits, &shrinker->reader));
  uint64_t bytes = ull__image_fixed_bytes();
  void *memory = ull__alloc_aligned(ULL__SCRATCH_ALIGNMENT, bytes);
  if (memory == NULL) return ull_error_last()->status;
  shrinker->fixed = ull__scratch_over(memory, bytes);
  return ULL_OK;
}

void ull__pack_shrinker_destroy(ull__pack_shrinker *shrinker) {
  ull__image_reader_destroy(shrinker->reader);
  ull__free(shrinker->fixed.memory);
  *shrinker = (ull__pack_shrinker){0};
}

/* ---- shared bytes ---- */

static void take_room(ull__pack_room *room, uint64_t bytes) {
  pthread_mutex_lock(&room->mutex);
  while (room->used + bytes > room->bytes) pthread_cond_wait(&room->given_back, &room->mutex);
  room->used += bytes;
  pthread_mutex_unlock(&room->mutex);
}

static void give_room(ull__pack_room *room, uint64_t bytes) {
  pthread_mutex_lock(&room->mutex);
  room->used -= bytes;
  pthread_cond_broadcast(&room->given_back);
  pthread_mutex_unlock(&room->mutex);
}

/* ---- one picture ---- */

typedef struct work {
  ull__pack_shrinker *shrinker;
  ull__pack_picture *out;
  bool mask;
  bool encode; /* to out->width x out->height; else only looked at */
  int channels;
  ull__image_request request;
  ull__image_delivery delivery;
  ull__resample_spec spec;
  ull__resampler *resampler;
  ull__scratch scratch;
  uint8_t *pixels;
} work;

static ull_status drop_row(void *context, int y, const uint8_t *pixels) {
  (void)context, (void)y, (void)pixels;
  return ULL_OK;
}

static ull_status take_row(void *context, int y, const uint8_t *pixels) {
  return ull__resample_row(((work *)context)->resampler, y, pixels);
}

/* The shorter side becomes max_side, as torchvision's Resize rounds. */
static void choose_size(work *w) {
  ull__pack_picture *out = w->out;
  int64_t side = w->shrinker->max_side;
  ull__upright_size(&out->info, out->info.orientation, &out->width, &out->height);
  bool wide = out->width > out->height;
  int64_t shorter = wide ? out->height : out->width, longer = wide ? out->width : out->height;
  int64_t cut = side > 0 && shorter > side ? side * longer / shorter : longer;
  if (cut > LONGEST_SIDE) return; /* no JPEG can hold it */
  w->encode = w->shrinker->encode_all || cut < longer;
  out->resized = cut < longer;
  if (!out->resized) return;
  out->width = (int)(wide ? cut : side);
  out->height = (int)(wide ? side : cut);
}

static bool is_grey(const ull__image_info *info) {
  return info->channels <= 2 && !info->palette;
}

/* Where nothing is encoded, a picture is decoded as small as its format can: every code is read. */
static ull_status prepare(work *w) {
  const ull__image_info *info = &w->out->info;
  w->channels = w->mask || is_grey(info) ? 1 : 3;
  w->request = (ull__image_request){.region = {0, 0, info->width, info->height},
                                    .max_reduction = w->encode ? 1 : 8,
                                    .channels = w->channels == 1 ? 1 : 4,
                                    .class_numbers = w->mask};
  if (w->mask) w->request.max_reduction = 1;
  return ull__image_prepare(w->shrinker->reader, &w->request, &w->out->info, &w->delivery);
}

static ull_status prepare_spec(work *w) {
  int width = w->out->width, height = w->out->height, upright_width, upright_height;
  const ull__image_info *info = &w->out->info;
  ull__upright_size(info, info->orientation, &upright_width, &upright_height);
  ull__frame frame = {.width = upright_width,
                      .height = upright_height,
                      .out_width = width,
                      .out_height = height,
                      .window = {0, 0, upright_width, upright_height},
                      .resized_width = width,
                      .resized_height = height};
  ull__framing framing = {
      .orientation = info->orientation,
      .filter = w->mask ? ULL__FILTER_NEAREST : ULL__FILTER_TRIANGLE,
      .channels = w->request.channels,
      .out_width = width,
      .out_height = height,
      .upright = {.base = w->pixels,
                  .dtype = ULL_UINT8,
                  .x_stride = w->channels,
                  .y_stride = (int64_t)width * w->channels,
                  .c_stride = 1,
                  .channels = w->channels,
                  .scale = {1, 1, 1}},
  };
  ULL__TRY(ull__frame_spec(&frame, &framing, info, &w->spec));
  ull__resample_deliver(&w->spec, &w->delivery);
  return ULL_OK;
}

static ull_status too_big(work *w, uint64_t bytes) {
  w->out->info.verdict = ULL_VERDICT_TOO_BIG;
  w->out->info.reason = "needs more memory than --loader-memory";
  ULL__FAIL(ULL_ERROR_DATA, "a picture needs %llu bytes", (unsigned long long)bytes);
  return ull__error_bytes(bytes, w->shrinker->room->bytes);
}

static ull_status decode(work *w) {
  ull__image_sink sink = {w->encode ? take_row : drop_row, w};
  if (w->encode) {
    ULL__TRY(prepare_spec(w)); /* once more, now that there are pixels */
    ULL__TRY(ull__resample_begin(&w->spec, &w->scratch, &w->resampler));
  }
  ULL__TRY(ull__image_decode(w->shrinker->reader, &w->request, &w->delivery, &w->scratch, &sink,
                             &w->out->info));
  ull__image_note_turned(&w->out->info, false);
  if (!w->encode || ull_verdict_is_bad(w->out->info.verdict)) return ULL_OK;
  ull_pixels pixels = {w->pixels, w->out->width, w->out->height, w->channels};
  if (w->mask) return ull_image_encode_png(&pixels, &w->out->encoded);
  return ull_image_encode_jpeg(&pixels, w->shrinker->quality, &w->out->encoded);
}

/* What the pixels, the resampler and the decoder take. */
static ull_status count_bytes(work *w, uint64_t *pixel_bytes, uint64_t *bytes) {
  uint64_t resampler = 0;
  *pixel_bytes = 0;
  if (w->encode) {
    *pixel_bytes = (uint64_t)w->out->width * (uint64_t)w->out->height * (uint64_t)w->channels;
    ULL__TRY(prepare_spec(w));
    ULL__TRY(ull__resample_bytes(&w->spec, &resampler));
  }
  *bytes = ull__scratch_cost(*pixel_bytes) + ull__scratch_cost(resampler) +
           ull__scratch_cost(w->delivery.scratch_bytes) + ULL__SCRATCH_ALIGNMENT;
  return *bytes <= w->shrinker->room->bytes ? ULL_OK : too_big(w, *bytes);
}

static ull_status decode_in_room(work *w) {
  uint64_t bytes, pixel_bytes;
  ULL__TRY(count_bytes(w, &pixel_bytes, &bytes));
  take_room(w->shrinker->room, bytes);
  void *memory = ull__alloc_aligned(ULL__SCRATCH_ALIGNMENT, bytes);
  ull_status status = memory != NULL ? ULL_OK : ull_error_last()->status;
  if (status == ULL_OK) {
    w->scratch = ull__scratch_over(memory, bytes);
    w->pixels = ull__scratch_take(&w->scratch, pixel_bytes);
    status = decode(w);
  }
  ull__free(memory);
  give_room(w->shrinker->room, bytes);
  return status;
}

/* A failure that the verdict explains is the picture's, every other one the machine's. */
static ull_status finish(work *w, ull_status status) {
  ull__image_close(w->shrinker->reader);
  bool bad = ull_verdict_is_bad(w->out->info.verdict);
  if (status != ULL_OK || bad) {
    ull_encoded_free(&w->out->encoded);
    w->out->resized = false;
  }
  if (status != ULL_ERROR_DATA || !bad) return status;
  ull_error_clear();
  return ULL_OK;
}

ull_status ull__pack_shrink(ull__pack_shrinker *shrinker, const ull__record *record,
                            ull__pack_picture *out) {
  *out = (ull__pack_picture){.info = {.reason = ""}};
  work w = {.shrinker = shrinker, .out = out};
  ull_status status = ull__image_open(shrinker->reader, record, &shrinker->fixed, &out->info);
  if (status == ULL_OK) {
    choose_size(&w);
    status = prepare(&w);
  }
  if (status == ULL_OK) status = decode_in_room(&w);
  status = finish(&w, status);
  /* What was to become smaller and did not stays as it is. */
  if (!out->resized && out->encoded.count >= record->bytes) ull_encoded_free(&out->encoded);
  return status;
}

ull_status ull__pack_shrink_mask(ull__pack_shrinker *shrinker, const ull__record *record,
                                 const ull__pack_picture *lead, ull__pack_picture *out) {
  *out = (ull__pack_picture){.info = {.reason = ""}, .width = lead->width, .height = lead->height};
  work w = {.shrinker = shrinker, .out = out, .mask = true, .encode = lead->resized};
  out->resized = lead->resized;
  ull_status status = ull__image_open(shrinker->reader, record, &shrinker->fixed, &out->info);
  if (status == ULL_OK) status = prepare(&w);
  if (status == ULL_OK) status = decode_in_room(&w);
  return finish(&w, status);
}
