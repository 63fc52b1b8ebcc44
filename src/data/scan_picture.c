/* One file of a scan: every pixel is decoded at full size, and thrown away after it was counted. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sha256.h"
#include "data/image/orientation.h"
#include "data/scan_files.h"

enum { HASHED_BYTES = 64 << 10 };

#define DEFAULT_MEMORY ((uint64_t)1 << 30)

ull_status ull__scanner_create(const ull_source *source, const ull_scan_options *options,
                               ull__scanner *scanner) {
  ull__image_limits limits = {.pixels = options->max_pixels, .memory_bytes = options->memory_bytes};
  if (limits.memory_bytes == 0) limits.memory_bytes = DEFAULT_MEMORY;
  *scanner = (ull__scanner){.source = source};
  scanner->fixed = ull__alloc_aligned(ULL__SCRATCH_ALIGNMENT, ull__image_fixed_bytes());
  if (scanner->fixed == NULL) return ull_error_last()->status;
  return ull__image_reader_create(&limits, &scanner->reader);
}

void ull__scanner_free(ull__scanner *scanner) {
  ull__image_reader_destroy(scanner->reader);
  ull__free(scanner->fixed);
  ull__free(scanner->memory);
  *scanner = (ull__scanner){0};
}

static ull_status provide(ull__scanner *scanner, uint64_t bytes) {
  if (bytes <= scanner->memory_bytes) return ULL_OK;
  ull__free(scanner->memory);
  scanner->memory_bytes = 0;
  scanner->memory = ull__alloc_aligned(ULL__SCRATCH_ALIGNMENT, bytes);
  if (scanner->memory == NULL) return ull_error_last()->status;
  scanner->memory_bytes = bytes;
  return ULL_OK;
}

/* ---- pixels ---- */

typedef struct row_counter {
  ull__pixel_sums sums;
  int width, channels;
} row_counter;

static void count_grey(row_counter *counter, const uint8_t *pixels) {
  uint64_t sum = 0, square = 0;
  for (int x = 0; x < counter->width; x++) {
    sum += pixels[x];
    square += (uint32_t)pixels[x] * pixels[x];
  }
  counter->sums.sum[0] += sum;
  counter->sums.square_sum[0] += square;
}

static void count_colours(row_counter *counter, const uint8_t *pixels) {
  uint64_t sum[4] = {0}, square[4] = {0};
  for (int x = 0; x < counter->width; x++) {
    for (int c = 0; c < 4; c++) {
      uint32_t value = pixels[4 * x + c];
      sum[c] += value;
      square[c] += value * value;
    }
  }
  for (int c = 0; c < 3; c++) {
    counter->sums.sum[c] += sum[c];
    counter->sums.square_sum[c] += square[c];
  }
}

static ull_status count_row(void *context, int y, const uint8_t *pixels) {
  row_counter *counter = context;
  (void)y;
  counter->sums.pixels += (uint64_t)counter->width;
  if (counter->channels == 1) {
    count_grey(counter, pixels);
  } else {
    count_colours(counter, pixels);
  }
  return ULL_OK;
}

static void add_sums(ull__pixel_sums *to, const ull__pixel_sums *from) {
  to->pixels += from->pixels;
  for (int c = 0; c < 3; c++) {
    to->sum[c] += from->sum[c];
    to->square_sum[c] += from->square_sum[c];
  }
}

/* ---- files ---- */

static void note(ull__scan_result *result, ull__image_info *info) {
  ull__image_note_turned(info, false);
  result->verdict = info->verdict;
  result->reason = info->reason;
  ull__upright_size(info, info->orientation, &result->width, &result->height);
}

static ull_status decode(ull__scanner *scanner, bool mask, ull__image_info *info,
                         ull__scan_result *result) {
  ull__image_request request = {.region = {0, 0, info->width, info->height},
                                .max_reduction = 1,
                                .channels = mask ? 1 : 4,
                                .class_numbers = mask};
  ull__image_delivery delivery;
  ull_status status = ull__image_prepare(scanner->reader, &request, info, &delivery);
  if (info->verdict == ULL_VERDICT_TOO_BIG)
    result->working_bytes = result->region_bytes = ull_error_last()->wanted_bytes;
  ULL__TRY(status);
  result->working_bytes = delivery.scratch_bytes + delivery.library_bytes;
  result->region_bytes =
      delivery.least_bytes > 0 ? delivery.least_bytes : result->working_bytes * 8 / 7;
  ULL__TRY(provide(scanner, delivery.scratch_bytes + ULL__SCRATCH_ALIGNMENT));
  ull__scratch scratch = ull__scratch_over(scanner->memory, scanner->memory_bytes);
  row_counter counter = {.width = delivery.region.width, .channels = request.channels};
  ull__image_sink sink = {count_row, &counter};
  ULL__TRY(ull__image_decode(scanner->reader, &request, &delivery, &scratch, &sink, info));
  if (!mask && !ull_verdict_is_bad(info->verdict)) add_sums(&scanner->sums, &counter.sums);
  return ULL_OK;
}

