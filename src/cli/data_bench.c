/* ullage data bench SRC: how fast samples come, what they cost, and where the time goes. */
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "cli/data.h"
#include "cli/data_bench.h"
#include "cli/data_text.h"
#include "ullage/stream.h"

/* ---- samples ---- */

static bool is_picture(const ull_stream *stream, size_t binding) {
  size_t array = ull_stream_options(stream)->bindings[binding].array;
  const ull_array_info *info = ull_source_array(ull_stream_source(stream), array);
  return info->content != ULL_CONTENT_ELEMENTS || info->image;
}

/* Of the sample's pictures; where it has none, of everything. */
static uint32_t checksum(const ull_stream *stream, const ull_batch *batch, uint64_t sample) {
  uLong crc = crc32(0, NULL, 0);
  bool any = false;
  for (size_t i = 0; i < batch->array_count; i++) any |= is_picture(stream, i);
  for (size_t i = 0; i < batch->array_count; i++) {
    if (any && !is_picture(stream, i)) continue;
    const ull_batch_array *array = &batch->arrays[i];
    uint64_t bytes = array->bytes / batch->samples;
    crc = crc32_z(crc, (const Bytef *)array->data + sample * bytes, bytes);
  }
  return (uint32_t)crc;
}

static void write_samples(FILE *file, const ull_stream *stream, const ull_batch *batch) {
  char path[8192];
  for (uint64_t i = 0; i < batch->samples; i++) {
    ull_stream_sample_name(stream, batch->sample_index[i], path, sizeof path);
    fprintf(file, "{\"index\":%llu,\"path\":", (unsigned long long)batch->sample_index[i]);
    cli_data_put_text(file, path);
    fprintf(file, ",\"verdict\":\"%s\"", ull_verdict_name((ull_verdict)batch->used_verdict[i]));
    if (ull_verdict_is_bad((ull_verdict)batch->verdict[i]))
      fprintf(file, ",\"instead_of\":\"%s\"", ull_verdict_name((ull_verdict)batch->verdict[i]));
    fprintf(file, ",\"crc32\":%u}\n", checksum(stream, batch, i));
  }
}

/* ---- a run ---- */

typedef struct meter {
  bench_run *run;
  FILE *samples;
  uint64_t batches_left; /* 0 = until the end */
  double epoch_began;
  uint64_t epoch_samples;
  bool began;
  uint64_t epoch;
  live_line line;
} meter;

static void end_epoch(meter *m) {
  double now = cli_now(), seconds = now - m->epoch_began;
  bench_run *run = m->run;
  if (m->epoch_samples > 0 && run->epoch_count < BENCH_EPOCHS && seconds > 0)
    run->epoch_rate[run->epoch_count++] = (double)m->epoch_samples / seconds;
  m->epoch_began = now;
  m->epoch_samples = 0;
}

static void take_batch(meter *m, const ull_stream *stream, const ull_batch *batch) {
  if (m->began && batch->epoch != m->epoch) end_epoch(m);
  m->began = true;
  m->epoch = batch->epoch;
  m->epoch_samples += batch->samples;
  m->run->samples += batch->samples;
  if (m->samples != NULL) write_samples(m->samples, stream, batch);
}

static void show_progress(meter *m, const ull_stream *stream, double began) {
  enum { EPOCH, SAMPLES, RATE, PARTS };
  static const int expendable[] = {EPOCH, -1};
  live_part parts[PARTS];
  size_t size = sizeof parts[0];
  if (!live_is_due(&m->line, false)) return;
  snprintf(parts[EPOCH], size, "epoch %llu of %llu", (unsigned long long)m->epoch + 1,
           (unsigned long long)ull_stream_options(stream)->epochs);
  snprintf(parts[SAMPLES], size, "%llu samples", (unsigned long long)m->run->samples);
  snprintf(parts[RATE], size, "%.0f samples/s", (double)m->run->samples / (cli_now() - began));
  live_show(&m->line, parts, PARTS, expendable, -1);
}

static ull_status load_batches(meter *m, ull_stream *stream) {
  ull_loader *loader = ull_stream_loader(stream);
  const ull_batch *batch;
  double began = m->epoch_began;
  for (uint64_t left = m->batches_left;;) {
    ull_status status = ull_loader_next(loader, &batch);
    if (status != ULL_OK || batch == NULL) return status;
    take_batch(m, stream, batch);
    ull_loader_release(loader, batch);
    show_progress(m, stream, began);
    if (left > 0 && --left == 0) return ULL_OK;
  }
}

static ull_status start_at(const command *c, ull_loader *loader) {
  uint64_t batch = (uint64_t)ull_config_integer(c->config, "start-batch");
  uint64_t batches = ull_loader_batches_per_epoch(loader);
  if (batch == 0) return ULL_OK;
  ull_loader_position position = {.epoch = batch / batches, .batch = batch % batches};
  return ull_loader_set_position(loader, position);
}

static void keep_results(const ull_loader *loader, bench_run *run) {
  run->counts = ull_loader_count(loader);
  run->bad_count = ull_loader_bad_samples(loader, 0, run->bad, BENCH_BAD);
}

