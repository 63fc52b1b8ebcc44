/* Sums over everything but the channel: bias gradients, and batch normalisation's backward.
 *
 *     dbias = sum dy     dweight = invstd * sum dy (x - mean)
 *     dx = weight * invstd * (dy - dbias / n - (x - mean) * invstd * dweight / n)
 *
 * With `relu`, dy counts where y > 0 alone. Chunks are summed in float32, the rest in double. */
#include "base/error.h"
#include "kernels/cpu/loops/channel_rows.h"
#include "kernels/cpu/loops/elements.h"

typedef struct sums {
  double dy, product;
} sums;

/* What the sums run over; x is NULL for the plain sum, y without relu. */
typedef struct source {
  const ull__channel_rows *rows;
  const float *dy, *x, *y, *mean;
} source;

INLINE vfloat gradient_at(const source *from, int64_t offset, int64_t left) {
  vfloat dy = load_some(from->dy + offset, left);
  return from->y == NULL ? dy : element_relu_backward(dy, load_some(from->y + offset, left));
}

/* ---- lanes ---- */

/* Means of the lanes that are channels; 0 for padding. */
INLINE vfloat lane_means(const source *from, int64_t channel) {
  int64_t left = from->rows->channels - channel;
  return left > 0 ? load_some(from->mean + channel, left) : (vfloat){0};
}

