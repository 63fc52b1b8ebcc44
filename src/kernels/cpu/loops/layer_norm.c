/* Layer normalisation over rows. The variance is taken about the mean, in a second pass over a row
 * that is in cache.
 *
 *     dx = invstd (g - mean(g) - xhat mean(g xhat)),  g = dy weight
 *
 * Gradients of weight and bias are summed over segments of rows: in float32 over FLUSH_ROWS rows,
 * then in double, and over the segments in order. */
#include "kernels/cpu/loops/layer_norm.h"

#include "kernels/cpu/loops/rows.h"

enum { FLUSH_ROWS = 32 };

/* Sum of (x - mean)^2. */
static double sum_squares(const float *x, int64_t count, float mean) {
  vdouble total = {0};
  vfloat middle = splat(mean);
  for (int64_t from = 0; from < count; from += ROW_PIECE) {
    int64_t end = smaller(from + ROW_PIECE, count), i = from;
    vfloat sum = {0};
    for (; i + LANES <= end; i += LANES) {
      vfloat distance = load(x + i) - middle;
      sum = multiply_add(distance, distance, sum);
    }
    if (i < end) {
      vfloat distance = first_lanes(load_part(x + i, end - i) - middle, end - i);
      sum = multiply_add(distance, distance, sum);
    }
    total += to_double(sum);
  }
  return sum_lanes(total);
}

static void normalize_row(const float *x, const float *weight, const float *bias, int64_t count,
                          float mean, float invstd, float *y) {
  vfloat middle = splat(mean), factor = splat(invstd);
  for (int64_t i = 0; i < count; i += LANES) {
    int64_t left = count - i;
    vfloat value = element_normalize(load_some(x + i, left), middle, factor,
                                     load_some(weight + i, left), load_some(bias + i, left));
    store_some(y + i, value, left);
  }
}

ull_status ULL__ISA_NAME(ull__layer_norm)(const ull__launch_frame *launch) {
  const ull__layer_norm *norm = launch->constants;
  const float *x = launch->operands[0], *weight = launch->operands[1], *bias = launch->operands[2];
  float *y = launch->operands[3], *mean = launch->operands[4], *invstd = launch->operands[5];
  double count = (double)norm->channels;
  PARALLEL_FOR(norm->rows * norm->channels >= ENOUGH_ELEMENTS)
  for (int64_t row = 0; row < norm->rows; row++) {
    const float *from = x + row * norm->channels;
    double middle = row_sum(from, norm->channels) / count, off = middle - (double)(float)middle;
    double squares = sum_squares(from, norm->channels, (float)middle) / count - off * off;
    mean[row] = (float)middle;
    invstd[row] = (float)(1.0 / sqrt((squares > 0 ? squares : 0) + norm->eps));
    normalize_row(from, weight, bias, norm->channels, mean[row], invstd[row],
                  y + row * norm->channels);
  }
  return ULL_OK;
}

/* ---- backward ---- */

typedef struct backward_row {
  const float *x, *dy, *weight;
  float *dx;
  int64_t count;
  vfloat mean, invstd;
} backward_row;

/* Sums of one segment: doubles [channels] each, and floats that wait to be added to them. */
typedef struct weight_sums {
  double *weight, *bias;
  float *weight_part, *bias_part;
} weight_sums;

INLINE vfloat normalized_at(const backward_row *r, int64_t i, int64_t left) {
  return (load_some(r->x + i, left) - r->mean) * r->invstd;
}

