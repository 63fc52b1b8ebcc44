/* Formats are one or two letters, sometimes with parameters behind a colon; buffers are validity,
 * then elements, or offsets and bytes. Elements are copied out, since nothing says that buffers are
 * aligned. */
#include "data/parquet/column.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"

/* ---- kinds ---- */

static const struct {
  const char *format;
  ull__column column;
} formats[] = {
    {"n", {.kind = ULL__COLUMN_NOTHING}},
    {"b", {.kind = ULL__COLUMN_TRUTH}},
    {"c", {.kind = ULL__COLUMN_SIGNED, .width = 1}},
    {"s", {.kind = ULL__COLUMN_SIGNED, .width = 2}},
    {"i", {.kind = ULL__COLUMN_SIGNED, .width = 4}},
    {"l", {.kind = ULL__COLUMN_SIGNED, .width = 8}},
    {"C", {.kind = ULL__COLUMN_UNSIGNED, .width = 1}},
    {"S", {.kind = ULL__COLUMN_UNSIGNED, .width = 2}},
    {"I", {.kind = ULL__COLUMN_UNSIGNED, .width = 4}},
    {"L", {.kind = ULL__COLUMN_UNSIGNED, .width = 8}},
    {"e", {.kind = ULL__COLUMN_FLOAT, .width = 2}},
    {"f", {.kind = ULL__COLUMN_FLOAT, .width = 4}},
    {"g", {.kind = ULL__COLUMN_FLOAT, .width = 8}},
    {"u", {.kind = ULL__COLUMN_TEXT, .width = 4}},
    {"z", {.kind = ULL__COLUMN_TEXT, .width = 4}},
    {"U", {.kind = ULL__COLUMN_TEXT, .width = 8}},
    {"Z", {.kind = ULL__COLUMN_TEXT, .width = 8}},
    {"tdD", {.kind = ULL__COLUMN_SIGNED, .width = 4}},
    {"tdm", {.kind = ULL__COLUMN_SIGNED, .width = 8, .divisor = 86400000}},
    {"tts", {.kind = ULL__COLUMN_SIGNED, .width = 4}},
    {"ttm", {.kind = ULL__COLUMN_SIGNED, .width = 4, .decimals = 3}},
    {"ttu", {.kind = ULL__COLUMN_SIGNED, .width = 8, .decimals = 6}},
    {"ttn", {.kind = ULL__COLUMN_SIGNED, .width = 8, .decimals = 9}},
    {"tDs", {.kind = ULL__COLUMN_SIGNED, .width = 8}},
    {"tDm", {.kind = ULL__COLUMN_SIGNED, .width = 8, .decimals = 3}},
    {"tDu", {.kind = ULL__COLUMN_SIGNED, .width = 8, .decimals = 6}},
    {"tDn", {.kind = ULL__COLUMN_SIGNED, .width = 8, .decimals = 9}},
    /* With a colon and the time zone behind it, which changes no instant. */
    {"tss:", {.kind = ULL__COLUMN_SIGNED, .width = 8}},
    {"tsm:", {.kind = ULL__COLUMN_SIGNED, .width = 8, .decimals = 3}},
    {"tsu:", {.kind = ULL__COLUMN_SIGNED, .width = 8, .decimals = 6}},
    {"tsn:", {.kind = ULL__COLUMN_SIGNED, .width = 8, .decimals = 9}},
};

/* "d:PRECISION,SCALE" or "d:PRECISION,SCALE,BITS", "w:BYTES". */
static ull__column with_parameters(const char *format) {
  int precision, scale, bits = 128, bytes;
  if (sscanf(format, "d:%d,%d,%d", &precision, &scale, &bits) >= 2 && scale >= 0 && scale <= 38 &&
      (bits == 32 || bits == 64 || bits == 128))
    return (ull__column){.kind = ULL__COLUMN_SIGNED, .width = bits / 8, .decimals = scale};
  if (sscanf(format, "w:%d", &bytes) == 1 && bytes > 0)
    return (ull__column){.kind = ULL__COLUMN_FIXED, .width = bytes};
  return (ull__column){.kind = ULL__COLUMN_UNREAD};
}

