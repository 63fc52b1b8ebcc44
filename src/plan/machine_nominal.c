/* This processor at nominal rates.
 *
 * The rates depend on the instruction set and the number of threads alone: two machines of the same
 * kind plan alike, and so does one machine on a busy day. `ullage probe` measures better ones. */
#include <stdlib.h>
#include <string.h>

#include "plan/machine.h"

#define PROCESS_BYTES ((uint64_t)24 << 20)
#define KERNEL_BYTES ((uint64_t)40 << 10)
#define LAUNCH_BYTES ((uint64_t)16 << 10)
#define LAUNCH_SECONDS 5e-6

/* One core reaches a fraction of a memory controller; from the third on they share it. */
#define CORE_BYTES_PER_SECOND 12e9
#define FURTHER_CORE_BYTES_PER_SECOND 4e9

static bool has_avx2(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

static bool has_avx512(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

/* Operations a second of a matrix product on one core, with the instruction set that
 * ULLAGE_ISA allows. */
static double core_flops_per_second(void) {
  const char *cap = getenv("ULLAGE_ISA");
  bool portable = cap && strcmp(cap, "portable") == 0;
  bool narrow = portable || (cap && strcmp(cap, "avx2") == 0);
  if (!narrow && has_avx512() && has_avx2()) return 110e9;
  if (!portable && has_avx2()) return 55e9;
  return 10e9;
}

ull_status ull__machine_nominal(uint32_t threads, ull__machine *out) {
  uint32_t cores = threads ? threads : 1, first = cores < 2 ? cores : 2;
  *out = (ull__machine){.shared = true,
                        .flops_per_second = cores * core_flops_per_second(),
                        .bytes_per_second = first * CORE_BYTES_PER_SECOND +
                                            (cores - first) * FURTHER_CORE_BYTES_PER_SECOND,
                        .launch_seconds = LAUNCH_SECONDS,
                        .process_bytes = PROCESS_BYTES,
                        .allowances = {.kernel_bytes = KERNEL_BYTES, .launch_bytes = LAUNCH_BYTES}};
  return ULL_OK;
}
