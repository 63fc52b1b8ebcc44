/* The certificate of the smallest budget, as a record and in words. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/checked.h"
#include "base/error.h"
#include "memory/slab.h"
#include "plan/bound.h"
#include "plan/explain_internal.h"

#define MOST_RATIO 1.05

static uint32_t largest_program(const ull__plan *plan) {
  uint32_t largest = 0;
  for (uint32_t p = 1; p < plan->program_count; p++)
    if (plan->programs[p].smallest_height_bytes > plan->programs[largest].smallest_height_bytes)
      largest = p;
  return largest;
}

static double ratio_of(const ull__plan *plan) {
  uint64_t bound = plan->lower_bound_bytes[ULL__TIER_DEVICE];
  return bound ? (double)plan->smallest_bytes[ULL__TIER_DEVICE] / (double)bound : 1;
}

bool ull__plan_needs_certificate(const ull__plan *plan) {
  return ratio_of(plan) > MOST_RATIO;
}

/* ---- the record ---- */

static const char *node_name(const ull__graph *graph, ull__node_id node) {
  return node == ULL__NONE ? NULL : ull__graph_node(graph, node)->name;
}

/* Held values: of a proof by a limit it is shown that making them later takes as much. */
static void explain(const ull__graph *graph, const ull__bound *bound, const ull__live_value *v,
                    char *why, size_t size) {
  const char *maker = node_name(graph, v->maker), *reader = node_name(graph, v->reader);
  switch (v->reason) {
  case ULL__LIVE_READ:
    snprintf(why, size, "is read by it");
    break;
  case ULL__LIVE_WRITTEN:
    snprintf(why, size, "is written by it");
    break;
  case ULL__LIVE_WORKSPACE:
    snprintf(why, size, "is its workspace");
    break;
  case ULL__LIVE_CROSSING:
    snprintf(why, size, "made once by %s, which ran before; read by %s, which has not run",
             maker ? maker : "a copy", reader);
    break;
  case ULL__LIVE_HELD:
    if (bound->needed != ULL__NONE)
      snprintf(why, size, "made before, held for %s", reader);
    else
      snprintf(why, size,
               "held for %s: making it later, with what it is made of, takes %llu bytes or more",
               reader, (unsigned long long)bound->bytes);
    break;
  }
}

static const char *reason_name(ull__live_reason reason) {
  static const char *const names[] = {[ULL__LIVE_READ] = "read",
                                      [ULL__LIVE_WRITTEN] = "written",
                                      [ULL__LIVE_WORKSPACE] = "workspace",
                                      [ULL__LIVE_CROSSING] = "crossing",
                                      [ULL__LIVE_HELD] = "held"};
  return names[reason];
}

static ull_status add_value(const ull__graph *graph, const ull__bound *bound,
                            const ull__live_value *v, ull__certificate *out) {
  ULL__TRY(ull__vector_push(&out->values, (ull__certificate_value){.size_bytes = v->bytes}));
  ull__certificate_value *value = &out->values.items[out->values.count - 1];
  bool operand = v->reason != ULL__LIVE_CROSSING && v->reason != ULL__LIVE_HELD;
  value->made_by = node_name(graph, v->maker);
  value->read_by = operand ? NULL : node_name(graph, v->reader);
  if (v->root == ULL__NONE)
    snprintf(value->name, sizeof value->name, "%s.workspace", value->made_by);
  else
    snprintf(value->name, sizeof value->name, "%s", ull__graph_value(graph, v->root)->name);
  value->reason = reason_name(v->reason);
  explain(graph, bound, v, value->why, sizeof value->why);
  return ULL_OK;
}

static ull_status name_bound(const ull__graph *graph, const ull__bound *bound,
                             ull__certificate *out) {
  out->proved_bytes = bound->bytes;
  if (bound->needed != ULL__NONE) {
    out->node = node_name(graph, bound->node);
    out->needed = ull__graph_value(graph, bound->needed)->name;
  }
  for (size_t c = 0; c < bound->cases.count; c++) {
    const ull__bound_case *from = &bound->cases.items[c];
    ull__certificate_case entry = {
        .node = node_name(graph, from->node),
        .before = node_name(graph, from->before),
        .first_after = from->first_after,
        .after_count = from->after_count,
        .order = {node_name(graph, from->order[0]), node_name(graph, from->order[1])},
        .holds = from->holds,
        .bytes = from->bytes,
        .first_value = from->first_value,
        .value_count = from->value_count};
    ULL__TRY(ull__vector_push(&out->cases, entry));
  }
  for (size_t a = 0; a < bound->afters.count; a++)
    ULL__TRY(ull__vector_push(&out->afters, node_name(graph, bound->afters.items[a])));
  for (size_t v = 0; v < bound->values.count; v++)
    ULL__TRY(add_value(graph, bound, &bound->values.items[v], out));
  return ULL_OK;
}

/* Where the smallest schedule runs the node of the first case with most live. */
static ull_status find_instruction(const ull__program_plan *p, ull__node_id node,
                                   ull__certificate *out) {
  ull__schedule s = {0};
  ull_status status = ull__smallest_schedule(p, &s);
  for (uint32_t e = 0; e < s.execution_count && status == ULL_OK; e++) {
    if (s.executions[e].node != node || s.live[e] <= out->live_bytes) continue;
    out->instruction = e;
    out->live_bytes = s.live[e];
  }
  ull__schedule_free(&s);
  return status;
}

