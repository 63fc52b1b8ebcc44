/* Which files a Parquet source is made of, and what tells whether they are still the same. */
#ifndef ULL_DATA_PARQUET_PARTS_H
#define ULL_DATA_PARQUET_PARTS_H

#include "base/sha256.h"
#include "data/index_file.h"
#include "data/pattern.h"

typedef struct ull__parquet_parts {
  ull__paths paths;   /* in the order of their bytes */
  ull__stamp *stamps; /* of each */
  ull__stamp stamp;   /* of all: sizes added, the last changes; of a single file its own */
  uint8_t key[ULL__SHA256_BYTES]; /* from where the files really are */
} ull__parquet_parts;

/* Whether a path or pattern is meant as Parquet: by its ending. */
bool ull__is_parquet_name(const char *path);

/* Expands a pattern as shards have it. ULL_ERROR_DATA where a file is missing. Free it in any case.
 */
ull_status ull__parquet_parts_find(const char *pattern, ull__parquet_parts *parts);
void ull__parquet_parts_free(ull__parquet_parts *parts);

#endif
