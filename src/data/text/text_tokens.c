/* `text:FILE`: a text, lines of JSON, or rows of Parquet as such lines, tokenised once into a kept
 * file.
 *
 * Memory is bounded: a text goes by in parts of a megabyte, cut where the tokenizer allows it; a
 * part without such a place grows, to 16 MiB. A line of JSON may have 64 MiB. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/vector.h"
#include "data/parquet/as_lines.h"
#include "data/text/chat.h"
#include "data/text/token_stream.h"
#include "data/text/tokenizer.h"
#include "data/text/unicode.h"

enum { VERSION = 2, WRITE_TOKENS = 1024 };
enum { PART_BYTES = 1 << 20, PART_LIMIT = 16 << 20, LINE_LIMIT = 64 << 20 };

static const uint64_t PROGRESS_NS = UINT64_C(5000000000);

typedef struct making {
  const ull__text_options *options;
  const char *hash;                /* of the tokenizer that the kept file is named after */
  const ull__data_file *file;      /* of Parquet its name alone */
  const ull__parquet_parts *parts; /* of Parquet */
  ull__tokenizer *tokenizer;
  ull__encoder *encoder;
  ull__kept_writer *writer;
  ull__chat chat;
  ull__token_list list;
  uint8_t *room; /* of the text at hand */
  size_t room_bytes, filled;
  uint64_t read; /* of the file, into room */
  uint64_t line; /* from 1 */
  int width;
  uint64_t eot;
  bool in_document, continues;
  uint64_t tokens, documents, most, empty, bad;
  uint64_t reported_ns;
} making;

/* ---- tokens out ---- */

static ull_status put(making *m, const uint32_t *ids, size_t count, bool counts) {
  uint32_t mark = !counts && m->options->is_lines ? UINT32_C(1) << (8 * m->width - 1) : 0;
  uint8_t raw[WRITE_TOKENS * 4];
  while (count > 0) {
    size_t part = count < WRITE_TOKENS ? count : WRITE_TOKENS;
    for (size_t i = 0; i < part; i++) {
      uint32_t word = ids[i] | mark;
      for (int b = 0; b < m->width; b++)
        raw[i * (size_t)m->width + (size_t)b] = (uint8_t)(word >> 8 * b);
      if (ids[i] > m->most) m->most = ids[i];
    }
    ULL__TRY(ull__kept_write(m->writer, ULL__STREAM_SECTION_TOKENS, raw, part * (size_t)m->width));
    m->tokens += part;
    ids += part;
    count -= part;
  }
  return ULL_OK;
}

static ull_status begin_document(making *m) {
  size_t count;
  const uint32_t *prefix = ull__tokenizer_prefix(m->tokenizer, &count);
  if (m->in_document) return ULL_OK;
  m->in_document = true;
  ULL__TRY(ull__kept_write(m->writer, ULL__STREAM_SECTION_DOCUMENTS, &m->tokens, sizeof m->tokens));
  m->documents++;
  return put(m, prefix, count, false);
}

static ull_status end_document(making *m, bool counts) {
  uint32_t eot = (uint32_t)m->eot;
  m->in_document = false;
  return put(m, &eot, 1, counts);
}

/* Tokens of a text, which the end of text within it divides into documents. */
static ull_status put_text(making *m) {
  size_t begin = 0;
  for (size_t i = 0; i < m->list.count; i++) {
    if (m->list.items[i] != m->eot) continue;
    ULL__TRY(begin_document(m));
    ULL__TRY(put(m, m->list.items + begin, i - begin, true));
    ULL__TRY(end_document(m, true));
    begin = i + 1;
  }
  if (begin == m->list.count) return ULL_OK;
  ULL__TRY(begin_document(m));
  return put(m, m->list.items + begin, m->list.count - begin, true);
}

/* ---- the file in ---- */

static void report(making *m) {
  uint64_t now = ull__clock_now_ns();
  if (m->reported_ns == 0) m->reported_ns = now;
  if (now - m->reported_ns < PROGRESS_NS) return;
  m->reported_ns = now;
  ULL__LOG_INFO("%s: %.0f %% tokenised", m->file->path,
                100.0 * (double)m->read / (double)m->file->bytes);
}

