/* oneDNN as the cpu provider sees it: the library's state and kernels made of its primitives. */
#ifndef ULL_KERNELS_CPU_ONEDNN_H
#define ULL_KERNELS_CPU_ONEDNN_H

#include "kernels/cpu/family.h"

/* Caps the instruction set and opens an engine and a stream. NULL is allowed in destroy. */
ull_status ull__onednn_create(ull__isa isa, uint32_t threads, ull__onednn **out);
void ull__onednn_destroy(ull__onednn *onednn);

/* "onednn 2.6.3". */
const char *ull__onednn_version(void);

/* Any two layouts of float values, OPAQUE ones included. */
ull_status ull__onednn_reorder(ull__cpu *cpu, ull_dtype dtype, const ull__shape *shape,
                               const ull__layout *from, const ull__layout *to, ull__kernel *kernel);

#endif
