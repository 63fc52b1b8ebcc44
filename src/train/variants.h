/* What a job runs for samples of one shape. Most jobs have one variant; where samples have several
 * lengths there is one for each, the same model made for that length: the same parameters, another
 * graph, programs of its own over the same persistent region and arena. */
#ifndef ULL_TRAIN_VARIANTS_H
#define ULL_TRAIN_VARIANTS_H

#include "model/model.h"
#include "ullage/data.h"

enum { ULL__TAILS = 2, ULL__MAX_VARIANTS = 2 * ULL_DATA_MAX_BUCKETS };

typedef struct ull__variant {
  int64_t length;          /* tokens of its samples; 0 = samples have the model's shape */
  const ull__model *model; /* with inputs of that shape */
  /* What trains: `model`, or where samples are mixed the same with shares of classes as target. */
  const ull__model *trained;
  ull__model *own; /* `model`, where it is not the job's */
  ull__graph
      *train_graph;       /* with backward and optimizer, fused; symbolic; NULL = it never trains */
  ull__graph *eval_graph; /* NULL = it never evaluates */
  uint64_t train_samples, eval_samples; /* of the sources; 0 = it does not train, or evaluate */
  /* Sizes of runs smaller than a micro-batch: what a whole batch leaves, and what the last batch of
     an epoch leaves; 0 = none, and the second one also where it equals the first. */
  int64_t tail_batches[ULL__TAILS];
  int64_t eval_tail_batch; /* the same of evaluation, where padding is not possible; 0 = none */
} ull__variant;

#endif
