/* Softmax over rows, and cross entropy of plain logits [batch, classes, inner] with class numbers
 * or shares of classes. */
#include "kernels/cpu/loops/loss.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/targets.h"

ull_status ULL__ISA_NAME(ull__softmax)(const ull__launch_frame *launch) {
  const ull__rows *r = launch->constants;
  const float *x = launch->operands[0];
  float *y = launch->operands[1];
  PARALLEL_FOR(r->rows * r->channels >= ENOUGH_ELEMENTS / 4)
  for (int64_t row = 0; row < r->rows; row++) {
    const float *from = x + row * r->channels;
    float *to = y + row * r->channels;
    vfloat top = splat(row_max(from, r->channels));
    vfloat sum = splat((float)row_sum_exp(from, r->channels, top[0]));
    for (int64_t i = 0; i < r->channels; i += LANES) {
      int64_t left = r->channels - i;
      store_some(to + i, element_exp(load_some(from + i, left) - top) / sum, left);
    }
  }
  return ULL_OK;
}

/* dx = y (dy - sum dy y) */
ull_status ULL__ISA_NAME(ull__softmax_backward)(const ull__launch_frame *launch) {
  const ull__rows *r = launch->constants;
  const float *dy = launch->operands[0], *y = launch->operands[1];
  float *dx = launch->operands[2];
  PARALLEL_FOR(r->rows * r->channels >= ENOUGH_ELEMENTS / 4)
  for (int64_t row = 0; row < r->rows; row++) {
    int64_t at = row * r->channels;
    vfloat dot = splat((float)row_dot(dy + at, y + at, r->channels));
    for (int64_t i = 0; i < r->channels; i += LANES) {
      int64_t left = r->channels - i;
      vfloat value = load_some(y + at + i, left) * (load_some(dy + at + i, left) - dot);
      store_some(dx + at + i, value, left);
    }
  }
  return ULL_OK;
}

/* ---- cross entropy ---- */

/* logsumexp of classes that lie `inner` apart, in double. */
static float strided_logsumexp(const float *x, int64_t classes, int64_t inner) {
  float top = -INFINITY;
  for (int64_t c = 0; c < classes; c++) top = x[c * inner] > top ? x[c * inner] : top;
  if (!(fabsf(top) < INFINITY)) return top;
  double sum = 0;
  for (int64_t c = 0; c < classes; c++) sum += exp((double)x[c * inner] - (double)top);
  return (float)((double)top + log(sum));
}

static const float *logits_of(const ull__cross_entropy *l, const float *logits, int64_t row) {
  return logits + row / l->inner * l->classes * l->inner + row % l->inner;
}

static double mean_logit(const ull__cross_entropy *l, const float *x) {
  if (l->inner == 1) return row_sum(x, l->classes) / (double)l->classes;
  double sum = 0;
  for (int64_t c = 0; c < l->classes; c++) sum += (double)x[c * l->inner];
  return sum / (double)l->classes;
}

static double sum_losses(const ull__cross_entropy *l, const float *logits, const int64_t *target,
                         const float *logsumexp) {
  double sum = 0, smoothing = l->label_smoothing;
  for (int64_t row = 0; row < l->batch * l->inner; row++) {
    if (target[row] == l->ignore_index) continue;
    const float *x = logits_of(l, logits, row);
    double hit = (double)logsumexp[row] - (double)x[target[row] * l->inner];
    if (smoothing > 0) {
      double all = (double)logsumexp[row] - mean_logit(l, x);
      hit = (1 - smoothing) * hit + smoothing * all;
    }
    sum += hit;
  }
  return sum;
}

ull_status ULL__ISA_NAME(ull__cross_entropy)(const ull__launch_frame *launch) {
  const ull__cross_entropy *l = launch->constants;
  const float *logits = launch->operands[0];
  const int64_t *target = launch->operands[1];
  float *loss = launch->operands[2], *logsumexp = launch->operands[3];
  int64_t rows = l->batch * l->inner, counted;
  ULL__TRY(count_targets(target, rows, l->classes, l->ignore_index, &counted));
  PARALLEL_FOR(rows * l->classes >= ENOUGH_ELEMENTS / 4)
  for (int64_t row = 0; row < rows; row++) {
    const float *x = logits_of(l, logits, row);
    logsumexp[row] =
        l->inner == 1 ? row_logsumexp(x, l->classes) : strided_logsumexp(x, l->classes, l->inner);
  }
  *loss = (float)(sum_losses(l, logits, target, logsumexp) / (double)counted);
  return ULL_OK;
}