static ull_status decode_record(ull__scanner *scanner, bool mask, ull__scan_result *result) {
  ull__image_info info = {.reason = "", .orientation = 1};
  ull__scratch fixed = ull__scratch_over(scanner->fixed, ull__image_fixed_bytes());
  ull_status status = ull__image_open(scanner->reader, &scanner->record, &fixed, &info);
  if (status == ULL_OK) status = decode(scanner, mask, &info, result);
  ull__image_close(scanner->reader);
  note(result, &info);
  return status;
}

static void put_hash(ull__sha256 *sha, ull__scan_result *result) {
  uint8_t digest[ULL__SHA256_BYTES];
  ull__sha256_end(sha, digest);
  memcpy(result->hash, digest, sizeof result->hash);
}

static ull_status hash_record(ull__scanner *scanner, ull__scan_result *result) {
  ull__sha256 sha;
  size_t got = 0;
  ull__sha256_begin(&sha);
  for (uint64_t at = 0; at < scanner->record.bytes; at += got) {
    ULL__TRY(ull__record_read(&scanner->record, at, scanner->fixed, HASHED_BYTES, &got));
    if (got == 0) break;
    ull__sha256_add(&sha, scanner->fixed, got);
  }
  put_hash(&sha, result);
  return ULL_OK;
}

static ull_status refuse(ull__scan_result *result, ull_status status, const char *reason) {
  if (status != ULL_ERROR_DATA && status != ULL_ERROR_IO) return status;
  if (ull_verdict_is_bad(result->verdict)) return ULL_OK;
  result->verdict = ULL_VERDICT_UNREADABLE;
  result->reason = reason;
  return ULL_OK;
}

static ull_status scan_record(ull__scanner *scanner, size_t array, ull__scan_result *result) {
  bool mask = scanner->source->arrays[array].content == ULL_CONTENT_MASK;
  result->bytes = scanner->record.bytes;
  uint64_t since = ull__clock_now_ns();
  ull_status status = decode_record(scanner, mask, result);
  result->decode_ns = ull__clock_now_ns() - since;
  if (status != ULL_OK) ULL__TRY(refuse(result, status, "cannot be read"));
  return refuse(result, hash_record(scanner, result), "cannot be read");
}

ull_status ull__scan_picture(ull__scanner *scanner, uint64_t stored, size_t array,
                             ull__scan_result *result) {
  const ull_source *source = scanner->source;
  *result = (ull__scan_result){.reason = ""};
  ull_status status = source->kind->open_record(source, stored, array, &scanner->record);
  if (status != ULL_OK) return refuse(result, status, "cannot be opened");
  status = scan_record(scanner, array, result);
  ull__source_close_record(source, &scanner->record);
  return status;
}

ull_status ull__scan_elements(ull__scanner *scanner, uint64_t sample, ull__scan_result *result) {
  const ull_source *source = scanner->source;
  ull__sha256 sha;
  *result = (ull__scan_result){.reason = ""};
  ull__sha256_begin(&sha);
  for (size_t i = 0; i < source->array_count; i++) {
    const ull_array_info *info = &source->arrays[i];
    uint64_t bytes =
        ull__source_bytes_of_length(source, i, ull__source_sample_length(source, sample));
    ULL__TRY(provide(scanner, info->sample_bytes));
    ull_status status = ull_source_read(source, sample, i, scanner->memory, &result->verdict);
    if (status != ULL_OK) return refuse(result, status, "cannot be read");
    ull__sha256_add(&sha, scanner->memory, bytes);
    result->bytes += bytes;
    if (!info->image) continue;
    result->height = (int)info->shape[1];
    result->width = (int)info->shape[2];
  }
  put_hash(&sha, result);
  return ULL_OK;
}
