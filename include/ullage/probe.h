/* What this machine is: cores, memory limits, rates. */
#ifndef ULLAGE_PROBE_H
#define ULLAGE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One bound on memory and what it leaves: "MemAvailable", "cgroup /a memory.max", "RLIMIT_AS". */
typedef struct ull_memory_bound {
  char name[160];
  uint64_t limit_bytes;
  uint64_t left_bytes;
} ull_memory_bound;

#define ULL_PROBE_MAX_BOUNDS 24

typedef struct ull_probe {
  uint32_t affinity_cores; /* cores this process may run on */
  double quota_cores;      /* of the cgroups above it; 0 where there is none */
  uint32_t usable_cores;   /* whole cores inside both */
  uint64_t total_bytes;    /* memory of the machine */
  uint64_t usable_bytes;   /* the least that any bound leaves */
  uint32_t bound_count;
  uint32_t least_bound;
  ull_memory_bound bounds[ULL_PROBE_MAX_BOUNDS];
  char instruction_set[16];     /* "portable", "avx2", "avx512" */
  char fingerprint[128];        /* library, version, instruction set, threads */
  uint32_t threads;             /* at which the rates were measured */
  double flops_per_second;      /* float32 matrix product, 1024 x 1024 x 1024 */
  double copy_bytes_per_second; /* streaming copy of 256 MiB, read and write counted */
  double launch_seconds;        /* an empty launch, there and back */
  uint64_t process_bytes;       /* resident now, anonymous */
  char machine[512];            /* the same as a machine text, for --machine */
} ull_probe;

/* Measures for about a second with `threads` compute threads (0 = usable cores). */
ull_status ull_probe_measure(uint32_t threads, ull_probe *out);

#ifdef __cplusplus
}
#endif
#endif
