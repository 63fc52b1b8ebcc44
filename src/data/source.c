/* The part that all sources share: the table of kinds, the description of arrays, the held out
 * part.
 *
 * A held out part is cut from one fixed permutation of the stored samples, so that training and
 * evaluation agree on it without a list, whatever the seed of the run. */
#include "data/source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

static const ull__source_kind *const kinds[] = {
    &ull__source_idx,      &ull__source_npz,     &ull__source_npy,     &ull__source_synthetic,
    &ull__source_callback, &ull__source_tar,     &ull__source_cifar,   &ull__source_csv,
    &ull__source_tsv,      &ull__source_parquet, &ull__source_of_text, &ull__source_of_tokens,
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static const uint64_t HELD_OUT_KEY = 0x756c6c6167650001u;

const char *ull_verdict_name(ull_verdict verdict) {
  static const char *const names[] = {"ok",        "repaired",    "warned",       "damaged",
                                      "truncated", "unsupported", "not_an_image", "empty",
                                      "too_big",   "unreadable"};
  return (unsigned)verdict < ULL_VERDICT_COUNT ? names[verdict] : "?";
}

bool ull_verdict_is_bad(ull_verdict verdict) {
  return verdict >= ULL_VERDICT_DAMAGED;
}

ull_source_options ull_source_options_default(void) {
  return (ull_source_options){.split = ULL_SPLIT_TRAIN, .verify = true};
}

static ull_status unknown_kind(const char *text) {
  char list[320] = "a folder";
  size_t used = strlen(list);
  for (size_t i = 0; i < KIND_COUNT && used < sizeof list; i++) {
    used += (size_t)snprintf(list + used, sizeof list - used, ", %s%s%s", kinds[i]->scheme,
                             kinds[i]->argument ? ":" : "",
                             kinds[i]->argument ? kinds[i]->argument : "");
  }
  return ull__source_refuse(text, list);
}

static bool is_folder(const char *text) {
  struct stat about;
  return stat(text, &about) == 0 && S_ISDIR(about.st_mode);
}

/* A scheme goes before a folder of that name: "./synthetic" is one. */
static ull_status find_kind(const char *text, const ull__source_kind **kind,
                            const char **argument) {
  size_t length = strcspn(text, ":");
  for (size_t i = 0; i < KIND_COUNT; i++) {
    if (strlen(kinds[i]->scheme) != length || memcmp(kinds[i]->scheme, text, length) != 0) continue;
    const char *rest = text[length] == ':' ? text + length + 1 : "";
    if ((kinds[i]->argument != NULL) != (rest[0] != '\0')) break;
    *kind = kinds[i];
    *argument = rest;
    return ULL_OK;
  }
  if (!is_folder(text)) return unknown_kind(text);
  *kind = &ull__source_folder;
  *argument = text;
  return ULL_OK;
}

static ull_status empty_part(const ull_source *source, double part) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: holding out %g of %" PRIu64 " samples leaves one part empty",
            source->text, part, source->stored_count);
  return ull__error_holder("--val-split %g", part);
}

static ull_status hold_out_of_buckets(ull_source *source, double part) {
  source->count = ull__buckets_hold_out(source, part, HELD_OUT_KEY);
  bool whole = source->count == 0 || source->count == source->stored_count;
  return whole ? empty_part(source, part) : ULL_OK;
}

static ull_status hold_out(ull_source *source, const ull_source_options *options) {
  source->count = source->stored_count;
  if (options->val_split == 0.0) return ULL_OK;
  if (!(options->val_split > 0.0 && options->val_split < 1.0)) {
    ULL__FAIL(ULL_ERROR_USAGE, "a part of %g cannot be held out", options->val_split);
    ull__error_holder("--val-split %g", options->val_split);
    return ull__error_change("give a number between 0 and 1, such as 0.1");
  }
  if (source->kind->order != NULL) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: nothing can be held out of packed shards", source->text);
    ull__error_holder("--val-split %g", options->val_split);
    return ull__error_change("give some of the shards with --val-data, or unpack them");
  }
  uint64_t held = (uint64_t)llround((double)source->stored_count * options->val_split);
  if (held == 0 || held >= source->stored_count) return empty_part(source, options->val_split);
  source->has_held_order = true;
  if (source->bucket_count > 0) return hold_out_of_buckets(source, options->val_split);
  bool eval = options->split == ULL_SPLIT_EVAL;
  source->held_order = ull__permutation_create(source->stored_count, HELD_OUT_KEY);
  source->held_first = eval ? source->stored_count - held : 0;
  source->count = eval ? held : source->stored_count - held;
  return ULL_OK;
}

static ull_status open_kind(ull_source *source, const char *text,
                            const ull_source_options *options) {
  const char *argument = "";
  ULL__TRY(find_kind(text, &source->kind, &argument));
  source->text = ull__strdup(text);
  if (source->text == NULL) return ull_error_last()->status;
  ULL__TRY(source->kind->open(source, argument, options));
  if (source->stored_count == 0) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: holds no samples", text);
    return ull__error_holder("--data %s", text);
  }
  return hold_out(source, options);
}

