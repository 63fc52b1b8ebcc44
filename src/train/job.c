/* Resolving a configuration, step by step, up to a plan. */
#include "train/job.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/byte_size.h"
#include "base/config_internal.h"
#include "base/error.h"

/* `micro_batch` 0 = as the flags say. */
static ull_status find_batch(ull__job *job, int64_t micro_batch) {
  job->batch_size = ull_config_integer(job->config, "batch-size");
  job->micro_batch = job->batch_size;
  if (job->evaluates_only) return ULL_OK;
  const char *micro = ull_config_text(job->config, "micro-batch");
  bool number = micro && strcmp(micro, "off") != 0 && strcmp(micro, "auto") != 0;
  if (micro_batch > 0)
    job->micro_batch = micro_batch;
  else if (number)
    job->micro_batch = ull_config_integer(job->config, "micro-batch");
  if (job->micro_batch >= job->batch_size) job->micro_batch = job->batch_size;
  return ULL_OK;
}

/* Commands that do not train have no such flag. */
static bool has_smoothing(const ull_config *config) {
  return ull__config_takes(config, "label-smoothing") &&
         ull_config_source_of(config, "label-smoothing") != ULL_CONFIG_DEFAULT;
}

static ull_status open_model(const ull_config *config, int64_t sequence, bool target_shares,
                             ull__model **out) {
  const char *text = ull_config_text(config, "model");
  if (!text) {
    ULL__FAIL(ULL_ERROR_USAGE, "no model given");
    return ull__error_change("name one, for example zoo:resnet18?classes=10&image=64");
  }
  ull__model_options options = {
      .classes = ull_config_has(config, "classes") ? ull_config_integer(config, "classes") : 0,
      .sequence = sequence > 0                    ? sequence
                  : ull_config_has(config, "seq") ? ull_config_integer(config, "seq")
                                                  : 0,
      .label_smoothing = has_smoothing(config) ? ull_config_real(config, "label-smoothing") : 0,
      .target_shares = target_shares,
  };
  return ull__model_open(text, &options, out);
}

ull_status ull__job_open_model(const ull_config *config, ull__model **out) {
  return open_model(config, 0, false, out);
}

ull_status ull__job_open_model_of(const ull_config *config, int64_t sequence, ull__model **out) {
  return open_model(config, sequence, false, out);
}

static ull_status read_augment(ull__job *job) {
  const char *text =
      ull__config_takes(job->config, "augment") ? ull_config_text(job->config, "augment") : "auto";
  job->says_augment = strcmp(text, "auto") != 0;
  return job->says_augment ? ull_augment_parse(text, &job->augment) : ULL_OK;
}

static ull_status open_models(ull__job *job) {
  bool mixes = job->augment.mixup_alpha > 0 || job->augment.cutmix_alpha > 0;
  ULL__TRY(ull__job_open_model(job->config, &job->model));
  if (job->evaluates_only || !mixes) return ULL_OK;
  return open_model(job->config, 0, true, &job->soft_model);
}

const ull__model *ull__job_trained_model(const ull__job *job) {
  return job->soft_model ? job->soft_model : job->model;
}

static void count_steps(ull__job *job) {
  const ull_config *config = job->config;
  job->total_steps = ull_config_has(config, "steps")
                         ? (uint64_t)ull_config_integer(config, "steps")
                         : (uint64_t)ull_config_integer(config, "epochs") * job->epoch_steps;
}

static ull_status read_recipe(ull__job *job) {
  if (job->evaluates_only) return ULL_OK;
  count_steps(job);
  return ull__rate_from_config(job->config, job->total_steps, job->epoch_steps, &job->rate);
}

static ull_status resolve(ull__job *job, int64_t micro_batch) {
  job->evaluates_only = !ull__config_takes(job->config, "opt");
  ULL__TRY(find_batch(job, micro_batch));
  ULL__TRY(read_augment(job));
  ULL__TRY(open_models(job));
  if (!job->evaluates_only) ULL__TRY(ull__recipe_from_config(job->config, &job->recipe));
  ULL__TRY(ull__job_open_data(job));
  ULL__TRY(ull__job_make_variants(job));
  ULL__TRY(read_recipe(job));
  ULL__TRY(ull__job_find_machine(job));
  return ull__job_make_plan(job, job->batch_size, job->micro_batch, &job->plan);
}

