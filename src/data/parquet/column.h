/* A column as Arrow hands it out, and its values as the texts that a sheet would have: what a table
 * reads from a Parquet file is what it would read from the same table as CSV.
 *
 * Whole numbers and decimals are written as they are, floats with the fewest digits that give the
 * same number and never without a point, truth as 1 and 0, dates as days and times as seconds since
 * 1970, texts and bytes as they are. What is missing, and NaN, is empty. */
#ifndef ULL_DATA_PARQUET_COLUMN_H
#define ULL_DATA_PARQUET_COLUMN_H

#include "data/parquet/module.h"

typedef enum ull__column_kind {
  ULL__COLUMN_UNREAD, /* nested, or of a kind that is no number and no text */
  ULL__COLUMN_NOTHING,
  ULL__COLUMN_TRUTH,
  ULL__COLUMN_SIGNED,
  ULL__COLUMN_UNSIGNED,
  ULL__COLUMN_FLOAT,
  ULL__COLUMN_TEXT,  /* offsets of `width` bytes each */
  ULL__COLUMN_FIXED, /* texts of `width` bytes each */
} ull__column_kind;

typedef struct ull__column {
  ull__column_kind kind;
  bool
      is_picture; /* a struct whose child number `child` has the bytes of files: ULL__COLUMN_TEXT */
  int64_t child;
  int64_t width;   /* of an element, in bytes */
  int64_t divisor; /* of a whole number, before anything else */
  int decimals;    /* of a whole number: digits behind its point */
  bool is_indexed; /* elements are indices into the dictionary, whose values `kind` describes */
  ull__column_kind index_kind;
  int64_t index_width;
} ull__column;

typedef struct ull__value {
  bool is_missing;
  const char *text; /* not ended; until the array is released or the next value is read */
  size_t bytes;
  char number[ULL__NUMBER_TEXT];
} ull__value;

/* Never fails: what is not known is ULL__COLUMN_UNREAD. */
ull__column ull__column_of(const struct ArrowSchema *schema);

/* Whether the array has the buffers that the column needs. */
bool ull__column_fits(const ull__column *column, const struct ArrowArray *array);

/* Whether element `row` < array->length is null. */
bool ull__array_is_missing(const struct ArrowArray *array, int64_t row);

/* Reads element `row` < array->length; false where the array points outside itself. */
bool ull__column_value(const ull__column *column, const struct ArrowArray *array, int64_t row,
                       const ull__parquet_module *module, ull__value *value);

#endif
