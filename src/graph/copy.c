/* Copying graphs. The maps hold ULL__NONE for what has no copy, so that a stage that reorders
 * nodes wrongly gets an error, never a wrong graph. */
#include "graph/copy.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "graph/ops/ops.h"

static uint32_t *map_of(size_t count) {
  uint32_t *map = ull__alloc(count, sizeof *map);
  for (size_t i = 0; map && i < count; i++) map[i] = ULL__NONE;
  return map;
}

ull_status ull__copy_begin(ull__copy *copy, const ull__graph *from) {
  *copy = (ull__copy){.from = from};
  copy->values = map_of(from->values.count);
  copy->nodes = map_of(from->nodes.count);
  ull_status status = copy->values && copy->nodes ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
  if (status == ULL_OK) status = ull__graph_create(from->name, &copy->to);
  if (status != ULL_OK) {
    ull__graph *none;
    return ull__copy_end(copy, status, &none);
  }
  copy->to->batch = from->batch;
  return ULL_OK;
}

static ull__value_id map_value(const ull__copy *copy, ull__value_id value) {
  return value == ULL__NONE ? ULL__NONE : copy->values[value];
}

ull_status ull__copy_source(ull__copy *copy, ull__value_id source) {
  const ull__value *old = copy->from->values.items[source];
  ull__shape shape = old->shape;
  if (copy->bind_batch) ULL__TRY(ull__shape_bind(&old->shape, copy->bind_batch, &shape));
  ULL__TRY(ull__graph_set_origin(copy->to, old->module, old->source));
  ull__value_id *id = &copy->values[source];
  if (old->role == ULL__ROLE_CONSTANT) {
    return ull__graph_add_constant(copy->to, old->name, old->dtype, &shape, old->constant, id);
  }
  ULL__TRY(ull__graph_add_source(copy->to, old->role, old->name, old->dtype, &shape, id));
  copy->to->values.items[*id]->subject = map_value(copy, old->subject);
  return ULL_OK;
}

ull_status ull__copy_sources(ull__copy *copy) {
  for (ull__value_id v = 0; v < copy->from->values.count; v++) {
    if (copy->from->values.items[v]->producer == ULL__NONE) ULL__TRY(ull__copy_source(copy, v));
  }
  return ULL_OK;
}

static ull_status map_inputs(const ull__copy *copy, const ull__node *old, ull__value_id *inputs) {
  for (uint32_t i = 0; i < old->input_count; i++) {
    inputs[i] = map_value(copy, old->inputs[i]);
    if (inputs[i] == ULL__NONE && old->inputs[i] != ULL__NONE) {
      return ULL__FAIL(ULL_ERROR_INTERNAL, "%s stands before the node that makes its input %u",
                       old->name, i);
    }
  }
  return ULL_OK;
}

static ull_status check_bound(const ull__copy *copy, const ull__node *old,
                              const ull__value_id *outputs) {
  for (uint32_t o = 0; copy->bind_batch && o < old->output_count; o++) {
    ull__shape bound;
    const ull__value *value = copy->from->values.items[old->outputs[o]];
    ULL__TRY(ull__shape_bind(&value->shape, copy->bind_batch, &bound));
    if (!ull__shape_equal(&bound, &copy->to->values.items[outputs[o]]->shape)) {
      return ULL__FAIL(ULL_ERROR_INTERNAL, "%s: the shape of %s depends on binding", old->name,
                       value->name);
    }
  }
  return ULL_OK;
}

ull_status ull__copy_replace(ull__copy *copy, ull__node_id id, const ull__node *prototype) {
  const ull__node *old = copy->from->nodes.items[id];
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  const char *names[ULL__MAX_OUTPUTS];
  for (uint32_t o = 0; o < old->output_count; o++) {
    names[o] = copy->from->values.items[old->outputs[o]]->name;
  }
  copy->nodes[id] = (ull__node_id)copy->to->nodes.count;
  ULL__TRY(ull__graph_append(copy->to, prototype, names, outputs));
  for (uint32_t o = 0; o < old->output_count; o++) {
    const ull__value *value = copy->from->values.items[old->outputs[o]];
    copy->values[old->outputs[o]] = outputs[o];
    ULL__TRY(
        ull__graph_set_role(copy->to, outputs[o], value->role, map_value(copy, value->subject)));
  }
  return check_bound(copy, old, outputs);
}

ull_status ull__copy_node(ull__copy *copy, ull__node_id id) {
  const ull__node *old = copy->from->nodes.items[id];
  ull__node node = *old;
  ull__value_id inputs[ULL__MAX_INPUTS];
  ULL__TRY(map_inputs(copy, old, inputs));
  node.inputs = inputs;
  if (old->alternative_of != ULL__NONE) node.alternative_of = copy->nodes[old->alternative_of];
  if (copy->bind_batch && old->op == ull__operator_find("reshape")) {
    ULL__TRY(ull__reshape_bind(node.attributes, copy->bind_batch));
  }
  return ull__copy_replace(copy, id, &node);
}

ull_status ull__copy_add(ull__copy *copy, const ull__node *prototype, ull__value_id *outputs) {
  return ull__graph_append(copy->to, prototype, NULL, outputs);
}

ull_status ull__copy_outputs(ull__copy *copy) {
  for (size_t i = 0; i < copy->from->outputs.count; i++) {
    const ull__output *output = &copy->from->outputs.items[i];
    const ull__value_id value = copy->values[output->value];
    if (value != ULL__NONE) ULL__TRY(ull__graph_add_output(copy->to, output->name, value));
  }
  return ULL_OK;
}

ull_status ull__copy_end(ull__copy *copy, ull_status status, ull__graph **out) {
  ull__free(copy->values);
  ull__free(copy->nodes);
  copy->values = copy->nodes = NULL;
  *out = NULL;
  if (status != ULL_OK) {
    ull__graph_destroy(copy->to);
  } else {
    *out = copy->to;
    ull__graph_set_phase(copy->to, ULL__PHASE_FORWARD);
  }
  copy->to = NULL;
  return status;
}
