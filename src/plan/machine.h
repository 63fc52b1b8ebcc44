/* A machine as the planner sees it: tiers, links, rates, allowances.
 *
 * Written as text, "device:8GiB@12GB/s host:16GiB disk:100GiB@500MB/s compute:9TFLOPS mem:300GB/s
 * latency:10us process:24MiB kernel:40KiB launch:16KiB", or "shared:96GiB" where device and host
 * are the same bytes; or a file that holds such a text or the JSON object that `ullage probe
 * --json` prints, which may list allowances measured for single kernels. What a text leaves out is
 * 0, allowances too. */
#ifndef ULL_PLAN_MACHINE_H
#define ULL_PLAN_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/lowering.h"
#include "memory/tier.h"

typedef struct ull__machine_tier {
  uint64_t capacity_bytes;     /* 0 = not said */
  double in_bytes_per_second;  /* of the link towards the device */
  double out_bytes_per_second; /* of the link away from it */
} ull__machine_tier;

typedef struct ull__machine {
  bool shared; /* device and host are the same bytes */
  ull__machine_tier tiers[ULL__TIER_COUNT];
  double flops_per_second;    /* matrix products in float32, whole team */
  double bytes_per_second;    /* streaming, read and write counted */
  double launch_seconds;      /* fixed cost of a launch */
  uint64_t process_bytes;     /* allowance for the process' own base */
  ull__allowances allowances; /* for what libraries take behind our back */
} ull__machine;

/* Parses a text, or reads the file of that name. The record names the part that is wrong. Freed
 * with ull__machine_free; after a failure there is nothing to free. */
ull_status ull__machine_parse(const char *text_or_file, ull__machine *out);

/* This kind of processor with `threads` cores at nominal rates, and the allowances of this build:
 * the same on every machine of the kind, so that plans are too. */
ull_status ull__machine_nominal(uint32_t threads, ull__machine *out);

/* The text that parses back to the machine. Returns `text`. */
char *ull__machine_text(const ull__machine *machine, char *text, size_t size);

/* Frees the list of allowances; copies made by assignment share it. */
void ull__machine_free(ull__machine *machine);

/* Reads that list from a machine file's object; what was read so far is `out`'s also on failure. */
struct json_t;
ull_status ull__machine_read_allowances(const struct json_t *object, ull__allowances *out);

#endif
