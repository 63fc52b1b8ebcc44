/* A Parquet file, or several with the same columns, as a sheet: its rows written once as separated
 * values into the cache folder, and read from there as those of any sheet are. Samples, their order
 * and what they cost are a table's; the library is needed, and takes memory, while the rows are
 * written.
 *
 * Columns of pictures, which hold whole files, make it a list of pictures: the files lie in the
 * cache as well, and the rows say where, as "@OFFSET:BYTES". */
#ifndef ULL_DATA_PARQUET_AS_SHEET_H
#define ULL_DATA_PARQUET_AS_SHEET_H

#include "data/table/sheet.h"

/* Finds the rows in the cache or has them written. Close the sheet in any case. */
ull_status ull__parquet_sheet_open(const ull__source_text *text, ull__sheet *sheet);

#endif
