/* ullage data pack SRC --out DIR: shards of every part that the source has. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data.h"
#include "cli/data_text.h"
#include "ullage/pack.h"

enum { PARTS = 2 };

typedef struct part {
  const char *name; /* "train", "val" */
  char prefix[4200];
  ull_source *source;
  ull_pack_result result;
  bool begun;
} part;

typedef struct packing {
  const command *c;
  ull_pack_options options;
  part parts[PARTS];
  part *current;
  double began, part_began;
  live_line line;
} packing;

/* ---- progress ---- */

static double mib(uint64_t bytes) {
  return (double)bytes / 1048576.0;
}

enum { DONE, BYTES, SHARDS, BAD, RATE, LEFT, SHOWN };

static const int expendable[] = {BYTES, SHARDS, RATE, LEFT, BAD, -1};

static void print_progress(packing *p, const ull_pack_progress *now, double seconds) {
  uint64_t here = now->done - p->current->result.resumed_samples;
  double rate = seconds > 0 ? (double)here / seconds : 0;
  double left = rate > 0 ? (double)(now->total - now->done) / rate : 0;
  live_part parts[SHOWN];
  size_t size = sizeof parts[0];
  snprintf(parts[DONE], size, "%-5s %llu/%llu samples", p->current->name,
           (unsigned long long)now->done, (unsigned long long)now->total);
  snprintf(parts[BYTES], size, "%.1f MiB in, %.1f MiB out", mib(now->bytes_in),
           mib(now->bytes_out));
  snprintf(parts[SHARDS], size, "%llu shard%s", (unsigned long long)now->shards,
           now->shards == 1 ? "" : "s");
  snprintf(parts[BAD], size, "%llu bad", (unsigned long long)now->bad);
  snprintf(parts[RATE], size, "%.0f samples/s", rate);
  snprintf(parts[LEFT], size, "%.0f s left", left);
  live_show(&p->line, parts, SHOWN, expendable, -1);
}

static bool show_progress(void *context, const ull_pack_progress *now) {
  packing *p = context;
  if (!p->current->begun) { /* the first sample that this call has packed */
    p->current->begun = true;
    p->current->result.resumed_samples = now->done - 1;
  }
  if (live_is_due(&p->line, false)) print_progress(p, now, cli_now() - p->part_began);
  return true;
}

/* ---- options ---- */

static ull_on_bad read_policy(const command *c) {
  const char *word = ull_config_text(c->config, "on-bad");
  if (strcmp(word, "fail") == 0) return ULL_ON_BAD_FAIL;
  return strcmp(word, "skip") == 0 ? ULL_ON_BAD_SKIP : ULL_ON_BAD_REPLACE;
}

static void read_options(packing *p) {
  ull_config *config = p->c->config;
  ull_pack_options *options = &p->options;
  *options = ull_pack_options_default();
  options->shard_bytes = ull_config_bytes(config, "shard-size");
  if (ull_config_has(config, "max-side"))
    options->max_side = (int)ull_config_integer(config, "max-side");
  if (ull_config_has(config, "quality"))
    options->quality = (int)ull_config_integer(config, "quality");
  if (ull_config_has(config, "workers"))
    options->workers = atoi(ull_config_text(config, "workers"));
  if (ull_config_has(config, "loader-memory"))
    options->memory_bytes = ull_config_bytes(config, "loader-memory");
  if (ull_config_has(config, "max-bad"))
    options->max_bad = (uint64_t)ull_config_integer(config, "max-bad");
  options->on_bad = read_policy(p->c);
  options->progress = show_progress;
  options->context = p;
}

/* A text that ends in a dash begins the names of the shards; every other one is their folder. */
static void name_part(packing *p, part *to, const char *name) {
  const char *out = ull_config_text(p->c->config, "out");
  size_t length = strlen(out);
  const char *between = out[length - 1] == '-' || out[length - 1] == '/' ? "" : "/";
  to->name = name;
  snprintf(to->prefix, sizeof to->prefix, "%.4000s%s%s", out, between, name);
}

static ull_status open_parts(packing *p, const char *text) {
  ull_source_options options = ull_source_options_default();
  name_part(p, &p->parts[0], "train");
  ull_status status = ull_source_open(text, &options, &p->parts[0].source);
  if (status != ULL_OK || !ull_source_has_evaluation(p->parts[0].source)) return status;
  options.split = ULL_SPLIT_EVAL;
  name_part(p, &p->parts[1], "val");
  return ull_source_open(text, &options, &p->parts[1].source);
}

/* ---- the report ---- */

static ull_pack_result add_up(const packing *p) {
  ull_pack_result all = {0};
  for (int i = 0; i < PARTS; i++) {
    const ull_pack_result *one = &p->parts[i].result;
    all.samples += one->samples;
    all.skipped += one->skipped;
    all.shards += one->shards;
    all.bytes_in += one->bytes_in;
    all.bytes_out += one->bytes_out;
    all.copied += one->copied;
    all.encoded += one->encoded;
    all.resumed_samples += one->resumed_samples;
    for (int v = 0; v < ULL_VERDICT_COUNT; v++) all.verdicts[v] += one->verdicts[v];
    if (all.first_bad[0] == '\0') memcpy(all.first_bad, one->first_bad, sizeof all.first_bad);
  }
  return all;
}

