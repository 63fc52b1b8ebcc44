/* Mean and variance of each channel in one pass over memory: every chunk of rows is read twice
 * while it is in the first-level cache, for its mean and for its squares about that mean; chunks
 * are joined in double by the formula of Chan, Golub and LeVeque ("Updating formulae and a pairwise
 * algorithm for computing sample variances", 1979). Segments are joined the same way, in order. */
#include <math.h>

#include "base/error.h"
#include "kernels/cpu/loops/channel_rows.h"

typedef struct moments {
  double mean, squares; /* squares: sum of squared distances from the mean */
} moments;

/* Joins a part of `b_count` elements to one of `a_count`. */
INLINE void join_moments(moments *a, double a_count, moments b, double b_count) {
  double share = b_count / (a_count + b_count), distance = b.mean - a->mean;
  a->mean += distance * share;
  a->squares += b.squares + distance * distance * a_count * share;
}

/* ---- lanes ---- */

typedef struct lane_chunk {
  const float *first;
  int64_t rows, stride, lanes;
} lane_chunk;

/* Vector `v` of row `r`, zeros beyond the lanes that there are. */
INLINE vfloat load_lanes(const lane_chunk *c, int64_t r, int v) {
  int64_t left = c->lanes - v * LANES;
  return left > 0 ? load_some(c->first + r * c->stride + v * LANES, left) : (vfloat){0};
}

/* Rows go to the sums in turn, so that one addition need not wait for the one before. */
enum { SUMS = 4 };

INLINE vfloat chunk_mean(const lane_chunk *c, int v) {
  vfloat sums[SUMS] = {{0}};
  int64_t r = 0;
  for (; r + SUMS <= c->rows; r += SUMS) {
    UNROLL(4) for (int k = 0; k < SUMS; k++) sums[k] += load_lanes(c, r + k, v);
  }
  for (; r < c->rows; r++) sums[0] += load_lanes(c, r, v);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) / splat((float)c->rows);
}

