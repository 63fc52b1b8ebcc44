/* `tokens:FILE`: raw little endian words as nanoGPT writes them, the same behind llm.c's header, or
 * an NPY array. One pass over the file, the first time, finds its largest token and where documents
 * end; that is kept, so that later opens read nothing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "data/npy.h"
#include "data/text/token_stream.h"

enum { VERSION = 1, SCAN_BYTES = 1 << 20 };

/* llm.c: 256 words of 32 bits, of which three say something: magic, version, tokens. */
enum { HEADER_WORDS = 256 };
static const struct {
  uint32_t magic, version;
  int width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/* ---- what the file is ---- */

typedef struct cursor {
  const ull__content *content;
  uint64_t at;
} cursor;

static ull_status read_forward(void *context, void *to, uint64_t count) {
  cursor *c = context;
  ULL__TRY(ull__content_read(c->content, c->at, to, (size_t)count));
  c->at += count;
  return ULL_OK;
}

static ull_status describe_npy(const ull__content *whole, ull__content *out, int *width) {
  cursor c = {whole, 0};
  ull__npy_header header;
  bool is_signed;
  ULL__TRY(ull__npy_read_integers(read_forward, &c, whole->file->path, &header, width, &is_signed));
  if (header.data_bytes > whole->bytes - header.header_bytes) {
    ULL__FAIL(ULL_ERROR_DATA, "%s: is truncated", whole->file->path);
    return ull__error_bytes(header.header_bytes + header.data_bytes, whole->bytes);
  }
  out->offset = header.header_bytes;
  out->bytes = header.data_bytes;
  return ULL_OK;
}

static bool describe_llmc(const ull__content *whole, const uint8_t *start, ull__content *out,
                          int *width) {
  const uint64_t bytes = HEADER_WORDS * 4;
  if (whole->bytes < bytes) return false;
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    uint64_t held = ull__little32(start + 8) * (uint64_t)headers[i].width;
    if (ull__little32(start) != headers[i].magic ||
        ull__little32(start + 4) != headers[i].version || held != whole->bytes - bytes)
      continue;
    out->offset = bytes;
    out->bytes = held;
    *width = headers[i].width;
    return true;
  }
  return false;
}

static ull_status describe_raw(const ull__text_options *options, const ull__content *whole,
                               ull__content *out, int *width) {
  uint64_t skipped = options->header > 0 ? (uint64_t)options->header : 0;
  *width = options->bits > 0 ? options->bits / 8 : 2;
  out->offset = skipped;
  out->bytes = whole->bytes >= skipped ? whole->bytes - skipped : 0;
  if (out->bytes % (uint64_t)*width == 0 && skipped <= whole->bytes) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: its %" PRIu64 " bytes are no whole tokens of %d bits",
            options->path, whole->bytes, 8 * *width);
  ull__error_holder("%s", options->path);
  return ull__error_change("say what it holds: bits=16 or bits=32, header=BYTES");
}

static ull_status describe(const ull__text_options *options, ull__token_stream *stream) {
  ull__content whole = {.file = &stream->file, .bytes = stream->file.bytes};
  uint8_t start[16] = {0};
  stream->tokens = whole;
  size_t known = whole.bytes < sizeof start ? (size_t)whole.bytes : sizeof start;
  ULL__TRY(ull__content_read(&whole, 0, start, known));
  if (memcmp(start, "\x93NUMPY", 6) == 0) {
    ULL__TRY(describe_npy(&whole, &stream->tokens, &stream->width));
  } else if (options->header >= 0 || options->bits > 0 ||
             !describe_llmc(&whole, start, &stream->tokens, &stream->width)) {
    ULL__TRY(describe_raw(options, &whole, &stream->tokens, &stream->width));
  }
  stream->count = stream->tokens.bytes / (uint64_t)stream->width;
  return ULL_OK;
}

/* ---- one pass ---- */

typedef struct scan {
  const ull__text_options *options;
  ull__token_stream *stream;
  bool has_eot;
  uint64_t most, documents;
  uint64_t begin; /* of the document at hand */
} scan;

static ull_status end_document(scan *s, ull__kept_writer *writer, uint64_t behind) {
  ULL__TRY(ull__kept_write(writer, ULL__STREAM_SECTION_DOCUMENTS, &s->begin, sizeof s->begin));
  s->begin = behind;
  s->documents++;
  return ULL_OK;
}

static ull_status scan_part(scan *s, ull__kept_writer *writer, const int64_t *tokens,
                            uint64_t first, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    uint64_t token = (uint64_t)tokens[i];
    if (token > s->most) s->most = token;
    if (s->has_eot && token == s->stream->eot) ULL__TRY(end_document(s, writer, first + i + 1));
  }
  return ULL_OK;
}

static ull_status scan_tokens(scan *s, ull__kept_writer *writer, int64_t *room) {
  const uint64_t most = SCAN_BYTES / sizeof *room;
  for (uint64_t at = 0; at < s->stream->count; at += most) {
    uint64_t left = s->stream->count - at, part = left < most ? left : most;
    ULL__TRY(ull__token_stream_read(s->stream, at, part, false, room));
    ULL__TRY(scan_part(s, writer, room, at, part));
  }
  bool has_rest = s->has_eot && s->begin < s->stream->count;
  return has_rest ? end_document(s, writer, s->stream->count) : ULL_OK;
}

static ull_status bad_documents(const scan *s, uint64_t index) {
  ULL__FAIL(ULL_ERROR_DATA,
            "%s: entry %" PRIu64 " is no first token of a document: from 0 on, "
            "growing, below %" PRIu64,
            s->options->documents, index, s->stream->count);
  return ull__error_holder("%s", s->options->documents);
}

