/* Reorders: through oneDNN where it knows both layouts, else our own loop. */
#ifndef ULL_KERNELS_CPU_REORDER_H
#define ULL_KERNELS_CPU_REORDER_H

#include "kernels/cpu/family.h"

ull_status ull__cpu_reorder(ull__cpu *cpu, ull_dtype dtype, const ull__shape *shape,
                            const ull__layout *from, const ull__layout *to, ull__kernel *kernel);

#endif