static ull__column of_format(const char *format) {
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    const char *known = formats[i].format;
    size_t length = strlen(known);
    bool same =
        known[length - 1] == ':' ? strncmp(known, format, length) == 0 : strcmp(known, format) == 0;
    if (same) return formats[i].column;
  }
  return with_parameters(format);
}

/* Files as Hugging Face's data sets have them: struct<bytes: binary, path: string>. */
static ull__column of_struct(const struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    const struct ArrowSchema *child = schema->children[i];
    bool is_bytes = strcmp(child->format, "z") == 0 || strcmp(child->format, "Z") == 0;
    if (!is_bytes || child->name == NULL || strcmp(child->name, "bytes") != 0) continue;
    ull__column column = of_format(child->format);
    column.is_picture = true;
    column.child = i;
    return column;
  }
  return (ull__column){.kind = ULL__COLUMN_UNREAD};
}

ull__column ull__column_of(const struct ArrowSchema *schema) {
  if (strcmp(schema->format, "+s") == 0) return of_struct(schema);
  ull__column column = of_format(schema->format);
  if (schema->n_children > 0) column.kind = ULL__COLUMN_UNREAD;
  if (schema->dictionary == NULL) return column;
  ull__column values = of_format(schema->dictionary->format);
  bool usable = (column.kind == ULL__COLUMN_SIGNED || column.kind == ULL__COLUMN_UNSIGNED) &&
                column.decimals == 0 && schema->dictionary->dictionary == NULL &&
                schema->dictionary->n_children == 0;
  values.is_indexed = true;
  values.index_kind = column.kind;
  values.index_width = column.width;
  if (!usable) values.kind = ULL__COLUMN_UNREAD;
  return values;
}

/* ---- values ---- */

static bool has_buffers(ull__column_kind kind, const struct ArrowArray *array) {
  int64_t needed = kind == ULL__COLUMN_NOTHING ? 0 : kind == ULL__COLUMN_TEXT ? 3 : 2;
  if (array->n_buffers < needed || array->offset < 0) return false;
  for (int64_t i = 1; i < needed; i++) {
    /* Of texts without a byte the last may be absent. */
    bool may_lack = array->length == 0 || i == 2;
    if (array->buffers[i] == NULL && !may_lack) return false;
  }
  return true;
}

bool ull__column_fits(const ull__column *column, const struct ArrowArray *array) {
  if (column->is_picture)
    return array->offset >= 0 && column->child < array->n_children &&
           array->children[column->child]->length >= array->offset + array->length &&
           has_buffers(column->kind, array->children[column->child]);
  if (!column->is_indexed) return has_buffers(column->kind, array);
  return has_buffers(column->index_kind, array) && array->dictionary != NULL &&
         has_buffers(column->kind, array->dictionary);
}

static bool bit_at(const void *bits, int64_t at) {
  return (((const uint8_t *)bits)[at / 8] >> (at % 8)) & 1;
}

static __int128 whole_at(const void *elements, ull__column_kind kind, int64_t width, int64_t at) {
  __int128 value = 0;
  memcpy(&value, (const char *)elements + at * width, (size_t)width);
  int unused = 128 - 8 * (int)width;
  if (kind == ULL__COLUMN_UNSIGNED || unused == 0) return value;
  return (__int128)((unsigned __int128)value << unused) >> unused;
}

static double float_at(const void *elements, int64_t width, int64_t at) {
  const char *from = (const char *)elements + at * width;
  double wide;
  float narrow;
  uint16_t half;
  if (width == 8) return memcpy(&wide, from, sizeof wide), wide;
  if (width == 4) return memcpy(&narrow, from, sizeof narrow), (double)narrow;
  memcpy(&half, from, sizeof half);
  return (double)ull__half_to_float(half);
}

