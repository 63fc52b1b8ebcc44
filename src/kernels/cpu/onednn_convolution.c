/* Convolutions by oneDNN: forward, gradient of the input, gradient of the weight.
 *
 * The library is asked for several combinations of activation layouts; the answer is the one with
 * the least predicted time, counting the reorders it would need and, several times over since
 * every later reader and the budget pay for it, the padding it adds. Blocked layouts usually win;
 * few channels and odd groups go another way. Parameters are stored as forward wants them; the
 * gradient of a weight is made as the weight is stored where an implementation can. Only generated
 * code is taken: the library's old matrix product hides up to 4 MB a thread, its reference loops
 * are slow, and our own product does what is left. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/onednn_internal.h"

/* Padding is written once and read by backward, normalisation, activation and their gradients. */
#define PADDING_PASSES 4.0
/* What channels-last costs against blocked, measured on ResNet-50's shapes. */
#define CHANNELS_LAST_EFFICIENCY 0.95

typedef struct problem {
  ull__onednn_pass pass;
  bool has_bias;
  int64_t src[4], dst[4], weights[5];
  uint32_t weights_rank;
  ull__onednn_convolution settings; /* descriptors not set */
} problem;

/* One combination of layouts to ask for; NULL = the library's own. */
typedef struct candidate {
  const ull__layout *src, *dst, *weights;
} candidate;

/* What the library said to a candidate. */
typedef struct answer {
  dnnl_primitive_desc_t descriptor;
  const ull__layout *src, *dst, *weights;
  double seconds, rank_seconds;
} answer;

/* ---- the problem ---- */

static void copy_dims(const ull__shape *shape, int64_t *out) {
  for (uint32_t i = 0; i < shape->rank; i++) out[i] = shape->dims[i].constant;
}

static void set_weights(const ull__shape *shape, int64_t groups, problem *p) {
  int64_t *w = p->weights, dims[4];
  copy_dims(shape, dims);
  p->weights_rank = groups > 1 ? 5 : 4;
  if (groups > 1) *w++ = groups;
  w[0] = dims[0] / groups;
  w[1] = dims[1];
  w[2] = dims[2];
  w[3] = dims[3];
}

static void set_window(const ull__node *node, problem *p) {
  ull__onednn_convolution *c = &p->settings;
  c->pass = p->pass;
  c->strides[0] = ull__node_int(node, "stride_h");
  c->strides[1] = ull__node_int(node, "stride_w");
  c->dilations[0] = ull__node_int(node, "dilation_h");
  c->dilations[1] = ull__node_int(node, "dilation_w");
  c->pads[0] = c->pads_after[0] = ull__node_int(node, "pad_h");
  c->pads[1] = c->pads_after[1] = ull__node_int(node, "pad_w");
}

/* Operands that hold src, weights and dst (or their gradients), inputs first, then outputs. */
typedef struct roles {
  uint32_t src, weights, dst;
} roles;

static roles pass_roles(const ull__node *node, ull__onednn_pass pass) {
  if (pass == ULL__ONEDNN_FORWARD) return (roles){0, 1, node->input_count};
  if (pass == ULL__ONEDNN_BACKWARD_DATA) return (roles){2, 1, 0};
  return (roles){0, 2, 1};
}

static ull__value_id operand(const ull__node *node, uint32_t index) {
  return index < node->input_count ? node->inputs[index] : node->outputs[index - node->input_count];
}

static problem describe(const ull__lowering_query *query, ull__onednn_pass pass) {
  const ull__node *node = query->node;
  roles r = pass_roles(node, pass);
  problem p = {.pass = pass};
  copy_dims(ull__cpu_shape(query->graph, operand(node, r.src)), p.src);
  copy_dims(ull__cpu_shape(query->graph, operand(node, r.dst)), p.dst);
  set_weights(ull__cpu_shape(query->graph, operand(node, r.weights)), ull__node_int(node, "groups"),
              &p);
  set_window(node, &p);
  p.has_bias = pass == ULL__ONEDNN_FORWARD && node->input_count > 2 && node->inputs[2] != ULL__NONE;
  return p;
}

/* ---- asking the library ---- */

static ull_status wanted_md(const ull__layout *layout, uint32_t rank, const int64_t *dims,
                            ull__onednn_md *out) {
  if (layout != NULL) return ull__onednn_md_of_layout(layout, ULL_FLOAT32, rank, dims, out);
  return ull__onednn_md_create(rank, dims, ULL_FLOAT32, dnnl_format_tag_any, out);
}

