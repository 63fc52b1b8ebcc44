/* Reverse-mode differentiation by nodes.
 *
 * The forward nodes are copied in order; then they are walked backwards, and the gradient rule of
 * each node that a wanted gradient reaches appends its nodes. Contributions to one value are added
 * in the order in which they arise, which fixes the rounding. */
#include "graph/autodiff.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "graph/copy.h"
#include "graph/ops/ops.h"

/* Lists are indexed by values of the new graph that exist when the walk begins. */
struct ull__gradients {
  ull__graph *graph;
  uint32_t value_count;
  ull__value_id *pending;
  ull__value_id *masks;
  bool *wanted;
  uint32_t rule_begin; /* values from this one on were made by the rule that is running */
};

ull__graph *ull__gradients_graph(ull__gradients *gradients) {
  return gradients->graph;
}

ull__value_id ull__gradients_of(ull__gradients *gradients, ull__value_id value) {
  return value < gradients->value_count ? gradients->pending[value] : ULL__NONE;
}

ull__value_id ull__gradients_pending(ull__gradients *gradients, ull__value_id value) {
  return ull__gradients_of(gradients, value);
}

bool ull__gradients_wanted(ull__gradients *gradients, ull__value_id value) {
  return value < gradients->value_count && gradients->wanted[value];
}

ull__value_id ull__gradients_mask(ull__gradients *gradients, ull__value_id value) {
  return value < gradients->value_count ? gradients->masks[value] : ULL__NONE;
}

static bool is_parameter(const ull__gradients *gradients, ull__value_id value) {
  return ull__graph_value(gradients->graph, value)->role == ULL__ROLE_PARAMETER;
}

void ull__gradients_replace(ull__gradients *gradients, ull__value_id value,
                            ull__value_id gradient) {
  gradients->pending[value] = gradient;
  if (!is_parameter(gradients, value)) return;
  ull__value *v = gradients->graph->values.items[gradient];
  v->role = ULL__ROLE_GRADIENT;
  v->subject = value;
}

/* One node that is not the child of a forward node's rule. */
static ull_status add_helper(ull__gradients *gradients, const char *op, ull__value_id value,
                             const char *suffix, const ull__value_id *inputs, uint32_t input_count,
                             ull__value_id *out) {
  const ull__value *v = ull__graph_value(gradients->graph, value);
  char name[512];
  snprintf(name, sizeof name, "%s.%s", v->name, suffix);
  ULL__TRY(ull__graph_set_origin(gradients->graph, v->module, v->source));
  return ull__graph_add_node(gradients->graph, op, name, inputs, input_count, NULL, 0, out);
}

/* A parameter's gradient is a value of its own: one that others read too (dy of an addition) is
 * copied. What was made by the running rule, or by the joint loss, is nobody else's. */
static bool is_shared(const ull__gradients *gradients, ull__value_id gradient) {
  const ull__value *value = ull__graph_value(gradients->graph, gradient);
  if (value->producer == ULL__NONE) return true;
  const ull__node *producer = ull__graph_node(gradients->graph, value->producer);
  if (strcmp(producer->op->name, "linear_cross_entropy_joint") == 0) return false;
  return gradient < gradients->rule_begin || value->role == ULL__ROLE_GRADIENT;
}

ull_status ull__gradients_add(ull__gradients *gradients, ull__value_id value,
                              ull__value_id gradient) {
  const ull__value_id inputs[] = {gradients->pending[value], gradient};
  if (inputs[0] != ULL__NONE) {
    ULL__TRY(add_helper(gradients, "add", value, "grad_sum", inputs, 2, &gradient));
  } else if (is_parameter(gradients, value) && is_shared(gradients, gradient)) {
    ULL__TRY(add_helper(gradients, "copy", value, "grad_copy", &inputs[1], 1, &gradient));
  }
  ull__gradients_replace(gradients, value, gradient);
  return ULL_OK;
}

ull_status ull__gradients_emit(ull__gradients *gradients, const ull__node *forward, const char *op,
                               const char *suffix, const ull__value_id *inputs,
                               uint32_t input_count, const ull__attribute_setting *settings,
                               uint32_t setting_count, ull__value_id *outputs) {
  char name[512];
  snprintf(name, sizeof name, "%s.%s", forward->name, suffix);
  ULL__TRY(ull__graph_set_origin(gradients->graph, forward->module, forward->source));
  return ull__graph_add_node(gradients->graph, op, name, inputs, input_count, settings,
                             setting_count, outputs);
}

/* ---- what is wanted and what is reached, on the forward graph ---- */

typedef struct paths {
  bool *wanted;  /* depends on a parameter */
  bool *reached; /* the loss depends on it */
  uint32_t *readers;
} paths;

static void free_paths(paths *paths) {
  ull__free(paths->wanted);
  ull__free(paths->reached);
  ull__free(paths->readers);
}

