/* One pass over all rows: where every 16th begins, what each column holds, which classes the target
 * names. Rows with another number of fields than the heading are counted, and refused when they are
 * read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash_map.h"
#include "base/vector.h"
#include "data/table/table.h"

enum { MOST_CLASSES = 65536 };

typedef struct pass {
  const ull__sheet *sheet;
  int target;
  ull__table_column *columns;
  ULL__VECTOR(ull__table_point) points;
  ull__text_map names; /* of the target's values */
  bool too_many_names;
  uint64_t rows, ragged, ragged_line;
  ULL__VECTOR(char) texts;
  ULL__VECTOR(uint32_t) classes;
} pass;

bool ull__table_integer(const char *text, size_t bytes, int64_t *value) {
  while (bytes > 0 && text[0] == ' ') text++, bytes--;
  while (bytes > 0 && text[bytes - 1] == ' ') bytes--;
  bool negative = bytes > 0 && text[0] == '-';
  if (negative || (bytes > 0 && text[0] == '+')) text++, bytes--;
  if (bytes == 0 || bytes > 18) return false;
  int64_t number = 0;
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    number = number * 10 + (text[i] - '0');
  }
  *value = negative ? -number : number;
  return true;
}

static ull_status note_name(pass *pass, const ull__csv_field *field) {
  char name[ULL__CSV_FIELD + 1];
  if (pass->too_many_names || memchr(field->text, '\0', field->bytes)) return ULL_OK;
  memcpy(name, field->text, field->bytes);
  name[field->bytes] = '\0';
  if (ull__text_map_find(&pass->names, name) != NULL) return ULL_OK;
  if (pass->names.count == MOST_CLASSES) {
    pass->too_many_names = true;
    return ULL_OK;
  }
  return ull__text_map_put(&pass->names, name, 0);
}

static ull_status take_field(void *context, const ull__csv_field *field) {
  pass *pass = context;
  if (field->column >= (uint64_t)pass->sheet->column_count) return ULL_OK;
  ull__table_column *column = &pass->columns[field->column];
  int64_t integer;
  double number;
  if (ull__is_missing(field->text, field->bytes)) {
    column->missing++;
    return ULL_OK;
  }
  column->values++;
  if (ull__table_integer(field->text, field->bytes, &integer)) {
    if (column->integers == 0 || integer < column->least) column->least = integer;
    if (column->integers == 0 || integer > column->most) column->most = integer;
    column->integers++;
    column->numbers++;
  } else if (ull__parse_number(field->text, field->bytes, &number)) {
    column->numbers++;
  }
  return (int)field->column == pass->target ? note_name(pass, field) : ULL_OK;
}

static ull_status read_rows(pass *pass, ull__csv_reader *reader) {
  ull__sheet_begin(pass->sheet, pass->sheet->first_offset, pass->sheet->first_line, reader);
  for (;;) {
    bool found;
    ULL__TRY(ull__csv_row(reader, take_field, pass, &found));
    if (!found) return ULL_OK;
    if (reader->columns != (uint64_t)pass->sheet->column_count && pass->ragged++ == 0)
      pass->ragged_line = reader->row_line;
    if (pass->rows++ % ULL__TABLE_ROWS_A_POINT != 0) continue;
    ull__table_point point = {.offset = reader->row_offset, .line = reader->row_line};
    ULL__TRY(ull__vector_push(&pass->points, point));
  }
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const ull__text_entry *)a)->key, ((const ull__text_entry *)b)->key);
}

/* Where the target's values are not all numbers, they are names of classes. */
static ull_status list_classes(pass *pass) {
  if (pass->target == ULL__SHEET_NONE) return ULL_OK;
  const ull__table_column *column = &pass->columns[pass->target];
  if (column->numbers == column->values) return ULL_OK;
  if (pass->too_many_names) {
    ULL__FAIL(ULL_ERROR_DATA,
              "%s: column '%s' has more than %d different words, and cannot be the "
              "target",
              pass->sheet->file.path, pass->sheet->names[pass->target], MOST_CLASSES);
    ull__error_holder("column '%s'", pass->sheet->names[pass->target]);
    return ull__error_change("name the target with ?target=COLUMN, or target=none");
  }
  qsort(pass->names.items, pass->names.count, sizeof pass->names.items[0], by_key);
  for (size_t i = 0; i < pass->names.count; i++) {
    const char *name = pass->names.items[i].key;
    size_t bytes = strlen(name) + 1;
    uint32_t at = (uint32_t)pass->texts.count;
    ULL__TRY(ull__vector_reserve(&pass->texts, bytes));
    memcpy(pass->texts.items + at, name, bytes);
    pass->texts.count += bytes;
    ULL__TRY(ull__vector_push(&pass->classes, at));
  }
  return ULL_OK;
}

static ull_status make(const pass *pass, ull_source *source, const ull_source_options *options,
                       const char *place, ull__index *index) {
  ull__index_parts parts = {0};
  memcpy(parts.numbers, &pass->sheet->stamp, sizeof pass->sheet->stamp);
  parts.numbers[ULL__TABLE_ROWS] = pass->rows;
  parts.numbers[ULL__TABLE_RAGGED] = pass->ragged;
  parts.numbers[ULL__TABLE_RAGGED_LINE] = pass->ragged_line;
  parts.sections[ULL__TABLE_POINTS].data = pass->points.items;
  parts.sections[ULL__TABLE_POINTS].bytes = pass->points.count * sizeof(ull__table_point);
  parts.sections[ULL__TABLE_COLUMNS].data = pass->columns;
  parts.sections[ULL__TABLE_COLUMNS].bytes =
      (uint64_t)pass->sheet->column_count * sizeof(ull__table_column);
  parts.sections[ULL__TABLE_CLASSES].data = pass->classes.items;
  parts.sections[ULL__TABLE_CLASSES].bytes = pass->classes.count * sizeof(uint32_t);
  parts.sections[ULL__TABLE_TEXTS].data = pass->texts.items;
  parts.sections[ULL__TABLE_TEXTS].bytes = pass->texts.count;
  /* Reading a large sheet is dear, however small the index of it. */
  if (pass->sheet->file.bytes < ULL__INDEX_WORTH_KEEPING) place = NULL;
  return ull__index_make(source, options, place, ULL__TABLE_VERSION, &parts, index);
}

ull_status ull__table_index(ull_source *source, const ull_source_options *options,
                            const ull__sheet *sheet, int target, const char *place,
                            ull__index *index) {
  int64_t began_ns = ull__stamp_now_ns();
  pass pass = {.sheet = sheet, .target = target};
  pass.columns = ull__alloc((size_t)sheet->column_count, sizeof *pass.columns);
  ull__csv_reader *reader = ull__alloc(1, sizeof *reader);
  ull_status status = pass.columns != NULL && reader != NULL ? ULL_OK : ull_error_last()->status;
  if (status == ULL_OK) status = read_rows(&pass, reader);
  if (status == ULL_OK) status = list_classes(&pass);
  if (ull__stamp_is_fresh(&sheet->stamp, began_ns)) place = NULL;
  if (status == ULL_OK) status = make(&pass, source, options, place, index);
  ull__free(pass.columns);
  ull__free(reader);
  ull__vector_free(&pass.points);
  ull__vector_free(&pass.texts);
  ull__vector_free(&pass.classes);
  ull__text_map_free(&pass.names);
  return status;
}
