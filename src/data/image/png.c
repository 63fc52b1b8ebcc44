/* PNG by libspng, a row at a time; interlaced pictures are put together first. libspng inflates and
 * undoes the filters; chunks, checksums and colours are ours, so that nothing but pixels is ever
 * inflated or kept. */
#include "data/image/png.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static ull_status create(void **state) {
  *state = ull__alloc(1, sizeof(ull__png));
  return *state != NULL ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static void close_picture(void *state) {
  ull__png *png = state;
  ull__png_work_on(png);
  spng_ctx_free(png->context);
  png->context = NULL;
}

static void destroy(void *state) {
  close_picture(state);
  ull__free(state);
}

static ull_verdict verdict_of(int code) {
  switch (code) {
  case SPNG_ECHUNK_UNKNOWN_CRITICAL:
  case SPNG_ECOMPRESSION_METHOD:
  case SPNG_EFILTER_METHOD:
  case SPNG_EINTERLACE_METHOD:
    return ULL_VERDICT_UNSUPPORTED;
  default:
    return ULL_VERDICT_DAMAGED;
  }
}

static const char *reason_of(int code) {
  switch (code) {
  case SPNG_EIDAT_TOO_SHORT:
    return "the coded data ends before the picture";
  case SPNG_EIDAT_STREAM:
    return "broken compressed data";
  case SPNG_EFILTER:
    return "a row of unknown filter";
  case SPNG_ECHUNK_UNKNOWN_CRITICAL:
    return "PNG with a chunk of unknown meaning";
  case SPNG_ECHUNK_POS:
    return "chunks in an impossible order";
  case SPNG_ENOPLTE:
    return "no palette";
  case SPNG_ENOIHDR:
  case SPNG_EIHDR_SIZE:
    return "no header";
  case SPNG_ECOLOR_TYPE:
  case SPNG_EBIT_DEPTH:
    return "impossible colours";
  default:
    return "malformed";
  }
}

static ull_status fail(const ull__image_reader *reader, const ull__png *png, ull__image_info *info,
                       int code) {
  if (png->feed.stopped != ULL_OK) {
    info->verdict = ULL_VERDICT_UNREADABLE;
    info->reason = "cannot be read";
    return png->feed.stopped;
  }
  if (code == SPNG_EMEM)
    return ULL__FAIL(ULL_ERROR_INTERNAL, "%s: the decoder took more than was foreseen",
                     reader->input.record->path);
  if (png->feed.ended)
    return ull__image_refuse(reader, info, ULL_VERDICT_TRUNCATED, "premature end of file");
  return ull__image_refuse(reader, info, verdict_of(code), reason_of(code));
}

static void fill_info(const struct spng_ihdr *header, ull__image_info *info) {
  static const int channels[] = {1, 0, 3, 1, 2, 0, 4};
  info->channels = channels[header->color_type];
  info->bits = header->bit_depth;
  info->palette = header->color_type == SPNG_COLOR_TYPE_INDEXED;
  info->progressive = header->interlace_method != 0;
}

static ull_status start_context(ull__png *png) {
  png->small_used = 0;
  png->decoding = false;
  png->context = spng_ctx_new2(&ull__png_allocator, 0);
  if (png->context == NULL) return ULL__FAIL(ULL_ERROR_INTERNAL, "libspng cannot be prepared");
  spng_set_crc_action(png->context, SPNG_CRC_USE, SPNG_CRC_USE);
  ull__png_feed_begin(&png->feed);
  if (spng_set_png_stream(png->context, ull__png_feed_read, &png->feed) != 0)
    return ULL__FAIL(ULL_ERROR_INTERNAL, "libspng cannot be prepared");
  return ULL_OK;
}