/* Adds the row to the sums of weight and bias, and finds the means that dx needs. */
static void sum_row(const backward_row *r, const weight_sums *to, double *mean_g,
                    double *mean_product) {
  vdouble total_g = {0}, total_product = {0};
  for (int64_t from = 0; from < r->count; from += ROW_PIECE) {
    int64_t end = smaller(from + ROW_PIECE, r->count);
    vfloat sum_g = {0}, sum_product = {0};
    for (int64_t i = from; i < end; i += LANES) {
      int64_t left = end - i;
      vfloat dy = load_some(r->dy + i, left), normalized = normalized_at(r, i, left);
      vfloat g = dy * load_some(r->weight + i, left);
      sum_g += g;
      sum_product = multiply_add(g, normalized, sum_product);
      store_some(to->bias_part + i, load_some(to->bias_part + i, left) + dy, left);
      vfloat weight = multiply_add(dy, normalized, load_some(to->weight_part + i, left));
      store_some(to->weight_part + i, weight, left);
    }
    total_g += to_double(sum_g);
    total_product += to_double(sum_product);
  }
  *mean_g = sum_lanes(total_g) / (double)r->count;
  *mean_product = sum_lanes(total_product) / (double)r->count;
}

static void write_dx(const backward_row *r, double mean_g, double mean_product) {
  vfloat shift = splat((float)mean_g), slope = splat((float)mean_product);
  for (int64_t i = 0; i < r->count; i += LANES) {
    int64_t left = r->count - i;
    vfloat g = load_some(r->dy + i, left) * load_some(r->weight + i, left);
    vfloat value = r->invstd * (g - shift - normalized_at(r, i, left) * slope);
    store_some(r->dx + i, value, left);
  }
}

static void flush(const weight_sums *sums, int64_t channels) {
  for (int64_t c = 0; c < channels; c++) {
    sums->weight[c] += (double)sums->weight_part[c];
    sums->bias[c] += (double)sums->bias_part[c];
    sums->weight_part[c] = sums->bias_part[c] = 0;
  }
}

static weight_sums sums_of_segment(const ull__layer_norm *norm, void *scratch, int64_t segment) {
  int64_t channels = norm->channels;
  double *doubles = (double *)scratch + segment * 2 * channels;
  float *floats =
      (float *)((double *)scratch + norm->segments * 2 * channels) + segment * 2 * channels;
  return (weight_sums){doubles, doubles + channels, floats, floats + channels};
}

static void run_segment(const ull__launch_frame *launch, int64_t segment) {
  const ull__layer_norm *norm = launch->constants;
  const float *x = launch->operands[0], *dy = launch->operands[1];
  const float *mean = launch->operands[2], *invstd = launch->operands[3];
  int64_t channels = norm->channels, per = divide_up(norm->rows, norm->segments);
  weight_sums sums = sums_of_segment(norm, launch->operands[8], segment);
  memset(sums.weight, 0, (size_t)channels * 16);
  memset(sums.weight_part, 0, (size_t)channels * 8);
  int64_t begin = segment * per, end = smaller(begin + per, norm->rows);
  for (int64_t row = begin; row < end; row++) {
    double mean_g, mean_product;
    backward_row r = {.x = x + row * channels,
                      .dy = dy + row * channels,
                      .weight = launch->operands[4],
                      .dx = (float *)launch->operands[5] + row * channels,
                      .count = channels,
                      .mean = splat(mean[row]),
                      .invstd = splat(invstd[row])};
    sum_row(&r, &sums, &mean_g, &mean_product);
    write_dx(&r, mean_g, mean_product);
    if ((row - begin) % FLUSH_ROWS == FLUSH_ROWS - 1) flush(&sums, channels);
  }
  flush(&sums, channels);
}

ull_status ULL__ISA_NAME(ull__layer_norm_backward)(const ull__launch_frame *launch) {
  const ull__layer_norm *norm = launch->constants;
  float *dweight = launch->operands[6], *dbias = launch->operands[7];
  PARALLEL_FOR(norm->rows * norm->channels >= ENOUGH_ELEMENTS)
  for (int64_t segment = 0; segment < norm->segments; segment++) run_segment(launch, segment);
  for (int64_t c = 0; c < norm->channels; c++) {
    double weight = 0, bias = 0;
    for (int64_t segment = 0; segment < norm->segments; segment++) {
      weight_sums sums = sums_of_segment(norm, launch->operands[8], segment);
      weight += sums.weight[c];
      bias += sums.bias[c];
    }
    dweight[c] = (float)weight;
    dbias[c] = (float)bias;
  }
  return ULL_OK;
}
