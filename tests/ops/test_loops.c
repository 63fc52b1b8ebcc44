/* Our vector loops on their own: accuracy of the element functions, products against plain sums in
 * double, and what is promised to be equal bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/isa.h"
#include "base/philox.h"
#include "kernels/cpu/family.h"
#include "kernels/cpu/loops/attention.h"
#include "kernels/cpu/loops/elementwise.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/loops/loss.h"

ULL__ISA_DECLARE(ull__run_chain)
ULL__ISA_DECLARE(ull__attention)
ULL__ISA_DECLARE(ull__attention_backward)
ULL__ISA_DECLARE(ull__linear_cross_entropy_joint)
static const ull__entry run_chain[] = ULL__ISA_TABLE(ull__run_chain);
static const ull__entry attention[] = ULL__ISA_TABLE(ull__attention);
static const ull__entry attention_backward[] = ULL__ISA_TABLE(ull__attention_backward);
static const ull__entry joint[] = ULL__ISA_TABLE(ull__linear_cross_entropy_joint);

typedef void (*gemm_function)(const ull__gemm *);
static const gemm_function gemm_team[] = ULL__ISA_TABLE(ull__gemm_team);
static const gemm_function gemm_alone[] = ULL__ISA_TABLE(ull__gemm_alone);

#define EACH_ISA(isa) for (ull__isa isa = ULL__ISA_PORTABLE; isa <= ull__cpu_isa(); isa++)

static float *random_floats(int64_t count, uint64_t key, float scale) {
  float *x = malloc((size_t)count * sizeof *x + 4);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++) {
    x[i] = scale * (2 * ull__philox_unit_float(ull__philox_u32(key, 0, (uint64_t)i)) - 1);
  }
  return x;
}

static float *zero_floats(int64_t count) {
  float *x = calloc((size_t)count + 1, sizeof *x);
  assert_non_null(x);
  return x;
}

/* ---- elements ---- */

static void run_codes(ull__isa isa, const ull__element_step *steps, uint32_t count, int64_t n,
                      float *x, float *second, float *out) {
  ull__chain chain = {.input_count = second != NULL ? 2 : 1,
                      .step_count = count,
                      .groups = 1,
                      .span = n,
                      .group_cycle = 1,
                      .lanes = 1,
                      .channels = 1};
  memcpy(chain.steps, steps, count * sizeof *steps);
  void *operands[] = {x, second != NULL ? second : out, out};
  ull__launch_frame frame = {operands, 3, &chain};
  assert_int_equal(run_chain[isa](&frame), ULL_OK);
}

