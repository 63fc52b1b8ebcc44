/* Which pieces a sequence has is worked out once and kept: a sample is then found by its number, by
 * two small reads, however many there are. */
#include "data/text/sequences.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { VERSION = 1, DOCUMENT_PART = 4096, PIECE_PART = 64, LOOK_PART = 1024 };
enum { NUMBER_SEQUENCES, NUMBER_PIECES, NUMBER_INPUTS, NUMBER_CUT, NUMBER_SILENT };
enum { SECTION_PIECES, SECTION_FIRST };
enum { SECTION_BUCKETS = SECTION_FIRST }; /* where a sequence is a piece */

/* What SECTION_BUCKETS holds of each. */
typedef struct kept_bucket {
  uint64_t length, samples;
} kept_bucket;

/* ---- making ---- */

typedef struct making {
  ull__sequences *s;
  ull__kept_writer *writer;
  ull__piece window[ULL__PACKING_WINDOW];
  size_t count;
  uint32_t bin[ULL__PACKING_WINDOW];
  uint64_t starts[DOCUMENT_PART + 1];
  uint64_t sequences, pieces, inputs, cut, silent;
  ull__length_counts lengths; /* of pieces, on the first pass over documents in buckets */
  bool counts_lengths;
  size_t bucket; /* the one that a later pass writes */
} making;

static ull_status put_sequence(making *m) {
  m->sequences++;
  return ull__kept_write(m->writer, SECTION_FIRST, &m->pieces, sizeof m->pieces);
}

static ull_status put_piece(making *m, const ull__piece *piece) {
  m->pieces++;
  m->inputs += piece->length;
  return ull__kept_write(m->writer, SECTION_PIECES, piece, sizeof *piece);
}

/* Pieces of a bin one after another, in their own order: a counting sort by bin. */
static ull_status put_bins(making *m, size_t bins) {
  uint32_t *begin = ull__alloc(bins + 1, sizeof *begin);
  uint32_t *order = ull__alloc(m->count, sizeof *order);
  ull_status status = begin && order ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK) {
    for (size_t i = 0; i < m->count; i++) begin[m->bin[i] + 1]++;
    for (size_t b = 0; b < bins; b++) begin[b + 1] += begin[b];
    for (size_t i = 0; i < m->count; i++) order[begin[m->bin[i]]++] = (uint32_t)i;
  }
  for (size_t i = 0; i < m->count && status == ULL_OK; i++) {
    bool is_first = i == 0 || m->bin[order[i]] != m->bin[order[i - 1]];
    if (is_first) status = put_sequence(m);
    if (status == ULL_OK) status = put_piece(m, &m->window[order[i]]);
  }
  ull__free(begin);
  ull__free(order);
  return status;
}

static ull_status pack_window(making *m) {
  size_t bins;
  if (m->count == 0) return ULL_OK;
  ULL__TRY(ull__pack_pieces(m->window, m->count, m->s->length, m->bin, &bins));
  ULL__TRY(put_bins(m, bins));
  m->count = 0;
  return ULL_OK;
}

static ull_status has_target(const ull__token_stream *stream, const ull__piece *piece, bool *out) {
  int64_t targets[LOOK_PART];
  *out = !stream->has_masks;
  for (uint64_t at = 0; at < piece->length && !*out; at += LOOK_PART) {
    uint64_t left = piece->length - at, part = left < LOOK_PART ? left : LOOK_PART;
    ULL__TRY(ull__token_stream_read(stream, piece->start + at + 1, part, true, targets));
    for (uint64_t i = 0; i < part; i++) *out |= targets[i] != ULL__IGNORED_TARGET;
  }
  return ULL_OK;
}

