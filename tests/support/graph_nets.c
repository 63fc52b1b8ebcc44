#include "support/graph_nets.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

ull__value_id net_source(ull__graph *graph, ull__role role, const char *name, ull_dtype dtype,
                         bool batched, uint32_t rank, const int64_t *dims) {
  const ull__shape shape = batched ? ull__shape_batched(rank, dims) : ull__shape_of(rank, dims);
  ull__value_id value = ULL__NONE;
  if (ull__graph_add_source(graph, role, name, dtype, &shape, &value) != ULL_OK) return ULL__NONE;
  return value;
}

ull__value_id net_node(ull__graph *graph, const char *op, const char *name,
                       const ull__value_id *inputs, uint32_t input_count,
                       const ull__attribute_setting *settings, uint32_t setting_count) {
  ull__value_id outputs[ULL__MAX_OUTPUTS] = {ULL__NONE, ULL__NONE, ULL__NONE, ULL__NONE};
  const ull_status status =
      ull__graph_add_node(graph, op, name, inputs, input_count, settings, setting_count, outputs);
  return status == ULL_OK ? outputs[0] : ULL__NONE;
}

const ull__node *net_find_node(const ull__graph *graph, const char *name) {
  for (ull__node_id n = 0; n < ull__graph_node_count(graph); n++) {
    const ull__node *node = ull__graph_node(graph, n);
    if (strcmp(node->name, name) == 0) return node;
  }
  return NULL;
}

uint32_t net_count_op(const ull__graph *graph, const char *op) {
  uint32_t count = 0;
  for (ull__node_id n = 0; n < ull__graph_node_count(graph); n++) {
    count += strcmp(ull__graph_node(graph, n)->op->name, op) == 0;
  }
  return count;
}

typedef struct builder {
  ull__graph *graph;
  ull_dtype dtype;
} builder;

static ull__value_id parameter(const builder *b, const char *module, const char *name,
                               uint32_t rank, const int64_t *dims) {
  char full[128];
  snprintf(full, sizeof full, "%s.%s", module, name);
  return net_source(b->graph, ULL__ROLE_PARAMETER, full, b->dtype, false, rank, dims);
}

static ull__value_id state(const builder *b, const char *module, const char *name, int64_t length) {
  char full[128];
  snprintf(full, sizeof full, "%s.%s", module, name);
  return net_source(b->graph, ULL__ROLE_STATE, full, b->dtype, false, 1, &length);
}

static ull__value_id linear(const builder *b, const char *name, ull__value_id x, int64_t in,
                            int64_t out, int64_t transposed) {
  ull__graph_set_origin(b->graph, name, "");
  const ull__value_id w = transposed ? parameter(b, name, "weight", NET_DIMS(in, out))
                                     : parameter(b, name, "weight", NET_DIMS(out, in));
  const ull__value_id bias = parameter(b, name, "bias", NET_DIMS(out));
  return net_node(b->graph, "linear", name, NET_INPUTS(x, w, bias),
                  NET_SETTINGS(ULL__INT("transposed", transposed)));
}

static ull__graph *finish(ull__graph *graph, ull__value_id logits, ull__value_id target) {
  ull__graph_set_origin(graph, "", "");
  const ull__value_id loss =
      net_node(graph, "cross_entropy", "loss", NET_INPUTS(logits, target), NULL, 0);
  const ull__value_id correct =
      net_node(graph, "count_correct", "correct", NET_INPUTS(logits, target), NULL, 0);
  if (loss != ULL__NONE && correct != ULL__NONE &&
      ull__graph_add_output(graph, "loss", loss) == ULL_OK &&
      ull__graph_add_output(graph, "correct", correct) == ULL_OK) {
    return graph;
  }
  ull__graph_destroy(graph);
  return NULL;
}

ull__graph *net_mlp(ull_dtype dtype) {
  builder b = {.dtype = dtype};
  if (ull__graph_create("mlp", &b.graph) != ULL_OK) return NULL;
  const ull__value_id x = net_source(b.graph, ULL__ROLE_INPUT, "x", dtype, true, NET_DIMS(6));
  const ull__value_id target =
      net_source(b.graph, ULL__ROLE_INPUT, "target", ULL_INT64, true, 0, NULL);
  const ull__value_id hidden = linear(&b, "fc1", x, 6, 8, 0);
  const ull__value_id active = net_node(b.graph, "relu", "relu", NET_INPUTS(hidden), NULL, 0);
  return finish(b.graph, linear(&b, "fc2", active, 8, 4, 0), target);
}

