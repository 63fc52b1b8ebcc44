/* --show memory: where the bytes of a plan are, who holds its peak, what it computes again. */
#include "plan/explain.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "plan/explain_internal.h"

#define HOLDERS 10u
#define MOST_RECOMPUTED 20u

/* ---- tags ---- */

/* Each tag's largest live sum in the arena over the explained schedules; what a plan changes. */
static ull_status explained_peaks(const ull__plan *plan, bool keep_all,
                                  uint64_t peaks[ULL__TAG_COUNT]) {
  for (size_t t = 0; t < ULL__TAG_COUNT; t++) peaks[t] = 0;
  for (uint32_t p = 0; p < plan->program_count; p++) {
    const ull__program_plan *program = &plan->programs[p];
    ull__schedule schedule = {0};
    uint64_t own[ULL__TAG_COUNT];
    ull_status status = keep_all ? ULL_OK : ull__explained_schedule(plan, p, &schedule);
    if (status == ULL_OK)
      status =
          ull__schedule_tag_peaks(program->model, keep_all ? &program->keep_all : &schedule, own);
    ull__schedule_free(&schedule);
    ULL__TRY(status);
    for (size_t t = 0; t < ULL__TAG_COUNT; t++)
      if (own[t] > peaks[t]) peaks[t] = own[t];
  }
  return ULL_OK;
}

static void add_line(ull__page *page, const char *tag, ull__tier tier, uint64_t keep_all,
                     uint64_t planned) {
  char before[ULL__BYTE_SIZE_TEXT], after[ULL__BYTE_SIZE_TEXT];
  ull__page_add(page, "  %-12s %-7s %11s %11s   %llu\n", tag, ull__tier_name(tier),
                ull__byte_size_format(keep_all, before), ull__byte_size_format(planned, after),
                (unsigned long long)planned);
}

/* What lives from step to step is the same in both columns. */
static void add_tags(ull__page *page, const ull__plan *plan) {
  uint64_t before[ULL__TAG_COUNT], after[ULL__TAG_COUNT];
  if (page->status == ULL_OK) page->status = explained_peaks(plan, true, before);
  if (page->status == ULL_OK) page->status = explained_peaks(plan, false, after);
  if (page->status != ULL_OK) return;
  ull__page_add(page, "  %-12s %-7s %11s %11s   bytes\n", "each at most", "tier", "keep-all",
                plan->fits ? "planned" : "smallest");
  for (size_t t = 0; t < ULL__TAG_COUNT; t++)
    for (size_t tier = 0; tier < ULL__TIER_COUNT; tier++) {
      uint64_t all = plan->keep_all_tags[t][tier], planned = all;
      if (tier == ULL__TIER_DEVICE) planned = all - before[t] + after[t];
      if (all > 0 || planned > 0) add_line(page, ull__tag_name((ull__tag)t), tier, all, planned);
    }
  for (size_t tier = 0; tier < ULL__TIER_COUNT; tier++)
    if (plan->keep_all_peak_bytes[tier] > 0)
      add_line(page, "committed", tier, plan->keep_all_peak_bytes[tier],
               plan->planned_peak_bytes[tier]);
}

/* ---- the peak ---- */

static void add_holder(ull__page *page, const ull__program_plan *p, const ull__schedule *s,
                       const ull__instance *instance) {
  const ull__graph *graph = p->lowered->graph;
  char size[ULL__BYTE_SIZE_TEXT], name[160], why[320];
  const char *module = "", *source = "";
  if (instance->value != ULL__NONE) {
    module = ull__graph_value(graph, instance->value)->module;
    source = ull__graph_value(graph, instance->value)->source;
  } else {
    module = ull__graph_node(graph, instance->node)->module;
    source = ull__graph_node(graph, instance->node)->source;
  }
  ull__page_add(page, "  %11s  %s", ull__byte_size_format(instance->bytes, size),
                ull__instance_name(p->model, instance, name, sizeof name));
  if (*module || *source) ull__page_add(page, " [%s%s%s]", module, *source ? " " : "", source);
  ull__page_add(page, ": %s\n",
                ull__explain_instance(p->model, s, instance, s->peak_execution, why, sizeof why));
}

