/* The lowering pass: nodes are visited in order, the provider is asked for each, and a reorder is
 * put in front of a node for every input that lies otherwise than the chosen kernel wants.
 *
 * Invariants: nodes keep their order, names, phases and identities; a parameter's layout is decided
 * by its first reader and never changes; its gradient and optimizer state follow it; graph outputs
 * are plain; a reorder is shared by the readers of one phase, so that what backward wants of a
 * weight is not made (and kept) in forward. */
#include "kernels/lowering.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"
#include "graph/graph_internal.h"
#include "kernels/stored_layouts.h"

typedef struct made_reorder {
  ull__value_id value; /* what was reordered, into which layout, for which phase */
  const ull__layout *layout;
  ull__phase phase;
  ull__value_id result;
} made_reorder;

typedef struct pass {
  const ull__graph *bound;
  ull__provider *provider;
  ull__stored_layouts *stored;
  ull__graph *graph;
  ull__value_id *value_map; /* bound graph's ids to the new graph's */
  ull__node_id *node_map;
  ULL__VECTOR(ull__lowered_value) values;
  ULL__VECTOR(ull__lowered_node) nodes;
  ULL__VECTOR(made_reorder) reorders;
} pass;

/* ---- values ---- */

static const ull__layout *layout_of(const pass *p, ull__value_id value) {
  return p->values.items[value].layout;
}

/* A value the new graph has just got. `layout` NULL = not decided yet. */
static ull_status add_value(pass *p, ull__value_id value, const ull__layout *layout) {
  const ull__value *v = ull__graph_value(p->graph, value);
  ull__lowered_value lowered = {.layout = layout};
  if (layout != NULL) ULL__TRY(ull__layout_bytes(layout, v->dtype, &v->shape, &lowered.bytes));
  if (value != p->values.count) {
    return ULL__FAIL(ULL_ERROR_INTERNAL, "value %s was lowered out of order", v->name);
  }
  return ull__vector_push(&p->values, lowered);
}

static bool is_stored(const ull__value *value) {
  return value->producer == ULL__NONE &&
         (value->role == ULL__ROLE_PARAMETER || value->role == ULL__ROLE_STATE ||
          value->role == ULL__ROLE_OPTIMIZER_STATE || value->role == ULL__ROLE_GRADIENT);
}

/* Settles where a source lies, for good. */
static ull_status decide_layout(pass *p, ull__value_id value, const ull__layout *layout) {
  const ull__value *v = ull__graph_value(p->graph, value);
  p->values.items[value].layout = layout;
  ULL__TRY(ull__layout_bytes(layout, v->dtype, &v->shape, &p->values.items[value].bytes));
  if (!is_stored(v) || ull__stored_layouts_find(p->stored, v->name) != NULL) return ULL_OK;
  return ull__stored_layouts_add(p->stored, v->name, layout);
}

static ull_status copy_source(pass *p, ull__value_id id) {
  const ull__value *v = ull__graph_value(p->bound, id);
  ull__value_id *copy = &p->value_map[id];
  ULL__TRY(ull__graph_set_origin(p->graph, v->module, v->source));
  if (v->role == ULL__ROLE_CONSTANT) {
    ULL__TRY(ull__graph_add_constant(p->graph, v->name, v->dtype, &v->shape, v->constant, copy));
  } else {
    ULL__TRY(ull__graph_add_source(p->graph, v->role, v->name, v->dtype, &v->shape, copy));
  }
  const ull__layout *known = ull__stored_layouts_find(p->stored, v->name);
  bool decided = known != NULL || !is_stored(v);
  return add_value(p, *copy, !decided ? NULL : is_stored(v) ? known : &ull__layout_plain);
}

/* Sources that no node has claimed; subjects are mapped here, when every value has its new id. */
static ull_status finish_values(pass *p) {
  for (ull__value_id id = 0; id < ull__graph_value_count(p->bound); id++) {
    const ull__value *v = ull__graph_value(p->bound, id);
    ull__value_id copy = p->value_map[id];
    ull__value_id subject = v->subject == ULL__NONE ? ULL__NONE : p->value_map[v->subject];
    ULL__TRY(ull__graph_set_role(p->graph, copy, v->role, subject));
    if (layout_of(p, copy) == NULL) ULL__TRY(decide_layout(p, copy, &ull__layout_plain));
  }
  return ULL_OK;
}

