/* The rows of one Parquet file, batch by batch, as Arrow hands them out. */
#ifndef ULL_DATA_PARQUET_READER_H
#define ULL_DATA_PARQUET_READER_H

#include "data/content.h"
#include "data/index_file.h"
#include "data/parquet/module.h"

typedef struct ull__parquet_reader {
  const ull__parquet_module *module;
  ull__data_file file;
  struct ArrowArrayStream stream;
  struct ArrowSchema schema; /* of the rows: a struct with a child for each column */
  struct ArrowArray batch;   /* of the same shape, after ull__parquet_next */
  uint64_t first_row;        /* of the batch */
  uint64_t taken_bytes;
} ull__parquet_reader;

/* Opens the module and the file. ULL_ERROR_DATA says what the library finds wrong with it. Close it
 * in any case. */
ull_status ull__parquet_open(const char *path, ull__parquet_reader *reader);

/* Lets the last batch go and reads another; *more is false at the end. */
ull_status ull__parquet_next(ull__parquet_reader *reader, bool *more);

/* Counts what is made of the file. ULL_ERROR_DATA where that is out of all proportion to its size:
 * a few bytes can say that there are billions of equal rows. */
ull_status ull__parquet_take(ull__parquet_reader *reader, uint64_t bytes);

/* ULL_ERROR_DATA where the file is not the one that `stamp` was taken of. */
ull_status ull__parquet_check(const ull__parquet_reader *reader, const ull__stamp *stamp);

/* A zeroed reader is left alone. */
void ull__parquet_close(ull__parquet_reader *reader);

#endif