static ull_status need_room(making *m, size_t bytes) {
  if (bytes <= m->room_bytes) return ULL_OK;
  uint8_t *room = ull__realloc(m->room, bytes, 1);
  if (room == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  m->room = room;
  m->room_bytes = bytes;
  return ULL_OK;
}

/* Fills the room as far as the file goes. */
static ull_status fill(making *m) {
  ull__content whole = {.file = m->file, .bytes = m->file->bytes};
  uint64_t left = m->file->bytes - m->read, space = m->room_bytes - m->filled;
  size_t count = left < space ? (size_t)left : (size_t)space;
  ULL__TRY(ull__content_read(&whole, m->read, m->room + m->filled, count));
  m->read += count;
  m->filled += count;
  report(m);
  return ULL_OK;
}

static void drop(making *m, size_t bytes) {
  m->filled -= bytes;
  memmove(m->room, m->room + bytes, m->filled);
}

/* ---- a text ---- */

static ull_status has_no_cut(const making *m) {
  ULL__FAIL(ULL_ERROR_UNSUPPORTED,
            "%s: its tokens hang together over more than %d MiB: no space or line end divides them",
            m->file->path, PART_LIMIT >> 20);
  ull__error_holder("%s", m->file->path);
  return ull__error_change("divide it into lines of JSON");
}

/* The bytes of the next part, read. */
static ull_status find_part(making *m, size_t *part) {
  for (;;) {
    ULL__TRY(fill(m));
    *part = m->filled;
    if (m->read == m->file->bytes) return ULL_OK;
    *part = ull__tokenizer_find_cut(m->tokenizer, m->room, m->filled);
    if (*part > 0) return ULL_OK;
    if (m->room_bytes >= PART_LIMIT) return has_no_cut(m);
    ULL__TRY(need_room(m, 2 * m->room_bytes));
  }
}

static ull_status make_of_text(making *m) {
  ULL__TRY(need_room(m, PART_BYTES));
  while (m->read < m->file->bytes || m->filled > 0) {
    size_t part;
    ULL__TRY(find_part(m, &part));
    m->list.count = 0;
    ULL__TRY(ull__encode(m->encoder, m->room, part, m->continues, &m->list));
    m->continues = true;
    ULL__TRY(put_text(m));
    drop(m, part);
  }
  return m->in_document ? end_document(m, true) : ULL_OK;
}

/* ---- lines of JSON ---- */

/* A part of a document; all parts are gathered before any is written, for a document in which
 * nothing counts is left out. */
typedef struct part {
  size_t first; /* in m->list */
  bool counts;
} part;

typedef struct line_parts {
  making *m;
  ULL__VECTOR(part) parts;
  bool learns;
} line_parts;

static ull_status take_part(void *context, const char *text, size_t bytes, bool counts) {
  line_parts *l = context;
  bool continues = l->parts.count > 0;
  ULL__TRY(ull__vector_push(&l->parts, (part){l->m->list.count, counts}));
  ULL__TRY(ull__encode(l->m->encoder, text, bytes, continues, &l->m->list));
  l->learns |= counts && l->m->list.count > l->parts.items[l->parts.count - 1].first;
  return ULL_OK;
}

static ull_status put_parts(making *m, const line_parts *l, bool counts_end) {
  ULL__TRY(begin_document(m));
  for (size_t i = 0; i < l->parts.count; i++) {
    size_t first = l->parts.items[i].first;
    size_t end = i + 1 < l->parts.count ? l->parts.items[i + 1].first : m->list.count;
    ULL__TRY(put(m, m->list.items + first, end - first, l->parts.items[i].counts));
  }
  return end_document(m, counts_end);
}

static ull_status make_of_object(making *m, const json_t *object) {
  line_parts l = {.m = m};
  bool counts_end;
  m->list.count = 0;
  ull_status status =
      ull__chat_parts(object, m->options->field, m->chat, take_part, &l, &counts_end);
  if (status == ULL_OK && !l.learns) m->empty++;
  if (status == ULL_OK && l.learns) status = put_parts(m, &l, counts_end);
  ull__vector_free(&l.parts);
  return status;
}

static bool is_empty(const uint8_t *line, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
  }
  return true;
}

