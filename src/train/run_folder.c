/* The lock is advisory and dies with the process, so a crashed run blocks nobody. */
#include "train/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

static ull_status cannot(const char *what, const char *path) {
  ull__fail_io(path, what);
  return ull__error_change("name another folder with --run, or make this one writable");
}

/* runs/MODEL-1, -2, ...: the first that does not exist, made here so that of two runs that start
 * together each has its own. */
static ull_status make_own_folder(const char *model, ull__run_folder *out) {
  char name[64];
  const char *from = strncmp(model, "zoo:", 4) == 0 ? model + 4 : model;
  size_t length = strcspn(from, "?");
  snprintf(name, sizeof name, "%.*s", (int)(length < 40 ? length : 40), from);
  for (char *c = name; *c; c++)
    if (*c == '/') *c = '_';
  ULL__TRY(ull__make_folders("runs"));
  for (int n = 1; n < 100000; n++) {
    snprintf(out->path, sizeof out->path, "runs/%s-%d", name, n);
    if (mkdir(out->path, 0777) == 0) return ULL_OK;
    if (errno != EEXIST) return cannot("create the folder", out->path);
  }
  return ULL__FAIL(ULL_ERROR_IO, "runs/ holds too many folders");
}

static ull_status take_folder(const char *path, ull__run_folder *out) {
  if (strlen(path) >= sizeof out->path) {
    ULL__FAIL(ULL_ERROR_USAGE, "--run: the path is longer than %zu bytes", sizeof out->path - 1);
    return ull__error_holder("--run");
  }
  snprintf(out->path, sizeof out->path, "%s", path);
  return ull__make_folders(out->path);
}

static ull_status lock(ull__run_folder *folder) {
  char path[sizeof folder->path + 16];
  snprintf(path, sizeof path, "%s/lock", folder->path);
  folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (folder->lock < 0) return cannot("write", path);
  if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0) return ULL_OK;
  ULL__FAIL(ULL_ERROR_BUSY, "%s is in use by another run", folder->path);
  ull__error_holder("%s", path);
  return ull__error_change("wait for it to end, or name another folder with --run");
}

/* What a killed run was writing; the lock says that nobody writes now. */
static void remove_partial_files(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
    if (fnmatch("*.[0-9]*.partial", entry->d_name, 0) == 0)
      unlinkat(dirfd(folder), entry->d_name, 0);
  closedir(folder);
}

/* The resolved configuration, in which "auto" has become the numbers that training used. */
static ull_status resolve_config(ull_config *config, const char *normalize, char **out) {
  json_t *object = NULL;
  const char *text = ull_config_resolved_json(config);
  if (!text) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(ull__json_parse(text, strlen(text), "the configuration", &object));
  ull_status status = ULL_OK;
  if (normalize) status = ull__json_put(object, "normalize", json_string(normalize));
  if (status == ULL_OK) status = ull__json_line(object, out);
  json_decref(object);
  return status;
}

static ull_status write_config(ull__run_folder *folder, ull_config *config, const char *normalize) {
  char path[sizeof folder->path + 16];
  char *text = NULL;
  ULL__TRY(resolve_config(config, normalize, &text));
  snprintf(path, sizeof path, "%s/config.json", folder->path);
  ull_status status = ull__file_write_atomic(path, text, strlen(text));
  ull__free(text);
  return status;
}

void ull__run_folder_keep_previous(const ull__run_folder *folder, const char *stem,
                                   const char *ending) {
  char old[sizeof folder->path + 48], new[sizeof folder->path + 48];
  snprintf(old, sizeof old, "%s/%s.%s", folder->path, stem, ending);
  snprintf(new, sizeof new, "%s/%s.previous.%s", folder->path, stem, ending);
  rename(old, new); /* nothing to keep where there is no such file */
}

static ull_status open_metrics(ull__run_folder *folder) {
  char path[sizeof folder->path + 16];
  snprintf(path, sizeof path, "%s/metrics.jsonl", folder->path);
  folder->metrics = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  folder->metrics_bytes = 0;
  return folder->metrics < 0 ? cannot("write", path) : ULL_OK;
}

ull_status ull__run_folder_open(const char *path, const char *model, ull_config *config,
                                const char *normalize, ull__run_folder *out) {
  *out = (ull__run_folder){.lock = -1, .metrics = -1};
  ULL__TRY(path ? take_folder(path, out) : make_own_folder(model, out));
  ull_status status = lock(out);
  if (status == ULL_OK) {
    remove_partial_files(out->path);
    ull__run_folder_keep_previous(out, "metrics", "jsonl");
  }
  if (status == ULL_OK) status = write_config(out, config, normalize);
  if (status == ULL_OK) status = open_metrics(out);
  if (status != ULL_OK) ull__run_folder_close(out);
  return status;
}

void ull__run_folder_close(ull__run_folder *folder) {
  if (folder->lock >= 0 && folder->metrics >= 0) close(folder->metrics);
  if (folder->lock >= 0) close(folder->lock);
  folder->metrics = -1;
  folder->lock = -1;
}

/* A line is there whole or not at all, also on a disk that is full. */
static ull_status write_line(ull__run_folder *folder, const char *line, size_t length) {
  if (!ull__write_all(folder->metrics, line, length)) {
    ull_status status = cannot("write metrics in", folder->path);
    if (ftruncate(folder->metrics, folder->metrics_bytes) != 0) return status;
    lseek(folder->metrics, folder->metrics_bytes, SEEK_SET);
    return status;
  }
  folder->metrics_bytes += (off_t)length;
  return ULL_OK;
}

ull_status ull__run_folder_log(ull__run_folder *folder, const ull_step_metrics *m) {
  if (folder->lock < 0) return ULL_OK;
  char accuracy[32] = "null", loss[32] = "null", line[512];
  if (isfinite(m->loss)) snprintf(loss, sizeof loss, "%.17g", m->loss);
  if (m->accuracy >= 0) snprintf(accuracy, sizeof accuracy, "%.6g", m->accuracy);
  int length = snprintf(
      line, sizeof line,
      "{\"step\":%llu,\"epoch\":%llu,\"loss\":%s,\"accuracy\":%s,\"lr\":%.9g,\"samples\":%llu,"
      "\"seconds\":%.6f,\"data_wait_seconds\":%.6f}\n",
      (unsigned long long)m->step, (unsigned long long)m->epoch, loss, accuracy, m->lr,
      (unsigned long long)m->samples, m->seconds, m->data_wait_seconds);
  return write_line(folder, line, (size_t)length);
}