/* What an undecided source has to lie like: the parameter it belongs to; else NULL. */
static const ull__layout *layout_of_subject(const pass *p, const ull__value *bound_value) {
  if (bound_value->subject == ULL__NONE) return NULL;
  return layout_of(p, p->value_map[bound_value->subject]);
}

/* ---- nodes ---- */

static ull_status add_node(pass *p, const ull__node *prototype, const char *const *names,
                           const ull__lowered_node *lowered, ull__value_id *outputs) {
  ULL__TRY(ull__graph_append(p->graph, prototype, names, outputs));
  return ull__vector_push(&p->nodes, *lowered);
}

static ull_status add_reorder(pass *p, const ull__node *reader, ull__value_id value,
                              const ull__layout *layout, ull__value_id *out) {
  const ull__value *v = ull__graph_value(p->graph, value);
  char name[512];
  snprintf(name, sizeof name, "%s.reorder", v->name);
  ull__node prototype = {.op = ull__operator_find("reorder"),
                         .name = name,
                         .module = reader->module,
                         .source = reader->source,
                         .phase = reader->phase,
                         .input_count = 1,
                         .inputs = &value,
                         .alternative_of = ULL__NONE};
  if (prototype.op == NULL) return ULL__FAIL(ULL_ERROR_INTERNAL, "there is no operator reorder");
  ull__lowered_node lowered = {0};
  ULL__TRY(p->provider->reorder(p->provider, v->dtype, &v->shape, layout_of(p, value), layout,
                                &lowered.kernel));
  ULL__TRY(add_node(p, &prototype, NULL, &lowered, out));
  ULL__TRY(add_value(p, *out, layout));
  return ull__vector_push(&p->reorders, (made_reorder){value, layout, reader->phase, *out});
}

static ull_status find_or_add_reorder(pass *p, const ull__node *reader, ull__value_id value,
                                      const ull__layout *layout, ull__value_id *out) {
  for (size_t i = p->reorders.count; i > 0; i--) {
    const made_reorder *made = &p->reorders.items[i - 1];
    if (made->value == value && made->layout == layout && made->phase == reader->phase) {
      *out = made->result;
      return ULL_OK;
    }
  }
  return add_reorder(p, reader, value, layout, out);
}

typedef struct visit {
  const ull__node *node; /* in the bound graph */
  ull__value_id inputs[ULL__MAX_INPUTS];
  const ull__layout *input_layouts[ULL__MAX_INPUTS];
  const ull__layout *wanted[ULL__MAX_OUTPUTS];
  ull__lowering_choice choice;
} visit;

/* Before the provider is asked: gradients and optimizer state go where their parameter is. */
static ull_status collect_inputs(pass *p, visit *v) {
  for (uint32_t i = 0; i < v->node->input_count; i++) {
    ull__value_id id = v->node->inputs[i];
    v->inputs[i] = id == ULL__NONE ? ULL__NONE : p->value_map[id];
    v->input_layouts[i] = &ull__layout_plain;
    if (id == ULL__NONE) continue;
    const ull__layout *like = layout_of_subject(p, ull__graph_value(p->bound, id));
    if (layout_of(p, v->inputs[i]) == NULL && like != NULL) {
      ULL__TRY(decide_layout(p, v->inputs[i], like));
    }
    const ull__layout *now = layout_of(p, v->inputs[i]);
    if (now != NULL) v->input_layouts[i] = now;
  }
  return ULL_OK;
}

static void collect_wanted(const pass *p, visit *v) {
  for (uint32_t o = 0; o < v->node->output_count; o++) {
    const ull__value *value = ull__graph_value(p->bound, v->node->outputs[o]);
    uint32_t updated = v->node->op->updates[o];
    if (updated > 0) {
      v->wanted[o] = v->input_layouts[updated - 1];
    } else if (value->role == ULL__ROLE_GRADIENT) {
      v->wanted[o] = layout_of_subject(p, value);
    }
  }
}

