/* The two symbolic graphs of a job: forward, backward and optimizer in one; and evaluation. */
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

static ull_status build_training(ull__job *job, bool fuse) {
  ULL__TRY(ull__graph_differentiate(job->model->graph, &job->train_graph));
  if (job->micro_batch == job->batch_size) {
    ull__graph *next = NULL;
    ULL__TRY(ull__graph_add_optimizer(job->train_graph, &job->recipe, &next));
    ull__graph_destroy(job->train_graph);
    job->train_graph = next;
  } else {
    ULL__TRY(ull__graph_check_splittable(job->model->graph));
    ULL__TRY(apply(ull__graph_add_accumulation, &job->train_graph));
    ULL__TRY(ull__graph_make_update(job->train_graph, &job->recipe, &job->update_graph));
  }
  ULL__TRY(apply(ull__graph_fold, &job->train_graph));
  return fuse ? apply(ull__graph_fuse, &job->train_graph) : ULL_OK;
}

static ull_status build_evaluation(ull__job *job, bool fuse) {
  ULL__TRY(ull__graph_derive_evaluation(job->model->graph, &job->eval_graph));
  ULL__TRY(apply(ull__graph_fold, &job->eval_graph));
  return fuse ? apply(ull__graph_fuse, &job->eval_graph) : ULL_OK;
}

ull_status ull__job_build_graphs(ull__job *job) {
  const char *fusion = ull_config_text(job->config, "fusion");
  bool fuse = !fusion || fusion[0] != 'o' || fusion[1] != 'f';
  if (!job->evaluates_only) ULL__TRY(build_training(job, fuse));
  return build_evaluation(job, fuse);
}
