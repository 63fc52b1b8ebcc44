/* Each call has its two spellings side by side. */
#include "kernels/cpu/onednn_shim.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

#if DNNL_VERSION_MAJOR >= 3
#define DESC(md) ((md)->desc)
#else
#define DESC(md) (&(md)->desc)
#endif

ull_status ull__onednn_check(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return ULL_OK;
  if (status == dnnl_out_of_memory) return ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY, "oneDNN, %s", what);
  return ULL__FAIL(ULL_ERROR_INTERNAL, "oneDNN, %s: status %d", what, (int)status);
}

void ull__onednn_cap_isa(ull__isa isa) {
  static const dnnl_cpu_isa_t caps[ULL__ISA_COUNT] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2,
                                                      dnnl_cpu_isa_avx512_core_bf16};
  (void)dnnl_set_max_cpu_isa(caps[isa]);
}

/* ---- memory descriptors ---- */

static ull_status data_type(ull_dtype dtype, dnnl_data_type_t *out) {
  switch (dtype) {
  case ULL_FLOAT32:
    *out = dnnl_f32;
    return ULL_OK;
  case ULL_FLOAT16:
    *out = dnnl_f16;
    return ULL_OK;
  case ULL_BFLOAT16:
    *out = dnnl_bf16;
    return ULL_OK;
  case ULL_INT32:
    *out = dnnl_s32;
    return ULL_OK;
  case ULL_UINT8:
    *out = dnnl_u8;
    return ULL_OK;
  default:
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "oneDNN has no %s", ull_dtype_name(dtype));
  }
}

static ull_status copy_dims(uint32_t rank, const int64_t *from, dnnl_dims_t to) {
  if (rank == 0 || rank > DNNL_MAX_NDIMS) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "oneDNN has no values of %u dimensions", rank);
  }
  for (uint32_t i = 0; i < rank; i++) to[i] = from[i];
  return ULL_OK;
}

static bool is_present(const ull__onednn_md *md) {
#if DNNL_VERSION_MAJOR >= 3
  return md != NULL && md->desc != NULL;
#else
  return md != NULL && md->present;
#endif
}

ull_status ull__onednn_md_create(uint32_t rank, const int64_t *dims, ull_dtype dtype,
                                 dnnl_format_tag_t tag, ull__onednn_md *out) {
  dnnl_data_type_t type;
  dnnl_dims_t sizes;
  memset(out, 0, sizeof *out);
  ULL__TRY(data_type(dtype, &type));
  ULL__TRY(copy_dims(rank, dims, sizes));
#if DNNL_VERSION_MAJOR >= 3
  return ull__onednn_check(
      dnnl_memory_desc_create_with_tag(&out->desc, (int)rank, sizes, type, tag), "a descriptor");
#else
  out->present = true;
  return ull__onednn_check(dnnl_memory_desc_init_by_tag(&out->desc, (int)rank, sizes, type, tag),
                           "a descriptor");
#endif
}

ull_status ull__onednn_md_create_strided(uint32_t rank, const int64_t *dims, ull_dtype dtype,
                                         const int64_t *strides, ull__onednn_md *out) {
  dnnl_data_type_t type;
  dnnl_dims_t sizes, steps;
  memset(out, 0, sizeof *out);
  ULL__TRY(data_type(dtype, &type));
  ULL__TRY(copy_dims(rank, dims, sizes));
  ULL__TRY(copy_dims(rank, strides, steps));
#if DNNL_VERSION_MAJOR >= 3
  return ull__onednn_check(
      dnnl_memory_desc_create_with_strides(&out->desc, (int)rank, sizes, type, steps),
      "a descriptor");
#else
  out->present = true;
  return ull__onednn_check(
      dnnl_memory_desc_init_by_strides(&out->desc, (int)rank, sizes, type, steps), "a descriptor");
#endif
}

ull_status ull__onednn_md_clone(const ull__onednn_md *md, ull__onednn_md *out) {
#if DNNL_VERSION_MAJOR >= 3
  out->desc = NULL;
  return ull__onednn_check(dnnl_memory_desc_clone(&out->desc, md->desc), "a descriptor");
#else
  *out = *md;
  return ULL_OK;
#endif
}

void ull__onednn_md_destroy(ull__onednn_md *md) {
#if DNNL_VERSION_MAJOR >= 3
  if (md->desc != NULL) (void)dnnl_memory_desc_destroy(md->desc);
#endif
  memset(md, 0, sizeof *md);
}

uint64_t ull__onednn_md_bytes(const ull__onednn_md *md) {
  return is_present(md) ? (uint64_t)dnnl_memory_desc_get_size(DESC(md)) : 0;
}

