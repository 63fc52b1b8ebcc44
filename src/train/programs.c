/* The programs of a job's plan: for each variant a step, its smaller runs, and evaluation; and the
 * update after micro-batches. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "memory/packing.h"
#include "train/job.h"

const char *const ull__tail_names[ULL__TAILS] = {"tail", "last"};

const char *ull__program_name(const char *what, int64_t length, char name[ULL__PROGRAM_NAME]) {
  snprintf(name, ULL__PROGRAM_NAME, length > 0 ? "%s@%" PRId64 : "%s", what, length);
  return name;
}

/* Rings of batch slots, one behind the other; a source that is not there takes nothing. */
static uint64_t loader_bytes(const ull__job *job) {
  uint64_t bytes = ull__align_up(job->train.bound.total_bytes, ULL__PACKING_ALIGNMENT);
  return bytes + (job->eval.source ? job->eval.bound.total_bytes : 0);
}

/* What sources hold decompressed belongs to the process, not to the ring. */
static uint64_t source_bytes(const ull__job *job) {
  return job->train.bound.source_bytes + (job->eval.source ? job->eval.bound.source_bytes : 0);
}

/* A request and the names that it borrows. */
typedef struct draft {
  ull__plan_request request;
  char names[ULL__MAX_PROGRAMS][ULL__PROGRAM_NAME];
} draft;

static ull_status add_program(draft *d, const char *what, int64_t length, const ull__graph *graph,
                              int64_t batch) {
  if (!graph || batch == 0) return ULL_OK;
  uint32_t at = d->request.program_count;
  if (at == ULL__MAX_PROGRAMS) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "more than %d programs: too many lengths of sequences",
              ULL__MAX_PROGRAMS);
    ull__error_holder("--buckets");
    return ull__error_change("fewer --buckets, or the same ones for --data and --val-data");
  }
  ull__program_name(what, length, d->names[at]);
  d->request.programs[at] = (ull__program_request){d->names[at], graph, batch};
  d->request.program_count++;
  return ULL_OK;
}

/* Samples of the largest run; 0 where a length has too few for a whole one, and smaller runs are
 * all. */
static int64_t whole_run(const ull__variant *variant, int64_t micro_batch, bool has_tails) {
  bool few = variant->length > 0 && variant->train_samples < (uint64_t)micro_batch;
  if (!few) return micro_batch;
  return has_tails ? 0 : (int64_t)variant->train_samples;
}

static ull_status add_training(draft *d, const ull__variant *variant, int64_t micro_batch,
                               bool has_tails) {
  int64_t length = variant->length;
  ULL__TRY(add_program(d, "train", length, variant->train_graph,
                       whole_run(variant, micro_batch, has_tails)));
  for (int i = 0; i < ULL__TAILS && has_tails; i++)
    ULL__TRY(
        add_program(d, ull__tail_names[i], length, variant->train_graph, variant->tail_batches[i]));
  return ULL_OK;
}

static ull_status add_evaluation(draft *d, const ull__variant *variant, int64_t micro_batch,
                                 bool has_tails) {
  ULL__TRY(add_program(d, "eval", variant->length, variant->eval_graph, micro_batch));
  return add_program(d, "eval_tail", variant->length, variant->eval_graph,
                     has_tails ? variant->eval_tail_batch : 0);
}

static ull_status add_programs(const ull__job *job, draft *d, int64_t micro_batch, bool has_tails) {
  for (uint32_t v = 0; v < job->variant_count; v++)
    ULL__TRY(add_training(d, &job->variants[v], micro_batch, has_tails));
  ULL__TRY(add_program(d, "update", 0, job->update_graph, 1));
  for (uint32_t v = 0; v < job->variant_count; v++)
    ULL__TRY(add_evaluation(d, &job->variants[v], micro_batch, has_tails));
  return ULL_OK;
}

ull_status ull__job_make_plan(ull__job *job, int64_t batch_size, int64_t micro_batch,
                              ull__plan **out) {
  draft d = {.request = {.provider = job->provider,
                         .shared = job->shared,
                         .loader_bytes = loader_bytes(job),
                         .process_bytes = job->machine.process_bytes + source_bytes(job),
                         .effort = (uint32_t)ull_config_integer(job->config, "effort")}};
  memcpy(d.request.budget_bytes, job->budget_bytes, sizeof d.request.budget_bytes);
  ULL__TRY(add_programs(job, &d, micro_batch, batch_size == job->batch_size));
  return ull__plan_create(&d.request, out);
}