static ull__value_id conv(const builder *b, const char *name, ull__value_id x, int64_t in,
                          int64_t out, int64_t kernel, int64_t stride) {
  ull__graph_set_origin(b->graph, name, "");
  const ull__value_id w = parameter(b, name, "weight", NET_DIMS(out, in, kernel, kernel));
  return net_node(b->graph, "conv2d", name, NET_INPUTS(x, w),
                  NET_SETTINGS(ULL__INT("pad_h", kernel / 2), ULL__INT("pad_w", kernel / 2),
                               ULL__INT("stride_h", stride), ULL__INT("stride_w", stride)));
}

static ull__value_id batch_norm(const builder *b, const char *name, ull__value_id x,
                                int64_t channels) {
  char part[128];
  ull__value_id s[ULL__MAX_OUTPUTS], updated[ULL__MAX_OUTPUTS];
  ull__graph_set_origin(b->graph, name, "");
  const ull__value_id weight = parameter(b, name, "weight", NET_DIMS(channels));
  const ull__value_id bias = parameter(b, name, "bias", NET_DIMS(channels));
  const ull__value_id mean = state(b, name, "running_mean", channels);
  const ull__value_id var = state(b, name, "running_var", channels);
  snprintf(part, sizeof part, "%s.statistics", name);
  if (ull__graph_add_node(b->graph, "batch_norm_statistics", part, &x, 1, NULL, 0, s) != ULL_OK) {
    return ULL__NONE;
  }
  snprintf(part, sizeof part, "%s.update", name);
  if (ull__graph_add_node(b->graph, "batch_norm_update", part, NET_INPUTS(mean, var, s[0], s[2]),
                          NULL, 0, updated) != ULL_OK) {
    return ULL__NONE;
  }
  return net_node(b->graph, "batch_norm_normalize", name, NET_INPUTS(x, s[0], s[1], weight, bias),
                  NULL, 0);
}

static ull__value_id residual_block(const builder *b, ull__value_id x) {
  const ull__value_id c1 = conv(b, "block.conv1", x, 8, 16, 3, 2);
  const ull__value_id n1 = batch_norm(b, "block.bn1", c1, 16);
  const ull__value_id r1 = net_node(b->graph, "relu", "block.relu1", NET_INPUTS(n1), NULL, 0);
  const ull__value_id c2 = conv(b, "block.conv2", r1, 16, 16, 3, 1);
  const ull__value_id n2 = batch_norm(b, "block.bn2", c2, 16);
  const ull__value_id cd = conv(b, "block.downsample.0", x, 8, 16, 1, 2);
  const ull__value_id nd = batch_norm(b, "block.downsample.1", cd, 16);
  const ull__value_id sum = net_node(b->graph, "add", "block.add", NET_INPUTS(n2, nd), NULL, 0);
  return net_node(b->graph, "relu", "block.relu2", NET_INPUTS(sum), NULL, 0);
}

ull__graph *net_residual(ull_dtype dtype) {
  builder b = {.dtype = dtype};
  if (ull__graph_create("residual", &b.graph) != ULL_OK) return NULL;
  const ull__value_id x = net_source(b.graph, ULL__ROLE_INPUT, "x", dtype, true, NET_DIMS(3, 8, 8));
  const ull__value_id target =
      net_source(b.graph, ULL__ROLE_INPUT, "target", ULL_INT64, true, 0, NULL);
  const ull__value_id stem = batch_norm(&b, "bn1", conv(&b, "conv1", x, 3, 8, 3, 1), 8);
  const ull__value_id relu = net_node(b.graph, "relu", "relu", NET_INPUTS(stem), NULL, 0);
  const ull__value_id block = residual_block(&b, relu);
  const ull__value_id mean =
      net_node(b.graph, "global_avg_pool", "avgpool", NET_INPUTS(block), NULL, 0);
  const ull__value_id flat = net_node(b.graph, "reshape", "flatten", NET_INPUTS(mean),
                                      NET_SETTINGS(ULL__INT("rank", 2), ULL__INT("d0", 1),
                                                   ULL__INT("d1", 16), ULL__INT("batched", 1)));
  return finish(b.graph, linear(&b, "fc", flat, 16, 5, 0), target);
}

