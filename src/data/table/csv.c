/* A field that lies in the buffer is handed out where it is; one that crosses its end, or holds
 * quotes, is put together in `field`. */
#include "data/table/csv.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

void ull__csv_begin(ull__csv_reader *reader, const ull__content *content, char separator,
                    uint64_t offset, uint64_t line) {
  reader->content = content;
  reader->separator = separator;
  reader->counts_rows = false;
  reader->at = offset;
  reader->count = reader->used = 0;
  reader->line = line;
  reader->row_offset = offset;
  reader->row_line = line;
  reader->columns = 0;
}

uint64_t ull__csv_offset(const ull__csv_reader *reader) {
  return reader->at - (reader->count - reader->used);
}

/* False at the end of the content. */
static ull_status refill(ull__csv_reader *reader, bool *more) {
  *more = reader->used < reader->count;
  if (*more) return ULL_OK;
  uint64_t left = reader->content->bytes - reader->at;
  size_t count = left < sizeof reader->buffer ? (size_t)left : sizeof reader->buffer;
  reader->count = reader->used = 0;
  if (count == 0) return ULL_OK;
  ULL__TRY(ull__content_read(reader->content, reader->at, reader->buffer, count));
  reader->at += count;
  reader->count = count;
  *more = true;
  return ULL_OK;
}

static void add(ull__csv_reader *reader, ull__csv_field *field, const char *text, size_t bytes) {
  size_t room = sizeof reader->field - field->bytes;
  if (bytes > room) field->cut = true;
  if (bytes > room) bytes = room;
  memcpy(reader->field + field->bytes, text, bytes);
  field->text = reader->field;
  field->bytes += bytes;
}

static ull_status not_closed(const ull__csv_reader *reader) {
  ULL__FAIL(ULL_ERROR_DATA, "%s:%" PRIu64 ": a quote is not closed", reader->content->file->path,
            reader->row_line);
  return ull__error_holder("%s:%" PRIu64, reader->content->file->path, reader->row_line);
}

/* Behind the opening quote, up to and with the closing one. */
static ull_status read_quoted(ull__csv_reader *reader, ull__csv_field *field) {
  for (;;) {
    bool more;
    ULL__TRY(refill(reader, &more));
    if (!more) return not_closed(reader);
    const char *begin = reader->buffer + reader->used;
    size_t left = reader->count - reader->used;
    const char *quote = memchr(begin, '"', left);
    size_t bytes = quote != NULL ? (size_t)(quote - begin) : left;
    for (const char *c = begin; (c = memchr(c, '\n', bytes - (size_t)(c - begin))) != NULL; c++)
      reader->line += !reader->counts_rows;
    add(reader, field, begin, bytes);
    reader->used += bytes + (quote != NULL);
    if (quote == NULL) continue;
    ULL__TRY(refill(reader, &more));
    if (!more || reader->buffer[reader->used] != '"') return ULL_OK;
    add(reader, field, "\"", 1);
    reader->used++;
  }
}

typedef enum field_end { END_FIELD, END_ROW, END_CONTENT } field_end;

/* Without quotes, or what follows the closing one. */
static ull_status read_plain(ull__csv_reader *reader, ull__csv_field *field, field_end *end) {
  for (;;) {
    bool more;
    ULL__TRY(refill(reader, &more));
    *end = END_CONTENT;
    if (!more) return ULL_OK;
    const char *begin = reader->buffer + reader->used, *c = begin;
    const char *stop = reader->buffer + reader->count;
    while (c < stop && *c != reader->separator && *c != '\n') c++;
    size_t bytes = (size_t)(c - begin);
    reader->used += bytes + (c < stop);
    if (c < stop && field->bytes == 0 && bytes <= ULL__CSV_FIELD) {
      field->text = begin;
      field->bytes = bytes;
    } else {
      add(reader, field, begin, bytes);
    }
    if (c == stop) continue;
    *end = *c == '\n' ? END_ROW : END_FIELD;
    return ULL_OK;
  }
}

static ull_status read_field(ull__csv_reader *reader, ull__csv_field *field, field_end *end) {
  bool more;
  *field = (ull__csv_field){.column = reader->columns, .text = reader->field};
  ULL__TRY(refill(reader, &more));
  bool quoted = more && reader->buffer[reader->used] == '"';
  if (quoted) {
    reader->used++;
    ULL__TRY(read_quoted(reader, field));
  }
  size_t inside = field->bytes;
  ULL__TRY(read_plain(reader, field, end));
  if (*end != END_FIELD && field->bytes > inside && field->text[field->bytes - 1] == '\r')
    field->bytes--;
  reader->line += *end == END_ROW;
  return ULL_OK;
}

/* *empty: a line without anything, or the end. */
static ull_status read_row(ull__csv_reader *reader, ull__csv_visit visit, void *context,
                           field_end *end, bool *empty) {
  reader->row_offset = ull__csv_offset(reader);
  reader->row_line = reader->line;
  reader->columns = 0;
  do {
    ull__csv_field field;
    uint64_t begin = ull__csv_offset(reader);
    ULL__TRY(read_field(reader, &field, end));
    *empty = reader->columns == 0 && *end != END_FIELD && field.bytes == 0 &&
             ull__csv_offset(reader) - begin <= 2;
    if (!*empty && visit != NULL) ULL__TRY(visit(context, &field));
    reader->columns++;
  } while (*end == END_FIELD);
  return ULL_OK;
}

ull_status ull__csv_row(ull__csv_reader *reader, ull__csv_visit visit, void *context, bool *found) {
  field_end end;
  bool empty;
  *found = false;
  do {
    ULL__TRY(read_row(reader, visit, context, &end, &empty));
  } while (empty && end != END_CONTENT);
  *found = !empty;
  return ULL_OK;
}
