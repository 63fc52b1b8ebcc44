/* Convolutions on our own product: whatever oneDNN would do by its old matrix product or its
 * reference loops, with honest scratch memory. Activations stay as they lie. */
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops/convolution.h"
#include "kernels/cpu/loops/gemm.h"
#include "kernels/cpu/rules.h"

ULL__LOOP(convolution)
ULL__LOOP(convolution_backward_input)
ULL__LOOP(convolution_backward_weight)

/* Floats gathered at once, and the fewest positions worth a product. */
enum { TILE_FLOATS = 128 << 10, FEWEST_POSITIONS = 64 };

static int64_t choose_tile(const ull__convolution *c) {
  int64_t positions = c->batch * c->out_height * c->out_width;
  int64_t tile = TILE_FLOATS / ull__convolution_window(c);
  if (tile < FEWEST_POSITIONS) tile = FEWEST_POSITIONS;
  return tile < positions ? tile : positions;
}

static void set_window(const ull__node *node, ull__convolution *c) {
  c->groups = ull__node_int(node, "groups");
  c->stride_h = ull__node_int(node, "stride_h");
  c->stride_w = ull__node_int(node, "stride_w");
  c->pad_h = ull__node_int(node, "pad_h");
  c->pad_w = ull__node_int(node, "pad_w");
  c->dilation_h = ull__node_int(node, "dilation_h");
  c->dilation_w = ull__node_int(node, "dilation_w");
  c->operands = node->input_count;
}

static void set_sizes(const ull__shape *x, const ull__shape *w, const ull__shape *y,
                      ull__convolution *c) {
  c->batch = ull__rules_dim(x, 0);
  c->inputs = ull__rules_dim(x, 1) / c->groups;
  c->outputs = ull__rules_dim(y, 1) / c->groups;
  c->height = ull__rules_dim(x, 2);
  c->width = ull__rules_dim(x, 3);
  c->out_height = ull__rules_dim(y, 2);
  c->out_width = ull__rules_dim(y, 3);
  c->kernel_h = ull__rules_dim(w, 2);
  c->kernel_w = ull__rules_dim(w, 3);
  c->tile = choose_tile(c);
}

static ull_status place(const ull__layout *x_layout, const ull__shape *x,
                        const ull__layout *y_layout, const ull__shape *y, ull__convolution *c) {
  ULL__TRY(ull__layout_geometry(x_layout, x, &c->x));
  ULL__TRY(ull__layout_geometry(y_layout, y, &c->y));
  ULL__TRY(ull__layout_bytes(x_layout, ULL_FLOAT32, x, &c->x_bytes));
  return ull__layout_bytes(y_layout, ULL_FLOAT32, y, &c->y_bytes);
}

/* The pass multiplies [m, k] by [k, n] at most. */
static uint64_t workspace_bytes(const ull__convolution *c, int64_t m, int64_t n, int64_t k) {
  int64_t gathered = (ull__convolution_window(c) + c->outputs) * c->tile;
  return (uint64_t)(gathered + ull__gemm_scratch_floats(m, n, k)) * sizeof(float);
}

/* Gathering a window takes about as long as 64 products with it. Counted below what is measured,
 * since layouts that only suit this kernel are no use to its neighbours. */
static double efficiency(const ull__convolution *c) {
  return 0.4 * (double)c->outputs / ((double)c->outputs + 64.0);
}

static ull_status finish(ull__cpu *cpu, const ull__lowering_query *query,
                         ull__lowering_choice *choice, const ull__entry *entries,
                         const ull__convolution *c) {
  double flops = 2.0 * (double)(c->batch * c->out_height * c->out_width) *
                 (double)(c->groups * c->outputs) * (double)ull__convolution_window(c);
  choice->may_overwrite[0] = 0;
  ULL__TRY(ull__rules_finish(cpu, query, choice, "convolution", entries, c, sizeof *c));
  choice->kernel.seconds =
      ull__cpu_seconds(cpu, flops, 2.0 * (double)(c->x_bytes + c->y_bytes), efficiency(c));
  return ULL_OK;
}

/* An activation stays where it is; what only a library knows is asked for in plain order. */
static const ull__layout *known(const ull__layout *layout) {
  return ull__rules_has_geometry(layout) ? layout : &ull__layout_plain;
}

/* The layout of what is made: that of the other activation, unless it would be padded. */
static const ull__layout *made_like(const ull__layout *layout, const ull__shape *shape) {
  return ull__layout_is_padded(layout, ULL_FLOAT32, shape) ? &ull__layout_plain : layout;
}

static ull_status choose_forward(ull__cpu *cpu, const ull__lowering_query *query,
                                 ull__lowering_choice *choice) {
  const ull__shape *x = ull__rules_input(query, 0), *y = ull__rules_output(query, 0);
  ull__convolution c = {0};
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cpu_choose_plain(query, choice);
  choice->input_layouts[0] = known(query->input_layouts[0]);
  choice->output_layouts[0] = made_like(choice->input_layouts[0], y);
  set_window(query->node, &c);
  set_sizes(x, ull__rules_input(query, 1), y, &c);
  c.has_bias = ull__rules_input(query, 2) != NULL;
  ULL__TRY(place(choice->input_layouts[0], x, choice->output_layouts[0], y, &c));
  choice->kernel.workspace_bytes =
      workspace_bytes(&c, c.outputs, c.tile, ull__convolution_window(&c));
  return finish(cpu, query, choice, convolution_entries, &c);
}

static ull_status choose_backward_input(ull__cpu *cpu, const ull__lowering_query *query,
                                        ull__lowering_choice *choice) {
  const ull__shape *dy = ull__rules_input(query, 0), *dx = ull__rules_output(query, 0);
  ull__convolution c = {0};
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cpu_choose_plain(query, choice);
  choice->input_layouts[0] = known(query->input_layouts[0]);
  choice->output_layouts[0] = made_like(choice->input_layouts[0], dx);
  set_window(query->node, &c);
  set_sizes(dx, ull__rules_input(query, 1), dy, &c);
  ULL__TRY(place(choice->output_layouts[0], dx, choice->input_layouts[0], dy, &c));
  choice->kernel.workspace_bytes =
      workspace_bytes(&c, ull__convolution_window(&c), c.tile, c.outputs);
  return finish(cpu, query, choice, convolution_backward_input_entries, &c);
}

static ull_status choose_backward_weight(ull__cpu *cpu, const ull__lowering_query *query,
                                         ull__lowering_choice *choice) {
  const ull__shape *x = ull__rules_input(query, 0), *dy = ull__rules_input(query, 1);
  ull__convolution c = {0};
  if (!ull__rules_float32(query)) return ULL_OK;
  ull__cpu_choose_plain(query, choice);
  choice->input_layouts[0] = known(query->input_layouts[0]);
  choice->input_layouts[1] = known(query->input_layouts[1]);
  set_window(query->node, &c);
  set_sizes(x, ull__rules_output(query, 0), dy, &c);
  ULL__TRY(place(choice->input_layouts[0], x, choice->input_layouts[1], dy, &c));
  choice->kernel.workspace_bytes =
      workspace_bytes(&c, c.outputs, ull__convolution_window(&c), c.tile);
  return finish(cpu, query, choice, convolution_backward_weight_entries, &c);
}

const ull__cpu_rule ull__cpu_rules_convolution[] = {
    {"conv2d", choose_forward},
    {"conv2d_backward_input", choose_backward_input},
    {"conv2d_backward_weight", choose_backward_weight},
    {NULL, NULL}};
