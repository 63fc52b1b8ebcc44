/* Matrix products by oneDNN against straightforward loops: every operator of the family and every
 * transposition, odd sizes, leading dimensions, bias; memory is NaN before it is written. Skipped
 * where the library's honest implementation does not exist (it needs AVX-512). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kernels/cpu/families.h"

/* Rows of a [rank <= 3] operand; C = A B with A [batch, m, k]. */
typedef struct product_case {
  const char *op;
  int64_t batch, m, n, k;
  int first, second; /* transposed; transpose_a and transpose_b */
  bool bias;
} product_case;

static const product_case cases[] = {
    {"linear", 1, 64, 10, 512, 0, 0, true},
    {"linear", 3, 7, 33, 17, 0, 0, false},
    {"linear", 2, 5, 24, 48, 1, 0, true},
    {"linear", 1, 1, 1, 1, 1, 0, true},
    {"linear", 1, 130, 1024, 300, 1, 0, true},
    {"linear_backward_input", 2, 9, 31, 20, 0, 0, false},
    {"linear_backward_input", 2, 9, 31, 20, 1, 0, false},
    {"linear_backward_weight", 4, 16, 19, 40, 0, 0, false},
    {"linear_backward_weight", 4, 16, 19, 40, 1, 0, false},
    {"matmul", 6, 20, 9, 33, 0, 0, false},
    {"matmul", 6, 20, 9, 33, 1, 0, false},
    {"matmul", 6, 20, 9, 33, 0, 1, false},
    {"matmul", 1, 65, 70, 5, 1, 1, false},
};

enum { MAX_OPERANDS = 4 };

typedef struct operand {
  uint32_t rank;
  int64_t dims[3], count;
  float *values;
} operand;

static operand make_operand(uint32_t rank, int64_t a, int64_t b, int64_t c, uint32_t *state) {
  operand o = {.rank = rank, .dims = {a, b, c}};
  if (rank == 2) memcpy(o.dims, (int64_t[]){b, c}, 2 * sizeof(int64_t));
  if (rank == 1) o.dims[0] = c;
  o.count = rank == 1 ? c : rank == 2 ? b * c : a * b * c;
  o.values = ull__alloc((size_t)o.count, sizeof(float));
  assert_non_null(o.values);
  for (int64_t i = 0; i < o.count; i++) {
    *state = *state * 1664525u + 1013904223u;
    o.values[i] = (float)(int32_t)(*state >> 8) / 8388608.0f - 1.0f;
  }
  return o;
}

/* ---- what is expected ---- */

static double dot(const float *a, int64_t a_step, const float *b, int64_t b_step, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (double)a[i * a_step] * b[i * b_step];
  return sum;
}

/* C[rows, columns] of A and B given by row and column steps. */
static void multiply(const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t b_k,
                     int64_t b_column, int64_t rows, int64_t columns, int64_t depth, double *c) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      c[i * columns + j] = dot(a + i * a_row, a_k, b + j * b_column, b_k, depth);
    }
  }
}

static void expect(const product_case *t, const operand *x, double *c) {
  const int64_t rows = t->batch * t->m, n = t->n, k = t->k;
  const float *a = x[0].values, *b = x[1].values;
  const bool t1 = t->first != 0, t2 = t->second != 0;
  if (strcmp(t->op, "linear") == 0) {
    multiply(a, k, 1, b, t1 ? n : 1, t1 ? 1 : k, rows, n, k, c);
    for (int64_t i = 0; t->bias && i < rows * n; i++) c[i] += x[2].values[i % n];
  } else if (strcmp(t->op, "linear_backward_input") == 0) {
    multiply(a, n, 1, b, t1 ? 1 : k, t1 ? n : 1, rows, k, n, c);
  } else if (strcmp(t->op, "linear_backward_weight") == 0 && t1) {
    multiply(a, 1, k, b, n, 1, k, n, rows, c);
  } else if (strcmp(t->op, "linear_backward_weight") == 0) {
    multiply(b, 1, n, a, k, 1, n, k, rows, c);
  } else {
    for (int64_t i = 0; i < t->batch; i++) {
      multiply(a + i * t->m * k, t1 ? 1 : k, t1 ? t->m : 1, b + i * k * n, t2 ? 1 : n, t2 ? k : 1,
               t->m, n, k, c + i * t->m * n);
    }
  }
}

/* ---- operands and attributes as the rows want them ---- */

static uint32_t make_operands(const product_case *t, operand *x) {
  uint32_t state = 11;
  const bool t1 = t->first != 0, t2 = t->second != 0;
  if (strcmp(t->op, "matmul") == 0) {
    x[0] = make_operand(3, t->batch, t1 ? t->k : t->m, t1 ? t->m : t->k, &state);
    x[1] = make_operand(3, t->batch, t2 ? t->n : t->k, t2 ? t->k : t->n, &state);
    return 2;
  }
  const bool from_x = strcmp(t->op, "linear_backward_input") != 0;
  x[0] = make_operand(3, t->batch, t->m, from_x ? t->k : t->n, &state);
  if (strcmp(t->op, "linear_backward_weight") == 0) {
    x[1] = make_operand(3, t->batch, t->m, t->n, &state);
    return 2;
  }
  x[1] = make_operand(2, 1, t1 ? t->k : t->n, t1 ? t->n : t->k, &state);
  if (t->bias) x[2] = make_operand(1, 1, 1, t->n, &state);
  return t->bias ? 3 : 2;
}