typedef struct row_gradient {
  float scale;    /* dloss / counted rows; 0 for a row that does not count */
  float uniform;  /* label smoothing's share of each class */
  float hit;      /* share of the target */
  int64_t target; /* -1: none */
} row_gradient;

static void gradient_of_row(const float *x, int64_t classes, float logsumexp, const row_gradient *g,
                            float *dx) {
  vfloat about = splat(logsumexp), uniform = splat(g->uniform), scale = splat(g->scale);
  for (int64_t i = 0; i < classes; i += LANES) {
    int64_t left = classes - i;
    vfloat p = element_exp(load_some(x + i, left) - about);
    store_some(dx + i, (p - uniform) * scale, left);
  }
  dx[g->target] -= g->hit * g->scale;
}

static void gradient_strided(const float *x, int64_t classes, int64_t inner, float logsumexp,
                             const row_gradient *g, float *dx) {
  for (int64_t c = 0; c < classes; c++) {
    float p = (float)exp((double)x[c * inner] - (double)logsumexp);
    dx[c * inner] = (p - g->uniform) * g->scale - (c == g->target ? g->hit * g->scale : 0.0f);
  }
}

static void clear_row(float *dx, int64_t classes, int64_t inner) {
  for (int64_t c = 0; c < classes; c++) dx[c * inner] = 0;
}

ull_status ULL__ISA_NAME(ull__cross_entropy_backward)(const ull__launch_frame *launch) {
  const ull__cross_entropy *l = launch->constants;
  const float *logits = launch->operands[0], *logsumexp = launch->operands[2];
  const int64_t *target = launch->operands[1];
  const float *dloss = launch->operands[3];
  float *dlogits = launch->operands[4];
  int64_t rows = l->batch * l->inner, counted;
  ULL__TRY(count_targets(target, rows, l->classes, l->ignore_index, &counted));
  double smoothing = l->label_smoothing;
  row_gradient common = {.scale = (float)((double)*dloss / (double)counted),
                         .uniform = (float)(smoothing / (double)l->classes),
                         .hit = (float)(1 - smoothing)};
  PARALLEL_FOR(rows * l->classes >= ENOUGH_ELEMENTS / 4)
  for (int64_t row = 0; row < rows; row++) {
    const float *x = logits_of(l, logits, row);
    float *dx = dlogits + (x - logits);
    row_gradient g = common;
    g.target = target[row];
    if (g.target == l->ignore_index) {
      clear_row(dx, l->classes, l->inner);
    } else if (l->inner == 1) {
      gradient_of_row(x, l->classes, logsumexp[row], &g, dx);
    } else {
      gradient_strided(x, l->classes, l->inner, logsumexp[row], &g, dx);
    }
  }
  return ULL_OK;
}

/* ---- cross entropy with shares of classes ---- */

/* A share t becomes t * keep + uniform. */
typedef struct smoothing {
  float keep, uniform;
} smoothing;

static smoothing smoothing_of(const ull__cross_entropy *l) {
  return (smoothing){(float)(1 - l->label_smoothing),
                     (float)(l->label_smoothing / (double)l->classes)};
}

/* sum over classes of the smoothed share times (logsumexp - logit) */
static double row_soft_loss(const float *x, const float *shares, int64_t classes, float logsumexp,
                            smoothing s) {
  vdouble total = {0};
  vfloat about = splat(logsumexp), keep = splat(s.keep), uniform = splat(s.uniform);
  for (int64_t from = 0; from < classes; from += ROW_PIECE) {
    int64_t end = smaller(from + ROW_PIECE, classes), i = from;
    vfloat sum = {0};
    for (; i + LANES <= end; i += LANES) {
      vfloat share = multiply_add(load(shares + i), keep, uniform);
      sum = multiply_add(share, about - load(x + i), sum);
    }
    if (i < end) {
      vfloat share = multiply_add(load_part(shares + i, end - i), keep, uniform);
      sum += first_lanes(share * (about - load_part(x + i, end - i)), end - i);
    }
    total += to_double(sum);
  }
  return sum_lanes(total);
}

static double strided_soft_loss(const float *x, const float *shares, int64_t classes, int64_t inner,
                                float logsumexp, smoothing s) {
  double sum = 0;
  for (int64_t c = 0; c < classes; c++) {
    double share = (double)shares[c * inner] * (double)s.keep + (double)s.uniform;
    sum += share * ((double)logsumexp - (double)x[c * inner]);
  }
  return sum;
}

