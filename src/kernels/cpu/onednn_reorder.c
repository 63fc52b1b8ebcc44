/* Reorders between any two layouts of float values. */
#include "base/error.h"
#include "kernels/cpu/onednn_internal.h"

/* Dimensions as the library is to see them: those of the OPAQUE side, which may have split one. */
static ull_status visible_dims(const ull__layout *from, const ull__layout *to,
                               const ull__shape *shape, uint32_t *rank, int64_t *dims) {
  const ull__layout *opaque = from->kind == ULL__LAYOUT_OPAQUE ? from : to;
  if (opaque->kind == ULL__LAYOUT_OPAQUE) {
    const ull__onednn_layout *known = opaque->descriptor;
    *rank = known->rank;
    for (uint32_t i = 0; i < known->rank; i++) dims[i] = known->dims[i];
    return ULL_OK;
  }
  *rank = shape->rank;
  for (uint32_t i = 0; i < shape->rank; i++) dims[i] = shape->dims[i].constant;
  return ULL_OK;
}

static ull_status describe(ull__cpu *cpu, ull_dtype dtype, const ull__shape *shape,
                           const ull__layout *from, const ull__layout *to,
                           dnnl_primitive_desc_t *out) {
  uint32_t rank;
  int64_t dims[ULL__MAX_RANK];
  ull__onednn_md from_md = {0}, to_md = {0};
  ULL__TRY(visible_dims(from, to, shape, &rank, dims));
  ull_status status = ull__onednn_md_of_layout(from, dtype, rank, dims, &from_md);
  if (status == ULL_OK) status = ull__onednn_md_of_layout(to, dtype, rank, dims, &to_md);
  if (status == ULL_OK) {
    ull__onednn_enter_team(cpu->onednn);
    status = ull__onednn_reorder_create(ull__onednn_engine(cpu->onednn), &from_md, &to_md, out);
  }
  ull__onednn_md_destroy(&from_md);
  ull__onednn_md_destroy(&to_md);
  return status;
}

ull_status ull__onednn_reorder(ull__cpu *cpu, ull_dtype dtype, const ull__shape *shape,
                               const ull__layout *from, const ull__layout *to,
                               ull__kernel *kernel) {
  static const ull__onednn_argument arguments[] = {{DNNL_ARG_FROM, 0, dnnl_query_src_md, 0},
                                                   {DNNL_ARG_TO, 1, dnnl_query_dst_md, 0}};
  dnnl_primitive_desc_t descriptor = NULL;
  uint64_t from_bytes, to_bytes;
  ULL__TRY(describe(cpu, dtype, shape, from, to, &descriptor));
  if (descriptor == NULL) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "oneDNN has no reorder from %s to %s", from->name,
                     to->name);
  }
  ULL__TRY(ull__onednn_kernel_create(cpu, "reorder", descriptor, arguments, 2, 2, kernel));
  ULL__TRY(ull__layout_bytes(from, dtype, shape, &from_bytes));
  ULL__TRY(ull__layout_bytes(to, dtype, shape, &to_bytes));
  kernel->seconds = ull__cpu_seconds(cpu, 0, (double)from_bytes + (double)to_bytes, 0.5);
  return ULL_OK;
}
