/* WebP by libwebp. Its decoder wants the coded frame in one piece and gives the region in one
 * piece: both lie in the scratch. Its own memory is its heap's: the need states it, so that limits
 * bind. Alpha is neither read nor decoded. */
#include "data/image/webp.h"

#include <webp/decode.h>

#include "base/alloc.h"
#include "base/error.h"

/* Smooth upsampling of colours looks one sample, two pixels, to each side. */
enum { EDGE = 2, LEAST_HEADER = 32 };

typedef struct webp {
  ull__webp_parts parts;
} webp;

static ull_status create(void **state) {
  *state = ull__alloc(1, sizeof(webp));
  return *state != NULL ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static void close_picture(void *state) {
  (void)state;
}

static ull_status fail(const ull__image_reader *reader, const webp *w, ull__image_info *info,
                       VP8StatusCode code) {
  switch (code) {
  case VP8_STATUS_OUT_OF_MEMORY:
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: libwebp found no memory",
                     reader->input.record->path);
  case VP8_STATUS_UNSUPPORTED_FEATURE:
    return ull__image_refuse(reader, info, ULL_VERDICT_UNSUPPORTED, "WebP of an unknown form");
  case VP8_STATUS_NOT_ENOUGH_DATA:
  case VP8_STATUS_SUSPENDED:
    if (w->parts.frame_is_cut)
      return ull__image_refuse(reader, info, ULL_VERDICT_TRUNCATED, "premature end of file");
    return ull__image_refuse(reader, info, ULL_VERDICT_DAMAGED, "the coded data ends too early");
  default:
    return ull__image_refuse(reader, info, ULL_VERDICT_DAMAGED, "broken coded data");
  }
}

static ull_status check_canvas(const ull__image_reader *reader, const webp *w,
                               ull__image_info *info) {
  const ull__webp_parts *p = &w->parts;
  bool fills = p->canvas_width == info->width && p->canvas_height == info->height &&
               p->frame_x == 0 && p->frame_y == 0;
  if (!p->extended || fills) return ULL_OK;
  if (p->animated)
    return ull__image_refuse(reader, info, ULL_VERDICT_UNSUPPORTED,
                             "animation that begins with a part of the picture");
  return ull__image_refuse(reader, info, ULL_VERDICT_DAMAGED, "contradictory sizes");
}

static ull_status open_picture(ull__image_reader *reader, void *state, ull__image_info *info) {
  webp *w = state;
  const uint8_t *head;
  size_t got;
  WebPBitstreamFeatures features;
  ULL__TRY(ull__webp_survey(reader, info, &w->parts));
  ULL__TRY(ull__input_see(&reader->input, w->parts.frame, LEAST_HEADER, &head, &got));
  VP8StatusCode code = WebPGetFeatures(head, got, &features);
  if (code != VP8_STATUS_OK) return fail(reader, w, info, code);
  ULL__TRY(
      ull__image_check_size(reader, info, (uint64_t)features.width, (uint64_t)features.height));
  info->channels = features.has_alpha ? 4 : 3;
  info->bits = 8;
  ULL__TRY(check_canvas(reader, w, info));
  if (w->parts.frame_is_cut)
    return ull__image_refuse(reader, info, ULL_VERDICT_TRUNCATED, "premature end of file");
  if (w->parts.tail_is_cut)
    ull__image_note(info, ULL_VERDICT_WARNED, "the file ends early, behind the pixels");
  return ULL_OK;
}

/* ---- what is decoded: the region and its edges, from even pixels on ---- */

static ull__rect decoded_part(const ull__rect *region, const ull__image_info *info) {
  int left = region->x > EDGE ? (region->x - EDGE) & ~1 : 0;
  int top = region->y > EDGE ? (region->y - EDGE) & ~1 : 0;
  int right = region->x + region->width + EDGE, bottom = region->y + region->height + EDGE;
  if (right > info->width) right = info->width;
  if (bottom > info->height) bottom = info->height;
  return (ull__rect){left, top, right - left, bottom - top};
}

static uint64_t coded_bytes(const ull__image_reader *reader, const webp *w) {
  return reader->input.record->memory != NULL ? 0 : ull__scratch_cost(w->parts.frame_bytes);
}

/* libwebp's heap: lossless pictures whole, lossy ones a few rows of blocks; the rest is tables. */
static uint64_t library_bytes(const webp *w, const ull__image_info *info) {
  uint64_t width = (uint64_t)info->width, height = (uint64_t)info->height;
  uint64_t tables = UINT64_C(1) << 20;
  return tables + (w->parts.lossless ? width * (height + 32) * 4 : width * 160);
}

