/* What a benchmark of a loader tells, and the knee: the number of threads from which more of them
 * bring little, with its cause. */
#include "cli/data_bench.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/data_text.h"
#include "ullage/status.h"

#define KNEE_GAIN 0.10  /* of the rate, for twice the threads */
#define SLOWER 1.25     /* the same work takes so much longer: memory bandwidth */
#define WAITS 0.20      /* of threads' time */
#define BUSY_CORES 0.90 /* of those that are there */
#define TELLING_SECONDS 1.0

/* Of the whole run: single epochs may find all their batches made while the one before was used. */
static double rate(const bench_run *run) {
  return run->seconds > 0 ? (double)run->samples / run->seconds : 0;
}

static double per_thousand(const bench_run *run) {
  return run->samples > 0 ? run->cpu_seconds * 1000.0 / (double)run->samples : 0;
}

static double stage_total(const bench_run *run) {
  double total = 0;
  for (int s = 0; s < ULL_STAGE_COUNT; s++) total += (double)run->counts.stage_ns[s];
  return total > 0 ? total : 1;
}

static double share(const bench_run *run, ull_loader_stage stage) {
  return (double)run->counts.stage_ns[stage] / stage_total(run);
}

/* Microseconds of a sample in a stage. */
static double stage_us(const bench_run *run, ull_loader_stage stage) {
  uint64_t samples = run->counts.filled;
  return samples > 0 ? (double)run->counts.stage_ns[stage] * 1e-3 / (double)samples : 0;
}

static void print_bad(FILE *out, const bench_run *run) {
  uint64_t bad = 0;
  for (int v = 0; v < ULL_VERDICT_COUNT; v++)
    if (ull_verdict_is_bad((ull_verdict)v)) bad += run->counts.verdicts[v];
  if (bad == 0) return;
  fprintf(out, "bad       %llu samples: %llu replaced, %llu left out\n", (unsigned long long)bad,
          (unsigned long long)run->counts.replaced, (unsigned long long)run->counts.skipped);
  for (size_t i = 0; i < run->bad_count && i < 10; i++) {
    cli_put(out, "          ", run->bad[i].path, ": ");
    fprintf(out, "%s%s%s\n", ull_verdict_name(run->bad[i].verdict),
            run->bad[i].reason[0] ? ": " : "", run->bad[i].reason);
  }
  if (run->bad_count > 10) fprintf(out, "          … %zu more files\n", run->bad_count - 10);
}

void bench_print_run(FILE *out, const bench_run *run) {
  fprintf(out, "rate      %.1f samples/s · %.3f CPU seconds per 1000 samples · epochs:", rate(run),
          per_thousand(run));
  for (size_t i = 0; i < run->epoch_count && i < 8; i++) fprintf(out, " %.1f", run->epoch_rate[i]);
  fprintf(out, "%s\n", run->epoch_count > 8 ? " …" : "");
  fprintf(out, "time      a sample takes a thread");
  for (int s = 0; s < ULL_STAGE_IDLE; s++)
    if (run->counts.stage_ns[s] > 0)
      fprintf(out, " · %s %.0f µs", ull_loader_stage_name((ull_loader_stage)s),
              stage_us(run, (ull_loader_stage)s));
  fprintf(out, "\n          threads waited for a free slot %.0f %% of the time\n",
          100 * share(run, ULL_STAGE_IDLE));
  fprintf(out, "used      %.1f of %.1f MiB\n", (double)run->counts.peak_bytes / 1048576.0,
          (double)ull_loader_bound_total(&run->bound) / 1048576.0);
  print_bad(out, run);
}

/* ---- knee ---- */

/* The first run after which more threads bring little; the last one where all did. */
static int find_knee(const bench *b) {
  for (int i = 0; i + 1 < b->count; i++) {
    double more = (double)b->runs[i + 1].workers / b->runs[i].workers - 1;
    double gain = rate(&b->runs[i + 1]) / rate(&b->runs[i]) - 1;
    if (more > 0 && gain < KNEE_GAIN * more) return i;
  }
  return b->count - 1;
}

/* Why `after` is no faster than `before`, in the order of what can be told apart. */
static const char *find_cause(const bench_run *first, const bench_run *after) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  double busy = after->seconds > 0 ? after->cpu_seconds / after->seconds : 0;
  double reads = share(after, ULL_STAGE_READ) + share(after, ULL_STAGE_OPEN);
  if (share(after, ULL_STAGE_QUEUE) > WAITS) return "locks: the region for large pictures";
  if (share(after, ULL_STAGE_IDLE) > WAITS) return "whoever takes the batches, or too few slots";
  if (reads > WAITS && busy < BUSY_CORES * (double)cores) return "disk";
  double cost = per_thousand(after) / (per_thousand(first) > 0 ? per_thousand(first) : 1);
  bool more_threads_than_cores = after->workers > cores;
  if (cost > SLOWER && !more_threads_than_cores) return "memory bandwidth";
  ull_loader_stage largest = ULL_STAGE_OPEN;
  for (int s = 0; s < ULL_STAGE_QUEUE; s++)
    if (after->counts.stage_ns[s] > after->counts.stage_ns[largest]) largest = (ull_loader_stage)s;
  return largest == ULL_STAGE_DECODE ? "decode: all cores are busy with it"
         : largest == ULL_STAGE_READ || largest == ULL_STAGE_OPEN
             ? "reading: all cores are busy with it"
             : "resizing and conversion: all cores are busy with it";
}

