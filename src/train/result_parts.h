/* Parts of the JSON of plan and train. */
#ifndef ULL_TRAIN_RESULT_PARTS_H
#define ULL_TRAIN_RESULT_PARTS_H

#include "base/json.h"
#include "train/trainer.h"

/* {"parameter": {"device": bytes, ...}, ...}; NULL without memory. */
json_t *ull__json_of_tags(const uint64_t bytes[ULL__TAG_COUNT][ULL__TIER_COUNT]);

/* Adds "buckets" where samples have several lengths: of each its samples and its programs, with the
 * bytes planned of each tag (`tags`) and, of those that have run, counted (`per_tag`). */
ull_status ull__put_buckets(const ull_trainer *t, json_t *object);

#endif
