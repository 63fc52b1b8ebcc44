/* A line is put together in one buffer that grows to the longest. Values nest at most MOST_LEVELS
 * deep. */
#include "data/parquet/as_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/parquet/column.h"
#include "data/parquet/reader.h"

enum { MOST_LEVELS = 8 };

typedef struct lines {
  const char *const *names;
  ull__visit_line visit;
  void *context;
  ull__parquet_reader reader;
  ULL__VECTOR(char) line;
  ull__value value;
} lines;

static ull_status add(lines *l, const char *text, size_t bytes) {
  ULL__TRY(ull__vector_reserve(&l->line, bytes));
  memcpy(l->line.items + l->line.count, text, bytes);
  l->line.count += bytes;
  return ULL_OK;
}

static ull_status add_string(lines *l, const char *text, size_t bytes) {
  ULL__TRY(add(l, "\"", 1));
  for (size_t i = 0, begin = 0; i <= bytes; i++) {
    char escaped[8];
    bool plain = i < bytes && text[i] != '"' && text[i] != '\\' && (unsigned char)text[i] >= 0x20;
    if (plain) continue;
    ULL__TRY(add(l, text + begin, i - begin));
    begin = i + 1;
    if (i == bytes) break;
    snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)text[i]);
    ULL__TRY(add(l, escaped, 6));
  }
  return add(l, "\"", 1);
}

static ull_status is_damaged(const lines *l, const char *name) {
  ULL__FAIL(ULL_ERROR_DATA, "%s: column '%s' is damaged", l->reader.file.path, name);
  return ull__error_holder("%s", l->reader.file.path);
}

static ull_status add_value(lines *l, const struct ArrowSchema *schema,
                            const struct ArrowArray *array, int64_t row, int level);

static ull_status add_struct(lines *l, const struct ArrowSchema *schema,
                             const struct ArrowArray *array, int64_t row, int level) {
  ULL__TRY(add(l, "{", 1));
  for (int64_t i = 0; i < schema->n_children; i++) {
    const char *name = schema->children[i]->name != NULL ? schema->children[i]->name : "";
    if (i > 0) ULL__TRY(add(l, ",", 1));
    ULL__TRY(add_string(l, name, strlen(name)));
    ULL__TRY(add(l, ":", 1));
    ULL__TRY(add_value(l, schema->children[i], array->children[i], array->offset + row, level));
  }
  return add(l, "}", 1);
}

static ull_status add_list(lines *l, const struct ArrowSchema *schema,
                           const struct ArrowArray *array, int64_t row, int level) {
  int32_t narrow[2];
  int64_t at = array->offset + row, ends[2];
  const char *offsets = array->n_buffers > 1 ? array->buffers[1] : NULL;
  if (offsets == NULL || array->n_children != 1) return is_damaged(l, schema->name);
  memcpy(narrow, offsets + at * 4, sizeof narrow);
  ends[0] = narrow[0], ends[1] = narrow[1];
  if (schema->format[1] == 'L') memcpy(ends, offsets + at * 8, sizeof ends);
  if (ends[0] < 0 || ends[0] > ends[1] || ends[1] > array->children[0]->length)
    return is_damaged(l, schema->name);
  ULL__TRY(add(l, "[", 1));
  for (int64_t i = ends[0]; i < ends[1]; i++) {
    if (i > ends[0]) ULL__TRY(add(l, ",", 1));
    ULL__TRY(add_value(l, schema->children[0], array->children[0], i, level));
  }
  return add(l, "]", 1);
}

static ull_status add_text(lines *l, const struct ArrowSchema *schema,
                           const struct ArrowArray *array, int64_t row) {
  ull__column column = ull__column_of(schema);
  bool is_text = column.kind == ULL__COLUMN_TEXT && !column.is_picture;
  if (!is_text) return add(l, "null", 4);
  if (!ull__column_fits(&column, array) ||
      !ull__column_value(&column, array, row, l->reader.module, &l->value))
    return is_damaged(l, schema->name);
  return l->value.is_missing ? add(l, "null", 4) : add_string(l, l->value.text, l->value.bytes);
}

static ull_status add_value(lines *l, const struct ArrowSchema *schema,
                            const struct ArrowArray *array, int64_t row, int level) {
  bool is_struct = strcmp(schema->format, "+s") == 0;
  bool is_list = strcmp(schema->format, "+l") == 0 || strcmp(schema->format, "+L") == 0;
  if (row >= array->length || (is_struct && array->n_children != schema->n_children))
    return is_damaged(l, schema->name);
  if (!is_struct && !is_list) return add_text(l, schema, array, row);
  if (level == MOST_LEVELS || ull__array_is_missing(array, row)) return add(l, "null", 4);
  return is_struct ? add_struct(l, schema, array, row, level + 1)
                   : add_list(l, schema, array, row, level + 1);
}

static bool is_asked_for(const lines *l, const char *name) {
  for (size_t i = 0; name != NULL && l->names[i] != NULL; i++) {
    if (strcmp(l->names[i], name) == 0) return true;
  }
  return false;
}

static ull_status visit_row(lines *l, int64_t row) {
  const struct ArrowSchema *schema = &l->reader.schema;
  l->line.count = 0;
  ULL__TRY(add(l, "{", 1));
  for (int64_t i = 0; i < schema->n_children; i++) {
    const char *name = schema->children[i]->name;
    if (!is_asked_for(l, name)) continue;
    if (l->line.count > 1) ULL__TRY(add(l, ",", 1));
    ULL__TRY(add_string(l, name, strlen(name)));
    ULL__TRY(add(l, ":", 1));
    ULL__TRY(add_value(l, schema->children[i], l->reader.batch.children[i], row, 0));
  }
  ULL__TRY(add(l, "}", 1));
  ULL__TRY(ull__parquet_take(&l->reader, l->line.count));
  return l->visit(l->context, l->line.items, l->line.count);
}

static ull_status check_columns(const lines *l) {
  bool known = false;
  for (int64_t i = 0; i < l->reader.schema.n_children; i++)
    known |= is_asked_for(l, l->reader.schema.children[i]->name);
  if (known) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: has no column '%s'", l->reader.file.path, l->names[0]);
  ull__error_holder("%s", l->reader.file.path);
  return ull__error_change("name the column of texts with ?field=COLUMN");
}

static ull_status visit_part(lines *l, const char *path, const ull__stamp *stamp) {
  ULL__TRY(ull__parquet_open(path, &l->reader));
  ULL__TRY(check_columns(l));
  for (;;) {
    bool more;
    ULL__TRY(ull__parquet_next(&l->reader, &more));
    if (!more) return ull__parquet_check(&l->reader, stamp);
    for (int64_t row = 0; row < l->reader.batch.length; row++) ULL__TRY(visit_row(l, row));
  }
}

ull_status ull__parquet_lines(const ull__parquet_parts *parts, const char *const *names,
                              ull__visit_line visit, void *context) {
  lines l = {.names = names, .visit = visit, .context = context};
  ull_status status = ULL_OK;
  for (size_t i = 0; status == ULL_OK && i < parts->paths.count; i++) {
    status = visit_part(&l, parts->paths.items[i], &parts->stamps[i]);
    ull__parquet_close(&l.reader);
  }
  ull__vector_free(&l.line);
  return status;
}
