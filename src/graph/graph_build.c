/* Adding values and nodes. Every value that enters a graph has been through `check_shape`, so the
 * stages may take non-negative dimensions and countable elements for granted. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph_internal.h"

ull_status ull__graph_set_origin(ull__graph *graph, const char *module, const char *source) {
  const char *module_copy = ull__graph_string(graph, module);
  const char *source_copy = ull__graph_string(graph, source);
  if (!module_copy || !source_copy) return ULL_ERROR_OUT_OF_MEMORY;
  graph->module = module_copy;
  graph->source = source_copy;
  return ULL_OK;
}

void ull__graph_set_phase(ull__graph *graph, ull__phase phase) {
  graph->phase = phase;
}

void ull__graph_set_identity(ull__graph *graph, ull__node_id node, uint64_t identity) {
  if (node < graph->nodes.count) graph->nodes.items[node]->identity = identity;
}

void ull__graph_set_alternative(ull__graph *graph, ull__node_id node, ull__node_id primary) {
  if (node < graph->nodes.count) graph->nodes.items[node]->alternative_of = primary;
}

ull_status ull__graph_set_role(ull__graph *graph, ull__value_id value, ull__role role,
                               ull__value_id subject) {
  if (value >= graph->values.count) {
    return ULL__FAIL(ULL_ERROR_INVALID, "graph %s has no value %u", graph->name, value);
  }
  graph->values.items[value]->role = role;
  graph->values.items[value]->subject = subject;
  return ULL_OK;
}

ull_status ull__graph_add_output(ull__graph *graph, const char *name, ull__value_id value) {
  if (value >= graph->values.count) {
    return ULL__FAIL(ULL_ERROR_INVALID, "output %s of graph %s is no value", name, graph->name);
  }
  if (ull__graph_find_output(graph, name) != ULL__NONE) {
    return ULL__FAIL(ULL_ERROR_INVALID, "graph %s has two outputs %s", graph->name, name);
  }
  const char *copy = ull__graph_string(graph, name);
  if (!copy) return ULL_ERROR_OUT_OF_MEMORY;
  return ull__vector_push(&graph->outputs, (ull__output){copy, value});
}

/* NULL with a record when memory is out. The name itself, or `name.2`, `name.3`, ... */
static const char *unused_name(ull__graph *graph, const ull__text_map *names, const char *name) {
  if (!ull__text_map_find(names, name)) return ull__graph_string(graph, name);
  const size_t size = strlen(name) + 16;
  char *text = ull__graph_memory(graph, size, 1);
  if (!text) return NULL;
  for (uint32_t number = 2;; number++) {
    snprintf(text, size, "%s.%u", name, number);
    if (!ull__text_map_find(names, text)) return text;
  }
}

static ull_status check_shape(const char *name, ull_dtype dtype, const ull__shape *shape) {
  if (shape->rank > ULL__MAX_RANK) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%s has %u dimensions; at most %d are possible", name,
                     shape->rank, ULL__MAX_RANK);
  }
  if ((unsigned)dtype >= ULL_DTYPE_COUNT) {
    return ULL__FAIL(ULL_ERROR_INVALID, "%s has no known element type", name);
  }
  for (uint32_t i = 0; i < shape->rank; i++) {
    const ull__dim dim = shape->dims[i];
    if (dim.constant < 0 || dim.batch < 0 || (dim.constant == 0 && dim.batch == 0)) {
      char text[512];
      return ULL__FAIL(ULL_ERROR_INVALID, "%s has an empty or negative dimension: %s", name,
                       ull__shape_text(shape, text, sizeof text));
    }
  }
  ull__dim elements;
  uint64_t bytes;
  ull_status status = ull__shape_elements(shape, &elements);
  if (status == ULL_OK && elements.batch == 0) status = ull__shape_bytes(shape, dtype, &bytes);
  return status == ULL_OK ? ULL_OK : ull__error_context("%s", name);
}

static ull_status push_value(ull__graph *graph, const ull__value *prototype, ull__value_id *out) {
  ULL__TRY(check_shape(prototype->name, prototype->dtype, &prototype->shape));
  ull__value *value = ull__graph_memory(graph, 1, sizeof *value);
  if (!value) return ULL_ERROR_OUT_OF_MEMORY;
  *value = *prototype;
  value->name = unused_name(graph, &graph->value_names, prototype->name);
  if (!value->name) return ULL_ERROR_OUT_OF_MEMORY;
  const uint32_t id = (uint32_t)graph->values.count;
  ULL__TRY(ull__text_map_put(&graph->value_names, value->name, id));
  ULL__TRY(ull__vector_push(&graph->values, value));
  *out = id;
  return ULL_OK;
}

