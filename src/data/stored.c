/* Offsets are products of checked sizes: whoever adds an array has made sure that all its samples
 * lie in the content. */
#include "data/stored.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"

ull_status ull__stored_create(ull_source *source) {
  ull__stored *stored = ull__alloc(1, sizeof *stored);
  if (stored == NULL) return ull_error_last()->status;
  source->state = stored;
  source->resident_bytes += sizeof *stored + sizeof *source;
  return ULL_OK;
}

ull_status ull__stored_open_file(ull_source *source, const char *path, ull__data_file **out) {
  ull__stored *stored = source->state;
  if (stored->file_count == ULL_DATA_MAX_ARRAYS) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s: has more than %d files", source->text,
                     ULL_DATA_MAX_ARRAYS);
  }
  ull__data_file *file = &stored->files[stored->file_count];
  ULL__TRY(ull__data_file_open(path, file));
  stored->file_count++;
  *out = file;
  return ULL_OK;
}

ull_status ull__stored_read(const ull_source *source, uint64_t first, uint64_t count, size_t array,
                            void *bytes) {
  const ull__stored *stored = source->state;
  const ull__stored_array *stored_array = &stored->arrays[array];
  uint64_t sample_bytes = source->arrays[array].sample_bytes;
  return ull__content_read(&stored_array->content, stored_array->data_offset + first * sample_bytes,
                           bytes, count * sample_bytes);
}

void ull__stored_close(ull_source *source) {
  ull__stored *stored = source->state;
  for (size_t i = 0; i < ULL_DATA_MAX_ARRAYS; i++) ull__content_free(&stored->arrays[i].content);
  for (size_t i = 0; i < stored->file_count; i++) ull__data_file_close(&stored->files[i]);
  ull__free(stored);
  source->state = NULL;
}

ull_status ull__stored_agree(ull_source *source, const char *path, const char *name,
                             uint64_t count) {
  if (source->array_count == 1) source->stored_count = count;
  if (source->stored_count == count) return ULL_OK;
  ULL__FAIL(ULL_ERROR_DATA, "%s: '%s' has %" PRIu64 " samples and '%s' has %" PRIu64, path,
            source->arrays[0].name, source->stored_count, name, count);
  ull__error_holder("array '%s' of %s", name, path);
  return ull__error_change("all arrays need the same first dimension");
}
