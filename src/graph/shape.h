/* Shapes of up to eight dimensions, each of which may grow with the batch.
 *
 * A dimension is `constant + batch * B`, where B is the batch symbol that stays free until the
 * graph is bound. [N, 3, 32, 32] with a free batch is {0+1B, 3, 32, 32}; flattened tokens [N * T,
 * C] are {0+T*B, C}. A bound shape has batch == 0 everywhere. */
#ifndef ULL_GRAPH_SHAPE_H
#define ULL_GRAPH_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/dtype.h"
#include "ullage/status.h"

#define ULL__MAX_RANK 8

typedef struct ull__dim {
  int64_t constant;
  int64_t batch;
} ull__dim;

typedef struct ull__shape {
  uint32_t rank;
  ull__dim dims[ULL__MAX_RANK];
} ull__shape;

static inline ull__dim ull__dim_of(int64_t constant) {
  return (ull__dim){constant, 0};
}
static inline ull__dim ull__dim_batch(int64_t batch) {
  return (ull__dim){0, batch};
}

/* A shape without a batch symbol. */
ull__shape ull__shape_of(uint32_t rank, const int64_t *dims);

/* The same with the batch symbol in front: [B, dims...]. */
ull__shape ull__shape_batched(uint32_t rank, const int64_t *dims);

bool ull__dim_equal(ull__dim a, ull__dim b);
bool ull__shape_equal(const ull__shape *a, const ull__shape *b);
bool ull__shape_is_bound(const ull__shape *shape);

/* Puts `batch` in the place of the symbol. Refuses results below 0 or above 63 bits. */
ull_status ull__shape_bind(const ull__shape *shape, int64_t batch, ull__shape *out);

/* Product of the dimensions as constant + batch * B. Refuses a product with a power of the symbol,
 * and overflow. */
ull_status ull__shape_elements(const ull__shape *shape, ull__dim *out);

/* Elements and bytes of a bound shape; checked. */
ull_status ull__shape_count(const ull__shape *shape, uint64_t *elements);
ull_status ull__shape_bytes(const ull__shape *shape, ull_dtype dtype, uint64_t *bytes);

/* "[B, 3, 32, 32]", "[16B, 64]", "[7]", "[]". Returns `text`. */
char *ull__shape_text(const ull__shape *shape, char *text, size_t size);

#endif
