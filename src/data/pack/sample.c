/* Pictures come from records, which stay open until they are copied; everything else becomes a few
 * bytes of its own: a class as text, other arrays as NPY. */
#include "data/pack/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "data/folder/tree.h"
#include "data/pack/npy_member.h"

enum { COPY_BYTES = 256 * 1024 };

/* ---- what a source may hold ---- */

static bool is_label(const ull_array_info *info) {
  bool integer = info->dtype == ULL_INT64 || info->dtype == ULL_INT32 || info->dtype == ULL_UINT8;
  return integer && info->rank == 0 && strcmp(info->name, "label") == 0;
}

static ull_status cannot_hold(const ull_source *source, const ull_array_info *info,
                              const char *why) {
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: array '%s' cannot be packed: %s", source->text, info->name,
            why);
  return ull__error_holder("array '%s'", info->name);
}

static ull_status check_array(const ull_source *source, const ull_array_info *info) {
  if (strpbrk(info->name, "./") != NULL || strlen(info->name) > ULL__PACK_SUFFIX - 8)
    return cannot_hold(source, info, "its name is none that a shard's field can have");
  if (info->content != ULL_CONTENT_ELEMENTS || is_label(info)) return ULL_OK;
  if (strcmp(info->name, "label") == 0)
    return cannot_hold(source, info, "a label is one whole number");
  if (ull__npy_member_descriptor(info->dtype) == NULL)
    return cannot_hold(source, info, "NPY has no such dtype");
  return ULL_OK;
}

ull_status ull__pack_check_source(const ull_source *source) {
  bool pictures = false;
  for (size_t i = 0; i < source->array_count; i++) {
    ULL__TRY(check_array(source, &source->arrays[i]));
    pictures |= source->arrays[i].content != ULL_CONTENT_ELEMENTS;
  }
  if (pictures) return ULL_OK;
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has no encoded pictures to pack", source->text);
  return ull__error_change("pack a folder, csv: or tar: of pictures; arrays are fast as they are");
}

/* ---- keys ---- */

/* What a number in front of an earlier pack's key takes, so that packing a pack changes nothing. */
static size_t skip_number(const char *name) {
  return strspn(name, "0123456789") == 9 && name[9] == '-' && name[10] != '\0' ? 10 : 0;
}

static bool may_stand(unsigned char c) {
  return c >= 0x80 || (c > ' ' && c != 0x7F && strchr("./\\:", c) == NULL);
}

void ull__pack_key(const ull_source *source, uint64_t sample, char key[ULL__PACK_KEY]) {
  char name[ULL__RECORD_PATH_BYTES];
  ull_source_sample_name(source, sample, name, sizeof name);
  const char *base = strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name;
  bool shard = strcmp(source->kind->scheme, "tar") == 0;
  if (shard && strrchr(base, ':') != NULL) base = strrchr(base, ':') + 1;
  base += skip_number(base);
  size_t length = strlen(base);
  if (ull__is_picture_name(base)) length = (size_t)(strrchr(base, '.') - base);
  int used = snprintf(key, ULL__PACK_KEY, "%09" PRIu64 "-", sample);
  size_t room = ULL__PACK_KEY - (size_t)used - 1;
  if (length > room) length = room;
  memcpy(key + used, base, length);
  key[(size_t)used + length] = '\0';
  for (char *c = key + used; *c != '\0';) {
    size_t character = may_stand((unsigned char)*c) ? ull__utf8_length(c) : 0;
    if (character == 0) *c = '_';
    c += character > 0 ? character : 1;
  }
}

/* ---- fields ---- */

ull_status ull__pack_sample_create(const ull_source *source, ull__pack_sample *sample) {
  *sample = (ull__pack_sample){.reason = ""};
  sample->fields = ull__alloc(source->array_count, sizeof *sample->fields);
  return sample->fields != NULL ? ULL_OK : ull_error_last()->status;
}

void ull__pack_sample_clear(const ull_source *source, ull__pack_sample *sample) {
  for (size_t i = 0; sample->fields != NULL && i < source->array_count; i++) {
    ull__pack_field *field = &sample->fields[i];
    if (field->open) ull__source_close_record(source, &field->record);
    ull__free(field->bytes);
    field->bytes = NULL;
    field->open = field->picture = field->encoded = false;
    field->count = 0;
  }
}

void ull__pack_sample_destroy(const ull_source *source, ull__pack_sample *sample) {
  ull__pack_sample_clear(source, sample);
  ull__free(sample->fields);
  sample->fields = NULL;
}

/* By the content; of what is no picture, by the name. */
static const char *ending_of(const ull__pack_field *field, const ull__image_info *info) {
  static const char *const by_format[] = {
      [ULL__IMAGE_JPEG] = "jpg", [ULL__IMAGE_PNG] = "png", [ULL__IMAGE_WEBP] = "webp"};
  if (info->format != ULL__IMAGE_UNKNOWN) return by_format[info->format];
  const char *dot = strrchr(field->record.path, '.');
  if (dot != NULL && strcasecmp(dot, ".png") == 0) return "png";
  return dot != NULL && strcasecmp(dot, ".webp") == 0 ? "webp" : "jpg";
}