static void run_code(ull__isa isa, ull__element_code code, int64_t n, float *x, float *out) {
  ull__element_step step = {.code = (uint8_t)code, .operand_count = 1};
  run_codes(isa, &step, 1, n, x, NULL, out);
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double gelu_erf(double x) {
  return x / 2 * (1 + erf(x / sqrt(2)));
}

static double gelu_tanh(double x) {
  return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* The error in units of the last place of the result, results below `least` taken as `least`. */
static double error_in_ulps(float got, double wanted, double least) {
  double size = fmax(fabs(wanted), least);
  return fabs((double)got - wanted) / (size * 0x1p-23);
}

static void check_accuracy(ull__element_code code, double (*truth)(double), double most_ulps,
                           double least) {
  enum { COUNT = 40001 };
  float *x = zero_floats(COUNT), *y = zero_floats(COUNT);
  for (int i = 0; i < COUNT; i++) x[i] = (float)(i - COUNT / 2) * 0.0007f;
  EACH_ISA(isa) {
    run_code(isa, code, COUNT, x, y);
    for (int i = 0; i < COUNT; i++) {
      double error = error_in_ulps(y[i], truth((double)x[i]), least);
      if (error > most_ulps) {
        fail_msg("%s: code %d at %g gives %g, %g ulp off", ull__isa_name(isa), code, (double)x[i],
                 (double)y[i], error);
      }
    }
  }
  free(x);
  free(y);
}

static void test_elements_are_accurate(void **state) {
  (void)state;
  check_accuracy(ULL__ELEMENT_TANH, tanh, 3, 1e-30);
  check_accuracy(ULL__ELEMENT_SIGMOID, sigmoid, 3, 1e-30);
  /* 1 + erf cancels in the left tail: measured against 1. */
  check_accuracy(ULL__ELEMENT_GELU_ERF, gelu_erf, 3, 1);
  check_accuracy(ULL__ELEMENT_GELU_TANH, gelu_tanh, 4, 1);
}

static void test_elements_at_the_ends(void **state) {
  (void)state;
  float x[] = {INFINITY, -INFINITY, 0.0f, -0.0f, 1e30f, -1e30f, NAN};
  float y[7];
  EACH_ISA(isa) {
    run_code(isa, ULL__ELEMENT_TANH, 7, x, y);
    assert_true(y[0] == 1 && y[1] == -1 && y[4] == 1 && y[5] == -1 && isnan(y[6]));
    assert_true(y[2] == 0 && !signbit(y[2]) && signbit(y[3]));
    run_code(isa, ULL__ELEMENT_SIGMOID, 7, x, y);
    assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0.5f && y[4] == 1 && y[5] == 0 && isnan(y[6]));
    run_code(isa, ULL__ELEMENT_RELU, 7, x, y);
    assert_true(y[0] == INFINITY && y[1] == 0 && y[3] == 0 && y[5] == 0 && isnan(y[6]));
  }
}

static void test_instruction_sets_agree_on_elements(void **state) {
  (void)state;
  enum { COUNT = 1003 };
  float *x = random_floats(COUNT, 3, 12), *y = zero_floats(COUNT), *z = zero_floats(COUNT);
  for (int code = ULL__ELEMENT_RELU; code < ULL__ELEMENT_DROPOUT; code++) {
    ull__element_step step = {.code = (uint8_t)code, .operand_count = 2, .operands = {0, 1}};
    run_codes(ULL__ISA_PORTABLE, &step, 1, COUNT, x, x, y);
    EACH_ISA(isa) {
      run_codes(isa, &step, 1, COUNT, x, x, z);
      assert_memory_equal(y, z, COUNT * sizeof *y);
    }
  }
  free(x);
  free(y);
  free(z);
}

static void test_fused_is_unfused(void **state) {
  (void)state;
  enum { COUNT = 5005 };
  float *x = random_floats(COUNT, 5, 4), *r = random_floats(COUNT, 6, 4);
  float *one = zero_floats(COUNT), *two = zero_floats(COUNT);
  ull__element_step chain[] = {{.code = ULL__ELEMENT_GELU_ERF, .operand_count = 1, .operands = {0}},
                               {.code = ULL__ELEMENT_ADD, .operand_count = 2, .operands = {2, 1}},
                               {.code = ULL__ELEMENT_TANH, .operand_count = 1, .operands = {3}}};
  ull__element_step add = {.code = ULL__ELEMENT_ADD, .operand_count = 2, .operands = {0, 1}};
  EACH_ISA(isa) {
    run_code(isa, ULL__ELEMENT_GELU_ERF, COUNT, x, one);
    run_codes(isa, &add, 1, COUNT, one, r, one);
    run_code(isa, ULL__ELEMENT_TANH, COUNT, one, one);
    memcpy(two, x, COUNT * sizeof *two);
    run_codes(isa, chain, 3, COUNT, two, r, two);
    assert_memory_equal(one, two, COUNT * sizeof *one);
  }
  free(x);
  free(r);
  free(one);
  free(two);
}

/* ---- products ---- */

static const int64_t sizes[] = {1, 2, 7, 17, 48, 65, 130};
enum { SIZES = sizeof sizes / sizeof *sizes };

static ull__gemm product_of(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  return (ull__gemm){.m = m,
                     .n = n,
                     .k = k,
                     .a = random_floats(m * k, 11, 1),
                     .a_row = transpose_a ? 1 : k,
                     .a_column = transpose_a ? m : 1,
                     .b = random_floats(k * n, 12, 1),
                     .b_row = transpose_b ? 1 : n,
                     .b_column = transpose_b ? k : 1,
                     .c = random_floats(m * n, 13, 1),
                     .c_row = n,
                     .bias = random_floats(n, 14, 1),
                     .scratch = zero_floats(ull__gemm_scratch_floats(m, n, k))};
}

static void free_product(ull__gemm *g) {
  free((float *)g->a);
  free((float *)g->b);
  free((float *)g->bias);
  free(g->c);
  free(g->scratch);
}

static double element_of(const ull__gemm *g, const float *before, int64_t i, int64_t j) {
  double sum = g->add ? (double)before[i * g->n + j] : 0;
  for (int64_t k = 0; k < g->k; k++) {
    sum +=
        (double)g->a[i * g->a_row + k * g->a_column] * (double)g->b[k * g->b_row + j * g->b_column];
  }
  return sum + (double)g->bias[j];
}

static void check_product(ull__isa isa, int64_t m, int64_t n, int64_t k, int flags) {
  ull__gemm g = product_of(m, n, k, (flags & 1) != 0, (flags & 2) != 0);
  float *before = random_floats(m * n, 13, 1);
  g.add = (flags & 4) != 0;
  (flags & 8 ? gemm_alone : gemm_team)[isa](&g);
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      double wanted = element_of(&g, before, i, j), got = (double)g.c[i * n + j];
      if (fabs(got - wanted) > 2e-6 * sqrt((double)k) + 1e-6) {
        fail_msg("%s %dx%dx%d flags %d: C[%d, %d] = %g, not %g", ull__isa_name(isa), (int)m, (int)n,
                 (int)k, flags, (int)i, (int)j, got, wanted);
      }
    }
  }
  free(before);
  free_product(&g);
}

