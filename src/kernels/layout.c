/* Sizes and geometry of layouts, and copies between them and plain order.
 *
 * Blocked layouts cover the channels with whole blocks; what they hold beyond the last channel is
 * zero, always. */
#include "kernels/layout.h"

#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

const ull__layout ull__layout_plain = {.kind = ULL__LAYOUT_PLAIN, .block = 1, .name = "plain"};

static ull_status multiply_dims(const ull__shape *shape, uint32_t from, uint32_t to,
                                uint64_t *out) {
  uint64_t product = 1;
  for (uint32_t i = from; i < to; i++) {
    if (shape->dims[i].batch != 0 || shape->dims[i].constant < 0) {
      return ULL__FAIL(ULL_ERROR_INTERNAL, "a layout needs a bound shape");
    }
    ULL__TRY(ull__size_mul(product, (uint64_t)shape->dims[i].constant, "elements", &product));
  }
  *out = product;
  return ULL_OK;
}

static uint64_t block_of(const ull__layout *layout, uint64_t channels) {
  if (layout->kind == ULL__LAYOUT_BLOCKED) return layout->block;
  return layout->kind == ULL__LAYOUT_CHANNELS_LAST && channels > 0 ? channels : 1;
}

ull_status ull__layout_geometry(const ull__layout *layout, const ull__shape *shape,
                                ull__geometry *out) {
  if (layout->kind == ULL__LAYOUT_OPAQUE) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "layout %s is known to its library alone", layout->name);
  }
  uint32_t axis = shape->rank >= 2 ? 1 : 0;
  ull__geometry geometry = {.channels = 1};
  ULL__TRY(multiply_dims(shape, 0, axis, &geometry.batch));
  if (shape->rank > 0) ULL__TRY(multiply_dims(shape, axis, axis + 1, &geometry.channels));
  ULL__TRY(multiply_dims(shape, shape->rank > 0 ? axis + 1 : 0, shape->rank, &geometry.spatial));
  geometry.block = block_of(layout, geometry.channels);
  geometry.block_count = (geometry.channels + geometry.block - 1) / geometry.block;
  ULL__TRY(ull__size_mul(geometry.spatial, geometry.block, "elements", &geometry.block_stride));
  ULL__TRY(ull__size_mul(geometry.block_stride, geometry.block_count, "elements",
                         &geometry.batch_stride));
  geometry.spatial_stride = geometry.block;
  *out = geometry;
  return ULL_OK;
}

ull_status ull__layout_elements(const ull__layout *layout, ull_dtype dtype, const ull__shape *shape,
                                uint64_t *out) {
  uint64_t bytes;
  ULL__TRY(ull__layout_bytes(layout, dtype, shape, &bytes));
  *out = bytes / ull_dtype_bytes(dtype);
  return ULL_OK;
}

ull_status ull__layout_bytes(const ull__layout *layout, ull_dtype dtype, const ull__shape *shape,
                             uint64_t *out) {
  if (layout->kind == ULL__LAYOUT_OPAQUE) {
    *out = layout->opaque_bytes;
    return ULL_OK;
  }
  if (layout->kind != ULL__LAYOUT_BLOCKED) return ull__shape_bytes(shape, dtype, out);
  ull__geometry geometry;
  ULL__TRY(ull__layout_geometry(layout, shape, &geometry));
  uint64_t elements;
  ULL__TRY(ull__size_mul(geometry.batch, geometry.batch_stride, "elements", &elements));
  return ull__size_mul(elements, ull_dtype_bytes(dtype), "bytes", out);
}

bool ull__layout_is_padded(const ull__layout *layout, ull_dtype dtype, const ull__shape *shape) {
  uint64_t plain, here;
  return ull__shape_bytes(shape, dtype, &plain) == ULL_OK &&
         ull__layout_bytes(layout, dtype, shape, &here) == ULL_OK && here > plain;
}

/* ---- copies ---- */

static void copy_element(char *to, const char *from, uint32_t bytes) {
  switch (bytes) {
  case 4:
    memcpy(to, from, 4);
    break;
  case 8:
    memcpy(to, from, 8);
    break;
  case 2:
    memcpy(to, from, 2);
    break;
  default:
    *to = *from;
  }
}

/* Walks all elements; `to_plain` says which way. */
static void copy_elements(const ull__geometry *g, uint32_t bytes, const char *from, char *to,
                          bool to_plain) {
  for (uint64_t n = 0; n < g->batch; n++) {
    for (uint64_t c = 0; c < g->channels; c++) {
      uint64_t plain = (n * g->channels + c) * g->spatial;
      uint64_t here = n * g->batch_stride + c / g->block * g->block_stride + c % g->block;
      for (uint64_t s = 0; s < g->spatial; s++, plain++, here += g->spatial_stride) {
        copy_element(to + (to_plain ? plain : here) * bytes,
                     from + (to_plain ? here : plain) * bytes, bytes);
      }
    }
  }
}

/* Runs a provider's reorder on the calling thread, with a workspace of its own. */
static ull_status run_reorder(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                              const ull__layout *from_layout, const ull__layout *to_layout,
                              const void *from, void *to) {
  ull__kernel kernel = {0};
  ULL__TRY(provider->reorder(provider, dtype, shape, from_layout, to_layout, &kernel));
  if (kernel.prepare != NULL) ULL__TRY(kernel.prepare(kernel.constants));
  void *workspace = NULL;
  if (kernel.workspace_bytes > 0) {
    workspace = ull__alloc_aligned(64, kernel.workspace_bytes);
    if (workspace == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  }
  void *operands[] = {(void *)(uintptr_t)from, to, workspace};
  ull_status status = kernel.entry(&(ull__launch_frame){
      .operands = operands, .operand_count = 3, .constants = kernel.constants});
  ull__free(workspace);
  return status;
}

ull_status ull__layout_to_plain(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                                const ull__layout *layout, const void *from, void *to) {
  if (layout->kind == ULL__LAYOUT_OPAQUE) {
    return run_reorder(provider, dtype, shape, layout, &ull__layout_plain, from, to);
  }
  ull__geometry geometry;
  ULL__TRY(ull__layout_geometry(layout, shape, &geometry));
  copy_elements(&geometry, ull_dtype_bytes(dtype), from, to, true);
  return ULL_OK;
}

ull_status ull__layout_from_plain(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                                  const ull__layout *layout, const void *from, void *to) {
  if (layout->kind == ULL__LAYOUT_OPAQUE) {
    return run_reorder(provider, dtype, shape, &ull__layout_plain, layout, from, to);
  }
  ull__geometry geometry;
  ULL__TRY(ull__layout_geometry(layout, shape, &geometry));
  uint64_t bytes;
  ULL__TRY(ull__layout_bytes(layout, dtype, shape, &bytes));
  if (layout->kind == ULL__LAYOUT_BLOCKED && bytes > 0) memset(to, 0, bytes);
  copy_elements(&geometry, ull_dtype_bytes(dtype), from, to, false);
  return ULL_OK;
}
