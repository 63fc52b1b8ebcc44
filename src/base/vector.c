/* Growth of vectors: doubling from 8 items, so that n pushes cost O(n). */
#include "base/vector.h"

#include "base/alloc.h"
#include "base/checked.h"

ull_status ull__vector_grow(void **items, size_t *capacity, size_t count, size_t extra,
                            size_t item_size) {
  uint64_t needed;
  ULL__TRY(ull__size_add(count, extra, "a vector", &needed));
  if (needed <= *capacity) return ULL_OK;
  uint64_t grown = *capacity < 8 ? 8 : (uint64_t)*capacity * 2;
  if (grown < needed) grown = needed;
  void *moved = ull__realloc(*items, grown, item_size);
  if (moved == NULL) return ull_error_last()->status;
  *items = moved;
  *capacity = grown;
  return ULL_OK;
}