static ull_status make_of_line(making *m, const uint8_t *text, size_t bytes) {
  char name[64];
  json_t *object;
  snprintf(name, sizeof name, "%s %" PRIu64, m->options->is_parquet ? "row" : "line", ++m->line);
  if (is_empty(text, bytes)) return ULL_OK;
  ull_status status = ull__json_parse_data((const char *)text, bytes, name, &object);
  if (status == ULL_OK) {
    status = make_of_object(m, object);
    json_decref(object);
    if (status == ULL_ERROR_DATA) ull__error_context("%s", name);
  }
  if (status != ULL_ERROR_DATA) return status;
  if (m->options->skips_bad) {
    m->bad++;
    ull_error_clear();
    return ULL_OK;
  }
  ull__error_context("%s", m->file->path);
  ull__error_holder("%s", m->file->path);
  return ull__error_change("mend the line, or leave such lines out with bad=skip");
}

static ull_status too_long(const making *m) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: line %" PRIu64 " has more than %d bytes", m->file->path,
            m->line + 1, LINE_LIMIT);
  ull__error_holder("%s", m->file->path);
  return ull__error_bytes(LINE_LIMIT + 1, LINE_LIMIT);
}

static ull_status begin_lines(making *m) {
  ULL__TRY(need_room(m, PART_BYTES));
  ULL__TRY(fill(m));
  if (m->filled >= 3 && memcmp(m->room, "\xef\xbb\xbf", 3) == 0) drop(m, 3);
  return ULL_OK;
}

static ull_status make_of_lines(making *m) {
  size_t seen = 0; /* of the room, without a line end */
  ULL__TRY(begin_lines(m));
  while (m->read < m->file->bytes || m->filled > 0) {
    ULL__TRY(fill(m));
    size_t at = 0;
    for (const uint8_t *end; (end = memchr(m->room + at + seen, '\n', m->filled - at - seen));) {
      size_t bytes = (size_t)(end - m->room) - at;
      ULL__TRY(make_of_line(m, m->room + at, bytes));
      at += bytes + 1;
      seen = 0;
    }
    drop(m, at);
    seen = m->filled;
    if (m->read == m->file->bytes) {
      ULL__TRY(m->filled > 0 ? make_of_line(m, m->room, m->filled) : ULL_OK);
      m->filled = 0;
    } else if (m->filled == m->room_bytes) {
      if (m->room_bytes >= LINE_LIMIT) return too_long(m);
      ULL__TRY(need_room(m, 2 * m->room_bytes));
    }
  }
  return ULL_OK;
}

/* ---- rows of Parquet ---- */

static ull_status take_row(void *context, const char *line, size_t bytes) {
  return make_of_line(context, (const uint8_t *)line, bytes);
}

static ull_status make_of_rows(making *m) {
  const char *names[] = {m->options->field, "messages", "prompt", "completion", NULL};
  return ull__parquet_lines(m->parts, names, take_row, m);
}

/* ---- the whole ---- */

static ull_status choose_eot(making *m) {
  const char *text = m->options->eot;
  int64_t eot = ull__tokenizer_end_of_text(m->tokenizer), limit;
  limit = ull__tokenizer_id_limit(m->tokenizer);
  if (text != NULL && !ull__parse_integer(text, &eot))
    eot = ull__tokenizer_find(m->tokenizer, text);
  if (eot >= 0 && eot < limit) {
    m->eot = (uint64_t)eot;
    return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_USAGE, "%s: has no token %s to end a text with", m->options->tokenizer,
            text ? text : "<|endoftext|>, <|end_of_text|> or </s>");
  ull__error_holder("eot");
  return ull__error_change("add eot=TOKEN or eot=NUMBER to the source");
}

/* The file as it was when it was opened: a part of a changed one would be kept for ever. */
static ull_status check_unchanged(const making *m, const ull__stamp *stamp) {
  struct stat about;
  if (m->options->is_parquet) return ULL_OK; /* each of its files was looked at */
  if (fstat(m->file->descriptor, &about) == 0) {
    ull__stamp now = ull__stamp_of(&about);
    if (ull__stamp_equal(&now, stamp)) return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_DATA, "%s: changed while it was read", m->file->path);
  return ull__error_holder("%s", m->file->path);
}

