/* Walking over rows of channels in strips: up to four vectors of neighbouring channels, or, where
 * channels are not neighbours, one channel's runs. */
#ifndef ULL_KERNELS_CPU_LOOPS_CHANNEL_ROWS_H
#define ULL_KERNELS_CPU_LOOPS_CHANNEL_ROWS_H

#include "kernels/cpu/loops/channels.h"
#include "kernels/cpu/loops/vector.h"

/* Rows, or elements of a run, that are summed in float32 before they go to double. */
enum { CHUNK_ROWS = 64, CHUNK_RUN = 64 * LANES, STRIP_VECTORS = 4 };

/* Lanes [lane, lane + lanes) of one block, and the rows [begin, end) of one segment. */
typedef struct strip {
  int64_t block, lane, lanes, channel; /* first channel, padding counted */
  int64_t segment, begin, end;
} strip;

INLINE int64_t strip_width(const ull__channel_rows *rows) {
  if (rows->block > 2 * LANES) return STRIP_VECTORS * LANES;
  return rows->block > LANES ? 2 * LANES : LANES;
}

INLINE int64_t strips_of_block(const ull__channel_rows *rows) {
  return divide_up(rows->block, strip_width(rows));
}

INLINE int64_t strip_count(const ull__channel_rows *rows) {
  return strips_of_block(rows) * rows->blocks * rows->segments;
}

/* Lines that are cut into segments: rows of lanes, or samples of runs. */
INLINE int64_t line_count(const ull__channel_rows *rows) {
  return rows->block > 1 ? rows->batch * rows->positions : rows->batch;
}

INLINE strip strip_at(const ull__channel_rows *rows, int64_t index) {
  int64_t in_block = strips_of_block(rows), width = strip_width(rows), lines = line_count(rows);
  int64_t lane = index % in_block * width, block = index / in_block % rows->blocks;
  int64_t segment = index / in_block / rows->blocks, per = divide_up(lines, rows->segments);
  return (strip){.block = block,
                 .lane = lane,
                 .lanes = smaller(width, rows->block - lane),
                 .channel = block * rows->block + lane,
                 .segment = segment,
                 .begin = smaller(segment * per, lines),
                 .end = smaller((segment + 1) * per, lines)};
}

/* Elements from the start of a value to row `r` of the strip's lanes. */
INLINE int64_t row_offset(const ull__channel_rows *rows, const strip *s, int64_t r) {
  return r / rows->positions * rows->batch_stride + s->block * rows->block_stride +
         r % rows->positions * rows->block + s->lane;
}

/* Rows from `r` on that lie one after the other, at most `most`. */
INLINE int64_t rows_together(const ull__channel_rows *rows, const strip *s, int64_t r,
                             int64_t most) {
  return smaller(smaller(rows->positions - r % rows->positions, s->end - r), most);
}

INLINE bool enough_rows(const ull__channel_rows *rows) {
  return rows->batch * rows->positions * rows->blocks * rows->block >= ENOUGH_ELEMENTS;
}

INLINE double sum_vector(vfloat x) {
  return sum_lanes(to_double(x));
}

#endif
