/* Cross entropy, with and without the classifier's matrix product, and counting hits. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/reference/reference.h"

/* ---- rows of logits ---- */

/* Targets that count; anything that is neither a class nor ignored is refused. */
static ull_status count_targets(const ull__tensor *target, int64_t classes, int64_t ignore_index,
                                int64_t *out) {
  *out = 0;
  for (int64_t row = 0; row < target->count; row++) {
    const int64_t class_index = ull__get_int(target, row);
    if (class_index == ignore_index) continue;
    if (class_index < 0 || class_index >= classes) {
      return ULL__FAIL(ULL_ERROR_DATA, "target %lld is not one of %lld classes",
                       (long long)class_index, (long long)classes);
    }
    ++*out;
  }
  return ULL_OK;
}

static double log_sum_exp(const double *logits, int64_t classes) {
  double most = -INFINITY, sum = 0;
  for (int64_t c = 0; c < classes; c++) most = fmax(most, logits[c]);
  for (int64_t c = 0; c < classes; c++) sum += exp(logits[c] - most);
  return most + log(sum);
}

/* -sum over classes of the smoothed target times log softmax. */
static double row_loss(const double *logits, int64_t classes, double total, int64_t target,
                       double smoothing) {
  double loss = (1 - smoothing) * (total - logits[target]);
  for (int64_t c = 0; c < classes; c++) loss += smoothing / (double)classes * (total - logits[c]);
  return loss;
}

static double row_slope(double logit, int64_t classes, double total, bool is_target,
                        double smoothing) {
  return exp(logit - total) - (is_target ? 1 - smoothing : 0) - smoothing / (double)classes;
}

/* ---- cross entropy: classes along axis 1 ---- */

static int64_t at_class(const ull__axis *axis, int64_t row, int64_t c) {
  return (row / axis->inner * axis->size + c) * axis->inner + row % axis->inner;
}

static void read_row(const ull__tensor *logits, const ull__axis *axis, int64_t row, double *out) {
  for (int64_t c = 0; c < axis->size; c++) out[c] = ull__get(logits, at_class(axis, row, c));
}

static ull_status sum_rows(const ull__reference_call *call, double *row_logits) {
  const ull__tensor *logits = &call->inputs[0], *target = &call->inputs[1];
  const int64_t ignore_index = ull__node_int(&call->node, "ignore_index");
  const double smoothing = ull__node_real(&call->node, "label_smoothing");
  const ull__axis axis = ull__axis_of(logits, 1);
  int64_t counted = 0;
  double sum = 0;
  ULL__TRY(count_targets(target, axis.size, ignore_index, &counted));
  for (int64_t row = 0; row < target->count; row++) {
    read_row(logits, &axis, row, row_logits);
    const double total = log_sum_exp(row_logits, axis.size);
    ull__set(&call->outputs[1], row, total);
    if (ull__get_int(target, row) == ignore_index) continue;
    sum += row_loss(row_logits, axis.size, total, ull__get_int(target, row), smoothing);
  }
  ull__set(&call->outputs[0], 0, sum / (double)counted);
  return ULL_OK;
}