uint32_t ull__onednn_md_dims(const ull__onednn_md *md, int64_t dims[DNNL_MAX_NDIMS]) {
  if (!is_present(md)) return 0;
#if DNNL_VERSION_MAJOR >= 3
  dnnl_dims_t *found = NULL;
  int32_t rank = 0;
  bool known = dnnl_memory_desc_query(md->desc, dnnl_query_ndims_s32, &rank) == dnnl_success &&
               dnnl_memory_desc_query(md->desc, dnnl_query_dims, &found) == dnnl_success;
  if (!known) return 0;
  memcpy(dims, *found, (size_t)rank * sizeof *dims);
  return (uint32_t)rank;
#else
  memcpy(dims, md->desc.dims, (size_t)md->desc.ndims * sizeof *dims);
  return (uint32_t)md->desc.ndims;
#endif
}

typedef struct blocking {
  int rank, inner_count;
  const int64_t *padded_dims, *strides, *inner_blocks, *inner_indices;
} blocking;

static bool read_blocking(const ull__onednn_md *md, blocking *out) {
#if DNNL_VERSION_MAJOR >= 3
  dnnl_format_kind_t kind = dnnl_format_kind_undef;
  dnnl_dims_t *padded = NULL, *strides = NULL, *blocks = NULL, *indices = NULL;
  int32_t rank = 0, count = 0;
  bool known =
      dnnl_memory_desc_query(md->desc, dnnl_query_format_kind, &kind) == dnnl_success &&
      kind == dnnl_blocked &&
      dnnl_memory_desc_query(md->desc, dnnl_query_ndims_s32, &rank) == dnnl_success &&
      dnnl_memory_desc_query(md->desc, dnnl_query_strides, &strides) == dnnl_success &&
      dnnl_memory_desc_query(md->desc, dnnl_query_inner_nblks_s32, &count) == dnnl_success &&
      dnnl_memory_desc_query(md->desc, dnnl_query_inner_blks, &blocks) == dnnl_success &&
      dnnl_memory_desc_query(md->desc, dnnl_query_inner_idxs, &indices) == dnnl_success;
  if (!known) return false;
  *out = (blocking){rank, count, *padded, *strides, *blocks, *indices};
  return true;
#else
  const dnnl_blocking_desc_t *desc = &md->desc.format_desc.blocking;
  *out = (blocking){md->desc.ndims, desc->inner_nblks, md->desc.padded_dims,
                    desc->strides,  desc->inner_blks,  desc->inner_idxs};
  return md->desc.format_kind == dnnl_blocked;
#endif
}

static bool dimension_is_blocked(const blocking *b, int dimension) {
  for (int i = 0; i < b->inner_count; i++) {
    if (b->inner_indices[i] == dimension) return true;
  }
  return false;
}

/* Steps that a dimension's stride is taken. */
static int64_t outer_extent(const blocking *b, int dimension) {
  int64_t extent = b->padded_dims[dimension];
  for (int i = 0; i < b->inner_count; i++) {
    if (b->inner_indices[i] == dimension) extent /= b->inner_blocks[i];
  }
  return extent;
}

bool ull__onednn_md_same_place(const ull__onednn_md *a, const ull__onednn_md *b) {
  blocking x, y;
  if (!read_blocking(a, &x) || !read_blocking(b, &y))
    return dnnl_memory_desc_equal(DESC(a), DESC(b));
  if (x.rank != y.rank || x.inner_count != y.inner_count) return false;
  for (int i = 0; i < x.inner_count; i++) {
    if (x.inner_blocks[i] != y.inner_blocks[i] || x.inner_indices[i] != y.inner_indices[i]) {
      return false;
    }
  }
  for (int i = 0; i < x.rank; i++) {
    if (x.padded_dims[i] != y.padded_dims[i]) return false;
    if (outer_extent(&x, i) > 1 && x.strides[i] != y.strides[i]) return false;
  }
  return true;
}

