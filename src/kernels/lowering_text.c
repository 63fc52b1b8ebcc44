/* The lowered graph as text: a line for each node, with the layout and bytes of what it makes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"
#include "kernels/lowering.h"

typedef ULL__VECTOR(char) text_buffer;

__attribute__((format(printf, 2, 3))) static ull_status print(text_buffer *text, const char *format,
                                                              ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  ull_status status = length < 0 ? ULL__FAIL(ULL_ERROR_INTERNAL, "cannot print a lowered graph")
                                 : ull__vector_reserve(text, (size_t)length + 1);
  if (status == ULL_OK) {
    vsnprintf(text->items + text->count, (size_t)length + 1, format, again);
    text->count += (size_t)length;
  }
  va_end(again);
  return status;
}

static const char *phase_name(ull__phase phase) {
  static const char *const names[] = {"forward", "backward", "optimizer"};
  return (unsigned)phase < 3 ? names[phase] : "?";
}

static ull_status print_outputs(text_buffer *text, const ull__lowered *lowered,
                                const ull__node *node) {
  for (uint32_t o = 0; o < node->output_count; o++) {
    char shape[256];
    const ull__value *value = ull__graph_value(lowered->graph, node->outputs[o]);
    const ull__lowered_value *placed = &lowered->values[node->outputs[o]];
    ULL__TRY(print(text, "%s %s %s %" PRIu64, o > 0 ? "," : "",
                   ull__shape_text(&value->shape, shape, sizeof shape), placed->layout->name,
                   placed->bytes));
  }
  return ULL_OK;
}

static ull_status print_node(text_buffer *text, const ull__lowered *lowered, ull__node_id id) {
  const ull__node *node = ull__graph_node(lowered->graph, id);
  const ull__kernel *kernel = &lowered->nodes[id].kernel;
  ULL__TRY(print(text, "%4" PRIu32 " %-9s %s = %s ->", id, phase_name(node->phase), node->name,
                 node->op->name));
  ULL__TRY(print_outputs(text, lowered, node));
  ULL__TRY(print(text, "  [%s %.3f ms", kernel->implementation, kernel->seconds * 1e3));
  if (kernel->workspace_bytes > 0) {
    ULL__TRY(print(text, ", workspace %" PRIu64, kernel->workspace_bytes));
  }
  if (node->alternative_of != ULL__NONE) {
    ULL__TRY(print(text, ", instead of %" PRIu32, node->alternative_of));
  }
  return print(text, "]\n");
}

static ull_status print_sources(text_buffer *text, const ull__lowered *lowered) {
  for (ull__value_id id = 0; id < ull__graph_value_count(lowered->graph); id++) {
    const ull__value *value = ull__graph_value(lowered->graph, id);
    char shape[256];
    if (value->producer != ULL__NONE) continue;
    ULL__TRY(print(text, "     source    %s %s %s %s %" PRIu64 "\n", value->name,
                   ull_dtype_name(value->dtype),
                   ull__shape_text(&value->shape, shape, sizeof shape),
                   lowered->values[id].layout->name, lowered->values[id].bytes));
  }
  return ULL_OK;
}

ull_status ull__lowered_text(const ull__lowered *lowered, char **out) {
  text_buffer text = {0};
  ull_status status =
      print(&text, "lowered %s on %s\n", ull__graph_name(lowered->graph), lowered->fingerprint);
  if (status == ULL_OK) status = print_sources(&text, lowered);
  for (ull__node_id id = 0; status == ULL_OK && id < ull__graph_node_count(lowered->graph); id++) {
    status = print_node(&text, lowered, id);
  }
  if (status != ULL_OK) ull__vector_free(&text);
  *out = text.items;
  return status;
}
