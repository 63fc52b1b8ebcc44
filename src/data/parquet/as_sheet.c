/* The second section of the kept file begins with the names of the columns, then those of columns
 * that were left out. The rows, without a heading, are the first section, or follow the names where
 * the first has pictures.
 *
 * A field is quoted where it has to be. A row of one empty field is `""`, since an empty line is no
 * row. */
#include "data/parquet/as_sheet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "data/kept_file.h"
#include "data/parquet/column.h"
#include "data/parquet/parts.h"
#include "data/parquet/reader.h"

enum { BULK, NAMES, VERSION = 2 };

/* The file's numbers. PICTURE: of the first column of pictures from 1, among those that are read.
 */
enum { COLUMNS, LEFT_OUT, NAME_BYTES, PICTURE };

typedef struct writing {
  const ull__parquet_parts *parts;
  ull__kept_writer *writer;
  ULL__VECTOR(char) names; /* of all columns of the first part, each ended by 0 */
  ull__column *columns;
  int64_t column_count;
  uint64_t read_count; /* of columns that are not left out */
  int rows;            /* their section */
  uint64_t picture_bytes;
  ull__value value;
} writing;

/* ---- columns ---- */

static ull_status add_name(writing *w, const char *name) {
  size_t bytes = strlen(name) + 1;
  ULL__TRY(ull__vector_reserve(&w->names, bytes));
  memcpy(w->names.items + w->names.count, name, bytes);
  w->names.count += bytes;
  return ULL_OK;
}

static const char *name_of(const struct ArrowSchema *schema, int64_t column) {
  const char *name = schema->children[column]->name;
  return name != NULL ? name : "";
}

static ull_status write_names(writing *w, const struct ArrowSchema *schema, bool left_out,
                              uint64_t numbers[ULL__KEPT_NUMBERS]) {
  for (int64_t i = 0; i < w->column_count; i++) {
    if ((w->columns[i].kind == ULL__COLUMN_UNREAD) != left_out) continue;
    const char *name = name_of(schema, i);
    ULL__TRY(ull__kept_write(w->writer, NAMES, name, strlen(name) + 1));
    numbers[left_out ? LEFT_OUT : COLUMNS]++;
    numbers[NAME_BYTES] += strlen(name) + 1;
    if (w->columns[i].is_picture && numbers[PICTURE] == 0) numbers[PICTURE] = numbers[COLUMNS];
  }
  return ULL_OK;
}

static ull_status nothing_to_read(const ull__parquet_reader *reader) {
  bool any = reader->schema.n_children > 0;
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has no column of numbers or texts%s%s%s", reader->file.path,
            any ? "; '" : "", any ? name_of(&reader->schema, 0) : "", any ? "' is nested" : "");
  ull__error_holder("%s", reader->file.path);
  return ull__error_change("write what belongs to a sample as columns of their own");
}

static ull_status begin_columns(writing *w, const ull__parquet_reader *reader) {
  const struct ArrowSchema *schema = &reader->schema;
  if (schema->n_children > ULL__SHEET_COLUMNS)
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than %d columns", reader->file.path,
                     ULL__SHEET_COLUMNS);
  w->column_count = schema->n_children;
  w->columns = ull__alloc((size_t)w->column_count + 1, sizeof *w->columns);
  if (w->columns == NULL) return ull_error_last()->status;
  for (int64_t i = 0; i < w->column_count; i++) {
    w->columns[i] = ull__column_of(schema->children[i]);
    w->read_count += w->columns[i].kind != ULL__COLUMN_UNREAD;
    if (w->columns[i].is_picture) w->rows = NAMES;
    ULL__TRY(add_name(w, name_of(schema, i)));
  }
  return w->read_count > 0 ? ULL_OK : nothing_to_read(reader);
}

/* A part may keep a column in another way, but has the same ones. */
static ull_status follow_columns(writing *w, const ull__parquet_reader *reader) {
  const struct ArrowSchema *schema = &reader->schema;
  bool same = schema->n_children == w->column_count;
  const char *name = w->names.items;
  for (int64_t i = 0; same && i < w->column_count; i++, name += strlen(name) + 1) {
    ull__column before = w->columns[i];
    w->columns[i] = ull__column_of(schema->children[i]);
    same = strcmp(name, name_of(schema, i)) == 0 &&
           (w->columns[i].kind == ULL__COLUMN_UNREAD) == (before.kind == ULL__COLUMN_UNREAD) &&
           w->columns[i].is_picture == before.is_picture;
  }
  if (same) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: has other columns than %s", reader->file.path,
            w->parts->paths.items[0]);
  ull__error_holder("%s", reader->file.path);
  return ull__error_change("name files of one table, or write them with the same columns");
}

