/* Rungs in order, their packing, and the choice among them. The search that fills the ladder is in
 * plan/search.c. */
#include "plan/ladder.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "memory/packing.h"
#include "plan/search.h"

static int compare_rungs(const void *a, const void *b) {
  const ull__rung *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  return (x->peak_bytes > y->peak_bytes) - (x->peak_bytes < y->peak_bytes);
}

/* Keeps the rungs that no faster one undercuts, by peak or, where it is known, by packed height.
 * The fastest is keep-all by construction. */
static void keep_pareto(ull__ladder *ladder) {
  qsort(ladder->rungs, ladder->count, sizeof *ladder->rungs, compare_rungs);
  size_t kept = 0;
  uint64_t least_peak = UINT64_MAX, least_height = UINT64_MAX;
  for (size_t r = 0; r < ladder->count; r++) {
    uint64_t peak = ladder->rungs[r].peak_bytes, height = ladder->rungs[r].height_bytes;
    bool packs_lower = height > 0 && height < least_height;
    if (peak >= least_peak && !packs_lower) {
      ull__decisions_free(&ladder->rungs[r].decisions);
      continue;
    }
    if (peak < least_peak) least_peak = peak;
    if (packs_lower) least_height = height;
    ladder->rungs[kept++] = ladder->rungs[r];
  }
  ladder->count = kept;
}

ull_status ull__ladder_build(const ull__schedule_model *model, uint32_t effort, ull__ladder *out) {
  *out = (ull__ladder){0};
  ull_status status = ull__search(model, effort ? effort : ULL__DEFAULT_EFFORT, out);
  if (status != ULL_OK) {
    ull__ladder_free(out);
    return status;
  }
  keep_pareto(out);
  return ULL_OK;
}

void ull__ladder_free(ull__ladder *ladder) {
  for (size_t r = 0; r < ladder->count; r++) ull__decisions_free(&ladder->rungs[r].decisions);
  ull__free(ladder->rungs);
  *ladder = (ull__ladder){0};
}

ull_status ull__schedule_pack(const ull__schedule *schedule, uint64_t *offsets,
                              uint64_t *height_bytes) {
  ull__packing_buffer *buffers = ull__alloc(schedule->buffer_count, sizeof *buffers);
  if (!buffers) return ULL_ERROR_OUT_OF_MEMORY;
  for (size_t b = 0; b < schedule->buffer_count; b++) {
    const ull__stored *stored = &schedule->buffers[b];
    buffers[b] = (ull__packing_buffer){stored->bytes, stored->first, stored->last, 0};
  }
  ull__packing_options options = ull__packing_quick();
  options.strategies = ull__packing_normal().strategies; /* small schedules are hard to pack */
  ull__packing_result result;
  ull_status status =
      ull__pack(buffers, schedule->buffer_count, ULL__PACKING_ALIGNMENT, &options, &result);
  if (status == ULL_OK) {
    *height_bytes = result.height_bytes;
    for (size_t b = 0; b < schedule->buffer_count && offsets; b++)
      offsets[b] = buffers[b].offset_bytes;
  }
  ull__free(buffers);
  return status;
}

/* Bytes the rung's arena takes, packed; computed once. */
static ull_status rung_height(const ull__schedule_model *model, ull__ladder *ladder, size_t rung,
                              uint64_t *out) {
  ull__rung *r = &ladder->rungs[rung];
  if (r->height_bytes == 0) {
    ull__schedule schedule = {0};
    ull_status status = ull__schedule_generate(model, &r->decisions, &schedule);
    if (status == ULL_OK) status = ull__schedule_pack(&schedule, NULL, &r->height_bytes);
    ull__schedule_free(&schedule);
    ULL__TRY(status);
  }
  *out = r->height_bytes;
  return ULL_OK;
}

ull_status ull__ladder_choose(const ull__schedule_model *model, ull__ladder *ladder,
                              uint64_t arena_bytes, size_t *rung) {
  for (size_t r = 0; r < ladder->count; r++) {
    if (ladder->rungs[r].peak_bytes > arena_bytes) continue;
    uint64_t height;
    ULL__TRY(rung_height(model, ladder, r, &height));
    if (height > arena_bytes) continue;
    *rung = r;
    return ULL_OK;
  }
  *rung = SIZE_MAX;
  return ULL_OK;
}

ull_status ull__ladder_smallest(const ull__schedule_model *model, ull__ladder *ladder, size_t *rung,
                                uint64_t *arena_bytes) {
  *arena_bytes = UINT64_MAX;
  for (size_t r = ladder->count; r-- > 0;) {
    if (ladder->rungs[r].peak_bytes >= *arena_bytes) continue;
    uint64_t height;
    ULL__TRY(rung_height(model, ladder, r, &height));
    if (height >= *arena_bytes) continue;
    *arena_bytes = height;
    *rung = r;
  }
  return ULL_OK;
}
