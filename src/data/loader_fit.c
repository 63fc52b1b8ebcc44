/* A loader within a budget, and what suits where nothing was said.
 *
 * The region for large pictures is a part of the budget alone, so that which pictures are too big
 * depends on nothing but the budget. */
#include <inttypes.h>
#include <stdio.h>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/system_limits.h"
#include "data/loader.h"

enum { LEAST_SLOTS = 2, SUGGESTED_SLOTS_MAX = 16, SUGGESTED_WORKERS_MAX = 64 };

#define LEAST_THREAD_BYTES ((uint64_t)256 << 10)
#define MOST_THREAD_BYTES ((uint64_t)1 << 20)
#define AHEAD_SAMPLES ((uint64_t)256)

uint64_t ull_loader_bound_total(const ull_loader_bound *bound) {
  return bound->total_bytes + bound->reader_bytes + bound->source_bytes;
}

static ull_status needed_bytes(const ull_loader_options *options, ull_loader_bound *bound,
                               uint64_t *bytes) {
  ULL__TRY(ull_loader_bound_bytes(options, bound));
  *bytes = bound->total_bytes + bound->reader_bytes;
  return ULL_OK;
}

/* The region of a budget, and what a thread may have so that it is no more than the region: neither
 * depends on the number of threads. */
static uint64_t large_part(uint64_t budget_bytes) {
  uint64_t least = ull__image_fixed_bytes() + LEAST_THREAD_BYTES;
  return budget_bytes / 4 > least ? budget_bytes / 4 : least;
}

static uint64_t thread_part(uint64_t large_bytes) {
  uint64_t fixed = ull__image_fixed_bytes();
  uint64_t most =
      large_bytes > fixed + LEAST_THREAD_BYTES ? large_bytes - fixed : LEAST_THREAD_BYTES;
  return most < MOST_THREAD_BYTES ? most : MOST_THREAD_BYTES;
}

/* One step towards less memory; false where there is none left. */
static bool shrink(ull_loader_options *options, const ull_loader_bound *bound, int least_slots) {
  bool pictures = bound->large_bytes > 0;
  int standby = (int)bound->threads - options->workers;
  if (options->prefetch > least_slots) {
    options->prefetch--;
  } else if (pictures && options->thread_bytes > LEAST_THREAD_BYTES) {
    options->thread_bytes = options->thread_bytes / 2 > LEAST_THREAD_BYTES
                                ? options->thread_bytes / 2
                                : LEAST_THREAD_BYTES;
  } else if (options->workers > 0 && standby > 0) {
    options->standby = standby > 1 ? standby - 1 : ULL_STANDBY_NONE;
  } else if (options->workers > 1) {
    options->workers--;
  } else {
    return false;
  }
  return true;
}

/* `least`: what the loader itself would have to have. */
static ull_status refuse_budget(uint64_t least, int slots, const ull__loader_budget *budget) {
  char text[32], held[32], source[64] = "";
  uint64_t needed = least * budget->loaders + budget->held_bytes;
  if (budget->held_bytes > 0)
    snprintf(source, sizeof source, ", the source's %s",
             ull__byte_size_format(budget->held_bytes, held));
  ULL__FAIL(ULL_ERROR_DOES_NOT_FIT, "the loader needs %s for %d batch%s and one thread%s%s",
            ull__byte_size_format(needed, text), slots, slots == 1 ? "" : "es", source,
            budget->loaders > 1 ? ", in training and in evaluation" : "");
  ull__error_holder("--loader-memory %" PRIu64, budget->bytes);
  ull__error_change("allow %" PRIu64 " bytes, or use a smaller --batch-size", needed);
  return ull__error_bytes(needed, budget->bytes);
}

/* The budget whose quarter, beside everything else, is enough; the region's own size is cut to what
 * a thread has at least. */
