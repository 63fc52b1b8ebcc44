/* A job: everything a configuration resolves to before any arena exists. `plan`, `train` and `eval`
 * all begin here, so that they agree on every byte.
 *
 *     config ─▶ model ─▶ data and bindings ─▶ graphs (train, eval) ─▶ machine and budgets ─▶ plan
 */
#ifndef ULL_TRAIN_JOB_H
#define ULL_TRAIN_JOB_H

#include "model/model.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "train/recipe.h"
#include "train/variants.h"
#include "ullage/config.h"
#include "ullage/data.h"

/* One stream of batches: a source and how it feeds the model. */
typedef struct ull__feed {
  ull_source *source;
  ull_binding bindings[ULL_DATA_MAX_ARRAYS];
  size_t binding_count;
  ull_loader_options options; /* without memory: the trainer gives it */
  ull_loader_bound bound;
} ull__feed;

typedef struct ull__job {
  const ull_config *config; /* borrowed until destroy */
  bool evaluates_only;      /* of a command that does not train: no train graph, source or recipe */
  ull_augment augment;      /* of --augment; all zeros where nothing is said */
  bool says_augment;
  ull__model *model;
  ull__model *soft_model; /* what trains where samples are mixed: the same parameters, with shares
                             of classes as `target`; else NULL */
  ull__variant variants[ULL__MAX_VARIANTS]; /* the longest first */
  uint32_t variant_count;
  ull__graph *update_graph; /* the optimizer alone, where micro-batches accumulate; else NULL */
  ull__recipe recipe;
  ull__rate_schedule rate;
  int64_t batch_size, micro_batch;
  uint64_t total_steps, epoch_steps;
  bool has_both_feeds;
  ull__feed train, eval; /* eval.source is NULL where there is nothing to evaluate on */
  ull__machine machine;
  uint32_t threads;
  const char *device_text;
  bool shared;
  ull__provider *provider;
  uint64_t budget_bytes[ULL__TIER_COUNT];
  char budget_text[256]; /* where the budget came from: "12.0 GiB total, 10.9 free, budget 9.9 GiB"
                          */
  ull__plan *plan;
} ull__job;

/* Resolves everything and plans. A plan that does not fit is no failure: see job->plan->fits. */
ull_status ull__job_create(const ull_config *config, ull__job **out);
void ull__job_destroy(ull__job *job); /* NULL is allowed */

/* The refusal of a job whose plan does not fit, with the cheapest change worked out. Returns
 * ULL_ERROR_DOES_NOT_FIT. */
ull_status ull__job_refuse(ull__job *job);

/* ULL_ERROR_DOES_NOT_FIT where a limit on this process' addresses is below what the plan and the
 * libraries take: they crash when they run out. */
ull_status ull__job_check_addresses(const ull__job *job); /* train/budget.c */

/* ---- steps of ull__job_create, one file each ---- */

ull_status ull__job_open_model(const ull_config *config, ull__model **out);
/* For sequences of that many tokens; 0 = as --seq says. */
ull_status ull__job_open_model_of(const ull_config *config, int64_t sequence, ull__model **out);
/* What trains; evaluation always takes job->model. */
const ull__model *ull__job_trained_model(const ull__job *job);
ull_status ull__job_make_variants(ull__job *job); /* train/variants.c */
void ull__job_drop_variants(ull__job *job);
/* The variant's graphs, of its model; the job's update graph where there is none yet. */
ull_status ull__job_build_graphs(ull__job *job, ull__variant *variant); /* train/graphs.c */
ull_status ull__job_open_data(ull__job *job);                           /* train/feed.c */
void ull__feed_close(ull__feed *feed);
/* Whether a batch may be filled up with samples that count for nothing: there is a target that can
 * say so. */
bool ull__model_can_pad(const ull__model *model);
/* What a run of `samples` samples from `first` on weighs in a mean: its samples, or where targets
 * can be left out, the targets that are not. `arrays` are the model's inputs. */
uint64_t ull__model_weigh(const ull__model *model, void *const *arrays, uint64_t first,
                          uint64_t samples);
ull_status ull__job_find_machine(ull__job *job); /* train/budget.c */
ull_status ull__job_make_plan(ull__job *job, int64_t batch_size, int64_t micro_batch,
                              ull__plan **out); /* train/programs.c */

/* ---- programs: "train", or of a length "train@64" (train/programs.c) ---- */

enum { ULL__PROGRAM_NAME = 32 };

/* Writes a program's name; `what` as plan.h has it. Returns `name`. */
const char *ull__program_name(const char *what, int64_t length, char name[ULL__PROGRAM_NAME]);
extern const char *const ull__tail_names[ULL__TAILS];

#endif