static ull_status measure(const command *c, ull_stream *stream, FILE *samples, bench_run *run) {
  meter m = {.run = run, .samples = samples};
  live_begin(&m.line, stderr);
  if (ull_config_has(c->config, "batches"))
    m.batches_left = (uint64_t)ull_config_integer(c->config, "batches");
  double cpu = cli_data_cpu_seconds(), began = m.epoch_began = cli_now();
  ull_status status = ull_stream_start(stream);
  if (status != ULL_OK) return status;
  status = start_at(c, ull_stream_loader(stream));
  if (status == ULL_OK) status = load_batches(&m, stream);
  live_clear(&m.line);
  end_epoch(&m);
  run->seconds = cli_now() - began;
  run->cpu_seconds = cli_data_cpu_seconds() - cpu;
  keep_results(ull_stream_loader(stream), run);
  return status;
}

static void print_stream(const command *c, const ull_stream *stream) {
  char text[512], augment[256];
  const ull_loader_options *options = ull_stream_options(stream);
  bool training = strcmp(ull_config_text(c->config, "mode"), "train") == 0;
  cli_put(c->report, "data      ", ull_source_text(ull_stream_source(stream)), " · ");
  fprintf(c->report, "%llu samples · %s · augmentation %s\n",
          (unsigned long long)ull_stream_samples(stream), training ? "training" : "evaluation",
          ull_augment_describe(&options->augment, augment, sizeof augment));
  for (size_t i = 0; i < options->binding_count; i++) {
    const ull_binding *binding = &options->bindings[i];
    if (!binding->normalize.active) continue;
    cli_put(c->report, "          ", binding->name, " normalised ");
    fprintf(c->report, "%s\n", ull_normalize_describe(&binding->normalize, text, sizeof text));
  }
}

static void print_means(const command *c, const ull_stream *stream, const bench_run *run) {
  char text[512];
  bool given = ull_config_has(c->config, "loader-memory");
  fprintf(c->report, "loader    %d thread%s and %d standing by · batches of %llu\n", run->workers,
          run->workers == 1 ? "" : "s", run->standby,
          (unsigned long long)ull_stream_options(stream)->batch_size);
  fprintf(c->report, "memory    %s (%s)\n",
          ull_loader_bound_describe(&run->bound, text, sizeof text),
          given ? "--loader-memory" : "by default as much as it takes");
  fflush(c->report);
}

/* `workers` < 0: what --workers says, or what suits. */
static ull_status run_with(const command *c, const char *subject, int workers, FILE *samples,
                           bench_run *run) {
  ull_stream *stream;
  ull_status status = ull_stream_prepare(subject, c->config, workers, &stream);
  if (status != ULL_OK) return status;
  const ull_loader_options *options = ull_stream_options(stream);
  run->bound = *ull_stream_bound(stream);
  run->workers = options->workers;
  run->prefetch = options->prefetch;
  run->standby = (int)run->bound.threads - run->workers;
  if (run->is_first) print_stream(c, stream);
  print_means(c, stream, run);
  status = measure(c, stream, samples, run);
  if (status == ULL_OK) bench_print_run(c->report, run);
  ull_stream_close(stream);
  return status;
}

/* ---- several numbers of workers ---- */

static int next_workers(const char **text) {
  char *end;
  long workers = strtol(*text, &end, 10);
  *text = *end == ',' ? end + 1 : end;
  return (int)workers;
}

static ull_status run_all(const command *c, const char *subject, FILE *samples, bench *b) {
  const char *list = ull_config_text(c->config, "workers");
  b->runs[0].is_first = true;
  if (list == NULL || strchr(list, ',') == NULL) {
    b->count = 1;
    return run_with(c, subject, -1, samples, &b->runs[0]);
  }
  while (*list != '\0' && b->count < BENCH_RUNS) {
    bench_run *run = &b->runs[b->count++];
    ull_status status = run_with(c, subject, next_workers(&list), samples, run);
    if (status != ULL_OK) return status;
  }
  return ULL_OK;
}

static int bench_into(const command *c, const char *subject, FILE *samples, bench *b) {
  ull_status status = run_all(c, subject, samples, b);
  bool ran = status == ULL_OK || b->runs[0].samples > 0;
  char *line = ran ? bench_json(b) : NULL;
  int code = status == ULL_OK ? 0 : cli_fail(c, line);
  if (code == 0 && b->count > 1) bench_print_table(c->report, b);
  if (samples != NULL) code = cli_finish(c, samples, ull_config_text(c->config, "samples"), code);
  if (code == 0 && c->json && line != NULL) puts(line);
  free(line);
  return code;
}

int cli_data_bench(command *c, const char *subject) {
  const char *path = ull_config_text(c->config, "samples");
  int code = 0;
  FILE *samples = path != NULL ? cli_create(c, path, &code) : NULL;
  if (code != 0) return code;
  bench *b = calloc(1, sizeof *b);
  if (b == NULL) {
    code = cli_error(c, ULL_ERROR_OUT_OF_MEMORY, "out of memory", "");
    return samples != NULL ? cli_finish(c, samples, path, code) : code;
  }
  code = bench_into(c, subject, samples, b);
  free(b);
  return code;
}
