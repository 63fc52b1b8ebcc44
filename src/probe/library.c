/* The dry run: every kernel that a library would run for a model is prepared and launched alone, on
 * buffers of its own, and what the library took behind our back is read off. Kernels are those of
 * the training graph and of evaluation at one batch size, chosen as for training. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/system_limits.h"
#include "device/device.h"
#include "kernels/lowering.h"
#include "memory/packing.h"
#include "plan/machine.h"
#include "train/job.h"
#include "ullage/probe.h"

enum { LAUNCHES = 4, MOST_OPERANDS = ULL__MAX_INPUTS + ULL__MAX_OUTPUTS + 1 };

typedef struct dry_run {
  ull__device *device;
  ull__provider *provider;
  ull__lowered *lowered[2]; /* training, evaluation */
  ull_probe_kernel *kernels;
  uint32_t count;
} dry_run;

/* ---- the graphs ---- */

static ull_status pass_on(ull_status (*stage)(const ull__graph *, ull__graph **),
                          ull__graph **graph) {
  ull__graph *next = NULL;
  ull_status status = stage(*graph, &next);
  if (status != ULL_OK) return status;
  ull__graph_destroy(*graph);
  *graph = next;
  return ULL_OK;
}

static ull_status add_optimizer(const ull__graph *graph, ull__graph **out) {
  static const ull__recipe recipe = {.optimizer = ULL__SGD, .momentum = 0.9};
  return ull__graph_add_optimizer(graph, &recipe, out);
}

static ull_status lower(dry_run *d, const ull__graph *model, bool training, int64_t batch,
                        ull__stored_layouts *stored, ull__lowered **out) {
  ull__graph *graph = NULL, *bound = NULL;
  ull_status status = training ? ull__graph_differentiate(model, &graph)
                               : ull__graph_derive_evaluation(model, &graph);
  if (status == ULL_OK && training) status = pass_on(add_optimizer, &graph);
  if (status == ULL_OK) status = pass_on(ull__graph_fold, &graph);
  if (status == ULL_OK) status = pass_on(ull__graph_fuse, &graph);
  if (status == ULL_OK) status = ull__graph_bind(graph, batch, &bound);
  if (status == ULL_OK) status = pass_on(ull__graph_fold, &bound);
  if (status == ULL_OK) status = ull__lower(bound, d->provider, stored, out);
  ull__graph_destroy(graph);
  ull__graph_destroy(bound);
  return status;
}

static ull_status lower_both(dry_run *d, const ull_config *config) {
  ull__model *model = NULL;
  ull__stored_layouts *stored = NULL;
  int64_t batch = ull_config_integer(config, "batch-size");
  ULL__TRY(ull__job_open_model(config, &model));
  ull_status status = ull__stored_layouts_create(&stored);
  for (int l = 0; l < 2 && status == ULL_OK; l++)
    status = lower(d, model->graph, l == 0, batch, stored, &d->lowered[l]);
  ull__stored_layouts_destroy(stored);
  ull__model_destroy(model);
  return status;
}

/* ---- one kernel ---- */

/* Operands one behind the other in a slab of their own. */
static ull_status place_operands(const ull__lowered *lowered, ull__node_id id, ull__place *places,
                                 uint32_t *count, uint64_t *bytes) {
  const ull__node *node = ull__graph_node(lowered->graph, id);
  const ull__kernel *kernel = &lowered->nodes[id].kernel;
  uint64_t sizes[MOST_OPERANDS];
  *count = 0;
  for (uint32_t i = 0; i < node->input_count; i++)
    sizes[(*count)++] = node->inputs[i] == ULL__NONE ? 0 : lowered->values[node->inputs[i]].bytes;
  for (uint32_t o = 0; o < node->output_count; o++)
    sizes[(*count)++] = lowered->values[node->outputs[o]].bytes;
  if (kernel->workspace_bytes > 0) sizes[(*count)++] = kernel->workspace_bytes;
  *bytes = 0;
  for (uint32_t i = 0; i < *count; i++) {
    places[i] = (ull__place){.offset = *bytes, .bytes = sizes[i]};
    ULL__TRY(
        ull__size_add(*bytes, ull__align_up(sizes[i], ULL__PACKING_ALIGNMENT), "operands", bytes));
  }
  return ULL_OK;
}

