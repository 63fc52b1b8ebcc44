/* Softmax over rows, and cross entropy of plain logits [batch, classes, inner]. */
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