ull_status ull_source_open(const char *text, const ull_source_options *options, ull_source **out) {
  *out = NULL;
  if (text == NULL || options == NULL)
    return ULL__FAIL(ULL_ERROR_INVALID, "no source, or no options");
  ull_source *source = ull__alloc(1, sizeof *source);
  if (source == NULL) return ull_error_last()->status;
  source->split = options->split;
  const ull_error before = *ull_error_last();
  ull_status status = ull__error_unless(open_kind(source, text, options), &before);
  if (status == ULL_OK)
    *out = source;
  else
    ull_source_close(source);
  return status;
}

void ull_source_close(ull_source *source) {
  if (source == NULL) return;
  if (source->kind != NULL && source->state != NULL) source->kind->close(source);
  for (size_t i = 0; i < source->array_count; i++) ull__free(source->names[i]);
  ull__free(source->text);
  ull__free(source);
}

uint64_t ull_source_sample_count(const ull_source *source) {
  return source->count;
}

size_t ull_source_array_count(const ull_source *source) {
  return source->array_count;
}

const ull_array_info *ull_source_array(const ull_source *source, size_t array) {
  return array < source->array_count ? &source->arrays[array] : NULL;
}

int ull_source_find_array(const ull_source *source, const char *name) {
  for (size_t i = 0; i < source->array_count; i++) {
    if (strcmp(source->arrays[i].name, name) == 0) return (int)i;
  }
  return -1;
}

static void list_arrays(const ull_source *source, char *list, size_t room) {
  size_t used = 0;
  for (size_t i = 0; i < source->array_count && used < room; i++) {
    used +=
        (size_t)snprintf(list + used, room - used, "%s%s", i ? ", " : "", source->arrays[i].name);
  }
}

static ull_status no_such_array(const ull_source *source, const char *name, const char *wanted) {
  char list[160];
  list_arrays(source, list, sizeof list);
  if (wanted != NULL) {
    ULL__FAIL(ULL_ERROR_MISMATCH, "%s: has no array '%s' for '%s'", source->text, wanted, name);
  } else {
    ULL__FAIL(ULL_ERROR_MISMATCH, "%s: which array fills '%s' is not clear", source->text, name);
  }
  ull__error_holder("'%s' of the model", name);
  return ull__error_change("say it with --input %s=ARRAY or --target ARRAY; there are %s", name,
                           list);
}

/* The only array of a role, or -1. */
static int find_role(const ull_source *source, ull_array_role role) {
  int found = -1;
  for (size_t i = 0; i < source->array_count; i++) {
    if (source->arrays[i].role != role) continue;
    if (found >= 0) return -1;
    found = (int)i;
  }
  return found;
}

ull_status ull_source_choose_array(const ull_source *source, const char *name, ull_array_role role,
                                   const char *wanted, size_t *array) {
  int found = ull_source_find_array(source, wanted != NULL ? wanted : name);
  if (found < 0 && wanted == NULL) found = find_role(source, role);
  if (found < 0) return no_such_array(source, name, wanted);
  *array = (size_t)found;
  return ULL_OK;
}

const char *ull_source_text(const ull_source *source) {
  return source->text;
}

const char *ull_source_note(const ull_source *source) {
  return source->note;
}

uint64_t ull_source_resident_bytes(const ull_source *source) {
  return source->resident_bytes;
}

bool ull_source_is_fixed(const ull_source *source) {
  return source->fixed;
}

bool ull_source_has_evaluation(const ull_source *source) {
  return source->has_evaluation;
}

const char *ull_source_sample_name(const ull_source *source, uint64_t sample, char *buffer,
                                   size_t buffer_bytes) {
  if (buffer_bytes == 0) return buffer;
  if (sample >= source->count) {
    snprintf(buffer, buffer_bytes, "%s: no sample %" PRIu64, source->text, sample);
    return buffer;
  }
  uint64_t stored = ull__source_stored_index(source, sample);
  snprintf(buffer, buffer_bytes, "%s: sample %" PRIu64, source->text, stored);
  if (source->kind->name_sample != NULL)
    source->kind->name_sample(source, stored, buffer, buffer_bytes);
  return buffer;
}

void ull__source_close_record(const ull_source *source, ull__record *record) {
  if (source->kind->close_record != NULL) source->kind->close_record(source, record);
  ull__record_close(record);
}

uint64_t ull__source_stored_index(const ull_source *source, uint64_t sample) {
  if (source->bucket_count > 0) return ull__bucket_stored_index(source, sample);
  if (!source->has_held_order) return sample;
  return ull__permutation_at(&source->held_order, source->held_first + sample);
}