/* The answer's NULLs mean plain; what it must not change is checked. */
static ull_status check_choice(visit *v) {
  ull__lowering_choice *choice = &v->choice;
  for (uint32_t i = 0; i < v->node->input_count; i++) {
    if (choice->input_layouts[i] == NULL) choice->input_layouts[i] = &ull__layout_plain;
  }
  for (uint32_t o = 0; o < v->node->output_count; o++) {
    if (choice->output_layouts[o] == NULL) choice->output_layouts[o] = &ull__layout_plain;
    uint32_t updated = v->node->op->updates[o];
    if (updated > 0 && (choice->output_layouts[o] != v->input_layouts[updated - 1] ||
                        choice->input_layouts[updated - 1] != v->input_layouts[updated - 1])) {
      return ULL__FAIL(ULL_ERROR_INTERNAL, "%s does not update input %u where it lies",
                       choice->kernel.implementation, updated - 1);
    }
  }
  return ULL_OK;
}

/* After the answer: undecided parameters settle, and what lies otherwise is reordered. */
static ull_status place_inputs(pass *p, visit *v) {
  for (uint32_t i = 0; i < v->node->input_count; i++) {
    ull__value_id input = v->inputs[i];
    if (input == ULL__NONE) continue;
    const ull__layout *wanted = v->choice.input_layouts[i];
    if (layout_of(p, input) == NULL) {
      bool stores = (v->choice.stores_inputs >> i & 1) != 0;
      ULL__TRY(decide_layout(p, input, stores ? wanted : &ull__layout_plain));
    }
    if (layout_of(p, input) != wanted) {
      ULL__TRY(find_or_add_reorder(p, v->node, input, wanted, &v->inputs[i]));
    }
  }
  return ULL_OK;
}

/* Output o may take the place of input i: the row and the kernel allow it, the bytes are the same.
 */
static ull_status mask_overwrites(const pass *p, const visit *v, ull__lowered_node *lowered) {
  for (uint32_t o = 0; o < v->node->output_count; o++) {
    const ull__value *output = ull__graph_value(p->bound, v->node->outputs[o]);
    uint16_t allowed = v->node->op->overwrites[o] & v->choice.may_overwrite[o];
    uint64_t bytes;
    ULL__TRY(ull__layout_bytes(v->choice.output_layouts[o], output->dtype, &output->shape, &bytes));
    for (uint32_t i = 0; i < v->node->input_count; i++) {
      if (v->inputs[i] == ULL__NONE) continue;
      bool alike = layout_of(p, v->inputs[i]) == v->choice.output_layouts[o] &&
                   p->values.items[v->inputs[i]].bytes == bytes &&
                   ull__graph_value(p->graph, v->inputs[i])->dtype == output->dtype;
      if (alike) lowered->may_overwrite[o] |= allowed & (uint16_t)(1u << i);
    }
  }
  return ULL_OK;
}

/* Puts the node and its outputs, under their old names, into the new graph. */
static ull_status emit_node(pass *p, visit *v, ull__node_id id) {
  ull__lowered_node lowered = {.kernel = v->choice.kernel};
  ULL__TRY(mask_overwrites(p, v, &lowered));
  const char *names[ULL__MAX_OUTPUTS];
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  for (uint32_t o = 0; o < v->node->output_count; o++) {
    names[o] = ull__graph_value(p->bound, v->node->outputs[o])->name;
  }
  ull__node prototype = *v->node;
  prototype.inputs = v->inputs;
  if (prototype.alternative_of != ULL__NONE) {
    prototype.alternative_of = p->node_map[prototype.alternative_of];
  }
  p->node_map[id] = ull__graph_node_count(p->graph);
  ULL__TRY(add_node(p, &prototype, names, &lowered, outputs));
  for (uint32_t o = 0; o < v->node->output_count; o++) {
    ULL__TRY(add_value(p, outputs[o], v->choice.output_layouts[o]));
    p->value_map[v->node->outputs[o]] = outputs[o];
  }
  return ULL_OK;
}

static ull_status lower_node(pass *p, ull__node_id id) {
  visit v = {.node = ull__graph_node(p->bound, id)};
  ULL__TRY(collect_inputs(p, &v));
  collect_wanted(p, &v);
  ull__lowering_query query = {.graph = p->bound,
                               .node = v.node,
                               .input_layouts = v.input_layouts,
                               .wanted_output_layouts = v.wanted};
  ULL__TRY(p->provider->choose(p->provider, &query, &v.choice));
  ULL__TRY(check_choice(&v));
  ULL__TRY(place_inputs(p, &v));
  return emit_node(p, &v, id);
}

