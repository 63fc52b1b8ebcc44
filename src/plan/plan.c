/* The planner's main line, and what it says when nothing fits.
 *
 * Ladders are made without looking at budgets; a budget only chooses. Committed bytes are whole
 * pages: each slab is rounded up by itself, and budgets are compared with the sum. */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/checked.h"
#include "base/error.h"
#include "memory/slab.h"

#define RUNTIME_GRAIN_BYTES (1u << 20)

static ull_status lower_program(const ull__plan_request *request, uint32_t index,
                                ull__stored_layouts *stored, ull__program_plan *out) {
  const ull__program_request *wanted = &request->programs[index];
  snprintf(out->name, sizeof out->name, "%s", wanted->name);
  ull__graph *bound = NULL, *folded = NULL;
  ull_status status = ull__graph_bind(wanted->graph, wanted->batch, &bound);
  if (status == ULL_OK) status = ull__graph_fold(bound, &folded);
  if (status == ULL_OK) status = ull__lower(folded, request->provider, stored, &out->lowered);
  ull__graph_destroy(bound);
  ull__graph_destroy(folded);
  if (status != ULL_OK)
    ull__error_context("program %s at batch %lld", wanted->name, (long long)wanted->batch);
  return status;
}

static ull_status build_ladder(const ull__plan_request *request, ull__program_plan *p) {
  ULL__TRY(ull__schedule_model_create(p->lowered, &p->model));
  ULL__TRY(ull__ladder_build(p->model, request->effort, &p->ladder));
  ull__decisions keep_all = {0};
  ULL__TRY(ull__decisions_create(p->model, &keep_all));
  ull_status status = ull__schedule_generate(p->model, &keep_all, &p->keep_all);
  ull__decisions_free(&keep_all);
  ULL__TRY(status);
  ULL__TRY(ull__schedule_pack(&p->keep_all, NULL, &p->keep_all_height_bytes));
  size_t smallest;
  ULL__TRY(ull__ladder_smallest(p->model, &p->ladder, &smallest, &p->smallest_height_bytes));
  p->rung = SIZE_MAX;
  p->largest_launch_bytes = ull__schedule_largest_launch(p->model, &p->largest_launch);
  return ULL_OK;
}

/* ---- bytes that no schedule changes ---- */

static ull_status count_runtime(const ull__plan_request *request, ull__plan *plan) {
  const ull__lowered *lowered[ULL__MAX_PROGRAMS];
  for (uint32_t p = 0; p < plan->program_count; p++) lowered[p] = plan->programs[p].lowered;
  uint64_t bytes;
  ULL__TRY(ull__lowered_library_bytes(lowered, plan->program_count, &bytes));
  ULL__TRY(ull__size_add(bytes, request->process_bytes, "runtime", &bytes));
  return ull__size_align(bytes, RUNTIME_GRAIN_BYTES, "runtime", &plan->runtime_bytes);
}

static ull_status to_pages(uint64_t bytes, const char *what, uint64_t *out) {
  return ull__size_align(bytes, ull__page_bytes(), what, out);
}

/* Committed bytes per tier for an arena of this size. */
static ull_status total(const ull__plan *plan, bool shared, uint64_t arena_bytes,
                        uint64_t out[ULL__TIER_COUNT]) {
  memset(out, 0, ULL__TIER_COUNT * sizeof *out);
  uint64_t arena;
  ULL__TRY(to_pages(arena_bytes, "arena", &arena));
  ULL__TRY(ull__size_add(plan->persistent_bytes, arena, "device memory", &out[ULL__TIER_DEVICE]));
  ull__tier rest = shared ? ULL__TIER_DEVICE : ULL__TIER_HOST;
  ULL__TRY(ull__size_add(out[rest], plan->loader_bytes, "host memory", &out[rest]));
  return ull__size_add(out[rest], plan->runtime_bytes, "host memory", &out[rest]);
}

