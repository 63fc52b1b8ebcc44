/* The inside of a trainer. */
#ifndef ULL_TRAIN_TRAINER_H
#define ULL_TRAIN_TRAINER_H

#include <stdatomic.h>

#include "base/json.h"
#include "run/executor.h"
#include "train/job.h"
#include "train/run_folder.h"
#include "ullage/train.h"

/* Index of a variant's programs in the family, or -1. */
typedef struct ull__program_indices {
  int train, tails[ULL__TAILS], eval, eval_tail;
} ull__program_indices;

enum { ULL__MAIN_PROGRAM = 0 }; /* of a trainer that trains: the step that reports speak of */

struct ull_trainer {
  ull__job *job;
  ull__device *device;
  ull__executor *executor;
  ull__program_indices programs[ULL__MAX_VARIANTS]; /* of job->variants */
  int update;                                       /* index of that program, or -1 */
  ull_loader *train_loader, *eval_loader;
  ull__run_folder folder;

  /* inputs that the trainer itself fills */
  float hyper[ULL__HYPER_COUNT];
  float loss_weight;
  int64_t rng[ULL__RNG_COUNT];

  uint64_t step;  /* finished */
  uint64_t epoch; /* under way, from 1; 0 = none */
  atomic_bool stop;

  /* history, as long as the run */
  double *losses, *step_seconds;
  uint64_t history;
  uint64_t began_ns; /* when the trainer was created */
  double wait_seconds, total_seconds;
  uint64_t samples;
  uint64_t first_step_allocations, allocations; /* calls within steps after the first */
  char weights_path[1024];
  char hash[65];
  double accuracy; /* of the last evaluation; negative = none */
  bool finished;

  char *texts[6]; /* borrowed by the caller, by kind */
};

enum { ULL__TEXT_PLAN, ULL__TEXT_HEADER, ULL__TEXT_SHOW, ULL__TEXT_RESULT, ULL__TEXT_SUMMARY };

/* Trains on `samples` samples whose arrays are the inputs of a variant's model, in their order. */
ull_status ull__trainer_step_on(ull_trainer *trainer, uint32_t variant, void *const *arrays,
                                uint64_t samples, uint64_t epoch, ull_step_metrics *out);

/* Whether the plan has programs for a batch of so many samples. */
bool ull__trainer_takes(const ull_trainer *trainer, uint32_t variant, uint64_t samples);

/* The variant of a batch: that of its length. */
ull_status ull__trainer_find_variant(const ull_trainer *trainer, const ull_batch *batch,
                                     uint32_t *out);

/* The folder of --run, else a new one under runs/. */
ull_status ull__trainer_open_folder(ull_trainer *trainer);

/* Every parameter and state: random numbers, then --init. */
ull_status ull__trainer_fill_weights(ull_trainer *trainer);

ull_status ull__trainer_hash(ull_trainer *trainer, char hex[65]);

/* Puts `library_calls`: launches, and calls of the heap in them, by implementation of a library's;
 * empty where nothing was watched. */
ull_status ull__report_libraries(const ull__family *family, json_t *object);

#endif
