/* What the library hands out is checked for what readers of columns count on: as many columns as
 * the schema has, and as many rows in each as in the batch. */
#include "data/parquet/reader.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

/* A batch takes about this much, and everything at a time no more than that. */
static const int64_t BATCH_BYTES = 16 << 20, MOST_BYTES = INT64_C(2) << 30;

/* What may be made of a file: a multiple of its size, and something for small ones. */
static const uint64_t MOST_TIMES = 1000, MOST_EXTRA = 64 << 20;

static ull_status cannot_read(const ull__parquet_reader *reader, const char *why) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: cannot be read as Parquet: %s", reader->file.path, why);
  ull__error_holder("%s", reader->file.path);
  return ull__error_change("write the file again, or check it with pyarrow.parquet.read_table");
}

static ull_status stream_failed(ull__parquet_reader *reader) {
  const char *why = reader->stream.get_last_error(&reader->stream);
  return cannot_read(reader, why != NULL ? why : "the library does not say why");
}

ull_status ull__parquet_open(const char *path, ull__parquet_reader *reader) {
  char why[512] = "";
  *reader = (ull__parquet_reader){.file.descriptor = -1};
  ULL__TRY(ull__data_file_open(path, &reader->file));
  ULL__TRY(ull__parquet_module_open(&reader->module));
  if (!reader->module->open(reader->file.descriptor, BATCH_BYTES, MOST_BYTES, &reader->stream, why,
                            sizeof why)) {
    reader->stream.release = NULL;
    return cannot_read(reader, why);
  }
  if (reader->stream.get_schema(&reader->stream, &reader->schema) != 0) {
    reader->schema.release = NULL;
    return stream_failed(reader);
  }
  return strcmp(reader->schema.format, "+s") == 0 ? ULL_OK : cannot_read(reader, "it has no rows");
}

static void let_go(ull__parquet_reader *reader) {
  if (reader->batch.release == NULL) return;
  reader->first_row += (uint64_t)reader->batch.length;
  reader->batch.release(&reader->batch);
  reader->batch.release = NULL;
}

ull_status ull__parquet_next(ull__parquet_reader *reader, bool *more) {
  struct ArrowArray *batch = &reader->batch;
  let_go(reader);
  *more = false;
  if (reader->stream.get_next(&reader->stream, batch) != 0) {
    batch->release = NULL;
    return stream_failed(reader);
  }
  if (batch->release == NULL) return ULL_OK;
  bool sound = batch->n_children == reader->schema.n_children && batch->offset == 0;
  for (int64_t i = 0; sound && i < batch->n_children; i++)
    sound = batch->children[i]->length >= batch->length;
  *more = sound;
  return sound ? ULL_OK : cannot_read(reader, "its columns are of different lengths");
}

ull_status ull__parquet_take(ull__parquet_reader *reader, uint64_t bytes) {
  uint64_t file = reader->file.bytes, limit = MOST_EXTRA;
  limit += file < UINT64_MAX / 2 / MOST_TIMES ? MOST_TIMES * file : UINT64_MAX / 2;
  reader->taken_bytes += bytes;
  if (reader->taken_bytes <= limit) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA,
            "%s: its %" PRIu64 " bytes unfold to more than %" PRIu64 ": it is damaged, or made to "
            "fill disks",
            reader->file.path, file, limit);
  ull__error_holder("%s", reader->file.path);
  return ull__error_change("write what is meant as CSV");
}

ull_status ull__parquet_check(const ull__parquet_reader *reader, const ull__stamp *stamp) {
  struct stat about;
  if (fstat(reader->file.descriptor, &about) == 0) {
    ull__stamp now = ull__stamp_of(&about);
    if (ull__stamp_equal(&now, stamp)) return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_DATA, "%s: has changed while it was read", reader->file.path);
  ull__error_holder("%s", reader->file.path);
  return ull__error_change("start again when it is whole");
}

void ull__parquet_close(ull__parquet_reader *reader) {
  let_go(reader);
  if (reader->schema.release != NULL) reader->schema.release(&reader->schema);
  if (reader->stream.release != NULL) reader->stream.release(&reader->stream);
  ull__data_file_close(&reader->file);
  *reader = (ull__parquet_reader){.file.descriptor = -1};
}
