/* ullage data scan SRC: every file decoded in full; what is bad, what is there twice, and how
 * large, how many of each class and how bright it all is. Exit code 6 where something is bad. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data.h"
#include "cli/data_text.h"
#include "ullage/data.h"

enum { TOLD_BAD = 20, PARTS = 2, CLASSES_MAX = 1 << 20, TOLD_CLASSES = 20 };

typedef struct part {
  const char *name; /* "training" or "evaluation" */
  ull_scan_report report;
} part;

typedef struct scanner {
  const command *c;
  const ull_source *source;
  FILE *files; /* of --files, or NULL */
  part parts[PARTS];
  int part_count;
  uint64_t *classes; /* samples by label */
  uint64_t class_count;
  uint64_t last_sample;
  json_t *bad; /* the first ones */
  uint64_t bad_told;
  live_line line;
  double cpu_seconds;
} scanner;

static void show_progress(void *context, uint64_t done, uint64_t all) {
  static const int none = -1;
  scanner *s = context;
  live_part text;
  if (!live_is_due(&s->line, false)) return;
  snprintf(text, sizeof text, "scanned %llu of %llu", (unsigned long long)done,
           (unsigned long long)all);
  live_show(&s->line, &text, 1, &none, -1);
}

/* ---- files ---- */

static void write_file(FILE *out, const ull_scanned *scanned) {
  fputs("{\"path\":", out);
  cli_data_put_text(out, scanned->path);
  fprintf(out, ",\"verdict\":\"%s\",\"reason\":\"%s\",\"width\":%d,\"height\":%d,\"bytes\":%llu",
          ull_verdict_name(scanned->verdict), scanned->reason, scanned->width, scanned->height,
          (unsigned long long)scanned->bytes);
  fprintf(out, ",\"index\":%llu,\"working_bytes\":%llu", (unsigned long long)scanned->sample,
          (unsigned long long)scanned->working_bytes);
  if (scanned->label >= 0) fprintf(out, ",\"label\":%lld", (long long)scanned->label);
  if (scanned->same_as != scanned->file)
    fprintf(out, ",\"same_as\":%llu", (unsigned long long)scanned->same_as);
  fputs("}\n", out);
}

