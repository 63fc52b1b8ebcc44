/* A sheet that names pictures: paths, masks and labels of all rows, in an index. */
#ifndef ULL_DATA_TABLE_PICTURES_H
#define ULL_DATA_TABLE_PICTURES_H

#include "data/source.h"
#include "data/table/sheet.h"

typedef struct ull__picture_columns {
  int image, mask, label; /* or ULL__SHEET_NONE */
} ull__picture_columns;

/* Whether the sheet names pictures, and in which columns: by the options `image`, `mask`, `label`,
 * by usual headings, or without a heading by the first row. image is ULL__SHEET_NONE where not. */
ull_status ull__picture_columns_find(const ull__sheet *sheet, const ull__source_text *text,
                                     ull__picture_columns *columns);

/* Makes source->state; `key` is what the source's text stands for. The sheet stays the caller's. */
ull_status ull__pictures_open(ull_source *source, const ull_source_options *options,
                              const ull__sheet *sheet, const ull__picture_columns *columns,
                              const char *place);

extern const ull__source_kind ull__source_csv_pictures;

#endif
