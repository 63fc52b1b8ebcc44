/* What scripts read: the JSON of plan and train. Keys are promised to scripts; new ones may be
 * added. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/system_limits.h"
#include "train/data_report.h"
#include "train/result_certificate.h"
#include "train/result_parts.h"
#include "train/trainer.h"

/* {"device": bytes, ...}; NULL without memory. */
static json_t *json_of_tiers(const uint64_t bytes[ULL__TIER_COUNT]) {
  json_t *map = json_object();
  for (int t = 0; t < ULL__TIER_COUNT && map; t++)
    ull__json_put(map, ull__tier_name((ull__tier)t), json_integer((json_int_t)bytes[t]));
  return map;
}

json_t *ull__json_of_tags(const uint64_t bytes[ULL__TAG_COUNT][ULL__TIER_COUNT]) {
  json_t *map = json_object();
  for (int t = 0; t < ULL__TAG_COUNT && map; t++)
    ull__json_put(map, ull__tag_name((ull__tag)t), json_of_tiers(bytes[t]));
  return map;
}

/* The largest of each tag over the programs of the family: what the step, the last batch or the
 * evaluation needs. */
static void largest_tags(const ull__family *family, uint64_t out[ULL__TAG_COUNT][ULL__TIER_COUNT]) {
  memset(out, 0, sizeof(uint64_t) * ULL__TAG_COUNT * ULL__TIER_COUNT);
  if (!family || family->program_count == 0) return;
  memcpy(out, family->programs[0].tag_peaks, sizeof family->programs[0].tag_peaks);
}

typedef struct recomputation {
  json_t *names;
  uint64_t bytes;
  double seconds;
} recomputation;

static ull_status list_recomputed(const ull__program *program, recomputation *out) {
  const ull__graph *graph = program->lowered->graph;
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    const ull__instruction *instruction = &program->instructions[i];
    if (!instruction->recomputed) continue;
    out->seconds += instruction->seconds;
    const ull__node *node = ull__graph_node(graph, instruction->node);
    for (uint32_t o = 0; o < instruction->output_count; o++) {
      out->bytes += instruction->bytes[instruction->input_count + o];
      ULL__TRY(ull__json_append(out->names,
                                json_string(ull__graph_value(graph, node->outputs[o])->name)));
    }
  }
  return ULL_OK;
}

static ull_status put_moves(const ull__plan *plan, json_t *object) {
  recomputation r = {.names = json_array()};
  if (plan->family) ULL__TRY(list_recomputed(&plan->family->programs[0], &r));
  json_t *recomputed = json_object(), *moved = json_object();
  ULL__TRY(ull__json_put(object, "recomputed", recomputed));
  ULL__TRY(ull__json_put(recomputed, "values", r.names));
  ULL__TRY(ull__json_put(recomputed, "bytes", json_integer((json_int_t)r.bytes)));
  ULL__TRY(ull__json_put(recomputed, "seconds", ull__json_real(r.seconds)));
  ULL__TRY(ull__json_put(object, "moved", moved));
  ULL__TRY(ull__json_put(moved, "values", json_array()));
  ULL__TRY(ull__json_put(moved, "bytes", json_integer(0)));
  return ull__json_put(moved, "seconds", ull__json_real(0));
}

