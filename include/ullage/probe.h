/* What this machine is: cores, memory limits, rates. */
#ifndef ULLAGE_PROBE_H
#define ULLAGE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "ullage/config.h"
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

/* What a library takes behind our back for one kernel: an implementation on operands of one shape
 * and layout. Scratch memory is not in it, since that is asked for and planned. */
typedef struct ull_probe_kernel {
  const char *name;        /* implementation, what it does, operands */
  uint64_t prepared_bytes; /* kept when it is prepared, once a process: code, objects */
  uint64_t again_bytes;    /* kept for a second one of this name */
  uint64_t launch_bytes;   /* the most at once during a launch, all given back at its end */
  uint64_t launch_calls;   /* of malloc and its like in a launch */
  uint32_t training_nodes; /* nodes of the training graph that run it */
} ull_probe_kernel;

/* Prepares and launches each of the library's kernels that training and evaluating the model of
 * `config` (model, batch-size, classes, seq) would run on the machine that `probe` measured, alone
 * and on buffers of its own; takes as much memory as the largest launch. `*kernels` is the
 * caller's, to be freed with ull_probe_kernels_free. A machine file lists the result under
 * `allowances`. ULL_ERROR_UNSUPPORTED where this system cannot count. */
ull_status ull_probe_kernels(const ull_config *config, const ull_probe *probe,
                             ull_probe_kernel **kernels, uint32_t *count);
void ull_probe_kernels_free(ull_probe_kernel *kernels, uint32_t count); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
