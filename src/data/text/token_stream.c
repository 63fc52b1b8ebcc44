/* Reading widens through a small buffer on the stack. What a file holds is compared with what was
 * promised of it at every read: files change, and a token beyond the vocabulary would be read
 * beyond the end of a table. */
#include "data/text/token_stream.h"

#include <inttypes.h>

#include "base/error.h"

enum { PART_BYTES = 8192 };

static ull_status too_large(const ull__token_stream *stream, uint64_t at, uint64_t token) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: token %" PRIu64 " is %" PRIu64 ", beyond %" PRIu64,
            stream->tokens.file->path, at, token, stream->most);
  ull__error_holder("%s", stream->tokens.file->path);
  return ull__error_change("the file changed, or has another width: bits=16 or bits=32");
}

static uint64_t load(const uint8_t *at, int width) {
  return width == 2   ? ull__little16(at)
         : width == 4 ? ull__little32(at)
         : width == 8 ? ull__little64(at)
                      : *at;
}

static ull_status widen(const ull__token_stream *stream, const uint8_t *raw, uint64_t first,
                        uint64_t count, bool as_targets, int64_t *to) {
  uint64_t mark = stream->has_masks ? UINT64_C(1) << (8 * stream->width - 1) : 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t word = load(raw + i * (uint64_t)stream->width, stream->width), token = word & ~mark;
    if (token > stream->most) return too_large(stream, first + i, token);
    to[i] = as_targets && (word & mark) ? ULL__IGNORED_TARGET : (int64_t)token;
  }
  return ULL_OK;
}

ull_status ull__token_stream_read(const ull__token_stream *stream, uint64_t first, uint64_t count,
                                  bool as_targets, int64_t *to) {
  uint8_t raw[PART_BYTES];
  uint64_t most = PART_BYTES / (uint64_t)stream->width;
  if (first > stream->count || count > stream->count - first) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: tokens %" PRIu64 " to %" PRIu64 " of %" PRIu64,
              stream->tokens.file->path, first, first + count, stream->count);
    return ull__error_holder("%s", stream->tokens.file->path);
  }
  while (count > 0) {
    uint64_t part = count < most ? count : most;
    ULL__TRY(ull__content_read(&stream->tokens, first * (uint64_t)stream->width, raw,
                               (size_t)part * (size_t)stream->width));
    ULL__TRY(widen(stream, raw, first, part, as_targets, to));
    first += part;
    count -= part;
    to += part;
  }
  return ULL_OK;
}

ull_status ull__token_stream_documents(const ull__token_stream *stream, uint64_t first,
                                       uint64_t count, uint64_t *to) {
  return ull__kept_read(&stream->kept, ULL__STREAM_SECTION_DOCUMENTS, first * sizeof *to, to,
                        (size_t)(count + 1) * sizeof *to);
}

static ull_status damaged(const ull__token_stream *stream) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: is damaged", stream->kept.file.path);
  return ull__error_change("remove the file: it is made anew");
}

ull_status ull__token_stream_use_kept(ull__token_stream *stream) {
  const ull__kept_header *header = &stream->kept.header;
  const uint64_t *numbers = header->numbers;
  stream->most = numbers[ULL__STREAM_MOST];
  stream->eot = numbers[ULL__STREAM_EOT];
  stream->documents = numbers[ULL__STREAM_DOCUMENTS];
  stream->empty = numbers[ULL__STREAM_EMPTY];
  stream->bad = numbers[ULL__STREAM_BAD];
  uint64_t starts = header->sections[ULL__STREAM_SECTION_DOCUMENTS].bytes / sizeof(uint64_t);
  if (starts > 0 && starts - 1 != stream->documents) return damaged(stream);
  if (stream->file.path != NULL) return ULL_OK;
  stream->width = (int)numbers[ULL__STREAM_WIDTH];
  stream->has_masks = numbers[ULL__STREAM_MASKS] != 0;
  stream->count = numbers[ULL__STREAM_TOKENS];
  stream->tokens = (ull__content){
      .file = &stream->kept.file,
      .offset = header->sections[ULL__STREAM_SECTION_TOKENS].offset,
      .bytes = header->sections[ULL__STREAM_SECTION_TOKENS].bytes,
  };
  bool is_sound = (stream->width == 2 || stream->width == 4) &&
                  stream->count == stream->tokens.bytes / (uint64_t)stream->width;
  return is_sound ? ULL_OK : damaged(stream);
}

void ull__token_stream_close(ull__token_stream *stream) {
  if (stream->file.path != NULL) ull__data_file_close(&stream->file);
  ull__kept_close(&stream->kept);
  *stream = (ull__token_stream){.file.descriptor = -1, .kept.file.descriptor = -1};
}
