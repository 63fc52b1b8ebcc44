/* The two symbolic graphs of a variant: forward, backward and optimizer in one; and evaluation.
 * Where samples are mixed they are of two models, whose parameters have the same names. */
#include "base/error.h"
#include "train/job.h"

/* Replaces *graph by the result of a stage. */
static ull_status apply(ull_status (*stage)(const ull__graph *, ull__graph **),
                        ull__graph **graph) {
  ull__graph *next = NULL;
  ULL__TRY(stage(*graph, &next));
  ull__graph_destroy(*graph);
  *graph = next;
  return ULL_OK;
}

static ull_status add_steps(ull__job *job, ull__variant *variant) {
  const ull__graph *forward = variant->trained->graph;
  ULL__TRY(ull__graph_differentiate(forward, &variant->train_graph));
  if (job->micro_batch == job->batch_size) {
    ull__graph *next = NULL;
    ULL__TRY(ull__graph_add_optimizer(variant->train_graph, &job->recipe, &next));
    ull__graph_destroy(variant->train_graph);
    variant->train_graph = next;
    return ULL_OK;
  }
  ULL__TRY(ull__graph_check_splittable(forward));
  ULL__TRY(apply(ull__graph_add_accumulation, &variant->train_graph));
  if (job->update_graph) return ULL_OK;
  return ull__graph_make_update(variant->train_graph, &job->recipe, &job->update_graph);
}

static ull_status build_training(ull__job *job, ull__variant *variant, bool fuse) {
  ULL__TRY(add_steps(job, variant));
  ULL__TRY(apply(ull__graph_fold, &variant->train_graph));
  return fuse ? apply(ull__graph_fuse, &variant->train_graph) : ULL_OK;
}

static ull_status build_evaluation(ull__variant *variant, bool fuse) {
  ULL__TRY(ull__graph_derive_evaluation(variant->model->graph, &variant->eval_graph));
  ULL__TRY(apply(ull__graph_fold, &variant->eval_graph));
  return fuse ? apply(ull__graph_fuse, &variant->eval_graph) : ULL_OK;
}

/* Where there is nothing to evaluate on, the model's own shape is evaluated all the same: the
 * program is there for those who feed it themselves. */
static bool evaluates(const ull__job *job, const ull__variant *variant) {
  return variant->eval_samples > 0 || (variant->length == 0 && job->eval.source == NULL);
}

ull_status ull__job_build_graphs(ull__job *job, ull__variant *variant) {
  const char *fusion = ull_config_text(job->config, "fusion");
  bool fuse = !fusion || fusion[0] != 'o' || fusion[1] != 'f';
  if (variant->train_samples > 0) ULL__TRY(build_training(job, variant, fuse));
  return evaluates(job, variant) ? build_evaluation(variant, fuse) : ULL_OK;
}
