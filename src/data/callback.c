/* `callback:NAME`: samples that the program's own functions provide.
 *
 * Names are registered in one list for the process, so that everything that takes a SRC text,
 * configuration files included, can take them. An open source has its own reference to what was
 * registered: unregistering never pulls it away. */
#include "ullage/data_callback.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/source.h"

enum { NAME_BYTES = 64 };

typedef struct registration {
  struct registration *next;
  char name[NAME_BYTES];
  ull_callbacks callbacks;
  uint64_t references;  /* the list's and those of open sources */
  pthread_mutex_t call; /* held around calls where they come one at a time */
  char *array_names[ULL_DATA_MAX_ARRAYS];
  ull_callback_array arrays[ULL_DATA_MAX_ARRAYS];
} registration;

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static registration *list;

static void destroy(registration *entry) {
  for (size_t i = 0; i < entry->callbacks.array_count; i++) ull__free(entry->array_names[i]);
  pthread_mutex_destroy(&entry->call);
  ull__free(entry);
}

static void release(registration *entry) {
  pthread_mutex_lock(&list_mutex);
  bool last = --entry->references == 0;
  pthread_mutex_unlock(&list_mutex);
  if (last) destroy(entry);
}

/* With the list held. The link that points at the entry of that name, or at the list's end. */
static registration **find_link(const char *name) {
  registration **link = &list;
  while (*link != NULL && strcmp((*link)->name, name) != 0) link = &(*link)->next;
  return link;
}

static ull_status check_array(const char *name, const ull_callbacks *callbacks,
                              const ull_callback_array *array) {
  bool elements = array->content == ULL_CONTENT_ELEMENTS;
  if (array->name == NULL || array->name[0] == '\0')
    return ULL__FAIL(ULL_ERROR_INVALID, "callback:%s: an array without a name", name);
  if (elements ? callbacks->read == NULL : callbacks->open == NULL)
    return ULL__FAIL(ULL_ERROR_INVALID, "callback:%s: no function provides array '%s'", name,
                     array->name);
  if (elements && (array->rank < 0 || array->rank > ULL_DATA_MAX_RANK))
    return ULL__FAIL(ULL_ERROR_INVALID, "callback:%s: array '%s' has %d dimensions; 0 to %d", name,
                     array->name, array->rank, ULL_DATA_MAX_RANK);
  return ULL_OK;
}

static ull_status check(const char *name, const ull_callbacks *callbacks) {
  size_t length = strlen(name);
  if (length == 0 || length >= NAME_BYTES)
    return ULL__FAIL(ULL_ERROR_USAGE, "'%.80s' is no name for a source: 1 to %d characters", name,
                     NAME_BYTES - 1);
  if (callbacks->samples == 0 || callbacks->array_count == 0 || callbacks->arrays == NULL ||
      callbacks->array_count > ULL_DATA_MAX_ARRAYS)
    return ULL__FAIL(ULL_ERROR_INVALID,
                     "callback:%s: %" PRIu64 " samples of %zu arrays; at least "
                     "one of each and at most %d arrays",
                     name, callbacks->samples, callbacks->array_count, ULL_DATA_MAX_ARRAYS);
  for (size_t i = 0; i < callbacks->array_count; i++)
    ULL__TRY(check_array(name, callbacks, &callbacks->arrays[i]));
  return ULL_OK;
}

static ull_status copy_arrays(registration *entry, const ull_callbacks *callbacks) {
  entry->callbacks = *callbacks;
  entry->callbacks.arrays = entry->arrays;
  for (size_t i = 0; i < callbacks->array_count; i++) {
    entry->arrays[i] = callbacks->arrays[i];
    entry->array_names[i] = ull__strdup(callbacks->arrays[i].name);
    if (entry->array_names[i] == NULL) return ull_error_last()->status;
    entry->arrays[i].name = entry->array_names[i];
  }
  return ULL_OK;
}

/* Puts the entry at the list's end unless its name is there. */
static ull_status publish(registration *entry) {
  pthread_mutex_lock(&list_mutex);
  registration **link = find_link(entry->name);
  bool taken = *link != NULL;
  if (!taken) {
    entry->references = 1;
    *link = entry;
  }
  pthread_mutex_unlock(&list_mutex);
  if (!taken) return ULL_OK;
  ULL__FAIL(ULL_ERROR_USAGE, "callback:%s is registered already", entry->name);
  return ull__error_change("unregister it first, or take another name");
}

ull_status ull_source_register(const char *name, const ull_callbacks *callbacks) {
  if (name == NULL || callbacks == NULL)
    return ULL__FAIL(ULL_ERROR_INVALID, "no name, or no functions");
  ULL__TRY(check(name, callbacks));
  registration *entry = ull__alloc(1, sizeof *entry);
  if (entry == NULL) return ull_error_last()->status;
  strcpy(entry->name, name);
  pthread_mutex_init(&entry->call, NULL);
  ull_status status = copy_arrays(entry, callbacks);
  if (status == ULL_OK) status = publish(entry);
  if (status != ULL_OK) destroy(entry);
  return status;
}