static void test_products(void **state) {
  (void)state;
  EACH_ISA(isa) {
    int flags = 0;
    for (int m = 0; m < SIZES; m++) {
      for (int n = 0; n < SIZES; n++) {
        check_product(isa, sizes[m], sizes[n], sizes[(m + 3 * n) % SIZES], flags++ % 16);
      }
    }
    check_product(isa, 3, 5, 900, 4);
    check_product(isa, 200, 400, 400, 6);
    check_product(isa, 1100, 9, 20, 1);
    check_product(isa, 9, 2100, 20, 2);
  }
}

static void test_products_do_not_depend_on_rows(void **state) {
  (void)state;
  enum { M = 161, N = 107, K = 500 };
  EACH_ISA(isa) for (int transpose_b = 0; transpose_b < 2; transpose_b++) {
    ull__gemm g = product_of(M, N, K, false, transpose_b != 0);
    gemm_team[isa](&g);
    float *whole = zero_floats(M * N);
    memcpy(whole, g.c, M * N * sizeof *whole);
    for (int64_t row = 0; row < M; row += 13) {
      ull__gemm part = g;
      part.m = M - row < 13 ? M - row : 13;
      part.a = g.a + row * g.a_row;
      part.c = g.c + row * g.c_row;
      gemm_alone[isa](&part);
    }
    assert_memory_equal(whole, g.c, M * N * sizeof *whole);
    free(whole);
    free_product(&g);
  }
}

/* ---- attention against plain sums in double ---- */

typedef struct plain_attention {
  const ull__attention *a;
  const float *qkv, *dy;
  const int64_t *documents;
  double *p, *dqkv, *y;
} plain_attention;

static double q_of(const plain_attention *t, int64_t part, int64_t b, int64_t h, int64_t i,
                   int64_t d) {
  int64_t width = t->a->heads * t->a->size;
  return (double)t->qkv[(b * t->a->time + i) * 3 * width + part * width + h * t->a->size + d];
}

static double *dq_of(plain_attention *t, int64_t part, int64_t b, int64_t h, int64_t i, int64_t d) {
  int64_t width = t->a->heads * t->a->size;
  return &t->dqkv[(b * t->a->time + i) * 3 * width + part * width + h * t->a->size + d];
}

/* The first row of a document, or the one behind its last, going from row i by `step`. */
static int64_t document_edge(const plain_attention *t, int64_t b, int64_t i, int64_t step) {
  const int64_t *documents = t->documents + b * t->a->time;
  while (i + step >= 0 && i + step < t->a->time && documents[i] == documents[i + step]) i += step;
  return step > 0 ? i + 1 : i;
}