/* Digits from the last one on, with the point where it belongs. */
static void print_whole(const ull__column *column, __int128 whole, ull__value *value) {
  char *at = value->number + sizeof value->number;
  bool negative = whole < 0;
  unsigned __int128 left = negative ? -(unsigned __int128)whole : (unsigned __int128)whole;
  int behind = column->decimals;
  do {
    *--at = (char)('0' + (int)(left % 10));
    left /= 10;
    if (--behind == 0) *--at = '.';
  } while (left != 0 || behind >= 0);
  if (negative) *--at = '-';
  value->text = at;
  value->bytes = (size_t)(value->number + sizeof value->number - at);
}

static void print_float(double number, bool is_single, const ull__parquet_module *module,
                        ull__value *value) {
  value->is_missing = isnan(number);
  value->text = value->number;
  value->bytes = module->print(number, is_single, value->number);
  bool is_whole = isfinite(number);
  for (size_t i = 0; is_whole && i < value->bytes; i++)
    is_whole = value->number[i] != '.' && value->number[i] != 'e';
  if (!is_whole) return;
  memcpy(value->number + value->bytes, ".0", 2);
  value->bytes += 2;
}

static bool find_text(const ull__column *column, const struct ArrowArray *array, int64_t at,
                      ull__value *value) {
  int64_t begin = (int64_t)whole_at(array->buffers[1], ULL__COLUMN_SIGNED, column->width, at);
  int64_t end = (int64_t)whole_at(array->buffers[1], ULL__COLUMN_SIGNED, column->width, at + 1);
  int64_t last = (int64_t)whole_at(array->buffers[1], ULL__COLUMN_SIGNED, column->width,
                                   array->offset + array->length);
  if (begin < 0 || begin > end || end > last) return false;
  value->text = begin < end ? (const char *)array->buffers[2] + begin : value->number;
  value->bytes = (size_t)(end - begin);
  return begin == end || array->buffers[2] != NULL;
}

static bool find_value(const ull__column *column, const struct ArrowArray *array, int64_t row,
                       const ull__parquet_module *module, ull__value *value) {
  int64_t at = array->offset + row;
  const void *elements = array->n_buffers > 1 ? array->buffers[1] : NULL;
  switch (column->kind) {
  case ULL__COLUMN_TRUTH:
    value->number[0] = bit_at(elements, at) ? '1' : '0';
    value->text = value->number;
    value->bytes = 1;
    return true;
  case ULL__COLUMN_SIGNED:
  case ULL__COLUMN_UNSIGNED: {
    __int128 whole = whole_at(elements, column->kind, column->width, at);
    print_whole(column, column->divisor > 0 ? whole / column->divisor : whole, value);
    return true;
  }
  case ULL__COLUMN_FLOAT:
    print_float(float_at(elements, column->width, at), column->width != 8, module, value);
    return true;
  case ULL__COLUMN_TEXT:
    return find_text(column, array, at, value);
  case ULL__COLUMN_FIXED:
    value->text = (const char *)elements + at * column->width;
    value->bytes = (size_t)column->width;
    return true;
  default:
    value->is_missing = true;
    return true;
  }
}

bool ull__array_is_missing(const struct ArrowArray *array, int64_t row) {
  return array->n_buffers > 0 && array->null_count != 0 && array->buffers[0] != NULL &&
         !bit_at(array->buffers[0], array->offset + row);
}

bool ull__column_value(const ull__column *column, const struct ArrowArray *array, int64_t row,
                       const ull__parquet_module *module, ull__value *value) {
  value->is_missing = ull__array_is_missing(array, row);
  value->bytes = 0;
  if (value->is_missing) return true;
  if (column->is_picture) {
    row += array->offset;
    array = array->children[column->child];
    value->is_missing = ull__array_is_missing(array, row);
    return value->is_missing || find_value(column, array, row, module, value);
  }
  if (!column->is_indexed) return find_value(column, array, row, module, value);
  __int128 index =
      whole_at(array->buffers[1], column->index_kind, column->index_width, array->offset + row);
  array = array->dictionary;
  if (index < 0 || index >= array->length) return false;
  value->is_missing = ull__array_is_missing(array, (int64_t)index);
  return value->is_missing || find_value(column, array, (int64_t)index, module, value);
}
