/* From what was gathered to an index. A field that at least half of the samples have is an array;
 * samples that lack one are left out and counted. Samples keep the order in which their first
 * members lie, shard after shard.
 *
 * Where nothing gives a label and all samples lie in folders, the folders are classes, numbered as
 * in a folder of pictures. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "data/tar/format.h"
#include "data/tar/tar.h"

/* Of a packed shard: a window must hold it, and a small file can unpack to anything. */
static const uint64_t MOST_SAMPLE = 256u << 20;

typedef struct build {
  ull_source *source;
  ull__tar_gather *gather;
  int chosen[ULL__TAR_ARRAYS]; /* place among the index's arrays, or -1 */
  uint32_t array_count;
  ull__tar_array arrays[ULL__TAR_ARRAYS];
  bool labels;
  ull__tar_slot *slots; /* [groups, array_count] */
  uint8_t *samples;
  uint64_t stride, sample_count;
  int64_t *label_values;
  ULL__VECTOR(uint32_t) classes;
  ULL__VECTOR(ull__tar_window) windows;
  uint64_t incomplete, doubled;
  uint32_t incomplete_key, unread, doubled_names;
} build;

static const char *text_at(const ull__tar_gather *gather, uint32_t at) {
  return gather->texts.items + at;
}

static bool is_common(const build *build, uint64_t samples) {
  return samples > 0 && samples >= (build->gather->groups.count + 1) / 2;
}

static ull_status nothing_is_read(const build *build) {
  const ull__tar_gather *gather = build->gather;
  ULL__FAIL(ULL_ERROR_DATA, "%s: holds no field that is read%s%s", gather->what,
            gather->fields.count > 0 ? ", such as " : "",
            gather->fields.count > 0 ? gather->fields.items[0].name : "");
  ull__error_holder("%s", gather->what);
  return ull__error_change("fields that are read: jpg, jpeg, png, webp, cls, json, npy");
}

/* Pictures first, then masks, then elements. */
static ull_status choose_arrays(build *build) {
  static const ull_array_content order[] = {ULL_CONTENT_IMAGE, ULL_CONTENT_MASK,
                                            ULL_CONTENT_ELEMENTS};
  const ull__tar_gather *gather = build->gather;
  for (size_t o = 0; o < sizeof order / sizeof order[0]; o++) {
    for (int a = 0; a < gather->array_count; a++) {
      if (gather->arrays[a].content != (uint32_t)order[o]) continue;
      build->chosen[a] = is_common(build, gather->array_samples[a]) ? (int)build->array_count : -1;
      if (build->chosen[a] >= 0) build->arrays[build->array_count++] = gather->arrays[a];
    }
  }
  build->labels = is_common(build, gather->labels);
  return build->array_count > 0 ? ULL_OK : nothing_is_read(build);
}

static bool field_is_read(const build *build, const ull__tar_field *field) {
  if (field->array >= 0) return build->chosen[field->array] >= 0;
  return field->array != ULL__FIELD_UNREAD && build->labels;
}