/* Keys that `plan` and `train` share. */
static ull_status put_plan(ull_trainer *t, json_t *object) {
  const ull__job *job = t->job;
  const ull__plan *plan = job->plan;
  uint64_t tags[ULL__TAG_COUNT][ULL__TIER_COUNT];
  largest_tags(plan->family, tags);
  double seconds = plan->family ? plan->family->programs[0].seconds : plan->keep_all_seconds;
  ULL__TRY(ull__json_put(object, "schema", json_integer(1)));
  ULL__TRY(ull__json_put(object, "fits", json_boolean(plan->fits)));
  ULL__TRY(ull__json_put(object, "model", json_string(job->model->name)));
  ULL__TRY(ull__json_put(object, "batch_size", json_integer(job->batch_size)));
  ULL__TRY(ull__json_put(object, "micro_batch", json_integer(job->micro_batch)));
  ULL__TRY(ull__json_put(object, "device", json_string(job->device_text)));
  ULL__TRY(ull__json_put(object, "fingerprint", json_string(job->provider->fingerprint)));
  ULL__TRY(ull__json_put(object, "planned_peak_bytes", json_of_tiers(plan->planned_peak_bytes)));
  ULL__TRY(ull__json_put(object, "keep_all_peak_bytes", json_of_tiers(plan->keep_all_peak_bytes)));
  ULL__TRY(ull__json_put(object, "smallest_budget_bytes", json_of_tiers(plan->smallest_bytes)));
  ULL__TRY(ull__json_put(object, "lower_bound_bytes", json_of_tiers(plan->lower_bound_bytes)));
  ULL__TRY(ull__json_put(object, "predicted_step_seconds", ull__json_real(seconds)));
  ULL__TRY(put_moves(plan, object));
  ULL__TRY(ull__put_certificate(plan, object));
  ULL__TRY(ull__json_put(object, "tags", ull__json_of_tags(tags)));
  ULL__TRY(ull__json_put(object, "keep_all_tags", ull__json_of_tags(plan->keep_all_tags)));
  return ull__put_buckets(t, object);
}

/* Turns an object into the trainer's text of that kind and drops it. */
static const char *keep_line(ull_trainer *t, int kind, json_t *object, ull_status status) {
  char *line = NULL;
  if (status == ULL_OK) status = ull__json_line(object, &line);
  json_decref(object);
  if (status != ULL_OK) return NULL;
  ull__free(t->texts[kind]);
  t->texts[kind] = line;
  return line;
}

const char *ull_trainer_plan_json(ull_trainer *t) {
  ull__json_start();
  json_t *object = json_object();
  ull_status status = object ? put_plan(t, object) : ULL_ERROR_OUT_OF_MEMORY;
  return keep_line(t, ULL__TEXT_PLAN, object, status);
}

/* ---- train ---- */

