/* WebP by libwebp. Its decoder wants the coded frame in one piece and gives pixels in one piece:
 * both lie in the scratch. A region that is larger than the limit for a picture comes in bands,
 * each decoded from the file's first row on. Its own memory is its heap's: the need states it, so
 * that limits bind. Whether a picture is too big is the same for all its regions. Alpha is neither
 * read nor decoded. */
#include "data/image/webp.h"

#include <webp/decode.h>

#include "base/alloc.h"
#include "base/error.h"

/* Smooth upsampling of colours looks one sample, two pixels, to each side; parts begin at even
 * pixels. Bands: what a picture may cost is half as many decodes. */
enum { EDGE = 2, EDGE_ROWS = 2 * EDGE + 1, LEAST_HEADER = 32, MOST_BANDS = 8 };

typedef struct webp {
  ull__webp_parts parts;
  int band_rows; /* of the region that was prepared */
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

/* ---- what is decoded: the region or band and its edges, from even pixels on ---- */

static ull__rect decoded_part(const ull__rect *region, const ull__image_info *info) {
  int left = region->x > EDGE ? (region->x - EDGE) & ~1 : 0;
  int top = region->y > EDGE ? (region->y - EDGE) & ~1 : 0;
  int right = region->x + region->width + EDGE, bottom = region->y + region->height + EDGE;
  if (right > info->width) right = info->width;
  if (bottom > info->height) bottom = info->height;
  return (ull__rect){left, top, right - left, bottom - top};
}

static uint64_t rows_bytes(int width, int rows) {
  return (uint64_t)width * (uint64_t)rows * 4;
}

static uint64_t coded_bytes(const ull__image_reader *reader, const webp *w) {
  return reader->input.record->memory != NULL ? 0 : ull__scratch_cost(w->parts.frame_bytes);
}

/* libwebp's heap: of lossless pictures the pixels and tables, which grow with what the picture
 * shows; of lossy ones a few rows of blocks. */
static uint64_t library_bytes(const webp *w, const ull__image_info *info) {
  uint64_t width = (uint64_t)info->width, height = (uint64_t)info->height, pixels = width * height;
  uint64_t tables = pixels < 960 << 10 ? pixels : 960 << 10;
  if (!w->parts.lossless) return width * 128 + (16 << 10);
  return width * (height + 32) * 4 + tables + (64 << 10);
}

/* All that a decode takes but for its pixels. */
static uint64_t other_bytes(const ull__image_reader *reader, const webp *w,
                            const ull__image_info *info) {
  return library_bytes(w, info) + coded_bytes(reader, w) +
         ull__scratch_cost((uint64_t)info->width) + 2 * ULL__SCRATCH_ALIGNMENT;
}

/* Bytes of pixels that may be decoded at once; an eighth of the limit is left to the caller. */
static uint64_t most_pixel_bytes(const ull__image_reader *reader, uint64_t other) {
  uint64_t limit = reader->limits.memory_bytes;
  if (limit == 0) return UINT64_MAX;
  uint64_t room = limit - limit / 8;
  return room > other ? room - other : 0;
}

static ull_status prepare(ull__image_reader *reader, void *state, const ull__image_request *request,
                          ull__image_info *info, ull__image_delivery *delivery) {
  webp *w = state;
  ull__rect part = decoded_part(&request->region, info);
  uint64_t other = other_bytes(reader, w, info), library = library_bytes(w, info);
  uint64_t whole = rows_bytes(info->width, info->height);
  uint64_t most = most_pixel_bytes(reader, other), pixels = rows_bytes(part.width, part.height);
  uint64_t least = rows_bytes(info->width, info->height / MOST_BANDS + EDGE_ROWS + 1);
  if (least > whole) least = whole;
  uint64_t need = (other + least) * 8 / 7 + 8;
  if (most < least) ULL__TRY(ull__image_check_need(reader, info, need));
  w->band_rows = request->region.height;
  if (pixels > most) {
    w->band_rows = (int)(most / rows_bytes(part.width, 1)) - EDGE_ROWS;
    pixels = most;
  }
  *delivery = (ull__image_delivery){.reduction = 1, .region = request->region};
  delivery->library_bytes = library;
  delivery->least_bytes = need;
  delivery->scratch_bytes = other - library + pixels;
  delivery->whole_bytes = other - library + (whole < most ? whole : most);
  return ULL_OK;
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

typedef struct band {
  ull__rect rect, part; /* wanted, and decoded */
  int first_row;        /* of the region's */
  const uint8_t *pixels;
  uint8_t *grey; /* a row */
} band;

static ull_status push(const ull__image_reader *reader, const ull__image_request *request,
                       const band *band, const ull__image_sink *sink, ull__image_info *info) {
  const ull__rect *rect = &band->rect, *part = &band->part;
  bool plain = true;
  for (int y = 0; y < rect->height; y++) {
    const uint8_t *row = band->pixels + rows_bytes(part->width, rect->y - part->y + y) +
                         rows_bytes(rect->x - part->x, 1);
    if (request->channels == 1) {
      plain = to_grey(row, rect->width, request->class_numbers, band->grey) && plain;
      row = band->grey;
    }
    ULL__TRY(sink->row(sink->context, band->first_row + y, row));
  }
  if (plain) return ULL_OK;
  return ull__image_refuse(reader, info, ULL_VERDICT_UNSUPPORTED, "a coloured picture as a mask");
}

static ull_status decode(ull__image_reader *reader, void *state, const ull__image_request *request,
                         const ull__image_delivery *delivery, ull__scratch *scratch,
                         const ull__image_sink *sink, ull__image_info *info) {
  webp *w = state;
  const ull__rect *region = &request->region;
  uint8_t *block = ull__scratch_take(scratch, delivery->scratch_bytes);
  if (block == NULL)
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "the scratch for pictures is too small");
  uint8_t *grey = block + coded_bytes(reader, w);
  uint8_t *pixels = grey + ull__scratch_cost((uint64_t)info->width);
  const uint8_t *coded;
  ULL__TRY(read_frame(reader, w, block, &coded, info));
  for (int y = 0; y < region->height; y += w->band_rows) {
    int left = region->height - y, rows = left < w->band_rows ? left : w->band_rows;
    band band = {.first_row = y, .pixels = pixels, .grey = grey};
    band.rect = (ull__rect){region->x, region->y + y, region->width, rows};
    band.part = decoded_part(&band.rect, info);
    VP8StatusCode code = decode_part(coded, w->parts.frame_bytes, &band.part, pixels);
    if (code != VP8_STATUS_OK) return fail(reader, w, info, code);
    ULL__TRY(push(reader, request, &band, sink, info));
  }
  return ULL_OK;
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
