/* Every file of a source, decoded by several threads and told in order.
 *
 * Files are taken in chunks: threads fill the results of a chunk in any order, the calling thread
 * then tells them in theirs. Nothing of the size of the source is held but 24 bytes a file to find
 * duplicates. */
#include "data/scan_files.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash_map.h"
#include "base/system_limits.h"
#include "base/vector.h"

enum { CHUNK_SAMPLES = 256, WORKERS_MAX = 256, PAGE = 4096 };

typedef struct scan {
  const ull_source *source;
  const ull_scan_options *options;
  size_t encoded[ULL_DATA_MAX_ARRAYS]; /* arrays that are files */
  size_t encoded_count;                /* 0: a sample is a file */
  int label;                           /* the array of labels, or -1 */
  ull__scan_result *results;           /* [CHUNK_SAMPLES][files of a sample] */
  ull__scanner *scanners;
  int workers;

  pthread_mutex_t mutex;
  pthread_cond_t begun, done;
  uint64_t first, count; /* of the chunk */
  uint64_t next, finished;
  bool stopping;
  ull_error failure; /* of the first thread that failed */

  ull__id_map seen;              /* first half of a hash -> file */
  ULL__VECTOR(uint64_t) seconds; /* second halves, by file */
  ull_scan_report *report;
  uint64_t size_count;
  uint64_t most_region_bytes;
} scan;

static size_t files_of_sample(const scan *s) {
  return s->encoded_count > 0 ? s->encoded_count : 1;
}

static ull_status scan_sample(scan *s, ull__scanner *scanner, uint64_t index) {
  uint64_t sample = s->first + index;
  ull__scan_result *results = s->results + index * files_of_sample(s);
  if (s->encoded_count == 0) return ull__scan_elements(scanner, sample, results);
  uint64_t stored = ull__source_stored_index(s->source, sample);
  for (size_t i = 0; i < s->encoded_count; i++) {
    ULL__TRY(ull__scan_picture(scanner, stored, s->encoded[i], &results[i]));
  }
  return ULL_OK;
}

static void work_on_chunk(scan *s, ull__scanner *scanner) {
  while (s->next < s->count) {
    uint64_t index = s->next++;
    pthread_mutex_unlock(&s->mutex);
    ull_status status = scan_sample(s, scanner, index);
    pthread_mutex_lock(&s->mutex);
    if (status != ULL_OK && s->failure.status == ULL_OK) s->failure = *ull_error_last();
    if (++s->finished == s->count) pthread_cond_broadcast(&s->done);
  }
}

typedef struct helper {
  scan *scan;
  ull__scanner *scanner;
  pthread_t thread;
} helper;

