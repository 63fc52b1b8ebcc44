/* Classes have names where sources give them some: what a number means to two sources. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/source.h"

enum { NAME_BYTES = 512 };

uint64_t ull_source_class_count(const ull_source *source) {
  return source->class_count;
}

const char *ull_source_class_name(const ull_source *source, uint64_t number, char *buffer,
                                  size_t buffer_bytes) {
  if (buffer_bytes == 0) return buffer;
  snprintf(buffer, buffer_bytes, "%" PRIu64, number);
  if (number < source->class_count && source->kind->name_class != NULL)
    source->kind->name_class(source, number, buffer, buffer_bytes);
  return buffer;
}

ull_status ull_source_check_classes(const ull_source *training, const ull_source *evaluation) {
  char ours[NAME_BYTES], theirs[NAME_BYTES];
  if (training->class_count == 0) return ULL_OK;
  for (uint64_t c = 0; c < evaluation->class_count; c++) {
    ull_source_class_name(evaluation, c, theirs, sizeof theirs);
    bool known = c < training->class_count;
    if (known) ull_source_class_name(training, c, ours, sizeof ours);
    if (known && strcmp(ours, theirs) == 0) continue;
    if (known)
      ULL__FAIL(ULL_ERROR_MISMATCH, "class %" PRIu64 " is '%s' in %s and '%s' in %s", c, ours,
                training->text, theirs, evaluation->text);
    else
      ULL__FAIL(ULL_ERROR_MISMATCH, "class %" PRIu64 ", '%s' in %s, is unknown to %s", c, theirs,
                evaluation->text, training->text);
    ull__error_holder("class %" PRIu64, c);
    return ull__error_change("give both the same class folders; an empty one counts");
  }
  return ULL_OK;
}
