/* Fusion. A group of element-wise nodes becomes one node at the place of its last member, its root.
 *
 * Every other member's output has one reader, inside the group; all have the root's phase and
 * shape. Moving a member down to the root must not carry a read of a parameter or state over the
 * node that updates it. */
#include <string.h>

#include "base/alloc.h"
#include "graph/copy.h"
#include "graph/elementwise.h"
#include "graph/graph_internal.h"

typedef struct fusion {
  ull__copy copy;
  const ull__graph *graph;
  uint32_t *readers;        /* by value: inputs and outputs of the graph that name it */
  ull__node_id *updated_at; /* by value: the node that writes over it */
  ull__node_id *relu;       /* by node: ReLU's backward that this node takes in */
  bool *has_alternative;    /* by node */
  bool *gone;               /* by node: dropped, or a member that is not the root */
} fusion;

typedef struct group {
  ull__node_id members[ULL__MAX_ELEMENT_STEPS];
  uint32_t count;
} group;

static bool is_op(const ull__node *node, const char *name) {
  return strcmp(node->op->name, name) == 0;
}

static const ull__node *producer_of(const fusion *f, ull__value_id value) {
  const ull__node_id producer = f->graph->values.items[value]->producer;
  return producer == ULL__NONE ? NULL : f->graph->nodes.items[producer];
}

/* ---- what is known of the graph ---- */

static void note_node(fusion *f, ull__node_id id) {
  const ull__node *node = f->graph->nodes.items[id];
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] != ULL__NONE) f->readers[node->inputs[i]]++;
  }
  for (uint32_t o = 0; o < node->output_count; o++) {
    const uint8_t updated = node->op->updates[o];
    if (updated == 0) continue;
    f->updated_at[ull__graph_view_origin(f->graph, node->inputs[updated - 1])] = id;
  }
  if (node->alternative_of != ULL__NONE) f->has_alternative[node->alternative_of] = true;
  f->relu[id] = ULL__NONE;
}