static void mark_wanted(const ull__graph *graph, paths *paths) {
  for (size_t v = 0; v < graph->values.count; v++) {
    paths->wanted[v] = graph->values.items[v]->role == ULL__ROLE_PARAMETER &&
                       graph->values.items[v]->producer == ULL__NONE;
  }
  for (size_t n = 0; n < graph->nodes.count; n++) {
    const ull__node *node = graph->nodes.items[n];
    bool any = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] == ULL__NONE) continue;
      any = any || paths->wanted[node->inputs[i]];
      paths->readers[node->inputs[i]]++;
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
      const ull__value_id output = node->outputs[o];
      paths->wanted[output] = any && ull__dtype_is_float(graph->values.items[output]->dtype);
    }
  }
}

static void mark_reached(const ull__graph *graph, ull__value_id loss, paths *paths) {
  paths->reached[loss] = true;
  for (size_t n = graph->nodes.count; n-- > 0;) {
    const ull__node *node = graph->nodes.items[n];
    bool any = false;
    for (uint32_t o = 0; o < node->output_count; o++) any |= paths->reached[node->outputs[o]];
    for (uint32_t i = 0; any && i < node->input_count; i++) {
      if (node->inputs[i] != ULL__NONE) paths->reached[node->inputs[i]] = true;
    }
  }
}

static ull_status find_paths(const ull__graph *graph, ull__value_id loss, paths *paths) {
  paths->wanted = ull__alloc(graph->values.count, sizeof *paths->wanted);
  paths->reached = ull__alloc(graph->values.count, sizeof *paths->reached);
  paths->readers = ull__alloc(graph->values.count, sizeof *paths->readers);
  if (!paths->wanted || !paths->reached || !paths->readers) return ULL_ERROR_OUT_OF_MEMORY;
  mark_wanted(graph, paths);
  for (size_t i = 0; i < graph->outputs.count; i++) {
    paths->readers[graph->outputs.items[i].value]++;
  }
  mark_reached(graph, loss, paths);
  return ULL_OK;
}

/* ---- the forward half ---- */

typedef struct differentiation {
  ull__copy copy;
  paths paths;
  ull__value_id loss;        /* of the old graph */
  ull__value_id loss_weight; /* of the new one */
  ull__value_id *masks;      /* by old value; ids of the new graph */
} differentiation;

/* The loss of a chunked classifier that nothing else reads, and whose statistics nobody reads, is
 * computed together with its gradients. */
static bool becomes_joint(const differentiation *d, const ull__node *node) {
  if (strcmp(node->op->name, "linear_cross_entropy") != 0) return false;
  return node->outputs[0] == d->loss && d->paths.readers[node->outputs[1]] == 0 &&
         (d->paths.wanted[node->inputs[0]] || d->paths.wanted[node->inputs[1]]);
}

static ull_status add_joint(differentiation *d, const ull__node *node) {
  const ull__value_id inputs[] = {d->copy.values[node->inputs[0]], d->copy.values[node->inputs[1]],
                                  d->copy.values[node->inputs[2]], d->loss_weight};
  ull__node joint = *node;
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  joint.op = ull__operator_find("linear_cross_entropy_joint");
  joint.inputs = inputs;
  joint.input_count = 4;
  ULL__TRY(ull__copy_add(&d->copy, &joint, outputs));
  d->copy.values[d->loss] = outputs[0];
  return ULL_OK;
}

static ull_status add_mask(differentiation *d, const ull__node *node) {
  const ull__value_id y = node->outputs[0];
  ull__dim bits;
  if (strcmp(node->op->name, "relu") != 0) return ULL_OK;
  if (!d->paths.reached[y] || !d->paths.wanted[node->inputs[0]]) return ULL_OK;
  ULL__TRY(ull__mask_length(&d->copy.from->values.items[y]->shape, &bits));
  if (bits.constant == 0 && bits.batch == 0) return ULL_OK;
  char name[512];
  snprintf(name, sizeof name, "%s.mask", node->name);
  const ull__node mask = {.op = ull__operator_find("relu_mask"),
                          .name = name,
                          .module = node->module,
                          .source = node->source,
                          .phase = node->phase,
                          .inputs = &d->copy.values[y],
                          .input_count = 1,
                          .alternative_of = ULL__NONE};
  return ull__copy_add(&d->copy, &mask, &d->masks[y]);
}

static ull_status copy_forward(differentiation *d) {
  const ull__graph *from = d->copy.from;
  const ull_dtype dtype = from->values.items[d->loss]->dtype;
  const ull__shape scalar = {0};
  ULL__TRY(ull__copy_sources(&d->copy));
  ULL__TRY(ull__graph_set_origin(d->copy.to, "", ""));
  ULL__TRY(ull__graph_add_source(d->copy.to, ULL__ROLE_INPUT, "loss_weight", dtype, &scalar,
                                 &d->loss_weight));
  for (ull__node_id n = 0; n < from->nodes.count; n++) {
    const ull__node *node = from->nodes.items[n];
    if (becomes_joint(d, node)) {
      ULL__TRY(add_joint(d, node));
    } else {
      ULL__TRY(ull__copy_node(&d->copy, n));
      ULL__TRY(add_mask(d, node));
    }
  }
  return ull__copy_outputs(&d->copy);
}

