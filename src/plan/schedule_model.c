/* What the scheduler knows of a lowered graph before any decision: storage, roles, what may run
 * twice. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "memory/packing.h"
#include "plan/schedule.h"

static bool role_is_resident(ull__role role, const ull__value *value) {
  switch (role) {
  case ULL__ROLE_PARAMETER:
  case ULL__ROLE_STATE:
  case ULL__ROLE_CONSTANT:
  case ULL__ROLE_OPTIMIZER_STATE:
    return true;
  case ULL__ROLE_GRADIENT:
    return value->producer == ULL__NONE;
  default:
    return false;
  }
}

/* Views share their input's storage, updates that of the value they renew. */
static ull__value_id find_root(const ull__graph *graph, const ull__value_id *root,
                               const ull__value *value) {
  const ull__node *node = ull__graph_node(graph, value->producer);
  if (node->op->flags & ULL__OP_VIEW) return root[node->inputs[0]];
  uint8_t updated = node->op->updates[value->output_index];
  return updated ? root[node->inputs[updated - 1]] : ULL__NONE;
}

static void find_storage(ull__schedule_model *model) {
  const ull__graph *graph = model->lowered->graph;
  for (ull__value_id v = 0; v < model->value_count; v++) model->root[v] = v;
  for (ull__value_id v = 0; v < model->value_count; v++) {
    const ull__value *value = ull__graph_value(graph, v);
    if (value->producer == ULL__NONE) {
      model->resident[v] = role_is_resident(value->role, value);
      model->producer[v] = ULL__NONE;
    }
  }
  for (ull__node_id n = 0; n < model->node_count; n++) {
    const ull__node *node = ull__graph_node(graph, n);
    for (uint32_t o = 0; o < node->output_count; o++) {
      ull__value_id v = node->outputs[o];
      ull__value_id root = find_root(graph, model->root, ull__graph_value(graph, v));
      if (root != ULL__NONE)
        model->root[v] = root;
      else
        model->producer[v] = n;
    }
  }
  for (ull__value_id v = 0; v < model->value_count; v++) {
    uint64_t bytes = ull__align_up(model->lowered->values[v].bytes, ULL__PACKING_ALIGNMENT);
    ull__value_id root = model->root[v];
    if (bytes > model->bytes[root]) model->bytes[root] = bytes;
  }
}

/* A node that serves dormant alternatives alone is dormant with them. */
static ull_status find_dormant(ull__schedule_model *model) {
  const ull__graph *graph = model->lowered->graph;
  uint32_t *readers = ull__alloc(model->value_count, sizeof *readers);
  uint32_t *sleeping = ull__alloc(model->value_count, sizeof *sleeping);
  for (ull__node_id n = model->node_count; readers && sleeping && n-- > 0;) {
    const ull__node *node = ull__graph_node(graph, n);
    uint32_t read = 0, asleep = 0;
    for (uint32_t o = 0; o < node->output_count; o++) {
      read += readers[node->outputs[o]];
      asleep += sleeping[node->outputs[o]];
    }
    bool dormant = node->alternative_of != ULL__NONE || (read > 0 && read == asleep);
    model->skipped[n] = dormant || (node->op->flags & ULL__OP_VIEW);
    for (uint32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] == ULL__NONE) continue;
      readers[node->inputs[i]]++;
      if (dormant) sleeping[node->inputs[i]]++;
    }
  }
  bool enough = readers && sleeping;
  ull__free(readers);
  ull__free(sleeping);
  return enough ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static void find_read(ull__schedule_model *model) {
  const ull__graph *graph = model->lowered->graph;
  for (ull__node_id n = 0; n < model->node_count; n++) {
    const ull__node *node = ull__graph_node(graph, n);
    for (uint32_t i = 0; i < node->input_count && !model->skipped[n]; i++)
      if (node->inputs[i] != ULL__NONE) model->read[model->root[node->inputs[i]]] = true;
  }
}

static bool same_storage(const ull__lowered *lowered, ull__value_id a, ull__value_id b) {
  return lowered->values[a].layout == lowered->values[b].layout &&
         lowered->values[a].bytes == lowered->values[b].bytes;
}

/* An alternative is offered where its outputs lie as its primary's do and each of its inputs is the
 * primary's too or comes from a dormant forward node without reorders in between. */
