/* One step: inputs in, program run, loss out; with micro-batches as many runs as it takes and one
 * update.
 *
 * The only allocations allowed here are none; their number is counted to prove it. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "train/trainer.h"

static void count_allocations(ull_trainer *t, uint64_t before) {
  uint64_t calls = ull__alloc_count().calls - before;
  if (t->step == 1)
    t->first_step_allocations = calls;
  else
    t->allocations += calls;
}

static uint64_t sample_bytes(const ull__model_input *input) {
  uint64_t bytes = ull_dtype_bytes(input->dtype);
  for (uint32_t d = 1; d < input->shape.rank; d++) bytes *= (uint64_t)input->shape.dims[d].constant;
  return bytes;
}

/* Of mixed samples no class is the right one. */
static bool counts_correct(const ull__model *model) {
  return model->classes > 0 && ull__graph_find_output(model->graph, "correct") != ULL__NONE;
}

/* Runs one program on `samples` samples that begin at `first`; adds its loss and right answers.
 * `total` is what all parts weigh together. A part of several that weighs nothing adds nothing. */
static ull_status run_part(ull_trainer *t, const ull__model *model, int program,
                           void *const *arrays, uint64_t first, uint64_t samples, uint64_t total,
                           double *loss, double *correct) {
  uint64_t weighs = ull__model_weigh(model, arrays, first, samples);
  if (weighs == 0 && total > 0) return ULL_OK;
  uint32_t index = (uint32_t)program;
  for (uint32_t i = 0; i < model->input_count; i++) {
    int input = ull__executor_find_input(t->executor, index, model->inputs[i].name);
    if (input < 0) continue;
    const unsigned char *bytes = arrays[i];
    ull__executor_set_input(t->executor, index, (uint32_t)input,
                            bytes + first * sample_bytes(&model->inputs[i]));
  }
  double weight = total > 0 ? (double)weighs / (double)total : 1;
  float part = 0, right = 0;
  t->loss_weight = (float)weight;
  t->rng[ULL__RNG_FIRST_SAMPLE] = (int64_t)first;
  ULL__TRY(ull__executor_run(t->executor, index));
  ULL__TRY(ull__executor_read_output(t->executor, index, "loss", &part, sizeof part));
  *loss += weight * (double)part;
  if (counts_correct(model)) {
    ULL__TRY(ull__executor_read_output(t->executor, index, "correct", &right, sizeof right));
    *correct += (double)right;
  }
  return ULL_OK;
}

/* The program that takes exactly so many samples, or -1. */
static int find_program_of(const ull_trainer *t, uint32_t variant, uint64_t samples) {
  const ull__program_indices *programs = &t->programs[variant];
  if (samples == (uint64_t)t->job->micro_batch) return programs->train;
  for (int i = 0; i < ULL__TAILS; i++)
    if (samples == (uint64_t)t->job->variants[variant].tail_batches[i]) return programs->tails[i];
  return -1;
}

bool ull__trainer_takes(const ull_trainer *t, uint32_t variant, uint64_t samples) {
  uint64_t micro = (uint64_t)t->job->micro_batch, rest = samples % micro;
  bool whole = samples < micro || find_program_of(t, variant, micro) >= 0;
  return whole && (rest == 0 || find_program_of(t, variant, rest) >= 0);
}

static ull_status run_parts(ull_trainer *t, uint32_t variant, void *const *arrays, uint64_t samples,
                            double *loss, double *correct) {
  const ull__model *model = t->job->variants[variant].trained;
  uint64_t micro = (uint64_t)t->job->micro_batch;
  uint64_t total = ull__model_weigh(model, arrays, 0, samples);
  if (t->update >= 0) ULL__TRY(ull__executor_zero_gradients(t->executor));
  for (uint64_t first = 0; first < samples;) {
    uint64_t part = samples - first < micro ? samples - first : micro;
    int program = find_program_of(t, variant, part);
    if (program < 0)
      return ULL__FAIL(ULL_ERROR_INVALID, "%llu samples: no program of the plan takes so many",
                       (unsigned long long)part);
    ULL__TRY(run_part(t, model, program, arrays, first, part, total, loss, correct));
    first += part;
  }
  return t->update < 0 ? ULL_OK : ull__executor_run(t->executor, (uint32_t)t->update);
}

