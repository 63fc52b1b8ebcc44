/* Training: plan, start, step, evaluate.
 *
 *     ull_config *config;                       // flags as on the command line
 *     ull_trainer *trainer;
 *     ull_config_create(ULL_COMMAND_TRAIN, &config);
 *     ull_config_set(config, "model", "zoo:resnet18?classes=10&image=64");
 *     ull_config_set(config, "memory", "1GiB");
 *     ull_trainer_create(config, &trainer);     // resolves everything and plans; commits nothing
 *     if (!ull_trainer_fits(trainer)) return ull_trainer_refuse(trainer);
 *     ull_trainer_start(trainer);               // commits every arena, makes or loads the weights
 *     ull_trainer_run(trainer, NULL);           // or ull_trainer_step on buffers of your own
 *     ull_trainer_destroy(trainer);
 *
 * The peak of every tier is known when ull_trainer_create returns; nothing is allocated for tensors
 * after ull_trainer_start. Numbers depend on the numeric fingerprint alone: not on the budget, the
 * loader's threads, or the device among `cpu` and `sim`.
 *
 * Thread safety: one thread at a time for each trainer; ull_trainer_stop may be called from any
 * thread and from a signal handler. Texts that functions return are the trainer's and stay until it
 * is destroyed or the same function is called again.
 */
#ifndef ULLAGE_TRAIN_H
#define ULLAGE_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/config.h"
#include "ullage/dtype.h"
#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ull_trainer ull_trainer;

/* Resolves model, data, machine and budgets, and plans. The config is borrowed until the trainer is
 * destroyed. A plan that does not fit is no failure here: see ull_trainer_fits. */
ull_status ull_trainer_create(const ull_config *config, ull_trainer **out);
void ull_trainer_destroy(ull_trainer *trainer); /* NULL is allowed */

bool ull_trainer_fits(const ull_trainer *trainer);

/* Fills the error record with who holds the peak, the shortfall, the smallest budget and the
 * cheapest change. Returns ULL_ERROR_DOES_NOT_FIT. May plan again to find the change. */
ull_status ull_trainer_refuse(ull_trainer *trainer);

/* One JSON object on one line: the keys of `plan`. NULL with a record when memory is out. */
const char *ull_trainer_plan_json(ull_trainer *trainer);

/* What a person reads before a run: model, data, recipe, every default, budget and plan. Several
 * lines. */
const char *ull_trainer_header(ull_trainer *trainer);

/* A stage as text: "graph", "lowered", "schedule" or "memory". NULL with a record for other words.
 */
const char *ull_trainer_show(ull_trainer *trainer, const char *what);

/* Writes the plan to a file; atomic. */
ull_status ull_trainer_save_plan(ull_trainer *trainer, const char *path);

/* ---- running ---- */

/* Commits every arena, prepares kernels, fills the weights (or loads --init), opens the run folder
 * where `--run` names one. */
ull_status ull_trainer_start(ull_trainer *trainer);

/* One array of the caller: [samples, ...] in row-major order, as the model's input of that name
 * wants it. */
typedef struct ull_array {
  const char *name;
  ull_dtype dtype;
  const void *data; /* borrowed for the call */
  uint64_t bytes;
} ull_array;

typedef struct ull_step_metrics {
  uint64_t step;  /* from 1 */
  uint64_t epoch; /* from 1 */
  double loss;
  double accuracy; /* of this batch, 0 to 1; negative where the model is no classifier, or where
                      --augment mixes samples */
  double lr;
  uint64_t samples;
  double seconds; /* of the step, data wait included */
  double data_wait_seconds;
} ull_step_metrics;

/* Trains one step on the caller's own buffers: --batch-size samples, every input of the model; with
 * --buckets of any length that the plan has a whole batch for, as the arrays' bytes say. Where
 * --augment has mixup or cutmix, a classifier's `target` is shares of classes, float32
 * [samples, classes], and the caller has mixed; else class numbers, int64 [samples]. */
ull_status ull_trainer_step(ull_trainer *trainer, const ull_array *arrays, size_t count,
                            ull_step_metrics *out);

typedef struct ull_evaluation {
  double loss;
  double accuracy; /* negative where the model is no classifier */
  uint64_t samples;
  double seconds;
} ull_evaluation;

/* What a run tells as it goes on. Any may be NULL; called on the thread of ull_trainer_run. */
typedef struct ull_train_events {
  void (*step)(void *context, const ull_step_metrics *metrics);
  void (*evaluation)(void *context, uint64_t epoch, const ull_evaluation *evaluation);
  void *context;
} ull_train_events;

/* Trains to the end of --steps or --epochs, evaluating after each epoch where there is something to
 * evaluate on, and writes the weights into the run folder: that of --run, else a new one under
 * runs/; with --json none unless --run names it. ULL_ERROR_STOPPED after ull_trainer_stop, with
 * weights written; ULL_ERROR_NUMERIC when the loss is not finite. `events` is borrowed for the
 * call; NULL = none. */
ull_status ull_trainer_run(ull_trainer *trainer, const ull_train_events *events);

/* Asks a run to end after the current step. */
void ull_trainer_stop(ull_trainer *trainer);

/* Evaluates on --val-data, the source's evaluation part or --val-split. ULL_ERROR_USAGE where there
 * is none. */
ull_status ull_trainer_evaluate(ull_trainer *trainer, ull_evaluation *out);

/* Writes parameters and states as safetensors, logical layout; atomic. */
ull_status ull_trainer_save_weights(ull_trainer *trainer, const char *path);

/* SHA-256 over name, dtype, shape and bytes of every tensor in name order, in hex. */
const char *ull_trainer_weights_hash(ull_trainer *trainer);

/* Numbers a progress display needs. */
typedef struct ull_trainer_progress {
  uint64_t total_steps, epoch_steps;
  uint64_t used_bytes, planned_bytes; /* of the device tier */
} ull_trainer_progress;
ull_trainer_progress ull_trainer_get_progress(const ull_trainer *trainer);

/* What a person reads behind a run: who held it back, the model or the loader (and which of its
 * stages), what changing that would bring, and samples that could not be used. Empty before a step
 * was made. */
const char *ull_trainer_summary(ull_trainer *trainer);

/* One JSON object on one line: the keys of `train`. */
const char *ull_trainer_result_json(ull_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
