/* `tar:PATTERN`. Plain shards are read in place, at any sample; they have the order of their files
 * and of what lies in them, so that shards written from a folder have the folder's numbers. One
 * packed shard makes all of them be read through windows, with an order of its own. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "data/shard_files.h"
#include "data/source_text.h"
#include "data/tar/class_names.h"
#include "data/tar/format.h"
#include "data/tar/tar.h"

enum { LEAST_WINDOW = 64 * 1024 };

static const uint64_t DEFAULT_WINDOW = 32u << 20, MOST_WINDOW = 1u << 30;

typedef struct tar {
  ull__index index;
  ull__shard_files files;
  ull__tar_windows *windows; /* of packed shards */
  ull__class_names names;    /* of classes that are numbers in the shards */
  uint32_t array_count;      /* but the label */
  uint64_t stride;
} tar;

/* ---- opening ---- */

/* All that the index follows from, but the content of the files. */
static ull_status find_place(const ull__paths *paths, uint64_t window_bytes, char **place) {
  uint8_t key[ULL__SHA256_BYTES];
  char folder[PATH_MAX];
  ull__sha256 digest;
  ull__sha256_begin(&digest);
  if (paths->items[0][0] != '/' && getcwd(folder, sizeof folder) != NULL)
    ull__sha256_add(&digest, folder, strlen(folder) + 1);
  for (size_t i = 0; i < paths->count; i++)
    ull__sha256_add(&digest, paths->items[i], strlen(paths->items[i]) + 1);
  ull__sha256_add(&digest, &window_bytes, sizeof window_bytes);
  ull__sha256_end(&digest, key);
  return ull__index_place("tar", key, sizeof key, place);
}

static bool is_current(const ull__index *index, const ull__paths *paths) {
  uint64_t count = index->header.sections[ULL__TAR_SHARDS].bytes / sizeof(ull__tar_shard);
  if (count != paths->count) return false;
  for (uint64_t i = 0; i < count; i++) {
    ull__tar_shard shard;
    struct stat about;
    if (ull__index_read(index, ULL__TAR_SHARDS, i * sizeof shard, &shard, sizeof shard) != ULL_OK ||
        stat(paths->items[i], &about) != 0)
      return false;
    ull__stamp now = ull__stamp_of(&about);
    if (!ull__stamp_equal(&now, &shard.stamp)) return false;
  }
  return true;
}

static bool is_fresh(const ull__tar_gather *gather, int64_t began_ns) {
  for (size_t i = 0; i < gather->shards.count; i++) {
    if (ull__stamp_is_fresh(&gather->shards.items[i].stamp, began_ns)) return true;
  }
  return false;
}

static ull_status build_index(ull_source *source, const ull_source_options *options,
                              const ull__paths *paths, uint64_t window_bytes, const char *place) {
  tar *tar = source->state;
  ull__tar_gather *gather = ull__alloc(1, sizeof *gather);
  if (gather == NULL) return ull_error_last()->status;
  int64_t began_ns = ull__stamp_now_ns();
  gather->what = source->text;
  ull_status status = ull__tar_gather_shards(gather, paths);
  if (status == ULL_OK) {
    /* Unpacking everything is dear enough to be kept whatever its size. */
    bool keep = (gather->packed || gather->groups.count >= 4096) && !is_fresh(gather, began_ns);
    status =
        ull__tar_index(source, options, gather, window_bytes, keep ? place : NULL, &tar->index);
  }
  ull__tar_gather_free(gather);
  ull__free(gather);
  return status;
}

static ull_status find_index(ull_source *source, const ull_source_options *options,
                             const ull__paths *paths, uint64_t window_bytes) {
  tar *tar = source->state;
  char *place = NULL;
  ULL__TRY(find_place(paths, window_bytes, &place));
  ull_status status = ULL_OK;
  bool found = ull__index_find(place, ULL__TAR_VERSION, &tar->index);
  if (!found || !is_current(&tar->index, paths)) {
    ull__index_close(&tar->index);
    ull_error_clear();
    status = build_index(source, options, paths, window_bytes, place);
  }
  ull__free(place);
  return status;
}

