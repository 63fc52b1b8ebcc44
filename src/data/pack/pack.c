/* Packing, from the calling thread's side: samples come in order from the queue and go into shards,
 * and the state is saved after each. Where a shard ends follows from the samples' sizes alone, so a
 * pack that is taken up behind a whole shard ends all later ones where they would have ended. */
#include "ullage/pack.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/system_limits.h"
#include "data/pack/classes.h"
#include "data/pack/queue.h"
#include "data/pack/state.h"
#include "data/too_many_bad.h"

enum { BAD_SAID = 10 };

static const uint64_t DEFAULT_SHARD = UINT64_C(256) << 20, DEFAULT_MEMORY = UINT64_C(512) << 20;

ull_pack_options ull_pack_options_default(void) {
  return (ull_pack_options){.on_bad = ULL_ON_BAD_REPLACE, .max_bad = UINT64_MAX};
}

typedef struct packing {
  const ull_source *source;
  ull_pack_options options; /* without zeros that mean a default, but sides and quality */
  ull__pack_output output;
  ull__pack_state state;
  uint64_t done; /* samples looked at */
  uint64_t shard_samples;
} packing;

/* ---- options ---- */

static int usable_cores(void) {
  ull__system_limits *limits = ull__alloc(1, sizeof *limits);
  if (limits == NULL) return 1;
  int cores = ull__system_limits_read("", limits) == ULL_OK ? (int)limits->usable_cores : 1;
  ull__free(limits);
  return cores;
}

static ull_status complete_options(ull_pack_options *options) {
  if (options->prefix == NULL || options->prefix[0] == '\0')
    return ULL__FAIL(ULL_ERROR_INVALID, "a pack needs a prefix");
  if (options->quality < 0 || options->quality > 100)
    return ULL__FAIL(ULL_ERROR_INVALID, "JPEG has no quality %d", options->quality);
  if (options->max_side < 0 || options->workers < 0)
    return ULL__FAIL(ULL_ERROR_INVALID, "a pack with a side or workers below 0");
  if (options->shard_bytes == 0) options->shard_bytes = DEFAULT_SHARD;
  if (options->memory_bytes == 0) options->memory_bytes = DEFAULT_MEMORY;
  if (options->workers == 0) options->workers = usable_cores();
  return ULL_OK;
}

/* ---- shards ---- */

static ull_status end_shard(packing *p) {
  uint64_t shard = p->state.shards.count;
  ULL__TRY(ull__vector_reserve(&p->state.shards, 1));
  ull__pack_shard done = {p->output.tar.bytes + ULL__TAR_WRITER_END, p->shard_samples};
  ULL__TRY(ull__pack_shard_commit(&p->output, shard));
  p->shard_samples = 0;
  p->state.shards.items[p->state.shards.count++] = done;
  p->state.next = p->done;
  p->state.counts.bytes_out += done.bytes;
  p->state.counts.shards = p->state.shards.count;
  return ull__pack_state_save(&p->state, &p->output);
}

static ull_status write_sample(packing *p, const ull__pack_sample *sample) {
  uint64_t bytes = ull__pack_sample_bytes(p->source, sample) + ULL__TAR_WRITER_END;
  if (p->shard_samples > 0 && p->output.tar.bytes + bytes > p->options.shard_bytes)
    ULL__TRY(end_shard(p));
  if (p->shard_samples == 0) ULL__TRY(ull__pack_shard_begin(&p->output, p->state.shards.count));
  p->shard_samples++;
  return ull__pack_sample_write(p->source, sample, &p->output.tar);
}

/* ---- verdicts ---- */

static ull_status refuse_sample(const packing *p, const char *name, const ull__pack_sample *bad) {
  if (p->options.on_bad != ULL_ON_BAD_FAIL)
    return ull__fail_too_many_bad(ull_source_text(p->source), p->state.bad + 1, p->options.max_bad,
                                  "", name, bad->verdict, bad->reason);
  ULL__FAIL(ULL_ERROR_DATA, "%s: %s: %s", name, ull_verdict_name(bad->verdict), bad->reason);
  ull__error_holder("%s", name);
  return ull__error_change("mend the file, or pack with --on-bad skip or replace");
}

/* Whether the sample goes into a shard. */
static ull_status judge(packing *p, const ull__pack_sample *sample, bool *packed) {
  char name[4096 + 256];
  *packed = true;
  if (!ull_verdict_is_bad(sample->verdict)) return ULL_OK;
  ull_source_sample_name(p->source, p->done, name, sizeof name);
  if (p->options.on_bad == ULL_ON_BAD_FAIL || p->state.bad >= p->options.max_bad)
    return refuse_sample(p, name, sample);
  *packed = p->options.on_bad == ULL_ON_BAD_REPLACE;
  return ULL_OK;
}

