/* `text:FILE` and `tokens:FILE` as sources: int64 arrays [N] `input_ids`, `target`, `positions` and
 * `documents`. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/source.h"
#include "data/text/sequences.h"

typedef struct text_state {
  ull__token_stream stream;
  ull__sequences sequences;
} text_state;

static const char *const array_names[ULL__SEQUENCE_ARRAYS] = {"input_ids", "target", "positions",
                                                              "documents"};

static int64_t longest_length(const ull_source *source, const text_state *t) {
  size_t buckets = source->bucket_count;
  return buckets > 0 ? source->buckets[buckets - 1].split.length : t->sequences.length;
}

static void add_buckets(ull_source *source, const ull__sequences *s) {
  size_t used = 0, room = sizeof source->bucket_lengths;
  for (size_t b = 0; b < s->buckets.count; b++) {
    ull__source_add_bucket(source, s->buckets.lengths[b], s->bucket_samples[b]);
    used += (size_t)snprintf(source->bucket_lengths + used, room - used, "%s%" PRId64,
                             b > 0 ? "," : "", s->buckets.lengths[b]);
  }
  if (s->buckets.count == 1 && used + 1 < room) strcat(source->bucket_lengths, ","); /* a list */
}

static ull_status add_arrays(ull_source *source, const text_state *t) {
  int64_t length = longest_length(source, t);
  const int64_t most[ULL__SEQUENCE_ARRAYS] = {(int64_t)t->stream.most, (int64_t)t->stream.most,
                                              length - 1, length};
  for (int i = 0; i < ULL__SEQUENCE_ARRAYS; i++) {
    ULL__TRY(ull__source_add_array(source, array_names[i], ULL_INT64, 1, &length));
    ull_array_info *info = &source->arrays[i];
    info->has_range = true;
    info->maximum = most[i];
  }
  source->arrays[ULL__SEQUENCE_TARGETS].has_ignored = t->sequences.mode != ULL__SEQUENCES_BLOCKS;
  source->arrays[ULL__SEQUENCE_TARGETS].ignored = ULL__IGNORED_TARGET;
  return ULL_OK;
}

__attribute__((format(printf, 2, 3))) static void add_note(ull_source *source, const char *format,
                                                           ...) {
  size_t used = strlen(source->note);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(source->note + used, sizeof source->note - used, format, arguments);
  va_end(arguments);
}

/* Tokens that all sequences have room for. */
static double count_slots(const ull_source *source, const ull__sequences *s) {
  double slots = 0;
  for (size_t b = 0; b < source->bucket_count; b++)
    slots += (double)source->buckets[b].stored_samples * (double)source->buckets[b].split.length;
  return source->bucket_count > 0 ? slots : (double)s->count * (double)s->length;
}

static void write_note(ull_source *source, const text_state *t) {
  const ull__sequences *s = &t->sequences;
  double slots = count_slots(source, s);
  uint64_t silent = t->stream.empty + s->silent;
  if (s->mode == ULL__SEQUENCES_BLOCKS) {
    add_note(source, "%" PRIu64 " tokens in blocks of %" PRId64, t->stream.count, s->length);
    return;
  }
  add_note(source, "%" PRIu64 " documents %s %" PRIu64 " sequences of ", t->stream.documents,
           s->mode == ULL__SEQUENCES_PACKED ? "packed into" : "as", s->count);
  for (size_t b = 0; b < source->bucket_count; b++)
    add_note(source, "%s%" PRId64, b > 0 ? ", " : "", source->buckets[b].split.length);
  if (s->buckets.count == 0) add_note(source, "%" PRId64, s->length);
  add_note(source, ", %.1f %% padding", s->count ? 100 * (1 - (double)s->inputs / slots) : 0);
  if (s->cut > 0) add_note(source, ", %" PRIu64 " cut", s->cut);
  if (silent > 0) add_note(source, ", %" PRIu64 " without targets left out", silent);
  if (t->stream.bad > 0) add_note(source, ", %" PRIu64 " bad lines left out", t->stream.bad);
}

