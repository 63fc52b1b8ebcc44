#include "support/image_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void open_bench(image_bench *bench, uint64_t limit) {
  ull__image_limits limits = {.memory_bytes = limit};
  uint64_t bytes = ull__image_fixed_bytes() + limit;
  memset(bench, 0, sizeof *bench);
  assert_int_equal(ull__image_reader_create(&limits, &bench->reader), ULL_OK);
  bench->scratch = ull__scratch_over(aligned_alloc(ULL__SCRATCH_ALIGNMENT, bytes), bytes);
  assert_non_null(bench->scratch.memory);
  strcpy(bench->record.path, "a picture");
}

void close_bench(image_bench *bench) {
  ull__image_reader_destroy(bench->reader);
  free(bench->scratch.memory);
}

typedef struct collector {
  image_run *run;
  size_t row_bytes;
} collector;

static ull_status collect(void *context, int y, const uint8_t *pixels) {
  collector *c = context;
  assert_int_equal(y, c->run->rows);
  assert_true(y < c->run->delivery.region.height);
  memcpy(c->run->pixels + (size_t)y * c->row_bytes, pixels, c->row_bytes);
  c->run->rows++;
  return ULL_OK;
}

static void decode(image_bench *bench, const ull__image_request *request, image_run *run) {
  ull__image_request wanted = *request;
  if (wanted.region.width == 0)
    wanted.region = (ull__rect){0, 0, run->info.width, run->info.height};
  run->status = ull__image_prepare(bench->reader, &wanted, &run->info, &run->delivery);
  if (run->status != ULL_OK) return;
  collector c = {run, (size_t)run->delivery.region.width * (size_t)request->channels};
  run->pixels = calloc((size_t)run->delivery.region.height, c.row_bytes);
  ull__image_sink sink = {collect, &c};
  run->status =
      ull__image_decode(bench->reader, &wanted, &run->delivery, &bench->scratch, &sink, &run->info);
}

image_run run_image(image_bench *bench, const uint8_t *bytes, size_t count, int descriptor,
                    const ull__image_request *request) {
  image_run run = {.status = ULL_OK};
  bench->record.memory = bytes;
  bench->record.descriptor = descriptor;
  bench->record.bytes = count;
  bench->scratch.used = bench->scratch.peak = 0;
  run.status = ull__image_open(bench->reader, &bench->record, &bench->scratch, &run.info);
  if (run.status == ULL_OK) decode(bench, request, &run);
  run.taken = bench->scratch.peak - ull__image_fixed_bytes();
  ull__image_close(bench->reader);
  assert_int_equal(bench->scratch.used, 0);
  return run;
}