ull_status ULL__ISA_NAME(ull__soft_cross_entropy)(const ull__launch_frame *launch) {
  const ull__cross_entropy *l = launch->constants;
  const float *logits = launch->operands[0], *shares = launch->operands[1];
  float *loss = launch->operands[2], *logsumexp = launch->operands[3];
  double *losses = launch->operands[4], sum = 0;
  int64_t rows = l->batch * l->inner;
  smoothing s = smoothing_of(l);
  PARALLEL_FOR(rows * l->classes >= ENOUGH_ELEMENTS / 4)
  for (int64_t row = 0; row < rows; row++) {
    const float *x = logits_of(l, logits, row), *t = shares + (x - logits);
    bool is_whole = l->inner == 1;
    logsumexp[row] =
        is_whole ? row_logsumexp(x, l->classes) : strided_logsumexp(x, l->classes, l->inner);
    losses[row] = is_whole ? row_soft_loss(x, t, l->classes, logsumexp[row], s)
                           : strided_soft_loss(x, t, l->classes, l->inner, logsumexp[row], s);
  }
  for (int64_t row = 0; row < rows; row++) sum += losses[row];
  *loss = (float)(sum / (double)rows);
  return ULL_OK;
}

/* Shares need not add up to 1: `total` is their smoothed sum. */
static void soft_gradient_of_row(const float *x, const float *shares, int64_t classes,
                                 float logsumexp, smoothing s, float scale, float *dx) {
  double total = row_sum(shares, classes) * (double)s.keep + (double)classes * (double)s.uniform;
  vfloat about = splat(logsumexp), whole = splat((float)total), factor = splat(scale);
  vfloat keep = splat(s.keep), uniform = splat(s.uniform);
  for (int64_t i = 0; i < classes; i += LANES) {
    int64_t left = classes - i;
    vfloat share = multiply_add(load_some(shares + i, left), keep, uniform);
    vfloat p = element_exp(load_some(x + i, left) - about);
    store_some(dx + i, (p * whole - share) * factor, left);
  }
}

static void soft_gradient_strided(const float *x, const float *shares, int64_t classes,
                                  int64_t inner, float logsumexp, smoothing s, float scale,
                                  float *dx) {
  double total = 0;
  for (int64_t c = 0; c < classes; c++)
    total += (double)shares[c * inner] * (double)s.keep + (double)s.uniform;
  for (int64_t c = 0; c < classes; c++) {
    double share = (double)shares[c * inner] * (double)s.keep + (double)s.uniform;
    double p = exp((double)x[c * inner] - (double)logsumexp);
    dx[c * inner] = (float)((p * total - share) * (double)scale);
  }
}

ull_status ULL__ISA_NAME(ull__soft_cross_entropy_backward)(const ull__launch_frame *launch) {
  const ull__cross_entropy *l = launch->constants;
  const float *logits = launch->operands[0], *shares = launch->operands[1];
  const float *logsumexp = launch->operands[2], *dloss = launch->operands[3];
  float *dlogits = launch->operands[4];
  int64_t rows = l->batch * l->inner;
  float scale = (float)((double)*dloss / (double)rows);
  smoothing s = smoothing_of(l);
  PARALLEL_FOR(rows * l->classes >= ENOUGH_ELEMENTS / 4)
  for (int64_t row = 0; row < rows; row++) {
    const float *x = logits_of(l, logits, row), *t = shares + (x - logits);
    float *dx = dlogits + (x - logits);
    if (l->inner == 1) {
      soft_gradient_of_row(x, t, l->classes, logsumexp[row], s, scale, dx);
    } else {
      soft_gradient_strided(x, t, l->classes, l->inner, logsumexp[row], s, scale, dx);
    }
  }
  return ULL_OK;
}

/* ---- counting ---- */

/* Rows whose first maximum is at the target. */
ull_status ULL__ISA_NAME(ull__count_correct)(const ull__launch_frame *launch) {
  const ull__rows *r = launch->constants;
  const float *logits = launch->operands[0];
  const int64_t *target = launch->operands[1];
  float *correct = launch->operands[2];
  int64_t count = 0;
  for (int64_t row = 0; row < r->rows; row++) {
    const float *x = logits + row * r->channels;
    int64_t best = 0;
    for (int64_t c = 1; c < r->channels; c++) best = x[c] > x[best] ? c : best;
    count += target[row] >= 0 && best == target[row];
  }
  *correct = (float)count;
  return ULL_OK;
}
