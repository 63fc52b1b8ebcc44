/* The loop: batches from the loader, steps, evaluation after each epoch, weights at the end. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "train/trainer.h"

static void collect(const ull_batch *batch, void **arrays) {
  for (size_t a = 0; a < batch->array_count; a++) arrays[a] = batch->arrays[a].data;
}

/* Waits for the next batch; NULL at the end of the stream. */
static ull_status next_batch(ull_trainer *t, const ull_batch **batch, double *wait) {
  uint64_t began = ull__clock_now_ns();
  ULL__TRY(ull_loader_next(t->train_loader, batch));
  *wait = (double)(ull__clock_now_ns() - began) * 1e-9;
  return ULL_OK;
}

static ull_status train_batch(ull_trainer *t, const ull_batch *batch, uint32_t variant, double wait,
                              const ull_train_events *events) {
  void *arrays[ULL_DATA_MAX_ARRAYS];
  ull_step_metrics metrics;
  collect(batch, arrays);
  ULL__TRY(ull__trainer_step_on(t, variant, arrays, batch->samples, batch->epoch + 1, &metrics));
  metrics.data_wait_seconds = wait;
  metrics.seconds += wait;
  if (t->step <= t->history) t->step_seconds[t->step - 1] = metrics.seconds;
  t->wait_seconds += wait;
  t->total_seconds += metrics.seconds;
  t->samples += metrics.samples;
  ULL__TRY(ull__run_folder_log(&t->folder, &metrics));
  if (events && events->step) events->step(events->context, &metrics);
  return ULL_OK;
}

static ull_status refuse_few(const ull_trainer *t, const ull_batch *batch) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: its %llu good samples do not make a batch of %lld",
            ull_source_text(t->job->train.source), (unsigned long long)batch->samples,
            (long long)t->job->batch_size);
  ull__error_holder("--on-bad skip");
  return ull__error_change("mend the data, or use a smaller --batch-size");
}

/* Where bad samples were left out, the last batch of an epoch may be of a size that nothing was
 * planned for: it is left out as well. */
static ull_status use_batch(ull_trainer *t, const ull_batch *batch, double wait,
                            const ull_train_events *events) {
  uint32_t variant;
  ULL__TRY(ull__trainer_find_variant(t, batch, &variant));
  bool leave = t->job->train.options.refill && !ull__trainer_takes(t, variant, batch->samples);
  if (!leave) return train_batch(t, batch, variant, wait, events);
  return batch->batch > 0 ? ULL_OK : refuse_few(t, batch);
}

static ull_status evaluate_epoch(ull_trainer *t, const ull_train_events *events) {
  ull_evaluation evaluation;
  if (!t->eval_loader) return ULL_OK;
  ull_status status = ull_trainer_evaluate(t, &evaluation);
  if (status == ULL_ERROR_STOPPED) return ULL_OK; /* the loop ends, and weights are saved */
  ULL__TRY(status);
  t->accuracy = evaluation.accuracy;
  if (events && events->evaluation) events->evaluation(events->context, t->epoch, &evaluation);
  return ULL_OK;
}

/* An epoch has ended where the next batch is of another, or there is none. */
static ull_status begin_epoch(ull_trainer *t, const ull_batch *batch,
                              const ull_train_events *events) {
  uint64_t epoch = batch != NULL ? batch->epoch + 1 : UINT64_MAX;
  if (epoch == t->epoch) return ULL_OK;
  if (t->epoch > 0) ULL__TRY(evaluate_epoch(t, events));
  t->epoch = epoch;
  return ULL_OK;
}

static ull_status train_steps(ull_trainer *t, const ull_train_events *events) {
  while (t->step < t->job->total_steps && !atomic_load(&t->stop)) {
    const ull_batch *batch = NULL;
    double wait;
    ULL__TRY(next_batch(t, &batch, &wait));
    if (batch == NULL) break;
    ull_status status = begin_epoch(t, batch, events);
    if (status == ULL_OK && !atomic_load(&t->stop)) status = use_batch(t, batch, wait, events);
    ull_loader_release(t->train_loader, batch);
    ULL__TRY(status);
  }
  if (atomic_load(&t->stop) && t->step < t->job->total_steps) return ULL_OK;
  return begin_epoch(t, NULL, events);
}

static ull_status save(ull_trainer *t) {
  if (!t->folder.path[0]) return ull__trainer_hash(t, t->hash);
  snprintf(t->weights_path, sizeof t->weights_path, "%s/weights.safetensors", t->folder.path);
  ull__run_folder_keep_previous(&t->folder, "weights", "safetensors");
  ULL__TRY(ull_trainer_save_weights(t, t->weights_path));
  return ull__trainer_hash(t, t->hash);
}

ull_status ull_trainer_run(ull_trainer *t, const ull_train_events *events) {
  if (!t->executor)
    return ULL__FAIL(ULL_ERROR_INVALID, "ull_trainer_start comes before ull_trainer_run");
  if (t->job->evaluates_only)
    return ULL__FAIL(ULL_ERROR_INVALID, "a trainer made for `eval` does not train");
  if (!t->folder.path[0]) ULL__TRY(ull__trainer_open_folder(t));
  ULL__TRY(train_steps(t, events));
  t->finished = true;
  ULL__TRY(save(t));
  if (!atomic_load(&t->stop) || t->step == t->job->total_steps) return ULL_OK;
  ULL__FAIL(ULL_ERROR_STOPPED, "stopped after step %llu of %llu; weights saved",
            (unsigned long long)t->step, (unsigned long long)t->job->total_steps);
  return ull__error_holder("%s", t->weights_path);
}