static ull_status grow_classes(scanner *s, uint64_t needed) {
  uint64_t *larger = realloc(s->classes, needed * sizeof *larger);
  if (larger == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  memset(larger + s->class_count, 0, (needed - s->class_count) * sizeof *larger);
  s->classes = larger;
  s->class_count = needed;
  return ULL_OK;
}

static ull_status count_class(scanner *s, int64_t label) {
  if (label < 0 || label >= CLASSES_MAX) return ULL_OK;
  uint64_t needed = (uint64_t)label + 1;
  if (needed > s->class_count && grow_classes(s, needed) != ULL_OK) return ULL_ERROR_OUT_OF_MEMORY;
  s->classes[label]++;
  return ULL_OK;
}

static void tell_bad(scanner *s, const ull_scanned *scanned) {
  if (s->bad_told++ >= TOLD_BAD) return;
  live_clear(&s->line);
  cli_put(s->c->report, "", scanned->path, ": ");
  fprintf(s->c->report, "%s%s%s\n", ull_verdict_name(scanned->verdict),
          scanned->reason[0] ? ": " : "", scanned->reason);
  json_array_append_new(s->bad, json_pack("{s:o, s:s, s:s}", "path", cli_data_text(scanned->path),
                                          "verdict", ull_verdict_name(scanned->verdict), "reason",
                                          scanned->reason));
}

static ull_status take_file(void *context, const ull_scanned *scanned) {
  scanner *s = context;
  if (s->files != NULL) write_file(s->files, scanned);
  if (ull_verdict_is_bad(scanned->verdict)) tell_bad(s, scanned);
  if (scanned->sample == s->last_sample) return ULL_OK;
  s->last_sample = scanned->sample;
  return count_class(s, scanned->label);
}

/* ---- words ---- */

static void print_sizes(FILE *out, const ull_scan_report *r) {
  if (r->most_width > 0)
    fprintf(out, "sizes     %d to %d pixels wide, %d to %d high\n", r->least_width, r->most_width,
            r->least_height, r->most_height);
  if (r->pixels > 0)
    fprintf(out, "pixels    mean %.4f,%.4f,%.4f, std %.4f,%.4f,%.4f of %.1f Mpx\n", r->mean[0],
            r->mean[1], r->mean[2], r->deviation[0], r->deviation[1], r->deviation[2],
            (double)r->pixels * 1e-6);
  bool small = r->most_working_bytes < 1 << 20;
  if (r->decode_seconds > 0)
    fprintf(out,
            "decode    %.3f thread seconds per 1000 files; the largest took %.1f %s of working "
            "memory (a --loader-memory of %.1f MiB, or what slots and threads need)\n",
            r->decode_seconds * 1000 / (double)r->files,
            (double)r->most_working_bytes / (small ? 1024.0 : 1048576.0), small ? "KiB" : "MiB",
            (double)r->loader_bytes / 1048576.0 + 0.05);
}

static void print_part(FILE *out, const part *p) {
  const ull_scan_report *r = &p->report;
  fprintf(out, "%-9s %llu samples, %llu files, %.1f MiB:", p->name, (unsigned long long)r->samples,
          (unsigned long long)r->files, (double)r->bytes / 1048576.0);
  for (int v = 0; v < ULL_VERDICT_COUNT; v++)
    if (r->verdicts[v] > 0)
      fprintf(out, " %llu %s", (unsigned long long)r->verdicts[v],
              ull_verdict_name((ull_verdict)v));
  fprintf(out, "\n");
  if (r->duplicates > 0)
    fprintf(out, "twice     %llu files have the bytes of an earlier one\n",
            (unsigned long long)r->duplicates);
  print_sizes(out, r);
}

static void print_classes(const scanner *s) {
  FILE *out = s->c->report;
  char name[256];
  uint64_t least = UINT64_MAX, most = 0;
  if (s->class_count == 0) return;
  for (uint64_t i = 0; i < s->class_count; i++) {
    if (s->classes[i] < least) least = s->classes[i];
    if (s->classes[i] > most) most = s->classes[i];
  }
  fprintf(out, "classes   %llu, of %llu to %llu samples\n", (unsigned long long)s->class_count,
          (unsigned long long)least, (unsigned long long)most);
  for (uint64_t i = 0; i < s->class_count && i < TOLD_CLASSES; i++) {
    fprintf(out, "          %8llu", (unsigned long long)s->classes[i]);
    cli_put(out, "  ", ull_source_class_name(s->source, i, name, sizeof name), "\n");
  }
  if (s->class_count > TOLD_CLASSES)
    fprintf(out, "          … %llu more\n", (unsigned long long)(s->class_count - TOLD_CLASSES));
}

/* ---- JSON ---- */

static ull_scan_report add_up(const scanner *s) {
  ull_scan_report all = s->parts[0].report;
  if (s->part_count < 2) return all;
  const ull_scan_report *r = &s->parts[1].report;
  all.samples += r->samples;
  all.files += r->files;
  all.bytes += r->bytes;
  all.bad += r->bad;
  all.duplicates += r->duplicates;
  all.decode_seconds += r->decode_seconds;
  for (int v = 0; v < ULL_VERDICT_COUNT; v++) all.verdicts[v] += r->verdicts[v];
  if (r->most_working_bytes > all.most_working_bytes)
    all.most_working_bytes = r->most_working_bytes;
  if (r->loader_bytes > all.loader_bytes) all.loader_bytes = r->loader_bytes;
  return all;
}

static json_t *reals(const double *values) {
  return json_pack("[f, f, f]", values[0], values[1], values[2]);
}

/* Mean, deviation and sizes are the training part's. */
static char *describe(const scanner *s) {
  ull_scan_report all = add_up(s);
  json_t *verdicts = json_object(), *classes = json_object();
  char name[256];
  for (int v = 0; v < ULL_VERDICT_COUNT; v++)
    json_object_set_new(verdicts, ull_verdict_name((ull_verdict)v),
                        json_integer((json_int_t)all.verdicts[v]));
  for (uint64_t i = 0; i < s->class_count; i++) {
    json_t *told = cli_data_text(ull_source_class_name(s->source, i, name, sizeof name));
    json_object_set_new(classes, json_string_value(told), json_integer((json_int_t)s->classes[i]));
    json_decref(told);
  }
  json_t *object = json_pack(
      "{s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:[i,i], s:[i,i], s:I, s:I, s:f, s:f, "
      "s:O}",
      "schema", 1, "samples", (json_int_t)all.samples, "files", (json_int_t)all.files, "bytes",
      (json_int_t)all.bytes, "bad", (json_int_t)all.bad, "duplicates", (json_int_t)all.duplicates,
      "verdicts", verdicts, "classes", classes, "mean", reals(all.mean), "std",
      reals(all.deviation), "widths", all.least_width, all.most_width, "heights", all.least_height,
      all.most_height, "most_working_bytes", (json_int_t)all.most_working_bytes,
      "loader_memory_bytes", (json_int_t)all.loader_bytes, "cpu_seconds_per_1000",
      all.files > 0 ? s->cpu_seconds * 1000 / (double)all.files : 0.0, "decode_seconds_per_1000",
      all.files > 0 ? all.decode_seconds * 1000 / (double)all.files : 0.0, "bad_files", s->bad);
  char *line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  json_decref(object);
  return line;
}

/* ---- running ---- */

static ull_scan_options make_options(scanner *s) {
  const command *c = s->c;
  ull_scan_options options = {.file = take_file, .progress = show_progress, .context = s};
  const char *workers = ull_config_text(c->config, "workers");
  if (workers != NULL) options.workers = atoi(workers);
  if (ull_config_has(c->config, "loader-memory"))
    options.memory_bytes = ull_config_bytes(c->config, "loader-memory") / 4;
  return options;
}

static ull_status scan_part(scanner *s, const ull_source *source, const char *name) {
  ull_scan_options options = make_options(s);
  part *p = &s->parts[s->part_count++];
  p->name = name;
  s->source = source;
  s->last_sample = UINT64_MAX;
  uint64_t named = ull_source_class_count(source); /* also those without samples */
  if (named > s->class_count && named <= CLASSES_MAX) {
    ull_status grown = grow_classes(s, named);
    if (grown != ULL_OK) return grown;
  }
  ull_status status = ull_source_scan(source, &options, &p->report);
  live_clear(&s->line);
  if (status == ULL_OK) print_part(s->c->report, p);
  return status;
}

static int close_files(scanner *s) {
  if (s->files == NULL) return 0;
  FILE *files = s->files;
  s->files = NULL;
  return cli_finish(s->c, files, ull_config_text(s->c->config, "files"), 0);
}

static int finish(scanner *s, ull_status status) {
  if (status != ULL_OK) return cli_fail(s->c, NULL);
  int code = close_files(s);
  if (code != 0) return code;
  print_classes(s);
  uint64_t bad = add_up(s).bad;
  if (bad > TOLD_BAD)
    fprintf(s->c->report, "bad       %llu files; --files FILE lists all of them\n",
            (unsigned long long)bad);
  char *line = s->c->json ? describe(s) : NULL;
  if (line != NULL) puts(line);
  free(line);
  return bad > 0 ? ull_status_exit_code(ULL_ERROR_DATA) : 0;
}

/* Training, then evaluation where the source has samples of its own for it. */
static int scan_source(scanner *s, const char *text) {
  ull_source_options options = ull_source_options_default();
  ull_source *training = NULL, *evaluation = NULL;
  double cpu = cli_data_cpu_seconds();
  ull_status status = ull_source_open(text, &options, &training);
  if (status == ULL_OK) status = scan_part(s, training, "training");
  if (status == ULL_OK && ull_source_has_evaluation(training)) {
    options.split = ULL_SPLIT_EVAL;
    status = ull_source_open(text, &options, &evaluation);
    if (status == ULL_OK) status = scan_part(s, evaluation, "evaluate");
  }
  s->cpu_seconds = cli_data_cpu_seconds() - cpu;
  int code = finish(s, status);
  ull_source_close(evaluation);
  ull_source_close(training);
  return code;
}

int cli_data_scan(command *c, const char *subject) {
  const char *path = ull_config_text(c->config, "files");
  int code = 0;
  FILE *files = path != NULL ? cli_create(c, path, &code) : NULL;
  if (code != 0) return code;
  scanner s = {.c = c, .files = files, .bad = json_array()};
  live_begin(&s.line, stderr);
  code = scan_source(&s, subject);
  if (s.files != NULL) cli_finish(c, s.files, path, code);
  free(s.classes);
  json_decref(s.bad);
  return code;
}
