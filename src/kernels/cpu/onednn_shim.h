/* oneDNN 2.x and 3.x under one set of calls: every difference between the versions is here.
 *
 * 2.x passes memory descriptors as structures and makes primitive descriptors from operation
 * descriptors; 3.x has handles and one call for each primitive. All calls return a status with a
 * record that names what was asked. */
#ifndef ULL_KERNELS_CPU_ONEDNN_SHIM_H
#define ULL_KERNELS_CPU_ONEDNN_SHIM_H

#include <oneapi/dnnl/dnnl.h>

#include "base/isa.h"
#include "ullage/dtype.h"

#if DNNL_VERSION_MAJOR < 2
#error "oneDNN 2.x or 3.x is needed"
#endif

/* A memory descriptor: which elements lie where. Zeroed = none. Must be destroyed. */
typedef struct ull__onednn_md {
#if DNNL_VERSION_MAJOR >= 3
  dnnl_memory_desc_t desc;
#else
  dnnl_memory_desc_t desc;
  bool present;
#endif
} ull__onednn_md;

ull_status ull__onednn_md_create(uint32_t rank, const int64_t *dims, ull_dtype dtype,
                                 dnnl_format_tag_t tag, ull__onednn_md *out);
ull_status ull__onednn_md_create_strided(uint32_t rank, const int64_t *dims, ull_dtype dtype,
                                         const int64_t *strides, ull__onednn_md *out);
ull_status ull__onednn_md_clone(const ull__onednn_md *md, ull__onednn_md *out);
void ull__onednn_md_destroy(ull__onednn_md *md);
/* Whether every element lies at the same place: strides of dimensions that are one block or one
 * element do not count. */
bool ull__onednn_md_same_place(const ull__onednn_md *a, const ull__onednn_md *b);
uint64_t ull__onednn_md_bytes(const ull__onednn_md *md);

/* Logical dimensions; returns their number. */
uint32_t ull__onednn_md_dims(const ull__onednn_md *md, int64_t dims[DNNL_MAX_NDIMS]);

/* The vendor's spelling, "ABcd16b16a": dimensions from the slowest, blocked ones in capitals, then
 * the blocks. */
void ull__onednn_md_name(const ull__onednn_md *md, char *text, size_t size);

typedef enum ull__onednn_pass {
  ULL__ONEDNN_FORWARD,
  ULL__ONEDNN_BACKWARD_DATA,
  ULL__ONEDNN_BACKWARD_WEIGHTS,
} ull__onednn_pass;

/* The descriptors are src, weights and dst, or their gradients where the pass makes those. */
typedef struct ull__onednn_convolution {
  ull__onednn_pass pass;
  const ull__onednn_md *src, *weights, *bias, *dst; /* bias NULL = none */
  int64_t strides[2], dilations[2], pads[2];        /* dilation 1 = dense, PyTorch's counting */
  int64_t pads_after[2];
} ull__onednn_convolution;

/* `*out` stays NULL, with ULL_OK, where the library has no implementation. */
ull_status ull__onednn_convolution_create(dnnl_engine_t engine,
                                          const ull__onednn_convolution *convolution,
                                          dnnl_primitive_desc_t *out);
ull_status ull__onednn_matmul_create(dnnl_engine_t engine, const ull__onednn_md *a,
                                     const ull__onednn_md *b, const ull__onednn_md *bias,
                                     const ull__onednn_md *c, dnnl_primitive_desc_t *out);
ull_status ull__onednn_reorder_create(dnnl_engine_t engine, const ull__onednn_md *from,
                                      const ull__onednn_md *to, dnnl_primitive_desc_t *out);

/* The descriptor the primitive settled on, as a clone. */
ull_status ull__onednn_query_md(const_dnnl_primitive_desc_t descriptor, dnnl_query_t what,
                                int index, ull__onednn_md *out);
/* "jit_1x1:avx512_core". */
const char *ull__onednn_implementation(const_dnnl_primitive_desc_t descriptor);

ull_status ull__onednn_memory_create(dnnl_engine_t engine, const ull__onednn_md *md,
                                     dnnl_memory_t *out);

/* Caps the library's instruction set; before its first use, later calls change nothing. */
void ull__onednn_cap_isa(ull__isa isa);

/* A record for a status of the library's; ULL_OK for success. */
ull_status ull__onednn_check(dnnl_status_t status, const char *what);

#endif
