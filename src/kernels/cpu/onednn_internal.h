/* Between the files that use oneDNN. */
#ifndef ULL_KERNELS_CPU_ONEDNN_INTERNAL_H
#define ULL_KERNELS_CPU_ONEDNN_INTERNAL_H

#include "base/vector.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_shim.h"

/* What the `descriptor` of an OPAQUE layout made by this folder points to. Weights of grouped
 * convolutions have a dimension more than their value. */
typedef struct ull__onednn_layout {
  ull__onednn_md md;
  uint32_t rank;
  int64_t dims[ULL__MAX_RANK];
  const ull__layout *layout; /* whose descriptor this is */
} ull__onednn_layout;

/* How a value lies for the library. `rank` and `dims` are those the library is to see. */
ull_status ull__onednn_md_of_layout(const ull__layout *layout, ull_dtype dtype, uint32_t rank,
                                    const int64_t *dims, ull__onednn_md *out);
/* The interned layout of a descriptor that a primitive settled on. */
ull_status ull__onednn_layout_of_md(ull__cpu *cpu, ull_dtype dtype, uint32_t rank,
                                    const int64_t *dims, const ull__onednn_md *md,
                                    const ull__layout **out);

/* An argument of a primitive: DNNL_ARG_..., the operand of the launch that holds it, and the query
 * for its descriptor. */
typedef struct ull__onednn_argument {
  int argument;
  uint32_t operand;
  dnnl_query_t query;
  int query_index; /* a bias is the second of the weights */
} ull__onednn_argument;

/* Makes the kernel of a descriptor, which it takes over, failing or not: entry, constants, prepare,
 * workspace_bytes (operand `workspace_operand`), implementation, library. `kind` says what operands
 * and implementation leave open: "forward s2,2 p1,1 d1,1". */
ull_status ull__onednn_kernel_create(ull__cpu *cpu, const char *kind,
                                     dnnl_primitive_desc_t descriptor,
                                     const ull__onednn_argument *arguments, uint32_t count,
                                     uint32_t workspace_operand, ull__kernel *kernel);

/* To be called before the library is asked for anything whose answer depends on the team's size. */
void ull__onednn_enter_team(const ull__onednn *onednn);
dnnl_engine_t ull__onednn_engine(const ull__onednn *onednn);

/* Every name's kernel; zero-initialise. */
typedef struct ull__library_kernels {
  ULL__VECTOR(ull__library_kernel *) items;
  ull__text_map index;
} ull__library_kernels;

ull_status ull__library_kernel_intern(ull__cpu *cpu, ull__library_kernels *kernels,
                                      const char *name, ull__library_kernel **out);
void ull__library_kernels_free(ull__library_kernels *kernels);

/* Appends " 64x32x3x3:ABcd16b16a". */
void ull__onednn_add_name(const ull__onednn_md *md, char *text, size_t size);

/* End what ull__library_heap_begin began: count, and fail where more was taken than is allowed. */
ull_status ull__library_kernel_prepared(ull__library_kernel *kernel);
ull_status ull__library_kernel_launched(ull__library_kernel *kernel);

/* Code generated for this instruction set, as opposed to reference loops and convolutions through
 * the old matrix product. */
bool ull__onednn_is_generated(const char *implementation);

/* Fraction of the matrix-product rate that an implementation reaches, by its name. */
double ull__onednn_efficiency(const char *implementation, ull__isa isa);

#endif