static void name_field(ull__pack_field *field, const ull_array_info *info, const char *ending) {
  if (info->content == ULL_CONTENT_IMAGE && strcmp(info->name, "image") == 0)
    snprintf(field->suffix, sizeof field->suffix, "%s", ending);
  else
    snprintf(field->suffix, sizeof field->suffix, "%s.%s", info->name, ending);
}

/* Memory of the source's is a window that others wait for: it is copied and given back. */
static ull_status detach(const ull_source *source, ull__pack_field *field) {
  ull__record *record = &field->record;
  if (record->memory == NULL) return ULL_OK;
  uint8_t *copy = ull__alloc(record->bytes, 1);
  if (copy == NULL) return ull_error_last()->status;
  if (record->bytes > 0) memcpy(copy, record->memory, record->bytes);
  field->bytes = copy;
  field->count = record->bytes;
  ull__source_close_record(source, record);
  field->open = false;
  record->memory = copy;
  record->descriptor = -1;
  record->hold = NULL;
  return ULL_OK;
}

static void note(ull__pack_sample *sample, ull_verdict verdict, const char *reason) {
  if (verdict <= sample->verdict) return;
  sample->verdict = verdict;
  sample->reason = reason;
}

static ull_status open_field(const ull_source *source, uint64_t stored, size_t array,
                             ull__pack_sample *sample) {
  ull__pack_field *field = &sample->fields[array];
  field->record.descriptor = -1;
  field->record.owns_descriptor = false;
  field->record.memory = NULL;
  field->record.hold = NULL;
  ull_status status = source->kind->open_record(source, stored, array, &field->record);
  field->open = status == ULL_OK;
  field->picture = true;
  if (status != ULL_OK) {
    note(sample, ULL_VERDICT_UNREADABLE, "cannot be opened");
    return status;
  }
  sample->bytes_in += field->record.bytes;
  return detach(source, field);
}

static void keep_encoded(const ull_source *source, ull__pack_field *field,
                         ull__pack_picture *picture) {
  if (picture->encoded.bytes == NULL) return;
  if (field->open) ull__source_close_record(source, &field->record);
  ull__free(field->bytes);
  field->open = false;
  field->bytes = picture->encoded.bytes;
  field->count = picture->encoded.count;
  field->encoded = true;
  picture->encoded = (ull_encoded){0};
}

/* The picture that leads a sample, and how far the sample is. */
typedef struct making {
  const ull_source *source;
  ull__pack_shrinker *shrinker;
  ull__pack_sample *sample;
  ull__pack_picture pictures[ULL_DATA_MAX_ARRAYS];
  const ull__pack_picture *lead;
} making;

static ull_status look_at(making *m, size_t array) {
  static const ull__pack_picture as_it_is = {.info = {.reason = ""}};
  const ull_array_info *info = &m->source->arrays[array];
  ull__pack_field *field = &m->sample->fields[array];
  ull__pack_picture *picture = &m->pictures[array];
  if (info->content == ULL_CONTENT_IMAGE)
    ULL__TRY(ull__pack_shrink(m->shrinker, &field->record, picture));
  else
    ULL__TRY(ull__pack_shrink_mask(m->shrinker, &field->record,
                                   m->lead != NULL ? m->lead : &as_it_is, picture));
  if (m->lead == NULL && info->content == ULL_CONTENT_IMAGE) m->lead = picture;
  note(m->sample, picture->info.verdict, picture->info.reason);
  return ULL_OK;
}

/* A sample is shrunk as a whole or taken as it is. */
static void settle(making *m) {
  bool bad = ull_verdict_is_bad(m->sample->verdict);
  for (size_t i = 0; i < m->source->array_count; i++) {
    const ull_array_info *info = &m->source->arrays[i];
    ull__pack_field *field = &m->sample->fields[i];
    if (info->content == ULL_CONTENT_ELEMENTS) continue;
    const char *ending = ending_of(field, &m->pictures[i].info);
    if (!bad && m->pictures[i].encoded.bytes != NULL)
      ending = info->content == ULL_CONTENT_IMAGE ? "jpg" : "png";
    name_field(field, info, ending);
    if (!bad) keep_encoded(m->source, field, &m->pictures[i]);
  }
}

static ull_status make_pictures(making *m, uint64_t stored) {
  static const ull_array_content passes[] = {ULL_CONTENT_IMAGE, ULL_CONTENT_MASK};
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < m->source->array_count; i++) {
      if (m->source->arrays[i].content != passes[pass]) continue;
      ULL__TRY(open_field(m->source, stored, i, m->sample));
      ULL__TRY(look_at(m, i));
    }
  }
  settle(m);
  return ULL_OK;
}

static int64_t label_of(ull_dtype dtype, const void *element) {
  if (dtype == ULL_INT64) return *(const int64_t *)element;
  return dtype == ULL_INT32 ? *(const int32_t *)element : *(const uint8_t *)element;
}

