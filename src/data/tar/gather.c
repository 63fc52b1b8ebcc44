/* One pass over the headers of every shard, in the order of the shards' paths. Of a plain shard
 * only headers are read, with the block behind each, in which small fields such as a label lie. A
 * shard that ends early, or is damaged, gives what lies whole before that. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "data/tar/format.h"
#include "data/tar/tar.h"

enum { JSON_MOST = 1 << 20, FIELDS_MOST = 4096 };

ull_status ull__tar_gather_text(ull__tar_gather *gather, const char *text, uint32_t *at) {
  return ull__index_add_text(&gather->texts, gather->what, text, strlen(text), at);
}

void ull__tar_gather_free(ull__tar_gather *gather) {
  ull__vector_free(&gather->shards);
  ull__vector_free(&gather->groups);
  ull__vector_free(&gather->parts);
  ull__vector_free(&gather->texts);
  ull__vector_free(&gather->fields);
  ull__text_map_free(&gather->field_numbers);
}

typedef struct shard_pass {
  ull__tar_gather *gather;
  ull__shard_stream *stream;
  ull__tar_reader *reader;
  const char *path;
  uint32_t shard;
  ull__text_map keys; /* of this shard: key to group */
  bool has_group;
  uint32_t group; /* of the member before */
  ull__tar_member member;
  char key[ULL__TAR_NAME];
  char field[ULL__TAR_ARRAY_NAME];
} shard_pass;

/* Splits the member's name; false for what belongs to no sample. */
static bool split_name(shard_pass *pass) {
  const char *name = pass->member.name;
  while (name[0] == '.' && name[1] == '/') name += 2;
  const char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name;
  const char *dot = strchr(base, '.');
  if (dot == NULL || dot == base || dot[1] == '\0') return false;
  if (dot - base >= 4 && memcmp(base, "__", 2) == 0 && memcmp(dot - 2, "__", 2) == 0) return false;
  if (strlen(dot + 1) >= sizeof pass->field) return false;
  memcpy(pass->key, name, (size_t)(dot - name));
  pass->key[dot - name] = '\0';
  size_t i = 0;
  for (dot++; *dot != '\0'; dot++)
    pass->field[i++] = (char)(*dot >= 'A' && *dot <= 'Z' ? *dot + ('a' - 'A') : *dot);
  pass->field[i] = '\0';
  return true;
}

/* ---- fields ---- */

static int find_array(ull__tar_gather *gather, const char *name, uint32_t content) {
  for (int i = 0; i < gather->array_count; i++) {
    if (strcmp(gather->arrays[i].name, name) == 0)
      return gather->arrays[i].content == content ? i : ULL__FIELD_UNREAD;
  }
  if (gather->array_count == ULL__TAR_ARRAYS) return ULL__FIELD_UNREAD;
  ull__tar_array *array = &gather->arrays[gather->array_count];
  *array = (ull__tar_array){.content = content, .dtype = UINT32_MAX};
  snprintf(array->name, sizeof array->name, "%s", name);
  return gather->array_count++;
}

static ull_status find_field(shard_pass *pass, uint64_t *number) {
  ull__tar_gather *gather = pass->gather;
  const uint64_t *known = ull__text_map_find(&gather->field_numbers, pass->field);
  if (known != NULL) {
    *number = *known;
    return ULL_OK;
  }
  if (gather->fields.count == FIELDS_MOST) {
    *number = FIELDS_MOST - 1; /* a shard of single files, not of samples */
    return ULL_OK;
  }
  ull__tar_field field = {0};
  char name[ULL__TAR_ARRAY_NAME];
  uint32_t content;
  snprintf(field.name, sizeof field.name, "%s", pass->field);
  field.array = ull__tar_field_content(field.name, name, &content);
  if (field.array >= 0) field.array = find_array(gather, name, content);
  ULL__TRY(ull__tar_gather_text(gather, field.name, &field.text));
  *number = gather->fields.count;
  ULL__TRY(ull__text_map_put(&gather->field_numbers, field.name, *number));
  return ull__vector_push(&gather->fields, field);
}

static bool take_whole(const json_t *number, int64_t *out) {
  double value = json_is_real(number) ? json_real_value(number) : 0.5;
  if (!(fabs(value) <= 0x1p53) || value != floor(value)) return false;
  *out = (int64_t)value;
  return true;
}