static ull_status count_totals(const ull__plan_request *request, ull__plan *plan) {
  uint64_t keep_all = 0, smallest = 0, launch = 0;
  for (uint32_t p = 0; p < plan->program_count; p++) {
    const ull__program_plan *program = &plan->programs[p];
    if (program->keep_all_height_bytes > keep_all) keep_all = program->keep_all_height_bytes;
    if (program->smallest_height_bytes > smallest) smallest = program->smallest_height_bytes;
    if (program->largest_launch_bytes > launch) launch = program->largest_launch_bytes;
  }
  ULL__TRY(total(plan, request->shared, keep_all, plan->keep_all_peak_bytes));
  ULL__TRY(total(plan, request->shared, smallest, plan->smallest_bytes));
  return total(plan, request->shared, launch, plan->lower_bound_bytes);
}

static ull_status count_keep_all_tags(const ull__plan_request *request, ull__plan *plan,
                                      const ull__family *family) {
  uint64_t peaks[ULL__TAG_COUNT];
  for (uint32_t p = 0; p < plan->program_count; p++) {
    ULL__TRY(ull__schedule_tag_peaks(plan->programs[p].model, &plan->programs[p].keep_all, peaks));
    for (size_t t = 0; t < ULL__TAG_COUNT; t++)
      if (peaks[t] > plan->keep_all_tags[t][ULL__TIER_DEVICE])
        plan->keep_all_tags[t][ULL__TIER_DEVICE] = peaks[t];
  }
  for (uint32_t i = 0; i < family->persistent_count; i++) {
    const ull__persistent *entry = &family->persistents[i];
    plan->keep_all_tags[ull__role_tag(entry->role)][ULL__TIER_DEVICE] += entry->size_bytes;
  }
  ull__tier rest = request->shared ? ULL__TIER_DEVICE : ULL__TIER_HOST;
  plan->keep_all_tags[ULL__TAG_LOADER][rest] += plan->loader_bytes;
  plan->keep_all_tags[ULL__TAG_RUNTIME][rest] += plan->runtime_bytes;
  plan->keep_all_seconds = plan->programs[0].keep_all.seconds;
  return ULL_OK;
}

/* ---- choosing ---- */

/* Arena bytes that the budgets leave; false, with the shortfall, where not even the rest fits. */
static bool arena_budget(const ull__plan_request *request, ull__plan *plan, uint64_t *arena) {
  for (int t = 0; t < ULL__TIER_COUNT; t++) {
    if (plan->smallest_bytes[t] <= request->budget_bytes[t]) continue;
    plan->short_tier = (ull__tier)t;
    plan->shortfall_bytes = plan->smallest_bytes[t] - request->budget_bytes[t];
    return false;
  }
  uint64_t rest[ULL__TIER_COUNT];
  if (total(plan, request->shared, 0, rest) != ULL_OK) return false;
  uint64_t left = request->budget_bytes[ULL__TIER_DEVICE] - rest[ULL__TIER_DEVICE];
  *arena = left & ~(ull__page_bytes() - 1);
  return true;
}

static void describe_holder(ull__plan *plan, const ull__graph *graph, const ull__schedule *s,
                            const ull__instance *holder) {
  ull__node_id at = s->executions[s->peak_execution].node;
  char size[32];
  ull__byte_size_format(holder->bytes, size);
  const char *what = holder->value == ULL__NONE ? ull__graph_node(graph, holder->node)->name
                                                : ull__graph_value(graph, holder->value)->name;
  snprintf(plan->holder, sizeof plan->holder, "%s%s (%s) while %s runs", what,
           holder->value == ULL__NONE ? "'s workspace" : "", size,
           at == ULL__NONE ? "its copy" : ull__graph_node(graph, at)->name);
}

/* The value that takes most at the peak of the smallest schedule of the largest program. */
static ull_status name_holder(ull__plan *plan) {
  ull__program_plan *largest = &plan->programs[0];
  for (uint32_t p = 1; p < plan->program_count; p++)
    if (plan->programs[p].smallest_height_bytes > largest->smallest_height_bytes)
      largest = &plan->programs[p];
  size_t rung;
  uint64_t bytes;
  ULL__TRY(ull__ladder_smallest(largest->model, &largest->ladder, &rung, &bytes));
  ull__schedule s = {0};
  ull_status status =
      ull__schedule_generate(largest->model, &largest->ladder.rungs[rung].decisions, &s);
  const ull__instance *holder = NULL;
  for (size_t i = 0; i < s.instance_count && status == ULL_OK; i++) {
    const ull__instance *instance = &s.instances[i];
    bool live = instance->first <= s.peak_execution && instance->last >= s.peak_execution;
    if (live && (!holder || instance->bytes > holder->bytes)) holder = instance;
  }
  if (holder) describe_holder(plan, largest->lowered->graph, &s, holder);
  ull__schedule_free(&s);
  return status;
}