static ull_status prepare(ull__image_reader *reader, void *state, const ull__image_request *request,
                          ull__image_info *info, ull__image_delivery *delivery) {
  webp *w = state;
  ull__rect part = decoded_part(&request->region, info);
  uint64_t pixels = (uint64_t)part.width * (uint64_t)part.height;
  *delivery = (ull__image_delivery){.reduction = 1, .region = request->region};
  delivery->library_bytes = library_bytes(w, info);
  delivery->scratch_bytes = coded_bytes(reader, w) + ull__scratch_cost(pixels * 4) +
                            ull__scratch_cost((uint64_t)request->region.width);
  return ull__image_check_need(reader, info, delivery->scratch_bytes + delivery->library_bytes);
}

static ull_status read_frame(const ull__image_reader *reader, const webp *w, uint8_t *to,
                             const uint8_t **coded, ull__image_info *info) {
  const ull__record *record = reader->input.record;
  size_t got;
  *coded = to;
  if (record->memory != NULL) {
    *coded = record->memory + w->parts.frame;
    return ULL_OK;
  }
  ULL__TRY(ull__record_read(record, w->parts.frame, to, w->parts.frame_bytes, &got));
  if (got < w->parts.frame_bytes) /* the file has become shorter */
    return ull__image_refuse(reader, info, ULL_VERDICT_TRUNCATED, "premature end of file");
  return ULL_OK;
}

static VP8StatusCode decode_part(const uint8_t *coded, size_t bytes, const ull__rect *part,
                                 uint8_t *pixels) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return VP8_STATUS_INVALID_PARAM;
  config.options.use_cropping = 1;
  config.options.crop_left = part->x;
  config.options.crop_top = part->y;
  config.options.crop_width = part->width;
  config.options.crop_height = part->height;
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels;
  config.output.u.RGBA.stride = part->width * 4;
  config.output.u.RGBA.size = (size_t)part->width * 4 * (size_t)part->height;
  VP8StatusCode code = WebPDecode(coded, bytes, &config);
  WebPFreeDecBuffer(&config.output);
  return code;
}

/* False where a pixel has a colour, which is no class number. */
static bool to_grey(const uint8_t *row, int count, bool class_numbers, uint8_t *to) {
  bool plain = true;
  for (int x = 0; x < count; x++, row += 4) {
    plain = plain && row[0] == row[1] && row[1] == row[2];
    to[x] = class_numbers ? row[1] : (uint8_t)ull__image_luma(row[0], row[1], row[2]);
  }
  return plain || !class_numbers;
}

static ull_status push(const ull__image_reader *reader, const ull__image_request *request,
                       const ull__image_sink *sink, const uint8_t *pixels, const ull__rect *part,
                       uint8_t *grey, ull__image_info *info) {
  const ull__rect *region = &request->region;
  bool plain = true;
  for (int y = 0; y < region->height; y++) {
    const uint8_t *row = pixels + ((size_t)(region->y - part->y + y) * (size_t)part->width +
                                   (size_t)(region->x - part->x)) *
                                      4;
    if (request->channels == 1) {
      plain = to_grey(row, region->width, request->class_numbers, grey) && plain;
      row = grey;
    }
    ULL__TRY(sink->row(sink->context, y, row));
  }
  if (plain) return ULL_OK;
  return ull__image_refuse(reader, info, ULL_VERDICT_UNSUPPORTED, "a coloured picture as a mask");
}

static ull_status decode(ull__image_reader *reader, void *state, const ull__image_request *request,
                         const ull__image_delivery *delivery, ull__scratch *scratch,
                         const ull__image_sink *sink, ull__image_info *info) {
  webp *w = state;
  ull__rect part = decoded_part(&request->region, info);
  uint8_t *block = ull__scratch_take(scratch, delivery->scratch_bytes);
  if (block == NULL)
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "the scratch for pictures is too small");
  uint8_t *pixels = block + coded_bytes(reader, w);
  uint8_t *grey = pixels + ull__scratch_cost((uint64_t)part.width * (uint64_t)part.height * 4);
  const uint8_t *coded;
  ULL__TRY(read_frame(reader, w, block, &coded, info));
  VP8StatusCode code = decode_part(coded, w->parts.frame_bytes, &part, pixels);
  if (code != VP8_STATUS_OK) return fail(reader, w, info, code);
  return push(reader, request, sink, pixels, &part, grey, info);
}

const ull__image_codec ull__webp_codec = {
    .format = ULL__IMAGE_WEBP,
    .name = "webp",
    .state_bytes = sizeof(webp),
    .create = create,
    .destroy = ull__free,
    .open = open_picture,
    .prepare = prepare,
    .decode = decode,
    .close = close_picture,
};
