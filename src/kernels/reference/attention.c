/* Multi-head attention over packed rows q|k|v, within documents where there are their numbers, and
 * softmax. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/reference/reference.h"

typedef struct attention {
  const ull__tensor *qkv;
  int64_t batch, length, width, heads, head_width;
  bool causal;
  double scale;
  const ull__tensor *documents; /* NULL: every sample is one */
} attention;

/* `documents` is the index of the optional input. */
static attention read_attention(const ull__reference_call *call, uint32_t documents) {
  const ull__tensor *qkv = &call->inputs[0];
  attention a = {.qkv = qkv,
                 .batch = qkv->dims[0],
                 .length = qkv->dims[1],
                 .width = qkv->dims[2] / 3,
                 .heads = ull__node_int(&call->node, "heads"),
                 .causal = ull__node_int(&call->node, "causal") != 0,
                 .scale = ull__node_real(&call->node, "scale")};
  a.head_width = a.width / a.heads;
  if (a.scale == 0) a.scale = 1 / sqrt((double)a.head_width);
  if (call->inputs[documents].data != NULL) a.documents = &call->inputs[documents];
  return a;
}

enum { Q, K, V };

/* Place of element e of head h of row t of sample n in the part q, k or v of qkv. */
static int64_t packed(const attention *a, int64_t n, int64_t t, int part, int64_t h, int64_t e) {
  return (n * a->length + t) * 3 * a->width + part * a->width + h * a->head_width + e;
}

/* The same in y. */
static int64_t unpacked(const attention *a, int64_t n, int64_t t, int64_t h, int64_t e) {
  return (n * a->length + t) * a->width + h * a->head_width + e;
}

/* Whether rows t and s of a sample are of one document: a run of equal numbers. */
static bool is_one_document(const attention *a, int64_t n, int64_t t, int64_t s) {
  if (a->documents == NULL) return true;
  const int64_t first = n * a->length + (s < t ? s : t), last = n * a->length + (s < t ? t : s);
  for (int64_t row = first + 1; row <= last; row++) {
    if (ull__get_int(a->documents, row) != ull__get_int(a->documents, first)) return false;
  }
  return true;
}

static double score(const attention *a, int64_t n, int64_t h, int64_t t, int64_t s) {
  if ((a->causal && s > t) || !is_one_document(a, n, t, s)) return -INFINITY;
  double sum = 0;
  for (int64_t e = 0; e < a->head_width; e++) {
    sum += ull__get(a->qkv, packed(a, n, t, Q, h, e)) * ull__get(a->qkv, packed(a, n, s, K, h, e));
  }
  return sum * a->scale;
}

static double log_sum_exp(const attention *a, int64_t n, int64_t h, int64_t t) {
  double most = -INFINITY, sum = 0;
  for (int64_t s = 0; s < a->length; s++) most = fmax(most, score(a, n, h, t, s));
  for (int64_t s = 0; s < a->length; s++) sum += exp(score(a, n, h, t, s) - most);
  return most + log(sum);
}

static void attend(const attention *a, const ull__reference_call *call, int64_t n, int64_t h,
                   int64_t t) {
  const double total = log_sum_exp(a, n, h, t);
  ull__set(&call->outputs[1], (n * a->heads + h) * a->length + t, total);
  for (int64_t e = 0; e < a->head_width; e++) {
    double sum = 0;
    for (int64_t s = 0; s < a->length; s++) {
      sum += exp(score(a, n, h, t, s) - total) * ull__get(a->qkv, packed(a, n, s, V, h, e));
    }
    ull__set(&call->outputs[0], unpacked(a, n, t, h, e), sum);
  }
}

static ull_status run_attention(const ull__reference_call *call) {
  const attention a = read_attention(call, 1);
  for (int64_t n = 0; n < a.batch; n++) {
    for (int64_t h = 0; h < a.heads; h++) {
      for (int64_t t = 0; t < a.length; t++) attend(&a, call, n, h, t);
    }
  }
  return ULL_OK;
}

