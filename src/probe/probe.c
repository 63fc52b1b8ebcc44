/* Rates are measured with what training uses: a matrix product through the cpu provider and a
 * streaming copy on the compute team. Medians of several runs. */
#include "ullage/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/isa.h"
#include "base/system_limits.h"
#include "device/device.h"
#include "kernels/lowering.h"
#include "plan/machine.h"

#define SIDE 1024
#define COPY_BYTES ((uint64_t)128 << 20)
#define RUNS 7

static void copy_limits(const ull__system_limits *limits, ull_probe *out) {
  out->affinity_cores = limits->affinity_cores;
  out->quota_cores = limits->quota_cores;
  out->usable_cores = limits->usable_cores;
  out->total_bytes = limits->total_bytes;
  out->usable_bytes = limits->usable_bytes;
  out->bound_count = limits->part_count;
  out->least_bound = limits->least_part;
  for (uint32_t i = 0; i < limits->part_count && i < ULL_PROBE_MAX_BOUNDS; i++) {
    memcpy(out->bounds[i].name, limits->parts[i].name, sizeof out->bounds[i].name);
    out->bounds[i].limit_bytes = limits->parts[i].limit_bytes;
    out->bounds[i].left_bytes = limits->parts[i].left_bytes;
  }
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median seconds of a launch of `kernel` on one slab that holds its operands one behind the other.
 */
static ull_status time_launch(ull__device *device, const ull__launch *launch, double *seconds) {
  double runs[RUNS];
  for (int r = -1; r < RUNS; r++) {
    uint64_t began = ull__clock_now_ns();
    ULL__TRY(ull__device_launch(device, ULL__LANE_COMPUTE, launch));
    ULL__TRY(ull__device_synchronize(device));
    if (r >= 0) runs[r] = (double)(ull__clock_now_ns() - began) * 1e-9;
  }
  qsort(runs, RUNS, sizeof *runs, compare);
  *seconds = runs[RUNS / 2];
  return ULL_OK;
}

static ull_status build_product(ull__graph **out) {
  ull__graph *graph = NULL;
  ULL__TRY(ull__graph_create("probe", &graph));
  ull__shape square = ull__shape_of(2, (const int64_t[]){SIDE, SIDE});
  ull__value_id x = ULL__NONE, w = ULL__NONE, y = ULL__NONE;
  ull_status status = ull__graph_add_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, &square, &x);
  if (status == ULL_OK)
    status = ull__graph_add_source(graph, ULL__ROLE_INPUT, "w", ULL_FLOAT32, &square, &w);
  const ull__value_id inputs[] = {x, w, ULL__NONE};
  if (status == ULL_OK) status = ull__graph_add_node(graph, "linear", "y", inputs, 3, NULL, 0, &y);
  if (status == ULL_OK) status = ull__graph_add_output(graph, "y", y);
  if (status == ULL_OK) status = ull__graph_bind(graph, 1, out);
  ull__graph_destroy(graph);
  return status;
}

static ull_status time_kernel(ull__device *device, const ull__lowered *lowered, double *seconds) {
  const ull__kernel *kernel = NULL;
  for (uint32_t n = 0; n < ull__graph_node_count(lowered->graph); n++)
    if (strcmp(ull__graph_node(lowered->graph, n)->op->name, "linear") == 0)
      kernel = &lowered->nodes[n].kernel;
  if (!kernel || !kernel->entry)
    return ULL__FAIL(ULL_ERROR_INTERNAL, "probe: no kernel for a matrix product");
  uint64_t each = (uint64_t)SIDE * SIDE * sizeof(float),
           room = 2 * each; /* layouts may be padded */
  ull__slab_id slab;
  ULL__TRY(ull__device_allocate(device, ULL__TIER_DEVICE, 3 * room + kernel->workspace_bytes + 4096,
                                &slab));
  memset(ull__device_host_pointer(device, slab), 0, 3 * room);
  if (kernel->prepare)
    ULL__TRY(
        ull__device_run(device, (ull_status(*)(void *))kernel->prepare, (void *)kernel->constants));
  ull__place places[5] = {{slab, 0, 0, each},
                          {slab, 0, room, each},
                          {slab, 0, 0, 0},
                          {slab, 0, 2 * room, each},
                          {slab, 0, 3 * room, kernel->workspace_bytes}};
  ull__launch launch = {kernel->entry, kernel->constants, places, kernel->workspace_bytes ? 5 : 4,
                        0};
  ull_status status = time_launch(device, &launch, seconds);
  ull__device_free(device, slab);
  return status;
}