static void *run_helper(void *argument) {
  helper *h = argument;
  scan *s = h->scan;
  pthread_mutex_lock(&s->mutex);
  while (!s->stopping) {
    work_on_chunk(s, h->scanner);
    if (!s->stopping) pthread_cond_wait(&s->begun, &s->mutex);
  }
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* ---- telling ---- */

static ull_status find_same(scan *s, const ull__scan_result *result, uint64_t file,
                            uint64_t *same_as) {
  *same_as = file;
  ULL__TRY(ull__vector_push(&s->seconds, result->hash[1]));
  if (result->verdict == ULL_VERDICT_UNREADABLE || result->bytes == 0) return ULL_OK;
  const uint64_t *before = ull__id_map_find(&s->seen, result->hash[0]);
  if (before == NULL) return ull__id_map_put(&s->seen, result->hash[0], file);
  if (s->seconds.items[*before] == result->hash[1]) *same_as = *before;
  return ULL_OK;
}

static void widen(int value, bool first, int *least, int *most) {
  if (first || value < *least) *least = value;
  if (first || value > *most) *most = value;
}

static void add_to_report(scan *s, const ull__scan_result *result, bool duplicate) {
  ull_scan_report *report = s->report;
  report->files++;
  report->bytes += result->bytes;
  report->verdicts[result->verdict]++;
  report->bad += ull_verdict_is_bad(result->verdict);
  report->duplicates += duplicate;
  report->decode_seconds += (double)result->decode_ns * 1e-9;
  if (result->working_bytes > report->most_working_bytes)
    report->most_working_bytes = result->working_bytes;
  if (result->region_bytes > s->most_region_bytes) s->most_region_bytes = result->region_bytes;
  if (result->width == 0) return;
  bool first = s->size_count++ == 0;
  widen(result->width, first, &report->least_width, &report->most_width);
  widen(result->height, first, &report->least_height, &report->most_height);
}

static int64_t read_label(const scan *s, uint64_t sample) {
  int64_t wide = -1;
  int32_t narrow = -1;
  uint8_t byte = 0;
  if (s->label < 0) return -1;
  ull_dtype dtype = s->source->arrays[s->label].dtype;
  void *to = dtype == ULL_INT64 ? (void *)&wide : dtype == ULL_INT32 ? (void *)&narrow : &byte;
  if (ull_source_read(s->source, sample, (size_t)s->label, to, NULL) != ULL_OK) return -1;
  return dtype == ULL_INT64 ? wide : dtype == ULL_INT32 ? narrow : byte;
}

/* Masks have names of their own. */
static void name_file(scan *s, uint64_t sample, size_t encoded, ull__record *record) {
  uint64_t stored = ull__source_stored_index(s->source, sample);
  ull_source_sample_name(s->source, sample, record->path, sizeof record->path);
  if (encoded == 0 || s->encoded_count == 0) return;
  if (s->source->kind->open_record(s->source, stored, s->encoded[encoded], record) != ULL_OK)
    return;
  ull__source_close_record(s->source, record);
}

static ull_status tell_file(scan *s, uint64_t sample, size_t encoded,
                            const ull__scan_result *result) {
  ull__record *record = &s->scanners[0].record; /* free between chunks */
  ull_scanned scanned = {.file = s->report->files,
                         .sample = sample,
                         .verdict = result->verdict,
                         .reason = result->reason,
                         .width = result->width,
                         .height = result->height,
                         .bytes = result->bytes,
                         .working_bytes = result->working_bytes};
  ULL__TRY(find_same(s, result, scanned.file, &scanned.same_as));
  add_to_report(s, result, scanned.same_as != scanned.file);
  if (s->options->file == NULL) return ULL_OK;
  name_file(s, sample, encoded, record);
  scanned.path = record->path;
  scanned.label = read_label(s, sample);
  return s->options->file(s->options->context, &scanned);
}

static ull_status tell_chunk(scan *s) {
  size_t files = files_of_sample(s);
  for (uint64_t i = 0; i < s->count; i++) {
    for (size_t k = 0; k < files; k++) {
      ULL__TRY(tell_file(s, s->first + i, k, &s->results[i * files + k]));
    }
    s->report->samples++;
  }
  return ULL_OK;
}

/* ---- running ---- */

static ull_status run_chunk(scan *s, uint64_t first) {
  uint64_t left = s->source->count - first;
  pthread_mutex_lock(&s->mutex);
  s->first = first;
  s->count = left < CHUNK_SAMPLES ? left : CHUNK_SAMPLES;
  s->next = s->finished = 0;
  pthread_cond_broadcast(&s->begun);
  work_on_chunk(s, &s->scanners[0]);
  while (s->finished < s->count) pthread_cond_wait(&s->done, &s->mutex);
  ull_error failure = s->failure;
  pthread_mutex_unlock(&s->mutex);
  return failure.status == ULL_OK ? tell_chunk(s) : ull__error_restore(&failure);
}

static ull_status run_chunks(scan *s) {
  for (uint64_t first = 0; first < s->source->count; first += CHUNK_SAMPLES) {
    ULL__TRY(run_chunk(s, first));
    if (s->options->progress != NULL)
      s->options->progress(s->options->context, s->report->samples, s->source->count);
  }
  return ULL_OK;
}

/* Starts helpers beside the calling thread; with fewer than wanted it takes longer. */
static int start_helpers(scan *s, helper *helpers) {
  sigset_t all, before;
  int started = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (; started + 1 < s->workers; started++) {
    helpers[started] = (helper){.scan = s, .scanner = &s->scanners[started + 1]};
    if (pthread_create(&helpers[started].thread, NULL, run_helper, &helpers[started]) != 0) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

static ull_status run_threads(scan *s) {
  helper helpers[WORKERS_MAX];
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->begun, NULL);
  pthread_cond_init(&s->done, NULL);
  int started = start_helpers(s, helpers);
  ull_status status = run_chunks(s);
  pthread_mutex_lock(&s->mutex);
  s->stopping = true;
  pthread_cond_broadcast(&s->begun);
  pthread_mutex_unlock(&s->mutex);
  for (int i = 0; i < started; i++) pthread_join(helpers[i].thread, NULL);
  pthread_cond_destroy(&s->done);
  pthread_cond_destroy(&s->begun);
  pthread_mutex_destroy(&s->mutex);
  return status;
}

static void find_arrays(scan *s) {
  s->label = -1;
  for (size_t i = 0; i < s->source->array_count; i++) {
    const ull_array_info *info = &s->source->arrays[i];
    if (info->content != ULL_CONTENT_ELEMENTS) {
      s->encoded[s->encoded_count++] = i;
      continue;
    }
    bool integer = info->dtype == ULL_INT64 || info->dtype == ULL_INT32 || info->dtype == ULL_UINT8;
    bool one = info->sample_bytes == ull_dtype_bytes(info->dtype);
    if (info->role == ULL_ARRAY_TARGET && integer && one) s->label = (int)i;
  }
}

static int choose_workers(const ull_scan_options *options) {
  ull__system_limits limits;
  int workers = options->workers;
  if (workers <= 0) {
    bool known = ull__system_limits_read("", &limits) == ULL_OK;
    workers = known ? (int)limits.usable_cores : 1;
  }
  return workers < WORKERS_MAX ? workers : WORKERS_MAX;
}

/* The budget whose quarter, in whole pages, is the region. */
static uint64_t budget_of(const scan *s) {
  uint64_t pages = (s->most_region_bytes + PAGE - 1) / PAGE * PAGE;
  return pages == 0 ? 0 : 4 * pages + s->source->resident_bytes;
}

static void sum_up(const scan *s) {
  ull__pixel_sums all = {0};
  for (int i = 0; i < s->workers; i++) {
    const ull__pixel_sums *sums = &s->scanners[i].sums;
    all.pixels += sums->pixels;
    for (int c = 0; c < 3; c++) {
      all.sum[c] += sums->sum[c];
      all.square_sum[c] += sums->square_sum[c];
    }
  }
  s->report->pixels = all.pixels;
  s->report->loader_bytes = budget_of(s);
  for (int c = 0; c < 3 && all.pixels > 0; c++) {
    double mean = (double)all.sum[c] / (double)all.pixels;
    double variance = (double)all.square_sum[c] / (double)all.pixels - mean * mean;
    s->report->mean[c] = mean / 255;
    s->report->deviation[c] = variance > 0 ? sqrt(variance) / 255 : 0;
  }
}

static ull_status run(scan *s) {
  s->results = ull__alloc(CHUNK_SAMPLES * files_of_sample(s), sizeof *s->results);
  s->scanners = ull__alloc((size_t)s->workers, sizeof *s->scanners);
  if (s->results == NULL || s->scanners == NULL) return ull_error_last()->status;
  for (int i = 0; i < s->workers; i++) {
    ULL__TRY(ull__scanner_create(s->source, s->options, &s->scanners[i]));
  }
  ULL__TRY(run_threads(s));
  sum_up(s);
  return ULL_OK;
}

ull_status ull_source_scan(const ull_source *source, const ull_scan_options *options,
                           ull_scan_report *report) {
  scan *s = ull__alloc(1, sizeof *s);
  if (s == NULL) return ull_error_last()->status;
  const ull_error before = *ull_error_last();
  *report = (ull_scan_report){0};
  s->source = source;
  s->options = options;
  s->report = report;
  s->workers = choose_workers(options);
  find_arrays(s);
  ull_status status = run(s);
  for (int i = 0; s->scanners != NULL && i < s->workers; i++) ull__scanner_free(&s->scanners[i]);
  ull__free(s->scanners);
  ull__free(s->results);
  ull__id_map_free(&s->seen);
  ull__vector_free(&s->seconds);
  ull__free(s);
  return ull__error_unless(status, &before);
}
