/* Stages that rewrite a graph: binding, evaluation, folding, fusion; and which batches may be
 * split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/elementwise.h"
#include "support/graph_nets.h"

typedef ull_status (*stage)(const ull__graph *graph, ull__graph **out);

/* Runs a stage and destroys what it was given. */
static ull__graph *apply(ull__graph *graph, stage run) {
  ull__graph *out;
  assert_non_null(graph);
  if (run(graph, &out) != ULL_OK) fail_msg("%s", ull_error_last()->message);
  ull__graph_destroy(graph);
  return out;
}

static ull_status add_sgd(const ull__graph *graph, ull__graph **out) {
  const ull__recipe recipe = {.optimizer = ULL__SGD, .momentum = 0.9};
  return ull__graph_add_optimizer(graph, &recipe, out);
}

static ull__graph *training_graph(ull__graph *forward) {
  return apply(apply(forward, ull__graph_differentiate), add_sgd);
}

static ull_status bind_to_3(const ull__graph *graph, ull__graph **out) {
  return ull__graph_bind(graph, 3, out);
}

/* Inputs of every node are sources or made before it. */
static void check_order(const ull__graph *graph) {
  for (ull__node_id n = 0; n < ull__graph_node_count(graph); n++) {
    const ull__node *node = ull__graph_node(graph, n);
    for (uint32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] == ULL__NONE) continue;
      const ull__node_id producer = ull__graph_value(graph, node->inputs[i])->producer;
      if (producer != ULL__NONE && producer >= n) fail_msg("%s is too early", node->name);
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
      assert_int_equal(ull__graph_value(graph, node->outputs[o])->producer, n);
    }
  }
}

static void texts_are_equal(const ull__graph *a, const ull__graph *b) {
  char *text_a, *text_b;
  assert_int_equal(ull__graph_text(a, &text_a), ULL_OK);
  assert_int_equal(ull__graph_text(b, &text_b), ULL_OK);
  assert_string_equal(text_a, text_b);
  ull__free(text_a);
  ull__free(text_b);
}

static void binding_leaves_no_symbol(void **state) {
  (void)state;
  ull__graph *(*const nets[])(ull_dtype) = {net_mlp, net_residual, net_transformer};
  for (int i = 0; i < 3; i++) {
    ull__graph *graph = apply(training_graph(nets[i](ULL_FLOAT32)), bind_to_3), *again;
    assert_int_equal(ull__graph_batch(graph), 3);
    for (ull__value_id v = 0; v < ull__graph_value_count(graph); v++) {
      uint64_t count = 0;
      assert_int_equal(ull__shape_count(&ull__graph_value(graph, v)->shape, &count), ULL_OK);
    }
    check_order(graph);
    assert_int_equal(ull__graph_bind(graph, 3, &again), ULL_ERROR_INVALID);
    ull__graph_destroy(graph);
  }
  ull__graph *mlp = net_mlp(ULL_FLOAT32), *bound;
  assert_int_equal(ull__graph_bind(mlp, 0, &bound), ULL_ERROR_INVALID);
  ull__graph_destroy(mlp);
}

/* The order of binding and the other stages does not matter. */
static void stages_commute_with_binding(void **state) {
  (void)state;
  ull__graph *early = training_graph(apply(net_residual(ULL_FLOAT32), bind_to_3));
  ull__graph *late = apply(training_graph(net_residual(ULL_FLOAT32)), bind_to_3);
  early = apply(apply(early, ull__graph_fold), ull__graph_fuse);
  late = apply(apply(late, ull__graph_fold), ull__graph_fuse);
  texts_are_equal(early, late);
  ull__graph_destroy(early);
  ull__graph_destroy(late);
}

/* ---- evaluation ---- */

