/* Shards and small files below one open folder. */
#include "data/pack/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"

enum { SMALL_FILE = 64 << 20 };

const char *ull__pack_output_path(const ull__pack_output *output, const char *name, char *buffer,
                                  size_t room) {
  snprintf(buffer, room, "%.*s%s", (int)(output->name - output->prefix), output->prefix, name);
  return buffer;
}

/* ---- the folder ---- */

static ull_status lock(const ull__pack_output *output, const char *folder) {
  if (flock(output->folder, LOCK_EX | LOCK_NB) == 0) return ULL_OK;
  if (errno != EWOULDBLOCK) return ULL_OK; /* a file system without locks */
  ULL__FAIL(ULL_ERROR_BUSY, "%s is being packed into by another process", folder);
  ull__error_holder("%s", folder);
  return ull__error_change("wait for it, or write to another folder");
}

ull_status ull__pack_output_open(ull__pack_output *output, const char *prefix) {
  *output = (ull__pack_output){.folder = -1, .part = -1};
  char folder[ULL__PACK_PATH];
  if (strlen(prefix) >= sizeof folder - 32)
    return ULL__FAIL(ULL_ERROR_INVALID, "the name of the output is too long");
  strcpy(output->prefix, prefix);
  const char *slash = strrchr(output->prefix, '/');
  output->name = slash != NULL ? slash + 1 : output->prefix;
  snprintf(folder, sizeof folder, "%.*s", (int)(output->name - output->prefix), output->prefix);
  if (folder[0] == '\0') strcpy(folder, ".");
  ULL__TRY(ull__make_folders(folder));
  output->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (output->folder < 0) return ull__pack_io_error(folder, "open the folder");
  return lock(output, folder);
}

void ull__pack_output_close(ull__pack_output *output) {
  ull__tar_writer_free(&output->tar);
  if (output->part >= 0) {
    close(output->part);
    unlinkat(output->folder, output->part_path + (output->name - output->prefix), 0);
  }
  if (output->folder >= 0) close(output->folder);
  *output = (ull__pack_output){.folder = -1, .part = -1};
}

bool ull__pack_output_find(const ull__pack_output *output, const char *name, uint64_t *bytes) {
  struct stat about;
  *bytes = 0;
  if (fstatat(output->folder, name, &about, 0) != 0) return false;
  *bytes = (uint64_t)about.st_size;
  return true;
}

/* Some file systems cannot sync a folder and say so; the rename itself has happened. */
static ull_status sync_folder(const ull__pack_output *output) {
  if (fsync(output->folder) == 0 || errno == EINVAL) return ULL_OK;
  return ull__pack_io_error(output->prefix, "sync the folder of");
}

/* Closes `file`, which is NAME.part, and gives it its name; removes it where that fails. */
static ull_status commit(const ull__pack_output *output, int file, const char *name,
                         ull_status status) {
  char part[300], path[ULL__PACK_PATH + 300];
  snprintf(part, sizeof part, "%s.part", name);
  ull__pack_output_path(output, name, path, sizeof path);
  if (status == ULL_OK && fsync(file) != 0) status = ull__pack_io_error(path, "sync");
  if (close(file) != 0 && status == ULL_OK) status = ull__pack_io_error(path, "close");
  if (status == ULL_OK && renameat(output->folder, part, output->folder, name) != 0)
    status = ull__pack_io_error(path, "name");
  if (status != ULL_OK) unlinkat(output->folder, part, 0);
  return status == ULL_OK ? sync_folder(output) : status;
}

static int create(const ull__pack_output *output, const char *name) {
  char part[300];
  snprintf(part, sizeof part, "%s.part", name);
  return openat(output->folder, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* ---- shards ---- */

void ull__pack_shard_name(const ull__pack_output *output, uint64_t shard, char *name, size_t room) {
  snprintf(name, room, "%s-%06" PRIu64 ".tar", output->name, shard);
}

ull_status ull__pack_shard_begin(ull__pack_output *output, uint64_t shard) {
  char name[256];
  ull__pack_shard_name(output, shard, name, sizeof name);
  snprintf(output->part_path, sizeof output->part_path, "%.*s%s.part",
           (int)(output->name - output->prefix), output->prefix, name);
  output->part = create(output, name);
  if (output->part < 0) return ull__pack_io_error(output->part_path, "create");
  return ull__tar_writer_begin(&output->tar, output->part, output->part_path);
}

ull_status ull__pack_shard_commit(ull__pack_output *output, uint64_t shard) {
  char name[256];
  ull__pack_shard_name(output, shard, name, sizeof name);
  ull_status status = ull__tar_writer_end(&output->tar);
  ull__tar_writer_free(&output->tar);
  int file = output->part;
  output->part = -1;
  return commit(output, file, name, status);
}

/* ---- small files ---- */

ull_status ull__pack_output_write(const ull__pack_output *output, const char *name,
                                  const void *data, size_t bytes) {
  char path[ULL__PACK_PATH + 300];
  ull__pack_output_path(output, name, path, sizeof path);
  int file = create(output, name);
  if (file < 0) return ull__pack_io_error(path, "create");
  bool written = ull__write_all(file, data, bytes);
  return commit(output, file, name, written ? ULL_OK : ull__pack_io_error(path, "write"));
}

ull_status ull__pack_output_read(const ull__pack_output *output, const char *name, char **text,
                                 size_t *bytes) {
  char path[ULL__PACK_PATH + 300];
  uint64_t there;
  *text = NULL;
  *bytes = 0;
  if (!ull__pack_output_find(output, name, &there)) return ULL_OK;
  ull__pack_output_path(output, name, path, sizeof path);
  return ull__file_read(path, SMALL_FILE, text, bytes);
}
