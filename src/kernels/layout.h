/* What every provider and kernel needs to know about layouts: sizes, padding, and where element
 * (n, c, s) of a value lies. */
#ifndef ULL_KERNELS_LAYOUT_H
#define ULL_KERNELS_LAYOUT_H

#include "kernels/lowering.h"

/* A value seen as [batch, channels, spatial]: the channel is dimension 1 (dimension 0 where there
 * is only one), `batch` the dimensions before it, `spatial` the product of those after it. Element
 * (n, c, s) lies at
 *
 *     n * batch_stride + (c / block) * block_stride + s * spatial_stride + c % block
 *
 * PLAIN has block 1, CHANNELS_LAST one block of all channels. Counts are in elements. Not for
 * OPAQUE. */
typedef struct ull__geometry {
  uint64_t batch, channels, spatial;
  uint64_t block;        /* channels in one block */
  uint64_t block_count;  /* blocks that cover the channels */
  uint64_t batch_stride; /* = elements of one sample, padding included */
  uint64_t block_stride, spatial_stride;
} ull__geometry;

ull_status ull__layout_geometry(const ull__layout *layout, const ull__shape *shape,
                                ull__geometry *out);

/* Elements in memory, padding included: bytes / bytes of an element. */
ull_status ull__layout_elements(const ull__layout *layout, ull_dtype dtype, const ull__shape *shape,
                                uint64_t *out);

/* Whether the layout holds more elements than the value has. */
bool ull__layout_is_padded(const ull__layout *layout, ull_dtype dtype, const ull__shape *shape);

#endif
