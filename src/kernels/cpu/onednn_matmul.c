/* Matrix products by oneDNN, all operands plain.
 *
 * Every operator here is C = A B with views of its operands: transposes are strides. Offered only
 * where the library asks for all its scratch memory (its BRGEMM, on AVX-512): the older
 * implementation allocates packing buffers behind our back, up to hundreds of megabytes. */
#include <string.h>

#include "base/error.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/onednn_internal.h"

/* Measured beside our own product on a processor with AVX-512: ours reaches 0.95 to 1.05 of this
 * where all sizes are large, less where one is small; the number puts the change where they meet.
 */
#define BRGEMM_EFFICIENCY 0.82
/* Rows of B that are a multiple of 4 KiB apart fall on the same lines of the first cache, which
 * halves products that read B often. */
#define ALIASED_EFFICIENCY 0.45

/* A [batch, rows, columns] view of an operand of the launch. */
typedef struct view {
  uint32_t operand;
  int64_t dims[3], strides[3];
} view;

typedef struct product {
  view a, b, c;
  uint32_t bias; /* operand, or ULL__NONE */
} product;

static view matrix(uint32_t operand, int64_t batch, int64_t rows, int64_t columns,
                   bool transposed) {
  view v = {operand, {batch, rows, columns}, {rows * columns, columns, 1}};
  if (transposed) {
    v.strides[1] = 1;
    v.strides[2] = rows;
  }
  return v;
}

static int64_t dim(const ull__shape *shape, uint32_t index) {
  return shape->dims[index].constant;
}

static int64_t leading(const ull__shape *shape, uint32_t kept) {
  int64_t product = 1;
  for (uint32_t i = 0; i + kept < shape->rank; i++) product *= dim(shape, i);
  return product;
}

static int64_t last(const ull__shape *shape) {
  return dim(shape, shape->rank - 1);
}

/* ---- the operators as products ---- */

static product linear(const ull__graph *graph, const ull__node *node) {
  const ull__shape *x = ull__cpu_shape(graph, node->inputs[0]);
  const ull__shape *y = ull__cpu_shape(graph, node->outputs[0]);
  bool bias = node->input_count > 2 && node->inputs[2] != ULL__NONE;
  int64_t m = leading(x, 1), k = last(x), n = last(y);
  return (product){.a = matrix(0, 1, m, k, false),
                   .b = matrix(1, 1, k, n, ull__node_int(node, "transposed") == 0),
                   .c = matrix(node->input_count, 1, m, n, false),
                   .bias = bias ? 2 : ULL__NONE};
}

static product linear_backward_input(const ull__graph *graph, const ull__node *node) {
  const ull__shape *dy = ull__cpu_shape(graph, node->inputs[0]);
  int64_t m = leading(dy, 1), n = last(dy);
  int64_t k = last(ull__cpu_shape(graph, node->outputs[0]));
  return (product){.a = matrix(0, 1, m, n, false),
                   .b = matrix(1, 1, n, k, ull__node_int(node, "transposed") != 0),
                   .c = matrix(node->input_count, 1, m, k, false),
                   .bias = ULL__NONE};
}

static product linear_backward_weight(const ull__graph *graph, const ull__node *node) {
  const ull__shape *x = ull__cpu_shape(graph, node->inputs[0]);
  const ull__shape *dy = ull__cpu_shape(graph, node->inputs[1]);
  int64_t m = leading(x, 1), k = last(x), n = last(dy);
  if (ull__node_int(node, "transposed") != 0) {
    return (product){matrix(0, 1, k, m, true), matrix(1, 1, m, n, false),
                     matrix(node->input_count, 1, k, n, false), ULL__NONE};
  }
  return (product){matrix(1, 1, n, m, true), matrix(0, 1, m, k, false),
                   matrix(node->input_count, 1, n, k, false), ULL__NONE};
}

static product matmul(const ull__graph *graph, const ull__node *node) {
  const ull__shape *a = ull__cpu_shape(graph, node->inputs[0]);
  const ull__shape *c = ull__cpu_shape(graph, node->outputs[0]);
  bool transpose_a = ull__node_int(node, "transpose_a") != 0;
  int64_t batch = leading(c, 2), m = dim(c, c->rank - 2), n = last(c);
  int64_t k = transpose_a ? dim(a, a->rank - 2) : last(a);
  return (product){matrix(0, batch, m, k, transpose_a),
                   matrix(1, batch, k, n, ull__node_int(node, "transpose_b") != 0),
                   matrix(node->input_count, batch, m, n, false), ULL__NONE};
}

/* ---- asking the library ---- */

static ull_status view_md(const view *v, ull__onednn_md *out) {
  uint32_t skipped = v->dims[0] == 1 ? 1 : 0;
  return ull__onednn_md_create_strided(3 - skipped, v->dims + skipped, ULL_FLOAT32,
                                       v->strides + skipped, out);
}

