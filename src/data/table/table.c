/* Rows are read where they lie: from the nearest point of the index forward, or from where this
 * thread was last, since the arrays of a sample are asked for one after the other. */
#include "data/table/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"

typedef enum array_kind { FEATURES, MISSING, CATEGORIES, TARGET } array_kind;

enum { MOST_ARRAYS = 4, NO_PLACE = -1 };

static const uint64_t DEFAULT_BUCKETS = 65536, MOST_BUCKETS = 1ull << 40;

typedef struct table {
  ull__sheet sheet;
  ull__index index;
  uint64_t serial; /* of this source among all */
  int target;
  bool log_scale, target_is_real;
  uint64_t buckets;
  int *place; /* of each column among the features, or the categories */
  bool *is_feature;
  int feature_count, category_count;
  array_kind kinds[MOST_ARRAYS]; /* of the source's arrays */
  const char **classes;          /* sorted; in class_texts */
  char *class_texts;
} table;

/* ---- values ---- */

/* FNV-1a over the column's number and the bytes, mixed once more. */
uint64_t ull__table_bucket(uint64_t column, const char *text, size_t bytes, uint64_t buckets) {
  if (ull__is_missing(text, bytes)) return 0;
  uint64_t hash = (0xCBF29CE484222325u ^ column) * 0x100000001B3u;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001B3u;
  hash = (hash ^ (hash >> 32)) * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 29;
  return 1 + (uint64_t)(((unsigned __int128)hash * (buckets - 1)) >> 64);
}

typedef struct row_read {
  const table *table;
  const ull_source *source;
  const ull__csv_reader *reader;
  array_kind kind;
  uint8_t *to;
  bool done; /* the target was found */
} row_read;

static ull_status bad_value(const row_read *read, const ull__csv_field *field, const char *what) {
  const table *table = read->table;
  ULL__FAIL(ULL_ERROR_DATA, "%s:%" PRIu64 ": column '%s' is %s: '%.*s'", table->sheet.file.path,
            read->reader->row_line, table->sheet.names[field->column], what,
            field->bytes < 80 ? (int)field->bytes : 80, field->text);
  return ull__error_holder("%s:%" PRIu64, table->sheet.file.path, read->reader->row_line);
}

static ull_status put_feature(const row_read *read, const ull__csv_field *field) {
  const table *table = read->table;
  int place = table->place[field->column];
  double number = 0;
  bool missing = ull__is_missing(field->text, field->bytes);
  if (read->kind == MISSING) {
    read->to[place] = missing;
    return ULL_OK;
  }
  if (!missing && (field->cut || !ull__parse_number(field->text, field->bytes, &number)))
    return bad_value(read, field, "no number");
  if (table->log_scale) number = number < 0 ? -log1p(-number) : log1p(number);
  float narrow = (float)number;
  memcpy(read->to + (size_t)place * sizeof narrow, &narrow, sizeof narrow);
  return ULL_OK;
}

