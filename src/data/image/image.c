/* The reader: finds the format in the content and hands the picture to its decoder. */
#include "data/image/image.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/image/codec.h"
#include "data/image/sniff.h"

static const ull__image_codec *const codecs[] = {&ull__jpeg_codec, &ull__png_codec,
                                                 &ull__webp_codec};
_Static_assert(sizeof codecs / sizeof codecs[0] == ULL__IMAGE_CODECS, "a state for each codec");

#define DEFAULT_PIXELS (UINT64_C(1) << 28)

void ull__image_note(ull__image_info *info, ull_verdict verdict, const char *reason) {
  if (verdict <= info->verdict) return;
  info->verdict = verdict;
  info->reason = reason;
}

void ull__image_note_turned(ull__image_info *info, bool ignored) {
  if (info->orientation != 1 && !ignored)
    ull__image_note(info, ULL_VERDICT_REPAIRED, "turned upright");
}

ull_status ull__image_refuse(const ull__image_reader *reader, ull__image_info *info,
                             ull_verdict verdict, const char *reason) {
  info->verdict = verdict;
  info->reason = reason;
  ULL__FAIL(ULL_ERROR_DATA, "%s: %s", reader->input.record->path, reason);
  return ull__error_holder("%s", reader->input.record->path);
}

ull_status ull__image_check_size(const ull__image_reader *reader, ull__image_info *info,
                                 uint64_t width, uint64_t height) {
  if (width == 0 || height == 0)
    return ull__image_refuse(reader, info, ULL_VERDICT_DAMAGED, "a side of no pixels");
  if (width > INT32_MAX || height > INT32_MAX || width > reader->limits.pixels / height) {
    ull__image_refuse(reader, info, ULL_VERDICT_TOO_BIG, "too many pixels");
    ULL__FAIL(ULL_ERROR_DATA, "%s: %llu x %llu is more than %llu pixels",
              reader->input.record->path, (unsigned long long)width, (unsigned long long)height,
              (unsigned long long)reader->limits.pixels);
    return ull__error_holder("%s", reader->input.record->path);
  }
  info->width = (int)width;
  info->height = (int)height;
  return ULL_OK;
}

ull_status ull__image_check_need(const ull__image_reader *reader, ull__image_info *info,
                                 uint64_t bytes) {
  uint64_t limit = reader->limits.memory_bytes;
  if (limit == 0 || bytes <= limit) return ULL_OK;
  info->verdict = ULL_VERDICT_TOO_BIG;
  info->reason = "needs more memory than the limit for one picture";
  ULL__FAIL(ULL_ERROR_DATA, "%s: needs %llu bytes to be decoded", reader->input.record->path,
            (unsigned long long)bytes);
  ull__error_holder("%s", reader->input.record->path);
  return ull__error_bytes(bytes, limit);
}

static uint64_t largest_pool(void) {
  uint64_t largest = 0;
  for (int i = 0; i < ULL__IMAGE_CODECS; i++)
    if (codecs[i]->pool_bytes > largest) largest = codecs[i]->pool_bytes;
  return largest;
}

uint64_t ull__image_fixed_bytes(void) {
  return ull__scratch_cost(ULL__INPUT_BYTES) + ull__scratch_cost(largest_pool());
}

uint64_t ull__image_reader_bytes(void) {
  uint64_t bytes = sizeof(ull__image_reader);
  for (int i = 0; i < ULL__IMAGE_CODECS; i++) bytes += codecs[i]->state_bytes;
  return bytes;
}

ull_status ull__image_reader_create(const ull__image_limits *limits, ull__image_reader **out) {
  *out = NULL;
  ull__image_reader *reader = ull__alloc(1, sizeof *reader);
  if (reader == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  reader->limits = *limits;
  if (reader->limits.pixels == 0) reader->limits.pixels = DEFAULT_PIXELS;
  for (int i = 0; i < ULL__IMAGE_CODECS; i++) {
    ull_status status = codecs[i]->create(&reader->states[i]);
    if (status != ULL_OK) {
      ull__image_reader_destroy(reader);
      return status;
    }
  }
  *out = reader;
  return ULL_OK;
}

void ull__image_reader_destroy(ull__image_reader *reader) {
  if (reader == NULL) return;
  ull__image_close(reader);
  for (int i = 0; i < ULL__IMAGE_CODECS; i++)
    if (reader->states[i] != NULL) codecs[i]->destroy(reader->states[i]);
  ull__free(reader);
}

static ull_status take_fixed(ull__image_reader *reader, ull__scratch *scratch, uint8_t **buffer) {
  reader->scratch = scratch;
  reader->mark = scratch->used;
  *buffer = ull__scratch_take(scratch, ULL__INPUT_BYTES);
  reader->pool = ull__scratch_take(scratch, largest_pool());
  if (*buffer != NULL && reader->pool != NULL) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "the scratch for pictures is too small");
}

