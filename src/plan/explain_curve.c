/* Memory against time. */
#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/checked.h"
#include "memory/slab.h"
#include "plan/explain_internal.h"

#define MOST_ROWS 12u
#define BAR_CHARACTERS 24u

/* ---- the curve ---- */

typedef struct curve {
  const ull__plan *plan;
  uint64_t rest_bytes;  /* committed beside the arena */
  uint64_t floor_bytes; /* of the arena: what the other programs need at least */
} curve;

static uint64_t pages(uint64_t bytes) {
  return ull__align_up(bytes, ull__page_bytes());
}

static curve make_curve(const ull__plan *plan) {
  curve c = {.plan = plan};
  uint64_t smallest = 0;
  for (uint32_t p = 0; p < plan->program_count; p++) {
    uint64_t height = plan->programs[p].smallest_height_bytes;
    if (height > smallest) smallest = height;
    if (p > 0 && height > c.floor_bytes) c.floor_bytes = height;
  }
  c.rest_bytes = plan->smallest_bytes[ULL__TIER_DEVICE] - pages(smallest);
  return c;
}

static ull_status rung_bytes(const curve *c, size_t rung, uint64_t *out) {
  const ull__program_plan *p = &c->plan->programs[0];
  uint64_t height = p->ladder.rungs[rung].height_bytes;
  ull__schedule schedule = {0};
  ull_status status = ULL_OK;
  if (height == 0) {
    status = ull__schedule_generate(p->model, &p->ladder.rungs[rung].decisions, &schedule);
    if (status == ULL_OK) status = ull__schedule_pack(&schedule, NULL, &height);
    ull__schedule_free(&schedule);
  }
  *out = c->rest_bytes + pages(height > c->floor_bytes ? height : c->floor_bytes);
  return status;
}

static bool is_shown(const ull__program_plan *p, size_t rung) {
  size_t stride = (p->ladder.count + MOST_ROWS - 1) / MOST_ROWS;
  return rung % stride == 0 || rung == p->rung || rung + 1 == p->ladder.count;
}

static void add_row(ull__page *page, const curve *c, size_t rung, uint64_t bytes,
                    uint64_t bytes_before, double seconds_before) {
  const ull__program_plan *p = &c->plan->programs[0];
  double seconds = p->ladder.rungs[rung].seconds, fastest = p->ladder.rungs[0].seconds;
  char size[ULL__BYTE_SIZE_TEXT];
  ull__page_add(page, "  %s %11s  %10.3f ms  %+5.1f %%  ", rung == p->rung ? "▸" : " ",
                ull__byte_size_format(bytes, size), 1e3 * seconds,
                fastest > 0 ? 100 * (seconds / fastest - 1) : 0);
  ull__page_add_bar(page, bytes, c->plan->keep_all_peak_bytes[ULL__TIER_DEVICE], BAR_CHARACTERS);
  if (bytes_before > bytes)
    ull__page_add(page, "%s more would save %.3f ms",
                  ull__byte_size_format(bytes_before - bytes, size),
                  1e3 * (seconds - seconds_before));
  ull__page_add(page, "\n");
}

void ull__page_add_curve(ull__page *page, const ull__plan *plan) {
  curve c = make_curve(plan);
  const ull__ladder *ladder = &plan->programs[0].ladder;
  uint64_t bytes_before = 0;
  double seconds_before = 0;
  ull__page_add(page, "\nmemory against time (device memory of the run, one training step)\n");
  for (size_t r = 0; r < ladder->count && page->status == ULL_OK; r++) {
    uint64_t bytes;
    if (!is_shown(&plan->programs[0], r)) continue;
    page->status = rung_bytes(&c, r, &bytes);
    bool smaller = bytes_before == 0 || bytes < bytes_before;
    if (!smaller && r != plan->programs[0].rung) continue;
    add_row(page, &c, r, bytes, bytes_before, seconds_before);
    bytes_before = bytes;
    seconds_before = ladder->rungs[r].seconds;
  }
}
