/* Packed shards are decompressed as they are read; what is skipped goes through a small buffer, and
 * the last KiB is kept, since a reader of tar looks that far ahead. zstd's window is limited to
 * what its levels up to 19 use, so that a hostile file cannot ask for gigabytes. */
#include "data/tar/stream.h"

#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/inflate.h"

enum {
  KEPT = 1024,
  SKIP_BYTES = 32 * 1024,
  INPUT_BYTES = 64 * 1024,
  WINDOW_LOG = 23,
  ZSTD_SLACK = 512 * 1024,
  GZIP_BYTES = 64 * 1024,
};

struct ull__shard_stream {
  ull__data_file file;
  ull__content content;
  ull__packing packing;
  ull__inflater *inflater;
  ZSTD_DStream *zstd;
  ZSTD_inBuffer input;
  uint8_t *input_memory;
  uint64_t taken;  /* packed bytes */
  bool frame_open; /* of zstd: the data must not end here */
  uint64_t at;
  uint8_t kept[KEPT]; /* the bytes before `at` */
  const char *fault;
};

static ull_status refuse_packing(const ull__data_file *file, const char *packer) {
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: is packed by %s; gzip and zstd are read", file->path,
            packer);
  ull__error_holder("%s", file->path);
  return ull__error_change("unpack it, or pack it anew with zstd");
}

/* Also of what has fewer than eight bytes, which is plain. */
static ull_status packing_of(const ull__data_file *file, ull__packing *packing) {
  ull__content content = {.file = file, .bytes = file->bytes};
  uint8_t magic[8] = {0};
  *packing = ULL__PLAIN;
  if (file->bytes < sizeof magic) return ULL_OK;
  ULL__TRY(ull__content_read(&content, 0, magic, sizeof magic));
  if (magic[0] == 0x1f && magic[1] == 0x8b) *packing = ULL__GZIP;
  if (memcmp(magic, "BZh", 3) == 0 && memcmp(magic + 4, "1AY&", 4) == 0)
    return refuse_packing(file, "bzip2");
  if (memcmp(magic,
             "\xfd"
             "7zXZ",
             6) == 0)
    return refuse_packing(file, "xz");
  uint32_t number = ull__little32(magic);
  if (number == ZSTD_MAGICNUMBER ||
      (number & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START)
    *packing = ULL__ZSTD;
  return ULL_OK;
}

uint64_t ull__shard_stream_bytes(ull__packing packing) {
  uint64_t own = sizeof(struct ull__shard_stream) + SKIP_BYTES;
  if (packing == ULL__PLAIN) return own;
  if (packing == ULL__GZIP) return own + sizeof(ull__inflater) + GZIP_BYTES;
  return own + INPUT_BYTES + (1u << WINDOW_LOG) + ZSTD_SLACK;
}

static ull_status no_memory(const ull__shard_stream *stream) {
  return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: no memory to decompress", stream->file.path);
}

static ull_status open_packed(ull__shard_stream *stream) {
  if (stream->packing == ULL__GZIP) {
    stream->inflater = ull__alloc(1, sizeof *stream->inflater);
    if (stream->inflater == NULL) return ull_error_last()->status;
    ull_status status = ull__inflater_open(stream->inflater, &stream->content, ULL__FORMAT_GZIP);
    if (status != ULL_OK) {
      ull__free(stream->inflater);
      stream->inflater = NULL;
    }
    return status;
  }
  if (stream->packing == ULL__PLAIN) return ULL_OK;
  stream->input_memory = ull__alloc(INPUT_BYTES, 1);
  if (stream->input_memory == NULL) return ull_error_last()->status;
  stream->zstd = ZSTD_createDStream();
  if (stream->zstd == NULL) return no_memory(stream);
  ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax, WINDOW_LOG);
  return ULL_OK;
}

ull_status ull__shard_stream_open(const char *path, ull__shard_stream **out) {
  *out = NULL;
  ull__shard_stream *stream = ull__alloc(1, sizeof *stream);
  if (stream == NULL) return ull_error_last()->status;
  stream->file.descriptor = -1;
  ull_status status = ull__data_file_open(path, &stream->file);
  stream->content = (ull__content){.file = &stream->file, .bytes = stream->file.bytes};
  if (status == ULL_OK) status = packing_of(&stream->file, &stream->packing);
  if (status == ULL_OK) status = open_packed(stream);
  if (status != ULL_OK) {
    ull__shard_stream_close(stream);
    return status;
  }
  *out = stream;
  return ULL_OK;
}

void ull__shard_stream_close(ull__shard_stream *stream) {
  if (stream == NULL) return;
  if (stream->inflater != NULL) ull__inflater_close(stream->inflater);
  ull__free(stream->inflater);
  ZSTD_freeDStream(stream->zstd);
  ull__free(stream->input_memory);
  ull__data_file_close(&stream->file);
  ull__free(stream);
}