static ull_status open_picture(ull__image_reader *reader, void *state, ull__image_info *info) {
  ull__png *png = state;
  png->small = reader->pool;
  png->feed = (ull__png_feed){.input = &reader->input, .info = info, .working = reader->pool};
  ULL__TRY(ull__png_survey(&png->feed));
  ull__png_work_on(png);
  ULL__TRY(start_context(png));
  int code = spng_get_ihdr(png->context, &png->header);
  if (code != 0) return fail(reader, png, info, code);
  ULL__TRY(ull__image_check_size(reader, info, png->header.width, png->header.height));
  fill_info(&png->header, info);
  return ULL_OK;
}

/* Bytes of a row as stored, without its filter's. */
static uint64_t stored_row_bytes(const ull__png *png) {
  static const unsigned channels[] = {1, 0, 3, 1, 2, 0, 4};
  uint64_t bits = (uint64_t)channels[png->header.color_type] * png->header.bit_depth;
  return (png->header.width * bits + 7) / 8;
}

/* What libspng takes for rows, at most: two with a filter's byte and a margin, one more where
 * passes are spread out. */
static uint64_t library_bytes(const ull__png *png) {
  uint64_t row = stored_row_bytes(png) + 1 + 32 + 64;
  return ULL__PNG_INFLATE_BYTES + ull__scratch_cost(row) * (png->header.interlace_method ? 3 : 2);
}

static uint64_t picture_bytes(const ull__png *png) {
  uint64_t row = ull__scratch_cost(stored_row_bytes(png));
  return png->header.interlace_method ? row * png->header.height : row;
}

static ull_status prepare(ull__image_reader *reader, void *state, const ull__image_request *request,
                          ull__image_info *info, ull__image_delivery *delivery) {
  ull__png *png = state;
  uint64_t delivered = (uint64_t)request->region.width * (uint64_t)request->channels;
  *delivery = (ull__image_delivery){.reduction = 1, .region = request->region};
  delivery->scratch_bytes = library_bytes(png) + picture_bytes(png) + ull__scratch_cost(delivered);
  return ull__image_check_need(reader, info, delivery->scratch_bytes);
}

/* ---- rows ---- */

typedef struct output {
  const ull__image_sink *sink;
  ull__rect region;
  ull__png_layout layout;
  uint8_t *stored; /* one row, or all of them */
  uint8_t *delivered;
} output;

static void read_palette(ull__png *png, ull__png_layout *layout) {
  struct spng_plte plte;
  if (layout->colour != SPNG_COLOR_TYPE_INDEXED || spng_get_plte(png->context, &plte) != 0) return;
  memcpy(layout->palette, plte.entries, plte.n_entries * sizeof plte.entries[0]);
  for (unsigned i = 0; i < plte.n_entries; i++)
    layout->palette_grey[i] =
        (uint8_t)ull__image_luma(plte.entries[i].red, plte.entries[i].green, plte.entries[i].blue);
}

static ull_status deliver(output *out, int y, const uint8_t *row) {
  ull__png_convert(&out->layout, row, out->region.x, out->region.width, out->delivered);
  return out->sink->row(out->sink->context, y, out->delivered);
}

static ull_status push_rows(ull__image_reader *reader, ull__png *png, output *out,
                            ull__image_info *info) {
  size_t bytes = stored_row_bytes(png);
  int end = out->region.y + out->region.height;
  for (int y = 0; y < end; y++) {
    int code = spng_decode_row(png->context, out->stored, bytes);
    if (code != 0 && code != SPNG_EOI) return fail(reader, png, info, code);
    if (y >= out->region.y) ULL__TRY(deliver(out, y - out->region.y, out->stored));
  }
  return ULL_OK;
}

static ull_status push_interlaced(ull__image_reader *reader, ull__png *png, output *out,
                                  ull__image_info *info) {
  size_t bytes = stored_row_bytes(png), stride = ull__scratch_cost(bytes);
  struct spng_row_info at;
  int code = 0;
  memset(out->stored, 0, stride * png->header.height);
  while (code == 0) {
    code = spng_get_row_info(png->context, &at);
    if (code == 0) code = spng_decode_row(png->context, out->stored + at.row_num * stride, bytes);
  }
  if (code != SPNG_EOI) return fail(reader, png, info, code);
  for (int y = 0; y < out->region.height; y++)
    ULL__TRY(deliver(out, y, out->stored + (size_t)(out->region.y + y) * stride));
  return ULL_OK;
}