static ull__value_id layer_norm(const builder *b, const char *name, ull__value_id x,
                                int64_t width) {
  ull__graph_set_origin(b->graph, name, "");
  const ull__value_id weight = parameter(b, name, "weight", NET_DIMS(width));
  const ull__value_id bias = parameter(b, name, "bias", NET_DIMS(width));
  return net_node(b->graph, "layer_norm", name, NET_INPUTS(x, weight, bias), NULL, 0);
}

static ull__value_id transformer_block(const builder *b, ull__value_id x, ull__value_id rng) {
  const ull__value_id n1 = layer_norm(b, "h.ln_1", x, 8);
  const ull__value_id qkv = linear(b, "h.attn.c_attn", n1, 8, 24, 1);
  const ull__value_id y = net_node(b->graph, "attention", "h.attn", NET_INPUTS(qkv),
                                   NET_SETTINGS(ULL__INT("heads", 2)));
  const ull__value_id p = linear(b, "h.attn.c_proj", y, 8, 8, 1);
  const ull__value_id d = net_node(b->graph, "dropout", "h.attn.drop", NET_INPUTS(p, rng),
                                   NET_SETTINGS(ULL__REAL("p", 0.1)));
  const ull__value_id a1 = net_node(b->graph, "add", "h.add1", NET_INPUTS(x, d), NULL, 0);
  const ull__value_id n2 = layer_norm(b, "h.ln_2", a1, 8);
  const ull__value_id f = linear(b, "h.mlp.c_fc", n2, 8, 32, 1);
  const ull__value_id g = net_node(b->graph, "gelu", "h.mlp.act", NET_INPUTS(f),
                                   NET_SETTINGS(ULL__INT("approximate", 1)));
  const ull__value_id m = linear(b, "h.mlp.c_proj", g, 32, 8, 1);
  return net_node(b->graph, "add", "h.add2", NET_INPUTS(a1, m), NULL, 0);
}

ull__graph *net_transformer(ull_dtype dtype) {
  builder b = {.dtype = dtype};
  if (ull__graph_create("transformer", &b.graph) != ULL_OK) return NULL;
  const ull__value_id ids =
      net_source(b.graph, ULL__ROLE_INPUT, "input_ids", ULL_INT64, true, NET_DIMS(6));
  const ull__value_id rng =
      net_source(b.graph, ULL__ROLE_INPUT, "rng", ULL_INT64, false, NET_DIMS(4));
  const ull__value_id wte = parameter(&b, "wte", "weight", NET_DIMS(12, 8));
  const ull__value_id wpe = parameter(&b, "wpe", "weight", NET_DIMS(10, 8));
  const ull__value_id tokens = net_node(b.graph, "embedding", "wte", NET_INPUTS(ids, wte), NULL, 0);
  const ull__value_id places =
      net_node(b.graph, "add_positions", "wpe", NET_INPUTS(tokens, wpe), NULL, 0);
  const ull__value_id x = net_node(b.graph, "dropout", "drop", NET_INPUTS(places, rng),
                                   NET_SETTINGS(ULL__REAL("p", 0.1)));
  const ull__value_id last = layer_norm(&b, "ln_f", transformer_block(&b, x, rng), 8);
  ull__graph_set_origin(b.graph, "", "");
  const ull__value_id labels = net_node(b.graph, "shift_left", "labels", NET_INPUTS(ids), NULL, 0);
  const ull__value_id loss =
      net_node(b.graph, "linear_cross_entropy", "loss", NET_INPUTS(last, wte, labels), NULL, 0);
  if (loss != ULL__NONE && ull__graph_add_output(b.graph, "loss", loss) == ULL_OK) return b.graph;
  ull__graph_destroy(b.graph);
  return NULL;
}
