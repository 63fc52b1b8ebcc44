/* One name a line; a byte that would end the line becomes a blank. */
#include "data/pack/classes.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"

enum { NAME = 4096 };

static const char file_name[] = "classes.txt";

typedef ULL__VECTOR(char) text;

static ull_status add_line(text *to, char *name) {
  size_t bytes = strlen(name) + 1;
  for (char *c = name; *c != '\0'; c++)
    if (*c == '\n' || *c == '\r') *c = ' ';
  name[bytes - 1] = '\n'; /* in the place of its 0 */
  ULL__TRY(ull__vector_reserve(to, bytes));
  memcpy(to->items + to->count, name, bytes);
  to->count += bytes;
  return ULL_OK;
}

static ull_status list_names(const ull_source *source, text *to) {
  char name[NAME];
  for (uint64_t i = 0; i < source->class_count; i++) {
    ull_source_class_name(source, i, name, sizeof name);
    ULL__TRY(add_line(to, name));
  }
  return ULL_OK;
}

static ull_status write_or_compare(const ull__pack_output *output, const text *names) {
  char *there, path[ULL__PACK_PATH + 32];
  size_t bytes;
  ULL__TRY(ull__pack_output_read(output, file_name, &there, &bytes));
  if (there == NULL) return ull__pack_output_write(output, file_name, names->items, names->count);
  bool same = bytes == names->count && memcmp(there, names->items, bytes) == 0;
  ull__free(there);
  if (same) return ULL_OK;
  ull__pack_output_path(output, file_name, path, sizeof path);
  ULL__FAIL(ULL_ERROR_MISMATCH, "%s lists other classes than the source has", path);
  ull__error_holder("%s", path);
  return ull__error_change("pack into another folder");
}

ull_status ull__pack_classes(const ull_source *source, const ull__pack_output *output) {
  text names = {0};
  if (source->class_count == 0) return ULL_OK;
  ull_status status = list_names(source, &names);
  if (status == ULL_OK) status = write_or_compare(output, &names);
  ull__vector_free(&names);
  return status;
}
