/* A chain of element-wise nodes in one node; made by fusion only, never by models. The first
 * operand of the first step is an input with the shape and type of the result. */
#include "graph/ops/ops.h"

static ull_status check_operand(const ull__inference *inference, const ull__element_step *step,
                                uint32_t operand) {
  const uint32_t inputs = inference->node->input_count;
  const uint8_t at = step->operands[operand];
  if (at >= inputs) return ULL_OK;
  const ull__shape *full = ull__infer_shape(inference, inference->node->steps[0].operands[0]);
  const ull__shape *shape = ull__infer_shape(inference, at);
  if (step->code == ULL__ELEMENT_DROPOUT && operand == 1) return ull__infer_ids(inference, at);
  if (ull__element_operand_is_channel((ull__element_code)step->code, operand)) {
    return ull__infer_vector(inference, at, full->dims[ull__channel_axis(full)]);
  }
  if (ull__shape_equal(shape, full)) return ULL_OK;
  return ull__infer_invalid(inference, "operand %u has another shape", at);
}

static ull_status check_step(const ull__inference *inference, uint32_t index) {
  const ull__element_step *step = &inference->node->steps[index];
  const uint32_t defined = inference->node->input_count + index;
  if (step->code == ULL__ELEMENT_NONE || step->code >= ULL__ELEMENT_CODES ||
      step->operand_count == 0 || step->operand_count > 6) {
    return ull__infer_invalid(inference, "step %u is no element-wise operation", index);
  }
  for (uint32_t k = 0; k < step->operand_count; k++) {
    if (step->operands[k] >= defined) {
      return ull__infer_invalid(inference, "step %u reads operand %u of %u", index,
                                step->operands[k], defined);
    }
    ULL__TRY(check_operand(inference, step, k));
  }
  return ULL_OK;
}

static ull_status infer_fused(ull__inference *inference) {
  const ull__node *node = inference->node;
  if (node->step_count == 0 || node->step_count > ULL__MAX_ELEMENT_STEPS ||
      node->steps[0].operands[0] >= node->input_count) {
    return ull__infer_invalid(inference, "a chain of %u steps", node->step_count);
  }
  uint32_t floats = 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (ull__infer_input(inference, i)->dtype != ULL_INT64) floats |= 1u << i;
  }
  ULL__TRY(ull__infer_floats(inference, floats));
  for (uint32_t s = 0; s < node->step_count; s++) ULL__TRY(check_step(inference, s));
  ull__infer_like(inference, 0, node->steps[0].operands[0]);
  return ULL_OK;
}

static ull__cost fused_cost(const ull__graph *graph, const ull__node *node) {
  const double elements = ull__value_elements(graph, node->outputs[0]);
  return ull__cost_flops(graph, node, 2 * elements * node->step_count);
}

const ull__operator ull__ops_fused[] = {
    {.name = "fused_elementwise",
     .min_inputs = 1,
     .max_inputs = ULL__MAX_INPUTS,
     .outputs = 1,
     .flags = ULL__OP_ELEMENTWISE,
     .batch_rule = ULL__BATCH_PER_SAMPLE,
     .overwrites = {0xffff},
     .element_code = ULL__ELEMENT_NONE,
     .infer = infer_fused,
     .cost = fused_cost},
};
ULL__OP_COUNT(fused);

ull__element_code ull__node_element_code(const ull__node *node) {
  const ull__element_code code = (ull__element_code)node->op->element_code;
  if (code == ULL__ELEMENT_GELU_ERF && ull__node_int(node, "approximate")) {
    return ULL__ELEMENT_GELU_TANH;
  }
  if (code == ULL__ELEMENT_GELU_ERF_BACKWARD && ull__node_int(node, "approximate")) {
    return ULL__ELEMENT_GELU_TANH_BACKWARD;
  }
  return code;
}