/* Each pass writes one bucket; what counts for nothing was counted on the first. */
static ull_status take_bucket_piece(making *m, const ull__piece *piece) {
  bool counts;
  if (!m->counts_lengths && ull__bucket_find(&m->s->buckets, piece->length) != m->bucket)
    return ULL_OK;
  ULL__TRY(has_target(m->s->stream, piece, &counts));
  if (m->counts_lengths) {
    m->silent += !counts;
    if (counts) ull__length_counts_add(&m->lengths, piece->length);
    return ULL_OK;
  }
  if (!counts) return ULL_OK;
  m->sequences++;
  m->s->bucket_samples[m->bucket]++;
  return put_piece(m, piece);
}

static ull_status take_piece(making *m, const ull__piece *piece) {
  bool counts;
  if (m->s->mode == ULL__SEQUENCES_BUCKETS) return take_bucket_piece(m, piece);
  ULL__TRY(has_target(m->s->stream, piece, &counts));
  if (!counts) {
    m->silent++;
    return ULL_OK;
  }
  if (m->s->mode == ULL__SEQUENCES_DOCUMENTS) {
    ULL__TRY(put_sequence(m));
    return put_piece(m, piece);
  }
  m->window[m->count++] = *piece;
  return m->count == ULL__PACKING_WINDOW ? pack_window(m) : ULL_OK;
}

static ull_status take_document(making *m, uint64_t begin, uint64_t end) {
  uint64_t length = (uint64_t)m->s->length;
  if (end > m->s->stream->count || begin > end)
    return ULL__FAIL(ULL_ERROR_DATA, "%s: is damaged", m->s->stream->kept.file.path);
  for (uint64_t at = begin; at + 1 < end; at += length) {
    uint64_t left = end - 1 - at;
    const ull__piece piece = {at, left < length ? left : length};
    ULL__TRY(take_piece(m, &piece));
    if (m->s->mode != ULL__SEQUENCES_DOCUMENTS) continue;
    m->cut += left > length;
    break;
  }
  return ULL_OK;
}

static ull_status take_documents(making *m) {
  uint64_t documents = m->s->stream->documents;
  for (uint64_t at = 0; at < documents; at += DOCUMENT_PART) {
    uint64_t part = documents - at < DOCUMENT_PART ? documents - at : DOCUMENT_PART;
    ULL__TRY(ull__token_stream_documents(m->s->stream, at, part, m->starts));
    for (uint64_t i = 0; i < part; i++) ULL__TRY(take_document(m, m->starts[i], m->starts[i + 1]));
  }
  return pack_window(m);
}

/* A pass that counts lengths, then one for each bucket. */
static ull_status take_buckets(making *m) {
  ull__sequences *s = m->s;
  m->counts_lengths = true;
  m->lengths = ull__length_counts_create(s->length);
  ULL__TRY(take_documents(m));
  m->counts_lengths = false;
  if (s->buckets.lengths[0] == 0)
    ULL__TRY(ull__bucket_lengths_choose(&m->lengths, s->buckets.count, &s->buckets));
  memset(s->bucket_samples, 0, sizeof s->bucket_samples);
  for (m->bucket = 0; m->bucket < s->buckets.count; m->bucket++) ULL__TRY(take_documents(m));
  for (size_t b = 0; b < s->buckets.count; b++) {
    const kept_bucket kept = {(uint64_t)s->buckets.lengths[b], s->bucket_samples[b]};
    ULL__TRY(ull__kept_write(m->writer, SECTION_BUCKETS, &kept, sizeof kept));
  }
  return ULL_OK;
}

static ull_status take_all(making *m) {
  if (m->s->mode == ULL__SEQUENCES_BUCKETS) return take_buckets(m);
  ULL__TRY(take_documents(m));
  return ull__kept_write(m->writer, SECTION_FIRST, &m->pieces, sizeof m->pieces);
}