static json_t *describe_result(const ull_pack_result *result) {
  json_t *verdicts = json_object();
  for (int v = 0; v < ULL_VERDICT_COUNT; v++)
    json_object_set_new(verdicts, ull_verdict_name((ull_verdict)v),
                        json_integer((json_int_t)result->verdicts[v]));
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "samples",
                   (json_int_t)result->samples, "skipped", (json_int_t)result->skipped, "shards",
                   (json_int_t)result->shards, "bytes_in", (json_int_t)result->bytes_in,
                   "bytes_out", (json_int_t)result->bytes_out, "copied", (json_int_t)result->copied,
                   "encoded", (json_int_t)result->encoded, "resumed_samples",
                   (json_int_t)result->resumed_samples, "verdicts", verdicts);
}

static char *describe(const packing *p, double seconds) {
  ull_pack_result all = add_up(p);
  json_t *object = describe_result(&all), *parts = json_object();
  if (object == NULL) return NULL;
  json_object_set_new(object, "schema", json_integer(1));
  json_object_set_new(object, "seconds", json_real(seconds));
  for (int i = 0; i < PARTS; i++) {
    const part *one = &p->parts[i];
    char pattern[4300];
    if (one->source == NULL) continue;
    json_t *about = describe_result(&one->result);
    snprintf(pattern, sizeof pattern, "tar:%s-*.tar", one->prefix);
    json_object_set_new(about, "data", cli_data_text(pattern));
    json_object_set_new(parts, one->name, about);
  }
  json_object_set_new(object, "parts", parts);
  char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
  json_decref(object);
  return line;
}

static void print_part(const packing *p, const part *one, double seconds) {
  FILE *out = p->c->report;
  const ull_pack_result *result = &one->result;
  static const char *const fate[] = {
      [ULL_ON_BAD_FAIL] = "", [ULL_ON_BAD_REPLACE] = "kept", [ULL_ON_BAD_SKIP] = "left out"};
  uint64_t bad = 0;
  fprintf(out, "%-9s %llu samples in %llu shard%s · %.1f MiB in, %.1f MiB out · %.1f s\n",
          one->name, (unsigned long long)result->samples, (unsigned long long)result->shards,
          result->shards == 1 ? "" : "s", mib(result->bytes_in), mib(result->bytes_out), seconds);
  if (result->resumed_samples > 0)
    fprintf(out, "          %llu samples were packed before\n",
            (unsigned long long)result->resumed_samples);
  fprintf(out, "          %llu pictures copied, %llu encoded; verdicts:",
          (unsigned long long)result->copied, (unsigned long long)result->encoded);
  for (int v = 0; v < ULL_VERDICT_COUNT; v++) {
    if (ull_verdict_is_bad((ull_verdict)v)) bad += result->verdicts[v];
    if (result->verdicts[v] > 0)
      fprintf(out, " %s %llu", ull_verdict_name((ull_verdict)v),
              (unsigned long long)result->verdicts[v]);
  }
  fputc('\n', out);
  if (bad > 0)
    fprintf(out, "          %llu bad samples %s; ", (unsigned long long)bad,
            fate[p->options.on_bad]);
  if (bad > 0) cli_put(out, "the first: ", result->first_bad, "\n");
  cli_put(out, "          'tar:", one->prefix, "-*.tar'\n");
}

/* ---- the command ---- */

static ull_status pack_part(packing *p, part *one) {
  p->current = one;
  p->part_began = cli_now();
  p->options.prefix = one->prefix;
  ull_status status = ull_pack(one->source, &p->options, &one->result);
  live_clear(&p->line);
  if (status == ULL_OK) print_part(p, one, cli_now() - p->part_began);
  return status;
}

static int pack_parts(packing *p, const char *text) {
  ull_status status = open_parts(p, text);
  for (int i = 0; i < PARTS && status == ULL_OK; i++)
    if (p->parts[i].source != NULL) status = pack_part(p, &p->parts[i]);
  char *line = p->c->json ? describe(p, cli_now() - p->began) : NULL;
  int code = status == ULL_OK ? 0 : cli_fail(p->c, line);
  if (code == 0 && line != NULL) puts(line);
  free(line);
  return code;
}

static int refuse(const command *c) {
  if (ull_config_has(c->config, "out")) return 0;
  return cli_error(c, ULL_ERROR_USAGE, "data pack needs --out DIR",
                   "ullage data pack SRC --out DIR");
}

int cli_data_pack(command *c, const char *subject) {
  int code = refuse(c);
  if (code != 0) return code;
  packing *p = calloc(1, sizeof *p);
  if (p == NULL) return cli_error(c, ULL_ERROR_OUT_OF_MEMORY, "out of memory", "");
  p->c = c;
  p->began = cli_now();
  live_begin(&p->line, c->report);
  read_options(p);
  code = pack_parts(p, subject);
  for (int i = 0; i < PARTS; i++) ull_source_close(p->parts[i].source);
  free(p);
  return code;
}