static void report(const ull_source *source) {
  const tar *tar = source->state;
  const uint64_t *numbers = tar->index.header.numbers;
  char text[ULL__TAR_NAME] = "";
  if (numbers[ULL__TAR_CUT_COUNT] > 0) {
    ull__tar_shard shard = {0};
    ull__index_read(&tar->index, ULL__TAR_SHARDS, numbers[ULL__TAR_CUT_SHARD] * sizeof shard,
                    &shard, sizeof shard);
    ull__index_text(&tar->index, ULL__TAR_TEXTS, shard.path, text, sizeof text);
    ULL__LOG_WARNING("%s: %" PRIu64 " shard%s cut or damaged, or goes on behind its end: what lies "
                     "before that is used; "
                     "the first is %s, at byte %" PRIu64,
                     source->text, numbers[ULL__TAR_CUT_COUNT],
                     numbers[ULL__TAR_CUT_COUNT] == 1 ? " is" : "s are", text,
                     numbers[ULL__TAR_CUT_AT]);
  }
  if (numbers[ULL__TAR_INCOMPLETE] > 0) {
    ull__index_text(&tar->index, ULL__TAR_TEXTS, numbers[ULL__TAR_INCOMPLETE_KEY], text,
                    sizeof text);
    ULL__LOG_WARNING("%s: %" PRIu64 " samples are left out: they lack a field that most have "
                     "(the first: %s)",
                     source->text, numbers[ULL__TAR_INCOMPLETE], text);
  }
  if (numbers[ULL__TAR_REGROUPED] > 0)
    ULL__LOG_WARNING("%s: %" PRIu64 " members do not lie beside the rest of their sample",
                     source->text, numbers[ULL__TAR_REGROUPED]);
  if (numbers[ULL__TAR_DOUBLED] > 0) {
    ull__index_text(&tar->index, ULL__TAR_TEXTS, numbers[ULL__TAR_DOUBLED_NAMES], text,
                    sizeof text);
    ULL__LOG_WARNING("%s: %" PRIu64 " members are not used: a later one of the sample is for the "
                     "same array (the first: %s)",
                     source->text, numbers[ULL__TAR_DOUBLED], text);
  }
  ull__index_text(&tar->index, ULL__TAR_TEXTS, numbers[ULL__TAR_UNREAD], text, sizeof text);
  if (text[0] != '\0') ULL__LOG_INFO("%s: fields that are not read: %s", source->text, text);
}

static ull_status add_arrays(ull_source *source) {
  tar *tar = source->state;
  for (uint32_t i = 0; i < tar->array_count; i++) {
    ull__tar_array array;
    ULL__TRY(
        ull__index_read(&tar->index, ULL__TAR_ARRAY_TABLE, i * sizeof array, &array, sizeof array));
    array.name[sizeof array.name - 1] = '\0';
    if (array.content != ULL_CONTENT_ELEMENTS)
      ULL__TRY(ull__source_add_encoded(source, array.name, (ull_array_content)array.content));
    else
      ULL__TRY(ull__source_add_array(source, array.name, (ull_dtype)array.dtype, (int)array.rank,
                                     array.shape));
  }
  if (tar->index.header.sections[ULL__TAR_LABELS].bytes == 0) return ULL_OK;
  return ull__source_add_array(source, "label", ULL_INT64, 0, NULL);
}

static ull_status describe(ull_source *source, const ull_source_options *options) {
  tar *tar = source->state;
  const ull__index_header *header = &tar->index.header;
  tar->array_count =
      (uint32_t)(header->sections[ULL__TAR_ARRAY_TABLE].bytes / sizeof(ull__tar_array));
  tar->stride = sizeof(ull__tar_sample) + tar->array_count * sizeof(ull__tar_slot);
  source->stored_count = header->sections[ULL__TAR_SAMPLES].bytes / tar->stride;
  source->class_count = header->sections[ULL__TAR_CLASSES].bytes / sizeof(uint32_t);
  ULL__TRY(add_arrays(source));
  uint64_t shards = header->sections[ULL__TAR_SHARDS].bytes / sizeof(ull__tar_shard);
  snprintf(source->note, sizeof source->note, "%" PRIu64 " shard%s%s", shards,
           shards == 1 ? "" : "s",
           header->numbers[ULL__TAR_PACKED] ? ", shuffled by shard and window" : "");
  report(source);
  if (header->numbers[ULL__TAR_PACKED] == 0 || source->stored_count == 0) return ULL_OK;
  source->kind = &ull__source_tar_packed;
  return ull__tar_windows_create(source, options, &tar->index, &tar->windows);
}

static ull_status find_class_names(ull_source *source, const ull_source_options *options,
                                   const char *shard) {
  tar *tar = source->state;
  bool numbers = tar->index.header.sections[ULL__TAR_LABELS].bytes > 0 && source->class_count == 0;
  if (!numbers || source->stored_count == 0) return ULL_OK;
  return ull__class_names_find(source, options, shard, &tar->index, ULL__TAR_LABELS, &tar->names);
}