static ull_status create_descriptor(ull__cpu *cpu, const problem *p, const candidate *c,
                                    dnnl_primitive_desc_t *out) {
  ull__onednn_md src = {0}, dst = {0}, weights = {0}, bias = {0};
  ull__onednn_convolution settings = p->settings;
  ull_status status = wanted_md(c->src, 4, p->src, &src);
  if (status == ULL_OK) status = wanted_md(c->dst, 4, p->dst, &dst);
  if (status == ULL_OK) status = wanted_md(c->weights, p->weights_rank, p->weights, &weights);
  if (status == ULL_OK && p->has_bias) {
    status = ull__onednn_md_create(1, &p->dst[1], ULL_FLOAT32, dnnl_a, &bias);
    settings.bias = &bias;
  }
  settings.src = &src;
  settings.dst = &dst;
  settings.weights = &weights;
  if (status == ULL_OK) {
    status = ull__onednn_convolution_create(ull__onednn_engine(cpu->onednn), &settings, out);
  }
  ull__onednn_md_destroy(&src);
  ull__onednn_md_destroy(&dst);
  ull__onednn_md_destroy(&weights);
  ull__onednn_md_destroy(&bias);
  return status;
}

typedef struct pass_queries {
  int src_argument, weights_argument, dst_argument;
  dnnl_query_t src, weights, dst;
} pass_queries;

static const pass_queries queries[] = {
    [ULL__ONEDNN_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, dnnl_query_src_md,
                             dnnl_query_weights_md, dnnl_query_dst_md},
    [ULL__ONEDNN_BACKWARD_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST,
                                   dnnl_query_diff_src_md, dnnl_query_weights_md,
                                   dnnl_query_diff_dst_md},
    [ULL__ONEDNN_BACKWARD_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST,
                                      dnnl_query_src_md, dnnl_query_diff_weights_md,
                                      dnnl_query_diff_dst_md},
};

static ull_status read_layout(ull__cpu *cpu, const_dnnl_primitive_desc_t descriptor,
                              dnnl_query_t query, uint32_t rank, const int64_t *dims,
                              const ull__layout **out) {
  ull__onednn_md md;
  ULL__TRY(ull__onednn_query_md(descriptor, query, 0, &md));
  ull_status status = ull__onednn_layout_of_md(cpu, ULL_FLOAT32, rank, dims, &md, out);
  ull__onednn_md_destroy(&md);
  return status;
}

static ull_status read_layouts(ull__cpu *cpu, const problem *p, answer *a) {
  const pass_queries *q = &queries[p->pass];
  ULL__TRY(read_layout(cpu, a->descriptor, q->src, 4, p->src, &a->src));
  ULL__TRY(read_layout(cpu, a->descriptor, q->dst, 4, p->dst, &a->dst));
  return read_layout(cpu, a->descriptor, q->weights, p->weights_rank, p->weights, &a->weights);
}

/* ---- ranking answers ---- */

static double value_bytes(const ull__lowering_query *query, uint32_t index,
                          const ull__layout *layout) {
  uint64_t bytes = 0;
  const ull__value *v = ull__graph_value(query->graph, operand(query->node, index));
  return ull__layout_bytes(layout, v->dtype, &v->shape, &bytes) == ULL_OK ? (double)bytes : 0;
}

/* Reorder of an input, or of a gradient that is wanted as its parameter is stored; padding of an
 * output. `stores` = a parameter whose layout this node may still decide. */
static double operand_seconds(const ull__cpu *cpu, const ull__lowering_query *query, uint32_t index,
                              const ull__layout *layout, bool stores) {
  uint32_t inputs = query->node->input_count;
  const ull__layout *other =
      index < inputs ? query->input_layouts[index] : query->wanted_output_layouts[index - inputs];
  double bytes = value_bytes(query, index, layout);
  if (index >= inputs && other == NULL) {
    double padding = bytes - value_bytes(query, index, &ull__layout_plain);
    return PADDING_PASSES * ull__cpu_seconds(cpu, 0, padding > 0 ? padding : 0, 1) -
           PADDING_PASSES * ull__cpu_seconds(cpu, 0, 0, 1);
  }
  if (other == NULL || other == layout || stores) return 0;
  return ull__cpu_seconds(cpu, 0, bytes + value_bytes(query, index, other), 0.5);
}