static ull_status read_json_label(shard_pass *pass, bool *has_label, int64_t *label) {
  uint64_t bytes = pass->member.bytes;
  size_t got;
  if (bytes > JSON_MOST) return ULL_OK;
  char *text = ull__alloc(bytes + 1, 1);
  if (text == NULL) return ull_error_last()->status;
  ull_status status = ull__tar_content(pass->reader, &pass->member, text, (size_t)bytes, &got);
  json_t *value = NULL;
  if (status == ULL_OK && ull__json_parse_data(text, got, pass->path, &value) != ULL_OK) {
    status = ull_error_last()->status == ULL_ERROR_OUT_OF_MEMORY ? ULL_ERROR_OUT_OF_MEMORY : ULL_OK;
    value = NULL;
  }
  ull__free(text);
  *has_label = take_whole(json_object_get(value, "label"), label) ||
               take_whole(json_object_get(value, "cls"), label);
  json_decref(value);
  return status;
}

static ull_status take_label(shard_pass *pass, bool json) {
  bool has_label = false;
  int64_t label = 0;
  if (json)
    ULL__TRY(read_json_label(pass, &has_label, &label));
  else if (pass->member.bytes == pass->member.begin_bytes)
    has_label =
        ull__tar_parse_integer((const char *)pass->member.begin, pass->member.begin_bytes, &label);
  ull__tar_group *group = &pass->gather->groups.items[pass->group];
  /* "cls" goes before "json", whichever comes first. */
  if (!has_label || (json && group->has_label)) return ULL_OK;
  pass->gather->labels += !group->has_label;
  group->has_label = true;
  group->label = label;
  return ULL_OK;
}

/* The header of an NPY member, from memory. */
typedef struct memory_reader {
  const uint8_t *bytes;
  size_t count, used;
} memory_reader;

static ull_status read_memory(void *context, void *to, uint64_t count) {
  memory_reader *reader = context;
  if (count > reader->count - reader->used)
    return ULL__FAIL(ULL_ERROR_DATA, "an NPY header that is cut");
  memcpy(to, reader->bytes + reader->used, (size_t)count);
  reader->used += (size_t)count;
  return ULL_OK;
}

/* Whether the member holds what the array's first one held. */
static bool fits_elements(ull__tar_array *array, const ull__tar_member *member) {
  memory_reader reader = {.bytes = member->begin, .count = member->begin_bytes};
  ull__npy_header header;
  if (ull__npy_read_header(read_memory, &reader, array->name, &header) != ULL_OK ||
      header.rank > ULL_DATA_MAX_RANK || header.header_bytes + header.data_bytes != member->bytes) {
    ull_error_clear();
    return false;
  }
  if (array->dtype == UINT32_MAX) {
    array->dtype = (uint32_t)header.dtype;
    array->rank = header.rank;
    memcpy(array->shape, header.shape, sizeof array->shape);
  }
  return array->dtype == (uint32_t)header.dtype && array->rank == header.rank &&
         memcmp(array->shape, header.shape, (size_t)array->rank * sizeof array->shape[0]) == 0;
}

static ull_status take_part(shard_pass *pass, const ull__tar_field *field) {
  ull__tar_gather *gather = pass->gather;
  int array = field->array;
  uint64_t block = pass->member.offset / ULL__TAR_BLOCK;
  if (block > UINT32_MAX || pass->member.bytes > UINT32_MAX) {
    ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: '%s' lies beyond 2 TiB or has more than 4 GiB",
              pass->path, pass->member.name);
    return ull__error_holder("%s", pass->path);
  }
  if (gather->arrays[array].content == ULL_CONTENT_ELEMENTS &&
      !fits_elements(&gather->arrays[array], &pass->member))
    return ULL_OK;
  ull__tar_part part = {.group = pass->group, .array = (uint32_t)array};
  part.slot.block = (uint32_t)block;
  part.slot.bytes = (uint32_t)pass->member.bytes;
  part.slot.field = field->text;
  gather->array_samples[array]++;
  return ull__vector_push(&gather->parts, part);
}

/* ---- groups ---- */

static ull_status lies_apart(const shard_pass *pass) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: the members of '%s' do not lie together", pass->path, pass->key);
  ull__error_holder("%s", pass->path);
  return ull__error_change("unpack the shard, or write it with sorted names");
}

static ull_status find_group(shard_pass *pass) {
  ull__tar_gather *gather = pass->gather;
  if (pass->has_group &&
      strcmp(gather->texts.items + gather->groups.items[pass->group].key, pass->key) == 0)
    return ULL_OK;
  const uint64_t *known = ull__text_map_find(&pass->keys, pass->key);
  if (known != NULL) {
    if (ull__shard_stream_packing(pass->stream) != ULL__PLAIN) return lies_apart(pass);
    gather->regrouped++;
    pass->group = (uint32_t)*known;
    return ULL_OK;
  }
  if (gather->groups.count >= UINT32_MAX - 1)
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than 2^32 samples", gather->what);
  ull__tar_group group = {.shard = pass->shard};
  ULL__TRY(ull__tar_gather_text(gather, pass->key, &group.key));
  pass->group = (uint32_t)gather->groups.count;
  pass->has_group = true;
  ULL__TRY(ull__text_map_put(&pass->keys, pass->key, pass->group));
  return ull__vector_push(&gather->groups, group);
}

