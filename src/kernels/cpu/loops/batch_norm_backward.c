/* Sums over everything but the channel: bias gradients, and batch normalisation's backward.
 *
 *     dbias = sum dy     dweight = invstd * sum dy (x - mean)
 *     dx = weight * invstd * (dy - dbias / n - (x - mean) * invstd * dweight / n)
 *
 * With `relu`, dy counts where the normalised x is positive alone. Chunks are summed in float32,
 * the rest in double. Channels do not depend on each other: where there are enough for the team,
 * each group of them is summed and then written while it may still be in cache. */
#include "base/error.h"
#include "kernels/cpu/loops/channel_rows.h"
#include "kernels/cpu/loops/elements.h"

typedef struct sums {
  double dy, product;
} sums;

/* What the sums run over. */
typedef enum kind { DY_ALONE, NORMALIZED, NORMALIZED_AND_RELU } kind;

typedef struct source {
  const ull__channel_rows *rows;
  kind kind;
  const float *dy, *x, *mean, *invstd, *weight, *bias;
} source;

/* One vector of channels: what normalises them, 0 for padding. */
typedef struct norm {
  vfloat mean, invstd, weight, bias;
} norm;

INLINE vfloat lane_values(const source *from, const float *values, int64_t channel) {
  int64_t left = from->rows->channels - channel;
  return left > 0 ? load_some(values + channel, left) : (vfloat){0};
}

INLINE norm lane_norm(const source *from, kind kind, int64_t channel) {
  norm n = {{0}, {0}, {0}, {0}};
  if (kind == DY_ALONE) return n;
  n.mean = lane_values(from, from->mean, channel);
  if (kind == NORMALIZED) return n;
  n.invstd = lane_values(from, from->invstd, channel);
  n.weight = lane_values(from, from->weight, channel);
  n.bias = lane_values(from, from->bias, channel);
  return n;
}

INLINE norm run_norm(const source *from, kind kind, int64_t channel) {
  norm n = {{0}, {0}, {0}, {0}};
  if (kind == DY_ALONE) return n;
  n.mean = splat(from->mean[channel]);
  if (kind == NORMALIZED) return n;
  n.invstd = splat(from->invstd[channel]);
  n.weight = splat(from->weight[channel]);
  n.bias = splat(from->bias[channel]);
  return n;
}

INLINE vfloat masked(kind kind, const norm *n, vfloat dy, vfloat x) {
  if (kind != NORMALIZED_AND_RELU) return dy;
  return element_relu_backward(dy, element_normalize(x, n->mean, n->invstd, n->weight, n->bias));
}

/* ---- lanes ---- */

INLINE void sum_lane_strip(const source *from, kind kind, const strip *s, int vectors, sums *out) {
  const ull__channel_rows *rows = from->rows;
  vdouble total_dy[STRIP_VECTORS] = {{0}}, total_product[STRIP_VECTORS] = {{0}};
  norm norms[STRIP_VECTORS];
  for (int v = 0; v < vectors; v++) norms[v] = lane_norm(from, kind, s->channel + v * LANES);
  for (int64_t r = s->begin; r < s->end;) {
    int64_t count = rows_together(rows, s, r, CHUNK_ROWS), offset = row_offset(rows, s, r);
    vfloat dy_sum[STRIP_VECTORS] = {{0}}, product_sum[STRIP_VECTORS] = {{0}};
    for (int64_t i = 0; i < count; i++, offset += rows->block) {
      UNROLL(4) for (int v = 0; v < vectors; v++) {
        int64_t left = s->lanes - v * LANES, at = offset + v * LANES;
        if (left <= 0) continue;
        vfloat dy = load_some(from->dy + at, left);
        if (kind == DY_ALONE) {
          dy_sum[v] += dy;
          continue;
        }
        vfloat x = load_some(from->x + at, left);
        dy = masked(kind, &norms[v], dy, x);
        dy_sum[v] += dy;
        product_sum[v] = multiply_add(dy, x - norms[v].mean, product_sum[v]);
      }
    }
    for (int v = 0; v < vectors; v++) {
      total_dy[v] += to_double(dy_sum[v]);
      total_product[v] += to_double(product_sum[v]);
    }
    r += count;
  }
  for (int64_t lane = 0; lane < s->lanes; lane++) {
    out[lane] =
        (sums){total_dy[lane / LANES][lane % LANES], total_product[lane / LANES][lane % LANES]};
  }
}

#define FOR_EACH_KIND(from, call) \
  switch ((from)->kind) {         \
  case DY_ALONE:                  \
    call(DY_ALONE);               \
    break;                        \
  case NORMALIZED:                \
    call(NORMALIZED);             \
    break;                        \
  case NORMALIZED_AND_RELU:       \
    call(NORMALIZED_AND_RELU);    \
    break;                        \
  }