static double shortest_seconds(const bench *b) {
  double seconds = b->runs[0].seconds;
  for (int i = 1; i < b->count; i++)
    if (b->runs[i].seconds < seconds) seconds = b->runs[i].seconds;
  return seconds;
}

void bench_print_table(FILE *out, const bench *b) {
  int knee = find_knee(b);
  fprintf(out, "\nworkers  samples/s  CPU s per 1000  wait for slots\n");
  for (int i = 0; i < b->count; i++)
    fprintf(out, "%7d  %9.1f  %14.3f  %12.0f %%%s\n", b->runs[i].workers, rate(&b->runs[i]),
            per_thousand(&b->runs[i]), 100 * share(&b->runs[i], ULL_STAGE_IDLE),
            i == knee ? "  ← knee" : "");
  if (knee + 1 < b->count)
    fprintf(out, "beyond %d the limit is %s\n", b->runs[knee].workers,
            find_cause(&b->runs[0], &b->runs[knee + 1]));
  else
    fprintf(out, "more threads may bring more\n");
  double seconds = shortest_seconds(b);
  if (seconds < TELLING_SECONDS)
    fprintf(out, "of %.0f ms little can be told; more --epochs measure longer\n", 1000 * seconds);
}

/* ---- JSON ---- */

static json_t *verdict_map(const bench_run *run) {
  json_t *map = json_object();
  for (int v = 0; v < ULL_VERDICT_COUNT && map; v++)
    json_object_set_new(map, ull_verdict_name((ull_verdict)v),
                        json_integer((json_int_t)run->counts.verdicts[v]));
  return map;
}

static json_t *stage_map(const bench_run *run) {
  json_t *map = json_object();
  for (int s = 0; s < ULL_STAGE_COUNT && map; s++)
    json_object_set_new(map, ull_loader_stage_name((ull_loader_stage)s),
                        json_real((double)run->counts.stage_ns[s] * 1e-9));
  return map;
}

static json_t *rates(const bench_run *run) {
  json_t *list = json_array();
  for (size_t i = 0; i < run->epoch_count && list; i++)
    json_array_append_new(list, json_real(run->epoch_rate[i]));
  return list;
}

static json_t *bad_list(const bench_run *run) {
  json_t *list = json_array();
  for (size_t i = 0; i < run->bad_count && list; i++) {
    const ull_bad_sample *bad = &run->bad[i];
    json_array_append_new(list, json_pack("{s:I, s:o, s:s, s:s, s:I}", "index",
                                          (json_int_t)bad->sample, "path", cli_data_text(bad->path),
                                          "verdict", ull_verdict_name(bad->verdict), "reason",
                                          bad->reason, "times", (json_int_t)bad->times));
  }
  return list;
}

static json_t *bound_map(const ull_loader_bound *bound) {
  return json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "slots", (json_int_t)bound->slots, "slot_bytes",
      (json_int_t)bound->slot_bytes, "threads", (json_int_t)bound->threads, "thread_bytes",
      (json_int_t)bound->scratch_bytes, "large_bytes", (json_int_t)bound->large_bytes,
      "reader_bytes", (json_int_t)bound->reader_bytes, "control_bytes",
      (json_int_t)bound->control_bytes, "source_bytes", (json_int_t)bound->source_bytes);
}

static json_t *run_object(const bench_run *run) {
  json_t *object = json_pack(
      "{s:i, s:i, s:i, s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:f, s:o, s:o, s:o}", "workers",
      run->workers, "standby", run->standby, "prefetch", run->prefetch, "bound_bytes",
      (json_int_t)ull_loader_bound_total(&run->bound), "measured_peak_bytes",
      (json_int_t)run->counts.peak_bytes, "samples", (json_int_t)run->samples, "verdicts",
      verdict_map(run), "epoch_samples_per_second", rates(run), "samples_per_second", rate(run),
      "seconds", run->seconds, "cpu_seconds_per_1000", per_thousand(run), "stage_seconds",
      stage_map(run), "bound", bound_map(&run->bound), "bad", bad_list(run));
  if (object == NULL) return NULL;
  json_object_set_new(object, "replaced", json_integer((json_int_t)run->counts.replaced));
  json_object_set_new(object, "skipped", json_integer((json_int_t)run->counts.skipped));
  json_object_set_new(object, "batches", json_integer((json_int_t)run->counts.batches));
  json_object_set_new(object, "stood_in", json_integer((json_int_t)run->counts.stood_in));
  json_object_set_new(object, "wait_seconds", json_real((double)run->counts.wait_ns * 1e-9));
  return object;
}

static const bench_run *fastest(const bench *b) {
  const bench_run *best = &b->runs[0];
  for (int i = 1; i < b->count; i++)
    if (rate(&b->runs[i]) > rate(best)) best = &b->runs[i];
  return best;
}

char *bench_json(const bench *b) {
  json_t *object = run_object(fastest(b));
  if (object == NULL) return NULL;
  json_object_set_new(object, "schema", json_integer(1));
  if (b->count > 1) {
    int knee = find_knee(b);
    json_t *list = json_array();
    for (int i = 0; i < b->count && list; i++) json_array_append_new(list, run_object(&b->runs[i]));
    json_object_set_new(object, "runs", list);
    json_object_set_new(object, "knee_workers", json_integer(b->runs[knee].workers));
    json_object_set_new(object, "knee_cause",
                        knee + 1 < b->count
                            ? json_string(find_cause(&b->runs[0], &b->runs[knee + 1]))
                            : json_null());
  }
  char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
  json_decref(object);
  return line;
}
