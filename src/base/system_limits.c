/* Reading the kernel's limits.
 *
 * A cgroup's usage counts page cache that the kernel drops when asked, so what is left below a
 * limit is the limit less usage plus inactive file pages. Every cgroup from ours up to the mount
 * counts: a limit above us binds too. */
#include "base/system_limits.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"

enum { SMALL_FILE_BYTES = 1 << 22, PATH_BYTES = 2048 };

/* ---- small files ---- */

/* The content of root + path, or NULL; owned by the caller. Absence is no failure here.
 * Kept out of line: once inlined, GCC 12 takes the result for a pointer to a variable that is gone.
 */
__attribute__((noinline)) static char *read_small(const char *root, const char *path) {
  char *full = ull__format("%s%s", root, path), *text = NULL;
  size_t bytes;
  if (full != NULL) ull__file_read_optional(full, SMALL_FILE_BYTES, &text, &bytes);
  ull__free(full);
  return text;
}

/* A number at the start of `text`; false for "max" and for what is no number. */
static bool parse_number(const char *text, uint64_t *out) {
  while (*text == ' ' || *text == '\t') text++;
  if (*text < '0' || *text > '9') return false;
  unsigned long long value = strtoull(text, NULL, 10);
  *out = value < ULL__SIZE_MAX ? value : ULL__SIZE_MAX;
  return true;
}

static bool read_number(const char *root, const char *folder, const char *name, uint64_t *out) {
  char path[PATH_BYTES];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_BYTES) return false;
  char *text = read_small(root, path);
  bool found = text != NULL && parse_number(text, out);
  ull__free(text);
  return found;
}

/* The number behind `key` at the start of a line. Kept out of line: GCC 12 misreads the inlined
 * loop as use of a buffer that is gone. */
__attribute__((noinline)) static bool find_number(const char *text, const char *key,
                                                  uint64_t *out) {
  size_t length = strlen(key);
  while (strncmp(text, key, length) != 0) {
    text = strchr(text, '\n');
    if (text == NULL) return false;
    text++;
  }
  return parse_number(text + length, out);
}

/* ---- parts ---- */

static void add_part(ull__system_limits *limits, const char *name, uint64_t limit_bytes,
                     uint64_t left_bytes) {
  if (limits->part_count == ULL__MOST_LIMIT_PARTS) return;
  uint32_t index = limits->part_count++;
  ull__limit_part *part = &limits->parts[index];
  snprintf(part->name, sizeof part->name, "%s", name);
  part->limit_bytes = limit_bytes;
  part->left_bytes = left_bytes;
  if (index == 0 || left_bytes < limits->usable_bytes) {
    limits->usable_bytes = left_bytes;
    limits->least_part = index;
  }
}

