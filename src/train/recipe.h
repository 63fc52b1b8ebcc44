/* The recipe: optimizer, learning rate over time, and the step's scalars, from a configuration. */
#ifndef ULL_TRAIN_RECIPE_H
#define ULL_TRAIN_RECIPE_H

#include "graph/graph.h"
#include "graph/hyper.h"
#include "ullage/config.h"

typedef enum ull__schedule_kind {
  ULL__RATE_CONSTANT,
  ULL__RATE_STEP,
  ULL__RATE_COSINE,
  ULL__RATE_LINEAR,
  ULL__RATE_ONE_CYCLE,
} ull__schedule_kind;

typedef struct ull__rate_schedule {
  ull__schedule_kind kind;
  double peak; /* --lr */
  uint64_t warmup_steps;
  uint64_t total_steps;
  uint64_t epoch_steps; /* STEP: divides by 10 after each third of the epochs */
} ull__rate_schedule;

ull_status ull__recipe_from_config(const ull_config *config, ull__recipe *out);
ull_status ull__rate_from_config(const ull_config *config, uint64_t total_steps,
                                 uint64_t epoch_steps, ull__rate_schedule *out);

/* Learning rate of step `step`, counted from 0. one-cycle: Smith's 1cycle as PyTorch's OneCycleLR
 * has it: from peak / 25 by a cosine to peak over the first 30 % of the steps, then by a cosine to
 * peak / 250000. */
double ull__rate_at(const ull__rate_schedule *schedule, uint64_t step);

/* The scalars of step `step` (from 0), rounded from double. */
void ull__hyper_fill(const ull__recipe *recipe, const ull__rate_schedule *schedule, uint64_t step,
                     float hyper[ULL__HYPER_COUNT]);

/* "sgd momentum 0.9, lr 0.05 one-cycle, weight decay 0.0005 (not on biases and norms)". Returns
 * `text`. */
char *ull__recipe_text(const ull__recipe *recipe, const ull__rate_schedule *schedule, char *text,
                       size_t size);

#endif
