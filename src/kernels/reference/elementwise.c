/* Element-wise operators, alone and in fused chains: one function for one element of one code. */
#include <math.h>
#include <string.h>

#include "kernels/dropout.h"
#include "kernels/reference/reference.h"

#define SQRT_2_OVER_PI 0.79788456080286535588
#define SQRT_HALF 0.70710678118654752440
#define GELU_CUBIC 0.044715

/* Where an element stands. */
typedef struct place {
  const ull__reference_call *call;
  const int64_t *rng;
  int64_t element, elements;
} place;

static double gelu_tanh(double x) {
  return 0.5 * x * (1 + tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)));
}

static double gelu_tanh_slope(double x) {
  const double t = tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x));
  const double inner = SQRT_2_OVER_PI * (1 + 3 * GELU_CUBIC * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}

static double gelu_erf(double x) {
  return 0.5 * x * (1 + erf(x * SQRT_HALF));
}

/* The normal distribution's function, and x times its density. */
static double gelu_erf_slope(double x) {
  const double density = exp(-0.5 * x * x) * 0.5 * SQRT_2_OVER_PI;
  return 0.5 * (1 + erf(x * SQRT_HALF)) + x * density;
}

static double dropped(const place *at, const ull__element_step *step, double x) {
  const int64_t sample_elements = at->elements / at->call->batch;
  const bool keeps = ull__dropout_keeps(at->rng, step->identity, step->immediate,
                                        (uint64_t)(at->element / sample_elements),
                                        (uint64_t)(at->element % sample_elements));
  return keeps ? x / (1 - step->immediate) : 0;
}

static double apply(const place *at, const ull__element_step *step, const double *v) {
  switch ((ull__element_code)step->code) {
  case ULL__ELEMENT_COPY:
    return v[0];
  case ULL__ELEMENT_ADD:
  case ULL__ELEMENT_BIAS:
    return v[0] + v[1];
  case ULL__ELEMENT_MUL:
    return v[0] * v[1];
  case ULL__ELEMENT_SCALE:
    return v[0] * step->immediate;
  case ULL__ELEMENT_NORMALIZE:
    return (v[0] - v[1]) * v[2] * v[3] + v[4];
  case ULL__ELEMENT_RELU:
    return v[0] <= 0 ? 0 : v[0];
  case ULL__ELEMENT_RELU_BACKWARD:
    return v[1] > 0 ? v[0] : 0;
  case ULL__ELEMENT_TANH:
    return tanh(v[0]);
  case ULL__ELEMENT_TANH_BACKWARD:
    return v[0] * (1 - v[1] * v[1]);
  case ULL__ELEMENT_SIGMOID:
    return 1 / (1 + exp(-v[0]));
  case ULL__ELEMENT_SIGMOID_BACKWARD:
    return v[0] * v[1] * (1 - v[1]);
  case ULL__ELEMENT_GELU_TANH:
    return gelu_tanh(v[0]);
  case ULL__ELEMENT_GELU_TANH_BACKWARD:
    return v[0] * gelu_tanh_slope(v[1]);
  case ULL__ELEMENT_GELU_ERF:
    return gelu_erf(v[0]);
  case ULL__ELEMENT_GELU_ERF_BACKWARD:
    return v[0] * gelu_erf_slope(v[1]);
  case ULL__ELEMENT_DROPOUT:
    return dropped(at, step, v[0]);
  case ULL__ELEMENT_NONE:
  case ULL__ELEMENT_CODES:
    break;
  }
  return NAN;
}

/* Channel of element i: dimension 1 of four, else the last. */
static int64_t channel_of(const ull__tensor *full, int64_t i) {
  const ull__axis axis = ull__axis_of(full, full->rank == 4 ? 1 : full->rank - 1);
  return i / axis.inner % axis.size;
}