static void evaluation_uses_running_statistics(void **state) {
  (void)state;
  ull__graph *graph = apply(net_residual(ULL_FLOAT32), ull__graph_derive_evaluation);
  assert_int_equal(net_count_op(graph, "batch_norm_statistics"), 0);
  assert_int_equal(net_count_op(graph, "batch_norm_update"), 0);
  assert_int_equal(net_count_op(graph, "batch_norm_invstd"), 4);
  const ull__node *norm = net_find_node(graph, "block.bn2");
  assert_int_equal(norm->inputs[1], ull__graph_find_value(graph, "block.bn2.running_mean"));
  const ull__node *invstd =
      ull__graph_node(graph, ull__graph_value(graph, norm->inputs[2])->producer);
  assert_int_equal(invstd->inputs[0], ull__graph_find_value(graph, "block.bn2.running_var"));
  assert_int_not_equal(ull__graph_find_output(graph, "loss"), ULL__NONE);
  assert_int_not_equal(ull__graph_find_output(graph, "correct"), ULL__NONE);
  assert_int_equal(ull__graph_check_splittable(graph), ULL_OK);
  check_order(graph);
  ull__graph_destroy(graph);
}

static void evaluation_drops_dropout_and_its_key(void **state) {
  (void)state;
  ull__graph *graph = apply(net_transformer(ULL_FLOAT32), ull__graph_derive_evaluation);
  assert_int_equal(net_count_op(graph, "dropout"), 0);
  assert_int_equal(ull__graph_find_value(graph, "rng"), ULL__NONE);
  assert_int_equal(net_count_op(graph, "linear_cross_entropy"), 1);
  const ull__node *add = net_find_node(graph, "h.add1");
  assert_int_equal(add->inputs[0], ull__graph_find_value(graph, "wpe"));
  assert_int_equal(add->inputs[1], ull__graph_find_value(graph, "h.attn.c_proj"));
  ull__graph_destroy(graph);
}

static void evaluation_is_made_of_forward_graphs_only(void **state) {
  (void)state;
  ull__graph *graph = training_graph(net_mlp(ULL_FLOAT32)), *evaluation;
  assert_int_equal(ull__graph_derive_evaluation(graph, &evaluation), ULL_ERROR_INVALID);
  ull__graph_destroy(graph);
}

/* ---- splitting ---- */

static void mixing_nodes_are_named(void **state) {
  (void)state;
  ull__graph *graph = net_mlp(ULL_FLOAT32);
  assert_int_equal(ull__graph_check_splittable(graph), ULL_OK);
  ull__graph_destroy(graph);
  graph = training_graph(net_transformer(ULL_FLOAT32));
  assert_int_equal(ull__graph_check_splittable(graph), ULL_OK);
  ull__graph_destroy(graph);
  graph = net_residual(ULL_FLOAT32);
  assert_int_equal(ull__graph_check_splittable(graph), ULL_ERROR_UNSUPPORTED);
  assert_string_equal(ull_error_last()->message,
                      "bn1: batch_norm_statistics mixes the samples of a batch");
  ull__graph_destroy(graph);
}

static void a_batch_behind_the_first_axis_is_mixed(void **state) {
  (void)state;
  ull__graph *graph;
  assert_int_equal(ull__graph_create("mixed", &graph), ULL_OK);
  const ull__value_id x = net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(4));
  net_node(graph, "reshape", "turn", NET_INPUTS(x),
           NET_SETTINGS(ULL__INT("rank", 2), ULL__INT("d0", 4), ULL__INT("d1", 1),
                        ULL__INT("batched", 2)));
  assert_int_equal(ull__graph_check_splittable(graph), ULL_ERROR_UNSUPPORTED);
  assert_string_equal(ull_error_last()->holder, "turn");
  ull__graph_destroy(graph);
}

static void a_product_over_the_batch_is_mixed(void **state) {
  (void)state;
  ull__graph *graph;
  assert_int_equal(ull__graph_create("gram", &graph), ULL_OK);
  const ull__value_id x = net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(4));
  net_node(graph, "matmul", "gram", NET_INPUTS(x, x), NET_SETTINGS(ULL__INT("transpose_a", 1)));
  assert_int_equal(ull__graph_check_splittable(graph), ULL_ERROR_UNSUPPORTED);
  ull__graph_destroy(graph);
}

/* ---- folding ---- */

static ull__value_id constant(ull__graph *graph, const char *name, const float *bytes) {
  const ull__shape shape = ull__shape_of(1, (int64_t[]){4});
  ull__value_id value;
  assert_int_equal(ull__graph_add_constant(graph, name, ULL_FLOAT32, &shape, bytes, &value),
                   ULL_OK);
  return value;
}

