/* What a loader tells: counts, times by stage, bytes really used, bad samples.
 *
 * Bad samples are booked when their batch is lent, so that what is told and when it becomes too
 * much follows the stream and not the threads. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/loader.h"
#include "data/too_many_bad.h"

#define LEAST_SHARE_BAD 100
#define SHARE_BAD 10

const char *ull_loader_stage_name(ull_loader_stage stage) {
  static const char *const names[] = {"open",    "read",   "decode", "resample",
                                      "convert", "finish", "queue",  "idle"};
  return (unsigned)stage < ULL_STAGE_COUNT ? names[stage] : "?";
}

/* ---- bad samples ---- */

static uint64_t count_bad(const ull__slot *slot) {
  uint64_t bad = 0;
  if (slot == NULL) return 0;
  for (uint64_t i = 0; i < slot->place.samples; i++) {
    bad += ull_verdict_is_bad((ull_verdict)slot->asked[i]);
  }
  return bad;
}

static uint64_t allowed_bad(const ull_loader *loader, const ull__slot *slot) {
  uint64_t most = loader->options.max_bad;
  if (most != ULL_MAX_BAD_SHARE) return most;
  uint64_t dealt = loader->dealt + (slot != NULL ? slot->place.samples : 0);
  uint64_t share = dealt / SHARE_BAD;
  return share > LEAST_SHARE_BAD ? share : LEAST_SHARE_BAD;
}

static ull__bad_sample describe_bad(const ull_loader *loader, const ull__slot *slot,
                                    uint64_t place) {
  bool has_reason = slot->reason != NULL && slot->reason[place] != NULL;
  return (ull__bad_sample){.sample = ull__loader_asked(loader, slot, place),
                           .times = 1,
                           .reason = has_reason ? slot->reason[place] : "",
                           .verdict = (ull_verdict)slot->asked[place]};
}

static void remember(ull_loader *loader, const ull__slot *slot, uint64_t place) {
  ull__bad_sample bad = describe_bad(loader, slot, place);
  for (size_t i = 0; i < loader->bad_sample_count; i++) {
    if (loader->bad_samples[i].sample != bad.sample) continue;
    loader->bad_samples[i].times++;
    return;
  }
  if (loader->bad_sample_count == ULL__BAD_SAMPLES) return;
  loader->bad_samples[loader->bad_sample_count++] = bad;
}

/* The first bad sample of the slot, or where there is no slot, of all. */
static ull__bad_sample find_example(const ull_loader *loader, const ull__slot *slot) {
  if (slot == NULL) return loader->bad_samples[0];
  uint64_t place = 0;
  while (!ull_verdict_is_bad((ull_verdict)slot->asked[place])) place++;
  return describe_bad(loader, slot, place);
}

ull_status ull__loader_check_bad(const ull_loader *loader, const ull__slot *slot) {
  uint64_t bad = loader->bad + count_bad(slot), allowed = allowed_bad(loader, slot);
  if (bad <= allowed || loader->options.on_bad == ULL_ON_BAD_FAIL) return ULL_OK;
  bool share = loader->options.max_bad == ULL_MAX_BAD_SHARE;
  ull__bad_sample example = find_example(loader, slot);
  char path[ULL__RECORD_PATH_BYTES];
  ull_source_sample_name(loader->source, example.sample, path, sizeof path);
  return ull__fail_too_many_bad(loader->source->text, bad, allowed,
                                share ? " (a tenth of the samples)" : "", path, example.verdict,
                                example.reason);
}

void ull__loader_book_place(ull_loader *loader, const ull__slot *slot, uint64_t place) {
  ull_verdict verdict = (ull_verdict)slot->asked[place];
  loader->counts.verdicts[verdict]++;
  loader->dealt++;
  if (!ull_verdict_is_bad(verdict)) return;
  loader->bad++;
  remember(loader, slot, place);
}

size_t ull_loader_bad_samples(const ull_loader *loader, size_t first, ull_bad_sample *out,
                              size_t room) {
  pthread_mutex_t *mutex = &((ull_loader *)loader)->mutex;
  size_t count = 0;
  pthread_mutex_lock(mutex);
  for (size_t i = first; i < loader->bad_sample_count && count < room; i++, count++) {
    const ull__bad_sample *bad = &loader->bad_samples[i];
    out[count] = (ull_bad_sample){
        .sample = bad->sample, .verdict = bad->verdict, .times = bad->times, .reason = bad->reason};
  }
  pthread_mutex_unlock(mutex);
  for (size_t i = 0; i < count; i++) {
    ull_source_sample_name(loader->source, out[i].sample, out[i].path, sizeof out[i].path);
  }
  return count;
}

/* ---- counts ---- */

/* Slots and scratch are counted as far as they were ever used; the rest is what must be there. */
static uint64_t peak_bytes(const ull_loader *loader) {
  const ull__loader_layout *layout = &loader->layout;
  uint64_t slots = (uint64_t)loader->options.prefetch;
  uint64_t bytes = layout->total_bytes - slots * layout->slot_stride - layout->large_bytes -
                   layout->fillers * layout->scratch_stride;
  bytes += loader->used_slots * layout->slot_stride + loader->peak_large;
  for (uint64_t i = 0; i < layout->fillers; i++) bytes += loader->workers[i].peak_bytes;
  return bytes + layout->reader_bytes + loader->source->resident_bytes;
}

ull_loader_counts ull_loader_count(const ull_loader *loader) {
  pthread_mutex_t *mutex = &((ull_loader *)loader)->mutex;
  pthread_mutex_lock(mutex);
  ull_loader_counts counts = loader->counts;
  double ns = ull__ticks_ns(&loader->ticks);
  for (int s = 0; s < ULL_STAGE_COUNT; s++) {
    counts.stage_ns[s] = (uint64_t)((double)loader->stage_ticks[s] * ns);
  }
  counts.peak_bytes = peak_bytes(loader);
  pthread_mutex_unlock(mutex);
  return counts;
}
