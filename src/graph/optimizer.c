/* Optimizer steps and accumulation, put where a parameter's gradient is complete and nothing reads
 * the parameter any more, so that no gradient lives longer than it must. */
#include <stdio.h>

#include "base/alloc.h"
#include "graph/copy.h"
#include "graph/hyper.h"
#include "graph/ops/ops.h"

typedef struct update {
  ull__value_id parameter, gradient; /* of the old graph */
  ull__node_id after;                /* the node behind which it goes */
} update;

typedef ULL__VECTOR(update) updates;

static ull_status format_name(const ull__graph *graph, ull__value_id value, const char *suffix,
                              char name[512]) {
  const char *base = ull__graph_value(graph, value)->name;
  if (snprintf(name, 512, "%s.%s", base, suffix) < 512) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID, "the name %.60s... is too long", base);
}

static bool is_parameter(const ull__value *value) {
  return value->role == ULL__ROLE_PARAMETER && value->producer == ULL__NONE;
}

static ull_status collect(const ull__graph *graph, const char *suffix, updates *out) {
  for (ull__value_id v = 0; v < graph->values.count; v++) {
    char name[512];
    if (!is_parameter(graph->values.items[v])) continue;
    ULL__TRY(format_name(graph, v, suffix, name));
    const ull__value_id gradient = ull__graph_find_value(graph, name);
    if (gradient == ULL__NONE) continue;
    const ull__node_id producer = graph->values.items[gradient]->producer;
    ULL__TRY(ull__vector_push(out, (update){v, gradient, producer}));
  }
  if (out->count > 0) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID, "graph %s has no parameter with a gradient", graph->name);
}

/* Readers of views of a parameter read its bytes too. */
static ull_status move_behind_readers(const ull__graph *graph, updates *list) {
  ull__node_id *last = ull__alloc(graph->values.count, sizeof *last);
  if (!last) return ULL_ERROR_OUT_OF_MEMORY;
  for (ull__node_id n = 0; n < graph->nodes.count; n++) {
    const ull__node *node = graph->nodes.items[n];
    for (uint32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] != ULL__NONE) last[ull__graph_view_origin(graph, node->inputs[i])] = n;
    }
  }
  for (size_t i = 0; i < list->count; i++) {
    update *u = &list->items[i];
    if (last[u->parameter] > u->after) u->after = last[u->parameter];
  }
  ull__free(last);
  return ULL_OK;
}

/* ---- the nodes ---- */

typedef struct optimizer_writer {
  ull__graph *graph;
  const ull__recipe *recipe;
  ull__value_id hyper;
} optimizer_writer;

static ull_status add_state(ull__graph *graph, ull__value_id parameter, const char *suffix,
                            ull__value_id *out) {
  char name[512];
  const ull__value *value = ull__graph_value(graph, parameter);
  ULL__TRY(format_name(graph, parameter, suffix, name));
  ULL__TRY(ull__graph_add_source(graph, ULL__ROLE_OPTIMIZER_STATE, name, value->dtype,
                                 &value->shape, out));
  return ull__graph_set_role(graph, *out, ULL__ROLE_OPTIMIZER_STATE, parameter);
}

static double decay_of(const optimizer_writer *writer, ull__value_id parameter) {
  const ull__value *value = ull__graph_value(writer->graph, parameter);
  const bool decays = writer->recipe->decay_all || value->shape.rank >= 2;
  return decays ? writer->recipe->weight_decay : 0;
}

static ull_status add_sgd(const optimizer_writer *writer, const char *name, ull__value_id parameter,
                          ull__value_id gradient) {
  const ull__attribute_setting settings[] = {ULL__REAL("weight_decay", decay_of(writer, parameter)),
                                             ULL__REAL("momentum", writer->recipe->momentum),
                                             ULL__INT("nesterov", writer->recipe->nesterov)};
  ull__value_id inputs[] = {parameter, gradient, writer->hyper, writer->hyper};
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  if (writer->recipe->momentum == 0) {
    return ull__graph_add_node(writer->graph, "sgd_step", name, inputs, 3, settings, 1, outputs);
  }
  ULL__TRY(add_state(writer->graph, parameter, "momentum", &inputs[2]));
  return ull__graph_add_node(writer->graph, "sgd_momentum_step", name, inputs, 4, settings, 3,
                             outputs);
}

static ull_status add_adam(const optimizer_writer *writer, const char *name,
                           ull__value_id parameter, ull__value_id gradient) {
  const ull__recipe *recipe = writer->recipe;
  const ull__attribute_setting settings[] = {
      ULL__REAL("weight_decay", decay_of(writer, parameter)), ULL__REAL("beta1", recipe->beta1),
      ULL__REAL("beta2", recipe->beta2), ULL__REAL("eps", recipe->eps),
      ULL__INT("decoupled", recipe->optimizer == ULL__ADAMW)};
  ull__value_id inputs[] = {parameter, gradient, ULL__NONE, ULL__NONE, writer->hyper};
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  ULL__TRY(add_state(writer->graph, parameter, "m", &inputs[2]));
  ULL__TRY(add_state(writer->graph, parameter, "v", &inputs[3]));
  return ull__graph_add_node(writer->graph, "adam_step", name, inputs, 5, settings, 5, outputs);
}

