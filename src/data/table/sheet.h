/* A file of separated values before its rows are read: separator, heading, names of columns. */
#ifndef ULL_DATA_TABLE_SHEET_H
#define ULL_DATA_TABLE_SHEET_H

#include "data/index_file.h"
#include "data/source_text.h"
#include "data/table/csv.h"

enum { ULL__SHEET_COLUMNS = 4096, ULL__SHEET_NONE = -1 };

typedef struct ull__sheet {
  ull__data_file file;
  ull__content content;
  ull__stamp stamp;
  char separator;
  bool has_heading;
  bool has_rows; /* what a person counts are rows, not lines: they come from Parquet */
  uint64_t first_offset, first_line; /* of the first row of values */
  int column_count;
  char **names;          /* of columns: from the heading, or "1", "2", ... */
  int picture_column;    /* the first that holds pictures themselves; or ULL__SHEET_NONE */
  ull__content pictures; /* where those are, in `file` */
  bool first_is_picture; /* no heading, and the first field of the first row names a picture */
} ull__sheet;

/* Reads the first rows. Options `sep` and `header` say what is not to be guessed. Close it in any
 * case. */
ull_status ull__sheet_open(const char *scheme, const ull__source_text *text, ull__sheet *sheet);
void ull__sheet_close(ull__sheet *sheet);

/* Begins to read rows at `offset`, in line `line`. */
void ull__sheet_begin(const ull__sheet *sheet, uint64_t offset, uint64_t line,
                      ull__csv_reader *reader);

/* The column of that name, in any case, or of that number from 1; ULL__SHEET_NONE. */
int ull__sheet_find(const ull__sheet *sheet, const char *name);

/* The column that an option names, ULL__SHEET_NONE where it is not given; ULL_ERROR_USAGE where
 * there is no such column. */
ull_status ull__sheet_option(const ull__sheet *sheet, const ull__source_text *text,
                             const char *option, int *column);

/* Marks the columns that an option lists, separated by commas. */
ull_status ull__sheet_option_list(const ull__sheet *sheet, const ull__source_text *text,
                                  const char *option, bool *marks);

/* A finite number with nothing else in the field. */
bool ull__parse_number(const char *text, size_t bytes, double *value);

/* Empty, or one of the usual words for nothing: NA, N/A, NaN, null, none, ? in any case. */
bool ull__is_missing(const char *text, size_t bytes);

#endif