static double read_operand(const ull__reference_call *call, const ull__element_step *step,
                           uint32_t k, int64_t i, const double *results) {
  const uint32_t operand = step->operands[k], inputs = call->node.input_count;
  if (operand >= inputs) return results[operand - inputs];
  if (step->code == ULL__ELEMENT_DROPOUT && k == 1) return 0;
  const bool channel = ull__element_operand_is_channel((ull__element_code)step->code, k);
  return ull__get(&call->inputs[operand], channel ? channel_of(&call->outputs[0], i) : i);
}

static double run_step(const ull__reference_call *call, const ull__element_step *step, int64_t i,
                       const double *results) {
  double operands[6] = {0};
  place at = {.call = call, .element = i, .elements = call->outputs[0].count};
  if (step->code == ULL__ELEMENT_DROPOUT) at.rng = call->inputs[step->operands[1]].data;
  for (uint32_t k = 0; k < step->operand_count; k++) {
    operands[k] = read_operand(call, step, k, i, results);
  }
  return apply(&at, step, operands);
}

static ull_status run_chain(const ull__reference_call *call, const ull__element_step *steps,
                            uint32_t count) {
  const ull__tensor *out = &call->outputs[0];
  for (int64_t i = 0; i < out->count; i++) {
    double results[ULL__MAX_ELEMENT_STEPS];
    for (uint32_t s = 0; s < count; s++) results[s] = run_step(call, &steps[s], i, results);
    ull__set(out, i, results[count - 1]);
  }
  return ULL_OK;
}

static ull_status run_fused(const ull__reference_call *call) {
  return run_chain(call, call->node.steps, call->node.step_count);
}

/* A single node is a chain of one step. */
static ull_status run_single(const ull__reference_call *call) {
  ull__element_step step = {.code = (uint8_t)ull__node_element_code(&call->node),
                            .operand_count = (uint8_t)call->node.input_count,
                            .identity = call->node.identity};
  for (uint8_t k = 0; k < step.operand_count; k++) step.operands[k] = k;
  if (step.code == ULL__ELEMENT_SCALE) step.immediate = ull__node_real(&call->node, "factor");
  if (step.code == ULL__ELEMENT_DROPOUT) step.immediate = ull__node_real(&call->node, "p");
  return run_chain(call, &step, 1);
}

static ull_status run_relu_mask(const ull__reference_call *call) {
  const ull__tensor *y = &call->inputs[0];
  uint8_t *bits = call->outputs[0].data;
  memset(bits, 0, (size_t)call->outputs[0].count);
  for (int64_t i = 0; i < y->count; i++) {
    if (ull__get(y, i) > 0) bits[i / 8] |= (uint8_t)(1u << (i % 8));
  }
  return ULL_OK;
}

static ull_status run_relu_backward_mask(const ull__reference_call *call) {
  const ull__tensor *dy = &call->inputs[0];
  const uint8_t *bits = call->inputs[1].data;
  for (int64_t i = 0; i < dy->count; i++) {
    ull__set(&call->outputs[0], i, bits[i / 8] >> (i % 8) & 1 ? ull__get(dy, i) : 0);
  }
  return ULL_OK;
}

#define SINGLE(name) \
  { name, run_single, UINT16_MAX }

const ull__reference_row ull__reference_elementwise[] = {
    SINGLE("add"),
    SINGLE("mul"),
    SINGLE("scale"),
    SINGLE("bias_add"),
    SINGLE("relu"),
    SINGLE("relu_backward"),
    SINGLE("tanh"),
    SINGLE("tanh_backward"),
    SINGLE("sigmoid"),
    SINGLE("sigmoid_backward"),
    SINGLE("gelu"),
    SINGLE("gelu_backward"),
    SINGLE("dropout"),
    SINGLE("batch_norm_normalize"),
    {"fused_elementwise", run_fused, UINT16_MAX},
    {"relu_mask", run_relu_mask, 0},
    {"relu_backward_mask", run_relu_backward_mask, UINT16_MAX},
    {NULL, NULL, 0},
};