static ull_status create_at(const ull_config *config, int64_t micro_batch, ull__job **out) {
  ull__job *job = ull__alloc(1, sizeof *job);
  if (!job) return ULL_ERROR_OUT_OF_MEMORY;
  job->config = config;
  ull_status status = resolve(job, micro_batch);
  if (status != ULL_OK) {
    ull__job_destroy(job);
    return status;
  }
  *out = job;
  return ULL_OK;
}

/* The largest micro-batch that fits, by halving; NULL where none does or the batch may not be
 * split. */
static ull_status split_until_it_fits(const ull__job *whole, ull__job **out) {
  *out = NULL;
  if (whole->evaluates_only) return ULL_OK;
  if (ull__graph_check_splittable(whole->model->graph) != ULL_OK) {
    ull_error_clear();
    return ULL_OK;
  }
  for (int64_t micro = whole->micro_batch / 2; micro > 0; micro /= 2) {
    ULL__TRY(create_at(whole->config, micro, out));
    if ((*out)->plan->fits) return ULL_OK;
    ull__job_destroy(*out);
    *out = NULL;
  }
  return ULL_OK;
}

static bool splits_by_itself(const ull_config *config) {
  const char *micro =
      ull__config_takes(config, "micro-batch") ? ull_config_text(config, "micro-batch") : NULL;
  return micro && strcmp(micro, "auto") == 0;
}

ull_status ull__job_create(const ull_config *config, ull__job **out) {
  ull__job *split = NULL;
  ULL__TRY(create_at(config, 0, out));
  if ((*out)->plan->fits || !splits_by_itself(config)) return ULL_OK;
  ull_status status = split_until_it_fits(*out, &split);
  if (status == ULL_OK && !split) return ULL_OK;
  ull__job_destroy(*out);
  *out = split;
  return status;
}

void ull__job_destroy(ull__job *job) {
  if (!job) return;
  ull__plan_destroy(job->plan);
  ull__provider_destroy(job->provider);
  ull__feed_close(&job->train);
  ull__feed_close(&job->eval);
  ull__job_drop_variants(job);
  ull__graph_destroy(job->update_graph);
  ull__model_destroy(job->model);
  ull__model_destroy(job->soft_model);
  ull__machine_free(&job->machine);
  ull__free(job);
}

/* Halves the batch until it fits: the first that does is the cheapest change beside more memory. */
static int64_t find_batch_that_fits(ull__job *job) {
  for (int64_t batch = job->micro_batch / 2; batch > 0; batch /= 2) {
    ull__plan *plan = NULL;
    if (ull__job_make_plan(job, batch, batch, &plan) != ULL_OK) return 0;
    bool fits = plan->fits;
    ull__plan_destroy(plan);
    if (fits) return batch;
  }
  return 0;
}

ull_status ull__job_refuse(ull__job *job) {
  char change[256], exact[32];
  const char *flag = job->plan->short_tier == ULL__TIER_HOST ? "--host-memory" : "--memory";
  ull__byte_size_exact(job->plan->smallest_bytes[job->plan->short_tier], exact);
  ull__job *split = NULL;
  ull_status status = split_until_it_fits(job, &split);
  int64_t micro = status == ULL_OK && split ? split->micro_batch : 0;
  ull__job_destroy(split);
  int64_t batch = micro > 0 ? 0 : find_batch_that_fits(job);
  if (micro > 0)
    snprintf(change, sizeof change, "%s %s, or --micro-batch %lld (same batch, other rounding)",
             flag, exact, (long long)micro);
  else if (batch > 0)
    snprintf(change, sizeof change, "%s %s, or --batch-size %lld", flag, exact, (long long)batch);
  else
    snprintf(change, sizeof change, "%s %s", flag, exact);
  return ull__plan_refuse(job->plan, job->budget_bytes, change);
}