static ull_status choose_codec(ull__image_reader *reader, ull__image_info *info) {
  ull__sniffed found = ull__image_sniff(reader->input.bytes, reader->input.count);
  for (int i = 0; i < ULL__IMAGE_CODECS; i++)
    if (found.format != ULL__IMAGE_UNKNOWN && codecs[i]->format == found.format) {
      reader->codec = codecs[i];
      reader->state = reader->states[i];
      info->format = found.format;
      if (ull__image_name_lies(reader->input.record->path, found.format))
        ull__image_note(info, ULL_VERDICT_REPAIRED, "the name says another format");
      return ULL_OK;
    }
  if (found.refusal != NULL)
    return ull__image_refuse(reader, info, ULL_VERDICT_UNSUPPORTED, found.refusal);
  return ull__image_refuse(reader, info, ULL_VERDICT_NOT_AN_IMAGE, "not a picture");
}

ull_status ull__image_open(ull__image_reader *reader, const ull__record *record,
                           ull__scratch *scratch, ull__image_info *info) {
  uint8_t *buffer;
  *info = (ull__image_info){.orientation = 1, .reason = ""};
  ull__image_close(reader);
  ULL__TRY(take_fixed(reader, scratch, &buffer));
  ull_status status = ull__input_begin(&reader->input, record, buffer);
  if (status != ULL_OK) {
    info->verdict = ULL_VERDICT_UNREADABLE;
    info->reason = "cannot be read";
    return status;
  }
  if (reader->input.count == 0)
    return ull__image_refuse(reader, info, ULL_VERDICT_EMPTY, "an empty file");
  ULL__TRY(choose_codec(reader, info));
  return reader->codec->open(reader, reader->state, info);
}

static bool is_inside(const ull__rect *region, const ull__image_info *info) {
  return region->x >= 0 && region->y >= 0 && region->width > 0 && region->height > 0 &&
         region->x <= info->width - region->width && region->y <= info->height - region->height;
}

ull_status ull__image_prepare(ull__image_reader *reader, const ull__image_request *request,
                              ull__image_info *info, ull__image_delivery *delivery) {
  if (reader->codec == NULL) return ULL__FAIL(ULL_ERROR_INVALID, "no picture is open");
  if (!is_inside(&request->region, info))
    return ULL__FAIL(ULL_ERROR_INVALID, "a region %d,%d,%d,%d of a picture of %d x %d",
                     request->region.x, request->region.y, request->region.width,
                     request->region.height, info->width, info->height);
  if (request->channels != 1 && (request->channels != 4 || request->class_numbers))
    return ULL__FAIL(ULL_ERROR_INVALID, "%d channels of a picture", request->channels);
  return reader->codec->prepare(reader, reader->state, request, info, delivery);
}

ull_status ull__image_decode(ull__image_reader *reader, const ull__image_request *request,
                             const ull__image_delivery *delivery, ull__scratch *scratch,
                             const ull__image_sink *sink, ull__image_info *info) {
  if (reader->codec == NULL) return ULL__FAIL(ULL_ERROR_INVALID, "no picture is open");
  uint64_t mark = scratch->used;
  ull_status status =
      reader->codec->decode(reader, reader->state, request, delivery, scratch, sink, info);
  ull__scratch_rewind(scratch, mark);
  return status;
}

void ull__image_close(ull__image_reader *reader) {
  if (reader->codec != NULL) reader->codec->close(reader->state);
  if (reader->scratch != NULL) ull__scratch_rewind(reader->scratch, reader->mark);
  reader->codec = NULL;
  reader->scratch = NULL;
}