/* ---- the backward half ---- */

static ull_status prepare(differentiation *d, ull__gradients *gradients) {
  gradients->graph = d->copy.to;
  gradients->value_count = ull__graph_value_count(d->copy.to);
  gradients->pending = ull__alloc(gradients->value_count, sizeof *gradients->pending);
  gradients->masks = ull__alloc(gradients->value_count, sizeof *gradients->masks);
  gradients->wanted = ull__alloc(gradients->value_count, sizeof *gradients->wanted);
  if (!gradients->pending || !gradients->masks || !gradients->wanted) {
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  for (uint32_t v = 0; v < gradients->value_count; v++) {
    gradients->pending[v] = gradients->masks[v] = ULL__NONE;
  }
  for (size_t v = 0; v < d->copy.from->values.count; v++) {
    const ull__value_id mapped = d->copy.values[v];
    if (mapped == ULL__NONE) continue;
    gradients->wanted[mapped] = d->paths.wanted[v];
    gradients->masks[mapped] = d->masks[v];
  }
  return ULL_OK;
}

static ull_status run_rule(ull__gradients *gradients, const ull__node *node) {
  bool reached = false;
  for (uint32_t o = 0; o < node->output_count; o++) {
    reached |= ull__gradients_of(gradients, node->outputs[o]) != ULL__NONE;
  }
  if (!reached) return ULL_OK;
  gradients->rule_begin = ull__graph_value_count(gradients->graph);
  if (node->op->gradient) return node->op->gradient(gradients, node);
  ULL__FAIL(ULL_ERROR_UNSUPPORTED, "%s `%s` has no gradient", node->op->name, node->name);
  return ull__error_holder("%s", node->module[0] ? node->module : node->name);
}

static ull_status walk_backwards(differentiation *d, ull__gradients *gradients) {
  const ull__value_id loss = d->copy.values[d->loss];
  ull__graph_set_phase(gradients->graph, ULL__PHASE_BACKWARD);
  gradients->pending[loss] = d->loss_weight;
  for (ull__node_id n = ull__graph_node_count(gradients->graph); n-- > 0;) {
    ULL__TRY(run_rule(gradients, gradients->graph->nodes.items[n]));
  }
  return ULL_OK;
}

static ull_status name_gradients(ull__gradients *gradients) {
  uint32_t found = 0;
  for (ull__value_id v = 0; v < gradients->value_count; v++) {
    if (gradients->pending[v] == ULL__NONE || !is_parameter(gradients, v)) continue;
    char name[512];
    snprintf(name, sizeof name, "%s.grad", ull__graph_value(gradients->graph, v)->name);
    ULL__TRY(ull__graph_rename_value(gradients->graph, gradients->pending[v], name));
    found++;
  }
  if (found > 0) return ULL_OK;
  return ULL__FAIL(ULL_ERROR_INVALID, "the loss of graph %s depends on no parameter",
                   ull__graph_name(gradients->graph));
}

static ull_status differentiate(differentiation *d, ull__gradients *gradients) {
  ULL__TRY(find_paths(d->copy.from, d->loss, &d->paths));
  d->masks = ull__alloc(d->copy.from->values.count, sizeof *d->masks);
  if (!d->masks) return ULL_ERROR_OUT_OF_MEMORY;
  for (size_t v = 0; v < d->copy.from->values.count; v++) d->masks[v] = ULL__NONE;
  ULL__TRY(copy_forward(d));
  ULL__TRY(prepare(d, gradients));
  ULL__TRY(walk_backwards(d, gradients));
  return name_gradients(gradients);
}

static ull_status check_loss(const ull__graph *graph, ull__value_id loss) {
  if (loss == ULL__NONE) {
    return ULL__FAIL(ULL_ERROR_INVALID, "graph %s has no output loss", graph->name);
  }
  const ull__value *value = graph->values.items[loss];
  if (value->shape.rank != 0 || !ull__dtype_is_float(value->dtype)) {
    char text[512];
    return ULL__FAIL(ULL_ERROR_INVALID, "the loss of graph %s is no scalar but %s %s", graph->name,
                     ull_dtype_name(value->dtype),
                     ull__shape_text(&value->shape, text, sizeof text));
  }
  return ULL_OK;
}

ull_status ull__graph_differentiate(const ull__graph *graph, ull__graph **out) {
  *out = NULL;
  differentiation d = {.loss = ull__graph_find_output(graph, "loss")};
  ull__gradients gradients = {0};
  ULL__TRY(check_loss(graph, d.loss));
  ULL__TRY(ull__copy_begin(&d.copy, graph));
  const ull_status status = differentiate(&d, &gradients);
  free_paths(&d.paths);
  ull__free(d.masks);
  ull__free(gradients.pending);
  ull__free(gradients.masks);
  ull__free(gradients.wanted);
  return ull__copy_end(&d.copy, status, out);
}