static ull_status take_member(shard_pass *pass) {
  uint64_t number;
  if (!pass->member.regular && !pass->member.indirect) return ULL_OK;
  if (!split_name(pass)) return ULL_OK;
  ULL__TRY(find_group(pass));
  if (pass->member.indirect) return ULL_OK; /* the sample lacks the field */
  ULL__TRY(find_field(pass, &number));
  ull__tar_field *field = &pass->gather->fields.items[number];
  field->samples++;
  if (field->array == ULL__FIELD_CLS || field->array == ULL__FIELD_JSON)
    return take_label(pass, field->array == ULL__FIELD_JSON);
  return field->array >= 0 ? take_part(pass, field) : ULL_OK;
}

/* ---- shards ---- */

static void note_end(shard_pass *pass, uint64_t last_end) {
  const ull__data_file *file = ull__shard_stream_file(pass->stream);
  const char *fault = ull__shard_stream_fault(pass->stream);
  ull__tar_end end = pass->reader->end;
  bool plain = ull__shard_stream_packing(pass->stream) == ULL__PLAIN;
  /* Of a plain file the last content may be cut without a header missing. */
  bool content_cut = plain && last_end > file->bytes;
  if (end == ULL__TAR_ENDED && fault == NULL && !content_cut) return;
  if (pass->gather->cut_count++ > 0) return;
  pass->gather->cut_shard = pass->shard;
  pass->gather->cut_at =
      plain ? (content_cut ? file->bytes : pass->reader->at) : ull__shard_stream_at(pass->stream);
}

/* What a packed shard promises beyond its end takes no place in a window. */
static void clip_last(const shard_pass *pass) {
  ull__tar_gather *gather = pass->gather;
  if (ull__shard_stream_packing(pass->stream) == ULL__PLAIN || gather->parts.count == 0) return;
  ull__tar_part *part = &gather->parts.items[gather->parts.count - 1];
  uint64_t begin = (uint64_t)part->slot.block * ULL__TAR_BLOCK;
  uint64_t end = ull__shard_stream_at(pass->stream);
  if (gather->groups.items[part->group].shard != pass->shard || begin + part->slot.bytes <= end)
    return;
  part->slot.bytes = begin < end ? (uint32_t)(end - begin) : 0;
}

static ull_status read_members(shard_pass *pass) {
  uint64_t last_end = 0;
  for (;;) {
    bool found;
    ULL__TRY(ull__tar_next(pass->reader, &pass->member, &found));
    if (!found) break;
    ULL__TRY(take_member(pass));
    last_end = pass->member.offset + pass->member.bytes;
  }
  note_end(pass, last_end);
  clip_last(pass);
  return ULL_OK;
}

static ull_status pass_shard(shard_pass *pass) {
  ull__tar_gather *gather = pass->gather;
  ull__tar_shard shard = {.first_sample = gather->groups.count};
  ULL__TRY(ull__shard_stream_open(pass->path, &pass->stream));
  struct stat about;
  if (fstat(ull__shard_stream_file(pass->stream)->descriptor, &about) != 0)
    return ULL__FAIL(ULL_ERROR_IO, "%s: cannot be inspected", pass->path);
  shard.stamp = ull__stamp_of(&about);
  shard.packing = (uint32_t)ull__shard_stream_packing(pass->stream);
  gather->packed |= shard.packing != ULL__PLAIN;
  pass->shard = (uint32_t)gather->shards.count;
  ULL__TRY(ull__tar_gather_text(gather, pass->path, &shard.path));
  ULL__TRY(ull__vector_push(&gather->shards, shard));
  pass->reader = ull__alloc(1, sizeof *pass->reader);
  if (pass->reader == NULL) return ull_error_last()->status;
  ull__tar_begin(pass->reader, ull__shard_stream_read, pass->stream);
  return read_members(pass);
}

ull_status ull__tar_gather_shards(ull__tar_gather *gather, const ull__paths *paths) {
  shard_pass *pass = ull__alloc(1, sizeof *pass);
  if (pass == NULL) return ull_error_last()->status;
  ull_status status = ULL_OK;
  for (size_t i = 0; i < paths->count && status == ULL_OK; i++) {
    *pass = (shard_pass){.gather = gather, .path = paths->items[i]};
    status = pass_shard(pass);
    ull__shard_stream_close(pass->stream);
    ull__free(pass->reader);
    ull__text_map_free(&pass->keys);
  }
  ull__free(pass);
  return status;
}