/* ---- rows ---- */

static bool needs_quotes(const writing *w, const char *text, size_t bytes) {
  if (bytes == 0) return w->read_count == 1;
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] == ',' || text[i] == '"' || text[i] == '\n' || text[i] == '\r') return true;
  }
  return false;
}

static ull_status write_field(writing *w, const char *text, size_t bytes) {
  if (!needs_quotes(w, text, bytes)) return ull__kept_write(w->writer, w->rows, text, bytes);
  ULL__TRY(ull__kept_write(w->writer, w->rows, "\"", 1));
  while (bytes > 0) {
    const char *quote = memchr(text, '"', bytes);
    size_t count = quote != NULL ? (size_t)(quote + 1 - text) : bytes;
    ULL__TRY(ull__kept_write(w->writer, w->rows, text, count));
    if (quote != NULL) ULL__TRY(ull__kept_write(w->writer, w->rows, "\"", 1));
    text += count;
    bytes -= count;
  }
  return ull__kept_write(w->writer, w->rows, "\"", 1);
}

static ull_status write_picture(writing *w, const char *bytes, size_t count) {
  char place[64];
  if (count == 0) return write_field(w, bytes, 0);
  int used = snprintf(place, sizeof place, "@%" PRIu64 ":%zu", w->picture_bytes, count);
  w->picture_bytes += count;
  ULL__TRY(ull__kept_write(w->writer, BULK, bytes, count));
  return write_field(w, place, (size_t)used);
}

static ull_status points_outside(const ull__parquet_reader *reader, int64_t column, int64_t row) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: row %" PRIu64 ": column '%s' is damaged", reader->file.path,
            reader->first_row + (uint64_t)row + 1, name_of(&reader->schema, column));
  return ull__error_holder("%s", reader->file.path);
}

static ull_status write_row(writing *w, ull__parquet_reader *reader, int64_t row) {
  uint64_t written = 0;
  for (int64_t i = 0; i < w->column_count; i++) {
    if (w->columns[i].kind == ULL__COLUMN_UNREAD) continue;
    ull__value *value = &w->value;
    if (!ull__column_value(&w->columns[i], reader->batch.children[i], row, reader->module, value))
      return points_outside(reader, i, row);
    size_t bytes = value->is_missing ? 0 : value->bytes;
    ULL__TRY(ull__parquet_take(reader, bytes + 1));
    ULL__TRY(w->columns[i].is_picture ? write_picture(w, value->text, bytes)
                                      : write_field(w, value->text, bytes));
    ULL__TRY(ull__kept_write(w->writer, w->rows, ++written < w->read_count ? "," : "\n", 1));
  }
  return ULL_OK;
}

static ull_status write_batch(writing *w, ull__parquet_reader *reader) {
  const struct ArrowArray *batch = &reader->batch;
  for (int64_t i = 0; i < w->column_count; i++) {
    bool is_read = w->columns[i].kind != ULL__COLUMN_UNREAD;
    if (is_read && !ull__column_fits(&w->columns[i], batch->children[i]))
      return points_outside(reader, i, 0);
  }
  for (int64_t row = 0; row < batch->length; row++) ULL__TRY(write_row(w, reader, row));
  return ULL_OK;
}

static ull_status write_part(writing *w, size_t part, uint64_t numbers[ULL__KEPT_NUMBERS],
                             ull__parquet_reader *reader) {
  ULL__TRY(ull__parquet_open(w->parts->paths.items[part], reader));
  ULL__TRY(part == 0 ? begin_columns(w, reader) : follow_columns(w, reader));
  if (part == 0) {
    ULL__TRY(write_names(w, &reader->schema, false, numbers));
    ULL__TRY(write_names(w, &reader->schema, true, numbers));
  }
  for (;;) {
    bool more;
    ULL__TRY(ull__parquet_next(reader, &more));
    if (!more) return ull__parquet_check(reader, &w->parts->stamps[part]);
    ULL__TRY(write_batch(w, reader));
  }
}

static ull_status write_parts(void *context, ull__kept_writer *writer,
                              uint64_t numbers[ULL__KEPT_NUMBERS]) {
  writing *w = context;
  ull_status status = ULL_OK;
  w->writer = writer;
  for (size_t i = 0; status == ULL_OK && i < w->parts->paths.count; i++) {
    ull__parquet_reader reader;
    status = write_part(w, i, numbers, &reader);
    ull__parquet_close(&reader);
  }
  return status;
}

