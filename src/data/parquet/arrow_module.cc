/* Parquet's library behind C's functions: the one file in C++, built as a module of its own.
 *
 * Rows come in batches, one row group after the other and page by page, on the calling thread
 * alone, from a pool of memory with a limit. Whatever throws ends in a text. */
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/util/config.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include "data/parquet/module.h"

namespace {

/* Calls what returns a Status; an exception becomes one. */
template <typename Call> arrow::Status guard(Call &&call) {
  try {
    return call();
  } catch (const std::exception &e) {
    return arrow::Status::IOError(e.what());
  } catch (...) {
    return arrow::Status::IOError("failed for a reason without a name");
  }
}

/* Owns all that its batches need; members go in reverse order. */
class Rows final : public arrow::RecordBatchReader {
public:
  explicit Rows(int64_t most_bytes)
      : counted_(arrow::system_memory_pool()), pool_(&counted_, most_bytes) {}

  arrow::Status Open(int descriptor, int64_t batch_bytes) {
    int own = dup(descriptor);
    if (own < 0) return arrow::Status::IOError("too many open files");
    auto file = arrow::io::ReadableFile::Open(own, &pool_);
    if (!file.ok()) close(own);
    ARROW_RETURN_NOT_OK(file.status());
    parquet::ReaderProperties properties(&pool_);
    properties.enable_buffered_stream();
    properties.set_page_checksum_verification(true);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(*file, properties));
    parquet::ArrowReaderProperties how(/*use_threads=*/false);
    how.set_pre_buffer(false);
    how.set_batch_size(RowsFor(*builder.raw_reader()->metadata(), batch_bytes));
    builder.memory_pool(&pool_);
    ARROW_RETURN_NOT_OK(builder.properties(how)->Build(&file_));
    ARROW_ASSIGN_OR_RAISE(rows_, file_->GetRecordBatchReader());
    return arrow::Status::OK();
  }

  std::shared_ptr<arrow::Schema> schema() const override { return rows_->schema(); }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch> *batch) override {
    return guard([&]() -> arrow::Status {
      ARROW_RETURN_NOT_OK(rows_->ReadNext(batch));
      return *batch != nullptr ? (*batch)->Validate() : arrow::Status::OK();
    });
  }

private:
  /* By the group whose rows are the longest. */
  static int64_t RowsFor(const parquet::FileMetaData &file, int64_t batch_bytes) {
    int64_t rows = 65536;
    for (int i = 0; i < file.num_row_groups(); i++) {
      auto group = file.RowGroup(i);
      int64_t each = group->total_byte_size() / std::max<int64_t>(group->num_rows(), 1);
      rows = std::min(rows, batch_bytes / std::max<int64_t>(each, 1));
    }
    return std::max<int64_t>(rows, 1);
  }

  arrow::ProxyMemoryPool counted_;
  arrow::CappedMemoryPool pool_;
  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::shared_ptr<arrow::RecordBatchReader> rows_;
};

bool open_rows(int descriptor, int64_t batch_bytes, int64_t most_bytes, ArrowArrayStream *stream,
               char *message, size_t room) {
  arrow::Status status = guard([&]() -> arrow::Status {
    auto rows = std::make_shared<Rows>(most_bytes);
    ARROW_RETURN_NOT_OK(rows->Open(descriptor, batch_bytes));
    return arrow::ExportRecordBatchReader(std::move(rows), stream);
  });
  if (!status.ok()) std::snprintf(message, room, "%s", status.message().c_str());
  return status.ok();
}

size_t print_number(double value, bool is_single, char *to) {
  char *end = to + ULL__NUMBER_TEXT;
  std::to_chars_result result =
      is_single ? std::to_chars(to, end, static_cast<float>(value)) : std::to_chars(to, end, value);
  return static_cast<size_t>(result.ptr - to);
}

const ull__parquet_module table = {ULL__PARQUET_MODULE_VERSION,
                                   "Apache Arrow " ARROW_VERSION_STRING, open_rows, print_number};

} // namespace

extern "C" __attribute__((visibility("default"))) const ull__parquet_module *
ull__parquet_module_table(void) {
  return &table;
}