INLINE void sum_lane_strip(const source *from, const strip *s, int vectors, bool products,
                           sums *out) {
  const ull__channel_rows *rows = from->rows;
  vdouble total_dy[STRIP_VECTORS] = {{0}}, total_product[STRIP_VECTORS] = {{0}};
  vfloat mean[STRIP_VECTORS] = {{0}};
  for (int v = 0; products && v < vectors; v++) {
    mean[v] = lane_means(from, s->channel + v * LANES);
  }
  for (int64_t r = s->begin; r < s->end;) {
    int64_t count = rows_together(rows, s, r, CHUNK_ROWS), offset = row_offset(rows, s, r);
    vfloat dy_sum[STRIP_VECTORS] = {{0}}, product_sum[STRIP_VECTORS] = {{0}};
    for (int64_t i = 0; i < count; i++, offset += rows->block) {
      UNROLL(4) for (int v = 0; v < vectors; v++) {
        int64_t left = s->lanes - v * LANES, at = offset + v * LANES;
        if (left <= 0) continue;
        vfloat dy = gradient_at(from, at, left);
        dy_sum[v] += dy;
        if (!products) continue;
        vfloat distance = load_some(from->x + at, left) - mean[v];
        product_sum[v] = multiply_add(dy, distance, product_sum[v]);
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

#define SUM_STRIP(name, vectors)                                    \
  static void name(const source *from, const strip *s, sums *out) { \
    if (from->x != NULL) {                                          \
      sum_lane_strip(from, s, vectors, true, out);                  \
    } else {                                                        \
      sum_lane_strip(from, s, vectors, false, out);                 \
    }                                                               \
  }
SUM_STRIP(sum_one_vector, 1)
SUM_STRIP(sum_two_vectors, 2)
SUM_STRIP(sum_four_vectors, 4)

/* ---- runs ---- */

static void sum_run(const source *from, int64_t offset, int64_t count, float mean, sums *total) {
  vfloat dy_sum = {0}, product_sum = {0}, middle = splat(mean);
  for (int64_t i = 0; i < count; i += LANES) {
    vfloat dy = gradient_at(from, offset + i, count - i);
    dy_sum += dy;
    if (from->x == NULL) continue;
    vfloat distance = load_some(from->x + offset + i, count - i) - middle;
    product_sum = multiply_add(dy, distance, product_sum);
  }
  total->dy += sum_vector(dy_sum);
  total->product += sum_vector(product_sum);
}

static void sum_runs(const source *from, const strip *s, sums *out) {
  const ull__channel_rows *rows = from->rows;
  sums total = {0, 0};
  float mean = from->x != NULL ? from->mean[s->block] : 0;
  for (int64_t n = s->begin; n < s->end; n++) {
    int64_t run = n * rows->batch_stride + s->block * rows->block_stride;
    for (int64_t p = 0; p < rows->positions; p += CHUNK_RUN) {
      sum_run(from, run + p, smaller(CHUNK_RUN, rows->positions - p), mean, &total);
    }
  }
  *out = total;
}

static void sum_all(const source *from, sums *partials) {
  const ull__channel_rows *rows = from->rows;
  PARALLEL_FOR(enough_rows(rows))
  for (int64_t index = 0; index < strip_count(rows); index++) {
    strip s = strip_at(rows, index);
    sums *out = partials + s.segment * ull__padded_channels(rows) + s.channel;
    if (rows->block == 1) {
      sum_runs(from, &s, out);
    } else if (strip_width(rows) == LANES) {
      sum_one_vector(from, &s, out);
    } else if (strip_width(rows) == 2 * LANES) {
      sum_two_vectors(from, &s, out);
    } else {
      sum_four_vectors(from, &s, out);
    }
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
  source from = {.rows = rows, .dy = launch->operands[0]};
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

static void apply_lanes(const source *from, const strip *s, const factors *f, float *dx) {
  const ull__channel_rows *rows = from->rows;
  for (int64_t lane = 0; lane < s->lanes; lane += LANES) {
    int64_t left = s->lanes - lane, channel = s->channel + lane;
    vfloat mean = load_some(f->mean + channel, left), scale = load_some(f->scale + channel, left);
    vfloat shift = load_some(f->shift + channel, left), slope = load_some(f->slope + channel, left);
    for (int64_t r = s->begin; r < s->end;) {
      int64_t count = rows_together(rows, s, r, CHUNK_ROWS);
      int64_t at = row_offset(rows, s, r) + lane;
      r += count;
      for (; count > 0; count--, at += rows->block) {
        vfloat dy = gradient_at(from, at, left), x = load_some(from->x + at, left);
        store_some(dx + at, dx_of(dy, x, mean, scale, shift, slope), left);
      }
    }
  }
}

static void apply_runs(const source *from, const strip *s, const factors *f, float *dx) {
  const ull__channel_rows *rows = from->rows;
  vfloat mean = splat(f->mean[s->block]), scale = splat(f->scale[s->block]);
  vfloat shift = splat(f->shift[s->block]), slope = splat(f->slope[s->block]);
  for (int64_t n = s->begin; n < s->end; n++) {
    int64_t run = n * rows->batch_stride + s->block * rows->block_stride;
    for (int64_t p = 0; p < rows->positions; p += LANES) {
      int64_t left = rows->positions - p;
      vfloat dy = gradient_at(from, run + p, left), x = load_some(from->x + run + p, left);
      store_some(dx + run + p, dx_of(dy, x, mean, scale, shift, slope), left);
    }
  }
}

static factors find_factors(const ull__launch_frame *launch, const ull__channel_rows *rows,
                            const sums *partials, float *memory, float *dweight, float *dbias) {
  const float *mean = launch->operands[2], *invstd = launch->operands[3];
  const float *weight = launch->operands[4];
  int64_t padded = ull__padded_channels(rows);
  double count = (double)(rows->batch * rows->positions);
  factors f = {memory, memory + padded, memory + 2 * padded, memory + 3 * padded};
  memset(memory, 0, (size_t)padded * 16);
  for (int64_t c = 0; c < rows->channels; c++) {
    sums total = join_segments(rows, partials, c);
    double scale = (double)invstd[c];
    dbias[c] = (float)total.dy;
    dweight[c] = (float)(total.product * scale);
    f.mean[c] = mean[c];
    f.scale[c] = weight[c] * invstd[c];
    f.shift[c] = (float)(total.dy / count);
    f.slope[c] = (float)(total.product * scale * scale / count);
  }
  return f;
}

ull_status ULL__ISA_NAME(ull__batch_norm_backward)(const ull__launch_frame *launch) {
  const ull__batch_norm *norm = launch->constants;
  const ull__channel_rows *rows = &norm->rows;
  void *const *outputs = launch->operands + norm->operands;
  float *dx = outputs[0];
  sums *partials = outputs[3];
  float *memory = (float *)(partials + rows->segments * ull__padded_channels(rows));
  source from = {.rows = rows,
                 .x = launch->operands[0],
                 .dy = launch->operands[1],
                 .mean = launch->operands[2],
                 .y = norm->relu ? launch->operands[5] : NULL};
  sum_all(&from, partials);
  factors f = find_factors(launch, rows, partials, memory, outputs[1], outputs[2]);
  PARALLEL_FOR(enough_rows(rows))
  for (int64_t index = 0; index < strip_count(rows); index++) {
    strip s = strip_at(rows, index);
    if (rows->block == 1) {
      apply_runs(&from, &s, &f, dx);
    } else {
      apply_lanes(&from, &s, &f, dx);
    }
  }
  return ULL_OK;
}