/* On the host's side: the larger of what is there. */
static ull_status name_host_holder(ull__plan *plan) {
  bool loader = plan->loader_bytes > plan->runtime_bytes;
  char size[ULL__BYTE_SIZE_TEXT];
  ull__byte_size_format(loader ? plan->loader_bytes : plan->runtime_bytes, size);
  snprintf(plan->holder, sizeof plan->holder, "%s (%s)", loader ? "loader" : "runtime", size);
  return ULL_OK;
}

static ull_status assemble_program(const ull__plan_request *request, ull__plan *plan,
                                   ull__family *family, uint32_t index, uint64_t arena) {
  ull__program_plan *p = &plan->programs[index];
  ULL__TRY(ull__ladder_choose(p->model, &p->ladder, arena, &p->rung));
  if (p->rung == SIZE_MAX)
    return ULL__FAIL(ULL_ERROR_INTERNAL,
                     "no schedule of program %s fits into an arena that the smallest fits into",
                     request->programs[index].name);
  ull__program *program = &family->programs[index];
  program->name = ull__arena_strdup(&family->memory, request->programs[index].name);
  program->batch = request->programs[index].batch;
  ull__schedule schedule = {0};
  uint64_t *offsets = NULL, height = 0;
  ull_status status =
      ull__schedule_generate(p->model, &p->ladder.rungs[p->rung].decisions, &schedule);
  if (status == ULL_OK) {
    offsets = ull__alloc(schedule.buffer_count, sizeof *offsets);
    status = offsets ? ull__schedule_pack(&schedule, offsets, &height) : ULL_ERROR_OUT_OF_MEMORY;
  }
  if (status == ULL_OK)
    status = ull__family_assemble(family, p->model, &schedule, offsets, height, request->shared,
                                  program);
  if (status == ULL_OK && height > family->slabs[ULL__SLAB_ARENA].bytes)
    family->slabs[ULL__SLAB_ARENA].bytes = height;
  ull__free(offsets);
  ull__schedule_free(&schedule);
  return status;
}

static ull_status make_family(const ull__plan_request *request, ull__plan *plan,
                              ull__family *family, uint64_t arena) {
  ull__tier rest = request->shared ? ULL__TIER_DEVICE : ULL__TIER_HOST;
  family->slabs[ULL__SLAB_LOADER] = (ull__program_slab){ULL__SLAB_LOADER, rest, plan->loader_bytes};
  family->slabs[ULL__SLAB_RUNTIME] =
      (ull__program_slab){ULL__SLAB_RUNTIME, rest, plan->runtime_bytes};
  family->slabs[ULL__SLAB_ARENA].kind = ULL__SLAB_ARENA;
  family->slabs[ULL__SLAB_PERSISTENT].bytes = plan->persistent_bytes;
  family->programs =
      ull__arena_alloc(&family->memory, plan->program_count, sizeof *family->programs);
  family->fingerprint = ull__arena_strdup(&family->memory, request->provider->fingerprint);
  if (!family->programs || !family->fingerprint) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t p = 0; p < plan->program_count; p++) {
    ULL__TRY(assemble_program(request, plan, family, p, arena));
    family->program_count++;
  }
  for (uint32_t p = 0; p < plan->program_count; p++)
    family->programs[p].lowered = plan->programs[p].lowered;
  uint64_t used = family->slabs[ULL__SLAB_ARENA].bytes;
  ULL__TRY(to_pages(used, "arena", &family->slabs[ULL__SLAB_ARENA].bytes));
  ULL__TRY(total(plan, request->shared, used, plan->planned_peak_bytes));
  return ull__family_check(family, request->budget_bytes);
}