static ull_status unknown(const char *name) {
  ULL__FAIL(ULL_ERROR_USAGE, "callback:%.80s is not registered", name);
  ull__error_holder("callback:%.80s", name);
  return ull__error_change("call ull_source_register before the source is opened");
}

ull_status ull_source_unregister(const char *name) {
  if (name == NULL) return ULL__FAIL(ULL_ERROR_INVALID, "no name");
  pthread_mutex_lock(&list_mutex);
  registration **link = find_link(name), *entry = *link;
  if (entry != NULL) *link = entry->next;
  pthread_mutex_unlock(&list_mutex);
  if (entry == NULL) return unknown(name);
  release(entry);
  return ULL_OK;
}

/* ---- the source ---- */

static ull_status add_arrays(ull_source *source, const registration *entry) {
  for (size_t i = 0; i < entry->callbacks.array_count; i++) {
    const ull_callback_array *array = &entry->arrays[i];
    if (array->content == ULL_CONTENT_ELEMENTS)
      ULL__TRY(ull__source_add_array(source, array->name, array->dtype, array->rank, array->shape));
    else
      ULL__TRY(ull__source_add_encoded(source, array->name, array->content));
  }
  return ULL_OK;
}

static ull_status open_source(ull_source *source, const char *name,
                              const ull_source_options *options) {
  (void)options;
  pthread_mutex_lock(&list_mutex);
  registration *entry = *find_link(name);
  if (entry != NULL) entry->references++;
  pthread_mutex_unlock(&list_mutex);
  if (entry == NULL) return unknown(name);
  source->state = entry;
  source->stored_count = entry->callbacks.samples;
  return add_arrays(source, entry);
}

static void close_source(ull_source *source) {
  release(source->state);
}

static void begin_call(registration *entry) {
  if (entry->callbacks.one_at_a_time) pthread_mutex_lock(&entry->call);
}

static void end_call(registration *entry) {
  if (entry->callbacks.one_at_a_time) pthread_mutex_unlock(&entry->call);
}

/* The record of a call that failed: what the function left there with this status, else a plain
 * sentence. */
static ull_status report(const registration *entry, uint64_t sample, size_t array,
                         ull_status status) {
  if (ull_error_last()->status != status) {
    ULL__FAIL(status, "the function that provides it returned %s", ull_status_name(status));
    ull__error_holder("callback:%s", entry->name);
  }
  return ull__error_context("callback:%s: sample %" PRIu64 " of '%s'", entry->name, sample,
                            entry->arrays[array].name);
}

static ull_status read_samples(const ull_source *source, uint64_t first, uint64_t count,
                               size_t array, void *bytes) {
  registration *entry = source->state;
  uint64_t sample_bytes = source->arrays[array].sample_bytes;
  for (uint64_t i = 0; i < count; i++) {
    ull_error_clear();
    begin_call(entry);
    ull_status status = entry->callbacks.read(entry->callbacks.context, first + i, array,
                                              (uint8_t *)bytes + i * sample_bytes);
    end_call(entry);
    if (status != ULL_OK) return report(entry, first + i, array, status);
  }
  return ULL_OK;
}

static void name_sample(const ull_source *source, uint64_t stored, char *buffer, size_t bytes) {
  const registration *entry = source->state;
  snprintf(buffer, bytes, "callback:%s:%" PRIu64, entry->name, stored);
}

static ull_status open_record(const ull_source *source, uint64_t stored, size_t array,
                              ull__record *record) {
  registration *entry = source->state;
  const void *bytes = NULL;
  name_sample(source, stored, record->path, sizeof record->path);
  record->descriptor = -1;
  record->owns_descriptor = false;
  record->offset = record->bytes = 0;
  record->hold = NULL;
  ull_error_clear();
  begin_call(entry);
  ull_status status = entry->callbacks.open(entry->callbacks.context, stored, array, &bytes,
                                            &record->bytes, &record->hold);
  end_call(entry);
  if (status != ULL_OK) return report(entry, stored, array, status);
  record->memory = bytes != NULL ? bytes : (const uint8_t *)"";
  if (bytes == NULL) record->bytes = 0;
  return ULL_OK;
}

static void close_record(const ull_source *source, ull__record *record) {
  registration *entry = source->state;
  if (entry->callbacks.close == NULL) return;
  begin_call(entry);
  entry->callbacks.close(entry->callbacks.context, record->hold);
  end_call(entry);
}

const ull__source_kind ull__source_callback = {
    .scheme = "callback",
    .argument = "NAME",
    .open = open_source,
    .read = read_samples,
    .open_record = open_record,
    .close_record = close_record,
    .name_sample = name_sample,
    .close = close_source,
};
