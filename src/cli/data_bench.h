/* Results of `data bench` and how they are told. */
#ifndef ULL_CLI_DATA_BENCH_H
#define ULL_CLI_DATA_BENCH_H

#include <stdio.h>

#include "ullage/data.h"

enum { BENCH_RUNS = 32, BENCH_EPOCHS = 1024, BENCH_BAD = 64 };

/* One number of workers. */
typedef struct bench_run {
  int workers, standby, prefetch;
  bool is_first;
  ull_loader_bound bound;
  uint64_t samples;
  double seconds, cpu_seconds;
  double epoch_rate[BENCH_EPOCHS]; /* samples per second */
  size_t epoch_count;
  ull_loader_counts counts;
  ull_bad_sample bad[BENCH_BAD];
  size_t bad_count;
} bench_run;

typedef struct bench {
  bench_run runs[BENCH_RUNS];
  int count;
} bench;

void bench_print_run(FILE *out, const bench_run *run);

/* The table over numbers of workers, where more of them stop to pay, and why. */
void bench_print_table(FILE *out, const bench *b);

/* One JSON object; freed by the caller. NULL when memory is out. */
char *bench_json(const bench *b);

#endif