static void find_alternative(ull__schedule_model *model, ull__node_id n) {
  const ull__graph *graph = model->lowered->graph;
  const ull__node *node = ull__graph_node(graph, n);
  ull__node_id primary_id = node->alternative_of, encoder = ULL__NONE;
  const ull__node *primary = ull__graph_node(graph, primary_id);
  if (node->output_count != primary->output_count) return;
  for (uint32_t o = 0; o < node->output_count; o++)
    if (!same_storage(model->lowered, node->outputs[o], primary->outputs[o])) return;
  for (uint32_t i = 0; i < node->input_count; i++) {
    ull__node_id producer = model->producer[model->root[node->inputs[i]]];
    bool dormant = producer != ULL__NONE && model->skipped[producer];
    if (!dormant) continue;
    if (producer >= model->forward_end || encoder != ULL__NONE) return;
    if (strcmp(ull__graph_node(graph, producer)->op->name, "reorder") == 0) return;
    encoder = producer;
  }
  if (encoder == ULL__NONE) return;
  const ull__node *maker = ull__graph_node(graph, encoder);
  for (uint32_t i = 0; i < maker->input_count; i++) {
    ull__node_id producer = model->producer[model->root[maker->inputs[i]]];
    if (producer != ULL__NONE && model->skipped[producer]) return;
  }
  model->alternative[primary_id] = n;
  model->encoder[primary_id] = encoder;
}

static void find_alternatives(ull__schedule_model *model) {
  memset(model->alternative, 0xFF, model->node_count * sizeof *model->alternative);
  memset(model->encoder, 0xFF, model->node_count * sizeof *model->encoder);
  for (ull__node_id n = model->forward_end; n < model->node_count; n++)
    if (ull__graph_node(model->lowered->graph, n)->alternative_of != ULL__NONE)
      find_alternative(model, n);
  for (ull__node_id n = model->forward_end; n < model->node_count; n++) {
    const ull__node *node = ull__graph_node(model->lowered->graph, n);
    for (uint32_t i = 0; i < node->input_count && !model->skipped[n]; i++) {
      if (node->inputs[i] == ULL__NONE) continue;
      ull__value_id root = model->root[node->inputs[i]];
      model->readers[root]++;
      model->form_readers[root] += model->alternative[n] != ULL__NONE;
    }
  }
}

static void find_recomputable(ull__schedule_model *model) {
  const ull__graph *graph = model->lowered->graph;
  model->forward_end = model->node_count;
  for (ull__node_id n = 0; n < model->node_count; n++) {
    const ull__node *node = ull__graph_node(graph, n);
    if (node->phase != ULL__PHASE_FORWARD && n < model->forward_end) model->forward_end = n;
  }
  for (ull__node_id n = 0; n < model->forward_end; n++) {
    const ull__node *node = ull__graph_node(graph, n);
    model->recomputable[n] = !model->skipped[n] && !(node->op->flags & ULL__OP_ONCE);
    for (uint32_t o = 0; o < node->output_count; o++)
      if (model->recomputable[n] && model->root[node->outputs[o]] == node->outputs[o])
        model->droppable[node->outputs[o]] = true;
  }
  for (uint32_t i = 0; i < ull__graph_output_count(graph); i++)
    model->droppable[model->root[ull__graph_output(graph, i)->value]] = false;
}