/* Parameter and gradient are of the graph that is written. */
static ull_status add_step(const optimizer_writer *writer, ull__value_id parameter,
                           ull__value_id gradient) {
  char name[512];
  const ull__value *value = ull__graph_value(writer->graph, parameter);
  ULL__TRY(format_name(writer->graph, parameter, "step", name));
  ULL__TRY(ull__graph_set_origin(writer->graph, value->module, value->source));
  ull__graph_set_phase(writer->graph, ULL__PHASE_OPTIMIZER);
  switch (writer->recipe->optimizer) {
  case ULL__SGD:
    return add_sgd(writer, name, parameter, gradient);
  case ULL__ADAM:
  case ULL__ADAMW:
    return add_adam(writer, name, parameter, gradient);
  }
  return ULL__FAIL(ULL_ERROR_INVALID, "there is no optimizer %d", (int)writer->recipe->optimizer);
}

static ull_status begin_writer(optimizer_writer *writer, ull_dtype parameter_dtype) {
  const int64_t count = ULL__HYPER_COUNT;
  const ull__shape shape = ull__shape_of(1, &count);
  const ull_dtype dtype = parameter_dtype == ULL_FLOAT64 ? ULL_FLOAT64 : ULL_FLOAT32;
  ULL__TRY(ull__graph_set_origin(writer->graph, "", ""));
  return ull__graph_add_source(writer->graph, ULL__ROLE_INPUT, "hyper", dtype, &shape,
                               &writer->hyper);
}

/* ---- the graphs ---- */

/* What goes behind a node: a step, or a sum where the writer has no recipe. */
typedef ull_status (*insert_function)(ull__copy *copy, void *context, const update *update);

static ull_status copy_with_updates(ull__copy *copy, const updates *list, insert_function insert,
                                    void *context) {
  for (ull__node_id n = 0; n < copy->from->nodes.count; n++) {
    ULL__TRY(ull__copy_node(copy, n));
    for (size_t i = 0; i < list->count; i++) {
      if (list->items[i].after == n) ULL__TRY(insert(copy, context, &list->items[i]));
    }
  }
  return ull__copy_outputs(copy);
}

static ull_status insert_step(ull__copy *copy, void *context, const update *update) {
  return add_step(context, copy->values[update->parameter], copy->values[update->gradient]);
}

static ull_status add_total(ull__graph *graph, ull__value_id parameter, ull__value_id *out) {
  ULL__TRY(add_state(graph, parameter, "grad_total", out));
  return ull__graph_set_role(graph, *out, ULL__ROLE_GRADIENT, parameter);
}

static ull_status insert_sum(ull__copy *copy, void *context, const update *update) {
  (void)context;
  const ull__value_id parameter = copy->values[update->parameter];
  const ull__value *value = ull__graph_value(copy->to, parameter);
  char name[512];
  ULL__TRY(format_name(copy->to, parameter, "accumulate", name));
  ULL__TRY(ull__graph_set_origin(copy->to, value->module, value->source));
  ull__graph_set_phase(copy->to, ULL__PHASE_OPTIMIZER);
  ull__value_id inputs[] = {ULL__NONE, copy->values[update->gradient]}, total;
  ULL__TRY(add_total(copy->to, parameter, &inputs[0]));
  return ull__graph_add_node(copy->to, "accumulate", name, inputs, 2, NULL, 0, &total);
}

static ull_status add_optimizer(ull__copy *copy, const ull__recipe *recipe, updates *list) {
  optimizer_writer writer = {.graph = copy->to, .recipe = recipe};
  ULL__TRY(collect(copy->from, "grad", list));
  ULL__TRY(move_behind_readers(copy->from, list));
  ULL__TRY(ull__copy_sources(copy));
  ULL__TRY(begin_writer(&writer, copy->from->values.items[list->items[0].parameter]->dtype));
  return copy_with_updates(copy, list, insert_step, &writer);
}

ull_status ull__graph_add_optimizer(const ull__graph *graph, const ull__recipe *recipe,
                                    ull__graph **out) {
  *out = NULL;
  ull__copy copy;
  updates list = {0};
  ULL__TRY(ull__copy_begin(&copy, graph));
  const ull_status status = add_optimizer(&copy, recipe, &list);
  ull__vector_free(&list);
  return ull__copy_end(&copy, status, out);
}

static ull_status add_accumulation(ull__copy *copy, updates *list) {
  ULL__TRY(collect(copy->from, "grad", list));
  ULL__TRY(ull__copy_sources(copy));
  return copy_with_updates(copy, list, insert_sum, NULL);
}

ull_status ull__graph_add_accumulation(const ull__graph *graph, ull__graph **out) {
  *out = NULL;
  ull__copy copy;
  updates list = {0};
  ULL__TRY(ull__copy_begin(&copy, graph));
  const ull_status status = add_accumulation(&copy, &list);
  ull__vector_free(&list);
  return ull__copy_end(&copy, status, out);
}

static ull_status make_update(ull__copy *copy, const ull__recipe *recipe, updates *list) {
  optimizer_writer writer = {.graph = copy->to, .recipe = recipe};
  ULL__TRY(collect(copy->from, "grad_total", list));
  for (size_t i = 0; i < list->count; i++) {
    ULL__TRY(ull__copy_source(copy, list->items[i].parameter));
    ULL__TRY(ull__copy_source(copy, list->items[i].gradient));
  }
  ULL__TRY(begin_writer(&writer, copy->from->values.items[list->items[0].parameter]->dtype));
  for (size_t i = 0; i < list->count; i++) ULL__TRY(insert_step(copy, &writer, &list->items[i]));
  return ULL_OK;
}

ull_status ull__graph_make_update(const ull__graph *accumulated, const ull__recipe *recipe,
                                  ull__graph **out) {
  *out = NULL;
  ull__copy copy;
  updates list = {0};
  ULL__TRY(ull__copy_begin(&copy, accumulated));
  const ull_status status = make_update(&copy, recipe, &list);
  ull__vector_free(&list);
  return ull__copy_end(&copy, status, out);
}