static ull_status check_finite(const ull_trainer *t, double loss) {
  if (isfinite(loss)) return ULL_OK;
  ULL__FAIL(ULL_ERROR_NUMERIC, "the loss of step %llu is %s", (unsigned long long)t->step + 1,
            isnan(loss) ? "not a number" : "infinite");
  ull__error_holder("step %llu", (unsigned long long)t->step + 1);
  return ull__error_change("a lower --lr (now %g), or --warmup-steps", t->job->rate.peak);
}

ull_status ull__trainer_step_on(ull_trainer *t, uint32_t variant, void *const *arrays,
                                uint64_t samples, uint64_t epoch, ull_step_metrics *out) {
  uint64_t began = ull__clock_now_ns(), allocations = ull__alloc_count().calls;
  double loss = 0, correct = 0;
  ull__hyper_fill(&t->job->recipe, &t->job->rate, t->step, t->hyper);
  t->rng[ULL__RNG_SEED] = ull_config_integer(t->job->config, "seed");
  t->rng[ULL__RNG_STEP] = (int64_t)t->step;
  ULL__TRY(run_parts(t, variant, arrays, samples, &loss, &correct));
  ULL__TRY(check_finite(t, loss));
  if (t->step < t->history) t->losses[t->step] = loss;
  t->step++;
  count_allocations(t, allocations);
  bool counted = counts_correct(t->job->variants[variant].trained);
  *out = (ull_step_metrics){.step = t->step,
                            .epoch = epoch,
                            .loss = loss,
                            .accuracy = counted ? correct / (double)samples : -1,
                            .lr = (double)t->hyper[ULL__HYPER_LR],
                            .samples = samples,
                            .seconds = (double)(ull__clock_now_ns() - began) * 1e-9};
  return ULL_OK;
}

static ull_status find_array(const ull__model_input *input, uint64_t samples,
                             const ull_array *arrays, size_t count, void **out) {
  for (size_t a = 0; a < count; a++) {
    if (strcmp(arrays[a].name, input->name) != 0) continue;
    if (arrays[a].dtype != input->dtype)
      return ULL__FAIL(ULL_ERROR_MISMATCH, "input %s is %s, the array is %s", input->name,
                       ull_dtype_name(input->dtype), ull_dtype_name(arrays[a].dtype));
    if (arrays[a].bytes != samples * sample_bytes(input)) {
      ULL__FAIL(ULL_ERROR_MISMATCH,
                "input %s takes %llu bytes for %llu samples, the array has %llu", input->name,
                (unsigned long long)(samples * sample_bytes(input)), (unsigned long long)samples,
                (unsigned long long)arrays[a].bytes);
      return ull__error_bytes(samples * sample_bytes(input), arrays[a].bytes);
    }
    *out = (void *)arrays[a].data;
    return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_INVALID, "no array for the model's input %s", input->name);
  return ull__error_holder("%s", input->name);
}

/* The arrays as the inputs of a variant's model. */
static ull_status order_arrays(const ull_trainer *t, uint32_t variant, uint64_t samples,
                               const ull_array *arrays, size_t count, void **ordered) {
  const ull__model *model = t->job->variants[variant].trained;
  for (uint32_t i = 0; i < model->input_count; i++)
    ULL__TRY(find_array(&model->inputs[i], samples, arrays, count, &ordered[i]));
  return ULL_OK;
}

ull_status ull_trainer_step(ull_trainer *t, const ull_array *arrays, size_t count,
                            ull_step_metrics *out) {
  void *ordered[ULL_DATA_MAX_ARRAYS];
  uint64_t samples = (uint64_t)t->job->batch_size;
  if (!t->executor)
    return ULL__FAIL(ULL_ERROR_INVALID, "ull_trainer_start comes before ull_trainer_step");
  if (t->job->evaluates_only)
    return ULL__FAIL(ULL_ERROR_INVALID, "a trainer made for `eval` does not train");
  const ull_error before = *ull_error_last();
  uint32_t variant = 0;
  ull_status status = order_arrays(t, variant, samples, arrays, count, ordered);
  while (status == ULL_ERROR_MISMATCH && ++variant < t->job->variant_count)
    status = order_arrays(t, variant, samples, arrays, count, ordered);
  ULL__TRY(ull__error_unless(status, &before));
  return ull__trainer_step_on(t, variant, ordered, samples, t->step / t->job->epoch_steps + 1, out);
}