static ull_status launch(dry_run *d, const ull__lowered *lowered, ull__node_id id) {
  ull__place places[MOST_OPERANDS];
  uint32_t count;
  uint64_t bytes;
  ull__slab_id slab;
  ULL__TRY(place_operands(lowered, id, places, &count, &bytes));
  ULL__TRY(ull__device_allocate(d->device, ULL__TIER_DEVICE, bytes, &slab));
  for (uint32_t i = 0; i < count; i++) places[i].slab = slab;
  const ull__kernel *kernel = &lowered->nodes[id].kernel;
  ull__launch call = {kernel->entry, kernel->constants, places, count, 0};
  ull_status status = ULL_OK;
  for (int i = 0; i < LAUNCHES && status == ULL_OK; i++) {
    status = ull__device_launch(d->device, ULL__LANE_COMPUTE, &call);
    if (status == ULL_OK) status = ull__device_synchronize(d->device);
  }
  ull__device_free(d->device, slab);
  return status;
}

static ull_status run_kernel(dry_run *d, const ull__lowered *lowered, ull__node_id id) {
  const ull__kernel *kernel = &lowered->nodes[id].kernel;
  if (kernel->prepare)
    ULL__TRY(ull__device_run(d->device, (ull_status(*)(void *))kernel->prepare,
                             (void *)kernel->constants));
  if (kernel->library->launched > 0) return ULL_OK;
  ull_status status = launch(d, lowered, id);
  return status == ULL_OK ? status : ull__error_context("dry run of %s", kernel->library->name);
}

/* ---- the list ---- */

static ull_status note(dry_run *d, const ull__library_kernel *library, bool training) {
  uint32_t at = 0;
  while (at < d->count && strcmp(d->kernels[at].name, library->name) != 0) at++;
  if (at == d->count) {
    ull_probe_kernel *grown = ull__realloc(d->kernels, at + 1, sizeof *grown);
    if (!grown) return ULL_ERROR_OUT_OF_MEMORY;
    d->kernels = grown;
    char *name = ull__strdup(library->name);
    if (!name) return ULL_ERROR_OUT_OF_MEMORY;
    d->kernels[d->count++] = (ull_probe_kernel){.name = name};
  }
  const ull__library_use *took = &library->took;
  ull_probe_kernel *k = &d->kernels[at];
  k->prepared_bytes = took->prepared_bytes;
  k->again_bytes = library->prepared > 1 ? took->again_bytes : took->prepared_bytes;
  k->launch_bytes = took->launch_bytes;
  k->launch_calls = took->launch_calls;
  k->training_nodes += training;
  return ULL_OK;
}

static ull_status for_each(dry_run *d, bool run) {
  for (int l = 0; l < 2; l++)
    for (ull__node_id id = 0; id < ull__graph_node_count(d->lowered[l]->graph); id++) {
      const ull__library_kernel *library = d->lowered[l]->nodes[id].kernel.library;
      if (!library) continue;
      ULL__TRY(run ? run_kernel(d, d->lowered[l], id) : note(d, library, l == 0));
    }
  return ULL_OK;
}

/* At the rates that were measured, since they decide which kernels are chosen. */
static ull_status open(dry_run *d, const ull_probe *probe) {
  uint32_t threads = probe->threads;
  ull__device_options options = {.threads = threads};
  ull__machine machine;
  ULL__TRY(ull__machine_parse(probe->machine, &machine));
  ull__rates rates = {machine.flops_per_second, machine.bytes_per_second, machine.launch_seconds};
  ULL__TRY(ull__device_open("cpu", &options, &d->device));
  ULL__TRY(ull__cpu_provider_create(threads, &rates, &d->provider));
  if (ull__cpu_provider_watch(d->provider)) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "what oneDNN allocates cannot be counted here");
}

void ull_probe_kernels_free(ull_probe_kernel *kernels, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) ull__free((char *)(uintptr_t)kernels[i].name);
  ull__free(kernels);
}

ull_status ull_probe_kernels(const ull_config *config, const ull_probe *probe,
                             ull_probe_kernel **kernels, uint32_t *count) {
  dry_run d = {0};
  *kernels = NULL;
  *count = 0;
  ull_status status = open(&d, probe);
  if (status == ULL_OK) status = lower_both(&d, config);
  if (status == ULL_OK) status = for_each(&d, true);
  if (status == ULL_OK) status = for_each(&d, false);
  for (int l = 0; l < 2; l++) ull__lowered_destroy(d.lowered[l]);
  ull__provider_destroy(d.provider);
  ull__device_close(d.device);
  if (status == ULL_OK) {
    *kernels = d.kernels;
    *count = d.count;
  } else {
    ull_probe_kernels_free(d.kernels, d.count);
  }
  return status;
}