static ull_status too_short(const ull_source *source, const text_state *t) {
  if (t->sequences.count > 0) return ULL_OK;
  if (t->sequences.mode != ULL__SEQUENCES_BLOCKS) {
    ULL__FAIL(ULL_ERROR_DATA,
              "%s: none of its %" PRIu64 " documents has a target within %" PRId64 " tokens",
              source->text, t->stream.documents + t->stream.empty, t->sequences.length);
    ull__error_holder("--seq %" PRId64, t->sequences.length);
    return ull__error_change("use a longer --seq, or other documents");
  }
  ULL__FAIL(ULL_ERROR_DATA, "%s: its %" PRIu64 " tokens make no sequence of %" PRId64, source->text,
            t->stream.count, t->sequences.length);
  ull__error_holder("--seq %" PRId64, t->sequences.length);
  return ull__error_change("use a smaller --seq, or more text");
}

static ull_status open_sequences(ull_source *source, const ull__text_options *options) {
  text_state *t = source->state;
  ull__bucket_lengths buckets;
  ULL__TRY(ull__bucket_lengths_parse(options->buckets, options->sequence, &buckets));
  if (buckets.count > 0) {
    ULL__TRY(ull__sequences_open_buckets(&t->stream, options->sequence, &buckets, &t->sequences));
    add_buckets(source, &t->sequences);
    return ULL_OK;
  }
  ull__sequence_mode mode = options->pack       ? ULL__SEQUENCES_PACKED
                            : options->is_lines ? ULL__SEQUENCES_DOCUMENTS
                                                : ULL__SEQUENCES_BLOCKS;
  ULL__TRY(ull__sequences_open(&t->stream, mode, options->sequence, &t->sequences));
  source->stored_count = t->sequences.count;
  return ULL_OK;
}

static ull_status open_with(ull_source *source, const ull__text_options *options, bool for_tokens) {
  text_state *t = source->state;
  ULL__TRY(for_tokens ? ull__token_stream_open_file(options, &t->stream)
                      : ull__token_stream_open_text(options, &t->stream));
  ULL__TRY(open_sequences(source, options));
  ULL__TRY(too_short(source, t));
  write_note(source, t);
  return add_arrays(source, t);
}

static ull_status open_any(ull_source *source, const char *argument,
                           const ull_source_options *options, bool for_tokens) {
  ull__text_options parsed;
  text_state *t = ull__alloc(1, sizeof *t);
  if (t == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  t->stream.file.descriptor = t->stream.kept.file.descriptor = -1;
  t->sequences.kept.file.descriptor = -1;
  source->state = t;
  source->resident_bytes = sizeof *t + sizeof *source;
  ull_status status = ull__text_options_parse(argument, for_tokens, options, &parsed);
  if (status == ULL_OK) status = open_with(source, &parsed, for_tokens);
  ull__text_options_free(&parsed);
  return status;
}

static ull_status open_text(ull_source *source, const char *argument,
                            const ull_source_options *options) {
  return open_any(source, argument, options, false);
}

static ull_status open_tokens(ull_source *source, const char *argument,
                              const ull_source_options *options) {
  return open_any(source, argument, options, true);
}

static ull_status read_text(const ull_source *source, uint64_t first, uint64_t count, size_t array,
                            void *bytes) {
  const text_state *t = source->state;
  int64_t *to = bytes;
  for (uint64_t i = 0; i < count; i++) {
    ULL__TRY(ull__sequences_read(&t->sequences, first + i, (ull__sequence_array)array, to));
    to += ull__sequences_length(&t->sequences, first + i);
  }
  return ULL_OK;
}

static void close_text(ull_source *source) {
  text_state *t = source->state;
  ull__sequences_close(&t->sequences);
  ull__token_stream_close(&t->stream);
  ull__free(t);
  source->state = NULL;
}

const ull__source_kind ull__source_of_text = {
    .scheme = "text",
    .argument = "FILE",
    .open = open_text,
    .read = read_text,
    .close = close_text,
};

const ull__source_kind ull__source_of_tokens = {
    .scheme = "tokens",
    .argument = "FILE",
    .open = open_tokens,
    .read = read_text,
    .close = close_text,
};