static uint64_t least_budget(const ull_loader_options *options, const ull_loader_bound *bound,
                             uint64_t bytes, bool divides) {
  if (!divides) return bytes;
  uint64_t rest = bytes - bound->large_bytes;
  ull_loader_options larger = *options;
  for (uint64_t budget = rest + rest / 3;; budget += 4096) {
    ull_loader_bound needed;
    uint64_t wanted;
    larger.large_bytes = large_part(budget);
    if (needed_bytes(&larger, &needed, &wanted) != ULL_OK || wanted <= budget) return budget;
  }
}

ull_status ull__loader_fit_into(ull_loader_options *options, const ull__loader_budget *budget) {
  uint64_t budget_bytes = budget->bytes > budget->held_bytes
                              ? (budget->bytes - budget->held_bytes) / budget->loaders
                              : 0;
  ull_loader_options smaller = *options;
  ull_loader_bound bound;
  uint64_t bytes;
  int least_slots = options->prefetch < LEAST_SLOTS ? options->prefetch : LEAST_SLOTS;
  bool divides = ull__loader_has_pictures(options) && options->large_bytes == 0;
  if (divides) smaller.large_bytes = large_part(budget_bytes);
  if (smaller.thread_bytes == 0) smaller.thread_bytes = thread_part(smaller.large_bytes);
  ULL__TRY(needed_bytes(&smaller, &bound, &bytes));
  while (bytes > budget_bytes && shrink(&smaller, &bound, least_slots)) {
    ULL__TRY(needed_bytes(&smaller, &bound, &bytes));
  }
  if (bytes > budget_bytes) {
    return refuse_budget(least_budget(&smaller, &bound, bytes, divides), smaller.prefetch, budget);
  }
  *options = smaller;
  return ULL_OK;
}

ull_status ull_loader_fit(ull_loader_options *options, uint64_t budget_bytes) {
  return ull__loader_fit_into(options, &(ull__loader_budget){.bytes = budget_bytes, .loaders = 1});
}

const char *ull_loader_bound_describe(const ull_loader_bound *bound, char *buffer,
                                      size_t buffer_bytes) {
  char total[32], slot[32], thread[32], large[32], rest[32];
  uint64_t thread_bytes = bound->scratch_bytes + bound->reader_bytes / bound->threads;
  size_t used = (size_t)snprintf(
      buffer, buffer_bytes, "%s = %" PRIu64 " slots of %s + %" PRIu64 " thread%s of %s",
      ull__byte_size_format(ull_loader_bound_total(bound), total), bound->slots,
      ull__byte_size_format(bound->slot_bytes, slot), bound->threads,
      bound->threads == 1 ? "" : "s", ull__byte_size_format(thread_bytes, thread));
  if (bound->large_bytes > 0 && used < buffer_bytes) {
    used += (size_t)snprintf(buffer + used, buffer_bytes - used, " + %s for large pictures",
                             ull__byte_size_format(bound->large_bytes, large));
  }
  if (used < buffer_bytes) {
    snprintf(buffer + used, buffer_bytes - used, " + %s for source and bookkeeping",
             ull__byte_size_format(bound->source_bytes + bound->control_bytes, rest));
  }
  return buffer;
}

int ull_loader_suggest_workers(const ull_source *source) {
  ull__system_limits limits;
  (void)source;
  if (ull__system_limits_read("", &limits) != ULL_OK) {
    ull_error_clear();
    return 1;
  }
  return limits.usable_cores < SUGGESTED_WORKERS_MAX ? (int)limits.usable_cores
                                                     : SUGGESTED_WORKERS_MAX;
}

/* Slots for some hundred samples, so that one that takes long is made up for by the others. */
int ull_loader_suggest_prefetch(const ull_source *source, uint64_t batch_size) {
  if (source->kind->open_record == NULL || batch_size == 0) return LEAST_SLOTS;
  uint64_t slots = (AHEAD_SAMPLES + batch_size - 1) / batch_size + 1;
  return slots < SUGGESTED_SLOTS_MAX ? (int)slots : SUGGESTED_SLOTS_MAX;
}