static ull_status open_paths(ull_source *source, const ull_source_options *options,
                             const ull__source_text *text) {
  ull__paths paths;
  uint64_t window_bytes;
  ULL__TRY(ull__source_text_bytes(text, "window", DEFAULT_WINDOW, LEAST_WINDOW, MOST_WINDOW,
                                  &window_bytes));
  ull_status status = ull__pattern_expand(text->path, &paths);
  if (status == ULL_OK) status = find_index(source, options, &paths, window_bytes);
  if (status == ULL_OK) status = describe(source, options);
  if (status == ULL_OK) status = find_class_names(source, options, paths.items[0]);
  ull__paths_free(&paths);
  return status;
}

static ull_status open_tar(ull_source *source, const char *argument,
                           const ull_source_options *options) {
  static const char *const known[] = {"window", NULL};
  tar *tar = ull__alloc(1, sizeof *tar);
  if (tar == NULL) return ull_error_last()->status;
  source->state = tar;
  source->resident_bytes += sizeof *tar + sizeof *source;
  tar->index.file.descriptor = -1;
  ull__shard_files_begin(&tar->files);
  ull__source_text text;
  ull_status status = ull__source_text_parse("tar", argument, known, &text);
  if (status == ULL_OK) status = open_paths(source, options, &text);
  ull__source_text_free(&text);
  return status;
}

static void close_tar(ull_source *source) {
  tar *tar = source->state;
  ull__tar_windows_destroy(tar->windows);
  ull__shard_files_end(&tar->files);
  ull__index_close(&tar->index);
  ull__class_names_free(&tar->names);
  ull__free(tar);
  source->state = NULL;
}

/* ---- samples ---- */

typedef struct place {
  ull__tar_sample sample;
  ull__tar_slot slot;
} place;

static ull_status locate(const tar *tar, uint64_t stored, size_t array, place *place) {
  uint64_t at = stored * tar->stride;
  ULL__TRY(
      ull__index_read(&tar->index, ULL__TAR_SAMPLES, at, &place->sample, sizeof place->sample));
  return ull__index_read(&tar->index, ULL__TAR_SAMPLES,
                         at + sizeof place->sample + array * sizeof place->slot, &place->slot,
                         sizeof place->slot);
}

/* "shard.tar:key" */
static ull_status name_place(const tar *tar, const place *place, ull__tar_shard *shard, char *path,
                             char *name, size_t room) {
  char key[ULL__TAR_NAME];
  ULL__TRY(ull__index_read(&tar->index, ULL__TAR_SHARDS, place->sample.shard * sizeof *shard, shard,
                           sizeof *shard));
  ULL__TRY(ull__index_text(&tar->index, ULL__TAR_TEXTS, shard->path, path, ULL__TAR_NAME));
  ULL__TRY(ull__index_text(&tar->index, ULL__TAR_TEXTS, place->sample.key, key, sizeof key));
  snprintf(name, room, "%s:%s", path, key);
  return ULL_OK;
}

/* "shard.tar:key.field": the member, with the ending that it has. */
static ull_status name_member(const tar *tar, const place *place, ull__tar_shard *shard, char *path,
                              char *name, size_t room) {
  char field[ULL__TAR_ARRAY_NAME];
  ULL__TRY(name_place(tar, place, shard, path, name, room));
  ULL__TRY(ull__index_text(&tar->index, ULL__TAR_TEXTS, place->slot.field, field, sizeof field));
  size_t used = strlen(name);
  snprintf(name + used, room - used, ".%s", field);
  return ULL_OK;
}

static ull_status open_packed(const tar *tar, uint64_t stored, const place *place,
                              ull__record *record) {
  const ull__tar_window *window;
  const uint8_t *memory;
  uint64_t bytes;
  ULL__TRY(ull__tar_window_hold(tar->windows, stored, &record->hold, &window, &memory, &bytes));
  uint64_t at = (uint64_t)place->slot.block * ULL__TAR_BLOCK - window->begin;
  record->memory = memory;
  record->bytes = 0;
  if (at >= bytes) return ULL_OK;
  record->memory = memory + at;
  record->bytes = place->slot.bytes < bytes - at ? place->slot.bytes : bytes - at;
  return ULL_OK;
}