static ull_status make(void *context, ull__kept_writer *writer,
                       uint64_t numbers[ULL__KEPT_NUMBERS]) {
  making *m = ull__alloc(1, sizeof *m);
  if (m == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  m->s = context;
  m->writer = writer;
  ull_status status = take_all(m);
  numbers[NUMBER_SEQUENCES] = m->sequences;
  numbers[NUMBER_PIECES] = m->pieces;
  numbers[NUMBER_INPUTS] = m->inputs;
  numbers[NUMBER_CUT] = m->cut;
  numbers[NUMBER_SILENT] = m->silent;
  ull__free(m);
  return status;
}

/* ---- opening ---- */

static ull_status damaged(const ull__sequences *s) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: is damaged", s->kept.file.path);
  ull__error_holder("%s", s->kept.file.path);
  return ull__error_change("remove the file: it is made anew");
}

/* Nothing in the file is believed. */
static ull_status read_buckets(ull__sequences *s) {
  kept_bucket kept[ULL_DATA_MAX_BUCKETS];
  uint64_t count = s->kept.header.sections[SECTION_BUCKETS].bytes / sizeof *kept;
  uint64_t before = 0, left = s->count;
  if (count == 0 || count > ULL_DATA_MAX_BUCKETS || s->pieces != s->count) return damaged(s);
  ULL__TRY(ull__kept_read(&s->kept, SECTION_BUCKETS, 0, kept, (size_t)count * sizeof *kept));
  s->buckets.count = (size_t)count;
  for (size_t b = 0; b < count; b++) {
    if (kept[b].length <= before || kept[b].length > (uint64_t)s->length || kept[b].samples > left)
      return damaged(s);
    s->buckets.lengths[b] = (int64_t)kept[b].length;
    s->bucket_samples[b] = kept[b].samples;
    before = kept[b].length;
    left -= kept[b].samples;
  }
  return left == 0 ? ULL_OK : damaged(s);
}

typedef struct pieces_key {
  ull__stamp stamp;
  uint64_t checksum, length, mode;
  ull__bucket_lengths buckets; /* of the key where there are some */
} pieces_key;

static ull_status open_pieces(ull__sequences *s) {
  const pieces_key key = {s->stream->kept.header.stamp, s->stream->kept.header.checksum,
                          (uint64_t)s->length, (uint64_t)s->mode, s->buckets};
  bool has_buckets = s->mode == ULL__SEQUENCES_BUCKETS;
  const ull__kept_maker maker = {.make = make,
                                 .context = s,
                                 .kind = "sequences",
                                 .key = &key,
                                 .key_bytes =
                                     has_buckets ? sizeof key : offsetof(pieces_key, buckets),
                                 .version = VERSION,
                                 .stamp = s->stream->kept.header.stamp};
  ULL__TRY(ull__kept_open(&maker, &s->kept));
  const uint64_t *numbers = s->kept.header.numbers;
  s->count = numbers[NUMBER_SEQUENCES];
  s->pieces = numbers[NUMBER_PIECES];
  s->inputs = numbers[NUMBER_INPUTS];
  s->cut = numbers[NUMBER_CUT];
  s->silent = numbers[NUMBER_SILENT];
  return has_buckets ? read_buckets(s) : ULL_OK;
}

ull_status ull__sequences_open(const ull__token_stream *stream, ull__sequence_mode mode,
                               int64_t length, ull__sequences *out) {
  *out = (ull__sequences){
      .stream = stream, .mode = mode, .length = length, .kept.file.descriptor = -1};
  if (mode != ULL__SEQUENCES_BLOCKS) return open_pieces(out);
  out->count = stream->count > 0 ? (stream->count - 1) / (uint64_t)length : 0;
  out->pieces = out->count;
  out->inputs = out->count * (uint64_t)length;
  return ULL_OK;
}

ull_status ull__sequences_open_buckets(const ull__token_stream *stream, int64_t length,
                                       const ull__bucket_lengths *buckets, ull__sequences *out) {
  *out = (ull__sequences){.stream = stream,
                          .mode = ULL__SEQUENCES_BUCKETS,
                          .length = length,
                          .buckets = *buckets,
                          .kept.file.descriptor = -1};
  return open_pieces(out);
}

void ull__sequences_close(ull__sequences *s) {
  ull__kept_close(&s->kept);
}

/* ---- reading ---- */

