/* A sheet of numbers and words: every row a sample with its numeric columns as `features`, its
 * other columns hashed as `categories`, and one column as `label` or `target`. table_index.c reads
 * the sheet once, table.c reads rows. */
#ifndef ULL_DATA_TABLE_TABLE_H
#define ULL_DATA_TABLE_TABLE_H

#include "data/source.h"
#include "data/table/sheet.h"

enum { ULL__TABLE_VERSION = 1, ULL__TABLE_ROWS_A_POINT = 16 };

/* Sections and numbers of the index. The first numbers are the sheet's stamp. */
enum {
  ULL__TABLE_POINTS,  /* ull__table_point, one for ULL__TABLE_ROWS_A_POINT rows */
  ULL__TABLE_COLUMNS, /* ull__table_column */
  ULL__TABLE_CLASSES, /* uint32 in the texts, sorted: names of the target's classes */
  ULL__TABLE_TEXTS,
};
enum { ULL__TABLE_ROWS = 5, ULL__TABLE_RAGGED, ULL__TABLE_RAGGED_LINE };

typedef struct ull__table_point {
  uint64_t offset, line;
} ull__table_point;

/* What a column holds. */
typedef struct ull__table_column {
  uint64_t missing, integers, numbers; /* integers are numbers too */
  uint64_t values;                     /* all that is not missing */
  int64_t least, most;                 /* of the integers */
} ull__table_column;

/* Reads all rows once. `target` may be ULL__SHEET_NONE. `place` may be NULL. */
ull_status ull__table_index(ull_source *source, const ull_source_options *options,
                            const ull__sheet *sheet, int target, const char *place,
                            ull__index *index);

/* A whole number of 18 digits at most. */
bool ull__table_integer(const char *text, size_t bytes, int64_t *value);

/* Takes the sheet over, also on failure; the caller sees it closed and zeroed. */
ull_status ull__table_open(ull_source *source, const ull_source_options *options, ull__sheet *sheet,
                           const ull__source_text *text, const char *place);

/* Bucket 0 holds what is missing; a value's bucket depends on its column too. */
uint64_t ull__table_bucket(uint64_t column, const char *text, size_t bytes, uint64_t buckets);

extern const ull__source_kind ull__source_csv_table;

#endif
