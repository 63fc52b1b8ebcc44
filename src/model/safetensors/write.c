/* Writing a file of tensors whose sizes are known beforehand.
 *
 * Invariant: the target's name always leads to a whole file, old or new; the new one gets the name
 * after its bytes are on disk, and the folder is synced after that. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/safetensors/safetensors.h"

typedef struct place {
  char *name;
  ull_dtype dtype;
  ull__shape shape;
  uint64_t offset_bytes; /* in the data */
  uint64_t size_bytes;
  bool is_written;
} place;

struct ull__safetensors_writer {
  char *path, *beside;
  int descriptor;
  place *places; /* in order of offset */
  uint32_t count;
  uint64_t data_offset;
};

enum { LENGTH_BYTES = 8 };

static ull_status write_at(ull__safetensors_writer *writer, uint64_t offset, const void *bytes,
                           uint64_t count) {
  const char *source = bytes;
  while (count > 0) {
    const size_t part = count < (UINT64_C(1) << 30) ? (size_t)count : (size_t)1 << 30;
    const ssize_t done = pwrite(writer->descriptor, source, part, (off_t)offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return ull__fail_io(writer->beside, "write");
    source += done;
    offset += (uint64_t)done;
    count -= (uint64_t)done;
  }
  return ULL_OK;
}

/* ---- the header ---- */

static int compare_places(const void *a, const void *b) {
  const place *x = a, *y = b;
  const uint32_t x_bytes = ull_dtype_bytes(x->dtype), y_bytes = ull_dtype_bytes(y->dtype);
  if (x_bytes != y_bytes) return x_bytes > y_bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static ull_status check_names(const ull__safetensors_writer *writer) {
  const char **names = ull__alloc(writer->count, sizeof *names);
  if (names == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = ULL_OK;
  for (uint32_t i = 0; i < writer->count; i++) names[i] = writer->places[i].name;
  qsort(names, writer->count, sizeof *names, compare_names);
  for (uint32_t i = 0; i < writer->count && status == ULL_OK; i++) {
    const bool is_reserved = strcmp(names[i], "__metadata__") == 0;
    if (is_reserved || (i > 0 && strcmp(names[i - 1], names[i]) == 0)) {
      status = ULL__FAIL(ULL_ERROR_INVALID, "%s: a second tensor named %s", writer->path, names[i]);
    }
  }
  ull__free(names);
  return status;
}

static ull_status lay_out(ull__safetensors_writer *writer, const ull__tensor_plan *tensors,
                          uint32_t count) {
  uint64_t end = 0;
  writer->places = ull__alloc(count, sizeof *writer->places);
  if (writer->places == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (; writer->count < count; writer->count++) {
    const ull__tensor_plan *tensor = &tensors[writer->count];
    place *p = &writer->places[writer->count];
    *p = (place){.dtype = tensor->dtype, .shape = tensor->shape};
    ULL__TRY(ull__shape_bytes(&tensor->shape, tensor->dtype, &p->size_bytes));
    p->name = ull__strdup(tensor->name);
    if (p->name == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  }
  ULL__TRY(check_names(writer));
  qsort(writer->places, count, sizeof *writer->places, compare_places);
  for (uint32_t i = 0; i < count; i++) {
    writer->places[i].offset_bytes = end;
    ULL__TRY(ull__size_add(end, writer->places[i].size_bytes, "file", &end));
  }
  return ULL_OK;
}

static ull_status put_place(json_t *header, const place *p) {
  json_t *object = json_object(), *shape = json_array(), *offsets = json_array();
  ull_status status =
      ull__json_put(object, "dtype", json_string(ull_dtype_safetensors_name(p->dtype)));
  for (uint32_t i = 0; i < p->shape.rank && status == ULL_OK; i++) {
    status = ull__json_append(shape, json_integer(p->shape.dims[i].constant));
  }
  if (status == ULL_OK) {
    status = ull__json_append(offsets, json_integer((json_int_t)p->offset_bytes));
  }
  if (status == ULL_OK) {
    status = ull__json_append(offsets, json_integer((json_int_t)(p->offset_bytes + p->size_bytes)));
  }
  if (status == ULL_OK) status = ull__json_put(object, "shape", json_incref(shape));
  if (status == ULL_OK) status = ull__json_put(object, "data_offsets", json_incref(offsets));
  json_decref(shape);
  json_decref(offsets);
  if (status == ULL_OK) return ull__json_put(header, p->name, object);
  json_decref(object);
  return status;
}

static int compare_pairs(const void *a, const void *b) {
  return strcmp(((const ull__metadata_pair *)a)->key, ((const ull__metadata_pair *)b)->key);
}

static ull_status put_metadata(json_t *header, const ull__metadata_pair *pairs, uint32_t count) {
  if (count == 0) return ULL_OK;
  ull__metadata_pair *sorted = ull__alloc(count, sizeof *sorted);
  json_t *object = json_object();
  ull_status status = sorted == NULL ? ULL_ERROR_OUT_OF_MEMORY : ULL_OK;
  if (status == ULL_OK) {
    memcpy(sorted, pairs, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_pairs);
  }
  for (uint32_t i = 0; i < count && status == ULL_OK; i++) {
    status = ull__json_put(object, sorted[i].key, json_string(sorted[i].value));
  }
  ull__free(sorted);
  if (status == ULL_OK) return ull__json_put(header, "__metadata__", object);
  json_decref(object);
  return status;
}

static ull_status make_header(const ull__safetensors_writer *writer,
                              const ull__metadata_pair *metadata, uint32_t metadata_count,
                              char **out) {
  ull__json_start();
  json_t *header = json_object();
  ull_status status = put_metadata(header, metadata, metadata_count);
  for (uint32_t i = 0; i < writer->count && status == ULL_OK; i++) {
    status = put_place(header, &writer->places[i]);
  }
  if (status == ULL_OK) status = ull__json_line(header, out);
  json_decref(header);
  return status;
}

/* The text padded with spaces so that the data begins at a multiple of 8. */
static ull_status write_header(ull__safetensors_writer *writer, const char *text) {
  static const char spaces[LENGTH_BYTES] = "        ";
  const uint64_t length = strlen(text), padded = ull__align_up(length, LENGTH_BYTES);
  uint8_t start[LENGTH_BYTES];
  if (padded > ULL__SAFETENSORS_MOST_HEADER_BYTES) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: a header of %llu bytes could not be read again",
                     writer->path, (unsigned long long)padded);
  }
  for (int i = 0; i < LENGTH_BYTES; i++) start[i] = (uint8_t)(padded >> 8 * i);
  writer->data_offset = LENGTH_BYTES + padded;
  ULL__TRY(write_at(writer, 0, start, LENGTH_BYTES));
  ULL__TRY(write_at(writer, LENGTH_BYTES, text, length));
  return write_at(writer, LENGTH_BYTES + length, spaces, padded - length);
}

/* ---- the file ---- */

static ull_status start(ull__safetensors_writer *writer, const char *path,
                        const ull__tensor_plan *tensors, uint32_t count,
                        const ull__metadata_pair *metadata, uint32_t metadata_count) {
  char *text = NULL;
  writer->path = ull__strdup(path);
  if (writer->path == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(lay_out(writer, tensors, count));
  ULL__TRY(make_header(writer, metadata, metadata_count, &text));
  ull_status status = ULL_OK;
  writer->beside = ull__format("%s.%ld.partial", path, (long)getpid());
  if (writer->beside == NULL) status = ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK) {
    writer->descriptor = open(writer->beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    status = writer->descriptor < 0 ? ull__fail_io(writer->beside, "create")
                                    : write_header(writer, text);
  }
  ull__free(text);
  return status;
}

ull_status ull__safetensors_create(const char *path, const ull__tensor_plan *tensors,
                                   uint32_t tensor_count, const ull__metadata_pair *metadata,
                                   uint32_t metadata_count, ull__safetensors_writer **out) {
  *out = NULL;
  ull__safetensors_writer *writer = ull__alloc(1, sizeof *writer);
  if (writer == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  writer->descriptor = -1;
  const ull_status status = start(writer, path, tensors, tensor_count, metadata, metadata_count);
  if (status != ULL_OK) {
    ull__safetensors_discard(writer);
    return status;
  }
  *out = writer;
  return ULL_OK;
}

static place *find_place(ull__safetensors_writer *writer, const char *name) {
  for (uint32_t i = 0; i < writer->count; i++) {
    if (strcmp(writer->places[i].name, name) == 0) return &writer->places[i];
  }
  return NULL;
}

ull_status ull__safetensors_write(ull__safetensors_writer *writer, const char *name,
                                  const void *bytes, uint64_t size_bytes) {
  place *p = find_place(writer, name);
  if (p == NULL || p->is_written || p->size_bytes != size_bytes) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: tensor %s %s", writer->path, name,
                     p == NULL       ? "is not in the header"
                     : p->is_written ? "is written twice"
                                     : "has another size than the header says");
  }
  ULL__TRY(write_at(writer, writer->data_offset + p->offset_bytes, bytes, size_bytes));
  p->is_written = true;
  return ULL_OK;
}

static ull_status complete(ull__safetensors_writer *writer) {
  for (uint32_t i = 0; i < writer->count; i++) {
    if (writer->places[i].is_written) continue;
    return ULL__FAIL(ULL_ERROR_INVALID, "%s: tensor %s was not written", writer->path,
                     writer->places[i].name);
  }
  if (fsync(writer->descriptor) != 0) return ull__fail_io(writer->beside, "sync");
  const int descriptor = writer->descriptor;
  writer->descriptor = -1;
  if (close(descriptor) != 0) return ull__fail_io(writer->beside, "close");
  if (rename(writer->beside, writer->path) != 0) return ull__fail_io(writer->path, "replace");
  ull__free(writer->beside);
  writer->beside = NULL;
  return ull__sync_folder_of(writer->path);
}

ull_status ull__safetensors_finish(ull__safetensors_writer *writer) {
  const ull_status status = complete(writer);
  ull__safetensors_discard(writer);
  return status;
}

void ull__safetensors_discard(ull__safetensors_writer *writer) {
  if (writer == NULL) return;
  if (writer->descriptor >= 0) close(writer->descriptor);
  if (writer->beside != NULL) unlink(writer->beside);
  for (uint32_t i = 0; i < writer->count; i++) ull__free(writer->places[i].name);
  ull__free(writer->places);
  ull__free(writer->beside);
  ull__free(writer->path);
  ull__free(writer);
}
