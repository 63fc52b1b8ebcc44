/* The parts of a scan: one file at a time (scan_picture.c), threads and order (scan_files.c). */
#ifndef ULL_DATA_SCAN_FILES_H
#define ULL_DATA_SCAN_FILES_H

#include "data/image/image.h"
#include "data/source.h"

/* Sums of 8-bit pixels, exact, so that they do not depend on threads. */
typedef struct ull__pixel_sums {
  uint64_t pixels;
  uint64_t sum[3], square_sum[3];
} ull__pixel_sums;

/* What one thread works with. */
typedef struct ull__scanner {
  const ull_source *source;
  ull__image_reader *reader;
  uint8_t *fixed; /* scratch for headers */
  uint8_t *memory;
  uint64_t memory_bytes;
  ull__record record;
  ull__pixel_sums sums; /* of good files */
} ull__scanner;

ull_status ull__scanner_create(const ull_source *source, const ull_scan_options *options,
                               ull__scanner *scanner);
void ull__scanner_free(ull__scanner *scanner);

/* What was found out about one file. */
typedef struct ull__scan_result {
  ull_verdict verdict;
  const char *reason;
  int width, height;
  uint64_t bytes, working_bytes;
  uint64_t region_bytes; /* the least region for large pictures in which a loader decodes it */
  uint64_t hash[2];      /* of the encoded bytes */
  uint64_t decode_ns;
} ull__scan_result;

/* Array `array` of a stored sample, encoded. A failure is out of memory; bad files have a verdict.
 */
ull_status ull__scan_picture(ull__scanner *scanner, uint64_t stored, size_t array,
                             ull__scan_result *result);

/* All arrays of a stored sample, where none is encoded. */
ull_status ull__scan_elements(ull__scanner *scanner, uint64_t sample, ull__scan_result *result);

#endif
