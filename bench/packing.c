/* Prints how low and how fast offset packing is, per instance and effort.
 *
 *     bench-packing [--effort quick|normal|thorough] [FILE.csv ...]
 *
 * Files have the columns id, lower, upper, size with half-open lifetimes. Generated instances that
 * look like forward and backward passes come first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/packing.h"

typedef struct instance {
  ull__packing_buffer *buffers;
  size_t count, capacity;
} instance;

static void add(instance *in, uint64_t size, uint32_t first, uint32_t last) {
  if (in->count == in->capacity) {
    in->capacity = in->capacity ? 2 * in->capacity : 256;
    in->buffers = realloc(in->buffers, in->capacity * sizeof *in->buffers);
    if (!in->buffers) exit(4);
  }
  in->buffers[in->count++] = (ull__packing_buffer){size, first, last, 0};
}

static bool load(instance *in, const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) return false;
  char line[256];
  while (fgets(line, sizeof line, file)) {
    long long id, lower, upper, size;
    if (sscanf(line, "%lld,%lld,%lld,%lld", &id, &lower, &upper, &size) == 4 && upper > lower)
      add(in, (uint64_t)size, (uint32_t)lower, (uint32_t)upper - 1);
  }
  fclose(file);
  return true;
}

static uint64_t random_state;

static uint64_t draw(uint64_t bound) {
  uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % bound;
}

/* A chain of `layers`: an activation each from forward to its backward, workspaces, gradients that
 * pass from layer to layer, weight gradients that live until an update a few instructions later or
 * until the end. */
static void make_training(instance *in, uint32_t layers, bool late_update, uint64_t seed) {
  random_state = seed;
  uint32_t end = 2 * layers + 2;
  uint64_t activation = 1 << 22, weight = 4096;
  for (uint32_t i = 0; i < layers; i++) {
    uint32_t backward = end - 2 - i;
    if (i % 8 == 7) activation = activation / 2 > 8192 ? activation / 2 : 1 << 21, weight *= 2;
    if (weight > 1 << 23) weight = 4096;
    uint64_t size = activation + draw(64) * 256;
    add(in, size, i, backward);
    if (draw(3) == 0) add(in, size / 32 + draw(4096), i, backward);
    if (draw(2) == 0) add(in, draw(1 << 22), i, i);
    if (draw(2) == 0) add(in, draw(1 << 22), backward, backward);
    add(in, size, backward, backward + 1 + (uint32_t)draw(4) / 3 * 4);
    add(in, weight, backward, late_update ? end : backward + 1);
  }
}

static void report(const char *name, instance *in, const ull__packing_options *options) {
  ull__packing_result result;
  struct timespec a, b;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
  ull_status status = ull__pack(in->buffers, in->count, ULL__PACKING_ALIGNMENT, options, &result);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
  if (status == ULL_OK)
    status =
        ull__packing_check(in->buffers, in->count, ULL__PACKING_ALIGNMENT, result.height_bytes);
  if (status != ULL_OK) {
    printf("%-24s %s: %s\n", name, ull_status_name(status), ull_error_last()->message);
    exit(1);
  }
  double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
  printf("%-24s %8zu %14llu %14llu %9.5f %9.4f %9llu %11llu\n", name, in->count,
         (unsigned long long)result.lower_bound_bytes, (unsigned long long)result.height_bytes,
         result.lower_bound_bytes ? (double)result.height_bytes / (double)result.lower_bound_bytes
                                  : 1,
         seconds, (unsigned long long)result.orders_tried, (unsigned long long)result.visits);
  free(in->buffers);
  *in = (instance){0};
}

static void report_training(const ull__packing_options *options) {
  static const uint32_t layers[] = {20, 100, 400, 650, 4500};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    for (int late = 0; late < 2; late++) {
      char name[64];
      instance in = {0};
      snprintf(name, sizeof name, "training-%u-%s", layers[i], late ? "late" : "early");
      make_training(&in, layers[i], late, layers[i]);
      report(name, &in, options);
    }
  }
}

int main(int argc, char **argv) {
  ull__packing_options options = ull__packing_normal();
  int at = 1;
  if (argc > 2 && strcmp(argv[1], "--effort") == 0) {
    if (strcmp(argv[2], "quick") == 0) options = ull__packing_quick();
    if (strcmp(argv[2], "thorough") == 0) options = ull__packing_thorough();
    at = 3;
  }
  printf("%-24s %8s %14s %14s %9s %9s %9s %11s\n", "instance", "buffers", "lower bound", "height",
         "ratio", "seconds", "orders", "visits");
  report_training(&options);
  for (; at < argc; at++) {
    instance in = {0};
    if (!load(&in, argv[at])) {
      fprintf(stderr, "cannot read %s\n", argv[at]);
      return 1;
    }
    const char *slash = strrchr(argv[at], '/');
    report(slash ? slash + 1 : argv[at], &in, &options);
  }
  return 0;
}
