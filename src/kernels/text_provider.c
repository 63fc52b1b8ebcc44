/* Lowering for machines nobody here owns: plain layouts, no workspace, roofline times. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernels/lowering.h"

typedef struct text_provider {
  ull__provider provider; /* first */
  ull__rates rates;
} text_provider;

static double roofline(const ull__rates *rates, double flops, double bytes) {
  double compute = rates->flops_per_second > 0 ? flops / rates->flops_per_second : 0;
  double memory = rates->bytes_per_second > 0 ? bytes / rates->bytes_per_second : 0;
  return (compute > memory ? compute : memory) + rates->launch_seconds;
}

static double operand_bytes(const ull__graph *graph, const ull__node *node) {
  double total = 0;
  for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
    ull__value_id id =
        i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
    uint64_t bytes;
    if (id == ULL__NONE) continue;
    const ull__value *value = ull__graph_value(graph, id);
    if (ull__shape_bytes(&value->shape, value->dtype, &bytes) == ULL_OK) total += (double)bytes;
  }
  return total;
}

static ull_status choose(ull__provider *provider, const ull__lowering_query *query,
                         ull__lowering_choice *choice) {
  const ull__rates *rates = &((text_provider *)provider)->rates;
  const ull__node *node = query->node;
  for (uint32_t i = 0; i < node->input_count; i++) choice->input_layouts[i] = &ull__layout_plain;
  for (uint32_t o = 0; o < node->output_count; o++) {
    choice->output_layouts[o] = &ull__layout_plain;
    choice->may_overwrite[o] = UINT16_MAX;
  }
  ull__cost cost = {.bytes = operand_bytes(query->graph, node)};
  if (node->op->cost != NULL) cost = node->op->cost(query->graph, node);
  bool view = (node->op->flags & ULL__OP_VIEW) != 0;
  choice->kernel.seconds = view ? 0 : roofline(rates, cost.flops, cost.bytes);
  snprintf(choice->kernel.implementation, sizeof choice->kernel.implementation, "text:%s",
           node->op->name);
  return ULL_OK;
}

static ull_status reorder(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                          const ull__layout *from, const ull__layout *to, ull__kernel *kernel) {
  (void)provider, (void)dtype, (void)shape, (void)kernel;
  return ULL__FAIL(ULL_ERROR_INTERNAL, "a text machine has plain layouts alone, not %s to %s",
                   from->name, to->name);
}

static void destroy(ull__provider *provider) {
  ull__free(provider);
}

ull_status ull__text_provider_create(const ull__rates *rates, ull__provider **out) {
  text_provider *text = ull__alloc(1, sizeof *text);
  *out = NULL;
  if (text == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  text->rates = *rates;
  text->provider = (ull__provider){.name = "text",
                                   .choose = choose,
                                   .reorder = reorder,
                                   .destroy = destroy,
                                   .fingerprint = "text"};
  *out = &text->provider;
  return ULL_OK;
}
