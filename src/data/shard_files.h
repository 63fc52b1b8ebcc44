/* A few open files out of many: descriptors of shards that threads share while they read, closed
 * when others are needed. However many shards there are, at most ULL__SHARD_FILES stay open. */
#ifndef ULL_DATA_SHARD_FILES_H
#define ULL_DATA_SHARD_FILES_H

#include <pthread.h>

#include "data/index_file.h"
#include "data/record.h"

enum { ULL__SHARD_FILES = 8 };

typedef struct ull__shard_file {
  int descriptor; /* -1: free */
  uint64_t shard;
  uint64_t users;
  uint64_t used_at;
} ull__shard_file;

typedef struct ull__shard_files {
  pthread_mutex_t mutex;
  uint64_t clock;
  ull__shard_file files[ULL__SHARD_FILES];
} ull__shard_files;

void ull__shard_files_begin(ull__shard_files *files);
void ull__shard_files_end(ull__shard_files *files);

/* Points `record` into shard number `shard` at `path`: its descriptor and hold, nothing else; a
 * descriptor of the record's own where all are in use. A file that is not the one that `stamp` was
 * taken of is ULL_ERROR_DATA. Thread safe. */
ull_status ull__shard_files_open(ull__shard_files *files, uint64_t shard, const char *path,
                                 const ull__stamp *stamp, ull__record *record);

/* Gives record->hold back, where it is set. Thread safe. */
void ull__shard_files_close(ull__shard_files *files, ull__record *record);

#endif