static ull_status make_all(making *m) {
  ULL__TRY(ull__tokenizer_open(m->options->tokenizer, &m->tokenizer));
  if (strcmp(ull__tokenizer_hash(m->tokenizer), m->hash) != 0)
    return ULL__FAIL(ULL_ERROR_DATA, "%s: changed while it was read", m->options->tokenizer);
  ULL__TRY(ull__encoder_create(m->tokenizer, &m->encoder));
  ULL__TRY(choose_eot(m));
  uint32_t limit = ull__tokenizer_id_limit(m->tokenizer);
  m->width = limit <= (m->options->is_lines ? 1u << 15 : 1u << 16) ? 2 : 4;
  m->chat = m->options->chat ? m->options->chat : ull__chat_choose(m->tokenizer);
  ULL__TRY(m->options->is_parquet ? make_of_rows(m)
           : m->options->is_lines ? make_of_lines(m)
                                  : make_of_text(m));
  return ull__kept_write(m->writer, ULL__STREAM_SECTION_DOCUMENTS, &m->tokens, sizeof m->tokens);
}

typedef struct request {
  const ull__text_options *options;
  const ull__data_file *file;
  const ull__parquet_parts *parts;
  ull__stamp stamp;
  char hash[65]; /* of the tokenizer */
} request;

static ull_status make(void *context, ull__kept_writer *writer,
                       uint64_t numbers[ULL__KEPT_NUMBERS]) {
  const request *r = context;
  making m = {
      .options = r->options, .hash = r->hash, .file = r->file, .parts = r->parts, .writer = writer};
  ull_status status = make_all(&m);
  if (status == ULL_OK) status = check_unchanged(&m, &r->stamp);
  ull__encoder_destroy(m.encoder);
  ull__tokenizer_close(m.tokenizer);
  ull__vector_free(&m.list);
  ull__free(m.room);
  numbers[ULL__STREAM_TOKENS] = m.tokens;
  numbers[ULL__STREAM_WIDTH] = (uint64_t)m.width;
  numbers[ULL__STREAM_MASKS] = m.options->is_lines;
  numbers[ULL__STREAM_MOST] = m.most;
  numbers[ULL__STREAM_EOT] = m.eot;
  numbers[ULL__STREAM_DOCUMENTS] = m.documents;
  numbers[ULL__STREAM_EMPTY] = m.empty;
  numbers[ULL__STREAM_BAD] = m.bad;
  return status;
}

/* All that the tokens follow from beside the file's stamp. */
static ull_status describe_key(const ull__text_options *options, const char *hash, char **key) {
  char *real = realpath(options->path, NULL);
  *key = ull__format("%s\n%s\n%s\n%s\n%d %d %d", real ? real : options->path, hash,
                     options->eot ? options->eot : "", options->field, options->is_lines,
                     options->skips_bad, (int)options->chat);
  free(real);
  return *key != NULL ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

/* `parts`: of Parquet; else empty. */
static ull_status open_kept(const ull__text_options *options, const ull__data_file *file,
                            const ull__parquet_parts *parts, ull__token_stream *out) {
  request r = {.options = options, .file = file, .parts = parts, .stamp = parts->stamp};
  struct stat about;
  char *key;
  ULL__TRY(ull__tokenizer_hash_file(options->tokenizer, r.hash));
  ULL__TRY(describe_key(options, r.hash, &key));
  if (!options->is_parquet && fstat(file->descriptor, &about) == 0) r.stamp = ull__stamp_of(&about);
  const ull__kept_maker maker = {.make = make,
                                 .context = &r,
                                 .kind = "text",
                                 .key = key,
                                 .key_bytes = strlen(key),
                                 .version = VERSION,
                                 .stamp = r.stamp,
                                 .apart = options->is_parquet ? options->path : NULL};
  ull_status status = ull__kept_open(&maker, &out->kept);
  ull__free(key);
  return status == ULL_OK ? ull__token_stream_use_kept(out) : status;
}

static ull_status open_rows(const ull__text_options *options, ull__token_stream *out) {
  ull__parquet_parts parts;
  ull__data_file named = {.path = (char *)options->path, .descriptor = -1};
  ull_status status = ull__parquet_parts_find(options->path, &parts);
  if (status == ULL_OK) status = open_kept(options, &named, &parts, out);
  ull__parquet_parts_free(&parts);
  return status;
}

ull_status ull__token_stream_open_text(const ull__text_options *options, ull__token_stream *out) {
  ull__data_file file;
  *out = (ull__token_stream){.file.descriptor = -1, .kept.file.descriptor = -1};
  ull__parquet_parts parts = {0};
  if (options->is_parquet) return open_rows(options, out);
  ULL__TRY(ull__data_file_open(options->path, &file));
  ull_status status = open_kept(options, &file, &parts, out);
  ull__data_file_close(&file);
  return status;
}