static uint64_t less(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

static ull_status read_machine(const char *root, ull__system_limits *limits) {
  uint64_t total = 0, available = 0;
  char *text = read_small(root, "/proc/meminfo");
  bool found = text != NULL && find_number(text, "MemTotal:", &total) &&
               find_number(text, "MemAvailable:", &available);
  ull__free(text);
  if (!found) return ULL__FAIL(ULL_ERROR_IO, "%s/proc/meminfo does not say MemAvailable", root);
  limits->total_bytes = total * 1024;
  add_part(limits, "MemAvailable", total * 1024, available * 1024);
  return ULL_OK;
}

static void add_rlimit(ull__system_limits *limits, const char *text, const char *key,
                       const char *name, uint64_t used_bytes) {
  uint64_t limit;
  if (find_number(text, key, &limit)) add_part(limits, name, limit, less(limit, used_bytes));
}

static void read_rlimits(const char *root, ull__system_limits *limits) {
  uint64_t size_kib = 0, data_kib = 0;
  char *text = read_small(root, "/proc/self/limits");
  char *about = read_small(root, "/proc/self/status");
  if (about != NULL) find_number(about, "VmSize:", &size_kib);
  if (about != NULL) find_number(about, "VmData:", &data_kib);
  if (text != NULL) {
    add_rlimit(limits, text, "Max address space", "RLIMIT_AS", size_kib * 1024);
    add_rlimit(limits, text, "Max data size", "RLIMIT_DATA", data_kib * 1024);
  }
  ull__free(about);
  ull__free(text);
}

/* ---- cgroups ---- */

typedef struct hierarchy {
  char mount[PATH_BYTES]; /* where it is mounted */
  char above[PATH_BYTES]; /* which of its folders is mounted there */
  char path[PATH_BYTES];  /* our cgroup, from the hierarchy's root */
} hierarchy;

/* Whether `list` ("rw,memory") names `word`. */
static bool lists(const char *list, const char *word) {
  size_t length = strlen(word);
  while (*list != '\0') {
    size_t item = strcspn(list, ",");
    if (item == length && strncmp(list, word, length) == 0) return true;
    list += item + (list[item] == ',');
  }
  return false;
}

/* Finds the mount of a v1 controller, or of v2 where `controller` is "". */
static bool find_mount(const char *mounts, const char *controller, hierarchy *out) {
  for (const char *line = mounts; line != NULL && *line != '\0';) {
    char above[PATH_BYTES], mount[PATH_BYTES], kind[64], options[1024];
    const char *end = strchr(line, '\n'), *dash = strstr(line, " - ");
    if (dash != NULL && (end == NULL || dash < end) &&
        sscanf(line, "%*d %*d %*s %2047s %2047s", above, mount) == 2 &&
        sscanf(dash, " - %63s %*s %1023s", kind, options) == 2) {
      bool second = strcmp(kind, "cgroup2") == 0 && *controller == '\0';
      bool first = strcmp(kind, "cgroup") == 0 && *controller != '\0' && lists(options, controller);
      if (first || second) {
        memcpy(out->above, above, sizeof above);
        memcpy(out->mount, mount, sizeof mount);
        return true;
      }
    }
    line = end != NULL ? end + 1 : NULL;
  }
  return false;
}

/* Finds our path in a line "id:controllers:path" of /proc/self/cgroup. */
static bool find_path(const char *text, const char *controller, hierarchy *out) {
  for (const char *line = text; line != NULL && *line != '\0';) {
    char controllers[256] = "", path[PATH_BYTES] = "";
    const char *end = strchr(line, '\n');
    bool second = sscanf(line, "0::%2047[^\n]", path) == 1;
    bool first = !second && sscanf(line, "%*d:%255[^:]:%2047[^\n]", controllers, path) == 2;
    if ((second && *controller == '\0') ||
        (first && *controller != '\0' && lists(controllers, controller))) {
      memcpy(out->path, path, sizeof path);
      return true;
    }
    line = end != NULL ? end + 1 : NULL;
  }
  return false;
}

static bool find_hierarchy(const char *root, const char *controller, hierarchy *out) {
  char *mounts = read_small(root, "/proc/self/mountinfo");
  char *paths = read_small(root, "/proc/self/cgroup");
  bool found = mounts != NULL && paths != NULL && find_mount(mounts, controller, out) &&
               find_path(paths, controller, out);
  ull__free(mounts);
  ull__free(paths);
  return found;
}

static bool folder_exists(const char *root, const char *folder) {
  char path[2 * PATH_BYTES];
  snprintf(path, sizeof path, "%s%s", root, folder);
  return ull__file_exists(path);
}

/* Our cgroup's folder below the mount. In a container the mount shows only a part of the hierarchy:
 * its `above` is cut off the path, and a path outside it means the mount itself. */
static size_t locate(const char *root, const hierarchy *where, char folder[2 * PATH_BYTES]) {
  const char *path = where->path;
  size_t cut = strcmp(where->above, "/") == 0 ? 0 : strlen(where->above);
  if (cut > 0) path = strncmp(path, where->above, cut) == 0 ? path + cut : "";
  snprintf(folder, 2 * PATH_BYTES, "%s%s", where->mount, strcmp(path, "/") == 0 ? "" : path);
  if (!folder_exists(root, folder)) snprintf(folder, 2 * PATH_BYTES, "%s", where->mount);
  return strlen(where->mount);
}

/* Calls `visit` for our cgroup and every one above it, up to the mount. */
static void walk_up(const char *root, const char *controller,
                    void (*visit)(const char *root, const char *folder, bool second,
                                  ull__system_limits *limits),
                    ull__system_limits *limits) {
  hierarchy *where = ull__alloc(1, sizeof *where);
  char folder[2 * PATH_BYTES];
  if (where != NULL && find_hierarchy(root, controller, where)) {
    size_t shortest = locate(root, where, folder);
    while (strlen(folder) >= shortest) {
      visit(root, folder, *controller == '\0', limits);
      char *slash = strrchr(folder, '/');
      if (slash == NULL || slash == folder) break;
      *slash = '\0';
    }
  }
  ull__free(where);
}

static void visit_memory(const char *root, const char *folder, bool second,
                         ull__system_limits *limits) {
  char path[PATH_BYTES], name[sizeof limits->parts[0].name];
  uint64_t limit, usage = 0, inactive = 0;
  const char *file = second ? "memory.max" : "memory.limit_in_bytes";
  if (!read_number(root, folder, file, &limit)) return;
  /* v1 writes "no limit" as the largest multiple of a page. */
  if (limit >= ULL__SIZE_MAX - (1 << 20)) return;
  read_number(root, folder, second ? "memory.current" : "memory.usage_in_bytes", &usage);
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  char *stat = read_small(root, path);
  if (stat != NULL)
    find_number(stat, second ? "inactive_file " : "total_inactive_file ", &inactive);
  ull__free(stat);
  snprintf(name, sizeof name, "%s/%s", folder, file);
  uint32_t index = limits->part_count;
  add_part(limits, name, limit, less(limit, less(usage, inactive)));
  if (limits->part_count > index) limits->parts[index].of_cgroup = true;
}

static void use_quota(ull__system_limits *limits, double quota_us, double period_us) {
  if (period_us <= 0 || quota_us <= 0) return;
  double cores = quota_us / period_us;
  if (limits->quota_cores == 0 || cores < limits->quota_cores) limits->quota_cores = cores;
}

static void visit_quota(const char *root, const char *folder, bool second,
                        ull__system_limits *limits) {
  char path[PATH_BYTES];
  uint64_t quota, period;
  if (!second) {
    bool found = read_number(root, folder, "cpu.cfs_quota_us", &quota) &&
                 read_number(root, folder, "cpu.cfs_period_us", &period);
    if (found) use_quota(limits, (double)quota, (double)period);
    return;
  }
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  char *text = read_small(root, path);
  const char *space = text != NULL ? strchr(text, ' ') : NULL;
  if (space != NULL && parse_number(text, &quota) && parse_number(space, &period)) {
    use_quota(limits, (double)quota, (double)period);
  }
  ull__free(text);
}

/* ---- cores ---- */

/* Counts a list of ranges: "0-3,8". */
static uint32_t count_list(const char *text) {
  uint32_t count = 0;
  while (*text >= '0' && *text <= '9') {
    char *end;
    unsigned long from = strtoul(text, &end, 10), to = from;
    if (*end == '-') to = strtoul(end + 1, &end, 10);
    if (to < from || to - from > 1 << 20) break;
    count += (uint32_t)(to - from + 1);
    text = *end == ',' ? end + 1 : end;
  }
  return count;
}

static void read_affinity(const char *root, ull__system_limits *limits) {
  static const char key[] = "Cpus_allowed_list:";
  char *text = read_small(root, "/proc/self/status");
  const char *list = text != NULL ? strstr(text, key) : NULL;
  if (list != NULL) {
    list += sizeof key - 1;
    limits->affinity_cores = count_list(list + strspn(list, " \t"));
  }
  ull__free(text);
  if (limits->affinity_cores == 0) limits->affinity_cores = 1;
}

static void decide_cores(ull__system_limits *limits) {
  limits->usable_cores = limits->affinity_cores;
  if (limits->quota_cores == 0) return;
  /* A team wider than the quota is throttled as a whole, so parts of a core do not count. */
  double whole = limits->quota_cores < 1 ? 1 : limits->quota_cores;
  if (whole < limits->usable_cores) limits->usable_cores = (uint32_t)whole;
}

ull_status ull__system_limits_read(const char *root, ull__system_limits *out) {
  ull__system_limits limits = {0};
  ULL__TRY(read_machine(root, &limits));
  walk_up(root, "", visit_memory, &limits);
  walk_up(root, "memory", visit_memory, &limits);
  read_rlimits(root, &limits);
  read_affinity(root, &limits);
  walk_up(root, "", visit_quota, &limits);
  walk_up(root, "cpu", visit_quota, &limits);
  decide_cores(&limits);
  *out = limits;
  return ULL_OK;
}

/* ---- resident bytes ---- */

/* Reads the head of a file without allocating. */
static void read_head(const char *path, char *text, size_t capacity) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = file >= 0 ? read(file, text, capacity - 1) : 0;
  text[bytes > 0 ? bytes : 0] = '\0';
  if (file >= 0) close(file);
}

ull_status ull__resident_read(const char *root, ull__resident_bytes *out) {
  char path[PATH_BYTES], text[8192];
  uint64_t now = 0, peak = 0, anonymous = 0;
  snprintf(path, sizeof path, "%s/proc/self/status", root);
  read_head(path, text, sizeof text);
  bool found = find_number(text, "VmRSS:", &now);
  found = find_number(text, "VmHWM:", &peak) && found;
  find_number(text, "RssAnon:", &anonymous);
  if (!found) return ULL__FAIL(ULL_ERROR_IO, "%s does not say how much is resident", path);
  *out = (ull__resident_bytes){now * 1024, peak * 1024, anonymous * 1024};
  return ULL_OK;
}
