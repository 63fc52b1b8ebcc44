/* A table that is searched and changed under a mutex; files are opened outside it. */
#include "data/shard_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

void ull__shard_files_begin(ull__shard_files *files) {
  memset(files, 0, sizeof *files);
  pthread_mutex_init(&files->mutex, NULL);
  for (int i = 0; i < ULL__SHARD_FILES; i++) files->files[i].descriptor = -1;
}

void ull__shard_files_end(ull__shard_files *files) {
  for (int i = 0; i < ULL__SHARD_FILES; i++) {
    if (files->files[i].descriptor >= 0) close(files->files[i].descriptor);
  }
  pthread_mutex_destroy(&files->mutex);
}

static ull__shard_file *take(ull__shard_files *files, ull__shard_file *file, ull__record *record) {
  file->users++;
  file->used_at = ++files->clock;
  record->descriptor = file->descriptor;
  record->owns_descriptor = false;
  record->hold = file;
  return file;
}

static ull__shard_file *find(ull__shard_files *files, uint64_t shard, ull__record *record) {
  for (int i = 0; i < ULL__SHARD_FILES; i++) {
    ull__shard_file *file = &files->files[i];
    if (file->descriptor >= 0 && file->shard == shard) return take(files, file, record);
  }
  return NULL;
}

/* The one that nobody uses and that was used longest ago. */
static ull__shard_file *oldest(ull__shard_files *files) {
  ull__shard_file *best = NULL;
  for (int i = 0; i < ULL__SHARD_FILES; i++) {
    ull__shard_file *file = &files->files[i];
    if (file->descriptor < 0) return file;
    if (file->users == 0 && (best == NULL || file->used_at < best->used_at)) best = file;
  }
  return best;
}

static ull_status check(const ull__record *record, const char *path, const ull__stamp *stamp) {
  struct stat about;
  if (fstat(record->descriptor, &about) == 0) {
    ull__stamp now = ull__stamp_of(&about);
    if (ull__stamp_equal(&now, stamp)) return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_DATA, "%s: has changed since it was opened", path);
  ull__error_holder("%s", path);
  return ull__error_change("restore it, or start again");
}

/* With the mutex held: puts a freshly opened descriptor into the table, or leaves it with the
 * record. */
static void keep(ull__shard_files *files, uint64_t shard, ull__record *record) {
  int descriptor = record->descriptor;
  if (find(files, shard, record) != NULL) {
    close(descriptor);
    return;
  }
  ull__shard_file *file = oldest(files);
  if (file == NULL) return;
  if (file->descriptor >= 0) close(file->descriptor);
  *file = (ull__shard_file){.descriptor = descriptor, .shard = shard};
  take(files, file, record);
}

ull_status ull__shard_files_open(ull__shard_files *files, uint64_t shard, const char *path,
                                 const ull__stamp *stamp, ull__record *record) {
  record->hold = NULL;
  pthread_mutex_lock(&files->mutex);
  bool found = find(files, shard, record) != NULL;
  pthread_mutex_unlock(&files->mutex);
  if (found) return ULL_OK;
  uint64_t offset = record->offset, bytes = record->bytes;
  ull_status status = ull__record_open_file(record, AT_FDCWD, path);
  record->offset = offset;
  record->bytes = bytes;
  if (status == ULL_OK) status = check(record, path, stamp);
  if (status != ULL_OK) {
    ull__record_close(record);
    return status;
  }
  pthread_mutex_lock(&files->mutex);
  keep(files, shard, record);
  pthread_mutex_unlock(&files->mutex);
  return ULL_OK;
}

void ull__shard_files_close(ull__shard_files *files, ull__record *record) {
  ull__shard_file *file = record->hold;
  if (file == NULL) return;
  pthread_mutex_lock(&files->mutex);
  file->users--;
  pthread_mutex_unlock(&files->mutex);
  record->hold = NULL;
  record->descriptor = -1;
}