static ull_status open_record(const ull_source *source, uint64_t stored, size_t array,
                              ull__record *record) {
  tar *tar = source->state;
  place place;
  ull__tar_shard shard;
  char path[ULL__TAR_NAME];
  *record = (ull__record){.descriptor = -1};
  ULL__TRY(locate(tar, stored, array, &place));
  ULL__TRY(name_member(tar, &place, &shard, path, record->path, sizeof record->path));
  record->offset = (uint64_t)place.slot.block * ULL__TAR_BLOCK;
  record->bytes = place.slot.bytes;
  if (tar->windows != NULL) return open_packed(tar, stored, &place, record);
  return ull__shard_files_open(&tar->files, place.sample.shard, path, &shard.stamp, record);
}

static void close_record(const ull_source *source, ull__record *record) {
  tar *tar = source->state;
  if (tar->windows == NULL) {
    ull__shard_files_close(&tar->files, record);
  } else if (record->hold != NULL) {
    ull__tar_window_release(tar->windows, record->hold);
    record->hold = NULL;
    record->memory = NULL;
  }
}

static void name_sample(const ull_source *source, uint64_t stored, char *buffer, size_t bytes) {
  const tar *tar = source->state;
  place place;
  ull__tar_shard shard;
  char path[ULL__TAR_NAME];
  if (locate(tar, stored, 0, &place) == ULL_OK)
    name_place(tar, &place, &shard, path, buffer, bytes);
}

static void name_class(const ull_source *source, uint64_t number, char *buffer, size_t bytes) {
  const tar *tar = source->state;
  uint32_t at;
  if (tar->names.count > 0)
    ull__class_names_copy(&tar->names, number, buffer, bytes);
  else if (ull__index_read(&tar->index, ULL__TAR_CLASSES, number * sizeof at, &at, sizeof at) ==
           ULL_OK)
    ull__index_text(&tar->index, ULL__TAR_TEXTS, at, buffer, bytes);
}

/* ---- elements ---- */

typedef struct npy_reader {
  const ull__record *record;
  uint64_t at;
} npy_reader;

static ull_status read_npy(void *context, void *to, uint64_t count) {
  npy_reader *reader = context;
  size_t got;
  ULL__TRY(ull__record_read(reader->record, reader->at, to, (size_t)count, &got));
  reader->at += got;
  if (got == count) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: ends early", reader->record->path);
  return ull__error_holder("%s", reader->record->path);
}

static ull_status read_elements(const ull_source *source, uint64_t stored, size_t array,
                                void *bytes) {
  const ull_array_info *info = &source->arrays[array];
  ull__record record;
  ull__npy_header header;
  ULL__TRY(open_record(source, stored, array, &record));
  npy_reader reader = {.record = &record};
  ull_status status = ull__npy_read_header(read_npy, &reader, info->name, &header);
  if (status == ULL_OK &&
      (header.dtype != info->dtype || header.data_bytes != info->sample_bytes)) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: '%s' has another shape or dtype than the others", record.path,
              info->name);
    status = ull__error_holder("%s", record.path);
  }
  if (status == ULL_OK) status = read_npy(&reader, bytes, info->sample_bytes);
  close_record(source, &record);
  ull__record_close(&record);
  return status;
}

static ull_status read_arrays(const ull_source *source, uint64_t first, uint64_t count,
                              size_t array, void *bytes) {
  const tar *tar = source->state;
  if (array == tar->array_count)
    return ull__index_read(&tar->index, ULL__TAR_LABELS, first * sizeof(int64_t), bytes,
                           (size_t)count * sizeof(int64_t));
  uint8_t *to = bytes;
  for (uint64_t i = 0; i < count; i++)
    ULL__TRY(read_elements(source, first + i, array, to + i * source->arrays[array].sample_bytes));
  return ULL_OK;
}

static uint64_t order_packed(const ull_source *source, uint64_t key, uint64_t position) {
  const tar *tar = source->state;
  return ull__tar_windows_order(tar->windows, key, position);
}

const ull__source_kind ull__source_tar = {
    .scheme = "tar",
    .argument = "PATTERN",
    .open = open_tar,
    .read = read_arrays,
    .open_record = open_record,
    .close_record = close_record,
    .name_sample = name_sample,
    .name_class = name_class,
    .close = close_tar,
};

const ull__source_kind ull__source_tar_packed = {
    .scheme = "tar",
    .argument = "PATTERN",
    .open = open_tar,
    .read = read_arrays,
    .open_record = open_record,
    .close_record = close_record,
    .name_sample = name_sample,
    .name_class = name_class,
    .order = order_packed,
    .close = close_tar,
};