static void constants_are_computed(void **state) {
  (void)state;
  ull__graph *graph;
  const float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40}, wanted[4] = {5.5f, 11, 16.5f, 22};
  assert_int_equal(ull__graph_create("constants", &graph), ULL_OK);
  const ull__value_id x = net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(4));
  const ull__value_id sum = net_node(
      graph, "add", "sum", NET_INPUTS(constant(graph, "a", a), constant(graph, "b", b)), NULL, 0);
  const ull__value_id half =
      net_node(graph, "scale", "half", NET_INPUTS(sum), NET_SETTINGS(ULL__REAL("factor", 0.5)));
  const ull__value_id y = net_node(graph, "bias_add", "y", NET_INPUTS(x, half), NULL, 0);
  assert_int_equal(ull__graph_add_output(graph, "y", y), ULL_OK);
  graph = apply(graph, ull__graph_fold);
  assert_int_equal(ull__graph_node_count(graph), 1);
  assert_int_equal(ull__graph_find_value(graph, "a"), ULL__NONE);
  const ull__value *folded = ull__graph_value(graph, ull__graph_find_value(graph, "half"));
  assert_int_equal(folded->role, ULL__ROLE_CONSTANT);
  assert_memory_equal(folded->constant, wanted, sizeof wanted);
  ull__graph_destroy(graph);
}

static void views_of_views_become_one(void **state) {
  (void)state;
  ull__graph *graph;
  assert_int_equal(ull__graph_create("views", &graph), ULL_OK);
  const ull__value_id x =
      net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(2, 8));
  const ull__value_id flat = net_node(graph, "reshape", "flat", NET_INPUTS(x),
                                      NET_SETTINGS(ULL__INT("rank", 2), ULL__INT("d0", 1),
                                                   ULL__INT("d1", 16), ULL__INT("batched", 1)));
  const ull__attribute_setting as_before[] = {ULL__INT("rank", 3), ULL__INT("d0", 1),
                                              ULL__INT("d1", 2), ULL__INT("d2", 8),
                                              ULL__INT("batched", 1)};
  const ull__attribute_setting other[] = {ULL__INT("rank", 3), ULL__INT("d0", 1), ULL__INT("d1", 8),
                                          ULL__INT("d2", 2), ULL__INT("batched", 1)};
  const ull__value_id back = net_node(graph, "reshape", "back", NET_INPUTS(flat), as_before, 5);
  const ull__value_id turned = net_node(graph, "reshape", "turned", NET_INPUTS(flat), other, 5);
  const ull__value_id r = net_node(graph, "relu", "r", NET_INPUTS(back), NULL, 0);
  const ull__value_id s = net_node(graph, "relu", "s", NET_INPUTS(turned), NULL, 0);
  assert_int_equal(ull__graph_add_output(graph, "r", r), ULL_OK);
  assert_int_equal(ull__graph_add_output(graph, "s", s), ULL_OK);
  graph = apply(graph, ull__graph_fold);
  assert_int_equal(net_count_op(graph, "reshape"), 1);
  assert_int_equal(net_find_node(graph, "r")->inputs[0], ull__graph_find_value(graph, "x"));
  assert_int_equal(net_find_node(graph, "turned")->inputs[0], ull__graph_find_value(graph, "x"));
  ull__graph_destroy(graph);
}

static void only_what_nobody_reads_goes(void **state) {
  (void)state;
  ull__graph *forward = net_residual(ULL_FLOAT32);
  const ull__value_id dead = net_node(forward, "tanh", "dead",
                                      NET_INPUTS(ull__graph_find_value(forward, "relu")), NULL, 0);
  net_node(forward, "tanh", "deader", NET_INPUTS(dead), NULL, 0);
  ull__graph *joint = apply(forward, ull__graph_differentiate);
  const uint32_t nodes = ull__graph_node_count(joint);
  joint = apply(joint, ull__graph_fold);
  assert_int_equal(ull__graph_node_count(joint), nodes - 2);
  assert_null(net_find_node(joint, "dead"));
  assert_int_equal(net_count_op(joint, "batch_norm_update"), 4);
  assert_int_equal(net_count_op(joint, "relu_mask"), 3);
  assert_int_equal(net_count_op(joint, "relu_backward_mask"), 3);
  check_order(joint);
  ull__graph_destroy(joint);
}