static ull_status plan_programs(const ull__plan_request *request, ull__plan *plan,
                                ull__family *family) {
  ull__stored_layouts *stored = NULL;
  ULL__TRY(ull__stored_layouts_create(&stored));
  ull_status status = ULL_OK;
  for (uint32_t p = 0; p < request->program_count && status == ULL_OK; p++) {
    plan->program_count = p + 1;
    status = lower_program(request, p, stored, &plan->programs[p]);
    if (status == ULL_OK) status = build_ladder(request, &plan->programs[p]);
  }
  ull__stored_layouts_destroy(stored);
  ULL__TRY(status);
  ULL__TRY(ull__family_place_persistents(family, plan->programs, plan->program_count));
  ULL__TRY(to_pages(family->slabs[ULL__SLAB_PERSISTENT].bytes, "persistent region",
                    &plan->persistent_bytes));
  ULL__TRY(to_pages(request->loader_bytes, "loader", &plan->loader_bytes));
  ULL__TRY(count_runtime(request, plan));
  ULL__TRY(count_totals(request, plan));
  ULL__TRY(count_keep_all_tags(request, plan, family));
  uint64_t arena;
  plan->fits = arena_budget(request, plan, &arena);
  if (plan->fits) return make_family(request, plan, family, arena);
  memcpy(plan->planned_peak_bytes, plan->smallest_bytes, sizeof plan->planned_peak_bytes);
  return plan->short_tier == ULL__TIER_DEVICE ? name_holder(plan) : name_host_holder(plan);
}

ull_status ull__plan_create(const ull__plan_request *request, ull__plan **out) {
  ull__plan *plan = ull__alloc(1, sizeof *plan);
  ull__family *family = ull__alloc(1, sizeof *family);
  ull_status status =
      plan && family ? plan_programs(request, plan, family) : ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK && plan->fits) {
    plan->family = family;
    family = NULL;
  }
  if (family) family->program_count = 0; /* lowered graphs are still the plan's */
  ull__family_destroy(family);
  if (status != ULL_OK) {
    ull__plan_destroy(plan);
    return status;
  }
  *out = plan;
  return ULL_OK;
}

void ull__plan_destroy(ull__plan *plan) {
  if (!plan) return;
  for (uint32_t p = 0; p < plan->program_count; p++) {
    ull__program_plan *program = &plan->programs[p];
    ull__ladder_free(&program->ladder);
    ull__schedule_free(&program->keep_all);
    ull__schedule_model_destroy(program->model);
    if (!plan->family) ull__lowered_destroy(program->lowered);
  }
  ull__family_destroy(plan->family);
  ull__free(plan);
}

void ull__family_destroy(ull__family *family) {
  if (!family) return;
  for (uint32_t p = 0; p < family->program_count; p++)
    ull__lowered_destroy(family->programs[p].lowered);
  ull__arena_free(&family->memory);
  ull__free(family);
}

const ull__program *ull__family_find(const ull__family *family, const char *name) {
  for (uint32_t p = 0; p < family->program_count; p++)
    if (strcmp(family->programs[p].name, name) == 0) return &family->programs[p];
  return NULL;
}

ull_status ull__plan_refuse(const ull__plan *plan, const uint64_t budget_bytes[ULL__TIER_COUNT],
                            const char *change) {
  char needed[32], given[32];
  ull__byte_size_format(plan->smallest_bytes[plan->short_tier], needed);
  ull__byte_size_format(budget_bytes[plan->short_tier], given);
  ULL__FAIL(ULL_ERROR_DOES_NOT_FIT,
            "does not fit: the smallest plan needs %s (%llu bytes) of %s memory, the budget is %s",
            needed, (unsigned long long)plan->smallest_bytes[plan->short_tier],
            ull__tier_name(plan->short_tier), given);
  ull__error_bytes(plan->smallest_bytes[plan->short_tier], budget_bytes[plan->short_tier]);
  ull__error_holder("%s", plan->holder);
  return ull__error_change("%s", change);
}
