/* The rows of Parquet files as lines of JSON, for what reads texts and conversations: each row an
 * object of those columns that are asked for, with lists and structs as arrays and objects, texts
 * as strings, and everything else as null. */
#ifndef ULL_DATA_PARQUET_AS_LINES_H
#define ULL_DATA_PARQUET_AS_LINES_H

#include "data/parquet/parts.h"

/* `line` lasts until the function returns. */
typedef ull_status (*ull__visit_line)(void *context, const char *line, size_t bytes);

/* Visits all rows of all files in order until a visit fails. `names`: of columns, ended by NULL;
 * ULL_ERROR_DATA where a file has none of them. */
ull_status ull__parquet_lines(const ull__parquet_parts *parts, const char *const *names,
                              ull__visit_line visit, void *context);

#endif
