/* Checking a header: every number in it is hostile until shown otherwise.
 *
 * The table is right when each tensor's bytes are exactly what its dtype and shape take, and the
 * tensors, sorted by offset, fill the data from its first to its last byte. */
#include "model/safetensors/header.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

typedef struct stored_type {
  const char *name;
  uint32_t bytes;
  ull_dtype dtype;
} stored_type;

static const stored_type stored_types[] = {
#define XX(name, text, bytes, safetensors) {safetensors, bytes, ULL_##name},
    ULL_DTYPE_MAP(XX)
#undef XX
        {"I8", 1, ULL_DTYPE_COUNT},
    {"I16", 2, ULL_DTYPE_COUNT},
    {"U16", 2, ULL_DTYPE_COUNT},
    {"U32", 4, ULL_DTYPE_COUNT},
    {"U64", 8, ULL_DTYPE_COUNT},
    {"C64", 8, ULL_DTYPE_COUNT},
    {"F8_E4M3", 1, ULL_DTYPE_COUNT},
    {"F8_E5M2", 1, ULL_DTYPE_COUNT},
    {"F8_E8M0", 1, ULL_DTYPE_COUNT},
};

static const stored_type *find_type(const char *name) {
  for (size_t i = 0; i < sizeof stored_types / sizeof *stored_types; i++) {
    if (strcmp(stored_types[i].name, name) == 0) return &stored_types[i];
  }
  return NULL;
}

#define REFUSE(path, ...) (ULL__FAIL(ULL_ERROR_DATA, __VA_ARGS__), ull__error_holder("%s", path))

static ull_status read_shape(const char *path, const json_t *list, ull__tensor_entry *entry) {
  const size_t rank = json_array_size(list);
  if (!json_is_array(list)) {
    return REFUSE(path, "%s: tensor %.128s has no shape", path, entry->name);
  }
  if (rank > ULL__MAX_RANK) {
    return REFUSE(path, "%s: tensor %.128s has %zu dimensions; at most %d are possible", path,
                  entry->name, rank, ULL__MAX_RANK);
  }
  entry->shape.rank = (uint32_t)rank;
  for (size_t i = 0; i < rank; i++) {
    const json_t *dim = json_array_get(list, i);
    if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
      return REFUSE(path, "%s: tensor %.128s has a bad dimension %zu", path, entry->name, i);
    }
    entry->shape.dims[i] = ull__dim_of(json_integer_value(dim));
  }
  return ULL_OK;
}

/* Begin and end inside the data. */
static ull_status read_offsets(const char *path, const json_t *pair, uint64_t data_bytes,
                               ull__tensor_entry *entry) {
  const json_t *from = json_array_get(pair, 0), *to = json_array_get(pair, 1);
  if (json_array_size(pair) != 2 || !json_is_integer(from) || !json_is_integer(to)) {
    return REFUSE(path, "%s: tensor %.128s has no pair of data_offsets", path, entry->name);
  }
  const int64_t begin = json_integer_value(from), end = json_integer_value(to);
  if (begin < 0 || end < begin) {
    return REFUSE(path, "%s: tensor %.128s lies from byte %lld to %lld", path, entry->name,
                  (long long)begin, (long long)end);
  }
  if ((uint64_t)end > data_bytes) {
    ULL__FAIL(ULL_ERROR_DATA, "%s is cut off: tensor %.128s ends at byte %lld of %llu", path,
              entry->name, (long long)end, (unsigned long long)data_bytes);
    ull__error_holder("%s", path);
    return ull__error_bytes((uint64_t)end, data_bytes);
  }
  entry->offset_bytes = (uint64_t)begin;
  entry->size_bytes = (uint64_t)(end - begin);
  return ULL_OK;
}

static ull_status check_size(const char *path, const stored_type *type,
                             const ull__tensor_entry *entry) {
  char shape[512];
  uint64_t elements = 0, bytes = 0;
  ull__shape_text(&entry->shape, shape, sizeof shape);
  if (ull__shape_count(&entry->shape, &elements) != ULL_OK ||
      ull__size_mul(elements, type->bytes, "tensor", &bytes) != ULL_OK) {
    return REFUSE(path, "%s: the size of tensor %.128s %.128s does not fit into 63 bits", path,
                  entry->name, shape);
  }
  if (bytes == entry->size_bytes) return ULL_OK;
  return REFUSE(path, "%s: tensor %.128s %s %.128s takes %llu bytes, its data_offsets give %llu",
                path, entry->name, type->name, shape, (unsigned long long)bytes,
                (unsigned long long)entry->size_bytes);
}