static bool may_store(const ull__lowering_query *query, const roles *r) {
  return r->weights < query->node->input_count &&
         query->input_layouts[r->weights] == &ull__layout_plain;
}

static void rank(ull__cpu *cpu, const ull__lowering_query *query, const problem *p, answer *a) {
  roles r = pass_roles(query->node, p->pass);
  double flops = 2.0 * (double)p->dst[0] * (double)p->dst[2] * (double)p->dst[3];
  for (uint32_t i = 0; i < p->weights_rank; i++) flops *= (double)p->weights[i];
  double bytes = value_bytes(query, r.src, a->src) + value_bytes(query, r.dst, a->dst) +
                 value_bytes(query, r.weights, a->weights);
  double efficiency = ull__onednn_efficiency(ull__onednn_implementation(a->descriptor), cpu->isa);
  if (a->dst->kind == ULL__LAYOUT_CHANNELS_LAST) efficiency *= CHANNELS_LAST_EFFICIENCY;
  bool stores = p->pass == ULL__ONEDNN_FORWARD && may_store(query, &r);
  a->seconds = ull__cpu_seconds(cpu, flops, bytes, efficiency);
  a->rank_seconds = a->seconds + operand_seconds(cpu, query, r.src, a->src, false) +
                    operand_seconds(cpu, query, r.dst, a->dst, false) +
                    operand_seconds(cpu, query, r.weights, a->weights, stores);
}

static ull_status ask(ull__cpu *cpu, const ull__lowering_query *query, const problem *p,
                      const candidate *c, answer *best) {
  answer a = {0};
  ULL__TRY(create_descriptor(cpu, p, c, &a.descriptor));
  if (a.descriptor == NULL) return ULL_OK;
  if (!ull__onednn_is_generated(ull__onednn_implementation(a.descriptor))) {
    (void)dnnl_primitive_desc_destroy(a.descriptor);
    return ULL_OK;
  }
  ull_status status = read_layouts(cpu, p, &a);
  if (status == ULL_OK) rank(cpu, query, p, &a);
  if (status != ULL_OK || (best->descriptor != NULL && a.rank_seconds >= best->rank_seconds)) {
    (void)dnnl_primitive_desc_destroy(a.descriptor);
    return status;
  }
  if (best->descriptor != NULL) (void)dnnl_primitive_desc_destroy(best->descriptor);
  *best = a;
  return ULL_OK;
}

/* Weights: as they are stored where that is decided, and the library's own. */
static ull_status ask_with_weights(ull__cpu *cpu, const ull__lowering_query *query,
                                   const problem *p, candidate c, answer *best) {
  roles r = pass_roles(query->node, p->pass);
  uint32_t inputs = query->node->input_count;
  const ull__layout *stored =
      r.weights < inputs ? query->input_layouts[r.weights] : query->wanted_output_layouts[0];
  if (p->pass != ULL__ONEDNN_BACKWARD_DATA && stored != NULL && stored != &ull__layout_plain) {
    c.weights = stored;
    ULL__TRY(ask(cpu, query, p, &c, best));
  }
  c.weights = NULL;
  return ask(cpu, query, p, &c, best);
}

static ull_status find_best(ull__cpu *cpu, const ull__lowering_query *query, const problem *p,
                            answer *best) {
  const ull__layout *plain = &ull__layout_plain;
  const ull__layout *last = ull__cpu_layout_channels_last(cpu);
  const ull__layout *blocked = ull__cpu_layout_blocked(cpu, cpu->isa == ULL__ISA_AVX512 ? 16 : 8);
  const ull__layout *half = ull__cpu_layout_blocked(cpu, 8);
  if (last == NULL || blocked == NULL || half == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  const candidate candidates[] = {
      {.src = blocked, .dst = blocked}, {.src = plain, .dst = blocked},
      {.src = last, .dst = last},       {.src = half, .dst = half},
      {.src = NULL, .dst = NULL},       {.src = plain, .dst = plain},
  };
  ull__onednn_enter_team(cpu->onednn);
  for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
    bool few_channels = p->src[1] <= 4;
    if (i == 1 && !few_channels) continue;
    if (i == 3 && half == blocked) continue;
    ULL__TRY(ask_with_weights(cpu, query, p, candidates[i], best));
    if (best->descriptor != NULL && best->rank_seconds <= best->seconds * 1.001 && !few_channels &&
        ull__onednn_efficiency(ull__onednn_implementation(best->descriptor), cpu->isa) > 0.8) {
      break;
    }
  }
  return ULL_OK;
}