/* Right behind a node: what the graph gives out of it in another layout is made plain. */
static ull_status publish_outputs(pass *p, const ull__node *node) {
  for (uint32_t k = 0; k < ull__graph_output_count(p->bound); k++) {
    const ull__output *output = ull__graph_output(p->bound, k);
    for (uint32_t o = 0; o < node->output_count; o++) {
      ull__value_id plain, value = p->value_map[output->value];
      if (output->value != node->outputs[o] || layout_of(p, value) == &ull__layout_plain) continue;
      ULL__TRY(find_or_add_reorder(p, node, value, &ull__layout_plain, &plain));
    }
  }
  return ULL_OK;
}

static ull_status add_outputs(pass *p) {
  for (uint32_t k = 0; k < ull__graph_output_count(p->bound); k++) {
    const ull__output *output = ull__graph_output(p->bound, k);
    ull__value_id value = p->value_map[output->value];
    if (layout_of(p, value) != &ull__layout_plain) {
      ull__node_id producer = ull__graph_value(p->graph, value)->producer;
      if (producer == ULL__NONE) {
        return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "output %s is a stored value", output->name);
      }
      ULL__TRY(find_or_add_reorder(p, ull__graph_node(p->graph, producer), value,
                                   &ull__layout_plain, &value));
    }
    ULL__TRY(ull__graph_add_output(p->graph, output->name, value));
  }
  return ULL_OK;
}

/* Values in the order of their ids, so that sources stand where they stood. */
static ull_status lower_graph(pass *p) {
  uint32_t value_count = ull__graph_value_count(p->bound);
  for (ull__value_id id = 0; id < value_count; id++) {
    if (ull__graph_value(p->bound, id)->producer == ULL__NONE) ULL__TRY(copy_source(p, id));
  }
  for (ull__node_id id = 0; id < ull__graph_node_count(p->bound); id++) {
    const ull__node *node = ull__graph_node(p->bound, id);
    ull_status status = lower_node(p, id);
    if (status == ULL_OK) status = publish_outputs(p, node);
    if (status != ULL_OK) return ull__error_context("%s", node->name);
  }
  ULL__TRY(add_outputs(p));
  return finish_values(p);
}

/* ---- the whole ---- */

static ull_status begin(pass *p) {
  uint32_t values = ull__graph_value_count(p->bound), nodes = ull__graph_node_count(p->bound);
  ULL__TRY(ull__graph_create(ull__graph_name(p->bound), &p->graph));
  p->graph->batch = ull__graph_batch(p->bound);
  p->value_map = ull__alloc(values, sizeof *p->value_map);
  p->node_map = ull__alloc(nodes, sizeof *p->node_map);
  if (p->value_map == NULL || p->node_map == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < values; i++) p->value_map[i] = ULL__NONE;
  for (uint32_t i = 0; i < nodes; i++) p->node_map[i] = ULL__NONE;
  return ULL_OK;
}

/* Hands the lists over. */
static ull_status finish(pass *p, ull__lowered **out) {
  ull__lowered *lowered = ull__alloc(1, sizeof *lowered);
  if (lowered == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  lowered->graph = p->graph;
  lowered->values = p->values.items;
  lowered->nodes = p->nodes.items;
  lowered->fingerprint = p->provider->fingerprint;
  p->graph = NULL;
  p->values.items = NULL;
  p->nodes.items = NULL;
  *out = lowered;
  return ULL_OK;
}

static void release(pass *p) {
  ull__graph_destroy(p->graph);
  ull__free(p->value_map);
  ull__free(p->node_map);
  ull__vector_free(&p->values);
  ull__vector_free(&p->nodes);
  ull__vector_free(&p->reorders);
}

ull_status ull__lower(const ull__graph *bound, ull__provider *provider, ull__stored_layouts *stored,
                      ull__lowered **out) {
  *out = NULL;
  pass p = {.bound = bound, .provider = provider, .stored = stored};
  ull_status status = begin(&p);
  if (status == ULL_OK) status = lower_graph(&p);
  if (status == ULL_OK) status = finish(&p, out);
  release(&p);
  return status;
}

void ull__lowered_destroy(ull__lowered *lowered) {
  if (lowered == NULL) return;
  ull__graph_destroy(lowered->graph);
  ull__free(lowered->values);
  ull__free(lowered->nodes);
  ull__free(lowered);
}

void ull__provider_destroy(ull__provider *provider) {
  if (provider != NULL) provider->destroy(provider);
}
