/* Whole files. Every failure names the path, what was done and the system's reason. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

enum { MOST_AT_ONCE = 1 << 30 };

ull_status ull__fail_io(const char *path, const char *action) {
  int reason = errno;
  char text[128];
  ull__fail(ULL_ERROR_IO, "cannot %s %s: %s", action, path, strerror_r(reason, text, sizeof text));
  return ull__error_holder("%s", path);
}

static ull_status refuse_size(const char *path, uint64_t bytes, uint64_t limit_bytes) {
  ull__fail(ULL_ERROR_IO, "%s is larger than the %llu bytes that are read of such a file", path,
            (unsigned long long)limit_bytes);
  ull__error_holder("%s", path);
  return ull__error_bytes(bytes, limit_bytes);
}

/* Files of /proc and /sys report 0 bytes, so reading goes on to the end, not to the size. */
static ull_status read_all(int file, const char *path, uint64_t limit_bytes, uint64_t expected,
                           char **out, size_t *out_bytes) {
  size_t capacity = (size_t)(expected < limit_bytes ? expected : limit_bytes) + 1;
  size_t used = 0;
  char *data = ull__alloc(capacity + 1, 1);
  if (data == NULL) return ull_error_last()->status;
  for (;;) {
    ssize_t got = read(file, data + used, capacity - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      ull__free(data);
      return ull__fail_io(path, "read");
    }
    used += (size_t)got;
    if (used > limit_bytes) {
      ull__free(data);
      return refuse_size(path, used, limit_bytes);
    }
    if (got == 0) break;
    if (used < capacity) continue;
    size_t grown = capacity < 2048 ? 4096 : capacity * 2;
    char *moved = ull__realloc(data, grown + 1, 1);
    if (moved == NULL) {
      ull__free(data);
      return ull_error_last()->status;
    }
    data = moved;
    capacity = grown;
  }
  data[used] = '\0';
  *out = data;
  *out_bytes = used;
  return ULL_OK;
}

ull_status ull__file_read(const char *path, uint64_t limit_bytes, char **out, size_t *out_bytes) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return ull__fail_io(path, "open");
  struct stat about;
  ull_status status;
  if (fstat(file, &about) != 0) {
    status = ull__fail_io(path, "inspect");
  } else if (!S_ISREG(about.st_mode)) {
    status = ULL__FAIL(ULL_ERROR_IO, "%s is not a regular file", path);
  } else if ((uint64_t)about.st_size > limit_bytes || limit_bytes > SIZE_MAX / 4) {
    status = refuse_size(path, (uint64_t)about.st_size, limit_bytes);
  } else {
    status = read_all(file, path, limit_bytes, (uint64_t)about.st_size, out, out_bytes);
  }
  close(file);
  return status;
}

ull_status ull__file_read_optional(const char *path, uint64_t limit_bytes, char **out,
                                   size_t *out_bytes) {
  const ull_error before = *ull_error_last();
  *out = NULL;
  *out_bytes = 0;
  ull_status status = ull__file_read(path, limit_bytes, out, out_bytes);
  return ull__error_unless(status == ULL_ERROR_OUT_OF_MEMORY ? status : ULL_OK, &before);
}

bool ull__write_all(int file, const void *data, uint64_t bytes) {
  const char *from = data;
  while (bytes > 0) {
    ssize_t done = write(file, from, bytes < MOST_AT_ONCE ? (size_t)bytes : MOST_AT_ONCE);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    from += done;
    bytes -= (uint64_t)done;
  }
  return true;
}

static ull_status write_new(const char *path, const void *data, size_t bytes) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return ull__fail_io(path, "create");
  ull_status status = ull__write_all(file, data, bytes) ? ULL_OK : ull__fail_io(path, "write");
  if (status == ULL_OK && fsync(file) != 0) status = ull__fail_io(path, "sync");
  if (close(file) != 0 && status == ULL_OK) status = ull__fail_io(path, "close");
  return status;
}

ull_status ull__sync_folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash == NULL   ? ull__strdup(".")
                 : slash == path ? ull__strdup("/")
                                 : ull__strndup(path, (size_t)(slash - path));
  if (folder == NULL) return ull_error_last()->status;
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ull_status status = file < 0 ? ull__fail_io(folder, "open") : ULL_OK;
  /* Some file systems cannot sync a folder and say so; the rename itself has happened. */
  if (file >= 0 && fsync(file) != 0 && errno != EINVAL) status = ull__fail_io(folder, "sync");
  if (file >= 0) close(file);
  ull__free(folder);
  return status;
}

ull_status ull__file_write_atomic(const char *path, const void *data, size_t bytes) {
  char *beside = ull__format("%s.%ld.partial", path, (long)getpid());
  if (beside == NULL) return ull_error_last()->status;
  ull_status status = write_new(beside, data, bytes);
  if (status == ULL_OK && rename(beside, path) != 0) status = ull__fail_io(path, "replace");
  if (status != ULL_OK) unlink(beside);
  ull__free(beside);
  return status == ULL_OK ? ull__sync_folder_of(path) : status;
}

static ull_status make_folder(const char *path) {
  if (mkdir(path, 0777) == 0) return ULL_OK;
  if (errno != EEXIST) return ull__fail_io(path, "create the folder");
  struct stat about;
  if (stat(path, &about) != 0) return ull__fail_io(path, "inspect");
  if (!S_ISDIR(about.st_mode)) return ULL__FAIL(ULL_ERROR_IO, "%s is not a folder", path);
  return ULL_OK;
}

ull_status ull__make_folders(const char *path) {
  char *part = ull__strdup(path);
  if (part == NULL) return ull_error_last()->status;
  ull_status status = ULL_OK;
  for (char *c = part + 1; status == ULL_OK && *part != '\0' && *c != '\0'; c++) {
    if (*c != '/') continue;
    *c = '\0';
    status = make_folder(part);
    *c = '/';
  }
  if (status == ULL_OK) status = make_folder(part);
  ull__free(part);
  return status;
}

bool ull__file_exists(const char *path) {
  return access(path, F_OK) == 0;
}

char *ull__path_join(const char *folder, const char *name) {
  size_t length = strlen(folder);
  const char *separator = length == 0 || folder[length - 1] == '/' ? "" : "/";
  return ull__format("%s%s%s", folder, separator, name);
}