static ull_status make_label(const ull_source *source, uint64_t number, size_t array,
                             ull__pack_field *field) {
  const ull_array_info *info = &source->arrays[array];
  int64_t element = 0; /* aligned for every integer */
  ULL__TRY(ull_source_read(source, number, array, &element, NULL));
  char *text = ull__format("%" PRId64, label_of(info->dtype, &element));
  if (text == NULL) return ull_error_last()->status;
  field->bytes = (uint8_t *)text;
  field->count = strlen(text);
  strcpy(field->suffix, "cls");
  return ULL_OK;
}

static ull_status make_elements(const ull_source *source, uint64_t number,
                                ull__pack_sample *sample) {
  for (size_t i = 0; i < source->array_count; i++) {
    const ull_array_info *info = &source->arrays[i];
    ull__pack_field *field = &sample->fields[i];
    if (info->content != ULL_CONTENT_ELEMENTS) continue;
    if (is_label(info)) {
      ULL__TRY(make_label(source, number, i, field));
    } else {
      name_field(field, info, "npy");
      ULL__TRY(ull__npy_member(source, number, i, &field->bytes, &field->count));
    }
  }
  return ULL_OK;
}

ull_status ull__pack_sample_make(const ull_source *source, uint64_t number, bool may_skip,
                                 ull__pack_shrinker *shrinker, ull__pack_sample *sample) {
  making *m = ull__alloc(1, sizeof *m);
  if (m == NULL) return ull_error_last()->status;
  *m = (making){.source = source, .shrinker = shrinker, .sample = sample};
  sample->verdict = ULL_VERDICT_OK;
  sample->reason = "";
  sample->bytes_in = 0;
  ull__pack_key(source, number, sample->key);
  ull_status status = make_pictures(m, ull__source_stored_index(source, number));
  for (size_t i = 0; i < source->array_count; i++) ull_encoded_free(&m->pictures[i].encoded);
  ull__free(m);
  bool left_out =
      may_skip && sample->verdict == ULL_VERDICT_UNREADABLE && status != ULL_ERROR_OUT_OF_MEMORY;
  if (left_out) {
    ull_error_clear();
    return ULL_OK;
  }
  if (sample->verdict == ULL_VERDICT_UNREADABLE)
    return ull__error_change("restore the file, or leave it out with --on-bad skip");
  return status == ULL_OK ? make_elements(source, number, sample) : status;
}

/* ---- into the shard ---- */

static uint64_t field_bytes(const ull__pack_field *field) {
  return field->open ? field->record.bytes : field->count;
}

static void member_name(const ull__pack_sample *sample, size_t field,
                        char name[ULL__PACK_KEY + ULL__PACK_SUFFIX]) {
  snprintf(name, ULL__PACK_KEY + ULL__PACK_SUFFIX, "%s.%s", sample->key,
           sample->fields[field].suffix);
}

uint64_t ull__pack_sample_bytes(const ull_source *source, const ull__pack_sample *sample) {
  char name[ULL__PACK_KEY + ULL__PACK_SUFFIX];
  uint64_t bytes = 0;
  for (size_t i = 0; i < source->array_count; i++) {
    member_name(sample, i, name);
    bytes += ull__tar_writer_member_bytes(name, field_bytes(&sample->fields[i]));
  }
  return bytes;
}

static ull_status copy_record(const ull__record *record, ull__tar_writer *tar, uint8_t *buffer) {
  for (uint64_t at = 0; at < record->bytes;) {
    uint64_t left = record->bytes - at;
    size_t want = left < COPY_BYTES ? (size_t)left : COPY_BYTES, got;
    ULL__TRY(ull__record_read(record, at, buffer, want, &got));
    if (got < want) {
      ULL__FAIL(ULL_ERROR_DATA, "%s: has become shorter while it was packed", record->path);
      return ull__error_holder("%s", record->path);
    }
    ULL__TRY(ull__tar_writer_add(tar, buffer, got));
    at += got;
  }
  return ULL_OK;
}

static ull_status write_field(const ull__pack_field *field, ull__tar_writer *tar, uint8_t *buffer) {
  if (field->open) return copy_record(&field->record, tar, buffer);
  return ull__tar_writer_add(tar, field->bytes, (size_t)field->count);
}

ull_status ull__pack_sample_write(const ull_source *source, const ull__pack_sample *sample,
                                  ull__tar_writer *tar) {
  char name[ULL__PACK_KEY + ULL__PACK_SUFFIX];
  uint8_t *buffer = ull__alloc(COPY_BYTES, 1);
  ull_status status = buffer != NULL ? ULL_OK : ull_error_last()->status;
  for (size_t i = 0; i < source->array_count && status == ULL_OK; i++) {
    const ull__pack_field *field = &sample->fields[i];
    member_name(sample, i, name);
    status = ull__tar_writer_member(tar, name, field_bytes(field));
    if (status == ULL_OK) status = write_field(field, tar, buffer);
  }
  ull__free(buffer);
  return status;
}
