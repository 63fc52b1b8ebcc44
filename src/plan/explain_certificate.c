/* The certificate of the smallest budget, as a record and in words. */
#include <string.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/error.h"
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

static ull_status list_values(const ull__program_plan *p, const ull__schedule *s,
                              ull__certificate *out) {
  ull__live_list live;
  ULL__TRY(ull__list_live(s, s->peak_execution, &live));
  size_t most = sizeof out->values / sizeof *out->values;
  for (size_t i = 0; i < live.count && i < most; i++) {
    ull__certificate_value *value = &out->values[out->value_count++];
    value->size_bytes = live.items[i]->bytes;
    ull__instance_name(p->model, live.items[i], value->name, sizeof value->name);
    ull__explain_instance(p->model, s, live.items[i], s->peak_execution, value->why,
                          sizeof value->why);
  }
  ull__free(live.items);
  return ULL_OK;
}

ull_status ull__plan_certificate(const ull__plan *plan, ull__certificate *out) {
  uint32_t largest = largest_program(plan);
  const ull__program_plan *p = &plan->programs[largest];
  ull__schedule s = {0};
  memset(out, 0, sizeof *out);
  ull_status status = ull__smallest_schedule(p, &s);
  if (status == ULL_OK) {
    out->program = p->name;
    out->node = ull__execution_name(p->model, &s.executions[s.peak_execution]);
    out->instruction = s.peak_execution;
    out->live_bytes = s.peak_bytes;
    out->packed_bytes = p->smallest_height_bytes;
    status = list_values(p, &s, out);
  }
  ull__schedule_free(&s);
  return status;
}

static void add_values(ull__page *page, const ull__certificate *c) {
  char live[ULL__BYTE_SIZE_TEXT], packed[ULL__BYTE_SIZE_TEXT], size[ULL__BYTE_SIZE_TEXT];
  ull__page_add(page, "  its peak is instruction %u, %s: %s (%llu bytes) live, %s packed\n",
                c->instruction, c->node, ull__byte_size_format(c->live_bytes, live),
                (unsigned long long)c->live_bytes, ull__byte_size_format(c->packed_bytes, packed));
  for (uint32_t i = 0; i < c->value_count; i++)
    ull__page_add(page, "    %11s  %s: %s\n", ull__byte_size_format(c->values[i].size_bytes, size),
                  c->values[i].name, c->values[i].why);
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
  ull__certificate *certificate = ull__alloc(1, sizeof *certificate);
  page->status = certificate ? ull__plan_certificate(plan, certificate) : ULL_ERROR_OUT_OF_MEMORY;
  if (page->status == ULL_OK) add_values(page, certificate);
  ull__free(certificate);
}
