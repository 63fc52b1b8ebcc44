/* Cases of element-wise operators, chains of them, and operators that keep every byte. */
#include "support/operator_cases.h"

#include "graph/ops/ops.h"

/* A shape of one to four dimensions. */
typedef struct any_shape {
  uint32_t rank;
  int64_t dims[4];
} any_shape;

static any_shape pick_shape(subject *s) {
  any_shape shape = {.rank = s->large ? 4 : (uint32_t)subject_pick(s, 1, 4)};
  shape.dims[0] = subject_batch(s);
  for (uint32_t i = 1; i < shape.rank; i++) {
    shape.dims[i] = i == 1 ? subject_channels(s) : subject_spatial(s, 1);
  }
  return shape;
}

static ull__value_id any_argument(subject *s, argument_kind kind, const char *name,
                                  subject_fill fill, const any_shape *shape) {
  return subject_argument(s, kind, name, fill, shape->rank, shape->dims);
}

static void unary(subject *s, const char *op, subject_fill fill, nearness nearness,
                  double tolerance) {
  const any_shape shape = pick_shape(s);
  const ull__value_id x = any_argument(s, ARGUMENT_DATA, "x", fill, &shape);
  subject_compare(s, subject_node(s, op, &x, 1, NULL, 0, NULL), nearness, tolerance);
}

static void binary(subject *s, const char *op, nearness nearness, double tolerance) {
  const any_shape shape = pick_shape(s);
  const ull__value_id a = any_argument(s, ARGUMENT_DATA, "a", NULL, &shape);
  const ull__value_id b = any_argument(s, ARGUMENT_DATA, "b", NULL, &shape);
  subject_compare(s, subject_node(s, op, INPUTS(a, b), NULL, 0, NULL), nearness, tolerance);
}

static double fill_wide(subject *s, int64_t index, int64_t count) {
  (void)count;
  return index % 7 == 0 ? subject_uniform(s, -30, 30) : subject_uniform(s, -4, 4);
}

static void build_add(subject *s) {
  binary(s, "add", NEAR_EQUAL, 0);
}

static void build_mul(subject *s) {
  binary(s, "mul", NEAR_EQUAL, 0);
}

static void build_relu(subject *s) {
  unary(s, "relu", fill_apart_from_zero, NEAR_EQUAL, 0);
}

static void build_tanh(subject *s) {
  unary(s, "tanh", fill_wide, NEAR_ELEMENT, 1e-6);
}

static void build_sigmoid(subject *s) {
  unary(s, "sigmoid", fill_wide, NEAR_ELEMENT, 1e-6);
}

static void build_copy(subject *s) {
  unary(s, "copy", NULL, NEAR_EQUAL, 0);
}

static void build_scale(subject *s) {
  const any_shape shape = pick_shape(s);
  const ull__value_id x = any_argument(s, ARGUMENT_DATA, "x", NULL, &shape);
  const double factor = subject_uniform(s, -2, 2);
  subject_compare(s,
                  subject_node(s, "scale", INPUTS(x), SETTINGS(ULL__REAL("factor", factor)), NULL),
                  NEAR_ELEMENT, 3e-7);
}

static void build_relu_backward(subject *s) {
  binary(s, "relu_backward", NEAR_EQUAL, 0);
}

static void build_tanh_backward(subject *s) {
  binary(s, "tanh_backward", NEAR_ELEMENT, 1e-6);
}

static void build_sigmoid_backward(subject *s) {
  binary(s, "sigmoid_backward", NEAR_ELEMENT, 1e-6);
}

static void build_gelu(subject *s) {
  const any_shape shape = pick_shape(s);
  const ull__value_id x = any_argument(s, ARGUMENT_DATA, "x", fill_wide, &shape);
  const ull__value_id y = subject_node(s, "gelu", INPUTS(x),
                                       SETTINGS(ULL__INT("approximate", s->case_index % 2)), NULL);
  subject_compare(s, y, NEAR_ELEMENT, 1e-6);
}

static void build_gelu_backward(subject *s) {
  const any_shape shape = pick_shape(s);
  const ull__value_id dy = any_argument(s, ARGUMENT_DATA, "dy", NULL, &shape);
  const ull__value_id x = any_argument(s, ARGUMENT_DATA, "x", fill_wide, &shape);
  const ull__value_id dx = subject_node(s, "gelu_backward", INPUTS(dy, x),
                                        SETTINGS(ULL__INT("approximate", s->case_index % 2)), NULL);
  subject_compare(s, dx, NEAR_ELEMENT, 2e-6);
}

static ull__value_id channel_operand(subject *s, argument_kind kind, const char *name,
                                     subject_fill fill, const any_shape *shape) {
  return subject_argument(s, kind, name, fill, 1,
                          &shape->dims[shape->rank == 4 ? 1 : shape->rank - 1]);
}

static void build_bias_add(subject *s) {
  const any_shape shape = pick_shape(s);
  const ull__value_id x = any_argument(s, ARGUMENT_DATA, "x", NULL, &shape);
  const ull__value_id c = channel_operand(s, ARGUMENT_WEIGHT, "c", NULL, &shape);
  subject_compare(s, subject_node(s, "bias_add", INPUTS(x, c), NULL, 0, NULL), NEAR_EQUAL, 0);
}

static ull__value_id random_state(subject *s) {
  return subject_integers(s, "rng", 0, 1 << 20, DIMS(4));
}

