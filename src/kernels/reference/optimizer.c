/* Optimizer steps by PyTorch's rules, written over what they update, and the sum over
 * micro-batches. */
#include <math.h>

#include "graph/hyper.h"
#include "kernels/reference/reference.h"

static double clipped(const ull__tensor *hyper, const ull__tensor *grad, int64_t i) {
  return ull__get(hyper, ULL__HYPER_CLIP) * ull__get(grad, i);
}

static ull_status run_sgd(const ull__reference_call *call) {
  const ull__tensor *param = &call->inputs[0], *grad = &call->inputs[1], *hyper = &call->inputs[2];
  const double decay = ull__node_real(&call->node, "weight_decay");
  const double rate = ull__get(hyper, ULL__HYPER_LR);
  for (int64_t i = 0; i < param->count; i++) {
    const double p = ull__get(param, i);
    ull__set(&call->outputs[0], i, p - rate * (clipped(hyper, grad, i) + decay * p));
  }
  return ULL_OK;
}

static ull_status run_sgd_momentum(const ull__reference_call *call) {
  const ull__tensor *param = &call->inputs[0], *grad = &call->inputs[1], *hyper = &call->inputs[3];
  const double momentum = ull__node_real(&call->node, "momentum");
  const double decay = ull__node_real(&call->node, "weight_decay");
  const double rate = ull__get(hyper, ULL__HYPER_LR);
  const bool nesterov = ull__node_int(&call->node, "nesterov") != 0;
  const bool first = ull__get(hyper, ULL__HYPER_FIRST_STEP) != 0;
  for (int64_t i = 0; i < param->count; i++) {
    const double p = ull__get(param, i);
    const double g = clipped(hyper, grad, i) + decay * p;
    const double buffer = first ? g : momentum * ull__get(&call->inputs[2], i) + g;
    ull__set(&call->outputs[0], i, p - rate * (nesterov ? g + momentum * buffer : buffer));
    ull__set(&call->outputs[1], i, buffer);
  }
  return ULL_OK;
}

static ull_status run_adam(const ull__reference_call *call) {
  const ull__tensor *param = &call->inputs[0], *grad = &call->inputs[1], *hyper = &call->inputs[4];
  const double beta1 = ull__node_real(&call->node, "beta1");
  const double beta2 = ull__node_real(&call->node, "beta2");
  const double eps = ull__node_real(&call->node, "eps");
  const double decay = ull__node_real(&call->node, "weight_decay");
  const double rate = ull__get(hyper, ULL__HYPER_LR);
  const bool decoupled = ull__node_int(&call->node, "decoupled") != 0;
  for (int64_t i = 0; i < param->count; i++) {
    const double p = ull__get(param, i);
    const double g = clipped(hyper, grad, i) + (decoupled ? 0 : decay * p);
    const double m = beta1 * ull__get(&call->inputs[2], i) + (1 - beta1) * g;
    const double v = beta2 * ull__get(&call->inputs[3], i) + (1 - beta2) * g * g;
    const double deviation = sqrt(v) * ull__get(hyper, ULL__HYPER_BIAS2) + eps;
    const double decayed = decoupled ? p - rate * decay * p : p;
    ull__set(&call->outputs[0], i,
             decayed - rate * ull__get(hyper, ULL__HYPER_BIAS1) * m / deviation);
    ull__set(&call->outputs[1], i, m);
    ull__set(&call->outputs[2], i, v);
  }
  return ULL_OK;
}

static ull_status run_accumulate(const ull__reference_call *call) {
  for (int64_t i = 0; i < call->inputs[0].count; i++) {
    const double total = ull__get(&call->inputs[0], i);
    ull__set(&call->outputs[0], i, total + ull__get(&call->inputs[1], i));
  }
  return ULL_OK;
}

const ull__reference_row ull__reference_optimizer[] = {
    {"sgd_step", run_sgd, 0},
    {"sgd_momentum_step", run_sgd_momentum, 0},
    {"adam_step", run_adam, 0},
    {"accumulate", run_accumulate, 0},
    {NULL, NULL, 0},
};