/* ---- fusion ---- */

static void check_step(const ull__node *node, uint32_t step, ull__element_code code,
                       uint8_t first_operand) {
  assert_int_equal(node->steps[step].code, code);
  assert_int_equal(node->steps[step].operands[0], first_operand);
}

static void residual_chains_become_one_node(void **state) {
  (void)state;
  ull__graph *graph = apply(training_graph(net_residual(ULL_FLOAT32)), ull__graph_fuse);
  check_order(graph);
  assert_int_equal(net_count_op(graph, "batch_norm_normalize"), 0);
  assert_int_equal(net_count_op(graph, "fused_elementwise"), 3);
  const ull__node *node = net_find_node(graph, "block.relu2");
  assert_int_equal(node->input_count, 10);
  assert_int_equal(node->step_count, 4);
  check_step(node, 0, ULL__ELEMENT_NORMALIZE, 0);
  check_step(node, 1, ULL__ELEMENT_NORMALIZE, 5);
  check_step(node, 2, ULL__ELEMENT_ADD, 10);
  assert_int_equal(node->steps[2].operands[1], 11);
  check_step(node, 3, ULL__ELEMENT_RELU, 12);
  assert_string_equal(ull__graph_value(graph, node->inputs[0])->name, "block.conv2");
  assert_string_equal(ull__graph_value(graph, node->outputs[0])->name, "block.relu2");
  ull__graph_destroy(graph);
}

/* ReLU's backward goes into the normalisation that alone reads it; the one that two branches read
 * stays, with its alternative. */
static void relu_backward_joins_its_normalisation(void **state) {
  (void)state;
  ull__graph *graph = apply(training_graph(net_residual(ULL_FLOAT32)), ull__graph_fuse);
  const ull__node *norm = net_find_node(graph, "block.bn1.grad");
  assert_int_equal(norm->input_count, 6);
  assert_int_equal(ull__node_int(norm, "relu"), 1);
  assert_string_equal(ull__graph_value(graph, norm->inputs[1])->name, "block.conv2.grad_input");
  assert_string_equal(ull__graph_value(graph, norm->inputs[5])->name, "block.bn1.bias");
  assert_int_equal(ull__graph_value(graph, norm->outputs[1])->role, ULL__ROLE_GRADIENT);
  assert_int_equal(ull__node_int(net_find_node(graph, "block.bn2.grad"), "relu"), 0);
  assert_int_equal(net_count_op(graph, "relu_backward"), 1);
  assert_int_equal(net_count_op(graph, "relu_backward_mask"), 1);
  assert_int_equal(net_count_op(graph, "relu_mask"), 1);
  const ull__node *alternative = net_find_node(graph, "block.relu2.grad_input_mask");
  assert_string_equal(ull__graph_node(graph, alternative->alternative_of)->name,
                      "block.relu2.grad_input");
  ull__graph_destroy(graph);
}

static void dropout_keeps_its_identity_in_a_chain(void **state) {
  (void)state;
  ull__graph *graph = training_graph(net_transformer(ULL_FLOAT32));
  const uint64_t identity = net_find_node(graph, "h.attn.drop")->identity;
  graph = apply(graph, ull__graph_fuse);
  const ull__node *node = net_find_node(graph, "h.add1");
  assert_string_equal(node->op->name, "fused_elementwise");
  check_step(node, 0, ULL__ELEMENT_DROPOUT, 0);
  assert_true(node->steps[0].identity == identity);
  assert_true(node->steps[0].immediate == 0.1);
  assert_string_equal(ull__graph_value(graph, node->inputs[1])->name, "rng");
  assert_non_null(net_find_node(graph, "h.mlp.act")); /* alone between products: left as it is */
  assert_string_equal(net_find_node(graph, "h.mlp.act")->op->name, "gelu");
  check_order(graph);
  ull__graph_destroy(graph);
}

