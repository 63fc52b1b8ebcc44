/* Decompressing gzip files and deflated archive members as a stream, with every size known before
 * it is believed. */
#ifndef ULL_DATA_INFLATE_H
#define ULL_DATA_INFLATE_H

#include <zlib.h>

#include "data/content.h"

typedef enum ull__deflate_format { ULL__FORMAT_GZIP, ULL__FORMAT_RAW } ull__deflate_format;

typedef struct ull__inflater {
  z_stream stream;
  const ull__content *compressed; /* borrowed */
  ull__deflate_format format;
  uint64_t consumed;
  bool ended;
  uint8_t input[16384];
} ull__inflater;

ull_status ull__inflater_open(ull__inflater *inflater, const ull__content *compressed,
                              ull__deflate_format format);

/* Writes up to `count` bytes; fewer only at the end of the data. Truncation and checksum errors are
 * ULL_ERROR_DATA. */
ull_status ull__inflater_read(ull__inflater *inflater, void *to, uint64_t count, uint64_t *got);

void ull__inflater_close(ull__inflater *inflater);

/* Deflate cannot expand more than this; a header that claims more is a lie. */
bool ull__inflate_is_possible(uint64_t compressed_bytes, uint64_t inflated_bytes);

/* Whether the file begins with gzip's magic number. */
bool ull__is_gzip(const ull__content *content);

#endif