static ull_status prepare(fusion *f) {
  const size_t values = f->graph->values.count, nodes = f->graph->nodes.count;
  f->readers = ull__alloc(values, sizeof *f->readers);
  f->updated_at = ull__alloc(values, sizeof *f->updated_at);
  f->relu = ull__alloc(nodes, sizeof *f->relu);
  f->has_alternative = ull__alloc(nodes, sizeof *f->has_alternative);
  f->gone = ull__alloc(nodes, sizeof *f->gone);
  if (!f->readers || !f->updated_at || !f->relu || !f->has_alternative || !f->gone) {
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  for (size_t v = 0; v < values; v++) f->updated_at[v] = ULL__NONE;
  for (ull__node_id n = 0; n < nodes; n++) note_node(f, n);
  for (size_t i = 0; i < f->graph->outputs.count; i++) {
    f->readers[f->graph->outputs.items[i].value]++;
  }
  return ULL_OK;
}

/* ---- ReLU's backward into the batch normalisation's ---- */

static void drop(fusion *f, ull__node_id id) {
  const ull__node *node = f->graph->nodes.items[id];
  f->gone[id] = true;
  for (uint32_t i = 0; i < node->input_count; i++) {
    const ull__node *producer = producer_of(f, node->inputs[i]);
    if (--f->readers[node->inputs[i]] > 0 || !producer || !is_op(producer, "relu_mask")) continue;
    drop(f, f->graph->values.items[node->inputs[i]]->producer);
  }
}

static void drop_alternatives(fusion *f, ull__node_id primary) {
  for (ull__node_id n = primary + 1; n < f->graph->nodes.count; n++) {
    if (f->graph->nodes.items[n]->alternative_of == primary) drop(f, n);
  }
  f->has_alternative[primary] = false;
}

/* The normalisation that ReLU was applied to, where it is the one that `node` differentiates. */
static const ull__node *find_normalization(const fusion *f, const ull__node *node,
                                           const ull__node *relu_backward) {
  const ull__node *relu = producer_of(f, relu_backward->inputs[1]);
  if (!relu || !is_op(relu, "relu")) return NULL;
  const ull__node *normalize = producer_of(f, relu->inputs[0]);
  if (!normalize || !is_op(normalize, "batch_norm_normalize")) return NULL;
  if (normalize->inputs[0] != node->inputs[0]) return NULL;
  for (uint32_t i = 1; i < 4; i++) {
    if (normalize->inputs[i] != node->inputs[i + 1]) return NULL;
  }
  return normalize;
}

/* The node finds ReLU's mask anew from its own input and the bias, so that ReLU's output is not
 * read. */
static void take_in_relu(fusion *f, ull__node_id id) {
  const ull__node *node = f->graph->nodes.items[id];
  if (!is_op(node, "batch_norm_backward") || node->input_count != 5) return;
  const ull__node *relu = producer_of(f, node->inputs[1]);
  if (!relu || !is_op(relu, "relu_backward") || f->readers[node->inputs[1]] != 1) return;
  const ull__node *normalize = find_normalization(f, node, relu);
  if (relu->phase != node->phase || !normalize) return;
  f->relu[id] = f->graph->values.items[node->inputs[1]]->producer;
  drop_alternatives(f, f->relu[id]);
  drop(f, f->relu[id]);
  f->readers[relu->inputs[0]]++;
  f->readers[normalize->inputs[4]]++;
}

static ull_status write_with_relu(fusion *f, ull__node_id id) {
  const ull__node *relu = f->graph->nodes.items[f->relu[id]];
  ull__node node = *f->graph->nodes.items[id];
  ull__value_id inputs[6];
  for (uint32_t i = 0; i < 5; i++) inputs[i] = f->copy.values[node.inputs[i]];
  inputs[1] = f->copy.values[relu->inputs[0]];
  inputs[5] = f->copy.values[find_normalization(f, f->graph->nodes.items[id], relu)->inputs[4]];
  node.inputs = inputs;
  node.input_count = 6;
  node.attributes[ull__operator_attribute(node.op, "relu")].i = 1;
  return ull__copy_replace(&f->copy, id, &node);
}

/* ---- groups ---- */

static bool can_fuse(const fusion *f, ull__node_id id) {
  const ull__node *node = f->graph->nodes.items[id];
  const ull_dtype dtype = f->graph->values.items[node->outputs[0]]->dtype;
  if (f->gone[id] || !(node->op->flags & ULL__OP_ELEMENTWISE)) return false;
  if (node->alternative_of != ULL__NONE || f->has_alternative[id]) return false;
  return node->op->element_code != ULL__ELEMENT_NONE &&
         (dtype == ULL_FLOAT32 || dtype == ULL_FLOAT64);
}

static bool is_member(const group *group, ull__node_id id) {
  for (uint32_t m = 0; m < group->count; m++) {
    if (group->members[m] == id) return true;
  }
  return false;
}

/* The group's inputs in the order in which its members, ascending, read them. Returns their number,
 * which may exceed the room. */
static uint32_t find_inputs(const fusion *f, const group *group,
                            ull__value_id inputs[ULL__MAX_INPUTS]) {
  uint32_t count = 0;
  for (uint32_t m = 0; m < group->count; m++) {
    const ull__node *node = f->graph->nodes.items[group->members[m]];
    for (uint32_t i = 0; i < node->input_count; i++) {
      const ull__value_id input = node->inputs[i];
      bool found = is_member(group, f->graph->values.items[input]->producer);
      for (uint32_t k = 0; k < count && k < ULL__MAX_INPUTS; k++) found |= inputs[k] == input;
      if (found) continue;
      if (count < ULL__MAX_INPUTS) inputs[count] = input;
      count++;
    }
  }
  return count;
}

static bool reads_across_update(const fusion *f, ull__node_id member, ull__node_id root) {
  const ull__node *node = f->graph->nodes.items[member];
  for (uint32_t i = 0; i < node->input_count; i++) {
    const ull__node_id at = f->updated_at[ull__graph_view_origin(f->graph, node->inputs[i])];
    if (at != ULL__NONE && at > member && at < root) return true;
  }
  return false;
}

static void insert_member(group *group, ull__node_id id) {
  uint32_t at = group->count++;
  for (; at > 0 && group->members[at - 1] > id; at--) group->members[at] = group->members[at - 1];
  group->members[at] = id;
}

/* Takes in the node that makes `value`, where that is possible. */
static bool take_in(const fusion *f, group *group, ull__node_id root, ull__value_id value) {
  const ull__value *v = f->graph->values.items[value];
  const ull__node *root_node = f->graph->nodes.items[root];
  const ull__value *result = f->graph->values.items[root_node->outputs[0]];
  if (v->producer == ULL__NONE || group->count == ULL__MAX_ELEMENT_STEPS) return false;
  if (!can_fuse(f, v->producer) || is_member(group, v->producer)) return false;
  if (f->readers[value] != 1 || v->role != ULL__ROLE_ACTIVATION) return false;
  if (f->graph->nodes.items[v->producer]->phase != root_node->phase) return false;
  if (!ull__shape_equal(&v->shape, &result->shape) || v->dtype != result->dtype) return false;
  if (reads_across_update(f, v->producer, root)) return false;
  struct group larger = *group;
  ull__value_id inputs[ULL__MAX_INPUTS];
  insert_member(&larger, v->producer);
  if (find_inputs(f, &larger, inputs) > ULL__MAX_INPUTS) return false;
  *group = larger;
  return true;
}

static bool grow_once(const fusion *f, group *group, ull__node_id root) {
  for (uint32_t m = group->count; m-- > 0;) {
    const ull__node *node = f->graph->nodes.items[group->members[m]];
    const ull__element_code code = ull__node_element_code(node);
    for (uint32_t i = 0; i < node->input_count; i++) {
      if (ull__element_operand_is_channel(code, i)) continue;
      if (take_in(f, group, root, node->inputs[i])) return true;
    }
  }
  return false;
}

static group find_group(const fusion *f, ull__node_id root) {
  group found = {.members = {root}, .count = 1};
  while (grow_once(f, &found, root)) {
  }
  return found;
}

/* ---- the fused node ---- */

static uint8_t operand_of(const fusion *f, const group *group, const ull__value_id *inputs,
                          uint32_t input_count, ull__value_id value) {
  const ull__node_id producer = f->graph->values.items[value]->producer;
  for (uint32_t m = 0; m < group->count; m++) {
    if (group->members[m] == producer) return (uint8_t)(input_count + m);
  }
  for (uint32_t i = 0; i < input_count; i++) {
    if (inputs[i] == value) return (uint8_t)i;
  }
  return UINT8_MAX;
}

static double immediate_of(const ull__node *node) {
  if (is_op(node, "scale")) return ull__node_real(node, "factor");
  if (is_op(node, "dropout")) return ull__node_real(node, "p");
  return 0;
}

static ull__element_step make_step(const fusion *f, const group *group, const ull__node *node,
                                   const ull__value_id *inputs, uint32_t input_count) {
  ull__element_step step = {.code = (uint8_t)ull__node_element_code(node),
                            .operand_count = (uint8_t)node->input_count,
                            .immediate = immediate_of(node),
                            .identity = node->identity};
  for (uint32_t i = 0; i < node->input_count; i++) {
    step.operands[i] = operand_of(f, group, inputs, input_count, node->inputs[i]);
  }
  return step;
}

static ull_status write_group(fusion *f, ull__node_id root, const group *group) {
  const ull__node *last = f->graph->nodes.items[root];
  ull__value_id inputs[ULL__MAX_INPUTS];
  ull__element_step steps[ULL__MAX_ELEMENT_STEPS];
  const uint32_t input_count = find_inputs(f, group, inputs);
  for (uint32_t m = 0; m < group->count; m++) {
    steps[m] = make_step(f, group, f->graph->nodes.items[group->members[m]], inputs, input_count);
  }
  for (uint32_t i = 0; i < input_count; i++) inputs[i] = f->copy.values[inputs[i]];
  const ull__node node = {.op = ull__operator_find("fused_elementwise"),
                          .name = last->name,
                          .module = last->module,
                          .source = last->source,
                          .phase = last->phase,
                          .identity = last->identity,
                          .inputs = inputs,
                          .input_count = input_count,
                          .steps = steps,
                          .step_count = group->count,
                          .alternative_of = ULL__NONE};
  return ull__copy_replace(&f->copy, root, &node);
}

/* Roots are found from the end, since a node belongs to the group of its reader. */
static void mark_members(fusion *f, group *groups) {
  for (ull__node_id n = (ull__node_id)f->graph->nodes.count; n-- > 0;) {
    if (!can_fuse(f, n)) continue;
    groups[n] = find_group(f, n);
    for (uint32_t m = 0; m + 1 < groups[n].count; m++) f->gone[groups[n].members[m]] = true;
  }
}

static ull_status write_nodes(fusion *f, const group *groups) {
  for (ull__node_id n = 0; n < f->graph->nodes.count; n++) {
    if (f->gone[n]) continue;
    if (f->relu[n] != ULL__NONE) {
      ULL__TRY(write_with_relu(f, n));
    } else if (groups[n].count > 1) {
      ULL__TRY(write_group(f, n, &groups[n]));
    } else {
      ULL__TRY(ull__copy_node(&f->copy, n));
    }
  }
  return ull__copy_outputs(&f->copy);
}

static ull_status fuse(fusion *f) {
  ULL__TRY(prepare(f));
  ULL__TRY(ull__copy_sources(&f->copy));
  for (ull__node_id n = 0; n < f->graph->nodes.count; n++) take_in_relu(f, n);
  group *groups = ull__alloc(f->graph->nodes.count, sizeof *groups);
  if (!groups) return ULL_ERROR_OUT_OF_MEMORY;
  mark_members(f, groups);
  const ull_status status = write_nodes(f, groups);
  ull__free(groups);
  return status;
}

ull_status ull__graph_fuse(const ull__graph *graph, ull__graph **out) {
  *out = NULL;
  fusion f = {.graph = graph};
  ULL__TRY(ull__copy_begin(&f.copy, graph));
  const ull_status status = fuse(&f);
  ull__free(f.readers);
  ull__free(f.updated_at);
  ull__free(f.relu);
  ull__free(f.has_alternative);
  ull__free(f.gone);
  return ull__copy_end(&f.copy, status, out);
}
