/* What this process may use: cores and memory, as the kernel's files say.
 *
 * Cores = affinity ∩ quota of the cgroups above us. Memory = the least of what is available on the
 * machine, what is left below each memory limit of the cgroups above us (v1 and v2), and what
 * rlimits leave. All paths go behind a root, so that made-up trees of /proc and /sys can be read
 * the same way. */
#ifndef ULL_BASE_SYSTEM_LIMITS_H
#define ULL_BASE_SYSTEM_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

enum { ULL__MOST_LIMIT_PARTS = 24 };

/* One bound on memory: "MemAvailable", "/sys/fs/cgroup/a/b/memory.max", "RLIMIT_AS". */
typedef struct ull__limit_part {
  char name[160];
  uint64_t limit_bytes; /* the limit itself; the machine's memory for MemAvailable */
  uint64_t left_bytes;  /* what may still be taken below it */
  bool of_cgroup;       /* page cache counts too, but gives way */
} ull__limit_part;

typedef struct ull__system_limits {
  uint32_t affinity_cores;
  double quota_cores;    /* the least quota, in cores; 0 where there is none */
  uint32_t usable_cores; /* whole cores inside both, at least 1 */
  uint64_t total_bytes;  /* of the machine */
  uint64_t usable_bytes; /* the least left_bytes */
  uint32_t part_count;
  uint32_t least_part; /* the part that usable_bytes comes from */
  ull__limit_part parts[ULL__MOST_LIMIT_PARTS];
} ull__system_limits;

/* `root` is put before /proc and /sys: "" for this machine. ULL_ERROR_IO where /proc/meminfo is
 * missing or has no MemAvailable; other files may be absent. Allocates while it runs. */
ull_status ull__system_limits_read(const char *root, ull__system_limits *out);

typedef struct ull__resident_bytes {
  uint64_t now_bytes;       /* VmRSS */
  uint64_t peak_bytes;      /* VmHWM */
  uint64_t anonymous_bytes; /* RssAnon */
} ull__resident_bytes;

/* Of this process. ULL_ERROR_IO where /proc is missing. Makes no allocation of ours. */
ull_status ull__resident_read(const char *root, ull__resident_bytes *out);

#endif