static ull_status measure_product(ull__device *device, ull_probe *out) {
  ull__machine machine;
  ull__provider *provider = NULL;
  ull__stored_layouts *stored = NULL;
  ull__lowered *lowered = NULL;
  ull__graph *graph = NULL;
  double seconds = 0;
  ULL__TRY(ull__machine_nominal(out->threads, &machine));
  ull__rates rates = {machine.flops_per_second, machine.bytes_per_second, machine.launch_seconds};
  ull_status status = ull__cpu_provider_create(out->threads, &rates, &provider);
  if (status == ULL_OK) status = build_product(&graph);
  if (status == ULL_OK) status = ull__stored_layouts_create(&stored);
  if (status == ULL_OK) status = ull__lower(graph, provider, stored, &lowered);
  if (status == ULL_OK) status = time_kernel(device, lowered, &seconds);
  if (status == ULL_OK) {
    out->flops_per_second = 2.0 * SIDE * SIDE * SIDE / seconds;
    snprintf(out->fingerprint, sizeof out->fingerprint, "%s", provider->fingerprint);
  }
  ull__lowered_destroy(lowered);
  ull__stored_layouts_destroy(stored);
  ull__graph_destroy(graph);
  ull__provider_destroy(provider);
  return status;
}

static ull_status copy_entry(const ull__launch_frame *frame) {
  unsigned char *to = frame->operands[0];
  const unsigned char *from = frame->operands[1];
#ifdef ULL__OPENMP
#pragma omp parallel for schedule(static)
#endif
  for (int part = 0; part < 64; part++)
    memcpy(to + part * (COPY_BYTES / 64), from + part * (COPY_BYTES / 64), COPY_BYTES / 64);
  return ULL_OK;
}

static ull_status empty_entry(const ull__launch_frame *frame) {
  (void)frame;
  return ULL_OK;
}

static ull_status measure_memory(ull__device *device, ull_probe *out) {
  ull__slab_id slab;
  double seconds;
  ULL__TRY(ull__device_allocate(device, ULL__TIER_DEVICE, 2 * COPY_BYTES, &slab));
  ull__place places[2] = {{slab, 0, 0, COPY_BYTES}, {slab, 0, COPY_BYTES, COPY_BYTES}};
  ull__launch copy = {copy_entry, NULL, places, 2, 0}, empty = {empty_entry, NULL, NULL, 0, 0};
  ull_status status = time_launch(device, &copy, &seconds);
  if (status == ULL_OK) out->copy_bytes_per_second = 2.0 * (double)COPY_BYTES / seconds;
  if (status == ULL_OK) status = time_launch(device, &empty, &out->launch_seconds);
  ull__device_free(device, slab);
  return status;
}

static ull_status describe(ull_probe *out) {
  ull__machine machine;
  ULL__TRY(ull__machine_nominal(out->threads, &machine));
  machine.shared = true;
  machine.tiers[ULL__TIER_DEVICE].capacity_bytes = out->usable_bytes;
  machine.flops_per_second = out->flops_per_second;
  machine.bytes_per_second = out->copy_bytes_per_second;
  machine.launch_seconds = out->launch_seconds;
  ull__machine_text(&machine, out->machine, sizeof out->machine);
  return ULL_OK;
}

ull_status ull_probe_measure(uint32_t threads, ull_probe *out) {
  ull__system_limits limits;
  ull__resident_bytes resident;
  ull__device *device = NULL;
  *out = (ull_probe){0};
  ULL__TRY(ull__system_limits_read("", &limits));
  copy_limits(&limits, out);
  out->threads = threads ? threads : limits.usable_cores;
  snprintf(out->instruction_set, sizeof out->instruction_set, "%s", ull__isa_name(ull__cpu_isa()));
  ULL__TRY(ull__resident_read("", &resident));
  out->process_bytes = resident.anonymous_bytes;
  ull__device_options options = {.threads = out->threads};
  ULL__TRY(ull__device_open("cpu", &options, &device));
  ull_status status = measure_product(device, out);
  if (status == ULL_OK) status = measure_memory(device, out);
  ull__device_close(device);
  return status == ULL_OK ? describe(out) : status;
}