static ull_status copy_documents(scan *s, ull__kept_writer *writer, const ull__content *list,
                                 int width) {
  uint64_t count = list->bytes / (uint64_t)width, before = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint8_t raw[8] = {0};
    ULL__TRY(ull__content_read(list, i * (uint64_t)width, raw, (size_t)width));
    uint64_t start = ull__little64(raw);
    if (i == count - 1 && start == s->stream->count && i > 0) return ULL_OK; /* the end, too */
    if ((i == 0) != (start == 0) || (i > 0 && start <= before) || start >= s->stream->count)
      return bad_documents(s, i);
    ULL__TRY(ull__kept_write(writer, ULL__STREAM_SECTION_DOCUMENTS, &start, sizeof start));
    before = start;
    s->documents++;
  }
  return ULL_OK;
}

static ull_status read_documents(scan *s, ull__kept_writer *writer) {
  ull__data_file file;
  ull__content list = {0};
  int width;
  ULL__TRY(ull__data_file_open(s->options->documents, &file));
  list.file = &file;
  ull__content whole = {.file = &file, .bytes = file.bytes};
  ull_status status = describe_npy(&whole, &list, &width);
  if (status == ULL_OK) status = copy_documents(s, writer, &list, width);
  ull__data_file_close(&file);
  return status;
}

static ull_status make(void *context, ull__kept_writer *writer,
                       uint64_t numbers[ULL__KEPT_NUMBERS]) {
  scan *s = context;
  int64_t *room = ull__alloc(SCAN_BYTES / sizeof *room, sizeof *room);
  if (room == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull_status status = scan_tokens(s, writer, room);
  ull__free(room);
  if (status == ULL_OK && s->options->documents) status = read_documents(s, writer);
  ULL__TRY(status);
  if (s->documents > 0) {
    ULL__TRY(ull__kept_write(writer, ULL__STREAM_SECTION_DOCUMENTS, &s->stream->count,
                             sizeof s->stream->count));
  }
  numbers[ULL__STREAM_MOST] = s->most;
  numbers[ULL__STREAM_EOT] = s->stream->eot;
  numbers[ULL__STREAM_DOCUMENTS] = s->documents;
  return ULL_OK;
}

/* ---- opening ---- */

/* What the kept file follows from, as a text: the path, how it is read, and the list of documents
 * with its stamp. */
static char *describe_key(const ull__text_options *options, const ull__token_stream *stream,
                          bool has_eot, const char *real) {
  struct stat about = {0};
  if (options->documents && stat(options->documents, &about) != 0) memset(&about, 0, sizeof about);
  ull__stamp stamp = ull__stamp_of(&about);
  return ull__format(
      "%s\n%d %" PRIu64 " %" PRIu64 " %d %" PRIu64 "\n%s\n%" PRIu64 " %" PRIu64 " %" PRId64, real,
      stream->width, stream->tokens.offset, stream->count, has_eot, stream->eot,
      options->documents ? options->documents : "", stamp.inode, stamp.bytes, stamp.changed_ns);
}

static ull_status keep_documents(const ull__text_options *options, bool has_eot,
                                 ull__token_stream *stream) {
  scan s = {.options = options, .stream = stream, .has_eot = has_eot && !options->documents};
  struct stat about;
  char *real = realpath(options->path, NULL);
  char *key = describe_key(options, stream, s.has_eot, real ? real : options->path);
  free(real);
  if (key == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  if (fstat(stream->file.descriptor, &about) != 0) memset(&about, 0, sizeof about);
  const ull__kept_maker maker = {.make = make,
                                 .context = &s,
                                 .kind = "tokens",
                                 .key = key,
                                 .key_bytes = strlen(key),
                                 .version = VERSION,
                                 .stamp = ull__stamp_of(&about)};
  stream->most = INT64_MAX;
  ull_status status = ull__kept_open(&maker, &stream->kept);
  ull__free(key);
  ULL__TRY(status);
  return ull__token_stream_use_kept(stream);
}

static ull_status read_eot(const ull__text_options *options, ull__token_stream *stream,
                           bool *has_eot) {
  int64_t eot = 0;
  *has_eot = options->eot != NULL;
  if (*has_eot && (!ull__parse_integer(options->eot, &eot) || eot < 0)) {
    ULL__FAIL(ULL_ERROR_USAGE, "eot=%s: tokens: takes the number of a token", options->eot);
    return ull__error_holder("eot");
  }
  stream->eot = (uint64_t)eot;
  if (*has_eot || options->documents || !options->pack) return ULL_OK;
  ULL__FAIL(ULL_ERROR_USAGE, "%s: what ends a document is not said", options->path);
  ull__error_holder("--pack");
  return ull__error_change("add eot=NUMBER, or documents=FILE.npy, to the source");
}

ull_status ull__token_stream_open_file(const ull__text_options *options, ull__token_stream *out) {
  bool has_eot;
  *out = (ull__token_stream){.file.descriptor = -1, .kept.file.descriptor = -1};
  ULL__TRY(read_eot(options, out, &has_eot));
  ULL__TRY(ull__data_file_open(options->path, &out->file));
  ULL__TRY(describe(options, out));
  if (options->vocabulary == 0 || options->pack) ULL__TRY(keep_documents(options, has_eot, out));
  if (options->vocabulary == 0) {
    if (out->most <= INT32_MAX) return ULL_OK;
    ULL__FAIL(ULL_ERROR_DATA, "%s: holds a token that is negative or beyond 31 bits",
              options->path);
    ull__error_holder("%s", options->path);
    return ull__error_change("say what it holds: bits=16 or bits=32, header=BYTES");
  }
  out->most = (uint64_t)options->vocabulary - 1;
  return ULL_OK;
}