static ull_status list_unread(build *build) {
  char list[512] = "";
  size_t used = 0;
  for (size_t i = 0; i < build->gather->fields.count && used + 80 < sizeof list; i++) {
    const ull__tar_field *field = &build->gather->fields.items[i];
    if (!field_is_read(build, field))
      used +=
          (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", field->name);
  }
  return ull__tar_gather_text(build->gather, list, &build->unread);
}

/* ---- classes from folders ---- */

/* Bytes of the folders that all keys share, slash included. */
static size_t common_folder(const ull__tar_gather *gather) {
  const char *first = text_at(gather, gather->groups.items[0].key);
  const char *slash = strrchr(first, '/');
  size_t common = slash != NULL ? (size_t)(slash - first) + 1 : 0;
  for (size_t g = 1; g < gather->groups.count && common > 0; g++) {
    const char *key = text_at(gather, gather->groups.items[g].key);
    size_t same = 0;
    while (same < common && key[same] == first[same]) same++;
    while (same > 0 && first[same - 1] != '/') same--;
    common = same;
  }
  return common;
}

static int by_text(const void *a, const void *b, void *context) {
  const ull__tar_gather *gather = context;
  return strcmp(text_at(gather, *(const uint32_t *)a), text_at(gather, *(const uint32_t *)b));
}

/* Gives every group the place of its folder's name in `map`; false where one has no folder. */
static ull_status name_classes(build *build, size_t common, ull__text_map *map, bool *all) {
  ull__tar_gather *gather = build->gather;
  char name[ULL__TAR_NAME];
  *all = true;
  for (size_t g = 0; g < gather->groups.count; g++) {
    const char *key = text_at(gather, gather->groups.items[g].key) + common;
    const char *slash = strchr(key, '/');
    if (slash == NULL) {
      *all = false;
      return ULL_OK;
    }
    snprintf(name, sizeof name, "%.*s", (int)(slash - key), key);
    const uint64_t *known = ull__text_map_find(map, name);
    uint64_t number = known != NULL ? *known : map->count;
    if (known == NULL) {
      uint32_t at;
      ULL__TRY(ull__text_map_put(map, name, number));
      ULL__TRY(ull__tar_gather_text(gather, name, &at));
      ULL__TRY(ull__vector_push(&build->classes, at));
    }
    gather->groups.items[g].label = (int64_t)number;
  }
  return ULL_OK;
}

/* From the order in which classes were met to the order of their names. */
static ull_status number_classes(build *build, ull__text_map *map) {
  ull__tar_gather *gather = build->gather;
  size_t count = build->classes.count;
  int64_t *places = ull__alloc(count + 1, sizeof *places);
  if (places == NULL) return ull_error_last()->status;
  qsort_r(build->classes.items, count, sizeof build->classes.items[0], by_text, gather);
  for (size_t c = 0; c < count; c++)
    places[*ull__text_map_find(map, text_at(gather, build->classes.items[c]))] = (int64_t)c;
  for (size_t g = 0; g < gather->groups.count; g++) {
    gather->groups.items[g].label = places[gather->groups.items[g].label];
    gather->groups.items[g].has_label = true;
  }
  ull__free(places);
  build->labels = true;
  return ULL_OK;
}

static ull_status classes_from_folders(build *build) {
  bool has_pictures = build->arrays[0].content == ULL_CONTENT_IMAGE;
  if (build->labels || !has_pictures) return ULL_OK;
  ull__text_map map = {0};
  bool all;
  ull_status status = name_classes(build, common_folder(build->gather), &map, &all);
  if (status == ULL_OK && all)
    status = number_classes(build, &map);
  else
    build->classes.count = 0;
  ull__text_map_free(&map);
  return status;
}

/* ---- samples ---- */

/* 1.jpg and 1.png: two members for one place. */
static ull_status note_doubled(build *build, const ull__tar_part *part,
                               const ull__tar_slot *before) {
  const ull__tar_gather *gather = build->gather;
  if (build->doubled++ > 0) return ULL_OK;
  const char *key = text_at(gather, gather->groups.items[part->group].key);
  char *names = ull__format("%s.%s and %s.%s", key, text_at(gather, before->field), key,
                            text_at(gather, part->slot.field));
  if (names == NULL) return ull_error_last()->status;
  ull_status status = ull__tar_gather_text(build->gather, names, &build->doubled_names);
  ull__free(names);
  return status;
}

static ull_status place_slots(build *build) {
  const ull__tar_gather *gather = build->gather;
  uint64_t count;
  ULL__TRY(ull__size_mul(gather->groups.count, build->array_count, "an index", &count));
  build->slots = ull__alloc(count + 1, sizeof *build->slots);
  if (build->slots == NULL) return ull_error_last()->status;
  memset(build->slots, 0xff, count * sizeof *build->slots);
  for (size_t i = 0; i < gather->parts.count; i++) {
    const ull__tar_part *part = &gather->parts.items[i];
    int place = build->chosen[part->array];
    if (place < 0) continue;
    ull__tar_slot *slot =
        &build->slots[(uint64_t)part->group * build->array_count + (uint64_t)place];
    if (slot->block != UINT32_MAX) ULL__TRY(note_doubled(build, part, slot));
    *slot = part->slot;
  }
  return ULL_OK;
}

static bool is_complete(const build *build, size_t group) {
  if (build->labels && !build->gather->groups.items[group].has_label) return false;
  const ull__tar_slot *slots = build->slots + group * build->array_count;
  for (uint32_t a = 0; a < build->array_count; a++) {
    if (slots[a].block == UINT32_MAX) return false;
  }
  return true;
}

static ull_status write_samples(build *build) {
  ull__tar_gather *gather = build->gather;
  size_t count = gather->groups.count, slot_bytes = build->array_count * sizeof(ull__tar_slot);
  build->stride = sizeof(ull__tar_sample) + slot_bytes;
  build->samples = ull__alloc(count + 1, build->stride);
  build->label_values = ull__alloc(count + 1, sizeof *build->label_values);
  if (build->samples == NULL || build->label_values == NULL) return ull_error_last()->status;
  size_t shard = 0;
  for (size_t g = 0; g < count; g++) {
    const ull__tar_group *group = &gather->groups.items[g];
    while (shard <= group->shard) gather->shards.items[shard++].first_sample = build->sample_count;
    if (!is_complete(build, g)) {
      if (build->incomplete++ == 0) build->incomplete_key = group->key;
      continue;
    }
    ull__tar_sample sample = {.shard = group->shard, .key = group->key};
    uint8_t *to = build->samples + build->sample_count * build->stride;
    memcpy(to, &sample, sizeof sample);
    memcpy(to + sizeof sample, build->slots + g * build->array_count, slot_bytes);
    build->label_values[build->sample_count++] = group->label;
  }
  while (shard < gather->shards.count)
    gather->shards.items[shard++].first_sample = build->sample_count;
  return ULL_OK;
}

/* ---- windows ---- */

static void span_of(const build *build, uint64_t sample, uint32_t *shard, uint64_t *begin,
                    uint64_t *end) {
  ull__tar_sample about;
  const uint8_t *from = build->samples + sample * build->stride;
  memcpy(&about, from, sizeof about);
  *shard = about.shard;
  *begin = UINT64_MAX;
  *end = 0;
  for (uint32_t a = 0; a < build->array_count; a++) {
    ull__tar_slot slot;
    memcpy(&slot, from + sizeof about + a * sizeof slot, sizeof slot);
    uint64_t at = (uint64_t)slot.block * ULL__TAR_BLOCK;
    if (at < *begin) *begin = at;
    if (at + slot.bytes > *end) *end = at + slot.bytes;
  }
}

static ull_status too_large(const build *build, uint64_t sample, uint64_t bytes) {
  ull__tar_sample about;
  memcpy(&about, build->samples + sample * build->stride, sizeof about);
  ULL__FAIL(ULL_ERROR_DOES_NOT_FIT, "%s: sample '%s' takes %" PRIu64 " bytes of a packed shard",
            build->gather->what, text_at(build->gather, about.key), bytes);
  ull__error_holder("%s", text_at(build->gather, about.key));
  ull__error_bytes(bytes, MOST_SAMPLE);
  return ull__error_change("unpack the shard: it is then read in place");
}

/* As many samples as fit into a window, one at least. */
static ull_status divide_into_windows(build *build, uint64_t window_bytes) {
  ull__tar_window window = {0};
  for (uint64_t s = 0; s < build->sample_count; s++) {
    uint32_t shard;
    uint64_t begin, end;
    span_of(build, s, &shard, &begin, &end);
    if (end - begin > MOST_SAMPLE) return too_large(build, s, end - begin);
    bool joins = window.samples > 0 && shard == window.shard && begin >= window.begin &&
                 end - window.begin <= window_bytes;
    if (!joins) {
      if (window.samples > 0) ULL__TRY(ull__vector_push(&build->windows, window));
      window = (ull__tar_window){.first_sample = s, .begin = begin, .shard = shard};
    }
    window.samples++;
    if (end - window.begin > window.bytes) window.bytes = end - window.begin;
  }
  return window.samples > 0 ? ull__vector_push(&build->windows, window) : ULL_OK;
}

/* ---- the block ---- */

static ull_status make(const build *build, const ull_source_options *options, const char *place,
                       ull__index *index) {
  const ull__tar_gather *gather = build->gather;
  ull__index_parts parts = {0};
  parts.numbers[ULL__TAR_INCOMPLETE] = build->incomplete;
  parts.numbers[ULL__TAR_INCOMPLETE_KEY] = build->incomplete_key;
  parts.numbers[ULL__TAR_REGROUPED] = gather->regrouped;
  parts.numbers[ULL__TAR_CUT_COUNT] = gather->cut_count;
  parts.numbers[ULL__TAR_CUT_SHARD] = gather->cut_shard;
  parts.numbers[ULL__TAR_CUT_AT] = gather->cut_at;
  parts.numbers[ULL__TAR_UNREAD] = build->unread;
  parts.numbers[ULL__TAR_PACKED] = gather->packed;
  parts.numbers[ULL__TAR_DOUBLED] = build->doubled;
  parts.numbers[ULL__TAR_DOUBLED_NAMES] = build->doubled_names;
#define PART(section, from, count_of, size) \
  parts.sections[section].data = (from);    \
  parts.sections[section].bytes = (count_of) * (size)
  PART(ULL__TAR_SHARDS, gather->shards.items, gather->shards.count, sizeof(ull__tar_shard));
  PART(ULL__TAR_SAMPLES, build->samples, build->sample_count, build->stride);
  PART(ULL__TAR_LABELS, build->label_values, build->labels ? build->sample_count : 0,
       sizeof(int64_t));
  PART(ULL__TAR_ARRAY_TABLE, build->arrays, build->array_count, sizeof(ull__tar_array));
  PART(ULL__TAR_TEXTS, gather->texts.items, gather->texts.count, 1);
  PART(ULL__TAR_WINDOWS, build->windows.items, build->windows.count, sizeof(ull__tar_window));
  PART(ULL__TAR_CLASSES, build->classes.items, build->classes.count, sizeof(uint32_t));
#undef PART
  return ull__index_make(build->source, options, place, ULL__TAR_VERSION, &parts, index);
}

static ull_status fill(build *build, uint64_t window_bytes) {
  if (build->gather->groups.count == 0) return nothing_is_read(build);
  ULL__TRY(choose_arrays(build));
  ULL__TRY(list_unread(build));
  ULL__TRY(classes_from_folders(build));
  ULL__TRY(place_slots(build));
  ULL__TRY(write_samples(build));
  return build->gather->packed ? divide_into_windows(build, window_bytes) : ULL_OK;
}

ull_status ull__tar_index(ull_source *source, const ull_source_options *options,
                          ull__tar_gather *gather, uint64_t window_bytes, const char *place,
                          ull__index *index) {
  build build = {.source = source, .gather = gather};
  ull_status status = fill(&build, window_bytes);
  if (status == ULL_OK) status = make(&build, options, place, index);
  ull__free(build.slots);
  ull__free(build.samples);
  ull__free(build.label_values);
  ull__vector_free(&build.classes);
  ull__vector_free(&build.windows);
  return status;
}