/* ---- the sheet ---- */

static ull_status take_names(const ull__kept *kept, ull__sheet *sheet) {
  uint64_t bytes = kept->header.numbers[NAME_BYTES];
  uint64_t columns = kept->header.numbers[COLUMNS], left_out = kept->header.numbers[LEFT_OUT];
  char *names = ull__alloc(bytes + 1, 1);
  if (names == NULL) return ull_error_last()->status;
  ull_status status = ull__kept_read(kept, NAMES, 0, names, (size_t)bytes);
  const char *name = names;
  for (uint64_t i = 0; status == ULL_OK && i < columns + left_out; i++) {
    if (name >= names + bytes || sheet->column_count == ULL__SHEET_COLUMNS) {
      status = ULL__FAIL(ULL_ERROR_DATA, "%s: is damaged", kept->file.path);
    } else if (i == columns) {
      ULL__LOG_WARNING("%s: %" PRIu64 " columns are nested or neither numbers nor texts and are "
                       "left out; the first is '%s'",
                       sheet->file.path, left_out, name);
    } else if (i < columns) {
      char *copy = ull__strdup(name);
      if (copy == NULL) status = ull_error_last()->status;
      if (copy != NULL) sheet->names[sheet->column_count++] = copy;
    }
    name += strlen(name) + 1;
  }
  ull__free(names);
  return status;
}

/* The sheet reads through the kept file's descriptor and speaks of the file that was named. */
static ull_status take_over(ull__kept *kept, const ull__parquet_parts *parts, const char *pattern,
                            ull__sheet *sheet) {
  sheet->names = ull__alloc(ULL__SHEET_COLUMNS, sizeof *sheet->names);
  char *path = ull__strdup(pattern);
  if (sheet->names == NULL || path == NULL) {
    ull__free(path);
    return ull_error_last()->status;
  }
  sheet->file = (ull__data_file){
      .path = path, .descriptor = kept->file.descriptor, .bytes = kept->file.bytes};
  kept->file.descriptor = -1;
  const ull__kept_header *header = &kept->header;
  bool has_pictures = header->numbers[PICTURE] > 0;
  int rows = has_pictures ? NAMES : BULK;
  uint64_t before = has_pictures ? header->numbers[NAME_BYTES] : 0;
  sheet->content = (ull__content){.file = &sheet->file,
                                  .offset = header->sections[rows].offset + before,
                                  .bytes = header->sections[rows].bytes - before};
  if (has_pictures) sheet->picture_column = (int)header->numbers[PICTURE] - 1;
  sheet->pictures = (ull__content){.file = &sheet->file,
                                   .offset = header->sections[BULK].offset,
                                   .bytes = has_pictures ? header->sections[BULK].bytes : 0};
  sheet->stamp = parts->stamp;
  sheet->separator = ',';
  sheet->has_heading = sheet->has_rows = true;
  sheet->first_line = 1;
  return ULL_OK;
}

static ull_status open_parts(const ull__parquet_parts *parts, const char *pattern,
                             ull__sheet *sheet) {
  writing writing = {.parts = parts};
  ull__kept_maker maker = {
      .make = write_parts,
      .context = &writing,
      .kind = "parquet",
      .key = parts->key,
      .key_bytes = sizeof parts->key,
      .version = VERSION,
      .stamp = parts->stamp,
      .apart = pattern,
  };
  ull__kept kept;
  ull_status status = ull__kept_open(&maker, &kept);
  ull__vector_free(&writing.names);
  ull__free(writing.columns);
  if (status == ULL_OK) status = take_over(&kept, parts, pattern, sheet);
  if (status == ULL_OK) {
    ull__kept named = kept;
    named.file.descriptor = sheet->file.descriptor;
    status = take_names(&named, sheet);
  }
  ull__kept_close(&kept);
  return status;
}

ull_status ull__parquet_sheet_open(const ull__source_text *text, ull__sheet *sheet) {
  ull__parquet_parts parts;
  *sheet = (ull__sheet){.file.descriptor = -1, .picture_column = ULL__SHEET_NONE};
  ull_status status = ull__parquet_parts_find(text->path, &parts);
  if (status == ULL_OK) status = open_parts(&parts, text->path, sheet);
  ull__parquet_parts_free(&parts);
  return status;
}