#define SUM_STRIP(name, vectors)                                    \
  static void name(const source *from, const strip *s, sums *out) { \
    FOR_EACH_KIND(from, SUM_STRIP_##vectors)                        \
  }
#define SUM_STRIP_1(kind) sum_lane_strip(from, kind, s, 1, out)
#define SUM_STRIP_2(kind) sum_lane_strip(from, kind, s, 2, out)
#define SUM_STRIP_4(kind) sum_lane_strip(from, kind, s, 4, out)
SUM_STRIP(sum_one_vector, 1)
SUM_STRIP(sum_two_vectors, 2)
SUM_STRIP(sum_four_vectors, 4)

/* ---- runs ---- */

INLINE void sum_run(const source *from, kind kind, const norm *n, int64_t offset, int64_t count,
                    sums *total) {
  vfloat dy_sum = {0}, product_sum = {0};
  for (int64_t i = 0; i < count; i += LANES) {
    vfloat dy = load_some(from->dy + offset + i, count - i);
    if (kind == DY_ALONE) {
      dy_sum += dy;
      continue;
    }
    vfloat x = load_some(from->x + offset + i, count - i);
    dy = masked(kind, n, dy, x);
    dy_sum += dy;
    product_sum = multiply_add(dy, x - n->mean, product_sum);
  }
  total->dy += sum_vector(dy_sum);
  total->product += sum_vector(product_sum);
}

INLINE void sum_runs_of(const source *from, kind kind, const strip *s, sums *out) {
  const ull__channel_rows *rows = from->rows;
  norm norms = run_norm(from, kind, s->block);
  sums total = {0, 0};
  for (int64_t n = s->begin; n < s->end; n++) {
    int64_t run = n * rows->batch_stride + s->block * rows->block_stride;
    for (int64_t p = 0; p < rows->positions; p += CHUNK_RUN) {
      int64_t count = smaller(CHUNK_RUN, rows->positions - p);
      sum_run(from, kind, &norms, run + p, count, &total);
    }
  }
  *out = total;
}

static void sum_runs(const source *from, const strip *s, sums *out) {
#define SUM_RUNS(kind) sum_runs_of(from, kind, s, out)
  FOR_EACH_KIND(from, SUM_RUNS)
}

/* ---- strips ---- */

static void sum_strip(const source *from, const strip *s, sums *partials) {
  const ull__channel_rows *rows = from->rows;
  sums *out = partials + s->segment * ull__padded_channels(rows) + s->channel;
  if (rows->block == 1) {
    sum_runs(from, s, out);
  } else if (strip_width(rows) == LANES) {
    sum_one_vector(from, s, out);
  } else if (strip_width(rows) == 2 * LANES) {
    sum_two_vectors(from, s, out);
  } else {
    sum_four_vectors(from, s, out);
  }
}

static void sum_all(const source *from, sums *partials) {
  PARALLEL_FOR(enough_rows(from->rows))
  for (int64_t index = 0; index < strip_count(from->rows); index++) {
    strip s = strip_at(from->rows, index);
    sum_strip(from, &s, partials);
  }
}

static sums join_segments(const ull__channel_rows *rows, const sums *partials, int64_t channel) {
  sums total = {0, 0};
  for (int64_t segment = 0; segment < rows->segments; segment++) {
    sums next = partials[segment * ull__padded_channels(rows) + channel];
    total.dy += next.dy;
    total.product += next.product;
  }
  return total;
}

ull_status ULL__ISA_NAME(ull__sum_to_axis)(const ull__launch_frame *launch) {
  const ull__channel_rows *rows = launch->constants;
  float *out = launch->operands[1];
  sums *partials = launch->operands[2];
  source from = {.rows = rows, .kind = DY_ALONE, .dy = launch->operands[0]};
  sum_all(&from, partials);
  for (int64_t c = 0; c < rows->channels; c++) {
    out[c] = (float)join_segments(rows, partials, c).dy;
  }
  return ULL_OK;
}

/* ---- dx ---- */

/* Four rows of padded channels: mean, and the factors of dx = scale * (dy - shift - (x - mean) *
 * slope). All zero for padding. */
typedef struct factors {
  float *mean, *scale, *shift, *slope;
} factors;

INLINE vfloat dx_of(vfloat dy, vfloat x, vfloat mean, vfloat scale, vfloat shift, vfloat slope) {
  return scale * (dy - shift - (x - mean) * slope);
}

INLINE void apply_lanes_of(const source *from, kind kind, const strip *s, const factors *f,
                           float *dx) {
  const ull__channel_rows *rows = from->rows;
  for (int64_t lane = 0; lane < s->lanes; lane += LANES) {
    int64_t left = s->lanes - lane, channel = s->channel + lane;
    norm norms = lane_norm(from, kind, channel);
    vfloat mean = load_some(f->mean + channel, left), scale = load_some(f->scale + channel, left);
    vfloat shift = load_some(f->shift + channel, left), slope = load_some(f->slope + channel, left);
    for (int64_t r = s->begin; r < s->end;) {
      int64_t count = rows_together(rows, s, r, CHUNK_ROWS);
      int64_t at = row_offset(rows, s, r) + lane;
      r += count;
      for (; count > 0; count--, at += rows->block) {
        vfloat x = load_some(from->x + at, left);
        vfloat dy = masked(kind, &norms, load_some(from->dy + at, left), x);
        store_some(dx + at, dx_of(dy, x, mean, scale, shift, slope), left);
      }
    }
  }
}

INLINE void apply_runs_of(const source *from, kind kind, const strip *s, const factors *f,
                          float *dx) {
  const ull__channel_rows *rows = from->rows;
  norm norms = run_norm(from, kind, s->block);
  vfloat mean = splat(f->mean[s->block]), scale = splat(f->scale[s->block]);
  vfloat shift = splat(f->shift[s->block]), slope = splat(f->slope[s->block]);
  for (int64_t n = s->begin; n < s->end; n++) {
    int64_t run = n * rows->batch_stride + s->block * rows->block_stride;
    for (int64_t p = 0; p < rows->positions; p += LANES) {
      int64_t left = rows->positions - p;
      vfloat x = load_some(from->x + run + p, left);
      vfloat dy = masked(kind, &norms, load_some(from->dy + run + p, left), x);
      store_some(dx + run + p, dx_of(dy, x, mean, scale, shift, slope), left);
    }
  }
}

static void apply_strip(const source *from, const strip *s, const factors *f, float *dx) {
#define APPLY_LANES(kind) apply_lanes_of(from, kind, s, f, dx)
#define APPLY_RUNS(kind) apply_runs_of(from, kind, s, f, dx)
  if (from->rows->block == 1) {
    FOR_EACH_KIND(from, APPLY_RUNS)
  } else {
    FOR_EACH_KIND(from, APPLY_LANES)
  }
}

typedef struct backward {
  source from;
  sums *partials;
  factors factors;
  float *dx, *dweight, *dbias;
} backward;

/* Joins the sums of the channels that there are among [first, end). */
static void find_factors(const backward *b, int64_t first, int64_t end) {
  const source *from = &b->from;
  const factors *f = &b->factors;
  double count = (double)(from->rows->batch * from->rows->positions);
  for (int64_t c = first; c < end; c++) {
    if (c >= from->rows->channels) {
      f->mean[c] = f->scale[c] = f->shift[c] = f->slope[c] = 0;
      continue;
    }
    sums total = join_segments(from->rows, b->partials, c);
    double scale = (double)from->invstd[c];
    b->dbias[c] = (float)total.dy;
    b->dweight[c] = (float)(total.product * scale);
    f->mean[c] = from->mean[c];
    f->scale[c] = from->weight[c] * from->invstd[c];
    f->shift[c] = (float)(total.dy / count);
    f->slope[c] = (float)(total.product * scale * scale / count);
  }
}

static void run_apart(const backward *b) {
  const ull__channel_rows *rows = b->from.rows;
  sum_all(&b->from, b->partials);
  find_factors(b, 0, ull__padded_channels(rows));
  PARALLEL_FOR(enough_rows(rows))
  for (int64_t index = 0; index < strip_count(rows); index++) {
    strip s = strip_at(rows, index);
    apply_strip(&b->from, &s, &b->factors, b->dx);
  }
}

/* All segments of one group of channels. */
static void run_column(const backward *b, int64_t column, int64_t columns) {
  const ull__channel_rows *rows = b->from.rows;
  strip s = {0};
  for (int64_t segment = 0; segment < rows->segments; segment++) {
    s = strip_at(rows, segment * columns + column);
    sum_strip(&b->from, &s, b->partials);
  }
  find_factors(b, s.channel, s.channel + s.lanes);
  for (int64_t segment = rows->segments; segment-- > 0;) {
    s = strip_at(rows, segment * columns + column);
    apply_strip(&b->from, &s, &b->factors, b->dx);
  }
}

/* Whether shares of whole columns keep every thread busy. */
static bool enough_columns(int64_t columns) {
  int64_t threads = TEAM_SIZE(), most = divide_up(columns, threads);
  return columns * 8 >= most * threads * 7;
}

static void run_columns(const backward *b, int64_t columns) {
  PARALLEL_FOR(enough_rows(b->from.rows))
  for (int64_t column = 0; column < columns; column++) run_column(b, column, columns);
}

ull_status ULL__ISA_NAME(ull__batch_norm_backward)(const ull__launch_frame *launch) {
  const ull__batch_norm *norm = launch->constants;
  const ull__channel_rows *rows = &norm->rows;
  int64_t padded = ull__padded_channels(rows), columns = strip_count(rows) / rows->segments;
  void *const *in = launch->operands, *const *out = launch->operands + norm->operands;
  backward b = {.from = {.rows = rows,
                         .kind = norm->relu ? NORMALIZED_AND_RELU : NORMALIZED,
                         .x = in[0],
                         .dy = in[1],
                         .mean = in[2],
                         .invstd = in[3],
                         .weight = in[4],
                         .bias = norm->relu ? in[5] : NULL},
                .partials = out[3],
                .dx = out[0],
                .dweight = out[1],
                .dbias = out[2]};
  float *memory = (float *)(b.partials + rows->segments * padded);
  b.factors = (factors){memory, memory + padded, memory + 2 * padded, memory + 3 * padded};
  if (enough_columns(columns)) {
    run_columns(&b, columns);
  } else {
    run_apart(&b);
  }
  return ULL_OK;
}