/* ---- evaluation ---- */

typedef struct tally {
  double loss, correct;
  uint64_t samples;
  uint64_t weight; /* of the losses: ull__model_weigh */
} tally;

/* Fills a short part up to the program's batch: padded targets count for nothing. */
static void pad_part(const ull__model *model, void *const *arrays, uint64_t used, uint64_t batch) {
  for (uint32_t i = 0; i < model->input_count; i++) {
    if (!model->inputs[i].is_target || model->inputs[i].dtype != ULL_INT64) continue;
    uint64_t each = 1;
    for (uint32_t d = 1; d < model->inputs[i].shape.rank; d++)
      each *= (uint64_t)model->inputs[i].shape.dims[d].constant;
    int64_t *target = arrays[i];
    for (uint64_t k = used * each; k < batch * each; k++) target[k] = -100;
  }
}

/* The batches of evaluation are micro-batches: each is one run. */
static ull_status evaluate_batch(ull_trainer *t, const ull_batch *batch, tally *sum) {
  uint32_t variant;
  ULL__TRY(ull__trainer_find_variant(t, batch, &variant));
  const ull__model *model = t->job->variants[variant].model;
  const ull__program_indices *programs = &t->programs[variant];
  uint64_t whole = (uint64_t)t->job->micro_batch;
  bool is_tail = batch->samples < whole && programs->eval_tail >= 0;
  uint64_t tail = (uint64_t)t->job->variants[variant].eval_tail_batch;
  if (is_tail && batch->samples != tail) return ULL_OK; /* bad samples were left out */
  uint32_t program = (uint32_t)(is_tail ? programs->eval_tail : programs->eval);
  void *arrays[ULL_DATA_MAX_ARRAYS];
  collect(batch, arrays);
  uint64_t weight = ull__model_weigh(model, arrays, 0, batch->samples);
  if (batch->samples < whole && !is_tail) pad_part(model, arrays, batch->samples, whole);
  for (uint32_t i = 0; i < model->input_count; i++) {
    int input = ull__executor_find_input(t->executor, program, model->inputs[i].name);
    if (input >= 0) ull__executor_set_input(t->executor, program, (uint32_t)input, arrays[i]);
  }
  float loss = 0, correct = 0;
  ULL__TRY(ull__executor_run(t->executor, program));
  ULL__TRY(ull__executor_read_output(t->executor, program, "loss", &loss, sizeof loss));
  if (model->classes > 0 && ull__graph_find_output(model->graph, "correct") != ULL__NONE)
    ULL__TRY(ull__executor_read_output(t->executor, program, "correct", &correct, sizeof correct));
  if (weight > 0) sum->loss += (double)loss * (double)weight;
  sum->weight += weight;
  sum->correct += (double)correct;
  sum->samples += batch->samples;
  return ULL_OK;
}

static ull_status evaluate_all(ull_trainer *t, tally *sum) {
  ULL__TRY(ull_loader_set_position(t->eval_loader, (ull_loader_position){0, 0}));
  for (;;) {
    const ull_batch *batch = NULL;
    ULL__TRY(ull_loader_next(t->eval_loader, &batch));
    if (!batch) return ULL_OK;
    ull_status status = evaluate_batch(t, batch, sum);
    ull_loader_release(t->eval_loader, batch);
    ULL__TRY(status);
    if (atomic_load(&t->stop)) return ULL__FAIL(ULL_ERROR_STOPPED, "stopped while evaluating");
  }
}

ull_status ull_trainer_evaluate(ull_trainer *t, ull_evaluation *out) {
  if (!t->executor)
    return ULL__FAIL(ULL_ERROR_INVALID, "ull_trainer_start comes before ull_trainer_evaluate");
  if (!t->eval_loader) {
    ULL__FAIL(ULL_ERROR_USAGE, "there is nothing to evaluate on");
    return ull__error_change("--val-data SRC or --val-split 0.1");
  }
  uint64_t began = ull__clock_now_ns();
  tally sum = {0};
  ULL__TRY(evaluate_all(t, &sum));
  bool classifier = t->job->model->classes > 0;
  *out = (ull_evaluation){.loss = sum.loss / (double)sum.weight,
                          .accuracy = classifier ? sum.correct / (double)sum.samples : -1,
                          .samples = sum.samples,
                          .seconds = (double)(ull__clock_now_ns() - began) * 1e-9};
  return ULL_OK;
}

ull_trainer_progress ull_trainer_get_progress(const ull_trainer *t) {
  uint64_t planned = t->job->plan->planned_peak_bytes[ULL__TIER_DEVICE], used = 0;
  if (t->executor) {
    ull__measurement m;
    ull__executor_measure(t->executor, ULL__MAIN_PROGRAM, &m);
    used = m.peak_bytes[ULL__TIER_DEVICE];
  }
  return (ull_trainer_progress){t->job->total_steps, t->job->epoch_steps, used, planned};
}