static bool name_is_fixed(ull__role role) {
  return role == ULL__ROLE_INPUT || role == ULL__ROLE_PARAMETER || role == ULL__ROLE_STATE;
}

ull_status ull__graph_add_source(ull__graph *graph, ull__role role, const char *name,
                                 ull_dtype dtype, const ull__shape *shape, ull__value_id *out) {
  *out = ULL__NONE;
  if (!name || !*name) return ULL__FAIL(ULL_ERROR_INVALID, "a value without a name");
  if (name_is_fixed(role) && ull__text_map_find(&graph->value_names, name)) {
    return ULL__FAIL(ULL_ERROR_INVALID, "graph %s has two values named %s", graph->name, name);
  }
  return push_value(graph,
                    &(ull__value){.name = name,
                                  .dtype = dtype,
                                  .role = role,
                                  .shape = *shape,
                                  .producer = ULL__NONE,
                                  .module = graph->module,
                                  .source = graph->source,
                                  .subject = ULL__NONE},
                    out);
}

ull_status ull__graph_add_constant(ull__graph *graph, const char *name, ull_dtype dtype,
                                   const ull__shape *shape, const void *bytes, ull__value_id *out) {
  *out = ULL__NONE;
  uint64_t size = 0;
  ULL__TRY(ull__shape_bytes(shape, dtype, &size));
  ULL__TRY(ull__graph_add_source(graph, ULL__ROLE_CONSTANT, name, dtype, shape, out));
  void *copy = ull__graph_memory(graph, size, 1);
  if (!copy) return ULL_ERROR_OUT_OF_MEMORY;
  graph->values.items[*out]->constant = memcpy(copy, bytes, size);
  return ULL_OK;
}

ull_status ull__graph_rename_value(ull__graph *graph, ull__value_id value, const char *name) {
  if (ull__text_map_find(&graph->value_names, name)) {
    return ULL__FAIL(ULL_ERROR_INVALID, "graph %s has two values named %s", graph->name, name);
  }
  const char *copy = ull__graph_string(graph, name);
  if (!copy) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(ull__text_map_put(&graph->value_names, copy, value));
  graph->values.items[value]->name = copy;
  return ULL_OK;
}

/* " [B, 3, 8, 8], -, [4]" */
static void print_inputs(const ull__graph *graph, const ull__node *node, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (uint32_t i = 0; i < node->input_count && used + 1 < size; i++) {
    char shape[512] = "-";
    const ull__value *value = ull__graph_value(graph, node->inputs[i]);
    if (value) ull__shape_text(&value->shape, shape, sizeof shape);
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : " ", shape);
  }
}

ull_status ull__node_invalid(const ull__graph *graph, const ull__node *node, const char *format,
                             ...) {
  char reason[256], inputs[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  print_inputs(graph, node, inputs, sizeof inputs);
  ULL__FAIL(ULL_ERROR_INVALID, "%s `%s`: %s; inputs%s", node->op->name, node->name, reason, inputs);
  return ull__error_holder("%s", node->module[0] ? node->module : node->name);
}

/* FNV-1a: the identity of a node is its name, so that a graph built again draws the same masks. */
static uint64_t hash_name(const char *name) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  return hash;
}

static ull_status check_arity(const ull__graph *graph, const ull__node *node) {
  const ull__operator *op = node->op;
  if (node->input_count < op->min_inputs || node->input_count > op->max_inputs ||
      node->input_count > ULL__MAX_INPUTS) {
    return ull__node_invalid(graph, node, "%u inputs where %u to %u are possible",
                             node->input_count, op->min_inputs, op->max_inputs);
  }
  for (uint32_t i = 0; i < node->input_count; i++) {
    const ull__value_id input = node->inputs[i];
    if (input == ULL__NONE && i >= op->min_inputs) continue;
    if (input >= graph->values.count) {
      return ull__node_invalid(graph, node, "input %u is missing", i);
    }
  }
  return ULL_OK;
}