static void add_peak(ull__page *page, const ull__program_plan *p, const ull__schedule *s) {
  ull__live_list live;
  char size[ULL__BYTE_SIZE_TEXT];
  page->status = ull__list_live(s, s->peak_execution, &live);
  if (page->status != ULL_OK) return;
  ull__page_add(page, "\npeak of a training step: %s live at instruction %u of %zu, %s\n",
                ull__byte_size_format(s->peak_bytes, size), s->peak_execution, s->execution_count,
                ull__execution_name(p->model, &s->executions[s->peak_execution]));
  for (size_t i = 0; i < live.count && i < HOLDERS; i++) add_holder(page, p, s, live.items[i]);
  if (live.count > HOLDERS)
    ull__page_add(page, "               and %zu smaller\n", live.count - HOLDERS);
  ull__free(live.items);
}

/* ---- what is computed again ---- */

typedef struct recomputed {
  const ull__node *node;
  uint64_t bytes;
  double seconds;
  uint32_t times;
} recomputed;

static int compare_recomputed(const void *x, const void *y) {
  const recomputed *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  if (a->seconds != b->seconds) return a->seconds < b->seconds ? 1 : -1;
  return (a->node > b->node) - (a->node < b->node);
}

/* One row for each node that runs more than once, sorted; `rows` has room for every node. */
static size_t gather(const ull__program_plan *p, const ull__schedule *s, recomputed *rows) {
  const ull__lowered *lowered = p->lowered;
  size_t count = 0;
  for (size_t e = 0; e < s->execution_count; e++) {
    ull__node_id n = s->executions[e].node;
    if (!s->executions[e].recomputed) continue;
    rows[n].node = ull__graph_node(lowered->graph, n);
    rows[n].times++;
    rows[n].seconds += lowered->nodes[n].kernel.seconds;
    for (uint32_t o = 0; o < rows[n].node->output_count; o++)
      rows[n].bytes += lowered->values[rows[n].node->outputs[o]].bytes;
  }
  for (uint32_t n = 0; n < ull__graph_node_count(lowered->graph); n++)
    if (rows[n].times > 0) rows[count++] = rows[n];
  if (count > 1) qsort(rows, count, sizeof *rows, compare_recomputed);
  return count;
}

static void add_recomputed(ull__page *page, const ull__program_plan *p, const ull__schedule *s) {
  char size[ULL__BYTE_SIZE_TEXT];
  recomputed *rows = ull__alloc(ull__graph_node_count(p->lowered->graph), sizeof *rows);
  if (!rows) {
    page->status = ULL_ERROR_OUT_OF_MEMORY;
    return;
  }
  size_t count = gather(p, s, rows);
  ull__page_add(page, "\nrecomputed: %zu node%s, %s, %.3f ms a step", count, count == 1 ? "" : "s",
                ull__byte_size_format(s->recomputed_bytes, size), 1e3 * s->recomputed_seconds);
  ull__page_add(page, count ? ", so that their outputs need not be held until backward\n"
                            : ": everything is kept\n");
  for (size_t i = 0; i < count && i < MOST_RECOMPUTED; i++) {
    ull__page_add(page, "  %11s  %8.3f ms  %s", ull__byte_size_format(rows[i].bytes, size),
                  1e3 * rows[i].seconds, rows[i].node->name);
    if (rows[i].times > 1) ull__page_add(page, " (%u times)", rows[i].times);
    ull__page_add(page, "\n");
  }
  if (count > MOST_RECOMPUTED)
    ull__page_add(page, "               and %zu more\n", count - MOST_RECOMPUTED);
  ull__free(rows);
}

static void add_training(ull__page *page, const ull__plan *plan) {
  ull__schedule schedule = {0};
  if (page->status == ULL_OK) page->status = ull__explained_schedule(plan, 0, &schedule);
  if (page->status == ULL_OK) add_peak(page, &plan->programs[0], &schedule);
  if (page->status == ULL_OK) add_recomputed(page, &plan->programs[0], &schedule);
  ull__schedule_free(&schedule);
}

ull_status ull__plan_memory_text(const ull__plan *plan, char **out) {
  ull__page page = {.status = ULL_OK};
  char size[ULL__BYTE_SIZE_TEXT];
  if (!plan->fits)
    ull__page_add(&page, "does not fit: %s of %s are missing; %s\n",
                  ull__byte_size_format(plan->shortfall_bytes, size),
                  ull__tier_name(plan->short_tier), plan->holder);
  add_tags(&page, plan);
  add_training(&page, plan);
  if (page.status == ULL_OK) ull__page_add_curve(&page, plan);
  if (page.status == ULL_OK) ull__page_add_certificate(&page, plan);
  return ull__page_take(&page, out);
}
