/* Names, shapes and types of a file against those of a model, all checked before any byte moves. */
#include "model/load_weights.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/half.h"
#include "base/options.h"
#include "model/safetensors/safetensors.h"

typedef struct loading {
  const ull__model *model;
  ull__safetensors *file;
  bool is_partial;
} loading;

static const ull__value *value_at(const loading *l, uint32_t i) {
  return ull__graph_value(l->model->graph,
                          ull__graph_find_value(l->model->graph, l->model->initials[i].name));
}

static const ull__tensor_entry *entry_of(const loading *l, const ull__value *value) {
  return ull__safetensors_find(l->file, value->name);
}

/* Tensors of a state_dict that a model has no value for. */
static bool is_passed_over(const char *name) {
  static const char counter[] = "num_batches_tracked";
  const size_t length = strlen(name), end = sizeof counter - 1;
  return strcmp(name, "lm_head.weight") == 0 ||
         (length >= end && strcmp(name + length - end, counter) == 0);
}

static bool is_of_model(const loading *l, const char *name) {
  for (uint32_t i = 0; i < l->model->initial_count; i++) {
    if (strcmp(l->model->initials[i].name, name) == 0) return true;
  }
  return false;
}

/* The first tensor that the model does not know; NULL = there is none. */
static const char *first_unknown(const loading *l, uint32_t *count) {
  const char *first = NULL;
  *count = 0;
  for (uint32_t i = 0; i < ull__safetensors_count(l->file); i++) {
    const char *name = ull__safetensors_at(l->file, i)->name;
    if (is_passed_over(name) || is_of_model(l, name)) continue;
    if (first == NULL) first = name;
    ++*count;
  }
  return first;
}

static const char *first_missing(const loading *l, uint32_t *count) {
  const char *first = NULL;
  *count = 0;
  for (uint32_t i = 0; i < l->model->initial_count; i++) {
    const ull__value *value = value_at(l, i);
    if (entry_of(l, value) != NULL) continue;
    if (first == NULL) first = value->name;
    ++*count;
  }
  return first;
}

static ull_status refuse_names(const loading *l, const char *name, uint32_t count,
                               const char *what) {
  const char *path = ull__safetensors_path(l->file);
  if (count == 1) {
    ull__fail(ULL_ERROR_MISMATCH, "%s %s: %.128s", path, what, name);
  } else {
    ull__fail(ULL_ERROR_MISMATCH, "%s %s: %.128s and %u more", path, what, name, count - 1);
  }
  ull__error_holder("%s", name);
  return ull__error_change("--partial loads what both have");
}

static ull_status check_names(const loading *l) {
  uint32_t missing, unknown;
  const char *lacking = first_missing(l, &missing), *extra = first_unknown(l, &unknown);
  if (missing == l->model->initial_count) {
    ull__fail(ULL_ERROR_MISMATCH, "%s has none of the weights of %s",
              ull__safetensors_path(l->file), l->model->name);
    ull__error_holder("%s", lacking);
    return extra == NULL
               ? ULL_ERROR_MISMATCH
               : ull__error_change("its first tensor is %.128s, wanted is %.64s", extra, lacking);
  }
  if (l->is_partial) return ULL_OK;
  if (lacking != NULL) return refuse_names(l, lacking, missing, "lacks weights of the model");
  if (extra != NULL) return refuse_names(l, extra, unknown, "holds tensors the model lacks");
  return ULL_OK;
}

static ull_status check_shape(const loading *l, const ull__value *value,
                              const ull__tensor_entry *entry) {
  char stored[256], wanted[256];
  if (!ull__shape_equal(&value->shape, &entry->shape)) {
    ull__fail(ULL_ERROR_MISMATCH, "%s: %.128s has the shape %.100s, the model wants %.100s",
              ull__safetensors_path(l->file), value->name,
              ull__shape_text(&entry->shape, stored, sizeof stored),
              ull__shape_text(&value->shape, wanted, sizeof wanted));
    return ull__error_holder("%s", value->name);
  }
  if (entry->dtype == value->dtype) return ULL_OK;
  const bool is_known = entry->dtype != ULL_DTYPE_COUNT && ull__dtype_is_float(entry->dtype);
  if (is_known && ull__dtype_is_float(value->dtype)) return ULL_OK;
  ull__fail(ULL_ERROR_MISMATCH, "%s: %.128s is stored as %s, the model wants %s",
            ull__safetensors_path(l->file), value->name, entry->stored_dtype,
            ull_dtype_name(value->dtype));
  return ull__error_holder("%s", value->name);
}

/* Checks every value that the file holds and finds the largest. */
static ull_status check_values(const loading *l, uint64_t *largest_bytes) {
  *largest_bytes = 1;
  for (uint32_t i = 0; i < l->model->initial_count; i++) {
    const ull__value *value = value_at(l, i);
    const ull__tensor_entry *entry = entry_of(l, value);
    uint64_t bytes = 0;
    if (entry == NULL) continue;
    ULL__TRY(check_shape(l, value, entry));
    ULL__TRY(ull__shape_bytes(&value->shape, value->dtype, &bytes));
    if (bytes > *largest_bytes) *largest_bytes = bytes;
  }
  return ULL_OK;
}

static ull_status pour(const loading *l, ull__weights_sink sink, void *context, void *buffer,
                       uint32_t *loaded) {
  for (uint32_t i = 0; i < l->model->initial_count; i++) {
    const ull__value *value = value_at(l, i);
    const ull__tensor_entry *entry = entry_of(l, value);
    uint64_t bytes = 0;
    if (entry == NULL) continue;
    ULL__TRY(ull__safetensors_read(l->file, entry, value->dtype, buffer));
    ULL__TRY(ull__shape_bytes(&value->shape, value->dtype, &bytes));
    ULL__TRY(sink(context, value, buffer, bytes));
    ++*loaded;
  }
  return ULL_OK;
}

static ull_status load(const loading *l, ull__weights_sink sink, void *context, uint32_t *loaded) {
  uint64_t largest_bytes;
  ULL__TRY(check_names(l));
  ULL__TRY(check_values(l, &largest_bytes));
  void *buffer = ull__alloc_aligned(64, (size_t)largest_bytes);
  if (buffer == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  const ull_status status = pour(l, sink, context, buffer, loaded);
  ull__free(buffer);
  return status;
}

ull_status ull__model_load_weights(const ull__model *model, const char *path, bool is_partial,
                                   ull__weights_sink sink, void *context, uint32_t *loaded) {
  uint32_t count = 0;
  loading l = {.model = model, .is_partial = is_partial};
  ULL__TRY(ull__safetensors_open(path, &l.file));
  const ull_status status = load(&l, sink, context, &count);
  ull__safetensors_close(l.file);
  if (loaded != NULL) *loaded = count;
  return status;
}
