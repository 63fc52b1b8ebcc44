/* Pictures through the decoder's own steps, row by row, with everything counted. */
#ifndef TESTS_SUPPORT_IMAGE_RUNS_H
#define TESTS_SUPPORT_IMAGE_RUNS_H

#include "data/image/image.h"

/* A reader with its scratch: `limit` bytes beyond the fixed ones. */
typedef struct image_bench {
  ull__image_reader *reader;
  ull__scratch scratch;
  ull__record record;
} image_bench;

void open_bench(image_bench *bench, uint64_t limit);
void close_bench(image_bench *bench);

/* What one picture came to. */
typedef struct image_run {
  ull_status status;
  ull__image_info info;
  ull__image_delivery delivery;
  uint8_t *pixels; /* [region.height, region.width, channels] of the delivery; NULL where none */
  int rows;        /* that came */
  uint64_t taken;  /* scratch at the most, beyond the fixed bytes */
} image_run;

/* Decodes bytes in memory, or an open descriptor where `bytes` is NULL. A region of width 0 means
 * all. The caller frees run.pixels. */
image_run run_image(image_bench *bench, const uint8_t *bytes, size_t count, int descriptor,
                    const ull__image_request *request);

#endif