static ull_status copy_lists(ull__graph *graph, ull__node *node) {
  ull__value_id *inputs = ull__graph_memory(graph, node->input_count + 1, sizeof *inputs);
  ull__value_id *outputs = ull__graph_memory(graph, node->op->outputs, sizeof *outputs);
  ull__element_step *steps = ull__graph_memory(graph, node->step_count, sizeof *steps);
  if (!inputs || !outputs || !steps) return ULL_ERROR_OUT_OF_MEMORY;
  if (node->input_count) memcpy(inputs, node->inputs, node->input_count * sizeof *inputs);
  if (node->step_count) memcpy(steps, node->steps, node->step_count * sizeof *steps);
  node->inputs = inputs;
  node->outputs = outputs;
  node->steps = node->step_count ? steps : NULL;
  return ULL_OK;
}

static ull_status add_node_outputs(ull__graph *graph, ull__node *node, const ull__inference *shapes,
                                   const char *const *names, ull__value_id *outputs) {
  for (uint32_t o = 0; o < node->op->outputs; o++) {
    char name[512];
    snprintf(name, sizeof name, o ? "%s.%u" : "%s", node->name, o);
    ULL__TRY(push_value(graph,
                        &(ull__value){.name = names ? names[o] : name,
                                      .dtype = shapes->dtypes[o],
                                      .role = ULL__ROLE_ACTIVATION,
                                      .shape = shapes->shapes[o],
                                      .producer = (ull__node_id)graph->nodes.count,
                                      .output_index = o,
                                      .module = node->module,
                                      .source = node->source,
                                      .subject = ULL__NONE},
                        &outputs[o]));
  }
  return ULL_OK;
}

ull_status ull__graph_append(ull__graph *graph, const ull__node *prototype,
                             const char *const *output_names, ull__value_id *outputs) {
  ull__node *node = ull__graph_memory(graph, 1, sizeof *node);
  if (!node) return ULL_ERROR_OUT_OF_MEMORY;
  *node = *prototype;
  node->output_count = node->op->outputs;
  node->module = ull__graph_string(graph, prototype->module);
  node->source = ull__graph_string(graph, prototype->source);
  if (!node->module || !node->source) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(check_arity(graph, node));
  ULL__TRY(copy_lists(graph, node));
  ull__inference inference = {.graph = graph, .node = node};
  ULL__TRY(node->op->infer(&inference));
  node->name = unused_name(graph, &graph->node_names, prototype->name);
  if (!node->name) return ULL_ERROR_OUT_OF_MEMORY;
  if (node->identity == 0) node->identity = hash_name(node->name);
  ull__value_id *ids = (ull__value_id *)node->outputs;
  ULL__TRY(add_node_outputs(graph, node, &inference, output_names, ids));
  for (uint32_t o = 0; o < node->output_count; o++) outputs[o] = ids[o];
  ULL__TRY(ull__text_map_put(&graph->node_names, node->name, (uint32_t)graph->nodes.count));
  return ull__vector_push(&graph->nodes, node);
}

static ull_status apply_settings(ull__node *node, const ull__attribute_setting *settings,
                                 uint32_t count) {
  for (uint32_t i = 0; node->op->attributes && node->op->attributes[i].name; i++) {
    node->attributes[i] = node->op->attributes[i].standard;
  }
  for (uint32_t i = 0; i < count; i++) {
    const int index = ull__operator_attribute(node->op, settings[i].name);
    if (index < 0) {
      return ULL__FAIL(ULL_ERROR_INVALID, "%s `%s` has no attribute %s", node->op->name, node->name,
                       settings[i].name);
    }
    node->attributes[index] = settings[i].value;
  }
  return ULL_OK;
}

ull_status ull__graph_add_node(ull__graph *graph, const char *op, const char *name,
                               const ull__value_id *inputs, uint32_t input_count,
                               const ull__attribute_setting *settings, uint32_t setting_count,
                               ull__value_id *outputs) {
  ull__node node = {.op = ull__operator_find(op),
                    .name = name,
                    .module = graph->module,
                    .source = graph->source,
                    .phase = graph->phase,
                    .input_count = input_count,
                    .inputs = inputs,
                    .alternative_of = ULL__NONE};
  if (!node.op) return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "there is no operator %s", op);
  if (!name || !*name) return ULL__FAIL(ULL_ERROR_INVALID, "a node %s without a name", op);
  ULL__TRY(apply_settings(&node, settings, setting_count));
  return ull__graph_append(graph, &node, NULL, outputs);
}
