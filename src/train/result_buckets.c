/* Programs by length, for scripts: that each takes what was planned for it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/result_parts.h"

static ull_status put_measured(const ull_trainer *t, uint32_t index, json_t *object) {
  ull__measurement m;
  uint64_t counted = 0;
  if (!t->executor) return ULL_OK;
  ull__executor_measure(t->executor, index, &m);
  for (int tag = 0; tag < ULL__TAG_COUNT; tag++)
    for (int tier = 0; tier < ULL__TIER_COUNT; tier++) counted += m.tag_peaks[tag][tier];
  return counted == 0 ? ULL_OK : ull__json_put(object, "per_tag", ull__json_of_tags(m.tag_peaks));
}

static ull_status add_program(const ull_trainer *t, uint32_t index, json_t *list) {
  const ull__program *program = &t->job->plan->family->programs[index];
  json_t *object = json_object();
  ULL__TRY(ull__json_append(list, object));
  ULL__TRY(ull__json_put(object, "name", json_string(program->name)));
  ULL__TRY(ull__json_put(object, "batch", json_integer((json_int_t)program->batch)));
  ULL__TRY(ull__json_put(object, "arena_bytes", json_integer((json_int_t)program->arena_bytes)));
  ULL__TRY(ull__json_put(object, "tags", ull__json_of_tags(program->tag_peaks)));
  return put_measured(t, index, object);
}

static ull_status add_bucket(const ull_trainer *t, const ull__variant *variant, json_t *list) {
  const ull__family *family = t->job->plan->family;
  json_t *object = json_object(), *programs;
  char end[ULL__PROGRAM_NAME];
  ull__program_name("", variant->length, end);
  ULL__TRY(ull__json_append(list, object));
  ULL__TRY(ull__json_put(object, "length", json_integer((json_int_t)variant->length)));
  ULL__TRY(ull__json_put(object, "samples", json_integer((json_int_t)variant->train_samples)));
  ULL__TRY(ull__json_put(object, "eval_samples", json_integer((json_int_t)variant->eval_samples)));
  programs = json_array();
  ULL__TRY(ull__json_put(object, "programs", programs));
  for (uint32_t p = 0; family && p < family->program_count; p++) {
    const char *at = strchr(family->programs[p].name, '@');
    if (at && strcmp(at, end) == 0) ULL__TRY(add_program(t, p, programs));
  }
  return ULL_OK;
}

ull_status ull__put_buckets(const ull_trainer *t, json_t *object) {
  const ull__job *job = t->job;
  json_t *list = NULL;
  for (uint32_t v = 0; v < job->variant_count; v++) {
    if (job->variants[v].length == 0) continue;
    if (!list) {
      list = json_array();
      ULL__TRY(ull__json_put(object, "buckets", list));
    }
    ULL__TRY(add_bucket(t, &job->variants[v], list));
  }
  return ULL_OK;
}