static void plain_row(plain_attention *t, int64_t b, int64_t h, int64_t i) {
  const ull__attention *a = t->a;
  int64_t keys = a->causal ? i + 1 : a->time, width = a->heads * a->size, begin = 0;
  if (a->has_documents) begin = document_edge(t, b, i, -1);
  if (a->has_documents && !a->causal) keys = document_edge(t, b, i, 1);
  int64_t row = (b * a->time + i) * width + h * a->size;
  double sum = 0, delta = 0;
  for (int64_t j = begin; j < keys; j++) {
    double s = 0;
    for (int64_t d = 0; d < a->size; d++) s += q_of(t, 0, b, h, i, d) * q_of(t, 1, b, h, j, d);
    t->p[j] = exp(s * (double)a->scale);
    sum += t->p[j];
  }
  for (int64_t d = 0; d < a->size; d++) {
    t->y[row + d] = 0;
    for (int64_t j = begin; j < keys; j++) t->y[row + d] += t->p[j] / sum * q_of(t, 2, b, h, j, d);
    delta += t->y[row + d] * (double)t->dy[row + d];
  }
  for (int64_t j = begin; j < keys; j++) {
    double dp = 0, p = t->p[j] / sum;
    for (int64_t d = 0; d < a->size; d++) {
      dp += (double)t->dy[row + d] * q_of(t, 2, b, h, j, d);
      *dq_of(t, 2, b, h, j, d) += p * (double)t->dy[row + d];
    }
    double ds = p * (dp - delta) * (double)a->scale;
    for (int64_t d = 0; d < a->size; d++) {
      *dq_of(t, 0, b, h, i, d) += ds * q_of(t, 1, b, h, j, d);
      *dq_of(t, 1, b, h, j, d) += ds * q_of(t, 0, b, h, i, d);
    }
  }
}

static void assert_close(const float *got, const double *wanted, int64_t count, double most,
                         const char *what) {
  for (int64_t i = 0; i < count; i++) {
    if (!(fabs((double)got[i] - wanted[i]) <= most)) {
      fail_msg("%s[%d] = %g, not %g", what, (int)i, (double)got[i], wanted[i]);
    }
  }
}

/* Documents of 1 to 150 rows, one of them as long as the tiles of keys. */
static int64_t *random_documents(const ull__attention *a) {
  int64_t *documents = calloc((size_t)(a->batch * a->time), sizeof *documents);
  uint32_t state = 12345;
  int64_t left = ULL__ATTENTION_KEYS + 3, number = -3;
  for (int64_t i = 0; i < a->batch * a->time; i++, left--) {
    if (left == 0 || (i % 7 == 0 && a->time < 100)) {
      state = state * 1664525u + 1013904223u;
      left = 1 + (state >> 16) % 150;
      number += (state >> 8) % 2 ? 1 : -40;
    }
    documents[i] = number;
  }
  return documents;
}

static void insert_operand(void **operands, int count, int at, void *operand) {
  for (int i = count - 1; i > at; i--) operands[i] = operands[i - 1];
  operands[at] = operand;
}

static void check_attention(ull__isa isa, const ull__attention *a) {
  int64_t elements = a->batch * a->time * a->heads * a->size, rows = a->batch * a->heads * a->time;
  int64_t most = ull__attention_backward_scratch_floats(a) + ull__attention_scratch_floats(a);
  float *qkv = random_floats(3 * elements, 21, 2), *dy = random_floats(elements, 22, 1);
  float *y = zero_floats(elements), *logsumexp = zero_floats(rows);
  float *dqkv = random_floats(3 * elements, 23, 1), *scratch = random_floats(64 * most, 24, 1);
  int64_t *documents = random_documents(a);
  plain_attention plain = {.a = a, .qkv = qkv, .dy = dy, .documents = documents};
  plain.p = calloc((size_t)a->time, sizeof(double));
  plain.y = calloc((size_t)elements, sizeof(double));
  plain.dqkv = calloc((size_t)elements * 3, sizeof(double));
  for (int64_t b = 0; b < a->batch; b++) {
    for (int64_t h = 0; h < a->heads; h++) {
      for (int64_t i = 0; i < a->time; i++) plain_row(&plain, b, h, i);
    }
  }
  void *forward[] = {qkv, y, logsumexp, scratch, NULL};
  void *backward[] = {qkv, y, logsumexp, dy, dqkv, scratch, NULL};
  if (a->has_documents) {
    insert_operand(forward, 5, 1, documents);
    insert_operand(backward, 7, 4, documents);
  }
  uint32_t more = a->has_documents;
  ull__launch_frame forward_frame = {forward, 4 + more, a},
                    backward_frame = {backward, 6 + more, a};
  assert_int_equal(attention[isa](&forward_frame), ULL_OK);
  assert_int_equal(attention_backward[isa](&backward_frame), ULL_OK);
  assert_close(y, plain.y, elements, 5e-6, "y");
  assert_close(dqkv, plain.dqkv, 3 * elements, 4e-5, "dqkv");
  free(documents);
  free(qkv);
  free(dy);
  free(y);
  free(logsumexp);
  free(dqkv);
  free(scratch);
  free(plain.p);
  free(plain.y);
  free(plain.dqkv);
}

