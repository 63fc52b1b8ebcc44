/* Writing tar archives: ustar headers, with a pax header in front where a name is longer than 100
 * bytes or a member larger than 8 GiB. Owner, time and mode are the same for every member, so that
 * the same content gives the same bytes. */
#ifndef ULL_DATA_PACK_TAR_WRITER_H
#define ULL_DATA_PACK_TAR_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

enum { ULL__TAR_WRITER_BUFFER = 1 << 20 };

typedef struct ull__tar_writer {
  int file;         /* borrowed */
  const char *path; /* for messages; borrowed */
  uint8_t *buffer;  /* ULL__TAR_WRITER_BUFFER bytes, the writer's own */
  size_t used;
  uint64_t bytes; /* written, what is still in the buffer included */
  uint64_t open;  /* bytes that the open member still lacks */
} ull__tar_writer;

/* `file` is empty and at its start. */
ull_status ull__tar_writer_begin(ull__tar_writer *tar, int file, const char *path);

/* Starts a member of `bytes` bytes, which ull__tar_writer_add brings. `name` is relative and less
 * than 3000 bytes long. */
ull_status ull__tar_writer_member(ull__tar_writer *tar, const char *name, uint64_t bytes);

/* ULL_ERROR_INVALID beyond the member's size. The padding comes with its last byte. */
ull_status ull__tar_writer_add(ull__tar_writer *tar, const void *data, size_t bytes);

/* The end of the archive, to the file. */
ull_status ull__tar_writer_end(ull__tar_writer *tar);

/* In any state; a zeroed writer is left alone. */
void ull__tar_writer_free(ull__tar_writer *tar);

/* What a member takes, headers and padding included. */
uint64_t ull__tar_writer_member_bytes(const char *name, uint64_t bytes);

/* ULL_ERROR_IO from errno, with what to do. */
ull_status ull__pack_io_error(const char *path, const char *action);

/* What the end takes. */
enum { ULL__TAR_WRITER_END = 2 * 512 };

#endif
