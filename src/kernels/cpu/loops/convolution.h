/* Convolutions as matrix products over tiles of output positions: for the cases that oneDNN has no
 * generated code for.
 *
 * The positions of all samples are numbered through, t = (n * out_h + i) * out_w + j. For a tile of
 * them the windows of one group are gathered into a matrix [inputs * kernel_h * kernel_w, count],
 * which the weight, as it is stored in plain order, multiplies from the left. Activations lie in
 * any layout with a geometry. */
#ifndef ULL_KERNELS_CPU_LOOPS_CONVOLUTION_H
#define ULL_KERNELS_CPU_LOOPS_CONVOLUTION_H

#include "kernels/layout.h"

typedef struct ull__convolution {
  ull__geometry x, y;
  int64_t batch, groups, inputs, outputs; /* channels of one group */
  int64_t height, width, out_height, out_width;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t tile;              /* most positions gathered at once */
  uint64_t x_bytes, y_bytes; /* padding included */
  bool has_bias;             /* forward only: operand 2 */
  uint32_t operands;         /* inputs of the node, absent ones included */
} ull__convolution;

static inline int64_t ull__convolution_window(const ull__convolution *c) {
  return c->inputs * c->kernel_h * c->kernel_w;
}

#endif
