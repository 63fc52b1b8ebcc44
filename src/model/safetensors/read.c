/* Opening files and reading tensors by position. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/half.h"
#include "model/safetensors/header.h"

struct ull__safetensors {
  char *path;
  int descriptor;
  uint64_t file_bytes;
  ull__safetensors_header header;
};

enum { LENGTH_BYTES = 8, CONVERTED_BYTES = 1 << 16 };

static ull_status refuse(const char *path, const char *reason) {
  ull__fail(ULL_ERROR_DATA, "%s: %s", path, reason);
  return ull__error_holder("%s", path);
}

static ull_status read_at(const ull__safetensors *file, uint64_t offset, uint64_t count,
                          void *bytes) {
  char *target = bytes;
  while (count > 0) {
    const size_t part = count < (UINT64_C(1) << 30) ? (size_t)count : (size_t)1 << 30;
    const ssize_t got = pread(file->descriptor, target, part, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ull__fail_io(file->path, "read");
    if (got == 0) return refuse(file->path, "the file has become shorter while it was read");
    target += got;
    offset += (uint64_t)got;
    count -= (uint64_t)got;
  }
  return ULL_OK;
}

static ull_status open_regular(ull__safetensors *file) {
  struct stat about;
  file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->descriptor < 0) return ull__fail_io(file->path, "open");
  if (fstat(file->descriptor, &about) != 0) return ull__fail_io(file->path, "inspect");
  if (!S_ISREG(about.st_mode)) {
    ull__fail(ULL_ERROR_IO, "%s is not a regular file", file->path);
    return ull__error_holder("%s", file->path);
  }
  file->file_bytes = (uint64_t)about.st_size;
  return ULL_OK;
}

/* Weights that PyTorch pickled: a zip archive or a bare pickle. */
static bool is_pickled(const uint8_t start[LENGTH_BYTES]) {
  return memcmp(start, "PK\3\4", 4) == 0 || (start[0] == 0x80 && start[1] <= 5 && start[1] >= 2);
}

static ull_status read_header_length(const ull__safetensors *file, uint64_t *out) {
  uint8_t start[LENGTH_BYTES];
  uint64_t length = 0;
  if (file->file_bytes < LENGTH_BYTES) {
    return refuse(file->path, "too short for a safetensors file");
  }
  ULL__TRY(read_at(file, 0, LENGTH_BYTES, start));
  for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | start[i];
  const uint64_t left = file->file_bytes - LENGTH_BYTES;
  if (length > left && is_pickled(start)) {
    refuse(file->path, "a pickle, which can run any program when it is read, is never read");
    return ull__error_change("convert it with safetensors.torch.save_file");
  }
  if (length > ULL__SAFETENSORS_MOST_HEADER_BYTES) {
    refuse(file->path, "the header is too long; it may have 100,000,000 bytes");
    return ull__error_bytes(length, ULL__SAFETENSORS_MOST_HEADER_BYTES);
  }
  if (length > left) {
    refuse(file->path, "the file is cut off inside its header");
    return ull__error_bytes(length, left);
  }
  *out = length;
  return ULL_OK;
}

static ull_status read_header(ull__safetensors *file) {
  uint64_t length = 0;
  ULL__TRY(read_header_length(file, &length));
  char *text = ull__alloc((size_t)length + 1, 1);
  if (text == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = read_at(file, LENGTH_BYTES, length, text);
  if (status == ULL_OK) {
    status = ull__safetensors_parse_header(file->path, text, (size_t)length, LENGTH_BYTES + length,
                                           file->file_bytes - LENGTH_BYTES - length, &file->header);
  }
  ull__free(text);
  return status;
}

ull_status ull__safetensors_open(const char *path, ull__safetensors **out) {
  *out = NULL;
  ull__safetensors *file = ull__alloc(1, sizeof *file);
  if (file == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  file->descriptor = -1;
  file->path = ull__strdup(path);
  ull_status status = file->path == NULL ? ULL_ERROR_OUT_OF_MEMORY : open_regular(file);
  if (status == ULL_OK) status = read_header(file);
  if (status != ULL_OK) {
    ull__safetensors_close(file);
    return status;
  }
  *out = file;
  return ULL_OK;
}

void ull__safetensors_close(ull__safetensors *file) {
  if (file == NULL) return;
  if (file->descriptor >= 0) close(file->descriptor);
  ull__safetensors_free_header(&file->header);
  ull__free(file->path);
  ull__free(file);
}

const char *ull__safetensors_path(const ull__safetensors *file) {
  return file->path;
}

uint32_t ull__safetensors_count(const ull__safetensors *file) {
  return file->header.count;
}

const ull__tensor_entry *ull__safetensors_at(const ull__safetensors *file, uint32_t index) {
  return &file->header.entries[index];
}

static int compare_name(const void *name, const void *entry) {
  return strcmp(name, ((const ull__tensor_entry *)entry)->name);
}

const ull__tensor_entry *ull__safetensors_find(const ull__safetensors *file, const char *name) {
  if (file->header.count == 0) return NULL;
  return bsearch(name, file->header.entries, file->header.count, sizeof(ull__tensor_entry),
                 compare_name);
}

const char *ull__safetensors_metadata(const ull__safetensors *file, const char *key) {
  return json_string_value(
      json_object_get(json_object_get(file->header.json, "__metadata__"), key));
}

/* Piece by piece, so that a conversion needs no second copy of the tensor. */
static ull_status read_converted(const ull__safetensors *file, const ull__tensor_entry *entry,
                                 ull_dtype dtype, char *target) {
  void *piece = ull__alloc(CONVERTED_BYTES, 1);
  ull_status status = piece == NULL ? ULL_ERROR_OUT_OF_MEMORY : ULL_OK;
  const uint64_t stored = ull_dtype_bytes(entry->dtype), wanted = ull_dtype_bytes(dtype);
  for (uint64_t done = 0; status == ULL_OK && done < entry->size_bytes;) {
    const uint64_t left = entry->size_bytes - done;
    const uint64_t part = left < CONVERTED_BYTES ? left : CONVERTED_BYTES;
    status = read_at(file, entry->offset_bytes + done, part, piece);
    if (status == ULL_OK) {
      ull__convert_floats(entry->dtype, piece, dtype, target + done / stored * wanted,
                          part / stored);
    }
    done += part;
  }
  ull__free(piece);
  return status;
}

ull_status ull__safetensors_read(const ull__safetensors *file, const ull__tensor_entry *entry,
                                 ull_dtype dtype, void *bytes) {
  if (entry->dtype == dtype) return read_at(file, entry->offset_bytes, entry->size_bytes, bytes);
  const bool is_known = entry->dtype != ULL_DTYPE_COUNT && ull__dtype_is_float(entry->dtype);
  if (is_known && ull__dtype_is_float(dtype)) return read_converted(file, entry, dtype, bytes);
  ull__fail(ULL_ERROR_UNSUPPORTED, "%s: tensor %.128s is %s and cannot be read as %s", file->path,
            entry->name, entry->stored_dtype, ull_dtype_name(dtype));
  return ull__error_holder("%s", entry->name);
}
