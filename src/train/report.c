/* What a person reads: the header of a run, where every default is printed, and the stages of
 * --show. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "base/utf8.h"
#include "plan/explain.h"
#include "train/trainer.h"

enum { NAME_BYTES = 1024 };

typedef struct page {
  char text[8192];
  size_t used;
} page;

__attribute__((format(printf, 2, 3))) static void add(page *p, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int written = vsnprintf(p->text + p->used, sizeof p->text - p->used, format, arguments);
  va_end(arguments);
  if (written > 0) p->used += (size_t)written;
  if (p->used >= sizeof p->text) p->used = sizeof p->text - 1;
}

static void add_model(page *p, const ull__job *job) {
  add(p, "model     %s · %llu parameters\n", job->model->name,
      (unsigned long long)job->model->parameters);
}

static void add_feed(page *p, const char *title, const ull__feed *feed, bool training) {
  char text[NAME_BYTES];
  add(p, "%-9s %s · %llu samples", title,
      ull__utf8_told(ull_source_text(feed->source), text, sizeof text),
      (unsigned long long)ull_source_sample_count(feed->source));
  if (ull_source_note(feed->source)[0])
    add(p, " · %s", ull__utf8_told(ull_source_note(feed->source), text, sizeof text));
  for (size_t b = 0; b < feed->binding_count; b++)
    if (feed->bindings[b].normalize.active)
      add(p, " · normalised %s",
          ull_normalize_describe(&feed->bindings[b].normalize, text, sizeof text));
  if (training)
    add(p, " · augmentation %s · %s",
        ull_augment_describe(&feed->options.augment, text, sizeof text),
        feed->options.shuffle ? "shuffled" : "in order");
  add(p, "\n");
}

static void add_bad_rules(page *p, const ull_loader_options *options) {
  if (options->on_bad == ULL_ON_BAD_FAIL) {
    add(p, "bad       a sample that cannot be used ends the run\n");
    return;
  }
  add(p, "bad       samples that cannot be used are %s; ",
      options->refill ? "left out" : "replaced");
  if (options->max_bad == ULL_MAX_BAD_SHARE)
    add(p, "more than a tenth, 100 at least, end the run\n");
  else
    add(p, "more than %llu end the run\n", (unsigned long long)options->max_bad);
  if (!options->refill) return;
  add(p,
      "          batches are filled up by those that follow, so that an epoch may be shorter than "
      "planned; the rate\n          keeps to the steps planned, and an epoch's last batch is left "
      "out where no plan has its size\n");
}

static void add_loader(page *p, const ull__feed *feed) {
  char text[512];
  const ull_loader_options *options = &feed->options;
  add(p, "loader    %d thread%s%s, %d batches ahead, %s\n", options->workers,
      options->workers == 1 ? "" : "s", options->adaptive ? " at most" : "", options->prefetch,
      ull_loader_bound_describe(&feed->bound, text, sizeof text));
  add_bad_rules(p, options);
}

static void add_data(page *p, const ull__job *job) {
  if (job->train.source) add_feed(p, "data", &job->train, true);
  if (job->eval.source)
    add_feed(p, "evaluate", &job->eval, false);
  else
    add(p, "evaluate  nothing (--val-data SRC or --val-split X)\n");
  if (job->train.source) add_loader(p, &job->train);
}

static void add_recipe(page *p, const ull__job *job) {
  char text[256];
  if (job->evaluates_only) return;
  add(p, "recipe    %s · loss cross-entropy%s\n",
      ull__recipe_text(&job->recipe, &job->rate, text, sizeof text),
      job->soft_model ? " of mixed targets" : "");
  add(p, "steps     %llu (%llu an epoch) of %lld samples", (unsigned long long)job->total_steps,
      (unsigned long long)job->epoch_steps, (long long)job->batch_size);
  if (job->micro_batch != job->batch_size)
    add(p, " in micro-batches of %lld", (long long)job->micro_batch);
  add(p, " · seed %lld\n", (long long)ull_config_integer(job->config, "seed"));
}

static void add_plan(page *p, const ull__job *job) {
  const ull__plan *plan = job->plan;
  char planned[32], keep_all[32], smallest[32];
  add(p, "device    %s · %u threads · %s\n", job->device_text, job->threads,
      job->provider->fingerprint);
  add(p, "memory    %s\n", job->budget_text[0] ? job->budget_text : "the device's own");
  add(p, "plan      %s planned · keeping everything takes %s · the least is %s\n",
      ull__byte_size_format(plan->planned_peak_bytes[ULL__TIER_DEVICE], planned),
      ull__byte_size_format(plan->keep_all_peak_bytes[ULL__TIER_DEVICE], keep_all),
      ull__byte_size_format(plan->smallest_bytes[ULL__TIER_DEVICE], smallest));
  if (!plan->family) return;
  uint64_t kept = plan->keep_all_tags[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE];
  uint64_t used = plan->family->programs[0].tag_peaks[ULL__TAG_ACTIVATION][ULL__TIER_DEVICE];
  double more = plan->keep_all_seconds > 0
                    ? plan->family->programs[0].seconds / plan->keep_all_seconds - 1
                    : 0;
  add(p, "          activations %s instead of %s (%.0f %%), predicted to cost %.0f %% more time\n",
      ull__byte_size_format(used, planned), ull__byte_size_format(kept, keep_all),
      kept ? 100.0 * (double)used / (double)kept : 0, 100 * more);
}

/* Keeps a text for the caller until the next call of the same kind. */
static const char *keep(ull_trainer *t, int kind, char *text) {
  if (!text) return NULL;
  ull__free(t->texts[kind]);
  t->texts[kind] = text;
  return text;
}

const char *ull_trainer_header(ull_trainer *t) {
  page p = {.used = 0};
  char text[NAME_BYTES];
  add_model(&p, t->job);
  add_data(&p, t->job);
  add_recipe(&p, t->job);
  add_plan(&p, t->job);
  if (t->folder.path[0])
    add(&p, "run       %s\n", ull__utf8_told(t->folder.path, text, sizeof text));
  return keep(t, ULL__TEXT_HEADER, ull__strdup(p.text));
}

static const ull__graph *show_graph(const ull__variant *variant) {
  return variant->train_graph ? variant->train_graph : variant->eval_graph;
}

static ull_status show_stage(const ull_trainer *t, const char *what, char **out) {
  const ull__plan *plan = t->job->plan;
  if (strcmp(what, "graph") == 0) return ull__graph_text(show_graph(&t->job->variants[0]), out);
  if (strcmp(what, "memory") == 0) return ull__plan_memory_text(plan, out);
  if (strcmp(what, "lowered") == 0) return ull__lowered_text(plan->programs[0].lowered, out);
  if (strcmp(what, "schedule") == 0) return ull__plan_schedule_text(plan, out);
  ULL__FAIL(ULL_ERROR_USAGE, "--show %s: there is no such stage", what);
  return ull__error_change("--show graph, lowered, schedule or memory");
}

const char *ull_trainer_show(ull_trainer *t, const char *what) {
  char *text = NULL;
  if (show_stage(t, what, &text) != ULL_OK) return NULL;
  return keep(t, ULL__TEXT_SHOW, text);
}

ull_status ull_trainer_save_plan(ull_trainer *t, const char *path) {
  if (!t->job->plan->fits) return ull_trainer_refuse(t);
  return ull__family_save(t->job->plan->family, path, ull_trainer_plan_json(t));
}