static ull_status run_cross_entropy(const ull__reference_call *call) {
  double *row_logits = ull__alloc((size_t)call->inputs[0].dims[1], sizeof *row_logits);
  if (row_logits == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  const ull_status status = sum_rows(call, row_logits);
  ull__free(row_logits);
  return status;
}

static ull_status run_cross_entropy_backward(const ull__reference_call *call) {
  const ull__tensor *logits = &call->inputs[0], *target = &call->inputs[1];
  const int64_t ignore_index = ull__node_int(&call->node, "ignore_index");
  const double smoothing = ull__node_real(&call->node, "label_smoothing");
  const ull__axis axis = ull__axis_of(logits, 1);
  int64_t counted = 0;
  ULL__TRY(count_targets(target, axis.size, ignore_index, &counted));
  const double scale = ull__get(&call->inputs[3], 0) / (double)counted;
  for (int64_t i = 0; i < logits->count; i++) {
    const int64_t row = i / (axis.size * axis.inner) * axis.inner + i % axis.inner;
    const int64_t c = i / axis.inner % axis.size, wanted = ull__get_int(target, row);
    const double slope = row_slope(ull__get(logits, i), axis.size, ull__get(&call->inputs[2], row),
                                   c == wanted, smoothing);
    ull__set(&call->outputs[0], i, wanted == ignore_index ? 0 : scale * slope);
  }
  return ULL_OK;
}

/* ---- cross entropy with shares of classes ---- */

/* What label smoothing makes of a share. */
static double smooth(double share, double smoothing, int64_t classes) {
  return (1 - smoothing) * share + smoothing / (double)classes;
}

static ull_status sum_soft_rows(const ull__reference_call *call, double *row_logits) {
  const ull__tensor *logits = &call->inputs[0], *shares = &call->inputs[1];
  const double smoothing = ull__node_real(&call->node, "label_smoothing");
  const ull__axis axis = ull__axis_of(logits, 1);
  const int64_t rows = call->outputs[1].count;
  double sum = 0;
  for (int64_t row = 0; row < rows; row++) {
    read_row(logits, &axis, row, row_logits);
    const double total = log_sum_exp(row_logits, axis.size);
    ull__set(&call->outputs[1], row, total);
    for (int64_t c = 0; c < axis.size; c++) {
      const double share = ull__get(shares, at_class(&axis, row, c));
      sum += smooth(share, smoothing, axis.size) * (total - row_logits[c]);
    }
  }
  ull__set(&call->outputs[0], 0, sum / (double)rows);
  return ULL_OK;
}

static ull_status run_soft_cross_entropy(const ull__reference_call *call) {
  double *row_logits = ull__alloc((size_t)call->inputs[0].dims[1], sizeof *row_logits);
  if (row_logits == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  const ull_status status = sum_soft_rows(call, row_logits);
  ull__free(row_logits);
  return status;
}

/* Shares need not add up to 1. */
static ull_status run_soft_cross_entropy_backward(const ull__reference_call *call) {
  const ull__tensor *logits = &call->inputs[0], *shares = &call->inputs[1];
  const double smoothing = ull__node_real(&call->node, "label_smoothing");
  const ull__axis axis = ull__axis_of(logits, 1);
  const int64_t rows = call->inputs[2].count;
  const double scale = ull__get(&call->inputs[3], 0) / (double)rows;
  for (int64_t row = 0; row < rows; row++) {
    const double logsumexp = ull__get(&call->inputs[2], row);
    double total = 0;
    for (int64_t c = 0; c < axis.size; c++) {
      total += smooth(ull__get(shares, at_class(&axis, row, c)), smoothing, axis.size);
    }
    for (int64_t c = 0; c < axis.size; c++) {
      const int64_t at = at_class(&axis, row, c);
      const double share = smooth(ull__get(shares, at), smoothing, axis.size);
      const double slope = exp(ull__get(logits, at) - logsumexp) * total - share;
      ull__set(&call->outputs[0], at, scale * slope);
    }
  }
  return ULL_OK;
}

/* ---- linear cross entropy: logits = x w', one row at a time ---- */

typedef struct classifier {
  const ull__tensor *x, *w, *target;
  int64_t width, classes, ignore_index, counted;
  double *logits; /* of one row */
  double *dw;     /* NULL without gradients */
} classifier;

static void end_classifier(classifier *k) {
  ull__free(k->logits);
  ull__free(k->dw);
}

static ull_status begin_classifier(const ull__reference_call *call, bool gradients,
                                   classifier *out) {
  *out = (classifier){.x = &call->inputs[0],
                      .w = &call->inputs[1],
                      .target = &call->inputs[2],
                      .width = call->inputs[1].dims[1],
                      .classes = call->inputs[1].dims[0],
                      .ignore_index = ull__node_int(&call->node, "ignore_index")};
  ULL__TRY(count_targets(out->target, out->classes, out->ignore_index, &out->counted));
  out->logits = ull__alloc((size_t)out->classes, sizeof *out->logits);
  if (gradients) out->dw = ull__alloc((size_t)out->w->count, sizeof *out->dw);
  if (out->logits != NULL && (!gradients || out->dw != NULL)) return ULL_OK;
  end_classifier(out);
  return ULL_ERROR_OUT_OF_MEMORY;
}

/* Fills the row's logits; returns log sum exp. */
static double classify_row(const classifier *k, int64_t row) {
  for (int64_t v = 0; v < k->classes; v++) {
    k->logits[v] = 0;
    for (int64_t i = 0; i < k->width; i++) {
      k->logits[v] += ull__get(k->x, row * k->width + i) * ull__get(k->w, v * k->width + i);
    }
  }
  return log_sum_exp(k->logits, k->classes);
}

static ull_status run_linear_cross_entropy(const ull__reference_call *call) {
  classifier k;
  double sum = 0;
  ULL__TRY(begin_classifier(call, false, &k));
  for (int64_t row = 0; row < k.target->count; row++) {
    const double total = classify_row(&k, row);
    const int64_t target = ull__get_int(k.target, row);
    ull__set(&call->outputs[1], row, total);
    if (target != k.ignore_index) sum += total - k.logits[target];
  }
  ull__set(&call->outputs[0], 0, sum / (double)k.counted);
  end_classifier(&k);
  return ULL_OK;
}

/* Gradients of one row that counts, `scale` being the gradient of its loss. */
static void add_row_gradients(const classifier *k, const ull__tensor *dx, int64_t row, double total,
                              double scale) {
  const int64_t target = ull__get_int(k->target, row);
  for (int64_t i = 0; i < k->width; i++) {
    double sum = 0;
    for (int64_t v = 0; v < k->classes; v++) {
      const double slope = scale * row_slope(k->logits[v], k->classes, total, v == target, 0);
      sum += slope * ull__get(k->w, v * k->width + i);
      k->dw[v * k->width + i] += slope * ull__get(k->x, row * k->width + i);
    }
    ull__set(dx, row * k->width + i, sum);
  }
}

static ull_status run_joint(const ull__reference_call *call) {
  classifier k;
  double sum = 0;
  ULL__TRY(begin_classifier(call, true, &k));
  const ull__tensor *dx = &call->outputs[1], *dw = &call->outputs[2];
  const double scale = ull__get(&call->inputs[3], 0) / (double)k.counted;
  for (int64_t row = 0; row < k.target->count; row++) {
    const int64_t target = ull__get_int(k.target, row);
    if (target == k.ignore_index) {
      for (int64_t i = 0; i < k.width; i++) ull__set(dx, row * k.width + i, 0);
      continue;
    }
    const double total = classify_row(&k, row);
    sum += total - k.logits[target];
    add_row_gradients(&k, dx, row, total, scale);
  }
  for (int64_t i = 0; i < dw->count; i++) ull__set(dw, i, k.dw[i]);
  ull__set(&call->outputs[0], 0, sum / (double)k.counted);
  end_classifier(&k);
  return ULL_OK;
}

static ull_status run_count_correct(const ull__reference_call *call) {
  const ull__tensor *logits = &call->inputs[0];
  const int64_t classes = logits->dims[1];
  int64_t hits = 0;
  for (int64_t row = 0; row < logits->dims[0]; row++) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++) {
      if (ull__get(logits, row * classes + c) > ull__get(logits, row * classes + best)) best = c;
    }
    hits += ull__get_int(&call->inputs[1], row) == best;
  }
  ull__set(&call->outputs[0], 0, (double)hits);
  return ULL_OK;
}

const ull__reference_row ull__reference_loss[] = {
    {"cross_entropy", run_cross_entropy, 0},
    {"cross_entropy_backward", run_cross_entropy_backward, UINT16_MAX},
    {"soft_cross_entropy", run_soft_cross_entropy, 0},
    {"soft_cross_entropy_backward", run_soft_cross_entropy_backward, UINT16_MAX},
    {"linear_cross_entropy", run_linear_cross_entropy, 0},
    {"linear_cross_entropy_joint", run_joint, 0},
    {"count_correct", run_count_correct, 0},
    {NULL, NULL, 0},
};
