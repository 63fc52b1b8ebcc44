/* What samples that keep their thread waiting cost, where everything else is the decoder's.
 *
 *     ./dev bench slow_samples FOLDER [ROUNDS] [EVERY] [TIMES] [WORKERS]
 *
 * The JPEGs of FOLDER are read into memory and lent to the loader by callbacks, so that nothing but
 * decoding takes time. One sample of EVERY (200) sleeps TIMES (50) what a sample costs a thread.
 * Rounds with and without sleepers are taken in turn; who begins changes. Printed: median of the
 * ratios of rates, threads that worked or waited for a core (which other processes do not change),
 * and whether all rounds had the same samples and pixels in the same order. Exit 1 where not. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <zlib.h>

#include "ullage/data_callback.h"
#include "ullage/stream.h"

enum { MOST_FILES = 4096, REPEATS = 20, MOST_ROUNDS = 101, SPREAD = 7919 };

typedef struct pictures {
  uint8_t *bytes[MOST_FILES];
  uint64_t sizes[MOST_FILES];
  size_t count;
  uint64_t every;
  long sleep_ns; /* 0: nobody sleeps */
} pictures;

typedef struct round_result {
  double rate, threads, cpu_seconds;
  uint64_t samples, filled_by_standby;
  unsigned long sum;
} round_result;

static int stop(const char *what) {
  fprintf(stderr, "slow_samples: %s\n", what);
  exit(1);
}

static double seconds_of(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Of all threads: time on a core and time in a queue for one. */
static double runnable_seconds(void) {
  DIR *tasks = opendir("/proc/self/task");
  double all = 0;
  if (tasks == NULL) stop("/proc/self/task cannot be read");
  for (struct dirent *e; (e = readdir(tasks)) != NULL;) {
    char path[320];
    unsigned long long on = 0, queued = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
    FILE *file = e->d_name[0] != '.' ? fopen(path, "r") : NULL;
    if (file == NULL) continue;
    if (fscanf(file, "%llu %llu", &on, &queued) == 2) all += 1e-9 * (double)(on + queued);
    fclose(file);
  }
  closedir(tasks);
  return all;
}

static void read_file(pictures *all, const char *folder, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) stop(path);
  long size = ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1);
  if (bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size) stop(path);
  fclose(file);
  all->bytes[all->count] = bytes;
  all->sizes[all->count++] = (uint64_t)size;
}

static void read_folder(pictures *all, const char *folder) {
  DIR *listing = opendir(folder);
  if (listing == NULL) stop("FOLDER cannot be opened");
  for (struct dirent *e; (e = readdir(listing)) != NULL && all->count < MOST_FILES;) {
    size_t length = strlen(e->d_name);
    if (length > 4 && (strcasecmp(e->d_name + length - 4, ".jpg") == 0 ||
                       strcasecmp(e->d_name + length - 5, ".jpeg") == 0))
      read_file(all, folder, e->d_name);
  }
  closedir(listing);
  if (all->count == 0) stop("FOLDER holds no JPEGs");
}

static ull_status lend(void *context, uint64_t sample, size_t array, const void **bytes,
                       uint64_t *count, void **hold) {
  pictures *all = context;
  (void)array;
  if (all->sleep_ns > 0 && sample * SPREAD % all->every == 0) {
    struct timespec time = {all->sleep_ns / 1000000000, all->sleep_ns % 1000000000};
    nanosleep(&time, NULL);
  }
  *bytes = all->bytes[sample % all->count];
  *count = all->sizes[sample % all->count];
  *hold = NULL;
  return ULL_OK;
}

static void add_batch(round_result *result, const ull_batch *batch) {
  const ull_batch_array *array = &batch->arrays[0];
  uint64_t each = array->bytes / batch->samples, step = each / 64 / 4 * 4;
  result->samples += batch->samples;
  result->sum = crc32_z(result->sum, (const Bytef *)batch->sample_index,
                        batch->samples * sizeof batch->sample_index[0]);
  for (uint64_t at = 0; at + 4 <= array->bytes; at += step)
    result->sum = crc32_z(result->sum, (const Bytef *)array->data + at, 4);
}

