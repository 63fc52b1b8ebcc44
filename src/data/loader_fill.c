/* One sample into its place in a batch: which one it is, and what becomes of it when it is bad. All
 * of it is a function of (seed, epoch, position) and of what the samples are like; threads do not
 * matter. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "data/loader.h"
#include "data/too_many_bad.h"

/* A longer row of bad samples is not searched to its end. */
enum { TRIES_MAX = 1000 };

uint64_t ull__loader_asked(const ull_loader *loader, const ull__slot *slot, uint64_t place) {
  return ull__order_sample(&loader->order, &slot->order, slot->place.position + place);
}

ull_status ull__loader_die(const ull_loader *loader, ull__sample_result *result) {
  static const char *const names[] = {"", "loader", "read", "decode", "transform", "finish"};
  result->died = true;
  ULL__FAIL(ULL_ERROR_INTERNAL, "a loader thread died at sample %" PRIu64, loader->fault_at);
  return ull__error_holder("ULLAGE_FAULT=%s:%" PRIu64, names[loader->fault], loader->fault_at);
}

/* The stage in which the thread is to die at this place. */
static ull__loader_fault fault_here(const ull_loader *loader, const ull__slot *slot,
                                    uint64_t place) {
  if (loader->fault_at == 0) return ULL__LOADER_FAULT_NONE;
  uint64_t earlier = slot->sequence * loader->options.batch_size;
  return earlier + place + 1 == loader->fault_at ? loader->fault : ULL__LOADER_FAULT_NONE;
}

static bool is_bad(ull_status status) {
  return status == ULL_ERROR_DATA || status == ULL_ERROR_IO;
}

static uint64_t most_tries(const ull_loader *loader, const ull__slot *slot) {
  const ull_loader_options *options = &loader->options;
  uint64_t candidates = ull__order_candidates(&loader->order, slot->place.length);
  uint64_t tries = options->max_bad < TRIES_MAX ? options->max_bad : TRIES_MAX;
  return tries < candidates ? tries : candidates - 1;
}

/* `met`: how many samples in a row were bad. */
static ull_status fail_bad(const ull_loader *loader, uint64_t sample, uint64_t met,
                           const ull__sample_result *result, ull_status status) {
  char name[512];
  const char *path = result->path != NULL
                         ? result->path
                         : ull_source_sample_name(loader->source, sample, name, sizeof name);
  bool could_replace = loader->options.on_bad == ULL_ON_BAD_FAIL;
  const char *reason = result->reason != NULL ? result->reason : "";
  if (!could_replace && met > loader->options.max_bad)
    return ull__fail_too_many_bad(loader->source->text, met, loader->options.max_bad, "", path,
                                  result->verdict,
                                  reason[0] != '\0' ? reason : ull_error_last()->message);
  if (reason[0] == '\0') return status;
  ull_error record = *ull_error_last();
  ULL__FAIL(status, "%.300s: %s: %s", path, ull_verdict_name(result->verdict), reason);
  ull__error_holder("%s", path);
  ull__error_change(could_replace ? "mend or remove the file, or use --on-bad replace"
                                  : "mend or remove bad files: too many follow each other, "
                                    "whatever --max-bad allows");
  return ull__error_bytes(record.wanted_bytes, record.available_bytes);
}

static void note_place(ull__slot *slot, uint64_t place, uint64_t sample,
                       const ull__sample_result *result, bool first) {
  slot->sample_index[place] = sample;
  slot->used_verdict[place] = (uint8_t)result->verdict;
  if (!first) return;
  slot->verdict[place] = slot->asked[place] = (uint8_t)result->verdict;
  if (slot->reason != NULL) slot->reason[place] = result->reason;
}

/* The place of a try in the stream, over all epochs. */
static uint64_t stream_place(const ull_loader *loader, const ull__slot *slot, uint64_t place,
                             uint64_t attempt) {
  uint64_t position = slot->place.position + place;
  return slot->place.epoch * loader->source->count +
         ull__order_stand_in_place(&loader->order, &slot->order, position, attempt);
}

/* The next try after `attempt` bad ones that may be a good sample. The last one allowed is made in
 * any case: its file is named where the search ends in vain. */
static uint64_t next_try(const ull_loader *loader, const ull__slot *slot, uint64_t place,
                         uint64_t attempt, uint64_t most) {
  while (++attempt < most &&
         ull__known_bad_has(&loader->known_bad, stream_place(loader, slot, place, attempt))) {
  }
  return attempt;
}

static ull_status fill_place(ull_loader *loader, ull__worker *worker, ull__slot *slot,
                             uint64_t place, ull__outcome *outcome) {
  uint64_t position = slot->place.position + place, attempt = 0;
  ull_on_bad on_bad = loader->options.on_bad;
  ull__loader_fault fault = fault_here(loader, slot, place);
  for (;;) {
    ull__sample_result result = {.verdict = ULL_VERDICT_OK, .reason = ""};
    uint64_t sample = ull__order_stand_in(&loader->order, &slot->order, position, attempt);
    ull_status status =
        ull__loader_fill_sample(loader, worker, slot, sample, place, fault, &result);
    if (is_bad(status) && !ull_verdict_is_bad(result.verdict))
      result.verdict = ULL_VERDICT_UNREADABLE;
    note_place(slot, place, sample, &result, attempt == 0);
    outcome->died = result.died;
    if (status == ULL_OK) {
      outcome->replaced += attempt > 0;
      return ULL_OK;
    }
    if (!is_bad(status)) return status;
    if (on_bad == ULL_ON_BAD_SKIP) return ULL_OK;
    uint64_t most = most_tries(loader, slot);
    if (on_bad == ULL_ON_BAD_FAIL || attempt >= most)
      return fail_bad(loader, sample, attempt + 1, &result, status);
    ull__known_bad_add(&loader->known_bad, stream_place(loader, slot, place, attempt));
    attempt = next_try(loader, slot, place, attempt, most);
  }
}

void ull__loader_fill(ull_loader *loader, const ull__claim *claim, ull__worker *worker,
                      ull__outcome *outcome) {
  *outcome = (ull__outcome){0};
  for (uint64_t i = 0; i < claim->count && !outcome->failed; i++) {
    uint64_t place = claim->first + i;
    if (fill_place(loader, worker, claim->slot, place, outcome) == ULL_OK) continue;
    outcome->failed = true;
    outcome->failed_at = place;
    outcome->error = *ull_error_last();
  }
}