static ull_status create_descriptor(ull__cpu *cpu, const product *p, dnnl_primitive_desc_t *out) {
  ull__onednn_md a = {0}, b = {0}, c = {0}, bias = {0};
  view bias_view = matrix(p->bias, p->c.dims[0] > 1 ? p->c.dims[0] : 1, 1, p->c.dims[2], false);
  ull_status status = view_md(&p->a, &a);
  if (status == ULL_OK) status = view_md(&p->b, &b);
  if (status == ULL_OK) status = view_md(&p->c, &c);
  if (status == ULL_OK && p->bias != ULL__NONE) status = view_md(&bias_view, &bias);
  if (status == ULL_OK) {
    ull__onednn_enter_team(cpu->onednn);
    status = ull__onednn_matmul_create(ull__onednn_engine(cpu->onednn), &a, &b,
                                       p->bias != ULL__NONE ? &bias : NULL, &c, out);
  }
  ull__onednn_md_destroy(&a);
  ull__onednn_md_destroy(&b);
  ull__onednn_md_destroy(&c);
  ull__onednn_md_destroy(&bias);
  return status;
}

static double efficiency(const product *p) {
  bool often = p->a.dims[1] >= 128 && p->b.dims[1] > 256;
  bool aliased = p->b.strides[2] == 1 && p->b.strides[1] * 4 % 4096 == 0 && often;
  return aliased ? ALIASED_EFFICIENCY : BRGEMM_EFFICIENCY;
}

static double product_seconds(const ull__cpu *cpu, const product *p) {
  double batch = (double)p->c.dims[0], m = (double)p->c.dims[1], n = (double)p->c.dims[2];
  double k = (double)p->a.dims[2];
  return ull__cpu_seconds(cpu, 2 * batch * m * n * k, 4 * batch * (m * k + k * n + m * n),
                          efficiency(p));
}

static ull_status choose(ull__cpu *cpu, const ull__lowering_query *query,
                         ull__lowering_choice *choice, const product *p) {
  dnnl_primitive_desc_t descriptor = NULL;
  const ull__onednn_argument arguments[] = {
      {DNNL_ARG_SRC, p->a.operand, dnnl_query_src_md, 0},
      {DNNL_ARG_WEIGHTS, p->b.operand, dnnl_query_weights_md, 0},
      {DNNL_ARG_DST, p->c.operand, dnnl_query_dst_md, 0},
      {DNNL_ARG_BIAS, p->bias, dnnl_query_weights_md, 1}};
  ULL__TRY(create_descriptor(cpu, p, &descriptor));
  if (descriptor == NULL) return ULL_OK;
  if (strncmp(ull__onednn_implementation(descriptor), "brg", 3) != 0) {
    (void)dnnl_primitive_desc_destroy(descriptor);
    return ULL_OK;
  }
  ull__cpu_choose_plain(query, choice);
  ULL__TRY(ull__onednn_kernel_create(
      cpu, "product", descriptor, arguments, p->bias != ULL__NONE ? 4 : 3,
      query->node->input_count + query->node->output_count, &choice->kernel));
  choice->kernel.seconds = product_seconds(cpu, p);
  choice->kernel.numeric_class =
      ull__cpu_numeric_class(cpu, query, choice, choice->kernel.implementation);
  return ULL_OK;
}

static bool is_asked(const ull__cpu *cpu, const ull__lowering_query *query) {
  return cpu->isa == ULL__ISA_AVX512 &&
         ull__cpu_dtype(query->graph, query->node->inputs[0]) == ULL_FLOAT32;
}

static ull_status choose_linear(ull__cpu *cpu, const ull__lowering_query *query,
                                ull__lowering_choice *choice) {
  if (!is_asked(cpu, query)) return ULL_OK;
  product p = linear(query->graph, query->node);
  return choose(cpu, query, choice, &p);
}

static ull_status choose_backward_input(ull__cpu *cpu, const ull__lowering_query *query,
                                        ull__lowering_choice *choice) {
  if (!is_asked(cpu, query)) return ULL_OK;
  product p = linear_backward_input(query->graph, query->node);
  return choose(cpu, query, choice, &p);
}

static ull_status choose_backward_weight(ull__cpu *cpu, const ull__lowering_query *query,
                                         ull__lowering_choice *choice) {
  if (!is_asked(cpu, query)) return ULL_OK;
  product p = linear_backward_weight(query->graph, query->node);
  return choose(cpu, query, choice, &p);
}

static ull_status choose_matmul(ull__cpu *cpu, const ull__lowering_query *query,
                                ull__lowering_choice *choice) {
  if (!is_asked(cpu, query)) return ULL_OK;
  product p = matmul(query->graph, query->node);
  return choose(cpu, query, choice, &p);
}

const ull__cpu_rule ull__cpu_rules_onednn_matmul[] = {
    {"linear", choose_linear},
    {"linear_backward_input", choose_backward_input},
    {"linear_backward_weight", choose_backward_weight},
    {"matmul", choose_matmul},
    {NULL, NULL}};
