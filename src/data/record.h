/* The encoded bytes of one array of one sample (a picture, a text): a part of an open file, or
 * memory. Sources hand records out, decoders read them; nothing is read before it is needed. */
#ifndef ULL_DATA_RECORD_H
#define ULL_DATA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

enum { ULL__RECORD_PATH_BYTES = 4096 + 256 };

typedef struct ull__record {
  const uint8_t *memory; /* borrowed until the record is closed; NULL: read from the descriptor */
  int descriptor;        /* -1 where the bytes are in memory */
  bool owns_descriptor;
  void *hold;      /* the source's: what its close_record gives back; NULL where it has none */
  uint64_t offset; /* in the file */
  uint64_t bytes;
  char path[ULL__RECORD_PATH_BYTES]; /* for messages and reports: a file, or "shard.tar:member" */
} ull__record;

/* Copies up to `capacity` bytes from `at` on; *got is less only at the end of the record. A file
 * that has become shorter than the record is an early end, not an error. ULL_ERROR_IO. */
ull_status ull__record_read(const ull__record *record, uint64_t at, void *to, size_t capacity,
                            size_t *got);

/* Ticks (data/ticks.h) that the calling thread has spent in ull__record_read since it last asked.
 */
uint64_t ull__record_take_ticks(void);

/* Opens a regular file as the whole record; `name` is looked up in `folder` (a descriptor, or
 * AT_FDCWD). record->path is filled in already. What is missing or no file is ULL_ERROR_DATA, what
 * cannot be read ULL_ERROR_IO; too many open files ULL_ERROR_OUT_OF_MEMORY. */
ull_status ull__record_open_file(ull__record *record, int folder, const char *name);

/* Closes a descriptor that the record owns. */
void ull__record_close(ull__record *record);

#endif
