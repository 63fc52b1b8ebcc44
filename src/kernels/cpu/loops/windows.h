/* Windows of a pooling along one axis: which elements an output reads. */
#ifndef ULL_KERNELS_CPU_LOOPS_WINDOWS_H
#define ULL_KERNELS_CPU_LOOPS_WINDOWS_H

#include "kernels/cpu/loops/pooling.h"
#include "kernels/cpu/loops/vector.h"

typedef struct range {
  int64_t begin, end;
} range;

/* Positions of the window of output `o` that are inside the input. */
INLINE range window_of(int64_t o, int64_t stride, int64_t pad, int64_t kernel, int64_t size) {
  int64_t first = o * stride - pad;
  return (range){larger(first, 0), smaller(first + kernel, size)};
}

INLINE bool enough_planes(const ull__pooling *p) {
  return p->planes * p->block * p->height * p->width >= ENOUGH_ELEMENTS;
}

#endif
