/* A trainer's life: created (planned, nothing committed), started (everything committed), stepped,
 * destroyed. */
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "memory/packing.h"

#define LONGEST_HISTORY 2000000u

ull_status ull_trainer_create(const ull_config *config, ull_trainer **out) {
  ull_trainer *t = ull__alloc(1, sizeof *t);
  if (!t) return ULL_ERROR_OUT_OF_MEMORY;
  t->folder.lock = -1;
  t->accuracy = -1;
  t->began_ns = ull__clock_now_ns();
  const ull_error before = *ull_error_last();
  ull_status status = ull__error_unless(ull__job_create(config, &t->job), &before);
  if (status != ULL_OK) {
    ull_trainer_destroy(t);
    return status;
  }
  *out = t;
  return ULL_OK;
}

void ull_trainer_destroy(ull_trainer *t) {
  if (!t) return;
  ull_loader_destroy(t->train_loader);
  ull_loader_destroy(t->eval_loader);
  ull__run_folder_close(&t->folder);
  ull__executor_destroy(t->executor);
  ull__device_close(t->device);
  ull__job_destroy(t->job);
  ull__free(t->losses);
  ull__free(t->step_seconds);
  for (size_t i = 0; i < sizeof t->texts / sizeof *t->texts; i++) ull__free(t->texts[i]);
  ull__free(t);
}

bool ull_trainer_fits(const ull_trainer *t) {
  return t->job->plan->fits;
}

ull_status ull_trainer_refuse(ull_trainer *t) {
  return ull__job_refuse(t->job);
}

void ull_trainer_stop(ull_trainer *t) {
  atomic_store(&t->stop, true);
}

/* ---- starting ---- */

static int find_program(const ull__family *family, const char *name) {
  const ull__program *program = ull__family_find(family, name);
  return program ? (int)(program - family->programs) : -1;
}

static int find_of_length(const ull__family *family, const char *what, int64_t length) {
  char name[ULL__PROGRAM_NAME];
  return find_program(family, ull__program_name(what, length, name));
}

static void find_programs(ull_trainer *t) {
  const ull__family *family = t->job->plan->family;
  t->update = find_program(family, "update");
  for (uint32_t v = 0; v < t->job->variant_count; v++) {
    int64_t length = t->job->variants[v].length;
    ull__program_indices *programs = &t->programs[v];
    programs->train = find_of_length(family, "train", length);
    for (int i = 0; i < ULL__TAILS; i++)
      programs->tails[i] = find_of_length(family, ull__tail_names[i], length);
    programs->eval = find_of_length(family, "eval", length);
    programs->eval_tail = find_of_length(family, "eval_tail", length);
  }
}

ull_status ull__trainer_find_variant(const ull_trainer *t, const ull_batch *batch, uint32_t *out) {
  for (*out = 0; *out < t->job->variant_count; ++*out)
    if (t->job->variants[*out].length == batch->length) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INTERNAL, "no program of the plan takes sequences of %lld",
                   (long long)batch->length);
}

static void set_input(ull_trainer *t, uint32_t program, const char *name, const void *bytes) {
  int input = ull__executor_find_input(t->executor, program, name);
  if (input >= 0) ull__executor_set_input(t->executor, program, (uint32_t)input, bytes);
}

static void set_own_inputs(ull_trainer *t) {
  for (uint32_t p = 0; p < t->job->plan->family->program_count; p++) {
    set_input(t, p, "hyper", t->hyper);
    set_input(t, p, "loss_weight", &t->loss_weight);
    set_input(t, p, "rng", t->rng);
  }
}

static ull_status open_loader(const ull__feed *feed, unsigned char *memory, ull_loader **out) {
  if (!feed->source) return ULL_OK;
  ull_loader_options options = feed->options;
  options.bindings = feed->bindings;
  options.memory = memory;
  options.memory_bytes = feed->bound.total_bytes;
  options.ordinary_memory = true;
  return ull_loader_create(&options, out);
}

static ull_status open_loaders(ull_trainer *t) {
  uint64_t bytes = 0,
           train = ull__align_up(t->job->train.bound.total_bytes, ULL__PACKING_ALIGNMENT);
  unsigned char *memory = ull__executor_slab(t->executor, ULL__SLAB_LOADER, &bytes);
  ULL__TRY(open_loader(&t->job->train, memory, &t->train_loader));
  return open_loader(&t->job->eval, memory + train, &t->eval_loader);
}

static ull_status open_history(ull_trainer *t) {
  t->history = t->job->total_steps < LONGEST_HISTORY ? t->job->total_steps : LONGEST_HISTORY;
  if (t->history == 0) return ULL_OK;
  t->losses = ull__alloc(t->history, sizeof *t->losses);
  t->step_seconds = ull__alloc(t->history, sizeof *t->step_seconds);
  return t->losses && t->step_seconds ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static ull_status open_device(ull_trainer *t) {
  const ull__family *family = t->job->plan->family;
  ull__device_options device = {.threads = t->job->threads};
  ull__executor_options options = {.record_times = true};
  ULL__TRY(ull__job_check_addresses(t->job));
  ULL__TRY(ull__device_open(t->job->device_text, &device, &t->device));
  ULL__TRY(ull__executor_create(family, t->job->provider, t->device, &options, &t->executor));
  find_programs(t);
  set_own_inputs(t);
  return ULL_OK;
}

static size_t add_numbers(const double *numbers, int count, char *text, size_t used, size_t size) {
  for (int c = 0; c < count && used < size; c++)
    used += (size_t)snprintf(text + used, size - used, "%s%.17g", c > 0 ? "," : "", numbers[c]);
  return used;
}

/* MEAN:STD that `auto` came to, exactly; NULL where it came to nothing, or to more than fits. */
static const char *write_normalization(const ull__feed *feed, char *text, size_t size) {
  for (size_t b = 0; b < feed->binding_count; b++) {
    const ull_normalize *n = &feed->bindings[b].normalize;
    if (!n->active || !n->automatic) continue;
    size_t used = add_numbers(n->mean, n->channels, text, 0, size);
    if (used < size) used += (size_t)snprintf(text + used, size - used, ":");
    if (used < size) used = add_numbers(n->deviation, n->channels, text, used, size);
    return used < size ? text : NULL;
  }
  return NULL;
}

ull_status ull__trainer_open_folder(ull_trainer *t) {
  const ull_config *config = t->job->config;
  char text[256];
  const char *normalize = write_normalization(&t->job->train, text, sizeof text);
  return ull__run_folder_open(ull_config_text(config, "run"), t->job->model->name,
                              (ull_config *)config, normalize, &t->folder);
}

ull_status ull_trainer_start(ull_trainer *t) {
  if (!t->job->plan->fits) return ull_trainer_refuse(t);
  if (t->executor) return ULL__FAIL(ULL_ERROR_INVALID, "the trainer was started before");
  ULL__TRY(open_history(t));
  bool named = !t->job->evaluates_only && ull_config_has(t->job->config, "run");
  if (named) ULL__TRY(ull__trainer_open_folder(t));
  ULL__TRY(open_device(t));
  ULL__TRY(ull__trainer_fill_weights(t));
  return open_loaders(t);
}
