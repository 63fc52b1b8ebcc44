/* Cases of matrix products and sums. */
#include "support/operator_cases.h"

/* Rows as one to three leading dimensions. */
typedef struct rows {
  uint32_t rank; /* the last dimension included */
  int64_t dims[4];
} rows;

static rows pick_rows(subject *s) {
  rows r = {.rank = s->large ? 3 : (uint32_t)subject_pick(s, 2, 4)};
  for (uint32_t i = 0; i + 1 < r.rank; i++) r.dims[i] = s->large ? 32 : subject_pick(s, 1, 5);
  return r;
}

/* Every eighth is so wide that kernels which cut matrices into panels do. */
static int64_t pick_width(subject *s) {
  if (!s->large && !s->gradient && s->case_index % 8 == 7) return subject_pick(s, 150, 400);
  return s->large ? 512 : subject_channels(s) + subject_pick(s, 0, s->gradient ? 2 : 60);
}

static ull__value_id row_argument(subject *s, const char *name, const rows *r, int64_t width) {
  rows full = *r;
  full.dims[full.rank - 1] = width;
  const bool feed = s->feed;
  s->feed = false;
  const ull__value_id value = subject_argument(s, ARGUMENT_DATA, name, NULL, full.rank, full.dims);
  s->feed = feed;
  return value;
}

static ull__value_id weight(subject *s, bool transposed, int64_t n, int64_t k) {
  return subject_argument(s, ARGUMENT_WEIGHT, "w", NULL,
                          DIMS(transposed ? k : n, transposed ? n : k));
}

static void build_linear(subject *s) {
  const rows r = pick_rows(s);
  const int64_t n = pick_width(s), k = pick_width(s), transposed = s->case_index % 2;
  const ull__value_id x = row_argument(s, "x", &r, k), w = weight(s, transposed, n, k);
  ull__value_id b = ULL__NONE;
  const bool biased = s->case_index % 3 != 0;
  if (biased) b = subject_argument(s, ARGUMENT_WEIGHT, "b", NULL, DIMS(n));
  const ull__value_id inputs[] = {x, w, b};
  const ull__value_id y = subject_node(s, "linear", inputs, biased ? 3 : 2,
                                       SETTINGS(ULL__INT("transposed", transposed)), NULL);
  subject_compare(s, y, NEAR_NORM, 3e-6);
}

static void build_linear_backward_input(subject *s) {
  const rows r = pick_rows(s);
  const int64_t n = pick_width(s), k = pick_width(s), transposed = s->case_index % 2;
  const ull__value_id dy = row_argument(s, "dy", &r, n), w = weight(s, transposed, n, k);
  const ull__value_id dx = subject_node(s, "linear_backward_input", INPUTS(dy, w),
                                        SETTINGS(ULL__INT("transposed", transposed)), NULL);
  subject_compare(s, dx, NEAR_NORM, 3e-6);
}

static void build_linear_backward_weight(subject *s) {
  const rows r = pick_rows(s);
  const int64_t n = pick_width(s), k = pick_width(s), transposed = s->case_index % 2;
  const ull__value_id x = row_argument(s, "x", &r, k), dy = row_argument(s, "dy", &r, n);
  const ull__value_id dw = subject_node(s, "linear_backward_weight", INPUTS(x, dy),
                                        SETTINGS(ULL__INT("transposed", transposed)), NULL);
  subject_compare(s, dw, NEAR_NORM, 3e-6);
}

static void build_sum_to_axis(subject *s) {
  const int64_t dims[4] = {subject_batch(s), subject_channels(s), subject_spatial(s, 1),
                           subject_spatial(s, 1)};
  const uint32_t rank = s->large ? 4 : (uint32_t)subject_pick(s, 1, 4);
  const int64_t axis = subject_pick(s, -1, rank >= 2 ? 1 : 0);
  const ull__value_id x = subject_argument(s, ARGUMENT_DATA, "x", NULL, rank, dims);
  const ull__value_id y =
      subject_node(s, "sum_to_axis", INPUTS(x), SETTINGS(ULL__INT("axis", axis)), NULL);
  subject_compare(s, y, NEAR_NORM, 3e-6);
}

static ull__value_id matrix(subject *s, const char *name, const rows *r, bool transposed,
                            int64_t height, int64_t width) {
  rows full = *r;
  full.dims[full.rank - 2] = transposed ? width : height;
  return row_argument(s, name, &full, transposed ? height : width);
}

static void build_matmul(subject *s) {
  const rows r = pick_rows(s);
  const int64_t m = pick_width(s), k = pick_width(s), n = pick_width(s);
  const int64_t ta = s->case_index % 2, tb = s->case_index / 2 % 2;
  const ull__value_id a = matrix(s, "a", &r, ta, m, k), b = matrix(s, "b", &r, tb, k, n);
  const ull__value_id y =
      subject_node(s, "matmul", INPUTS(a, b),
                   SETTINGS(ULL__INT("transpose_a", ta), ULL__INT("transpose_b", tb)), NULL);
  subject_compare(s, y, NEAR_NORM, 3e-6);
}

const operator_case operator_cases_matrix[] = {
    {"linear", build_linear, true},
    {"linear_backward_input", build_linear_backward_input, false},
    {"linear_backward_weight", build_linear_backward_weight, false},
    {"sum_to_axis", build_sum_to_axis, false},
    {"matmul", build_matmul, true},
    {NULL, NULL, false},
};