static int64_t find_class(const table *table, uint64_t count, const ull__csv_field *field) {
  uint64_t low = 0, high = count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    const char *name = table->classes[middle];
    size_t bytes = strlen(name);
    int order = memcmp(name, field->text, bytes < field->bytes ? bytes : field->bytes);
    if (order == 0 && bytes == field->bytes) return (int64_t)middle;
    if (order < 0 || (order == 0 && bytes < field->bytes))
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

static ull_status put_target(row_read *read, const ull__csv_field *field) {
  const table *table = read->table;
  uint64_t classes = read->source->class_count;
  if (ull__is_missing(field->text, field->bytes)) return bad_value(read, field, "missing");
  read->done = true;
  if (table->target_is_real) {
    double number;
    if (!ull__parse_number(field->text, field->bytes, &number))
      return bad_value(read, field, "no number");
    float narrow = (float)number;
    memcpy(read->to, &narrow, sizeof narrow);
    return ULL_OK;
  }
  int64_t value = -1;
  bool known = classes > 0 ? (value = find_class(table, classes, field)) >= 0
                           : ull__table_integer(field->text, field->bytes, &value);
  if (!known) return bad_value(read, field, "not what it was");
  memcpy(read->to, &value, sizeof value);
  return ULL_OK;
}

static ull_status take_field(void *context, const ull__csv_field *field) {
  row_read *read = context;
  const table *table = read->table;
  if (field->column >= (uint64_t)table->sheet.column_count) return ULL_OK;
  if (read->kind == TARGET)
    return (int)field->column == table->target ? put_target(read, field) : ULL_OK;
  int place = table->place[field->column];
  if (place == NO_PLACE || table->is_feature[field->column] == (read->kind == CATEGORIES))
    return ULL_OK;
  if (read->kind != CATEGORIES) return put_feature(read, field);
  int64_t bucket =
      (int64_t)ull__table_bucket(field->column, field->text, field->bytes, table->buckets);
  memcpy(read->to + (size_t)place * sizeof bucket, &bucket, sizeof bucket);
  return ULL_OK;
}

/* ---- rows ---- */

/* Where this thread was last: a row and the one behind it. */
static _Thread_local struct {
  uint64_t serial, row;
  ull__table_point at, next;
} last;

static ull_status begin_at(const table *table, uint64_t row, ull__csv_reader *reader) {
  ull__table_point point;
  uint64_t skip = 0;
  if (last.serial == table->serial && last.row == row) {
    point = last.at;
  } else if (last.serial == table->serial && last.row + 1 == row) {
    point = last.next;
  } else {
    skip = row % ULL__TABLE_ROWS_A_POINT;
    ULL__TRY(ull__index_read(&table->index, ULL__TABLE_POINTS,
                             row / ULL__TABLE_ROWS_A_POINT * sizeof point, &point, sizeof point));
  }
  if (point.offset > table->sheet.content.bytes)
    return ULL__FAIL(ULL_ERROR_DATA, "%s: has shrunk", table->sheet.file.path);
  ull__sheet_begin(&table->sheet, point.offset, point.line, reader);
  for (; skip > 0; skip--) {
    bool found;
    ULL__TRY(ull__csv_row(reader, NULL, NULL, &found));
  }
  return ULL_OK;
}

static ull_status wrong_width(const table *table, const ull__csv_reader *reader, bool found) {
  ULL__FAIL(ULL_ERROR_DATA, "%s:%" PRIu64 ": %s%" PRIu64 " fields, %d are expected",
            table->sheet.file.path, reader->row_line,
            found ? "has " : "the file ended: ", found ? reader->columns : 0,
            table->sheet.column_count);
  return ull__error_holder("%s:%" PRIu64, table->sheet.file.path, reader->row_line);
}

static ull_status read_table(const ull_source *source, uint64_t first, uint64_t count, size_t array,
                             void *bytes) {
  const table *table = source->state;
  uint64_t sample_bytes = source->arrays[array].sample_bytes;
  ull__csv_reader reader;
  ULL__TRY(begin_at(table, first, &reader));
  row_read read = {.table = table, .source = source, .reader = &reader, .to = bytes};
  read.kind = table->kinds[array];
  for (uint64_t i = 0; i < count; i++, read.to += sample_bytes) {
    bool found;
    read.done = false;
    ULL__TRY(ull__csv_row(&reader, take_field, &read, &found));
    last.serial = table->serial;
    last.row = first + i;
    last.at = (ull__table_point){reader.row_offset, reader.row_line};
    last.next = (ull__table_point){ull__csv_offset(&reader), reader.line};
    if (!found || reader.columns != (uint64_t)table->sheet.column_count)
      return wrong_width(table, &reader, found);
  }
  return ULL_OK;
}

static void name_sample(const ull_source *source, uint64_t stored, char *buffer, size_t bytes) {
  const table *table = source->state;
  ull__csv_reader reader;
  bool found = false;
  if (begin_at(table, stored, &reader) == ULL_OK) ull__csv_row(&reader, NULL, NULL, &found);
  snprintf(buffer, bytes, "%s:%" PRIu64, table->sheet.file.path, found ? reader.row_line : 0);
}

static void name_class(const ull_source *source, uint64_t number, char *buffer, size_t bytes) {
  const table *table = source->state;
  snprintf(buffer, bytes, "%s", table->classes[number]);
}

/* ---- opening ---- */

static ull_status choose_target(table *table, const ull__source_text *text) {
  static const char *const names[] = {"label", "target", "labels", "class", "y", "1"};
  const char *given = ull__source_text_get(text, "target");
  table->target = ULL__SHEET_NONE;
  if (given != NULL && strcmp(given, "none") == 0) return ULL_OK;
  if (given != NULL) return ull__sheet_option(&table->sheet, text, "target", &table->target);
  for (size_t i = 0; i < sizeof names / sizeof names[0] && table->target < 0; i++)
    table->target = ull__sheet_find(&table->sheet, names[i]);
  return ULL_OK;
}

/* A column is numeric where at least 99 of 100 values are numbers. */
static ull_status place_columns(table *table, const ull__source_text *text) {
  size_t count = (size_t)table->sheet.column_count;
  bool *ignored = ull__alloc(count, sizeof *ignored);
  bool *words = ull__alloc(count, sizeof *words);
  table->place = ull__alloc(count, sizeof *table->place);
  table->is_feature = ull__alloc(count, sizeof *table->is_feature);
  ull_status status =
      ignored != NULL && words != NULL && table->place != NULL && table->is_feature != NULL
          ? ULL_OK
          : ull_error_last()->status;
  if (status == ULL_OK) status = ull__sheet_option_list(&table->sheet, text, "ignore", ignored);
  if (status == ULL_OK) status = ull__sheet_option_list(&table->sheet, text, "categories", words);
  for (size_t c = 0; status == ULL_OK && c < count; c++) {
    ull__table_column column;
    status = ull__index_read(&table->index, ULL__TABLE_COLUMNS, c * sizeof column, &column,
                             sizeof column);
    table->place[c] = NO_PLACE;
    if (status != ULL_OK || ignored[c] || (int)c == table->target) continue;
    uint64_t others = column.values - column.numbers;
    table->is_feature[c] = !words[c] && others <= column.values / 100;
    table->place[c] = table->is_feature[c] ? table->feature_count++ : table->category_count++;
  }
  ull__free(ignored);
  ull__free(words);
  return status;
}

static ull_status read_classes(ull_source *source, table *table) {
  const ull__index_header *header = &table->index.header;
  uint64_t count = header->sections[ULL__TABLE_CLASSES].bytes / sizeof(uint32_t);
  uint64_t bytes = header->sections[ULL__TABLE_TEXTS].bytes;
  if (count == 0) return ULL_OK;
  table->class_texts = ull__alloc(bytes + 1, 1);
  table->classes = ull__alloc(count, sizeof *table->classes);
  if (table->class_texts == NULL || table->classes == NULL) return ull_error_last()->status;
  ULL__TRY(ull__index_read(&table->index, ULL__TABLE_TEXTS, 0, table->class_texts, (size_t)bytes));
  for (uint64_t i = 0; i < count; i++) {
    uint32_t at;
    ULL__TRY(ull__index_read(&table->index, ULL__TABLE_CLASSES, i * sizeof at, &at, sizeof at));
    table->classes[i] = table->class_texts + (at <= bytes ? at : bytes);
  }
  source->class_count = count;
  source->resident_bytes += bytes + count * sizeof *table->classes;
  return ULL_OK;
}

static ull_status add(ull_source *source, array_kind kind, const char *name, ull_dtype dtype,
                      int64_t extent) {
  table *table = source->state;
  table->kinds[source->array_count] = kind;
  return ull__source_add_array(source, name, dtype, extent > 0, &extent);
}

/* Of the array that was added last. */
static void state_range(ull_source *source, int64_t least, int64_t most) {
  ull_array_info *info = &source->arrays[source->array_count - 1];
  info->has_range = true;
  info->minimum = least;
  info->maximum = most;
}

static ull_status add_target(ull_source *source, table *table) {
  ull__table_column column;
  if (table->target == ULL__SHEET_NONE) return ULL_OK;
  ULL__TRY(ull__index_read(&table->index, ULL__TABLE_COLUMNS,
                           (uint64_t)table->target * sizeof column, &column, sizeof column));
  ULL__TRY(read_classes(source, table));
  table->target_is_real = source->class_count == 0 && column.integers < column.values;
  if (table->target_is_real) return add(source, TARGET, "target", ULL_FLOAT32, 0);
  ULL__TRY(add(source, TARGET, "label", ULL_INT64, 0));
  if (source->class_count > 0)
    state_range(source, 0, (int64_t)source->class_count - 1);
  else
    state_range(source, column.least, column.most);
  return ULL_OK;
}

static ull_status add_arrays(ull_source *source, const ull__source_text *text) {
  table *table = source->state;
  const char *missing = ull__source_text_get(text, "missing");
  if (missing != NULL && strcmp(missing, "mask") != 0) {
    ULL__FAIL(ULL_ERROR_USAGE, "missing=%s: only 'mask' is there", missing);
    return ull__error_holder("option missing");
  }
  if (table->feature_count > 0)
    ULL__TRY(add(source, FEATURES, "features", ULL_FLOAT32, table->feature_count));
  if (table->feature_count > 0 && missing != NULL)
    ULL__TRY(add(source, MISSING, "missing", ULL_UINT8, table->feature_count));
  if (table->feature_count > 0 && missing != NULL) state_range(source, 0, 1);
  if (table->category_count > 0) {
    ULL__TRY(add(source, CATEGORIES, "categories", ULL_INT64, table->category_count));
    state_range(source, 0, (int64_t)table->buckets - 1);
  }
  return add_target(source, table);
}

static ull_status find_index(ull_source *source, const ull_source_options *options, table *table,
                             const char *place) {
  const ull__sheet *sheet = &table->sheet;
  bool found = ull__index_find(place, ULL__TABLE_VERSION, &table->index);
  if (found && memcmp(table->index.header.numbers, &sheet->stamp, sizeof sheet->stamp) == 0)
    return ULL_OK;
  ull__index_close(&table->index);
  ull_error_clear();
  return ull__table_index(source, options, sheet, table->target, place, &table->index);
}

static ull_status read_options(table *table, const ull__source_text *text) {
  const char *scale = ull__source_text_get(text, "log1p");
  table->log_scale = scale != NULL && strcmp(scale, "yes") == 0;
  if (scale != NULL && !table->log_scale && strcmp(scale, "no") != 0) {
    ULL__FAIL(ULL_ERROR_USAGE, "log1p=%s: yes or no is needed", scale);
    return ull__error_holder("option log1p");
  }
  return ull__source_text_integer(text, "hash", DEFAULT_BUCKETS, 2, MOST_BUCKETS, &table->buckets);
}

ull_status ull__table_open(ull_source *source, const ull_source_options *options, ull__sheet *sheet,
                           const ull__source_text *text, const char *place) {
  static _Atomic uint64_t serials;
  table *table = ull__alloc(1, sizeof *table);
  if (table == NULL) return ull_error_last()->status;
  table->sheet = *sheet;
  table->sheet.content.file = &table->sheet.file;
  *sheet = (ull__sheet){.file.descriptor = -1};
  table->index.file.descriptor = -1;
  table->serial = atomic_fetch_add(&serials, 1) + 1;
  source->state = table;
  source->kind = &ull__source_csv_table;
  source->resident_bytes += sizeof *table + sizeof *source + ULL__SHEET_COLUMNS * sizeof(char *) +
                            (uint64_t)table->sheet.column_count * (sizeof(int) + sizeof(bool));
  ULL__TRY(read_options(table, text));
  ULL__TRY(choose_target(table, text));
  ULL__TRY(find_index(source, options, table, place));
  ULL__TRY(place_columns(table, text));
  const uint64_t *numbers = table->index.header.numbers;
  source->stored_count = numbers[ULL__TABLE_ROWS];
  if (numbers[ULL__TABLE_RAGGED] > 0)
    ULL__LOG_WARNING("%s: %" PRIu64 " rows have not %d fields and cannot be used; the first is in "
                     "line %" PRIu64,
                     source->text, numbers[ULL__TABLE_RAGGED], table->sheet.column_count,
                     numbers[ULL__TABLE_RAGGED_LINE]);
  snprintf(source->note, sizeof source->note,
           "%d features, %d categories in %" PRIu64 " buckets, target '%s'", table->feature_count,
           table->category_count, table->buckets,
           table->target >= 0 ? table->sheet.names[table->target] : "none");
  return add_arrays(source, text);
}

static void close_table(ull_source *source) {
  table *table = source->state;
  ull__index_close(&table->index);
  ull__sheet_close(&table->sheet);
  ull__free(table->place);
  ull__free(table->is_feature);
  ull__free(table->classes);
  ull__free(table->class_texts);
  ull__free(table);
  source->state = NULL;
}

const ull__source_kind ull__source_csv_table = {
    .scheme = "csv",
    .argument = "FILE",
    .read = read_table,
    .name_sample = name_sample,
    .name_class = name_class,
    .close = close_table,
};
