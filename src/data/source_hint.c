/* What was probably meant by a text that names no source. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "data/source.h"

static const struct {
  const char *ending, *scheme;
} endings[] = {
    {".csv", "csv"},    {".tsv", "tsv"},     {".tar", "tar"},   {".tgz", "tar"},
    {".tar.gz", "tar"}, {".tar.zst", "tar"}, {".npz", "npz"},   {".txt", "text"},
    {".jsonl", "text"}, {".bin", "tokens"},  {".json", "text"}, {".parquet", "parquet"},
};

static bool ends_with(const char *text, const char *ending) {
  size_t length = strlen(text), bytes = strlen(ending);
  return length > bytes && strcasecmp(text + length - bytes, ending) == 0;
}

ull_status ull__source_refuse(const char *text, const char *list) {
  bool there = access(text, F_OK) == 0;
  for (size_t i = 0; there && i < sizeof endings / sizeof endings[0]; i++) {
    if (!ends_with(text, endings[i].ending)) continue;
    ULL__FAIL(ULL_ERROR_USAGE, "'%s' is a file, not a folder", text);
    ull__error_holder("--data %s", text);
    return ull__error_change("--data %s:%s", endings[i].scheme, text);
  }
  if (!there && strchr(text, '/') != NULL && strchr(text, ':') == NULL)
    ULL__FAIL(ULL_ERROR_USAGE, "%s: there is no such folder", text);
  else
    ULL__FAIL(ULL_ERROR_USAGE, "'%s' is not a data source", text);
  ull__error_holder("--data %s", text);
  return ull__error_change("use one of %s", list);
}