static void tell_bad(packing *p, const ull__pack_sample *sample) {
  char name[4096 + 256];
  ull_pack_result *counts = &p->state.counts;
  ull_source_sample_name(p->source, p->done, name, sizeof name);
  if (p->state.bad++ == 0)
    snprintf(counts->first_bad, sizeof counts->first_bad, "%.400s: %s: %.80s", name,
             ull_verdict_name(sample->verdict), sample->reason);
  if (p->state.bad <= BAD_SAID)
    ULL__LOG_WARNING("%s: %s: %s%s", name, ull_verdict_name(sample->verdict), sample->reason,
                     p->state.bad == BAD_SAID ? " (further bad samples are counted alone)" : "");
}

/* Behind the shard that ends before this sample, whose counts are of what lies before it. */
static void count(packing *p, const ull__pack_sample *sample, bool packed) {
  ull_pack_result *counts = &p->state.counts;
  if (ull_verdict_is_bad(sample->verdict)) tell_bad(p, sample);
  counts->verdicts[sample->verdict]++;
  counts->bytes_in += sample->bytes_in;
  counts->samples += packed;
  counts->skipped += !packed;
  for (size_t i = 0; i < p->source->array_count && packed; i++) {
    counts->encoded += sample->fields[i].picture && sample->fields[i].encoded;
    counts->copied += sample->fields[i].picture && !sample->fields[i].encoded;
  }
}

/* ---- the run ---- */

static ull_status report(const packing *p) {
  ull_pack_progress progress = {
      .done = p->done,
      .total = p->source->count,
      .bytes_in = p->state.counts.bytes_in,
      .bytes_out = p->state.counts.bytes_out + (p->shard_samples > 0 ? p->output.tar.bytes : 0),
      .shards = p->state.shards.count,
      .bad = p->state.bad,
  };
  if (p->options.progress == NULL || p->options.progress(p->options.context, &progress))
    return ULL_OK;
  ULL__FAIL(ULL_ERROR_STOPPED, "%s: stopped after %llu shards", p->options.prefix,
            (unsigned long long)p->state.shards.count);
  return ull__error_change("run the same again to go on");
}

static ull_status pack_sample(packing *p, const ull__pack_sample *sample) {
  bool packed;
  ULL__TRY(judge(p, sample, &packed));
  if (packed) ULL__TRY(write_sample(p, sample));
  count(p, sample, packed);
  p->done++;
  return report(p);
}

static ull_status pack_all(packing *p, ull__pack_queue *queue) {
  const ull__pack_sample *sample;
  while (p->done < p->source->count) {
    ULL__TRY(ull__pack_queue_take(queue, &sample));
    ULL__TRY(pack_sample(p, sample));
    ull__pack_queue_release(queue);
  }
  if (p->shard_samples > 0) ULL__TRY(end_shard(p));
  p->state.next = p->done;
  p->state.complete = true;
  return ull__pack_state_save(&p->state, &p->output);
}

static ull_status pack_rest(packing *p) {
  ull__pack_queue *queue;
  ULL__TRY(ull__pack_queue_create(p->source, &p->options, p->done, &queue));
  ull_status status = pack_all(p, queue);
  ull_error error = *ull_error_last();
  ull__pack_queue_destroy(queue);
  return status == ULL_OK ? ULL_OK : ull__error_restore(&error);
}

static ull_status pack(packing *p, ull_pack_result *result) {
  ULL__TRY(complete_options(&p->options));
  ULL__TRY(ull__pack_check_source(p->source));
  ULL__TRY(ull__pack_identify(p->source, &p->options, &p->state.identity));
  ULL__TRY(ull__pack_output_open(&p->output, p->options.prefix));
  p->state.on_bad = p->options.on_bad;
  ULL__TRY(ull__pack_state_open(&p->state, &p->output));
  ULL__TRY(ull__pack_classes(p->source, &p->output));
  p->done = p->state.next;
  result->resumed_samples = p->done;
  return p->state.complete ? ULL_OK : pack_rest(p);
}

ull_status ull_pack(const ull_source *source, const ull_pack_options *options,
                    ull_pack_result *result) {
  *result = (ull_pack_result){0};
  packing *p = ull__alloc(1, sizeof *p);
  if (p == NULL) return ull_error_last()->status;
  const ull_error before = *ull_error_last();
  p->source = source;
  p->options = *options;
  p->output.folder = p->output.part = -1;
  ull_status status = pack(p, result);
  uint64_t resumed = result->resumed_samples;
  *result = p->state.counts;
  result->resumed_samples = resumed;
  ull__pack_output_close(&p->output);
  ull__pack_state_free(&p->state);
  ull__free(p);
  return ull__error_unless(status, &before);
}