static ull__value_id add_node(const product_case *t, ull__graph *graph, const operand *x,
                              uint32_t count) {
  static const char *const names[] = {"a", "b", "c"};
  ull__value_id inputs[MAX_OPERANDS], output;
  const bool is_matmul = strcmp(t->op, "matmul") == 0;
  const ull__attribute_setting settings[] = {
      ULL__INT(is_matmul ? "transpose_a" : "transposed", t->first),
      ULL__INT("transpose_b", t->second)};
  for (uint32_t i = 0; i < count; i++) {
    const ull__shape shape = ull__shape_of(x[i].rank, x[i].dims);
    assert_int_equal(
        ull__graph_add_source(graph, ULL__ROLE_INPUT, names[i], ULL_FLOAT32, &shape, &inputs[i]),
        ULL_OK);
  }
  ull_status status =
      ull__graph_add_node(graph, t->op, t->op, inputs, count, settings, is_matmul ? 2 : 1, &output);
  if (status != ULL_OK) print_error("%s\n", ull_error_last()->message);
  assert_int_equal(status, ULL_OK);
  return output;
}

/* ---- running ---- */

static void choose(const product_case *t, ull__cpu *cpu, const ull__graph *graph,
                   ull__lowering_choice *choice) {
  static const ull__layout *const plain[ULL__MAX_INPUTS] = {&ull__layout_plain, &ull__layout_plain,
                                                            &ull__layout_plain, &ull__layout_plain};
  static const ull__layout *const none[ULL__MAX_OUTPUTS] = {NULL};
  const ull__lowering_query query = {graph, ull__graph_node(graph, 0), plain, none};
  for (const ull__cpu_rule *rule = ull__cpu_rules_onednn_matmul; rule->op != NULL; rule++) {
    if (strcmp(rule->op, t->op) != 0) continue;
    assert_int_equal(rule->choose(cpu, &query, choice), ULL_OK);
  }
}

static void launch(const ull__kernel *kernel, const operand *x, uint32_t count, float *c) {
  void *operands[MAX_OPERANDS + 2];
  uint32_t used = 0;
  for (uint32_t i = 0; i < count; i++) operands[used++] = x[i].values;
  operands[used++] = c;
  void *workspace = ull__alloc_aligned(64, kernel->workspace_bytes + 1);
  assert_non_null(workspace);
  memset(workspace, 0xFF, kernel->workspace_bytes);
  operands[used++] = workspace;
  assert_int_equal(kernel->prepare(kernel->constants), ULL_OK);
  assert_int_equal(kernel->entry(&(ull__launch_frame){operands, used, kernel->constants}), ULL_OK);
  ull__free(workspace);
}

static void run_case(const product_case *t, ull__provider *provider) {
  operand x[MAX_OPERANDS];
  ull__graph *graph;
  ull__lowering_choice choice = {.stores_inputs = 0};
  uint64_t elements;
  assert_int_equal(ull__graph_create("product", &graph), ULL_OK);
  const uint32_t count = make_operands(t, x);
  const ull__value_id output = add_node(t, graph, x, count);
  assert_int_equal(ull__shape_count(&ull__graph_value(graph, output)->shape, &elements), ULL_OK);
  float *found = ull__alloc(elements, sizeof *found);
  double *expected = ull__alloc(elements, sizeof *expected);
  memset(found, 0xFF, elements * sizeof *found);
  expect(t, x, expected);
  choose(t, (ull__cpu *)provider, graph, &choice);
  assert_non_null(choice.kernel.entry);
  launch(&choice.kernel, x, count, found);
  for (uint64_t i = 0; i < elements; i++) {
    if (!(fabs(found[i] - expected[i]) <= 1e-5 * (1 + fabs(expected[i])))) {
      fail_msg("%s m%lld n%lld k%lld [%llu] is %.9g, not %.9g", t->op, (long long)t->m,
               (long long)t->n, (long long)t->k, (unsigned long long)i, (double)found[i],
               expected[i]);
    }
  }
  for (uint32_t i = 0; i < count; i++) ull__free(x[i].values);
  ull__free(found);
  ull__free(expected);
  ull__graph_destroy(graph);
}

static void test_products(void **state) {
  (void)state;
  const ull__rates rates = {100e9, 10e9, 5e-6};
  ull__provider *provider;
  if (ull__cpu_isa() != ULL__ISA_AVX512) {
    print_message("skipped: BRGEMM needs AVX-512\n");
    skip();
  }
  assert_int_equal(ull__cpu_provider_create(2, &rates, &provider), ULL_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i], provider);
  ull__provider_destroy(provider);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