ull_status ull__schedule_model_create(const ull__lowered *lowered, ull__schedule_model **out) {
  ull__schedule_model *model = ull__alloc(1, sizeof *model);
  if (!model) return ULL_ERROR_OUT_OF_MEMORY;
  model->lowered = lowered;
  uint32_t values = model->value_count = ull__graph_value_count(lowered->graph);
  uint32_t nodes = model->node_count = ull__graph_node_count(lowered->graph);
  model->root = ull__alloc(values, sizeof *model->root);
  model->resident = ull__alloc(values, sizeof *model->resident);
  model->bytes = ull__alloc(values, sizeof *model->bytes);
  model->droppable = ull__alloc(values, sizeof *model->droppable);
  model->producer = ull__alloc(values, sizeof *model->producer);
  model->alternative = ull__alloc(nodes, sizeof *model->alternative);
  model->readers = ull__alloc(values, sizeof *model->readers);
  model->form_readers = ull__alloc(values, sizeof *model->form_readers);
  model->encoder = ull__alloc(nodes, sizeof *model->encoder);
  model->read = ull__alloc(values, sizeof *model->read);
  model->skipped = ull__alloc(nodes, sizeof *model->skipped);
  model->recomputable = ull__alloc(nodes, sizeof *model->recomputable);
  if (!model->root || !model->resident || !model->bytes || !model->droppable || !model->producer ||
      !model->read || !model->alternative || !model->encoder || !model->readers ||
      !model->form_readers || !model->skipped || !model->recomputable ||
      find_dormant(model) != ULL_OK) {
    ull__schedule_model_destroy(model);
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  find_storage(model);
  find_read(model);
  find_recomputable(model);
  find_alternatives(model);
  *out = model;
  return ULL_OK;
}

void ull__schedule_model_destroy(ull__schedule_model *model) {
  if (!model) return;
  ull__free(model->root);
  ull__free(model->resident);
  ull__free(model->bytes);
  ull__free(model->droppable);
  ull__free(model->producer);
  ull__free(model->read);
  ull__free(model->alternative);
  ull__free(model->encoder);
  ull__free(model->readers);
  ull__free(model->form_readers);
  ull__free(model->skipped);
  ull__free(model->recomputable);
  ull__free(model);
}

ull_status ull__decisions_create(const ull__schedule_model *model, ull__decisions *out) {
  out->keep = ull__alloc(model->value_count, sizeof *out->keep);
  out->segment = ull__alloc(model->node_count, sizeof *out->segment);
  out->hold = ull__alloc(model->node_count, sizeof *out->hold);
  out->fleeting = ull__alloc(model->node_count, sizeof *out->fleeting);
  out->other_form = ull__alloc(model->node_count, sizeof *out->other_form);
  out->order = ull__alloc(model->node_count - model->forward_end, sizeof *out->order);
  if (!out->keep || !out->segment || !out->hold || !out->fleeting || !out->order ||
      !out->other_form) {
    ull__decisions_free(out);
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  ull__decisions_reset(model, out);
  return ULL_OK;
}

void ull__decisions_reset(const ull__schedule_model *model, ull__decisions *decisions) {
  uint32_t nodes = model->node_count;
  for (ull__node_id n = model->forward_end; n < nodes; n++)
    decisions->order[n - model->forward_end] = n;
  memset(decisions->keep, 1, model->value_count * sizeof *decisions->keep);
  memset(decisions->segment, 0, nodes * sizeof *decisions->segment);
  memset(decisions->hold, 0, nodes * sizeof *decisions->hold);
  memset(decisions->fleeting, 0, nodes * sizeof *decisions->fleeting);
  memset(decisions->other_form, 0, nodes * sizeof *decisions->other_form);
}

void ull__decisions_assign(const ull__schedule_model *model, const ull__decisions *from,
                           ull__decisions *to) {
  memcpy(to->keep, from->keep, model->value_count * sizeof *to->keep);
  memcpy(to->segment, from->segment, model->node_count * sizeof *to->segment);
  memcpy(to->hold, from->hold, model->node_count * sizeof *to->hold);
  memcpy(to->fleeting, from->fleeting, model->node_count * sizeof *to->fleeting);
  memcpy(to->other_form, from->other_form, model->node_count * sizeof *to->other_form);
  memcpy(to->order, from->order, (model->node_count - model->forward_end) * sizeof *to->order);
}

ull_status ull__decisions_copy(const ull__schedule_model *model, const ull__decisions *from,
                               ull__decisions *to) {
  ULL__TRY(ull__decisions_create(model, to));
  ull__decisions_assign(model, from, to);
  return ULL_OK;
}

void ull__decisions_free(ull__decisions *decisions) {
  ull__free(decisions->keep);
  ull__free(decisions->segment);
  ull__free(decisions->hold);
  ull__free(decisions->fleeting);
  ull__free(decisions->order);
  ull__free(decisions->other_form);
  *decisions = (ull__decisions){0};
}

/* Arena bytes of one launch by itself: distinct operands, outputs placed on dead inputs where that
 * is allowed. */
static uint64_t launch_bytes(const ull__schedule_model *model, ull__node_id n) {
  const ull__node *node = ull__graph_node(model->lowered->graph, n);
  const ull__lowered_node *lowered = &model->lowered->nodes[n];
  uint64_t sum = ull__align_up(lowered->kernel.workspace_bytes, ULL__PACKING_ALIGNMENT);
  uint32_t taken = 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == ULL__NONE) continue;
    ull__value_id root = model->root[node->inputs[i]];
    bool seen = model->resident[root];
    for (uint32_t j = 0; j < i && !seen; j++)
      seen = node->inputs[j] != ULL__NONE && model->root[node->inputs[j]] == root;
    if (!seen) sum += model->bytes[root];
  }
  for (uint32_t o = 0; o < node->output_count; o++) {
    ull__value_id root = model->root[node->outputs[o]];
    if (model->resident[root] || root != node->outputs[o]) continue;
    bool shares = false;
    for (uint32_t i = 0; i < node->input_count && !shares; i++) {
      bool allowed = (lowered->may_overwrite[o] >> i & 1) && !(taken >> i & 1);
      if (!allowed || node->inputs[i] == ULL__NONE) continue;
      ull__value_id input = model->root[node->inputs[i]];
      shares = !model->resident[input] && model->bytes[input] == model->bytes[root];
      if (shares) taken |= 1u << i;
    }
    if (!shares) sum += model->bytes[root];
  }
  return sum;
}

uint64_t ull__schedule_largest_launch(const ull__schedule_model *model, ull__node_id *node) {
  uint64_t largest = 0;
  if (node) *node = ULL__NONE;
  for (ull__node_id n = 0; n < model->node_count; n++) {
    if (model->skipped[n]) continue;
    uint64_t bytes = launch_bytes(model, n);
    if (model->alternative[n] != ULL__NONE) {
      uint64_t other = launch_bytes(model, model->alternative[n]);
      if (other < bytes) bytes = other;
    }
    if (bytes <= largest) continue;
    largest = bytes;
    if (node) *node = n;
  }
  return largest;
}