static ull_status fill_input(ull__shard_stream *stream) {
  if (stream->input.pos < stream->input.size) return ULL_OK;
  uint64_t left = stream->content.bytes - stream->taken;
  size_t count = left < INPUT_BYTES ? (size_t)left : INPUT_BYTES;
  ULL__TRY(ull__content_read(&stream->content, stream->taken, stream->input_memory, count));
  stream->taken += count;
  stream->input = (ZSTD_inBuffer){.src = stream->input_memory, .size = count};
  return ULL_OK;
}

static ull_status unpack_zstd(ull__shard_stream *stream, void *to, size_t bytes, size_t *got) {
  ZSTD_outBuffer output = {.dst = to, .size = bytes};
  while (output.pos < bytes && stream->fault == NULL) {
    ULL__TRY(fill_input(stream));
    size_t before = output.pos;
    bool dry = stream->input.size == 0;
    if (dry && !stream->frame_open) break;
    size_t result = ZSTD_decompressStream(stream->zstd, &output, &stream->input);
    if (ZSTD_isError(result)) {
      stream->fault = "cannot be decompressed";
    } else {
      stream->frame_open = result != 0;
      if (dry && output.pos == before && result != 0) stream->fault = "is truncated";
    }
  }
  *got = output.pos;
  return ULL_OK;
}

/* Damage is an early end here; what the machine lacks stays an error. */
static ull_status unpack_gzip(ull__shard_stream *stream, void *to, size_t bytes, size_t *got) {
  uint64_t count = 0;
  ull_status status =
      stream->fault == NULL ? ull__inflater_read(stream->inflater, to, bytes, &count) : ULL_OK;
  *got = (size_t)count;
  if (status != ULL_ERROR_DATA) return status;
  bool cut = strstr(ull_error_last()->message, "is truncated") != NULL;
  stream->fault = cut ? "is truncated" : "cannot be decompressed";
  ull_error_clear();
  return ULL_OK;
}

static void keep(ull__shard_stream *stream, const uint8_t *bytes, size_t count) {
  if (count >= KEPT) {
    memcpy(stream->kept, bytes + count - KEPT, KEPT);
  } else {
    memmove(stream->kept, stream->kept + count, KEPT - count);
    memcpy(stream->kept + KEPT - count, bytes, count);
  }
  stream->at += count;
}

static ull_status unpack(ull__shard_stream *stream, void *to, size_t bytes, size_t *got) {
  ULL__TRY(stream->packing == ULL__GZIP ? unpack_gzip(stream, to, bytes, got)
                                        : unpack_zstd(stream, to, bytes, got));
  keep(stream, to, *got);
  return ULL_OK;
}

static ull_status skip_to(ull__shard_stream *stream, uint64_t at) {
  uint8_t *buffer = ull__alloc(SKIP_BYTES, 1);
  if (buffer == NULL) return ull_error_last()->status;
  ull_status status = ULL_OK;
  size_t got = 1;
  while (status == ULL_OK && stream->at < at && got > 0) {
    uint64_t left = at - stream->at;
    status = unpack(stream, buffer, left < SKIP_BYTES ? (size_t)left : SKIP_BYTES, &got);
  }
  ull__free(buffer);
  return status;
}

static ull_status read_plain(const ull__shard_stream *stream, uint64_t at, void *to, size_t bytes,
                             size_t *got) {
  uint64_t left = at < stream->content.bytes ? stream->content.bytes - at : 0;
  *got = left < bytes ? (size_t)left : bytes;
  return *got > 0 ? ull__content_read(&stream->content, at, to, *got) : ULL_OK;
}

ull_status ull__shard_stream_read(void *context, uint64_t at, void *to, size_t bytes, size_t *got) {
  ull__shard_stream *stream = context;
  uint8_t *out = to;
  *got = 0;
  if (stream->packing == ULL__PLAIN) return read_plain(stream, at, to, bytes, got);
  if (at < stream->at) {
    uint64_t back = stream->at - at;
    if (back > KEPT) return ULL__FAIL(ULL_ERROR_INTERNAL, "%s: read back", stream->file.path);
    size_t count = back < bytes ? (size_t)back : bytes;
    memcpy(out, stream->kept + KEPT - back, count);
    *got = count;
  } else if (at > stream->at) {
    ULL__TRY(skip_to(stream, at));
    if (stream->at < at) return ULL_OK;
  }
  if (*got == bytes) return ULL_OK;
  size_t more;
  ULL__TRY(unpack(stream, out + *got, bytes - *got, &more));
  *got += more;
  return ULL_OK;
}

const char *ull__shard_stream_fault(const ull__shard_stream *stream) {
  return stream->fault;
}

ull__packing ull__shard_stream_packing(const ull__shard_stream *stream) {
  return stream->packing;
}

const ull__data_file *ull__shard_stream_file(const ull__shard_stream *stream) {
  return &stream->file;
}

uint64_t ull__shard_stream_at(const ull__shard_stream *stream) {
  return stream->at;
}