static void test_attention(void **state) {
  (void)state;
  static const ull__attention cases[] = {
      {2, 5, 2, 4, true, 0.5f, false},     {1, 1, 1, 8, true, 0.3f, false},
      {1, 50, 3, 16, false, 0.25f, false}, {1, 200, 2, 64, true, 0.125f, false},
      {1, 531, 1, 20, true, 0.2f, false},  {1, 530, 1, 80, false, 0.1f, false},
      {2, 5, 2, 4, true, 0.5f, true},      {1, 1, 1, 8, true, 0.3f, true},
      {1, 50, 3, 16, false, 0.25f, true},  {2, 200, 2, 64, true, 0.125f, true},
      {1, 1131, 1, 20, true, 0.2f, true},  {1, 1130, 1, 40, false, 0.1f, true},
  };
  EACH_ISA(isa) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_attention(isa, &cases[i]);
  }
}

/* ---- cross entropy in chunks ---- */

typedef struct joint_result {
  float loss, *dx, *dw;
} joint_result;

static joint_result run_joint(ull__isa isa, const ull__linear_cross_entropy *l, float *x, float *w,
                              int64_t *target) {
  joint_result r = {.dx = zero_floats(l->rows * l->inputs),
                    .dw = zero_floats(l->classes * l->inputs)};
  float dloss = 2;
  double *workspace = malloc((size_t)(l->chunk * 8 + l->chunk * l->classes * 4 + 8000000));
  assert_non_null(workspace);
  void *operands[] = {x, w, target, &dloss, &r.loss, r.dx, r.dw, workspace};
  ull__launch_frame frame = {operands, 8, l};
  assert_int_equal(joint[isa](&frame), ULL_OK);
  free(workspace);
  return r;
}

static void test_chunks_do_not_change_rows(void **state) {
  (void)state;
  enum { ROWS = 37, K = 24, V = 101 };
  float *x = random_floats(ROWS * K, 31, 1), *w = random_floats(V * K, 32, 1);
  int64_t target[ROWS];
  for (int i = 0; i < ROWS; i++) target[i] = i % 5 == 0 ? -100 : i * 7 % V;
  EACH_ISA(isa) {
    ull__linear_cross_entropy whole = {ROWS, K, V, -100, 40}, parts = {ROWS, K, V, -100, 8};
    joint_result a = run_joint(isa, &whole, x, w, target), b = run_joint(isa, &parts, x, w, target);
    assert_true(a.loss == b.loss);
    assert_memory_equal(a.dx, b.dx, ROWS * K * sizeof *a.dx);
    for (int i = 0; i < V * K; i++) assert_true(fabsf(a.dw[i] - b.dw[i]) < 1e-6f);
    free(a.dx);
    free(a.dw);
    free(b.dx);
    free(b.dw);
  }
  free(x);
  free(w);
}

static void test_targets_outside_are_refused(void **state) {
  (void)state;
  float x[4] = {0}, w[8] = {0};
  int64_t target[2] = {1, 4};
  ull__linear_cross_entropy l = {2, 2, 4, -100, 8};
  float out[16], dloss = 1;
  double workspace[4000];
  void *operands[] = {x, w, target, &dloss, out, out + 1, out + 5, workspace};
  ull__launch_frame frame = {operands, 8, &l};
  EACH_ISA(isa) {
    assert_int_equal(joint[isa](&frame), ULL_ERROR_DATA);
  }
  assert_non_null(strstr(ull_error_last()->message, "target 4"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elements_are_accurate),
      cmocka_unit_test(test_elements_at_the_ends),
      cmocka_unit_test(test_instruction_sets_agree_on_elements),
      cmocka_unit_test(test_fused_is_unfused),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_products_do_not_depend_on_rows),
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_chunks_do_not_change_rows),
      cmocka_unit_test(test_targets_outside_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