static ull_status read_entry(const char *path, const char *name, const json_t *object,
                             uint64_t data_bytes, ull__tensor_entry *entry) {
  *entry = (ull__tensor_entry){.name = name};
  const char *dtype = json_string_value(json_object_get(object, "dtype"));
  const stored_type *type = dtype != NULL ? find_type(dtype) : NULL;
  if (type == NULL) {
    return REFUSE(path, "%s: tensor %.128s has %s%.32s", path, name,
                  dtype != NULL ? "the unknown dtype " : "no dtype", dtype != NULL ? dtype : "");
  }
  entry->stored_dtype = type->name;
  entry->dtype = type->dtype;
  ULL__TRY(read_shape(path, json_object_get(object, "shape"), entry));
  ULL__TRY(read_offsets(path, json_object_get(object, "data_offsets"), data_bytes, entry));
  return check_size(path, type, entry);
}

static ull_status check_metadata(const char *path, json_t *metadata) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) {
    return REFUSE(path, "%s: __metadata__ is no object", path);
  }
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value)) {
      return REFUSE(path, "%s: __metadata__ %.64s is no text", path, key);
    }
  }
  return ULL_OK;
}

static int by_offset(const void *a, const void *b) {
  const ull__tensor_entry *x = a, *y = b;
  if (x->offset_bytes != y->offset_bytes) return x->offset_bytes < y->offset_bytes ? -1 : 1;
  if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const ull__tensor_entry *)a)->name, ((const ull__tensor_entry *)b)->name);
}

/* The entries stand in order of offset. */
static ull_status check_cover(const char *path, const ull__safetensors_header *header,
                              uint64_t data_bytes) {
  uint64_t filled = 0;
  for (uint32_t i = 0; i < header->count; i++) {
    const ull__tensor_entry *entry = &header->entries[i];
    if (entry->offset_bytes != filled) {
      return REFUSE(path, "%s: tensor %.128s begins at byte %llu, the one before it ends at %llu",
                    path, entry->name, (unsigned long long)entry->offset_bytes,
                    (unsigned long long)filled);
    }
    filled += entry->size_bytes;
  }
  if (filled == data_bytes) return ULL_OK;
  return REFUSE(path, "%s: %llu bytes behind the last tensor belong to none", path,
                (unsigned long long)(data_bytes - filled));
}

static ull_status read_entries(const char *path, uint64_t data_bytes,
                               ull__safetensors_header *header) {
  const char *name;
  json_t *value;
  json_object_foreach(header->json, name, value) {
    if (strcmp(name, "__metadata__") == 0) {
      ULL__TRY(check_metadata(path, value));
      continue;
    }
    ULL__TRY(read_entry(path, name, value, data_bytes, &header->entries[header->count]));
    header->count++;
  }
  qsort(header->entries, header->count, sizeof *header->entries, by_offset);
  return check_cover(path, header, data_bytes);
}

ull_status ull__safetensors_parse_header(const char *path, const char *text, size_t bytes,
                                         uint64_t data_offset, uint64_t data_bytes,
                                         ull__safetensors_header *out) {
  ull__safetensors_header header = {0};
  if (bytes == 0 || text[0] != '{') {
    return REFUSE(path, "%s: the header does not begin with {", path);
  }
  ULL__TRY(ull__json_parse(text, bytes, path, &header.json));
  header.entries = ull__alloc(json_object_size(header.json), sizeof *header.entries);
  ull_status status =
      header.entries == NULL ? ULL_ERROR_OUT_OF_MEMORY : read_entries(path, data_bytes, &header);
  if (status != ULL_OK) {
    ull__safetensors_free_header(&header);
    return status;
  }
  for (uint32_t i = 0; i < header.count; i++) header.entries[i].offset_bytes += data_offset;
  qsort(header.entries, header.count, sizeof *header.entries, by_name);
  *out = header;
  return ULL_OK;
}

void ull__safetensors_free_header(ull__safetensors_header *header) {
  json_decref(header->json);
  ull__free(header->entries);
  *header = (ull__safetensors_header){0};
}
