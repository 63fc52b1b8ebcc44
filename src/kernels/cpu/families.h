/* The families of CPU kernels, one line each: XX(NAME) stands for the table ull__cpu_rules_NAME.
 * Where two answer equally well the earlier is taken. */
#ifndef ULL_KERNELS_CPU_FAMILIES_H
#define ULL_KERNELS_CPU_FAMILIES_H

#include "kernels/cpu/family.h"

/* clang-format off */
#define ULL__CPU_FAMILIES(XX) \
  XX(view)                    \
  XX(onednn_convolution)      \
  XX(convolution)             \
  XX(onednn_matmul)           \
  XX(elementwise)             \
  XX(linear)                  \
  XX(normalization)           \
  XX(pooling)                 \
  XX(loss)                    \
  XX(optimizer)               \
  XX(embedding)               \
  XX(attention)               \
  /* end */
/* clang-format on */

#define XX(name) extern const ull__cpu_rule ull__cpu_rules_##name[];
ULL__CPU_FAMILIES(XX)
#undef XX

#endif
