/* Arrays that lie as they are in files or in memory, sample after sample: what IDX, NPY and NPZ
 * have in common. */
#ifndef ULL_DATA_STORED_H
#define ULL_DATA_STORED_H

#include "data/content.h"
#include "data/source.h"

typedef struct ull__stored_array {
  ull__content content; /* memory owned where set */
  uint64_t data_offset; /* of sample 0 in the content */
} ull__stored_array;

typedef struct ull__stored {
  size_t file_count;
  ull__data_file files[ULL_DATA_MAX_ARRAYS];
  ull__stored_array arrays[ULL_DATA_MAX_ARRAYS]; /* as in the source */
} ull__stored;

/* Allocates source->state, counted as resident. */
ull_status ull__stored_create(ull_source *source);

/* Opens a file that lives as long as the source. */
ull_status ull__stored_open_file(ull_source *source, const char *path, ull__data_file **out);

ull_status ull__stored_read(const ull_source *source, uint64_t first, uint64_t count, size_t array,
                            void *bytes);
void ull__stored_close(ull_source *source);

/* Every array holds as many samples as the first one said. */
ull_status ull__stored_agree(ull_source *source, const char *path, const char *name,
                             uint64_t count);

#endif
