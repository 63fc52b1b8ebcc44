/* Cross entropy of a linear layer's logits, which exist a chunk of rows at a time.
 *
 * With the joint pass each chunk's logits become their gradient where they stand, scaled by the
 * gradient of the mean loss, and dx and dw come from it: logits are computed once. A row's result
 * does not depend on the chunk it is in. */
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/loss.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/targets.h"

#define GEMM_TEAM ULL__ISA_NAME(ull__gemm_team)

/* One chunk: rows [row, row + rows) of everything. */
typedef struct chunk {
  const ull__linear_cross_entropy *l;
  int64_t row, rows;
  const float *x, *w;
  const int64_t *target;
  float *logits, *scratch;
} chunk;

static void find_logits(const chunk *c) {
  const ull__linear_cross_entropy *l = c->l;
  ull__gemm gemm = {.m = c->rows,
                    .n = l->classes,
                    .k = l->inputs,
                    .a = c->x + c->row * l->inputs,
                    .a_row = l->inputs,
                    .a_column = 1,
                    .b = c->w,
                    .b_row = 1,
                    .b_column = l->inputs,
                    .c = c->logits,
                    .c_row = l->classes,
                    .scratch = c->scratch};
  GEMM_TEAM(&gemm);
}

/* The loss of one row and, with `scale`, its logits' gradient in their place. */
static double finish_row(const chunk *c, int64_t i, const float *scale, float *logsumexp) {
  const ull__linear_cross_entropy *l = c->l;
  float *x = c->logits + i * l->classes;
  int64_t target = c->target[c->row + i];
  bool counts = target != l->ignore_index;
  float about = row_logsumexp(x, l->classes);
  double loss = counts ? (double)about - (double)x[target] : 0;
  if (logsumexp != NULL) logsumexp[c->row + i] = about;
  if (scale == NULL) return loss;
  vfloat factor = splat(counts ? *scale : 0.0f), middle = splat(about);
  for (int64_t j = 0; j < l->classes; j += LANES) {
    int64_t left = l->classes - j;
    store_some(x + j, element_exp(load_some(x + j, left) - middle) * factor, left);
  }
  if (counts) x[target] -= *scale;
  return loss;
}

static void find_dx(const chunk *c, float *dx) {
  const ull__linear_cross_entropy *l = c->l;
  ull__gemm gemm = {.m = c->rows,
                    .n = l->inputs,
                    .k = l->classes,
                    .a = c->logits,
                    .a_row = l->classes,
                    .a_column = 1,
                    .b = c->w,
                    .b_row = l->inputs,
                    .b_column = 1,
                    .c = dx + c->row * l->inputs,
                    .c_row = l->inputs,
                    .scratch = c->scratch};
  GEMM_TEAM(&gemm);
}

static void add_dw(const chunk *c, float *dw) {
  const ull__linear_cross_entropy *l = c->l;
  ull__gemm gemm = {.m = l->classes,
                    .n = l->inputs,
                    .k = c->rows,
                    .a = c->logits,
                    .a_row = 1,
                    .a_column = l->classes,
                    .b = c->x + c->row * l->inputs,
                    .b_row = l->inputs,
                    .b_column = 1,
                    .c = dw,
                    .c_row = l->inputs,
                    .add = c->row > 0,
                    .scratch = c->scratch};
  GEMM_TEAM(&gemm);
}

/* Losses of the rows are left in `losses` and added in order. */
static void finish_rows(const chunk *c, const float *scale, float *logsumexp, double *losses) {
  PARALLEL_FOR(c->rows * c->l->classes >= ENOUGH_ELEMENTS / 4)
  for (int64_t i = 0; i < c->rows; i++) losses[i] = finish_row(c, i, scale, logsumexp);
}

static chunk first_chunk(const ull__launch_frame *launch, void *workspace) {
  const ull__linear_cross_entropy *l = launch->constants;
  float *floats = (float *)((double *)workspace + l->chunk);
  return (chunk){.l = l,
                 .x = launch->operands[0],
                 .w = launch->operands[1],
                 .target = launch->operands[2],
                 .logits = floats,
                 .scratch = floats + l->chunk * l->classes};
}

ull_status ULL__ISA_NAME(ull__linear_cross_entropy)(const ull__launch_frame *launch) {
  const ull__linear_cross_entropy *l = launch->constants;
  float *loss = launch->operands[3], *logsumexp = launch->operands[4];
  double *losses = launch->operands[5], sum = 0;
  chunk c = first_chunk(launch, losses);
  int64_t counted;
  ULL__TRY(count_targets(c.target, l->rows, l->classes, l->ignore_index, &counted));
  for (; c.row < l->rows; c.row += l->chunk) {
    c.rows = smaller(l->chunk, l->rows - c.row);
    find_logits(&c);
    finish_rows(&c, NULL, logsumexp, losses);
    for (int64_t i = 0; i < c.rows; i++) sum += losses[i];
  }
  *loss = (float)(sum / (double)counted);
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__linear_cross_entropy_joint)(const ull__launch_frame *launch) {
  const ull__linear_cross_entropy *l = launch->constants;
  const float *dloss = launch->operands[3];
  float *loss = launch->operands[4];
  double *losses = launch->operands[7], sum = 0;
  chunk c = first_chunk(launch, losses);
  int64_t counted;
  ULL__TRY(count_targets(c.target, l->rows, l->classes, l->ignore_index, &counted));
  float scale = counted > 0 ? (float)((double)*dloss / (double)counted) : 0.0f;
  for (; c.row < l->rows; c.row += l->chunk) {
    c.rows = smaller(l->chunk, l->rows - c.row);
    find_logits(&c);
    finish_rows(&c, &scale, NULL, losses);
    for (int64_t i = 0; i < c.rows; i++) sum += losses[i];
    find_dx(&c, launch->operands[5]);
    add_dw(&c, launch->operands[6]);
  }
  *loss = (float)(sum / (double)counted);
  return ULL_OK;
}
