/* Records are read with pread, so that threads share descriptors and a file that shrinks is an
 * early end instead of a signal. */
#include "data/record.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

ull_status ull__record_read(const ull__record *record, uint64_t at, void *to, size_t capacity,
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

void ull__record_close(ull__record *record) {
  if (record->owns_descriptor && record->descriptor >= 0) close(record->descriptor);
  record->descriptor = -1;
  record->owns_descriptor = false;
}
