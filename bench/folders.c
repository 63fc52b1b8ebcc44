/* How long a folder takes to open: the first time, and from the kept index.
 *
 * usage: folders FOLDER [PICTURES] [CLASSES]
 *
 * Fills FOLDER, which must be empty or absent, with empty pictures (1,000,000 in 1,000 classes) and
 * leaves it; a FOLDER that has something in it is opened as it is. Prints medians of five opens,
 * the bytes that stay resident, and the price of finding one sample's path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ullage/data.h"

enum { OPENS = 5, LOOKUPS = 100000 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "folders: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void fill(const char *folder, long pictures, long classes) {
  char path[4096];
  for (long c = 0; c < classes; c++) {
    snprintf(path, sizeof path, "%s/n%08ld", folder, c * 7919);
    if (mkdir(path, 0777) != 0) fail(path);
    int at = open(path, O_RDONLY | O_DIRECTORY);
    if (at < 0) fail(path);
    for (long i = c; i < pictures; i += classes) {
      snprintf(path, sizeof path, "n%08ld_%ld.JPEG", c * 7919, i);
      int file = openat(at, path, O_WRONLY | O_CREAT, 0666);
      if (file < 0) fail(path);
      close(file);
    }
    close(at);
  }
}

static ull_source *open_folder(const char *folder, double *seconds) {
  ull_source_options options = ull_source_options_default();
  ull_source *source;
  double begin = now();
  if (ull_source_open(folder, &options, &source) != ULL_OK) {
    fprintf(stderr, "folders: %s\n", ull_error_last()->message);
    exit(1);
  }
  *seconds = now() - begin;
  return source;
}

static int by_size(const void *a, const void *b) {
  double first = *(const double *)a, second = *(const double *)b;
  return (first > second) - (first < second);
}

static void measure(const char *folder, const char *what) {
  double seconds[OPENS];
  for (int i = 0; i < OPENS; i++) ull_source_close(open_folder(folder, &seconds[i]));
  qsort(seconds, OPENS, sizeof seconds[0], by_size);
  printf("%-28s %9.2f ms (%.2f to %.2f)\n", what, 1e3 * seconds[OPENS / 2], 1e3 * seconds[0],
         1e3 * seconds[OPENS - 1]);
}

static void look_up(const char *folder) {
  char name[4096];
  double seconds;
  ull_source *source = open_folder(folder, &seconds);
  uint64_t count = ull_source_sample_count(source), sample = 0;
  double begin = now();
  for (int i = 0; i < LOOKUPS; i++) {
    sample = (sample * 6364136223846793005u + 1442695040888963407u) % count;
    ull_source_sample_name(source, sample, name, sizeof name);
  }
  printf("%-28s %9.2f us\n", "path of a sample", 1e6 * (now() - begin) / LOOKUPS);
  printf("%-28s %9llu\n", "samples", (unsigned long long)count);
  printf("%-28s %9llu\n", "resident bytes", (unsigned long long)ull_source_resident_bytes(source));
  ull_source_close(source);
}

int main(int count, char **arguments) {
  if (count < 2) {
    fprintf(stderr, "usage: folders FOLDER [PICTURES] [CLASSES]\n");
    return 2;
  }
  const char *folder = arguments[1];
  long pictures = count > 2 ? atol(arguments[2]) : 1000000;
  long classes = count > 3 ? atol(arguments[3]) : 1000;
  struct stat about;
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) fail(folder);
  if (stat(folder, &about) == 0 && about.st_nlink <= 2) fill(folder, pictures, classes);
  sleep(1);
  setenv("XDG_CACHE_HOME", "/dev/null/none", 1);
  measure(folder, "scan, nothing kept");
  char cache[4096];
  snprintf(cache, sizeof cache, "%s.cache", folder);
  setenv("XDG_CACHE_HOME", cache, 1);
  double first;
  ull_source_close(open_folder(folder, &first));
  printf("%-28s %9.2f ms\n", "scan, index written", 1e3 * first);
  measure(folder, "open from the kept index");
  look_up(folder);
  return 0;
}
