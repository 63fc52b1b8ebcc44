/* Which variants a job has follows from its sources, once they are open. The longest is the first:
 * its programs decide how parameters are stored, and what is said of the plan is said of it. */
#include "train/variants.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "train/job.h"

/* ---- which lengths ---- */

static ull__variant *find(ull__variant *variants, uint32_t count, int64_t length) {
  for (uint32_t v = 0; v < count; v++)
    if (variants[v].length == length) return &variants[v];
  return NULL;
}

/* Counts a source's samples by length; variants stay in falling order. */
static void add_samples(ull__job *job, int64_t length, uint64_t samples, bool trains) {
  ull__variant *variant = find(job->variants, job->variant_count, length);
  if (variant == NULL) {
    uint32_t at = job->variant_count++;
    for (; at > 0 && job->variants[at - 1].length < length; at--)
      job->variants[at] = job->variants[at - 1];
    variant = &job->variants[at];
    *variant = (ull__variant){.length = length};
  }
  *(trains ? &variant->train_samples : &variant->eval_samples) += samples;
}

static void add_source(ull__job *job, const ull_source *source, bool trains) {
  size_t buckets = source != NULL ? ull_source_bucket_count(source) : 0;
  for (size_t b = 0; b < buckets; b++) {
    const ull_bucket *bucket = ull_source_bucket(source, b);
    add_samples(job, bucket->length, bucket->samples, trains);
  }
  if (source != NULL && buckets == 0) add_samples(job, 0, ull_source_sample_count(source), trains);
}

/* ---- the same model for another length ---- */

static ull_status refuse_length(const ull__job *job, const ull__variant *variant, const char *why) {
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s cannot be made for sequences of %" PRId64 ": %s",
            job->model->name, variant->length, why);
  ull__error_holder("--buckets");
  return ull__error_change("leave out --buckets: every sequence has the model's length");
}

static bool is_kept(const ull__value *value) {
  return value->role == ULL__ROLE_PARAMETER || value->role == ULL__ROLE_STATE;
}

/* Whether everything that lives from step to step is the same in both. */
static bool keeps_the_same(const ull__graph *one, const ull__graph *other) {
  for (ull__value_id id = 0; id < ull__graph_value_count(one); id++) {
    const ull__value *value = ull__graph_value(one, id);
    if (!is_kept(value)) continue;
    ull__value_id found = ull__graph_find_value(other, value->name);
    if (found == ULL__NONE) return false;
    const ull__value *there = ull__graph_value(other, found);
    if (there->role != value->role || there->dtype != value->dtype) return false;
    if (!ull__shape_equal(&there->shape, &value->shape)) return false;
  }
  return true;
}

static ull_status check_model(const ull__job *job, const ull__variant *variant) {
  const ull__model *model = variant->model;
  for (uint32_t i = 0; i < model->input_count; i++) {
    const ull__shape *shape = &model->inputs[i].shape;
    bool fits = shape->rank == 2 && shape->dims[1].constant == variant->length;
    if (!fits) return refuse_length(job, variant, "its inputs do not follow");
  }
  bool same = keeps_the_same(job->model->graph, model->graph) &&
              keeps_the_same(model->graph, job->model->graph);
  return same ? ULL_OK : refuse_length(job, variant, "its parameters would be others");
}

static ull_status open_model(const ull__job *job, ull__variant *variant) {
  variant->model = job->model;
  variant->trained = ull__job_trained_model(job);
  if (variant->length == 0) return ULL_OK;
  ULL__TRY(ull__job_open_model_of(job->config, variant->length, &variant->own));
  variant->model = variant->trained = variant->own;
  return check_model(job, variant);
}

/* ---- runs that are smaller ---- */

static void find_tails(const ull__job *job, ull__variant *variant) {
  if (variant->train_samples > 0) {
    int64_t samples = (int64_t)variant->train_samples;
    bool has_whole = variant->length == 0 || samples >= job->batch_size;
    if (has_whole) variant->tail_batches[0] = job->batch_size % job->micro_batch;
    int64_t last = samples % job->batch_size % job->micro_batch;
    if (last != variant->tail_batches[0]) variant->tail_batches[1] = last;
  }
  if (!ull__model_can_pad(job->model))
    variant->eval_tail_batch = (int64_t)variant->eval_samples % job->micro_batch;
}

static uint64_t count_steps(const ull__job *job) {
  uint64_t steps = 0, batch = (uint64_t)job->batch_size;
  for (uint32_t v = 0; v < job->variant_count; v++)
    steps += (job->variants[v].train_samples + batch - 1) / batch;
  return steps;
}

/* ---- all of it ---- */

ull_status ull__job_make_variants(ull__job *job) {
  add_source(job, job->train.source, true);
  add_source(job, job->eval.source, false);
  for (uint32_t v = 0; v < job->variant_count; v++) {
    ull__variant *variant = &job->variants[v];
    ull_status status = open_model(job, variant);
    if (status == ULL_OK) status = ull__job_build_graphs(job, variant);
    if (status != ULL_OK && variant->length > 0)
      ull__error_context("sequences of %" PRId64, variant->length);
    ULL__TRY(status);
    find_tails(job, variant);
  }
  job->epoch_steps = count_steps(job);
  return ULL_OK;
}

void ull__job_drop_variants(ull__job *job) {
  for (uint32_t v = 0; v < job->variant_count; v++) {
    ull__variant *variant = &job->variants[v];
    ull__graph_destroy(variant->train_graph);
    ull__graph_destroy(variant->eval_graph);
    ull__model_destroy(variant->own);
  }
  job->variant_count = 0;
}
