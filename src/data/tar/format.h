/* Members of a tar archive, in the order of the archive: ustar, GNU long names, pax paths and
 * sizes. The archive is read in pieces by a function that may only go forward, so that compressed
 * ones work as well. */
#ifndef ULL_DATA_TAR_FORMAT_H
#define ULL_DATA_TAR_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

enum { ULL__TAR_BLOCK = 512, ULL__TAR_NAME = 4096, ULL__TAR_EXTENSION = 64 * 1024 };

/* Copies up to `bytes` from `at` on; *got is less only at the end. `at` is never more than a block
 * before the end of the read before. A failure is an error of the machine; damage is an early end.
 */
typedef ull_status (*ull__tar_read)(void *context, uint64_t at, void *to, size_t bytes,
                                    size_t *got);

typedef enum ull__tar_end {
  ULL__TAR_GOES_ON,
  ULL__TAR_ENDED,   /* two empty blocks, or one at the end of the file */
  ULL__TAR_MORE,    /* so, and behind them something else: archives that were joined */
  ULL__TAR_NO_MARK, /* the file ends between members */
  ULL__TAR_CUT,     /* the file ends inside a header or its extension */
  ULL__TAR_DAMAGED, /* a header whose checksum, size or name makes no sense */
} ull__tar_end;

/* Large: keep it on the heap. */
typedef struct ull__tar_reader {
  ull__tar_read read;
  void *context;
  uint64_t at; /* of the next header */
  ull__tar_end end;
  char long_name[ULL__TAR_NAME]; /* from an extension, for the next member */
  bool has_long_name;
  uint64_t long_size;
  bool has_long_size;
  bool is_sparse; /* the next member, says an extension; its name goes before "path" */
  uint8_t first[2 * ULL__TAR_BLOCK]; /* header, and the first block of the content behind it */
  char extension[ULL__TAR_EXTENSION];
} ull__tar_reader;

typedef struct ull__tar_member {
  char name[ULL__TAR_NAME];
  bool regular;           /* else a folder, link, device or a kind that nobody knows */
  bool indirect;          /* a link, or a sparse file: its content is not what lies here */
  uint64_t offset, bytes; /* of the content */
  const uint8_t *begin;   /* the first begin_bytes of the content; until the next call */
  size_t begin_bytes;
} ull__tar_member;

void ull__tar_begin(ull__tar_reader *reader, ull__tar_read read, void *context);

/* Reads the next header; *found is false at the end, and reader->end says which. */
ull_status ull__tar_next(ull__tar_reader *reader, ull__tar_member *member, bool *found);

/* Copies the first `bytes` bytes of the member just found (at most its size). */
ull_status ull__tar_content(ull__tar_reader *reader, const ull__tar_member *member, void *to,
                            size_t bytes, size_t *got);

#endif