static ull_status not_elements(const ull_source *source, size_t array) {
  ULL__FAIL(ULL_ERROR_MISMATCH, "%s: '%s' are encoded pictures; a loader decodes them",
            source->text, source->arrays[array].name);
  return ull__error_holder("array '%s'", source->arrays[array].name);
}

ull_status ull_source_read(const ull_source *source, uint64_t sample, size_t array, void *bytes,
                           ull_verdict *verdict) {
  if (sample >= source->count || array >= source->array_count) {
    return ULL__FAIL(ULL_ERROR_INVALID,
                     "%s: sample %" PRIu64 " of array %zu; there are %" PRIu64 " of %zu",
                     source->text, sample, array, source->count, source->array_count);
  }
  if (source->arrays[array].content != ULL_CONTENT_ELEMENTS) return not_elements(source, array);
  uint64_t stored = ull__source_stored_index(source, sample);
  ull_status status = source->kind->read(source, stored, 1, array, bytes);
  if (verdict != NULL) *verdict = status == ULL_OK ? ULL_VERDICT_OK : ULL_VERDICT_UNREADABLE;
  if (status != ULL_OK) ull__error_context("sample %" PRIu64, stored);
  return status;
}

static ull_status measure_array(const ull_source *source, ull_array_info *info) {
  uint64_t bytes = ull_dtype_bytes(info->dtype);
  for (int i = 0; i < info->rank; i++) {
    if (info->shape[i] <= 0) {
      ULL__FAIL(ULL_ERROR_DATA, "%s: array '%s' has an extent of %" PRId64, source->text,
                info->name, info->shape[i]);
      return ull__error_holder("array '%s'", info->name);
    }
    ULL__TRY(ull__size_mul(bytes, (uint64_t)info->shape[i], "a sample", &bytes));
  }
  info->sample_bytes = bytes;
  return ULL_OK;
}

static bool is_target(const char *name) {
  return strcmp(name, "target") == 0 || strcmp(name, "label") == 0 || strcmp(name, "labels") == 0;
}

/* A new array without a shape. */
static ull_status append_array(ull_source *source, const char *name, ull_array_info **out) {
  if (source->array_count == ULL_DATA_MAX_ARRAYS) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: array '%s' is beyond %d arrays", source->text,
                     name, ULL_DATA_MAX_ARRAYS);
  }
  if (ull_source_find_array(source, name) >= 0) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: has two arrays named '%s'", source->text, name);
    return ull__error_holder("array '%s'", name);
  }
  char *copy = ull__strdup(name);
  if (copy == NULL) return ull_error_last()->status;
  size_t index = source->array_count++;
  source->names[index] = copy;
  ull_array_info *info = &source->arrays[index];
  *info = (ull_array_info){.name = copy};
  info->role = is_target(name) ? ULL_ARRAY_TARGET : ULL_ARRAY_INPUT;
  *out = info;
  return ULL_OK;
}

ull_status ull__source_add_array(ull_source *source, const char *name, ull_dtype dtype, int rank,
                                 const int64_t *shape) {
  ull_array_info *info;
  if (rank > ULL_DATA_MAX_RANK) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED,
                     "%s: array '%s' has more than %d dimensions after the "
                     "first",
                     source->text, name, ULL_DATA_MAX_RANK);
  }
  ULL__TRY(append_array(source, name, &info));
  info->dtype = dtype;
  info->rank = rank;
  for (int i = 0; i < rank; i++) info->shape[i] = shape[i];
  info->image = rank == 3 && info->role == ULL_ARRAY_INPUT && shape[0] <= ULL_DATA_MAX_CHANNELS;
  return measure_array(source, info);
}

ull_status ull__source_add_encoded(ull_source *source, const char *name,
                                   ull_array_content content) {
  ull_array_info *info;
  ULL__TRY(append_array(source, name, &info));
  info->content = content;
  info->dtype = ULL_UINT8;
  info->image = content == ULL_CONTENT_IMAGE;
  info->rank = info->image ? 3 : 2;
  if (content == ULL_CONTENT_MASK) info->role = ULL_ARRAY_TARGET;
  if (info->image) info->shape[0] = 3;
  return ULL_OK;
}

ull_status ull__source_hold(ull_source *source, const ull_source_options *options, const char *path,
                            uint64_t bytes) {
  uint64_t total;
  ULL__TRY(ull__size_add(source->resident_bytes, bytes, "decompressed data", &total));
  if (options->resident_limit_bytes != 0 && total > options->resident_limit_bytes) {
    ULL__FAIL(ULL_ERROR_DOES_NOT_FIT, "%s: decompressed it takes %" PRIu64 " bytes", path, bytes);
    ull__error_holder("%s", path);
    ull__error_change("decompress the file on disk: it is then read in place");
    return ull__error_bytes(total, options->resident_limit_bytes);
  }
  source->resident_bytes = total;
  return ULL_OK;
}
