/* Rows and fields of separated values, read forward from any row of a file: RFC 4180 with any one
 * separator, CRLF or LF, quotes with "" for a quote, line ends inside quotes.
 *
 * Fields are handed out as they are found; nothing is allocated, whatever the length of a row. */
#ifndef ULL_DATA_TABLE_CSV_H
#define ULL_DATA_TABLE_CSV_H

#include "data/content.h"

enum { ULL__CSV_FIELD = 4096, ULL__CSV_BUFFER = 4096 };

typedef struct ull__csv_field {
  uint64_t column;
  const char *text; /* not ended; until the function returns */
  size_t bytes;     /* at most ULL__CSV_FIELD */
  bool cut;         /* it was longer */
} ull__csv_field;

typedef ull_status (*ull__csv_visit)(void *context, const ull__csv_field *field);

typedef struct ull__csv_reader {
  const ull__content *content; /* borrowed */
  char separator;
  bool counts_rows; /* line ends inside quotes count for nothing */
  uint64_t at;      /* of the buffer's end in the content */
  size_t count, used;
  uint64_t line;                 /* where the next row begins, from 1 */
  uint64_t row_offset, row_line; /* of the row that was read last */
  uint64_t columns;              /* of it */
  char field[ULL__CSV_FIELD];
  char buffer[ULL__CSV_BUFFER];
} ull__csv_reader;

/* Begins at `offset`, where a row begins, in line `line`. */
void ull__csv_begin(ull__csv_reader *reader, const ull__content *content, char separator,
                    uint64_t offset, uint64_t line);

/* Calls `visit` (NULL: nothing) with the fields of the next row that is not empty; *found is false
 * at the end. A failure of `visit` ends the call. ULL_ERROR_DATA where a quote is not closed. */
ull_status ull__csv_row(ull__csv_reader *reader, ull__csv_visit visit, void *context, bool *found);

/* Where the next row begins. */
uint64_t ull__csv_offset(const ull__csv_reader *reader);

#endif
