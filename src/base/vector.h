/* A growing array of any item type, as three plain fields.
 *
 *     ULL__VECTOR(uint32_t) ids = {0};
 *     ULL__TRY(ull__vector_push(&ids, 7u));
 *     for (size_t i = 0; i < ids.count; i++) use(ids.items[i]);
 *     ull__vector_free(&ids);
 */
#ifndef ULL_BASE_VECTOR_H
#define ULL_BASE_VECTOR_H

#include <stddef.h>

#include "base/error.h"

#define ULL__VECTOR(type) \
  struct {                \
    type *items;          \
    size_t count;         \
    size_t capacity;      \
  }

/* Makes room for `extra` more items. Used by the macros. */
ull_status ull__vector_grow(void **items, size_t *capacity, size_t count, size_t extra,
                            size_t item_size);

#define ull__vector_reserve(vector, extra)                                                   \
  ull__vector_grow((void **)&(vector)->items, &(vector)->capacity, (vector)->count, (extra), \
                   sizeof *(vector)->items)

/* Appends one item (any expression of the item's type). Evaluates to a status. */
#define ull__vector_push(vector, ...)                                 \
  (ull__vector_reserve((vector), 1) == ULL_OK                         \
       ? ((vector)->items[(vector)->count++] = (__VA_ARGS__), ULL_OK) \
       : ULL_ERROR_OUT_OF_MEMORY)

#define ull__vector_free(vector) \
  (ull__free((vector)->items), (vector)->items = NULL, (vector)->count = (vector)->capacity = 0)

void ull__free(void *pointer);

#endif
