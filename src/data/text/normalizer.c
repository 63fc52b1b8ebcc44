/* What happens to a text before it is cut into words: something put in front, something replaced.
 */
#include <string.h>

#include "base/error.h"
#include "base/vector.h"
#include "data/text/tokenizer_internal.h"

ull_status ull__bytes_add(ull__byte_list *list, const void *bytes, size_t count) {
  ULL__TRY(ull__vector_reserve(list, count + 1));
  memcpy(list->items + list->count, bytes, count);
  list->count += count;
  return ULL_OK;
}

static const uint8_t *find(const uint8_t *text, const uint8_t *end, const ull__short_text *what) {
  while ((size_t)(end - text) >= what->length) {
    size_t starts = (size_t)(end - text) - what->length + 1;
    const uint8_t *at = memchr(text, what->bytes[0], starts);
    if (at == NULL || memcmp(at, what->bytes, what->length) == 0) return at;
    text = at + 1;
  }
  return NULL;
}

ull_status ull__bytes_replace(const uint8_t *text, size_t bytes, const ull__short_text *pattern,
                              const ull__short_text *by, ull__byte_list *out) {
  const uint8_t *end = text + bytes, *at;
  out->count = 0;
  ULL__TRY(ull__vector_reserve(out, bytes + 1));
  while ((at = find(text, end, pattern)) != NULL) {
    ULL__TRY(ull__bytes_add(out, text, (size_t)(at - text)));
    ULL__TRY(ull__bytes_add(out, by->bytes, by->length));
    text = at + pattern->length;
  }
  return ull__bytes_add(out, text, (size_t)(end - text));
}

static ull_status run_step(const ull__normalizer_step *step, const uint8_t *text, size_t bytes,
                           ull__byte_list *out) {
  if (step->pattern.length > 0)
    return ull__bytes_replace(text, bytes, &step->pattern, &step->text, out);
  out->count = 0;
  ULL__TRY(ull__bytes_add(out, step->text.bytes, step->text.length));
  return ull__bytes_add(out, text, bytes);
}

ull_status ull__tokenizer_normalize(const ull__tokenizer *tokenizer, const uint8_t *text,
                                    size_t bytes, bool continues, ull__byte_list lists[2],
                                    const uint8_t **out, size_t *out_bytes) {
  *out = text;
  *out_bytes = bytes;
  if (bytes == 0) return ULL_OK;
  int to = 0;
  for (size_t i = 0; i < tokenizer->step_count; i++) {
    const ull__normalizer_step *step = &tokenizer->steps[i];
    if (continues && step->pattern.length == 0) continue;
    ULL__TRY(run_step(step, *out, *out_bytes, &lists[to]));
    *out = lists[to].items;
    *out_bytes = lists[to].count;
    to = 1 - to;
  }
  return ULL_OK;
}