/* ---- the choice ---- */

static void set_layout(const ull__lowering_query *query, uint32_t index, const ull__layout *layout,
                       ull__lowering_choice *choice) {
  uint32_t inputs = query->node->input_count;
  if (index < inputs) {
    choice->input_layouts[index] = layout;
  } else {
    choice->output_layouts[index - inputs] = layout;
  }
}

static void describe_kind(const problem *p, char *text, size_t size) {
  static const char *const passes[] = {"forward", "backward data", "backward weights"};
  const ull__onednn_convolution *c = &p->settings;
  snprintf(text, size, "%s s%lld,%lld p%lld,%lld d%lld,%lld", passes[p->pass],
           (long long)c->strides[0], (long long)c->strides[1], (long long)c->pads[0],
           (long long)c->pads[1], (long long)c->dilations[0], (long long)c->dilations[1]);
}

static ull_status fill_choice(ull__cpu *cpu, const ull__lowering_query *query, const problem *p,
                              const answer *best, ull__lowering_choice *choice) {
  const ull__node *node = query->node;
  const pass_queries *q = &queries[p->pass];
  roles r = pass_roles(node, p->pass);
  const ull__onednn_argument arguments[] = {{q->src_argument, r.src, q->src, 0},
                                            {q->weights_argument, r.weights, q->weights, 0},
                                            {q->dst_argument, r.dst, q->dst, 0},
                                            {DNNL_ARG_BIAS, 2, dnnl_query_weights_md, 1}};
  if (node->input_count > 2) choice->input_layouts[2] = &ull__layout_plain;
  set_layout(query, r.src, best->src, choice);
  set_layout(query, r.weights, best->weights, choice);
  set_layout(query, r.dst, best->dst, choice);
  if (p->pass == ULL__ONEDNN_FORWARD && may_store(query, &r)) choice->stores_inputs = 2;
  char kind[96];
  describe_kind(p, kind, sizeof kind);
  ULL__TRY(ull__onednn_kernel_create(cpu, kind, best->descriptor, arguments, p->has_bias ? 4 : 3,
                                     node->input_count + node->output_count, &choice->kernel));
  choice->kernel.seconds = best->seconds;
  choice->kernel.numeric_class =
      ull__cpu_numeric_class(cpu, query, choice, choice->kernel.implementation);
  return ULL_OK;
}

static ull_status choose(ull__cpu *cpu, const ull__lowering_query *query,
                         ull__lowering_choice *choice, ull__onednn_pass pass) {
  if (ull__cpu_dtype(query->graph, query->node->inputs[0]) != ULL_FLOAT32) return ULL_OK;
  problem p = describe(query, pass);
  answer best = {0};
  ull_status status = find_best(cpu, query, &p, &best);
  if (status != ULL_OK || best.descriptor == NULL) {
    if (best.descriptor != NULL) (void)dnnl_primitive_desc_destroy(best.descriptor);
    return status;
  }
  return fill_choice(cpu, query, &p, &best, choice);
}

static ull_status choose_forward(ull__cpu *cpu, const ull__lowering_query *query,
                                 ull__lowering_choice *choice) {
  return choose(cpu, query, choice, ULL__ONEDNN_FORWARD);
}

static ull_status choose_backward_input(ull__cpu *cpu, const ull__lowering_query *query,
                                        ull__lowering_choice *choice) {
  return choose(cpu, query, choice, ULL__ONEDNN_BACKWARD_DATA);
}

static ull_status choose_backward_weight(ull__cpu *cpu, const ull__lowering_query *query,
                                         ull__lowering_choice *choice) {
  return choose(cpu, query, choice, ULL__ONEDNN_BACKWARD_WEIGHTS);
}

const ull__cpu_rule ull__cpu_rules_onednn_convolution[] = {
    {"conv2d", choose_forward},
    {"conv2d_backward_input", choose_backward_input},
    {"conv2d_backward_weight", choose_backward_weight},
    {NULL, NULL}};
