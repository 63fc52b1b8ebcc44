/* Records are read with pread, so that threads share descriptors and a file that shrinks is an
 * early end instead of a signal. */
#include "data/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "data/ticks.h"

static _Thread_local uint64_t read_ticks;

uint64_t ull__record_take_ticks(void) {
  uint64_t ticks = read_ticks;
  read_ticks = 0;
  return ticks;
}

static ull_status read_record(const ull__record *record, uint64_t at, void *to, size_t capacity,
                              size_t *got) {
  uint64_t left = at < record->bytes ? record->bytes - at : 0;
  size_t want = left < capacity ? (size_t)left : capacity;
  *got = 0;
  if (record->memory != NULL) {
    memcpy(to, record->memory + at, want);
    *got = want;
    return ULL_OK;
  }
  while (*got < want) {
    ssize_t count = pread(record->descriptor, (uint8_t *)to + *got, want - *got,
                          (off_t)(record->offset + at + *got));
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      ULL__FAIL(ULL_ERROR_IO, "%s: cannot be read: %s", record->path, strerror(errno));
      return ull__error_holder("%s", record->path);
    }
    *got += (size_t)count;
  }
  return ULL_OK;
}

ull_status ull__record_read(const ull__record *record, uint64_t at, void *to, size_t capacity,
                            size_t *got) {
  uint64_t since = ull__ticks_now();
  ull_status status = read_record(record, at, to, capacity, got);
  read_ticks += ull__ticks_now() - since;
  return status;
}

static ull_status cannot_open(const ull__record *record, int error) {
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "%s: cannot be opened: %s", record->path, strerror(error));
    ull__error_holder("%s", record->path);
    return ull__error_change("allow more open files (ulimit -n), or use fewer --workers");
  }
  bool absent = error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
  ULL__FAIL(absent ? ULL_ERROR_DATA : ULL_ERROR_IO, "%s: cannot be opened: %s", record->path,
            strerror(error));
  return ull__error_holder("%s", record->path);
}

ull_status ull__record_open_file(ull__record *record, int folder, const char *name) {
  int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return cannot_open(record, errno);
  struct stat about;
  int error = fstat(descriptor, &about) != 0 ? errno : 0;
  if (error != 0 || !S_ISREG(about.st_mode)) {
    close(descriptor);
    if (error != 0) return cannot_open(record, error);
    ULL__FAIL(ULL_ERROR_DATA, "%s: is not a regular file", record->path);
    return ull__error_holder("%s", record->path);
  }
  record->memory = NULL;
  record->descriptor = descriptor;
  record->owns_descriptor = true;
  record->offset = 0;
  record->bytes = (uint64_t)about.st_size;
  return ULL_OK;
}

void ull__record_close(ull__record *record) {
  if (record->owns_descriptor && record->descriptor >= 0) close(record->descriptor);
  record->descriptor = -1;
  record->owns_descriptor = false;
}
