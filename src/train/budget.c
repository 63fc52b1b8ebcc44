/* The machine a job is planned for, and how much of it may be used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/config_internal.h"
#include "base/error.h"
#include "base/system_limits.h"
#include "device/sim/sim.h"
#include "train/job.h"

/* Left alone when the budget is not given: a tenth, at least this. */
#define LEAST_MARGIN_BYTES ((uint64_t)256 << 20)

#define LIBRARY_ADDRESS_BYTES ((uint64_t)64 << 20)
#define STACK_ADDRESS_BYTES ((uint64_t)8 << 20)

static ull_status parse_device(ull__job *job) {
  job->device_text = ull_config_text(job->config, "device");
  if (strcmp(job->device_text, "cpu") == 0) {
    job->shared = true;
    return ULL_OK;
  }
  if (strncmp(job->device_text, "sim:", 4) != 0) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "device '%s' is not supported by this version",
              job->device_text);
    return ull__error_change("--device cpu or --device sim:SIZE@RATE");
  }
  ull__sim_text sim;
  ULL__TRY(ull__sim_text_parse(job->device_text + 4, &sim));
  ull__machine_tier *tier = &job->machine.tiers[ULL__TIER_DEVICE];
  *tier = (ull__machine_tier){sim.capacity_bytes, (double)sim.link_bytes_per_second,
                              (double)sim.link_bytes_per_second};
  return ULL_OK;
}

/* What is free now, less a margin; said with its parts. */
static ull_status measure_free(ull__job *job, uint64_t *out) {
  ull__system_limits limits;
  ULL__TRY(ull__system_limits_read("", &limits));
  uint64_t margin = limits.usable_bytes / 10;
  if (margin < LEAST_MARGIN_BYTES) margin = LEAST_MARGIN_BYTES;
  *out = limits.usable_bytes > 2 * margin ? limits.usable_bytes - margin : limits.usable_bytes / 2;
  char total[32], left[32], budget[32];
  snprintf(job->budget_text, sizeof job->budget_text, "%s total, %s free (%.80s), budget %s",
           ull__byte_size_format(limits.total_bytes, total),
           ull__byte_size_format(limits.usable_bytes, left), limits.parts[limits.least_part].name,
           ull__byte_size_format(*out, budget));
  return ULL_OK;
}

static ull_status find_budgets(ull__job *job) {
  const ull_config *config = job->config;
  uint64_t capacity = job->machine.tiers[ULL__TIER_DEVICE].capacity_bytes;
  uint64_t free_bytes = UINT64_MAX;
  bool given = ull_config_has(config, "memory");
  if (!given || !job->shared) ULL__TRY(measure_free(job, &free_bytes));
  if (given) {
    char text[32];
    job->budget_bytes[ULL__TIER_DEVICE] = ull_config_bytes(config, "memory");
    snprintf(job->budget_text, sizeof job->budget_text, "%s (--memory)",
             ull__byte_size_format(job->budget_bytes[ULL__TIER_DEVICE], text));
  } else {
    job->budget_bytes[ULL__TIER_DEVICE] = job->shared ? free_bytes : capacity;
  }
  if (capacity > 0 && capacity < job->budget_bytes[ULL__TIER_DEVICE])
    job->budget_bytes[ULL__TIER_DEVICE] = capacity;
  job->budget_bytes[ULL__TIER_HOST] = ull_config_has(config, "host-memory")
                                          ? ull_config_bytes(config, "host-memory")
                                      : job->shared ? UINT64_MAX
                                                    : free_bytes;
  job->budget_bytes[ULL__TIER_DISK] =
      ull__config_takes(config, "disk-memory") ? ull_config_bytes(config, "disk-memory") : 0;
  return ULL_OK;
}

/* Room for `planned_bytes` and for what comes on top: oneDNN's code, the heap's slack, a stack for
 * each thread. */
static ull_status check_addresses(const ull__job *job, const ull__system_limits *limits,
                                  uint64_t planned_bytes) {
  char left[32], wanted[32];
  uint64_t threads = job->threads + (uint64_t)job->train.options.workers + 2;
  uint64_t wanted_bytes = planned_bytes + LIBRARY_ADDRESS_BYTES + threads * STACK_ADDRESS_BYTES;
  for (uint32_t i = 0; i < limits->part_count; i++) {
    const ull__limit_part *part = &limits->parts[i];
    if (strncmp(part->name, "RLIMIT_", 7) != 0 || part->left_bytes >= wanted_bytes) continue;
    ULL__FAIL(ULL_ERROR_DOES_NOT_FIT, "%.40s leaves %s; this run takes %s with its libraries",
              part->name, ull__byte_size_format(part->left_bytes, left),
              ull__byte_size_format(wanted_bytes, wanted));
    ull__error_holder("%.40s", part->name);
    ull__error_bytes(wanted_bytes, part->left_bytes);
    return ull__error_change("raise the limit (ulimit -v, ulimit -d)");
  }
  return ULL_OK;
}

ull_status ull__job_check_addresses(const ull__job *job) {
  const uint64_t *planned = job->plan->planned_peak_bytes;
  ull__system_limits limits;
  ULL__TRY(ull__system_limits_read("", &limits));
  return check_addresses(job, &limits, planned[ULL__TIER_DEVICE] + planned[ULL__TIER_HOST]);
}

ull_status ull__job_find_machine(ull__job *job) {
  const ull_config *config = job->config;
  ull__system_limits limits;
  ULL__TRY(ull__system_limits_read("", &limits));
  job->threads = ull_config_has(config, "threads") ? (uint32_t)ull_config_integer(config, "threads")
                                                   : limits.usable_cores;
  if (ull__config_takes(config, "machine") && ull_config_has(config, "machine"))
    ULL__TRY(ull__machine_parse(ull_config_text(config, "machine"), &job->machine));
  else
    ULL__TRY(ull__machine_nominal(job->threads, &job->machine));
  ULL__TRY(parse_device(job));
  ULL__TRY(find_budgets(job));
  ULL__TRY(check_addresses(job, &limits, 0));
  ull__rates rates = {job->machine.flops_per_second, job->machine.bytes_per_second,
                      job->machine.launch_seconds};
  ULL__TRY(ull__cpu_provider_create(job->threads, &rates, &job->provider));
  ull__cpu_provider_allow(job->provider, &job->machine.allowances);
  return ULL_OK;
}
