/* Every instruction set gives the same bits, in each loop of the resampler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/isa.h"
#include "data/loops/resample.h"

typedef struct row_job {
  int outputs, groups, width, taps;
  int32_t *first;
  int16_t *weights;
  uint8_t *pixels;
} row_job;

/* Every loop of one set on the same numbers, one after another into `out`. */
static size_t run_loops(const ull__resample_loops *loops, const row_job *job, uint8_t *out) {
  enum { ROWS = 6 };
  int plane = (job->width + ULL__DOWN_PAD - 1) / ULL__DOWN_PAD * ULL__DOWN_PAD;
  ull__across across = {job->outputs, job->groups, job->first, job->weights, plane};
  int16_t *rows = calloc((size_t)(ROWS * plane * 3), sizeof *rows);
  const int16_t *pointers[ROWS];
  static const int16_t weights[ROWS] = {-1000, -9000, -15000, -7000, -768, 0};
  float *floats = calloc((size_t)plane * 3, sizeof *floats);
  int32_t *sums = calloc((size_t)plane * 3, sizeof *sums);
  for (int i = 0; i < ROWS; i++) {
    pointers[i] = rows + i * plane * 3;
    const uint8_t *from = job->pixels + i * 64;
    if (i < ROWS - 1) {
      loops->across_colour(&across, from, rows + i * plane * 3);
    } else {
      loops->across_grey(&across, from, rows + i * plane * 3);
    }
    loops->down_add(pointers[i], weights[i], plane * 3, sums);
  }
  uint8_t *at = out;
  memcpy(at, rows, sizeof *rows * (size_t)(ROWS * plane * 3));
  at += sizeof *rows * (size_t)(ROWS * plane * 3);
  for (int c = 0; c < 3; c++) {
    loops->down(pointers, c * plane, weights, ROWS, job->width, 0x1.3p-23f, -1.7f, floats);
    memcpy(at, floats, sizeof *floats * (size_t)job->width);
    at += sizeof *floats * (size_t)job->width;
    loops->down_end(sums + c * plane, job->width, 0x1.3p-23f, -1.7f, floats + c * plane);
    assert_memory_equal(floats + c * plane, at - sizeof *floats * (size_t)job->width,
                        sizeof *floats * (size_t)job->width);
  }
  static const ull_dtype dtypes[] = {ULL_UINT8,   ULL_FLOAT16, ULL_BFLOAT16,
                                     ULL_FLOAT32, ULL_INT32,   ULL_INT64};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    for (int stride = 1; stride <= 3; stride++) {
      size_t bytes = (size_t)(job->width * stride) * ull_dtype_bytes(dtypes[i]);
      at = out + ((size_t)(at - out) + 7) / 8 * 8;
      memset(at, 0, bytes);
      for (int x = 0; x < job->width; x++) floats[x] *= 1 + (float)stride * 0.37f;
      ull__row_store how = {dtypes[i], stride};
      loops->store(floats, job->width, &how, at);
      at += bytes;
    }
  }
  loops->store_rgb(floats, plane, job->width, at);
  at += 3 * job->width;
  loops->scale_bytes(job->pixels + 1, 3, job->width, 0.0171f, -2.1f, floats);
  memcpy(at, floats, sizeof *floats * (size_t)job->width);
  at += sizeof *floats * (size_t)job->width;
  free(sums);
  free(floats);
  free(rows);
  return (size_t)(at - out);
}

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void fill_job(row_job *job, int width, int groups, uint32_t seed) {
  int taps = groups * ULL__ACROSS_TAPS;
  job->width = width;
  job->groups = groups;
  job->outputs = (width + ULL__ACROSS_BLOCK - 1) / ULL__ACROSS_BLOCK * ULL__ACROSS_BLOCK;
  size_t outputs = (size_t)job->outputs;
  job->first = calloc(outputs, sizeof *job->first);
  job->weights = calloc(outputs * (size_t)taps, sizeof *job->weights);
  size_t bytes = (size_t)(4 * (2 * width + taps) + 64 * 8);
  job->pixels = malloc(bytes);
  for (size_t i = 0; i < bytes; i++) job->pixels[i] = (uint8_t)next_random(&seed);
  for (int x = 0; x < width; x++)
    job->first[x] = (int32_t)(next_random(&seed) % (uint32_t)(2 * width));
  for (int x = 0; x < width; x++) {
    int left = 32768;
    for (int tap = 0; tap < taps; tap++) {
      int share = tap == taps - 1 ? left : (int)(next_random(&seed) % (uint32_t)(left + 1));
      job->weights[((x / 4 * groups + tap / 4) * 4 + x % 4) * 4 + tap % 4] = (int16_t)-share;
      left -= share;
    }
  }
}

static void instruction_sets_give_the_same_bits(void **state) {
  (void)state;
  typedef const ull__resample_loops *(*getter)(void);
  static const getter getters[] = ULL__ISA_TABLE(ull__resample_loops);
  static _Alignas(8) uint8_t wanted[1 << 20], got[1 << 20];
  if (ull__cpu_isa() == ULL__ISA_PORTABLE) skip();
  for (int i = 0; i < 120; i++) {
    row_job job;
    fill_job(&job, 1 + i * 3 % 97 + (i == 119) * 500, i % 4 + 1, (uint32_t)i);
    size_t bytes = run_loops(getters[ULL__ISA_PORTABLE](), &job, wanted);
    assert_true(bytes < sizeof wanted);
    for (int isa = ULL__ISA_AVX2; isa <= (int)ull__cpu_isa(); isa++) {
      assert_int_equal(run_loops(getters[isa](), &job, got), bytes);
      assert_memory_equal(got, wanted, bytes);
    }
    free(job.first);
    free(job.weights);
    free(job.pixels);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(instruction_sets_give_the_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
