/* `csv:FILE`, `tsv:FILE` and `parquet:PATTERN`: a sheet that names pictures, or a table of numbers
 * and words. What it is follows from its heading, or from the options. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sha256.h"
#include "data/parquet/as_sheet.h"
#include "data/parquet/parts.h"
#include "data/table/pictures.h"
#include "data/table/table.h"

static const char *const known_options[] = {"sep",    "header",  "image", "mask",
                                            "label",  "target",  "hash",  "categories",
                                            "ignore", "missing", "log1p", NULL};

/* The index depends on the options' text as a whole: a different one costs a scan, nothing more. */
static ull_status find_place(const char *scheme, const char *argument, const char *path,
                             char **place) {
  char real[PATH_MAX];
  uint8_t key[ULL__SHA256_BYTES];
  ull__sha256 digest;
  *place = NULL;
  if (realpath(path, real) == NULL) snprintf(real, sizeof real, "%s", path); /* a pattern */
  ull__sha256_begin(&digest);
  ull__sha256_add(&digest, scheme, strlen(scheme) + 1);
  ull__sha256_add(&digest, real, strlen(real) + 1);
  const char *options = argument + strlen(path);
  ull__sha256_add(&digest, options, strlen(options) + 1);
  ull__sha256_end(&digest, key);
  return ull__index_place("csv", key, sizeof key, place);
}

static ull_status refuse_option(const ull__source_text *text, const char *const *names,
                                const char *what) {
  for (size_t i = 0; names[i] != NULL; i++) {
    if (ull__source_text_get(text, names[i]) == NULL) continue;
    ULL__FAIL(ULL_ERROR_USAGE, "%s: option '%s' means nothing for %s", text->path, names[i], what);
    return ull__error_holder("option %s", names[i]);
  }
  return ULL_OK;
}

static ull_status open_sheet(ull_source *source, const ull_source_options *options,
                             const ull__source_text *text, const char *place, ull__sheet *sheet) {
  static const char *const of_tables[] = {"target",  "hash",  "categories", "ignore",
                                          "missing", "log1p", NULL};
  static const char *const of_pictures[] = {"mask", "label", NULL};
  ull__picture_columns columns;
  ULL__TRY(ull__picture_columns_find(sheet, text, &columns));
  if (columns.image != ULL__SHEET_NONE) {
    ULL__TRY(refuse_option(text, of_tables, "a list of pictures"));
    return ull__pictures_open(source, options, sheet, &columns, place);
  }
  ULL__TRY(refuse_option(text, of_pictures, "a table"));
  return ull__table_open(source, options, sheet, text, place);
}

static ull_status read_heading(const char *scheme, const ull__source_text *text,
                               ull__sheet *sheet) {
  static const char *const of_text[] = {"sep", "header", NULL};
  if (strcmp(scheme, "parquet") != 0 && !ull__is_parquet_name(text->path))
    return ull__sheet_open(scheme, text, sheet);
  ULL__TRY(refuse_option(text, of_text, "Parquet"));
  return ull__parquet_sheet_open(text, sheet);
}

static ull_status open_scheme(const char *scheme, ull_source *source, const char *argument,
                              const ull_source_options *options) {
  ull__source_text text;
  ull__sheet sheet = {.file.descriptor = -1};
  char *place = NULL;
  ull_status status = ull__source_text_parse(scheme, argument, known_options, &text);
  if (status == ULL_OK) status = find_place(scheme, argument, text.path, &place);
  if (status == ULL_OK) status = read_heading(scheme, &text, &sheet);
  if (status == ULL_OK) status = open_sheet(source, options, &text, place, &sheet);
  ull__sheet_close(&sheet);
  ull__source_text_free(&text);
  ull__free(place);
  return status;
}

static ull_status open_csv(ull_source *source, const char *argument,
                           const ull_source_options *options) {
  return open_scheme("csv", source, argument, options);
}

static ull_status open_tsv(ull_source *source, const char *argument,
                           const ull_source_options *options) {
  return open_scheme("tsv", source, argument, options);
}

static ull_status open_parquet(ull_source *source, const char *argument,
                               const ull_source_options *options) {
  return open_scheme("parquet", source, argument, options);
}

const ull__source_kind ull__source_csv = {.scheme = "csv", .argument = "FILE", .open = open_csv};
const ull__source_kind ull__source_tsv = {.scheme = "tsv", .argument = "FILE", .open = open_tsv};
const ull__source_kind ull__source_parquet = {
    .scheme = "parquet", .argument = "PATTERN", .open = open_parquet};