static round_result run_round(const char *workers, uint64_t *sample_ns) {
  const char *settings[] = {"batch-size=64", "size=224", "epochs=1", "seed=3", workers};
  round_result result = {0};
  ull_stream *stream;
  const ull_batch *batch;
  double began = seconds_of(CLOCK_MONOTONIC), before = runnable_seconds(),
         cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  if (ull_stream_open("callback:pictures", settings, 5, &stream) != ULL_OK)
    stop(ull_error_last()->message);
  ull_loader *loader = ull_stream_loader(stream);
  while (ull_loader_next(loader, &batch) == ULL_OK && batch != NULL) {
    add_batch(&result, batch);
    ull_loader_release(loader, batch);
  }
  double seconds = seconds_of(CLOCK_MONOTONIC) - began;
  ull_loader_counts counts = ull_loader_count(loader);
  result.rate = (double)result.samples / seconds;
  result.threads = (runnable_seconds() - before) / seconds;
  result.cpu_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  result.filled_by_standby = counts.stood_in;
  uint64_t spent = 0;
  for (int stage = ULL_STAGE_OPEN; stage <= ULL_STAGE_CONVERT; stage++)
    spent += counts.stage_ns[stage];
  *sample_ns = spent / counts.filled;
  ull_stream_close(stream);
  return result;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof values[0], by_size);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void register_pictures(pictures *all) {
  static const ull_callback_array array = {.name = "image", .content = ULL_CONTENT_IMAGE};
  ull_callbacks callbacks = {.samples = all->count * REPEATS,
                             .arrays = &array,
                             .array_count = 1,
                             .open = lend,
                             .context = all};
  if (ull_source_register("pictures", &callbacks) != ULL_OK) stop(ull_error_last()->message);
}

int main(int count, char **words) {
  static pictures all;
  static double ratios[MOST_ROUNDS], threads[2][MOST_ROUNDS], cpu[2][MOST_ROUNDS],
      rates[2][MOST_ROUNDS];
  if (count < 2) stop("usage: slow_samples FOLDER [ROUNDS] [EVERY] [TIMES] [WORKERS]");
  int rounds = count > 2 ? atoi(words[2]) : 9, times = count > 4 ? atoi(words[4]) : 50;
  char workers[32];
  snprintf(workers, sizeof workers, "workers=%s", count > 5 ? words[5] : "2");
  if (rounds < 1 || rounds > MOST_ROUNDS) stop("ROUNDS is 1 to 101");
  all.every = count > 3 ? (uint64_t)atoll(words[3]) : 200;
  read_folder(&all, words[1]);
  register_pictures(&all);
  uint64_t sample_ns, unused, stood_in = 0;
  unsigned long sum =
      run_round(workers, &sample_ns).sum; /* warms up, and says what a sample costs */
  bool same = true;
  for (int r = 0; r < rounds; r++) {
    round_result got[2];
    for (int turn = 0; turn < 2; turn++) {
      int slow = (r + turn) % 2;
      all.sleep_ns = slow ? (long)sample_ns * times : 0;
      got[slow] = run_round(workers, slow ? &unused : &sample_ns);
      threads[slow][r] = got[slow].threads;
      cpu[slow][r] = got[slow].cpu_seconds;
      rates[slow][r] = got[slow].rate;
      same &= got[slow].sum == sum;
    }
    ratios[r] = got[1].rate / got[0].rate;
    stood_in += got[1].filled_by_standby;
  }
  printf("a sample costs %.2f ms of a thread; one of %llu sleeps %.0f ms\n",
         (double)sample_ns / 1e6, (unsigned long long)all.every, (double)sample_ns * times / 1e6);
  for (int slow = 0; slow < 2; slow++)
    printf("%s sleepers: %.1f samples/s, %.2f CPU seconds, %.2f threads at work or queued\n",
           slow ? "with" : "without", median(rates[slow], rounds), median(cpu[slow], rounds),
           median(threads[slow], rounds));
  double middle = median(ratios, rounds); /* sorts them */
  printf("ratio %.4f (median of %d, %.4f to %.4f), order and pixels %s, %llu samples a round by "
         "threads that stand by\n",
         middle, rounds, ratios[0], ratios[rounds - 1], same ? "the same" : "DIFFER",
         (unsigned long long)(stood_in / (uint64_t)rounds));
  return same ? 0 : 1;
}
