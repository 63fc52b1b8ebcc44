/* Who holds a run back, the model or the loader, and what it would bring to change that. */
#include "train/data_report.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"

/* Waiting beyond this share of the step is worth a change. */
#define WAIT_SHARE 0.05

enum { PRINTED_BAD = 10 };

/* The stage that loader threads spend most time in, waiting for slots apart. */
static ull_loader_stage find_stage(const ull_loader_counts *counts, double *share) {
  ull_loader_stage largest = ULL_STAGE_OPEN;
  uint64_t total = 0;
  for (int s = 0; s < ULL_STAGE_IDLE; s++) {
    total += counts->stage_ns[s];
    if (counts->stage_ns[s] > counts->stage_ns[largest]) largest = (ull_loader_stage)s;
  }
  *share = total > 0 ? (double)counts->stage_ns[largest] / (double)total : 0;
  return largest;
}

ull__data_report ull__trainer_data_report(const ull_trainer *t) {
  ull__data_report report = {.stage = ULL_STAGE_OPEN};
  if (t->train_loader == NULL || t->total_seconds <= 0) return report;
  ull_loader_counts counts = ull_loader_count(t->train_loader);
  report.is_known = t->samples > 0;
  report.wait_fraction = t->wait_seconds / t->total_seconds;
  report.is_loader = report.wait_fraction > WAIT_SHARE;
  report.stage = find_stage(&counts, &report.stage_share);
  report.gain = report.wait_fraction < 1 ? 1 / (1 - report.wait_fraction) : 1;
  for (int v = 0; v < ULL_VERDICT_COUNT; v++)
    if (ull_verdict_is_bad((ull_verdict)v)) report.bad += counts.verdicts[v];
  return report;
}

static const char *advise(const ull_trainer *t, ull_loader_stage stage) {
  static const char *const advice[ULL_STAGE_COUNT] = {
      [ULL_STAGE_OPEN] = "put the files into tars (ullage data pack) or on a faster disk",
      [ULL_STAGE_READ] = "a faster disk, or smaller files (ullage data pack --max-side)",
      [ULL_STAGE_DECODE] = "shrink once what every epoch shrinks (ullage data pack --max-side)",
      [ULL_STAGE_RESAMPLE] = "shrink once what every epoch shrinks (ullage data pack --max-side)",
      [ULL_STAGE_CONVERT] = "a simpler --augment",
      [ULL_STAGE_FINISH] = "a simpler --augment",
      [ULL_STAGE_QUEUE] = "larger --loader-memory: large pictures wait for each other",
  };
  bool few = (uint32_t)t->job->train.options.workers < t->job->threads;
  return few ? "more --workers" : advice[stage];
}

static int describe(const ull_trainer *t, const ull__data_report *report, char *text, size_t size) {
  const char *stage = ull_loader_stage_name(report->stage);
  if (report->is_loader)
    return snprintf(
        text, size,
        "data      the loader is the bottleneck: steps wait for data %.0f %% of the "
        "time, and %s is %.0f %% of its work; without the wait %.2f x as fast; try %s\n",
        100 * report->wait_fraction, stage, 100 * report->stage_share, report->gain,
        advise(t, report->stage));
  return snprintf(text, size,
                  "data      the model is the bottleneck: steps wait for data %.1f %% of the time; "
                  "a faster loader would bring %.1f %%\n",
                  100 * report->wait_fraction, 100 * (report->gain - 1));
}

static void add_bad(const ull_trainer *t, uint64_t bad, char *text, size_t used, size_t size) {
  ull_bad_sample *samples = ull__alloc(PRINTED_BAD, sizeof *samples);
  if (samples == NULL) return;
  size_t count = ull_loader_bad_samples(t->train_loader, 0, samples, PRINTED_BAD);
  used += (size_t)snprintf(text + used, size - used, "bad       %llu samples were %s:\n",
                           (unsigned long long)bad,
                           t->job->train.options.refill ? "left out" : "replaced");
  for (size_t i = 0; i < count; i++) ull__utf8_clean(samples[i].path);
  for (size_t i = 0; i < count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "          %s: %s%s%s\n", samples[i].path,
                             ull_verdict_name(samples[i].verdict), samples[i].reason[0] ? ": " : "",
                             samples[i].reason);
  ull__free(samples);
}

const char *ull_trainer_summary(ull_trainer *t) {
  char text[8192] = "";
  ull__data_report report = ull__trainer_data_report(t);
  if (!report.is_known) return "";
  size_t used = (size_t)describe(t, &report, text, sizeof text);
  if (t->finished && t->step < t->job->total_steps && t->job->train.options.refill)
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "steps     %llu of %llu planned: epochs were shorter\n",
                             (unsigned long long)t->step, (unsigned long long)t->job->total_steps);
  if (report.bad > 0) add_bad(t, report.bad, text, used, sizeof text);
  ull__free(t->texts[ULL__TEXT_SUMMARY]);
  t->texts[ULL__TEXT_SUMMARY] = ull__strdup(text);
  return t->texts[ULL__TEXT_SUMMARY] != NULL ? t->texts[ULL__TEXT_SUMMARY] : "";
}
