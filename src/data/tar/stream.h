/* The content of a shard as bytes at offsets: a plain file anywhere, a gzip or zstd file forward.
 * What a file is, its first bytes say. */
#ifndef ULL_DATA_TAR_STREAM_H
#define ULL_DATA_TAR_STREAM_H

#include "data/content.h"

typedef enum ull__packing { ULL__PLAIN, ULL__GZIP, ULL__ZSTD } ull__packing;

typedef struct ull__shard_stream ull__shard_stream;

/* Opens the file at `path`. Memory that decompression needs is taken as it goes, at most
 * ull__shard_stream_bytes(). */
ull_status ull__shard_stream_open(const char *path, ull__shard_stream **out);

/* Copies up to `bytes` from `at` on. *got is less at the end, and where the packed data is cut or
 * damaged: then ull__shard_stream_fault says so. `at` may lie at most 1 KiB before the end of the
 * read before, except in plain files. */
ull_status ull__shard_stream_read(void *stream, uint64_t at, void *to, size_t bytes, size_t *got);

/* "is truncated", "cannot be decompressed", or NULL where all was well. */
const char *ull__shard_stream_fault(const ull__shard_stream *stream);

ull__packing ull__shard_stream_packing(const ull__shard_stream *stream);
const ull__data_file *ull__shard_stream_file(const ull__shard_stream *stream);

/* The offset behind the last byte that was read. */
uint64_t ull__shard_stream_at(const ull__shard_stream *stream);

void ull__shard_stream_close(ull__shard_stream *stream); /* NULL is allowed */

/* What one stream takes at most, the window of zstd (8 MiB) included. */
uint64_t ull__shard_stream_bytes(ull__packing packing);

#endif
