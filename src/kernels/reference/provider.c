/* The reference provider: everything plain, no workspace, float32 and float64.
 *
 * The constants of a kernel are the call with everything but addresses; a launch fills those into a
 * copy of its own. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vector.h"
#include "kernels/reference/reference.h"

typedef struct reference_kernel {
  ull__reference_call call;
  ull__reference_function run;
  uint64_t copied_bytes; /* of a reorder */
} reference_kernel;

typedef struct reference_provider {
  ull__provider provider; /* first */
  ULL__VECTOR(reference_kernel *) kernels;
} reference_provider;

static const ull__reference_row *const families[] = {
#define XX(family) ull__reference_##family,
    ULL__REFERENCE_FAMILIES(XX)
#undef XX
};

static const ull__reference_row *find_row(const char *op) {
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
    for (const ull__reference_row *row = families[f]; row->op != NULL; row++) {
      if (strcmp(row->op, op) == 0) return row;
    }
  }
  return NULL;
}

static ull_status launch(const ull__launch_frame *frame) {
  const reference_kernel *kernel = frame->constants;
  ull__reference_call call = kernel->call;
  const uint32_t inputs = call.node.input_count;
  for (uint32_t i = 0; i < inputs; i++) call.inputs[i].data = frame->operands[i];
  for (uint32_t o = 0; o < call.node.output_count; o++) {
    call.outputs[o].data = frame->operands[inputs + o];
  }
  call.node.steps = call.steps;
  return kernel->run(&call);
}

static ull_status launch_copy(const ull__launch_frame *frame) {
  const reference_kernel *kernel = frame->constants;
  memmove(frame->operands[1], frame->operands[0], kernel->copied_bytes);
  return ULL_OK;
}

/* Memory that lives as long as the provider. */
static reference_kernel *add_kernel(reference_provider *reference) {
  if (ull__vector_reserve(&reference->kernels, 1) != ULL_OK) return NULL;
  reference_kernel *kernel = ull__alloc(1, sizeof *kernel);
  if (kernel != NULL) reference->kernels.items[reference->kernels.count++] = kernel;
  return kernel;
}

static ull_status describe(const ull__graph *graph, ull__value_id id, ull__tensor *out) {
  *out = (ull__tensor){0};
  if (id == ULL__NONE) return ULL_OK;
  const ull__value *value = ull__graph_value(graph, id);
  uint64_t count = 0;
  if (value->dtype == ULL_FLOAT16 || value->dtype == ULL_BFLOAT16) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "the reference kernels do not take %s",
                     ull_dtype_name(value->dtype));
  }
  ULL__TRY(ull__shape_count(&value->shape, &count));
  out->dtype = value->dtype;
  out->rank = value->shape.rank;
  out->count = (int64_t)count;
  for (uint32_t i = 0; i < out->rank; i++) out->dims[i] = value->shape.dims[i].constant;
  return ULL_OK;
}

static ull_status fill_call(const ull__lowering_query *query, ull__reference_call *call) {
  const ull__node *node = query->node;
  const int64_t batch = ull__graph_batch(query->graph);
  call->node = *node;
  call->node.inputs = call->node.outputs = NULL;
  call->node.name = call->node.module = call->node.source = "";
  call->batch = batch > 0 ? batch : 1;
  for (uint32_t s = 0; s < node->step_count; s++) call->steps[s] = node->steps[s];
  for (uint32_t i = 0; i < node->input_count; i++) {
    ULL__TRY(describe(query->graph, node->inputs[i], &call->inputs[i]));
  }
  for (uint32_t o = 0; o < node->output_count; o++) {
    ULL__TRY(describe(query->graph, node->outputs[o], &call->outputs[o]));
  }
  return ULL_OK;
}

/* Only what has the output's type and size: random state and channels may have as many bytes. */
static uint16_t overwritable(const ull__reference_call *call, uint16_t allowed) {
  for (uint32_t i = 0; i < call->node.input_count; i++) {
    const bool alike = call->inputs[i].dtype == call->outputs[0].dtype &&
                       call->inputs[i].count == call->outputs[0].count;
    if (!alike) allowed &= (uint16_t) ~(1u << i);
  }
  return allowed;
}

static ull_status choose(ull__provider *provider, const ull__lowering_query *query,
                         ull__lowering_choice *choice) {
  const ull__node *node = query->node;
  const ull__reference_row *row = find_row(node->op->name);
  if (row == NULL) {
    return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "no reference kernel for %s", node->op->name);
  }
  reference_kernel *kernel = add_kernel((reference_provider *)provider);
  if (kernel == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  kernel->run = row->run;
  ULL__TRY(fill_call(query, &kernel->call));
  for (uint32_t i = 0; i < node->input_count; i++) choice->input_layouts[i] = &ull__layout_plain;
  for (uint32_t o = 0; o < node->output_count; o++) choice->output_layouts[o] = &ull__layout_plain;
  choice->may_overwrite[0] = overwritable(&kernel->call, row->may_overwrite);
  const bool view = (node->op->flags & ULL__OP_VIEW) != 0;
  const ull__cost cost = ull__node_cost(query->graph, node);
  choice->kernel = (ull__kernel){.entry = launch,
                                 .constants = kernel,
                                 .seconds = view ? 0 : (cost.flops + cost.bytes) * 1e-9 + 1e-6};
  snprintf(choice->kernel.implementation, sizeof choice->kernel.implementation, "reference:%s",
           node->op->name);
  return ULL_OK;
}

static ull_status reorder(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                          const ull__layout *from, const ull__layout *to, ull__kernel *out) {
  if (from != to) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "the reference has plain layouts alone, not %s to %s",
                     from->name, to->name);
  }
  reference_kernel *kernel = add_kernel((reference_provider *)provider);
  if (kernel == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(ull__shape_bytes(shape, dtype, &kernel->copied_bytes));
  *out = (ull__kernel){.entry = launch_copy,
                       .constants = kernel,
                       .seconds = (double)kernel->copied_bytes * 1e-9,
                       .implementation = "reference:reorder"};
  return ULL_OK;
}

static void destroy(ull__provider *provider) {
  reference_provider *reference = (reference_provider *)provider;
  for (size_t i = 0; i < reference->kernels.count; i++) ull__free(reference->kernels.items[i]);
  ull__vector_free(&reference->kernels);
  ull__free(reference);
}

ull_status ull__reference_provider_create(ull__provider **out) {
  *out = NULL;
  reference_provider *reference = ull__alloc(1, sizeof *reference);
  if (reference == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  reference->provider = (ull__provider){.name = "reference",
                                        .choose = choose,
                                        .reorder = reorder,
                                        .destroy = destroy,
                                        .fingerprint = "reference"};
  *out = &reference->provider;
  return ULL_OK;
}