static void values_with_two_readers_are_not_swallowed(void **state) {
  (void)state;
  ull__graph *graph;
  assert_int_equal(ull__graph_create("readers", &graph), ULL_OK);
  const ull__value_id x = net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(4));
  const ull__value_id t = net_node(graph, "tanh", "t", NET_INPUTS(x), NULL, 0);
  const ull__value_id u = net_node(graph, "scale", "u", NET_INPUTS(t), NULL, 0);
  const ull__value_id v = net_node(graph, "mul", "v", NET_INPUTS(u, t), NULL, 0);
  const ull__value_id w = net_node(graph, "sigmoid", "w", NET_INPUTS(v), NULL, 0);
  const ull__value_id z = net_node(graph, "relu", "z", NET_INPUTS(w), NULL, 0);
  assert_int_equal(ull__graph_add_output(graph, "w", w), ULL_OK);
  assert_int_equal(ull__graph_add_output(graph, "z", z), ULL_OK);
  graph = apply(graph, ull__graph_fuse);
  assert_int_equal(ull__graph_node_count(graph), 3); /* t; u > v > w; z */
  assert_int_equal(net_find_node(graph, "w")->step_count, 3);
  assert_int_equal(net_find_node(graph, "w")->steps[1].operands[1], 0);
  ull__graph_destroy(graph);
}

static void long_chains_stop_at_the_limit(void **state) {
  (void)state;
  ull__graph *graph;
  assert_int_equal(ull__graph_create("long", &graph), ULL_OK);
  ull__value_id x = net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(4));
  for (int i = 0; i < 30; i++) x = net_node(graph, "tanh", "t", NET_INPUTS(x), NULL, 0);
  assert_int_equal(ull__graph_add_output(graph, "y", x), ULL_OK);
  graph = apply(graph, ull__graph_fuse);
  assert_int_equal(ull__graph_node_count(graph), 3);
  uint32_t steps = 0;
  for (ull__node_id n = 0; n < 3; n++) steps += ull__graph_node(graph, n)->step_count;
  assert_int_equal(steps, 30);
  ull__graph_destroy(graph);
}

/* Moving `early` to the root would make it read the parameter after its step. */
static void reads_do_not_cross_updates(void **state) {
  (void)state;
  ull__graph *graph;
  ull__value_id updated;
  assert_int_equal(ull__graph_create("across", &graph), ULL_OK);
  const ull__value_id p =
      net_source(graph, ULL__ROLE_PARAMETER, "p", ULL_FLOAT32, false, NET_DIMS(4));
  const ull__value_id g = net_source(graph, ULL__ROLE_INPUT, "g", ULL_FLOAT32, false, NET_DIMS(4));
  const ull__value_id hyper =
      net_source(graph, ULL__ROLE_INPUT, "hyper", ULL_FLOAT32, false, NET_DIMS(8));
  const ull__value_id early = net_node(graph, "mul", "early", NET_INPUTS(p, g), NULL, 0);
  assert_int_equal(
      ull__graph_add_node(graph, "sgd_step", "step", NET_INPUTS(p, g, hyper), NULL, 0, &updated),
      ULL_OK);
  const ull__value_id late = net_node(graph, "relu", "late", NET_INPUTS(early), NULL, 0);
  assert_int_equal(ull__graph_add_output(graph, "late", late), ULL_OK);
  graph = apply(graph, ull__graph_fuse);
  assert_non_null(net_find_node(graph, "early"));
  assert_int_equal(net_count_op(graph, "fused_elementwise"), 0);
  ull__graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(binding_leaves_no_symbol),
      cmocka_unit_test(stages_commute_with_binding),
      cmocka_unit_test(evaluation_uses_running_statistics),
      cmocka_unit_test(evaluation_drops_dropout_and_its_key),
      cmocka_unit_test(evaluation_is_made_of_forward_graphs_only),
      cmocka_unit_test(mixing_nodes_are_named),
      cmocka_unit_test(a_batch_behind_the_first_axis_is_mixed),
      cmocka_unit_test(a_product_over_the_batch_is_mixed),
      cmocka_unit_test(constants_are_computed),
      cmocka_unit_test(views_of_views_become_one),
      cmocka_unit_test(only_what_nobody_reads_goes),
      cmocka_unit_test(residual_chains_become_one_node),
      cmocka_unit_test(relu_backward_joins_its_normalisation),
      cmocka_unit_test(dropout_keeps_its_identity_in_a_chain),
      cmocka_unit_test(values_with_two_readers_are_not_swallowed),
      cmocka_unit_test(long_chains_stop_at_the_limit),
      cmocka_unit_test(reads_do_not_cross_updates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
