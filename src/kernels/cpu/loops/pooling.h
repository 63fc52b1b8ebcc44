/* Constants of pooling launches. A plane is one sample's block of `block` channels:
 * [height, width, block] elements one after the other. */
#ifndef ULL_KERNELS_CPU_LOOPS_POOLING_H
#define ULL_KERNELS_CPU_LOOPS_POOLING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__pooling {
  int64_t planes, block;
  int64_t height, width, out_height, out_width;
  bool divided; /* the windows are out_height by out_width even parts of the image: no kernel */
  int64_t kernel_height, kernel_width, stride_height, stride_width, pad_height, pad_width;
  bool count_padding;
} ull__pooling;

/* Means over all positions: the small side [batch, channels] is plain. */
typedef struct ull__global_pooling {
  int64_t batch, channels, blocks, block, positions;
} ull__global_pooling;

#endif
