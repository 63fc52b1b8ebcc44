/* Rows of a table by id, the gradient of the table, and shifting ids. The gradient is shared out by
 * columns: each thread adds all ids, in order, so that the sum has one order. */
#include "kernels/cpu/loops/embedding.h"

#include "base/error.h"
#include "kernels/cpu/loops/vector.h"

enum { STRIP = 4 * LANES };

static ull_status check_ids(const int64_t *ids, const ull__embedding *e) {
  for (int64_t i = 0; i < e->ids; i++) {
    if (ids[i] >= 0 && ids[i] < e->rows) continue;
    return ULL__FAIL(ULL_ERROR_DATA, "id %lld at %lld is not one of %lld rows", (long long)ids[i],
                     (long long)i, (long long)e->rows);
  }
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__embedding)(const ull__launch_frame *launch) {
  const ull__embedding *e = launch->constants;
  const int64_t *ids = launch->operands[0];
  const float *table = launch->operands[1];
  float *y = launch->operands[2];
  ULL__TRY(check_ids(ids, e));
  PARALLEL_FOR(e->ids * e->channels >= ENOUGH_ELEMENTS)
  for (int64_t i = 0; i < e->ids; i++) {
    memcpy(y + i * e->channels, table + ids[i] * e->channels, (size_t)e->channels * sizeof *y);
  }
  return ULL_OK;
}

static void start_gradient(const ull__embedding *e, const float *base, float *dw) {
  PARALLEL_FOR(e->rows * e->channels >= ENOUGH_ELEMENTS)
  for (int64_t row = 0; row < e->rows; row++) {
    float *to = dw + row * e->channels;
    if (e->has_base) {
      memcpy(to, base + row * e->channels, (size_t)e->channels * sizeof *to);
    } else {
      memset(to, 0, (size_t)e->channels * sizeof *to);
    }
  }
}

static void add_strip(const ull__embedding *e, const int64_t *ids, const float *dy, int64_t column,
                      float *dw) {
  int64_t end = smaller(column + STRIP, e->channels);
  for (int64_t i = 0; i < e->ids; i++) {
    const float *from = dy + i * e->channels;
    float *to = dw + ids[i] * e->channels;
    for (int64_t c = column; c < end; c++) to[c] += from[c];
  }
}

ull_status ULL__ISA_NAME(ull__embedding_backward)(const ull__launch_frame *launch) {
  const ull__embedding *e = launch->constants;
  const int64_t *ids = launch->operands[0];
  const float *dy = launch->operands[1], *base = e->has_base ? launch->operands[2] : NULL;
  float *dw = launch->operands[e->operands];
  ULL__TRY(check_ids(ids, e));
  if (base != dw) start_gradient(e, base, dw);
  PARALLEL_FOR(e->ids * e->channels >= ENOUGH_ELEMENTS)
  for (int64_t strip = 0; strip < divide_up(e->channels, STRIP); strip++) {
    add_strip(e, ids, dy, strip * STRIP, dw);
  }
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__shift_left)(const ull__launch_frame *launch) {
  const ull__shift *s = launch->constants;
  const int64_t *ids = launch->operands[0];
  int64_t *out = launch->operands[1];
  for (int64_t row = 0; row < s->rows; row++) {
    const int64_t *from = ids + row * s->length;
    int64_t *to = out + row * s->length;
    for (int64_t t = 0; t + 1 < s->length; t++) to[t] = from[t + 1];
    to[s->length - 1] = s->fill;
  }
  return ULL_OK;
}
