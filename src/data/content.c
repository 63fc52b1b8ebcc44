/* Every read names its file and says where it stopped. The size is taken once at open: a file that
 * shrinks later shows up as a short read, one that grows is read as it was. */
#include "data/content.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

static ull_status cannot_open(const char *path, int error) {
  ULL__FAIL(error == ENOMEM ? ULL_ERROR_OUT_OF_MEMORY : ULL_ERROR_DATA, "%s: cannot be opened: %s",
            path, strerror(error));
  ull__error_holder("%s", path);
  return ull__error_change("check the path given with --data");
}

static ull_status open_regular(const char *path, ull__data_file *file) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return cannot_open(path, errno);
  struct stat information;
  int failed = fstat(descriptor, &information);
  if (failed || !S_ISREG(information.st_mode)) {
    int error = failed ? errno : 0;
    close(descriptor);
    if (error) return cannot_open(path, error);
    ULL__FAIL(ULL_ERROR_DATA, "%s: is not a regular file", path);
    return ull__error_holder("%s", path);
  }
  file->descriptor = descriptor;
  file->bytes = (uint64_t)information.st_size;
  return ULL_OK;
}

ull_status ull__data_file_open(const char *path, ull__data_file *file) {
  *file = (ull__data_file){.descriptor = -1};
  char *copy = ull__strdup(path);
  if (copy == NULL) return ull_error_last()->status;
  ull_status status = open_regular(path, file);
  if (status != ULL_OK) {
    ull__free(copy);
    return status;
  }
  file->path = copy;
  return ULL_OK;
}

void ull__data_file_close(ull__data_file *file) {
  if (file->path != NULL && file->descriptor >= 0) close(file->descriptor);
  ull__free(file->path);
  *file = (ull__data_file){.descriptor = -1};
}

static ull_status short_read(const ull__data_file *file, uint64_t at) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: ends at byte %" PRIu64 ", before its %" PRIu64 " bytes",
            file->path, at, file->bytes);
  ull__error_holder("%s", file->path);
  return ull__error_change("the file changed while it was in use; restore it and resume");
}

static ull_status read_file(const ull__data_file *file, uint64_t at, uint8_t *to, size_t count) {
  while (count > 0) {
    ssize_t got = pread(file->descriptor, to, count, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      ULL__FAIL(ULL_ERROR_IO, "%s: reading at byte %" PRIu64 " failed: %s", file->path, at,
                strerror(errno));
      return ull__error_holder("%s", file->path);
    }
    if (got == 0) return short_read(file, at);
    to += got;
    at += (uint64_t)got;
    count -= (size_t)got;
  }
  return ULL_OK;
}

ull_status ull__content_read(const ull__content *content, uint64_t at, void *to, size_t count) {
  if (at > content->bytes || count > content->bytes - at) {
    ULL__FAIL(ULL_ERROR_DATA,
              "%s: %zu bytes at byte %" PRIu64 " reach past the %" PRIu64 " bytes there are",
              content->file->path, count, at, content->bytes);
    return ull__error_holder("%s", content->file->path);
  }
  if (content->memory == NULL) return read_file(content->file, content->offset + at, to, count);
  memcpy(to, content->memory + at, count);
  return ULL_OK;
}

void ull__content_free(ull__content *content) {
  ull__free(content->memory);
  *content = (ull__content){0};
}

uint16_t ull__little16(const uint8_t *bytes) {
  return (uint16_t)(bytes[0] | bytes[1] << 8);
}

uint32_t ull__little32(const uint8_t *bytes) {
  return (uint32_t)ull__little16(bytes) | (uint32_t)ull__little16(bytes + 2) << 16;
}

uint64_t ull__little64(const uint8_t *bytes) {
  return (uint64_t)ull__little32(bytes) | (uint64_t)ull__little32(bytes + 4) << 32;
}

uint32_t ull__big32(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}
