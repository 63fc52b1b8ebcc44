/* Values seen as rows of channels, for sums over everything but the channel.
 *
 * block > 1: row r = (n, p) of channel block q holds `block` channels side by side at
 * n * batch_stride + q * block_stride + p * block. block == 1: each channel q has a run of
 * `positions` elements at n * batch_stride + q * block_stride. A matrix [rows, channels] has
 * batch 1, one block of all channels, and `rows` positions. */
#ifndef ULL_KERNELS_CPU_LOOPS_CHANNELS_H
#define ULL_KERNELS_CPU_LOOPS_CHANNELS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__channel_rows {
  int64_t channels, block, blocks, batch, positions, batch_stride, block_stride;
  int64_t segments; /* parts of the rows that are summed apart, a function of the shape */
} ull__channel_rows;

typedef struct ull__batch_norm {
  ull__channel_rows rows;
  double eps, momentum;
  bool relu;
  uint32_t operands; /* inputs of the node */
} ull__batch_norm;

static inline int64_t ull__padded_channels(const ull__channel_rows *rows) {
  return rows->block * rows->blocks;
}

/* Partial sums [segments][padded channels] of two numbers in double, and four rows of floats. */
static inline int64_t ull__channel_scratch_bytes(const ull__channel_rows *rows) {
  return ull__padded_channels(rows) * (rows->segments * 16 + 16);
}

#endif