/* Rows below the region, where what they are decides about the picture. */
static ull_status decode_rest(const ull__image_reader *reader, ull__png *png, const output *out,
                              ull__image_info *info) {
  size_t bytes = stored_row_bytes(png);
  for (int y = out->region.y + out->region.height; y < (int)png->header.height; y++) {
    int code = spng_decode_row(png->context, out->stored, bytes);
    if (code != 0 && code != SPNG_EOI) return fail(reader, png, info, code);
  }
  return ULL_OK;
}

/* A file that ends early is truncated or merely lacks its end: only its last row tells. */
static ull_status finish(const ull__image_reader *reader, ull__png *png, const output *out,
                         ull__image_info *info) {
  bool whole = png->header.interlace_method != 0 ||
               out->region.y + out->region.height == (int)png->header.height;
  bool has_end = true;
  if (!whole) ULL__TRY(ull__png_find_end(&png->feed, &has_end));
  if (!has_end) ULL__TRY(decode_rest(reader, png, out, info));
  if (whole || !has_end) ULL__TRY(ull__png_feed_finish(&png->feed));
  if (out->layout.problem != NULL)
    return ull__image_refuse(reader, info, ULL_VERDICT_UNSUPPORTED, out->layout.problem);
  return ULL_OK;
}

static ull_status take(ull__png *png, output *out, const ull__image_request *request,
                       uint64_t bytes, ull__scratch *scratch) {
  uint8_t *block = ull__scratch_take(scratch, bytes);
  if (block == NULL)
    return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "the scratch for pictures is too small");
  png->large = block;
  png->large_used = 0;
  png->large_bytes = library_bytes(png);
  out->stored = block + ull__scratch_cost(png->large_bytes);
  out->delivered = out->stored + picture_bytes(png);
  out->layout = (ull__png_layout){.colour = png->header.color_type,
                                  .depth = png->header.bit_depth,
                                  .grey = request->channels == 1,
                                  .class_numbers = request->class_numbers};
  return ULL_OK;
}

static ull_status decode_in(ull__image_reader *reader, ull__png *png, output *out,
                            ull__image_info *info) {
  ull__png_work_on(png);
  png->decoding = true;
  int code = spng_decode_image(png->context, NULL, 0, SPNG_FMT_PNG, SPNG_DECODE_PROGRESSIVE);
  if (code != 0) return fail(reader, png, info, code);
  read_palette(png, &out->layout);
  ULL__TRY(png->header.interlace_method ? push_interlaced(reader, png, out, info)
                                        : push_rows(reader, png, out, info));
  return finish(reader, png, out, info);
}

/* The context ends with the call: it has memory of the scratch, which is lent for as long. */
static ull_status decode(ull__image_reader *reader, void *state, const ull__image_request *request,
                         const ull__image_delivery *delivery, ull__scratch *scratch,
                         const ull__image_sink *sink, ull__image_info *info) {
  ull__png *png = state;
  output out = {.sink = sink, .region = delivery->region};
  png->feed.info = info;
  ULL__TRY(take(png, &out, request, delivery->scratch_bytes, scratch));
  ull_status status = decode_in(reader, png, &out, info);
  close_picture(png);
  return status;
}

const ull__image_codec ull__png_codec = {
    .format = ULL__IMAGE_PNG,
    .name = "png",
    .state_bytes = sizeof(ull__png),
    .pool_bytes = ULL__PNG_SMALL_BYTES,
    .create = create,
    .destroy = destroy,
    .open = open_picture,
    .prepare = prepare,
    .decode = decode,
    .close = close_picture,
};