/* Dimensions from the largest stride to the smallest; equal ones keep their order. */
static void order_dimensions(const blocking *b, int *order) {
  for (int i = 0; i < b->rank; i++) {
    int at = i;
    for (; at > 0 && b->strides[order[at - 1]] < b->strides[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
}

void ull__onednn_md_name(const ull__onednn_md *md, char *text, size_t size) {
  blocking b;
  int order[DNNL_MAX_NDIMS];
  size_t used = 0;
  if (!read_blocking(md, &b)) {
    snprintf(text, size, "packed%zu", (size_t)ull__onednn_md_bytes(md));
    return;
  }
  order_dimensions(&b, order);
  for (int i = 0; i < b.rank && used + 2 < size; i++) {
    text[used++] = (char)((dimension_is_blocked(&b, order[i]) ? 'A' : 'a') + order[i]);
  }
  text[used] = 0;
  for (int i = 0; i < b.inner_count && used + 8 < size; i++) {
    used += (size_t)snprintf(text + used, size - used, "%d%c", (int)b.inner_blocks[i],
                             (char)('a' + b.inner_indices[i]));
  }
}

/* ---- primitive descriptors ---- */

/* Scratch memory comes from the caller, and float32 means float32. */
static ull_status create_attributes(dnnl_primitive_attr_t *out) {
  *out = NULL;
  ULL__TRY(ull__onednn_check(dnnl_primitive_attr_create(out), "attributes"));
  dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
#if DNNL_VERSION_MAJOR >= 3 || DNNL_VERSION_MINOR >= 6
  if (status == dnnl_success) {
    status = dnnl_primitive_attr_set_fpmath_mode(*out, dnnl_fpmath_mode_strict);
  }
#endif
  if (status == dnnl_success) return ULL_OK;
  (void)dnnl_primitive_attr_destroy(*out);
  return ull__onednn_check(status, "attributes");
}

/* "Not implemented" is an answer. */
static ull_status check_created(dnnl_status_t status, const char *what,
                                dnnl_primitive_desc_t *out) {
  if (status != dnnl_success) *out = NULL;
  if (status == dnnl_unimplemented || status == dnnl_invalid_arguments) return ULL_OK;
  return ull__onednn_check(status, what);
}

typedef struct window {
  dnnl_dims_t strides, dilations, pads, pads_after;
} window;

static window convolution_window(const ull__onednn_convolution *c) {
  window w = {{0}, {0}, {0}, {0}};
  for (int i = 0; i < 2; i++) {
    w.strides[i] = c->strides[i];
    w.dilations[i] = c->dilations[i] - 1;
    w.pads[i] = c->pads[i];
    w.pads_after[i] = c->pads_after[i];
  }
  return w;
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t create_pass(dnnl_engine_t engine, const ull__onednn_convolution *c,
                                 ull__onednn_pass pass, dnnl_primitive_attr_t attributes,
                                 const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
  window w = convolution_window(c);
  const_dnnl_memory_desc_t bias = c->bias != NULL ? c->bias->desc : NULL;
  if (pass == ULL__ONEDNN_FORWARD) {
    return dnnl_convolution_forward_primitive_desc_create(
        out, engine, dnnl_forward_training, dnnl_convolution_direct, c->src->desc, c->weights->desc,
        bias, c->dst->desc, w.strides, w.dilations, w.pads, w.pads_after, attributes);
  }
  if (pass == ULL__ONEDNN_BACKWARD_DATA) {
    return dnnl_convolution_backward_data_primitive_desc_create(
        out, engine, dnnl_convolution_direct, c->src->desc, c->weights->desc, c->dst->desc,
        w.strides, w.dilations, w.pads, w.pads_after, hint, attributes);
  }
  return dnnl_convolution_backward_weights_primitive_desc_create(
      out, engine, dnnl_convolution_direct, c->src->desc, c->weights->desc, bias, c->dst->desc,
      w.strides, w.dilations, w.pads, w.pads_after, hint, attributes);
}

static dnnl_status_t create_matmul(dnnl_engine_t engine, const ull__onednn_md *a,
                                   const ull__onednn_md *b, const ull__onednn_md *bias,
                                   const ull__onednn_md *c, dnnl_primitive_attr_t attributes,
                                   dnnl_primitive_desc_t *out) {
  return dnnl_matmul_primitive_desc_create(out, engine, a->desc, b->desc,
                                           bias != NULL ? bias->desc : NULL, c->desc, attributes);
}

#else

static dnnl_status_t create_pass(dnnl_engine_t engine, const ull__onednn_convolution *c,
                                 ull__onednn_pass pass, dnnl_primitive_attr_t attributes,
                                 const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
  window w = convolution_window(c);
  const dnnl_memory_desc_t *bias = c->bias != NULL ? &c->bias->desc : NULL;
  dnnl_convolution_desc_t operation;
  dnnl_status_t status;
  if (pass == ULL__ONEDNN_FORWARD) {
    status = dnnl_dilated_convolution_forward_desc_init(
        &operation, dnnl_forward_training, dnnl_convolution_direct, &c->src->desc,
        &c->weights->desc, bias, &c->dst->desc, w.strides, w.dilations, w.pads, w.pads_after);
  } else if (pass == ULL__ONEDNN_BACKWARD_DATA) {
    status = dnnl_dilated_convolution_backward_data_desc_init(
        &operation, dnnl_convolution_direct, &c->src->desc, &c->weights->desc, &c->dst->desc,
        w.strides, w.dilations, w.pads, w.pads_after);
  } else {
    status = dnnl_dilated_convolution_backward_weights_desc_init(
        &operation, dnnl_convolution_direct, &c->src->desc, &c->weights->desc, bias, &c->dst->desc,
        w.strides, w.dilations, w.pads, w.pads_after);
  }
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, &operation, attributes, engine, hint);
}

static dnnl_status_t create_matmul(dnnl_engine_t engine, const ull__onednn_md *a,
                                   const ull__onednn_md *b, const ull__onednn_md *bias,
                                   const ull__onednn_md *c, dnnl_primitive_attr_t attributes,
                                   dnnl_primitive_desc_t *out) {
  dnnl_matmul_desc_t operation;
  dnnl_status_t status = dnnl_matmul_desc_init(&operation, &a->desc, &b->desc,
                                               bias != NULL ? &bias->desc : NULL, &c->desc);
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL);
}

#endif

ull_status ull__onednn_convolution_create(dnnl_engine_t engine,
                                          const ull__onednn_convolution *convolution,
                                          dnnl_primitive_desc_t *out) {
  dnnl_primitive_attr_t attributes;
  dnnl_primitive_desc_t hint = NULL;
  *out = NULL;
  ULL__TRY(create_attributes(&attributes));
  dnnl_status_t status = dnnl_success;
  if (convolution->pass != ULL__ONEDNN_FORWARD) {
    status = create_pass(engine, convolution, ULL__ONEDNN_FORWARD, attributes, NULL, &hint);
  }
  if (status == dnnl_success) {
    status = create_pass(engine, convolution, convolution->pass, attributes, hint, out);
  }
  if (hint != NULL) (void)dnnl_primitive_desc_destroy(hint);
  (void)dnnl_primitive_attr_destroy(attributes);
  return check_created(status, "a convolution", out);
}

ull_status ull__onednn_matmul_create(dnnl_engine_t engine, const ull__onednn_md *a,
                                     const ull__onednn_md *b, const ull__onednn_md *bias,
                                     const ull__onednn_md *c, dnnl_primitive_desc_t *out) {
  dnnl_primitive_attr_t attributes;
  *out = NULL;
  ULL__TRY(create_attributes(&attributes));
  dnnl_status_t status = create_matmul(engine, a, b, bias, c, attributes, out);
  (void)dnnl_primitive_attr_destroy(attributes);
  return check_created(status, "a matrix product", out);
}

ull_status ull__onednn_reorder_create(dnnl_engine_t engine, const ull__onednn_md *from,
                                      const ull__onednn_md *to, dnnl_primitive_desc_t *out) {
  dnnl_primitive_attr_t attributes;
  *out = NULL;
  ULL__TRY(create_attributes(&attributes));
  dnnl_status_t status =
      dnnl_reorder_primitive_desc_create(out, DESC(from), engine, DESC(to), engine, attributes);
  (void)dnnl_primitive_attr_destroy(attributes);
  return check_created(status, "a reorder", out);
}

/* ---- queries ---- */

ull_status ull__onednn_query_md(const_dnnl_primitive_desc_t descriptor, dnnl_query_t what,
                                int index, ull__onednn_md *out) {
  memset(out, 0, sizeof *out);
#if DNNL_VERSION_MAJOR >= 3
  const_dnnl_memory_desc_t found = dnnl_primitive_desc_query_md(descriptor, what, index);
  if (found == NULL) return ULL_OK;
  return ull__onednn_check(dnnl_memory_desc_clone(&out->desc, found), "a descriptor");
#else
  const dnnl_memory_desc_t *found = dnnl_primitive_desc_query_md(descriptor, what, index);
  if (found == NULL) return ULL_OK;
  *out = (ull__onednn_md){.desc = *found, .present = true};
  return ULL_OK;
#endif
}

const char *ull__onednn_implementation(const_dnnl_primitive_desc_t descriptor) {
  const char *name = NULL;
  dnnl_status_t status =
      dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, (void *)&name);
  return status == dnnl_success && name != NULL ? name : "unknown";
}

ull_status ull__onednn_memory_create(dnnl_engine_t engine, const ull__onednn_md *md,
                                     dnnl_memory_t *out) {
  *out = NULL;
  return ull__onednn_check(dnnl_memory_create(out, DESC(md), engine, DNNL_MEMORY_NONE), "memory");
}