INLINE vfloat chunk_squares(const lane_chunk *c, int v, vfloat mean) {
  vfloat sums[SUMS] = {{0}};
  int64_t r = 0;
  for (; r + SUMS <= c->rows; r += SUMS) {
    UNROLL(4) for (int k = 0; k < SUMS; k++) {
      vfloat distance = load_lanes(c, r + k, v) - mean;
      sums[k] = multiply_add(distance, distance, sums[k]);
    }
  }
  for (; r < c->rows; r++) {
    vfloat distance = load_lanes(c, r, v) - mean;
    sums[0] = multiply_add(distance, distance, sums[0]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* A vector of moments. */
typedef struct lane_moments {
  vdouble mean, squares;
} lane_moments;

/* join_moments for lanes that have seen equally many rows. */
INLINE void join_lanes(lane_moments *a, double a_count, vfloat mean, vfloat squares,
                       double b_count) {
  double share = b_count / (a_count + b_count);
  vdouble distance = to_double(mean) - a->mean;
  a->mean += distance * share;
  a->squares += to_double(squares) + distance * distance * a_count * share;
}

INLINE void sum_lanes_of(const ull__channel_rows *rows, const float *x, const strip *s, int vectors,
                         moments *out) {
  lane_moments lanes[STRIP_VECTORS] = {{{0}, {0}}};
  int64_t count = 0;
  for (int64_t r = s->begin; r < s->end;) {
    lane_chunk chunk = {x + row_offset(rows, s, r), rows_together(rows, s, r, CHUNK_ROWS),
                        rows->block, s->lanes};
    for (int v = 0; v < vectors; v++) {
      vfloat mean = chunk_mean(&chunk, v);
      vfloat squares = chunk_squares(&chunk, v, mean);
      join_lanes(&lanes[v], (double)count, mean, squares, (double)chunk.rows);
    }
    count += chunk.rows;
    r += chunk.rows;
  }
  for (int64_t lane = 0; lane < s->lanes; lane++) {
    const lane_moments *of = &lanes[lane / LANES];
    out[lane] = (moments){of->mean[lane % LANES], of->squares[lane % LANES]};
  }
}

static void sum_one_vector(const ull__channel_rows *rows, const float *x, const strip *s,
                           moments *out) {
  sum_lanes_of(rows, x, s, 1, out);
}

static void sum_two_vectors(const ull__channel_rows *rows, const float *x, const strip *s,
                            moments *out) {
  sum_lanes_of(rows, x, s, 2, out);
}

static void sum_four_vectors(const ull__channel_rows *rows, const float *x, const strip *s,
                             moments *out) {
  sum_lanes_of(rows, x, s, STRIP_VECTORS, out);
}

/* ---- runs of one channel ---- */

static moments sum_chunk_of_run(const float *x, int64_t count) {
  vfloat sum = {0}, squares = {0};
  for (int64_t i = 0; i < count; i += LANES) sum += load_some(x + i, count - i);
  double mean = sum_vector(sum) / (double)count;
  vfloat about = splat((float)mean);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    vfloat distance = load(x + i) - about;
    squares = multiply_add(distance, distance, squares);
  }
  double total = sum_vector(squares);
  for (; i < count; i++) total += (double)(x[i] - about[0]) * (double)(x[i] - about[0]);
  double off = mean - (double)about[0];
  return (moments){mean, total - off * off * (double)count};
}

static void sum_runs(const ull__channel_rows *rows, const float *x, const strip *s, moments *out) {
  moments total = {0, 0};
  int64_t count = 0;
  for (int64_t n = s->begin; n < s->end; n++) {
    const float *run = x + n * rows->batch_stride + s->block * rows->block_stride;
    for (int64_t p = 0; p < rows->positions; p += CHUNK_RUN) {
      int64_t chunk = smaller(CHUNK_RUN, rows->positions - p);
      join_moments(&total, (double)count, sum_chunk_of_run(run + p, chunk), (double)chunk);
      count += chunk;
    }
  }
  *out = total;
}

/* ---- the whole ---- */

static void sum_strip(const ull__channel_rows *rows, const float *x, int64_t index,
                      moments *partials) {
  strip s = strip_at(rows, index);
  moments *out = partials + s.segment * ull__padded_channels(rows) + s.channel;
  if (rows->block == 1) {
    sum_runs(rows, x, &s, out);
  } else if (strip_width(rows) == LANES) {
    sum_one_vector(rows, x, &s, out);
  } else if (strip_width(rows) == 2 * LANES) {
    sum_two_vectors(rows, x, &s, out);
  } else {
    sum_four_vectors(rows, x, &s, out);
  }
}

static moments join_segments(const ull__channel_rows *rows, const moments *partials,
                             int64_t channel) {
  moments total = {0, 0};
  double done = 0, line = rows->block > 1 ? 1.0 : (double)rows->positions;
  int64_t lines = line_count(rows), per = divide_up(lines, rows->segments);
  for (int64_t segment = 0; segment < rows->segments; segment++) {
    int64_t part = smaller((segment + 1) * per, lines) - smaller(segment * per, lines);
    if (part == 0) continue;
    moments next = partials[segment * ull__padded_channels(rows) + channel];
    join_moments(&total, done, next, (double)part * line);
    done += (double)part * line;
  }
  return total;
}

ull_status ULL__ISA_NAME(ull__batch_norm_statistics)(const ull__launch_frame *launch) {
  const ull__batch_norm *norm = launch->constants;
  const ull__channel_rows *rows = &norm->rows;
  const float *x = launch->operands[0];
  float *mean = launch->operands[1], *invstd = launch->operands[2];
  float *unbiased = launch->operands[3];
  moments *partials = launch->operands[4];
  PARALLEL_FOR(enough_rows(rows))
  for (int64_t index = 0; index < strip_count(rows); index++) sum_strip(rows, x, index, partials);
  double count = (double)(rows->batch * rows->positions);
  for (int64_t c = 0; c < rows->channels; c++) {
    moments total = join_segments(rows, partials, c);
    mean[c] = (float)total.mean;
    invstd[c] = (float)(1.0 / sqrt(total.squares / count + norm->eps));
    unbiased[c] = (float)(total.squares / (count > 1 ? count - 1 : 1));
  }
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__batch_norm_update)(const ull__launch_frame *launch) {
  const ull__batch_norm *norm = launch->constants;
  const float *old_mean = launch->operands[0], *old_variance = launch->operands[1];
  const float *mean = launch->operands[2], *unbiased = launch->operands[3];
  float *new_mean = launch->operands[4], *new_variance = launch->operands[5];
  float keep = (float)(1.0 - norm->momentum), take = (float)norm->momentum;
  for (int64_t c = 0; c < norm->rows.channels; c++) {
    new_mean[c] = keep * old_mean[c] + take * mean[c];
    new_variance[c] = keep * old_variance[c] + take * unbiased[c];
  }
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__batch_norm_invstd)(const ull__launch_frame *launch) {
  const ull__batch_norm *norm = launch->constants;
  const float *variance = launch->operands[0];
  float *invstd = launch->operands[1];
  for (int64_t c = 0; c < norm->rows.channels; c++) {
    invstd[c] = (float)(1.0 / sqrt((double)variance[c] + norm->eps));
  }
  return ULL_OK;
}