static void count_up(int64_t *to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = i;
}

static void repeat(int64_t *to, int64_t count, int64_t value) {
  for (int64_t i = 0; i < count; i++) to[i] = value;
}

static ull_status read_piece(const ull__sequences *s, const ull__piece *piece, int64_t number,
                             ull__sequence_array array, int64_t *to) {
  bool as_targets = array == ULL__SEQUENCE_TARGETS;
  if (array == ULL__SEQUENCE_POSITIONS) {
    count_up(to, (int64_t)piece->length);
  } else if (array == ULL__SEQUENCE_DOCUMENTS) {
    repeat(to, (int64_t)piece->length, number);
  } else {
    return ull__token_stream_read(s->stream, piece->start + as_targets, piece->length, as_targets,
                                  to);
  }
  return ULL_OK;
}

static void fill_up(const ull__sequences *s, int64_t number, ull__sequence_array array, int64_t *to,
                    int64_t count) {
  if (array == ULL__SEQUENCE_POSITIONS) count_up(to, count);
  if (array == ULL__SEQUENCE_DOCUMENTS) repeat(to, count, number);
  if (array == ULL__SEQUENCE_TARGETS) repeat(to, count, ULL__IGNORED_TARGET);
  if (array == ULL__SEQUENCE_INPUTS)
    repeat(to, count, s->stream->eot <= s->stream->most ? (int64_t)s->stream->eot : 0);
}

static ull_status read_pieces(const ull__sequences *s, uint64_t index, ull__sequence_array array,
                              int64_t *to) {
  uint64_t range[2];
  int64_t used = 0, number = 0;
  ull__piece pieces[PIECE_PART];
  ULL__TRY(ull__kept_read(&s->kept, SECTION_FIRST, index * sizeof *range, range, sizeof range));
  for (uint64_t at = range[0]; at < range[1]; at += PIECE_PART) {
    uint64_t part = range[1] - at < PIECE_PART ? range[1] - at : PIECE_PART;
    if (at >= s->pieces) return damaged(s);
    ULL__TRY(ull__kept_read(&s->kept, SECTION_PIECES, at * sizeof *pieces, pieces,
                            (size_t)part * sizeof *pieces));
    for (uint64_t i = 0; i < part; i++) {
      if (pieces[i].length > (uint64_t)(s->length - used)) return damaged(s);
      ULL__TRY(read_piece(s, &pieces[i], number++, array, to + used));
      used += (int64_t)pieces[i].length;
    }
  }
  fill_up(s, number, array, to + used, s->length - used);
  return ULL_OK;
}

int64_t ull__sequences_length(const ull__sequences *s, uint64_t index) {
  for (size_t b = 0; b < s->buckets.count; b++) {
    if (index < s->bucket_samples[b]) return s->buckets.lengths[b];
    index -= s->bucket_samples[b];
  }
  return s->length;
}

static ull_status read_bucket_piece(const ull__sequences *s, uint64_t index,
                                    ull__sequence_array array, int64_t *to) {
  ull__piece piece;
  int64_t length = ull__sequences_length(s, index);
  ULL__TRY(ull__kept_read(&s->kept, SECTION_PIECES, index * sizeof piece, &piece, sizeof piece));
  if (piece.length > (uint64_t)length) return damaged(s);
  ULL__TRY(read_piece(s, &piece, 0, array, to));
  fill_up(s, 1, array, to + piece.length, length - (int64_t)piece.length);
  return ULL_OK;
}

ull_status ull__sequences_read(const ull__sequences *s, uint64_t index, ull__sequence_array array,
                               int64_t *to) {
  if (s->mode == ULL__SEQUENCES_BUCKETS) return read_bucket_piece(s, index, array, to);
  if (s->mode != ULL__SEQUENCES_BLOCKS) return read_pieces(s, index, array, to);
  const ull__piece whole = {index * (uint64_t)s->length, (uint64_t)s->length};
  return read_piece(s, &whole, 0, array, to);
}
