/* Parameters and states in and out of the executor, one tensor at a time, in logical order.
 *
 * Between steps the arena is empty, so on a device whose memory the host can touch one plain tensor
 * goes through there and takes no further memory. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/load_weights.h"
#include "model/safetensors/safetensors.h"
#include "model/weights_hash.h"
#include "train/trainer.h"

static bool is_weight(const ull__persistent *p) {
  return p->role == ULL__ROLE_PARAMETER || p->role == ULL__ROLE_STATE;
}

/* Host memory for one plain tensor at a time, outside of steps: the arena where the host can touch
 * it. */
static ull_status take_scratch(ull_trainer *t, uint64_t bytes, void **out, bool *owned) {
  uint64_t room = 0;
  void *arena = ull__executor_slab(t->executor, ULL__SLAB_ARENA, &room);
  *owned = !arena || room < bytes;
  *out = *owned ? ull__alloc(bytes, 1) : arena;
  return *out ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

/* Calls `each` with a tensor's plain bytes, after reading them where `read` is set and before
 * writing them back otherwise. */
typedef ull_status (*tensor_visitor)(void *context, const ull__persistent *p, void *plain,
                                     uint64_t bytes);

static ull_status visit_tensor(ull_trainer *t, const ull__persistent *p, bool read,
                               tensor_visitor each, void *context) {
  uint64_t bytes;
  void *plain;
  bool owned;
  ULL__TRY(ull__shape_bytes(&p->shape, p->dtype, &bytes));
  ULL__TRY(take_scratch(t, bytes, &plain, &owned));
  ull_status status = read ? ull__executor_read_value(t->executor, p->name, plain, bytes) : ULL_OK;
  if (status == ULL_OK) status = each(context, p, plain, bytes);
  if (status == ULL_OK && !read)
    status = ull__executor_write_value(t->executor, p->name, plain, bytes);
  if (owned) ull__free(plain);
  return status;
}

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const ull__persistent *const *)a)->name,
                (*(const ull__persistent *const *)b)->name);
}

/* Weights in name order. */
static ull_status list_weights(const ull_trainer *t, const ull__persistent ***out,
                               uint32_t *count) {
  const ull__family *family = t->job->plan->family;
  const ull__persistent **list = ull__alloc(family->persistent_count, sizeof *list);
  if (!list) return ULL_ERROR_OUT_OF_MEMORY;
  *count = 0;
  for (uint32_t i = 0; i < family->persistent_count; i++)
    if (is_weight(&family->persistents[i])) list[(*count)++] = &family->persistents[i];
  qsort(list, *count, sizeof *list, compare_names);
  *out = list;
  return ULL_OK;
}

static ull_status visit_weights(ull_trainer *t, bool read, tensor_visitor each, void *context) {
  const ull__persistent **list = NULL;
  uint32_t count = 0;
  ULL__TRY(list_weights(t, &list, &count));
  ull_status status = ULL_OK;
  for (uint32_t i = 0; i < count && status == ULL_OK; i++)
    status = visit_tensor(t, list[i], read, each, context);
  ull__free(list);
  return status;
}

/* ---- in ---- */

static ull_status initialize_tensor(void *context, const ull__persistent *p, void *plain,
                                    uint64_t bytes) {
  const ull__job *job = context;
  uint64_t seed = (uint64_t)ull_config_integer(job->config, "seed");
  (void)bytes;
  return ull__model_initialize(job->model, p->name, seed, p->dtype, &p->shape, plain);
}

static ull_status write_loaded(void *context, const ull__value *value, const void *bytes,
                               uint64_t size_bytes) {
  const ull_trainer *t = context;
  return ull__executor_write_value(t->executor, value->name, bytes, size_bytes);
}

ull_status ull__trainer_fill_weights(ull_trainer *t) {
  const ull_config *config = t->job->config;
  ULL__TRY(visit_weights(t, false, initialize_tensor, t->job));
  if (!ull_config_has(config, "init")) return ULL_OK;
  bool partial = !t->job->evaluates_only &&
                 ull_config_source_of(config, "partial") != ULL_CONFIG_DEFAULT &&
                 ull_config_flag(config, "partial");
  return ull__model_load_weights(t->job->model, ull_config_text(config, "init"), partial,
                                 write_loaded, t, NULL);
}

/* ---- out ---- */

static ull_status write_tensor(void *context, const ull__persistent *p, void *plain,
                               uint64_t bytes) {
  return ull__safetensors_write(context, p->name, plain, bytes);
}

static ull_status create_file(ull_trainer *t, const char *path, ull__safetensors_writer **out) {
  const ull__persistent **list = NULL;
  uint32_t count = 0;
  ULL__TRY(list_weights(t, &list, &count));
  ull__tensor_plan *tensors = ull__alloc(count, sizeof *tensors);
  ull_status status = tensors ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count && status == ULL_OK; i++)
    tensors[i] = (ull__tensor_plan){list[i]->name, list[i]->dtype, list[i]->shape};
  ull__metadata_pair pairs[] = {{"format", "pt"}, {"model", t->job->model->name}};
  if (status == ULL_OK) status = ull__safetensors_create(path, tensors, count, pairs, 2, out);
  ull__free(tensors);
  ull__free(list);
  return status;
}

ull_status ull_trainer_save_weights(ull_trainer *t, const char *path) {
  ull__safetensors_writer *writer = NULL;
  if (!t->executor)
    return ULL__FAIL(ULL_ERROR_INVALID, "ull_trainer_start comes before ull_trainer_save_weights");
  ULL__TRY(create_file(t, path, &writer));
  ull_status status = visit_weights(t, true, write_tensor, writer);
  if (status == ULL_OK) return ull__safetensors_finish(writer);
  ull__safetensors_discard(writer);
  return status;
}

static ull_status hash_tensor(void *context, const ull__persistent *p, void *plain,
                              uint64_t bytes) {
  ULL__TRY(ull__weights_hash_tensor(context, p->name, p->dtype, &p->shape));
  return ull__weights_hash_add(context, plain, bytes);
}

ull_status ull__trainer_hash(ull_trainer *t, char hex[65]) {
  ull__weights_hash hash;
  ull__weights_hash_begin(&hash);
  ULL__TRY(visit_weights(t, true, hash_tensor, &hash));
  return ull__weights_hash_end(&hash, hex);
}

const char *ull_trainer_weights_hash(ull_trainer *t) {
  if (!t->executor) {
    ULL__FAIL(ULL_ERROR_INVALID, "ull_trainer_start comes before ull_trainer_weights_hash");
    return NULL;
  }
  return ull__trainer_hash(t, t->hash) == ULL_OK ? t->hash : NULL;
}