static void count_budget(const ull__plan *plan, const ull__program_plan *p, ull__certificate *out) {
  uint64_t page = ull__page_bytes(), smallest = plan->smallest_bytes[ULL__TIER_DEVICE];
  uint64_t arena = ull__align_up(p->smallest_height_bytes, page);
  out->not_proved_bytes = arena - ull__align_up(out->proved_bytes, page);
  out->proved_budget_bytes = smallest - out->not_proved_bytes;
}

ull_status ull__plan_certificate(const ull__plan *plan, ull__certificate *out) {
  const ull__program_plan *p = &plan->programs[largest_program(plan)];
  ull__bound bound;
  *out = (ull__certificate){.program = p->name};
  ull_status status = ull__bound_find(p->model, p->smallest_height_bytes, &bound);
  if (status == ULL_OK && bound.cases.count == 0)
    status = ULL__FAIL(ULL_ERROR_INTERNAL, "certificate: program %s runs nothing", p->name);
  if (status == ULL_OK) status = name_bound(p->lowered->graph, &bound, out);
  if (status == ULL_OK) status = find_instruction(p, bound.cases.items[0].node, out);
  if (status == ULL_OK) count_budget(plan, p, out);
  ull__bound_free(&bound);
  return status;
}

void ull__certificate_free(ull__certificate *certificate) {
  ull__vector_free(&certificate->cases);
  ull__vector_free(&certificate->values);
  ull__vector_free(&certificate->afters);
}

/* ---- in words ---- */

static void add_case(ull__page *page, const ull__certificate *c,
                     const ull__certificate_case *each) {
  char size[ULL__BYTE_SIZE_TEXT];
  ull__page_add(page, "%s runs", each->node);
  if (each->holds && c->needed) ull__page_add(page, " while %s is held", c->needed);
  for (uint32_t i = 0; i < each->after_count; i++)
    ull__page_add(page, "%s%s", i == 0 ? " after " : " and ",
                  c->afters.items[each->first_after + i]);
  if (each->before) ull__page_add(page, ", before %s", each->before);
  if (each->order[0])
    ull__page_add(page, ", where %s comes before %s", each->order[0], each->order[1]);
  ull__page_add(page, ": %s (%llu bytes) live", ull__byte_size_format(each->bytes, size),
                (unsigned long long)each->bytes);
}

static void add_values(ull__page *page, const ull__certificate *c,
                       const ull__certificate_case *each) {
  char size[ULL__BYTE_SIZE_TEXT];
  for (uint32_t v = 0; v < each->value_count; v++) {
    const ull__certificate_value *value = &c->values.items[each->first_value + v];
    ull__page_add(page, "    %11s  %s: %s\n", ull__byte_size_format(value->size_bytes, size),
                  value->name, value->why);
  }
}

static void add_proof(ull__page *page, const ull__certificate *c) {
  char proved[ULL__BYTE_SIZE_TEXT], missing[ULL__BYTE_SIZE_TEXT];
  ull__page_add(page, "  no schedule of %s takes less than %s (%llu bytes)", c->program,
                ull__byte_size_format(c->proved_budget_bytes, proved),
                (unsigned long long)c->proved_budget_bytes);
  ull__page_add(page, c->not_proved_bytes ? "; not proved: %s (%llu bytes)\n" : "\n",
                ull__byte_size_format(c->not_proved_bytes, missing),
                (unsigned long long)c->not_proved_bytes);
  if (c->needed)
    ull__page_add(page, "  %s needs %s, made by forward; whenever it is made,\n", c->node,
                  c->needed);
  else if (c->cases.count > 1)
    ull__page_add(page, "  in either order of two nodes,\n");
  for (size_t i = 0; i < c->cases.count; i++) {
    ull__page_add(page, i == 0 ? "  " : "  or ");
    add_case(page, c, &c->cases.items[i]);
    if (i == 0) ull__page_add(page, " (instruction %u of the smallest)", c->instruction);
    ull__page_add(page, "\n");
    if (i == 0) add_values(page, c, &c->cases.items[i]);
  }
}

void ull__page_add_certificate(ull__page *page, const ull__plan *plan) {
  uint64_t smallest = plan->smallest_bytes[ULL__TIER_DEVICE];
  uint64_t bound = plan->lower_bound_bytes[ULL__TIER_DEVICE];
  char least[ULL__BYTE_SIZE_TEXT], launch[ULL__BYTE_SIZE_TEXT];
  ull__page_add(page,
                "\nsmallest %s (%llu bytes) = %.3f x the %s that persistent values and the "
                "largest launch take\n",
                ull__byte_size_format(smallest, least), (unsigned long long)smallest,
                ratio_of(plan), ull__byte_size_format(bound, launch));
  if (!ull__plan_needs_certificate(plan) || page->status != ULL_OK) return;
  ull__certificate certificate;
  page->status = ull__plan_certificate(plan, &certificate);
  if (page->status == ULL_OK) add_proof(page, &certificate);
  ull__certificate_free(&certificate);
}
