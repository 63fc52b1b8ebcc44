/* A graph as text: sources, then one node a line, then outputs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/elementwise.h"
#include "graph/graph_internal.h"

typedef ULL__VECTOR(char) text_buffer;

static ull_status print(text_buffer *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static ull_status print(text_buffer *text, const char *format, ...) {
  for (size_t room = 256;; room *= 2) {
    ULL__TRY(ull__vector_reserve(text, room));
    va_list arguments;
    va_start(arguments, format);
    const int length =
        vsnprintf(text->items + text->count, text->capacity - text->count, format, arguments);
    va_end(arguments);
    if (length < 0) return ULL__FAIL(ULL_ERROR_INTERNAL, "a line that cannot be printed");
    if ((size_t)length < text->capacity - text->count) {
      text->count += (size_t)length;
      return ULL_OK;
    }
  }
}

static const char *role_text(ull__role role) {
  static const char *const texts[] = {"input",      "parameter", "state",          "constant",
                                      "activation", "gradient",  "optimizer_state"};
  return texts[role];
}

static const char *value_name(const ull__graph *graph, ull__value_id value) {
  return value == ULL__NONE ? "-" : graph->values.items[value]->name;
}

static ull_status print_type(text_buffer *text, const ull__value *value) {
  char shape[512];
  return print(text, "%s%s", ull_dtype_name(value->dtype),
               ull__shape_text(&value->shape, shape, sizeof shape));
}

static ull_status print_sources(text_buffer *text, const ull__graph *graph) {
  for (size_t v = 0; v < graph->values.count; v++) {
    const ull__value *value = graph->values.items[v];
    if (value->producer != ULL__NONE) continue;
    ULL__TRY(print(text, "  %s %s: ", role_text(value->role), value->name));
    ULL__TRY(print_type(text, value));
    ULL__TRY(print(text, "\n"));
  }
  return ULL_OK;
}

/* Those that differ from the row's defaults. */
static ull_status print_attributes(text_buffer *text, const ull__node *node) {
  const ull__attribute_spec *spec = node->op->attributes;
  for (uint32_t i = 0; spec && spec[i].name; i++) {
    const ull__attribute value = node->attributes[i];
    if (spec[i].is_real && value.f != spec[i].standard.f) {
      ULL__TRY(print(text, ", %s=%g", spec[i].name, value.f));
    } else if (!spec[i].is_real && value.i != spec[i].standard.i) {
      ULL__TRY(print(text, ", %s=%lld", spec[i].name, (long long)value.i));
    }
  }
  return ULL_OK;
}

static const char *code_text(uint8_t code) {
  static const char *const texts[ULL__ELEMENT_CODES] = {
      [ULL__ELEMENT_COPY] = "copy",
      [ULL__ELEMENT_ADD] = "add",
      [ULL__ELEMENT_MUL] = "mul",
      [ULL__ELEMENT_SCALE] = "scale",
      [ULL__ELEMENT_BIAS] = "bias",
      [ULL__ELEMENT_NORMALIZE] = "normalize",
      [ULL__ELEMENT_RELU] = "relu",
      [ULL__ELEMENT_RELU_BACKWARD] = "relu_backward",
      [ULL__ELEMENT_TANH] = "tanh",
      [ULL__ELEMENT_TANH_BACKWARD] = "tanh_backward",
      [ULL__ELEMENT_SIGMOID] = "sigmoid",
      [ULL__ELEMENT_SIGMOID_BACKWARD] = "sigmoid_backward",
      [ULL__ELEMENT_GELU_TANH] = "gelu_tanh",
      [ULL__ELEMENT_GELU_TANH_BACKWARD] = "gelu_tanh_backward",
      [ULL__ELEMENT_GELU_ERF] = "gelu_erf",
      [ULL__ELEMENT_GELU_ERF_BACKWARD] = "gelu_erf_backward",
      [ULL__ELEMENT_DROPOUT] = "dropout",
  };
  return code < ULL__ELEMENT_CODES && texts[code] ? texts[code] : "?";
}

static ull_status print_steps(text_buffer *text, const ull__node *node) {
  for (uint32_t s = 0; s < node->step_count; s++) {
    ULL__TRY(print(text, "%s%s", s ? " > " : " {", code_text(node->steps[s].code)));
  }
  return node->step_count ? print(text, "}") : ULL_OK;
}

static ull_status print_node(text_buffer *text, const ull__graph *graph, ull__node_id id) {
  const ull__node *node = graph->nodes.items[id];
  ULL__TRY(print(text, "  "));
  for (uint32_t o = 0; o < node->output_count; o++) {
    ULL__TRY(print(text, "%s%s: ", o ? ", " : "", value_name(graph, node->outputs[o])));
    ULL__TRY(print_type(text, graph->values.items[node->outputs[o]]));
  }
  ULL__TRY(print(text, " = %s(", node->op->name));
  for (uint32_t i = 0; i < node->input_count; i++) {
    ULL__TRY(print(text, "%s%s", i ? ", " : "", value_name(graph, node->inputs[i])));
  }
  ULL__TRY(print_attributes(text, node));
  ULL__TRY(print(text, ")"));
  ULL__TRY(print_steps(text, node));
  if (node->alternative_of != ULL__NONE) {
    ULL__TRY(print(text, " instead of %s", graph->nodes.items[node->alternative_of]->name));
  } else if (ull__node_is_dormant(graph, id)) {
    ULL__TRY(print(text, " dormant"));
  }
  if (node->module[0]) ULL__TRY(print(text, "  # %s", node->module));
  if (node->source[0]) ULL__TRY(print(text, " %s", node->source));
  return print(text, "\n");
}

static ull_status print_nodes(text_buffer *text, const ull__graph *graph) {
  static const char *const phases[] = {"forward", "backward", "optimizer"};
  for (ull__node_id n = 0; n < graph->nodes.count; n++) {
    const ull__phase phase = graph->nodes.items[n]->phase;
    if (n == 0 || phase != graph->nodes.items[n - 1]->phase) {
      ULL__TRY(print(text, " %s\n", phases[phase]));
    }
    ULL__TRY(print_node(text, graph, n));
  }
  return ULL_OK;
}

static ull_status print_graph(text_buffer *text, const ull__graph *graph) {
  ULL__TRY(print(text, "graph %s", graph->name));
  if (graph->batch) ULL__TRY(print(text, ", batch %lld", (long long)graph->batch));
  ULL__TRY(print(text, "\n"));
  ULL__TRY(print_sources(text, graph));
  ULL__TRY(print_nodes(text, graph));
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const ull__output *output = &graph->outputs.items[i];
    ULL__TRY(print(text, "  output %s = %s\n", output->name, value_name(graph, output->value)));
  }
  return ULL_OK;
}

ull_status ull__graph_text(const ull__graph *graph, char **out) {
  text_buffer text = {0};
  *out = NULL;
  const ull_status status = print_graph(&text, graph);
  if (status == ULL_OK) {
    *out = text.items;
  } else {
    ull__vector_free(&text);
  }
  return status;
}
