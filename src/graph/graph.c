/* A graph's memory, and reading it. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "graph/graph_internal.h"

struct ull__graph_chunk {
  ull__graph_chunk *next;
  size_t used, size;
  _Alignas(16) unsigned char bytes[];
};

enum { CHUNK_BYTES = 32 * 1024, CHUNK_ALIGNMENT = 16 };

static ull__graph_chunk *add_chunk(ull__graph *graph, uint64_t bytes) {
  const uint64_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
  ull__graph_chunk *chunk = ull__alloc(1, sizeof *chunk + size);
  if (!chunk) return NULL;
  chunk->size = size;
  chunk->next = graph->chunks;
  graph->chunks = chunk;
  return chunk;
}

void *ull__graph_memory(ull__graph *graph, size_t count, size_t size) {
  uint64_t bytes = 0;
  if (ull__size_mul(count, size, "memory of a graph", &bytes) != ULL_OK) return NULL;
  if (ull__size_align(bytes, CHUNK_ALIGNMENT, "memory of a graph", &bytes) != ULL_OK) return NULL;
  ull__graph_chunk *chunk = graph->chunks;
  if (!chunk || chunk->size - chunk->used < bytes) chunk = add_chunk(graph, bytes);
  if (!chunk) return NULL;
  void *memory = chunk->bytes + chunk->used;
  chunk->used += bytes;
  return memory;
}

const char *ull__graph_string(ull__graph *graph, const char *text) {
  if (!text || !*text) return "";
  const size_t length = strlen(text);
  char *copy = ull__graph_memory(graph, length + 1, 1);
  return copy ? memcpy(copy, text, length + 1) : NULL;
}

ull_status ull__graph_create(const char *name, ull__graph **out) {
  *out = NULL;
  ull__graph *graph = ull__alloc(1, sizeof *graph);
  if (!graph) return ULL_ERROR_OUT_OF_MEMORY;
  graph->module = graph->source = "";
  graph->name = ull__graph_string(graph, name);
  if (!graph->name) {
    ull__graph_destroy(graph);
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  *out = graph;
  return ULL_OK;
}

void ull__graph_destroy(ull__graph *graph) {
  if (!graph) return;
  ull__text_map_free(&graph->value_names);
  ull__text_map_free(&graph->node_names);
  ull__vector_free(&graph->values);
  ull__vector_free(&graph->nodes);
  ull__vector_free(&graph->outputs);
  for (ull__graph_chunk *chunk = graph->chunks; chunk;) {
    ull__graph_chunk *next = chunk->next;
    ull__free(chunk);
    chunk = next;
  }
  ull__free(graph);
}

const char *ull__graph_name(const ull__graph *graph) {
  return graph->name;
}

uint32_t ull__graph_value_count(const ull__graph *graph) {
  return (uint32_t)graph->values.count;
}

uint32_t ull__graph_node_count(const ull__graph *graph) {
  return (uint32_t)graph->nodes.count;
}

const ull__value *ull__graph_value(const ull__graph *graph, ull__value_id id) {
  return id < graph->values.count ? graph->values.items[id] : NULL;
}

const ull__node *ull__graph_node(const ull__graph *graph, ull__node_id id) {
  return id < graph->nodes.count ? graph->nodes.items[id] : NULL;
}

uint32_t ull__graph_output_count(const ull__graph *graph) {
  return (uint32_t)graph->outputs.count;
}

const ull__output *ull__graph_output(const ull__graph *graph, uint32_t index) {
  return index < graph->outputs.count ? &graph->outputs.items[index] : NULL;
}

ull__value_id ull__graph_find_value(const ull__graph *graph, const char *name) {
  const uint64_t *id = ull__text_map_find(&graph->value_names, name);
  if (!id || strcmp(graph->values.items[*id]->name, name) != 0) return ULL__NONE;
  return (ull__value_id)*id;
}

ull__value_id ull__graph_find_output(const ull__graph *graph, const char *name) {
  for (size_t i = 0; i < graph->outputs.count; i++) {
    if (strcmp(graph->outputs.items[i].name, name) == 0) return graph->outputs.items[i].value;
  }
  return ULL__NONE;
}

int64_t ull__graph_batch(const ull__graph *graph) {
  return graph->batch;
}

ull__value_id ull__graph_view_origin(const ull__graph *graph, ull__value_id value) {
  for (;;) {
    const ull__value *v = graph->values.items[value];
    if (v->producer == ULL__NONE) return value;
    const ull__node *producer = graph->nodes.items[v->producer];
    if (!(producer->op->flags & ULL__OP_VIEW)) return value;
    value = producer->inputs[0];
  }
}

static bool reads(const ull__node *node, ull__value_id value) {
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == value) return true;
  }
  return false;
}

/* Every output has alternatives as its only readers, and there is one. */
static bool read_by_alternatives_only(const ull__graph *graph, ull__node_id id) {
  const ull__node *node = graph->nodes.items[id];
  bool found = false;
  for (uint32_t o = 0; o < node->output_count; o++) {
    for (size_t i = 0; i < graph->outputs.count; i++) {
      if (graph->outputs.items[i].value == node->outputs[o]) return false;
    }
    for (size_t n = id + 1; n < graph->nodes.count; n++) {
      if (!reads(graph->nodes.items[n], node->outputs[o])) continue;
      if (graph->nodes.items[n]->alternative_of == ULL__NONE) return false;
      found = true;
    }
  }
  return found;
}

bool ull__node_is_dormant(const ull__graph *graph, ull__node_id id) {
  const ull__node *node = graph->nodes.items[id];
  if (node->alternative_of != ULL__NONE) return true;
  if (node->op->flags & ULL__OP_ONCE) return false;
  return read_by_alternatives_only(graph, id);
}