/* What row t attends to at row s, both ways: p is the probability, ds the score's gradient. */
static void add_pair(const attention *a, const ull__tensor *dy, double *dqkv, int64_t n, int64_t h,
                     int64_t t, int64_t s, double p, double ds) {
  for (int64_t e = 0; e < a->head_width; e++) {
    dqkv[packed(a, n, s, V, h, e)] += p * ull__get(dy, unpacked(a, n, t, h, e));
    dqkv[packed(a, n, t, Q, h, e)] += ds * a->scale * ull__get(a->qkv, packed(a, n, s, K, h, e));
    dqkv[packed(a, n, s, K, h, e)] += ds * a->scale * ull__get(a->qkv, packed(a, n, t, Q, h, e));
  }
}

static void attend_backward(const attention *a, const ull__reference_call *call, double *dqkv,
                            int64_t n, int64_t h, int64_t t) {
  const ull__tensor *y = &call->inputs[1], *dy = &call->inputs[3];
  const double total = ull__get(&call->inputs[2], (n * a->heads + h) * a->length + t);
  double mean = 0; /* of the probabilities' gradients: the sum of y dy */
  for (int64_t e = 0; e < a->head_width; e++) {
    mean += ull__get(y, unpacked(a, n, t, h, e)) * ull__get(dy, unpacked(a, n, t, h, e));
  }
  for (int64_t s = 0; s < a->length; s++) {
    const double p = exp(score(a, n, h, t, s) - total);
    double dp = 0;
    for (int64_t e = 0; e < a->head_width; e++) {
      dp += ull__get(dy, unpacked(a, n, t, h, e)) * ull__get(a->qkv, packed(a, n, s, V, h, e));
    }
    add_pair(a, dy, dqkv, n, h, t, s, p, p * (dp - mean));
  }
}

static ull_status run_attention_backward(const ull__reference_call *call) {
  const attention a = read_attention(call, 4);
  const ull__tensor *out = &call->outputs[0];
  double *dqkv = ull__alloc((size_t)out->count, sizeof *dqkv);
  if (dqkv == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (int64_t n = 0; n < a.batch; n++) {
    for (int64_t h = 0; h < a.heads; h++) {
      for (int64_t t = 0; t < a.length; t++) attend_backward(&a, call, dqkv, n, h, t);
    }
  }
  for (int64_t i = 0; i < out->count; i++) ull__set(out, i, dqkv[i]);
  ull__free(dqkv);
  return ULL_OK;
}

static ull_status run_softmax(const ull__reference_call *call) {
  const ull__tensor *x = &call->inputs[0];
  const int64_t width = ull__last(x);
  for (int64_t row = 0; row < x->count / width; row++) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < width; i++) most = fmax(most, ull__get(x, row * width + i));
    for (int64_t i = 0; i < width; i++) sum += exp(ull__get(x, row * width + i) - most);
    for (int64_t i = 0; i < width; i++) {
      const int64_t at = row * width + i;
      ull__set(&call->outputs[0], at, exp(ull__get(x, at) - most) / sum);
    }
  }
  return ULL_OK;
}

static ull_status run_softmax_backward(const ull__reference_call *call) {
  const ull__tensor *dy = &call->inputs[0], *y = &call->inputs[1];
  const int64_t width = ull__last(y);
  for (int64_t row = 0; row < y->count / width; row++) {
    double sum = 0;
    for (int64_t i = 0; i < width; i++) {
      sum += ull__get(dy, row * width + i) * ull__get(y, row * width + i);
    }
    for (int64_t i = 0; i < width; i++) {
      const int64_t at = row * width + i;
      ull__set(&call->outputs[0], at, ull__get(y, at) * (ull__get(dy, at) - sum));
    }
  }
  return ULL_OK;
}

const ull__reference_row ull__reference_attention[] = {
    {"attention", run_attention, 0},
    {"attention_backward", run_attention_backward, 0},
    {"softmax", run_softmax, UINT16_MAX},
    {"softmax_backward", run_softmax_backward, UINT16_MAX},
    {NULL, NULL, 0},
};