static int compare_reals(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The first step warms caches and pages up; it is left out where there are others. */
static double median_seconds(const ull_trainer *t) {
  uint64_t from = t->step > 1 ? 1 : 0, count = (t->step < t->history ? t->step : t->history) - from;
  double *sorted = ull__alloc(count + 1, sizeof *sorted);
  if (!sorted || t->step == 0) {
    ull__free(sorted);
    return 0;
  }
  memcpy(sorted, t->step_seconds + from, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, compare_reals);
  double median = count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
  ull__free(sorted);
  return median;
}

/* Seconds of a step by operator, from the executor's own clock. */
static ull_status put_operator_seconds(const ull_trainer *t, json_t *object) {
  const ull__program *program = &t->job->plan->family->programs[ULL__MAIN_PROGRAM];
  const ull__instruction_times *times = ull__executor_times(t->executor, ULL__MAIN_PROGRAM);
  json_t *map = json_object();
  ULL__TRY(ull__json_put(object, "operator_seconds", map));
  for (uint32_t i = 0; i < program->instruction_count && times; i++) {
    const ull__instruction *instruction = &program->instructions[i];
    if (times[i].runs == 0) continue;
    const char *op = instruction->node == ULL__NONE
                         ? "copy_in"
                         : ull__graph_node(program->lowered->graph, instruction->node)->op->name;
    double seconds = json_real_value(json_object_get(map, op));
    seconds += (double)times[i].total_ns * 1e-9 / (double)times[i].runs;
    ULL__TRY(ull__json_put(map, op, json_real(seconds)));
  }
  return ULL_OK;
}

static ull_status put_measured(const ull_trainer *t, json_t *object) {
  ull__measurement m;
  ull__resident_bytes resident = {0};
  ull__executor_measure(t->executor, ULL__MAIN_PROGRAM, &m);
  ULL__TRY(ull__resident_read("", &resident));
  ULL__TRY(ull__json_put(object, "measured_peak_bytes", json_of_tiers(m.peak_bytes)));
  ULL__TRY(ull__json_put(object, "per_tag", ull__json_of_tags(m.tag_peaks)));
  return ull__json_put(object, "vmhwm_bytes", json_integer((json_int_t)resident.peak_bytes));
}

/* Who holds the run back. */
static ull_status put_data(const ull_trainer *t, json_t *object) {
  ull__data_report report = ull__trainer_data_report(t);
  if (!report.is_known) return ULL_OK;
  ULL__TRY(ull__json_put(object, "bottleneck", json_string(report.is_loader ? "loader" : "model")));
  ULL__TRY(ull__json_put(object, "loader_stage", json_string(ull_loader_stage_name(report.stage))));
  ULL__TRY(ull__json_put(object, "gain_without_wait", ull__json_real(report.gain)));
  return ull__json_put(object, "bad_samples", json_integer((json_int_t)report.bad));
}

static ull_status put_results(ull_trainer *t, json_t *object) {
  double seconds = t->total_seconds;
  ULL__TRY(put_measured(t, object));
  ULL__TRY(ull__json_put(object, "steps_run", json_integer((json_int_t)t->step)));
  ULL__TRY(ull__json_put(object, "resumed_from_step", json_integer(0)));
  ULL__TRY(ull__json_put(object, "weights",
                         t->weights_path[0] ? json_string(t->weights_path) : json_null()));
  ULL__TRY(ull__json_put(object, "weights_hash", t->hash[0] ? json_string(t->hash) : json_null()));
  ULL__TRY(ull__json_put(object, "allocations_after_first_step",
                         json_integer((json_int_t)t->allocations)));
  ULL__TRY(ull__json_put(object, "samples_per_second",
                         ull__json_real(seconds > 0 ? (double)t->samples / seconds : 0)));
  ULL__TRY(ull__json_put(object, "step_seconds_median", ull__json_real(median_seconds(t))));
  ULL__TRY(ull__json_put(object, "data_wait_fraction",
                         ull__json_real(seconds > 0 ? t->wait_seconds / seconds : 0)));
  ULL__TRY(put_data(t, object));
  ULL__TRY(ull__json_put(object, "accuracy",
                         t->accuracy >= 0 ? ull__json_real(t->accuracy) : json_null()));
  double all = (double)(ull__clock_now_ns() - t->began_ns) * 1e-9;
  ULL__TRY(ull__json_put(object, "seconds", ull__json_real(all)));
  ULL__TRY(
      ull__json_put(object, "run", t->folder.path[0] ? json_string(t->folder.path) : json_null()));
  ULL__TRY(put_operator_seconds(t, object));
  return ull__report_libraries(t->job->plan->family, object);
}

/* A loss takes 24 characters and a comma at most; it is finite, or its step had failed. */
#define LOSS_CHARACTERS 28

static size_t write_loss(char *text, double loss) {
  int written = snprintf(text, LOSS_CHARACTERS, "%.17g", loss);
  char *comma = strchr(text, ','); /* the point of some locales */
  if (comma) *comma = '.';
  bool whole = !strpbrk(text, ".e");
  if (whole) written += snprintf(text + written, LOSS_CHARACTERS - (size_t)written, ".0");
  return (size_t)written;
}

/* The line with the losses as its last key: one allocation however many there are, so that a longer
 * run makes no more calls than a short one. */
static char *add_losses(const ull_trainer *t, const char *line) {
  static const char key[] = ",\"losses\":[";
  uint64_t count = t->step < t->history ? t->step : t->history;
  size_t length = strlen(line) - 1; /* without the brace */
  char *text = ull__alloc(length + sizeof key + count * LOSS_CHARACTERS + 3, 1), *end = text;
  if (!text) return NULL;
  memcpy(end, line, length);
  memcpy(end += length, key, sizeof key - 1);
  end += sizeof key - 1;
  for (uint64_t i = 0; i < count; i++) {
    if (i > 0) *end++ = ',';
    end += write_loss(end, t->losses[i]);
  }
  memcpy(end, "]}", 3);
  return text;
}

const char *ull_trainer_result_json(ull_trainer *t) {
  ull__json_start();
  json_t *object = json_object();
  ull_status status = object ? put_plan(t, object) : ULL_ERROR_OUT_OF_MEMORY;
  bool trains = t->executor && !t->job->evaluates_only;
  if (status == ULL_OK && trains) status = put_results(t, object);
  const char *line = keep_line(t, ULL__TEXT_RESULT, object, status);
  if (!line || !trains) return line;
  char *longer = add_losses(t, line);
  if (!longer) return NULL;
  ull__free(t->texts[ULL__TEXT_RESULT]);
  return t->texts[ULL__TEXT_RESULT] = longer;
}
