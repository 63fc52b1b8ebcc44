/* Optimizer steps, written over what they update, and the sum over micro-batches. */
#include <math.h>

#include "graph/hyper.h"
#include "graph/ops/ops.h"

static const ull__attribute_spec sgd_attributes[] = {ULL__ATTRIBUTE_REAL("weight_decay", 0), {0}};
static const ull__attribute_spec momentum_attributes[] = {ULL__ATTRIBUTE_REAL("momentum", 0.9),
                                                          ULL__ATTRIBUTE_REAL("weight_decay", 0),
                                                          ULL__ATTRIBUTE_INT("nesterov", 0),
                                                          {0}};
static const ull__attribute_spec adam_attributes[] = {
    ULL__ATTRIBUTE_REAL("beta1", 0.9),  ULL__ATTRIBUTE_REAL("beta2", 0.999),
    ULL__ATTRIBUTE_REAL("eps", 1e-8),   ULL__ATTRIBUTE_REAL("weight_decay", 0),
    ULL__ATTRIBUTE_INT("decoupled", 0), {0}};

static ull_status check_attributes(const ull__inference *inference) {
  const ull__attribute_spec *spec = inference->node->op->attributes;
  for (uint32_t i = 0; spec && spec[i].name; i++) {
    const ull__attribute value = inference->node->attributes[i];
    if (!spec[i].is_real) {
      ULL__TRY(ull__infer_int_between(inference, spec[i].name, 0, 1, NULL));
    } else if (!(value.f >= 0 && isfinite(value.f))) {
      return ull__infer_invalid(inference, "%s is %g", spec[i].name, value.f);
    }
  }
  return ULL_OK;
}

/* All but `hyper`, the last input, have the parameter's shape. */
static ull_status infer_step(ull__inference *inference) {
  const uint32_t last = inference->node->input_count - 1;
  ULL__TRY(check_attributes(inference));
  ULL__TRY(ull__infer_floats(inference, UINT32_MAX));
  for (uint32_t i = 1; i < last; i++) ULL__TRY(ull__infer_same_shape(inference, 0, i));
  ULL__TRY(ull__infer_vector(inference, last, ull__dim_of(ULL__HYPER_COUNT)));
  for (uint32_t o = 0; o < inference->node->op->outputs; o++) ull__infer_like(inference, o, 0);
  return ULL_OK;
}

static ull__cost step_cost(const ull__graph *graph, const ull__node *node) {
  return ull__cost_flops(graph, node, 10 * ull__value_elements(graph, node->inputs[0]));
}

#define STEP(name_, inputs_, outputs_)                                                      \
  .name = (name_), .min_inputs = (inputs_), .max_inputs = (inputs_), .outputs = (outputs_), \
  .flags = ULL__OP_ONCE, .batch_rule = ULL__BATCH_FREE

const ull__operator ull__ops_optimizer[] = {
    {STEP("sgd_step", 3, 1), .attributes = sgd_attributes, .updates = {1}, .infer = infer_step,
     .cost = step_cost},
    {STEP("sgd_momentum_step", 4, 2), .attributes = momentum_attributes, .updates = {1, 3},
     .infer = infer_step, .cost = step_cost},
    {STEP("adam_step", 5, 3), .attributes = adam_attributes, .updates = {1, 3, 4},
     .infer = infer_step, .cost = step_cost},
    {STEP("accumulate", 2, 1), .updates = {1}, .infer = ull__infer_like_first_two},
};
ULL__OP_COUNT(optimizer);