static void build_dropout(subject *s) {
  const any_shape shape = pick_shape(s);
  if (!s->gradient) s->batch = shape.dims[0];
  const ull__value_id x = any_argument(s, ARGUMENT_DATA, "x", NULL, &shape);
  s->batch = 0;
  const ull__value_id rng = random_state(s);
  const double p = s->case_index % 5 == 0 ? 0 : subject_uniform(s, 0.1, 0.9);
  const ull__value_id y =
      subject_node(s, "dropout", INPUTS(x, rng), SETTINGS(ULL__REAL("p", p)), NULL);
  if (!s->gradient) s->batch = shape.dims[0];
  subject_compare(s, y, NEAR_ELEMENT, 3e-7);
}

/* The bits lie as the provider likes: seen through what they are for. */
static void build_mask(subject *s) {
  const any_shape shape = pick_shape(s);
  const ull__value_id y = any_argument(s, ARGUMENT_DATA, "y", NULL, &shape);
  const ull__value_id dy = any_argument(s, ARGUMENT_DATA, "dy", NULL, &shape);
  const ull__value_id bits = subject_node(s, "relu_mask", &y, 1, NULL, 0, NULL);
  subject_compare(s, subject_node(s, "relu_backward_mask", INPUTS(dy, bits), NULL, 0, NULL),
                  NEAR_EQUAL, 0);
}

/* ---- chains ---- */

static ull__value_id add_random_step(subject *s, const any_shape *shape, ull__value_id x,
                                     ull__value_id rng, int index) {
  char name[16];
  snprintf(name, sizeof name, "operand%d", index);
  switch (subject_pick(s, 0, 8)) {
  case 0:
    return subject_node(s, "add", INPUTS(x, any_argument(s, ARGUMENT_DATA, name, NULL, shape)),
                        NULL, 0, NULL);
  case 1:
    return subject_node(s, "mul", INPUTS(any_argument(s, ARGUMENT_DATA, name, NULL, shape), x),
                        NULL, 0, NULL);
  case 2:
    return subject_node(s, "scale", INPUTS(x), SETTINGS(ULL__REAL("factor", 1.7)), NULL);
  case 3:
    return subject_node(s, "relu", &x, 1, NULL, 0, NULL);
  case 4:
    return subject_node(s, "tanh", &x, 1, NULL, 0, NULL);
  case 5:
    return subject_node(s, "sigmoid", &x, 1, NULL, 0, NULL);
  case 6:
    return subject_node(s, "gelu", INPUTS(x), SETTINGS(ULL__INT("approximate", index % 2)), NULL);
  case 7:
    return subject_node(s, "bias_add",
                        INPUTS(x, channel_operand(s, ARGUMENT_WEIGHT, name, NULL, shape)), NULL, 0,
                        NULL);
  default:
    return subject_node(s, "dropout", INPUTS(x, rng), SETTINGS(ULL__REAL("p", 0.3)), NULL);
  }
}

static void build_fused(subject *s) {
  const any_shape shape = pick_shape(s);
  s->fuse = true;
  ull__value_id x = any_argument(s, ARGUMENT_DATA, "x", NULL, &shape);
  const ull__value_id rng = random_state(s);
  const int steps = (int)subject_pick(s, 2, 6);
  for (int k = 0; k < steps; k++) x = add_random_step(s, &shape, x, rng, k);
  subject_compare(s, x, NEAR_ELEMENT, 1e-5);
}

/* ---- bytes that stay ---- */

static void build_reshape(subject *s) {
  const any_shape shape = pick_shape(s);
  const ull__value_id x = any_argument(s, ARGUMENT_DATA, "x", NULL, &shape);
  int64_t rest = 1;
  for (uint32_t i = 1; i < shape.rank; i++) rest *= shape.dims[i];
  const ull__shape flat = ull__shape_of(2, (int64_t[]){shape.dims[0], rest});
  ull__attribute_setting settings[ULL__RESHAPE_SETTINGS];
  ull__reshape_settings(&flat, settings);
  subject_compare(s, subject_node(s, "reshape", &x, 1, settings, ULL__RESHAPE_SETTINGS, NULL),
                  NEAR_EQUAL, 0);
}

/* Reorders are made by lowering: to blocks and back. */
static void build_reorder(subject *s) {
  s->feed = true;
  const int64_t n = subject_batch(s), c = subject_channels(s);
  const int64_t h = subject_spatial(s, 1), w = subject_spatial(s, 1);
  const ull__value_id x = subject_argument(s, ARGUMENT_FIXED, "x", NULL, DIMS(n, c, h, w));
  subject_compare(s, x, NEAR_EQUAL, 0);
}

const operator_case operator_cases_elementwise[] = {
    {"add", build_add, true},
    {"mul", build_mul, true},
    {"scale", build_scale, true},
    {"bias_add", build_bias_add, true},
    {"relu", build_relu, true},
    {"relu_backward", build_relu_backward, false},
    {"tanh", build_tanh, true},
    {"tanh_backward", build_tanh_backward, false},
    {"sigmoid", build_sigmoid, true},
    {"sigmoid_backward", build_sigmoid_backward, false},
    {"gelu", build_gelu, true},
    {"gelu_backward", build_gelu_backward, false},
    {"dropout", build_dropout, true},
    {"relu_mask", build_mask, false},
    {"relu_backward_mask", build_mask, false},
    {"fused_elementwise", build_fused, false},
    {"reshape", build_reshape, true},
    {"copy", build_copy, true},
    {"reorder", build_reorder, false},
    {NULL, NULL, false},
};
