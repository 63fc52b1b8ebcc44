/* zlib does the work on our counted heap. A gzip file may hold several members one after the other,
 * as `cat a.gz b.gz` makes; anything else behind a member is damage. */
#include "data/inflate.h"

#include <inttypes.h>
#include <limits.h>

#include "base/alloc.h"
#include "base/error.h"

/* 1032:1 is deflate's limit (RFC 1951: 258 bytes from 2 bits); the constant covers empty blocks and
 * headers. */
enum { DEFLATE_RATIO = 1032, DEFLATE_SLACK = 4096 };

static void *zlib_alloc(void *opaque, unsigned count, unsigned size) {
  (void)opaque;
  return ull__alloc(count, size);
}

static void zlib_free(void *opaque, void *pointer) {
  (void)opaque;
  ull__free(pointer);
}

static ull_status damaged(const ull__inflater *inflater, const char *what) {
  const char *path = inflater->compressed->file->path;
  ULL__FAIL(ULL_ERROR_DATA, "%s: %s after %" PRIu64 " compressed bytes", path, what,
            inflater->consumed - inflater->stream.avail_in);
  ull__error_holder("%s", path);
  return ull__error_change("fetch or write the file again");
}

ull_status ull__inflater_open(ull__inflater *inflater, const ull__content *compressed,
                              ull__deflate_format format) {
  inflater->stream = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free};
  inflater->compressed = compressed;
  inflater->format = format;
  inflater->consumed = 0;
  inflater->ended = false;
  int window = format == ULL__FORMAT_GZIP ? 15 + 16 : -15;
  if (inflateInit2(&inflater->stream, window) == Z_OK) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: no memory to decompress", compressed->file->path);
}

void ull__inflater_close(ull__inflater *inflater) {
  inflateEnd(&inflater->stream);
}

static ull_status refill(ull__inflater *inflater) {
  z_stream *stream = &inflater->stream;
  if (stream->avail_in > 0) return ULL_OK;
  uint64_t left = inflater->compressed->bytes - inflater->consumed;
  size_t count = left < sizeof inflater->input ? (size_t)left : sizeof inflater->input;
  if (count == 0) return ULL_OK;
  ULL__TRY(ull__content_read(inflater->compressed, inflater->consumed, inflater->input, count));
  inflater->consumed += count;
  stream->next_in = inflater->input;
  stream->avail_in = (uInt)count;
  return ULL_OK;
}

static ull_status end_member(ull__inflater *inflater) {
  ULL__TRY(refill(inflater));
  if (inflater->stream.avail_in == 0) {
    inflater->ended = true;
    return ULL_OK;
  }
  if (inflater->format == ULL__FORMAT_GZIP && inflater->stream.next_in[0] == 0x1f) {
    inflateReset(&inflater->stream);
    return ULL_OK;
  }
  return damaged(inflater, "has bytes behind its end,");
}

static ull_status inflate_some(ull__inflater *inflater) {
  z_stream *stream = &inflater->stream;
  ULL__TRY(refill(inflater));
  if (stream->avail_in == 0) return damaged(inflater, "is truncated: it ends");
  int result = inflate(stream, Z_NO_FLUSH);
  if (result == Z_STREAM_END) return end_member(inflater);
  if (result == Z_MEM_ERROR) return ull_error_last()->status;
  if (result != Z_OK) {
    return damaged(inflater, stream->msg != NULL ? stream->msg : "cannot be decompressed");
  }
  return ULL_OK;
}

ull_status ull__inflater_read(ull__inflater *inflater, void *to, uint64_t count, uint64_t *got) {
  z_stream *stream = &inflater->stream;
  *got = 0;
  while (*got < count && !inflater->ended) {
    uint64_t left = count - *got;
    uInt room = left < INT_MAX ? (uInt)left : INT_MAX;
    stream->next_out = (uint8_t *)to + *got;
    stream->avail_out = room;
    ULL__TRY(inflate_some(inflater));
    *got += room - stream->avail_out;
  }
  return ULL_OK;
}

bool ull__inflate_is_possible(uint64_t compressed_bytes, uint64_t inflated_bytes) {
  return inflated_bytes / DEFLATE_RATIO <= compressed_bytes + DEFLATE_SLACK / DEFLATE_RATIO;
}

bool ull__is_gzip(const ull__content *content) {
  uint8_t magic[2];
  if (content->bytes < sizeof magic) return false;
  if (ull__content_read(content, 0, magic, sizeof magic) != ULL_OK) return false;
  return magic[0] == 0x1f && magic[1] == 0x8b;
}
