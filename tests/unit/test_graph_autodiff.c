/* The structure of gradients: which nodes, in which order, for whom. Their numbers are tested with
 * the kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "support/graph_nets.h"

static ull__graph *differentiate(ull__graph *forward) {
  ull__graph *joint;
  assert_non_null(forward);
  if (ull__graph_differentiate(forward, &joint) != ULL_OK) {
    fail_msg("%s", ull_error_last()->message);
  }
  ull__graph_destroy(forward);
  return joint;
}

static uint32_t position(const ull__graph *graph, const char *node) {
  const ull__node *found = net_find_node(graph, node);
  if (!found) fail_msg("no node %s", node);
  for (ull__node_id n = 0;; n++) {
    if (ull__graph_node(graph, n) == found) return n;
  }
}

static const ull__value *named(const ull__graph *graph, const char *name) {
  const ull__value_id id = ull__graph_find_value(graph, name);
  if (id == ULL__NONE) fail_msg("no value %s", name);
  return ull__graph_value(graph, id);
}

static void every_parameter_gets_a_gradient_of_its_shape(void **state) {
  (void)state;
  ull__graph *(*const nets[])(ull_dtype) = {net_mlp, net_residual, net_transformer};
  for (int i = 0; i < 3; i++) {
    ull__graph *graph = differentiate(nets[i](i == 1 ? ULL_FLOAT64 : ULL_FLOAT32));
    uint32_t found = 0;
    for (ull__value_id v = 0; v < ull__graph_value_count(graph); v++) {
      const ull__value *value = ull__graph_value(graph, v);
      char name[128];
      if (value->role != ULL__ROLE_PARAMETER) continue;
      snprintf(name, sizeof name, "%s.grad", value->name);
      const ull__value *gradient = named(graph, name);
      assert_true(ull__shape_equal(&gradient->shape, &value->shape));
      assert_int_equal(gradient->dtype, value->dtype);
      assert_int_equal(gradient->role, ULL__ROLE_GRADIENT);
      assert_int_equal(gradient->subject, v);
      found++;
    }
    assert_true(found >= 4);
    ull__graph_destroy(graph);
  }
}

static void loss_weight_has_the_type_of_the_loss(void **state) {
  (void)state;
  ull__graph *graph = differentiate(net_mlp(ULL_FLOAT64));
  const ull__value *weight = named(graph, "loss_weight");
  assert_int_equal(weight->role, ULL__ROLE_INPUT);
  assert_int_equal(weight->dtype, ULL_FLOAT64);
  assert_int_equal(weight->shape.rank, 0);
  ull__graph_destroy(graph);
}

static void weights_come_before_inputs(void **state) {
  (void)state;
  ull__graph *graph = differentiate(net_residual(ULL_FLOAT32));
  assert_true(position(graph, "fc.grad_weight") < position(graph, "fc.grad_bias"));
  assert_true(position(graph, "fc.grad_bias") < position(graph, "fc.grad_input"));
  assert_int_equal(position(graph, "block.conv2.grad_weight") + 1,
                   position(graph, "block.conv2.grad_input"));
  assert_null(net_find_node(graph, "conv1.grad_input")); /* nobody wants the image's gradient */
  ull__graph_destroy(graph);
}

static void branches_add_up_in_the_order_they_arise(void **state) {
  (void)state;
  ull__graph *graph = differentiate(net_residual(ULL_FLOAT32));
  const ull__node *sum = net_find_node(graph, "relu.grad_sum");
  assert_non_null(sum);
  assert_string_equal(ull__graph_value(graph, sum->inputs[0])->name,
                      "block.downsample.0.grad_input");
  assert_string_equal(ull__graph_value(graph, sum->inputs[1])->name, "block.conv1.grad_input");
  assert_int_equal(net_count_op(graph, "add"), 2); /* the forward one and this one */
  ull__graph_destroy(graph);
}

static void relu_offers_a_dormant_saved_form(void **state) {
  (void)state;
  ull__graph *graph = differentiate(net_mlp(ULL_FLOAT32));
  const uint32_t primary = position(graph, "relu.grad_input");
  const uint32_t alternative = position(graph, "relu.grad_input_mask");
  const uint32_t mask = position(graph, "relu.mask");
  assert_int_equal(mask, position(graph, "relu") + 1);
  assert_int_equal(alternative, primary + 1);
  assert_int_equal(ull__graph_node(graph, alternative)->alternative_of, primary);
  assert_true(ull__node_is_dormant(graph, mask));
  assert_true(ull__node_is_dormant(graph, alternative));
  assert_false(ull__node_is_dormant(graph, primary));
  assert_false(ull__node_is_dormant(graph, position(graph, "fc1.grad_weight")));
  ull__graph_destroy(graph);
}

/* The loss of a chunked classifier and its gradients are one node; the tied table's other gradient
 * is added onto the first by the embedding's own backward. */
static void tied_logits_are_computed_once(void **state) {
  (void)state;
  ull__graph *graph = differentiate(net_transformer(ULL_FLOAT32));
  assert_int_equal(net_count_op(graph, "linear_cross_entropy"), 0);
  assert_int_equal(net_count_op(graph, "linear_cross_entropy_joint"), 1);
  const ull__node *joint = net_find_node(graph, "loss");
  const ull__node *table = net_find_node(graph, "wte.grad_weight");
  assert_int_equal(joint->inputs[3], ull__graph_find_value(graph, "loss_weight"));
  assert_int_equal(ull__graph_find_output(graph, "loss"), joint->outputs[0]);
  assert_int_equal(table->inputs[2], joint->outputs[2]);
  assert_int_equal(table->outputs[0], ull__graph_find_value(graph, "wte.weight.grad"));
  const ull__value *partial = ull__graph_value(graph, joint->outputs[2]);
  assert_int_equal(partial->role, ULL__ROLE_GRADIENT);
  assert_string_equal(ull__graph_value(graph, partial->subject)->name, "wte.weight");
  ull__graph_destroy(graph);
}

static void backward_dropout_draws_the_same_mask(void **state) {
  (void)state;
  ull__graph *graph = differentiate(net_transformer(ULL_FLOAT32));
  const ull__node *forward = net_find_node(graph, "drop");
  const ull__node *backward = net_find_node(graph, "drop.grad_input");
  const ull__node *other = net_find_node(graph, "h.attn.drop");
  assert_int_equal(forward->identity, backward->identity);
  assert_true(forward->identity != other->identity);
  assert_true(ull__node_real(backward, "p") == 0.1);
  ull__graph_destroy(graph);
}

/* y = x + p + p: both parameters' gradients are the same value, which must not be shared. */
static void gradients_of_parameters_are_values_of_their_own(void **state) {
  (void)state;
  ull__graph *graph, *joint;
  assert_int_equal(ull__graph_create("shared", &graph), ULL_OK);
  const ull__value_id p =
      net_source(graph, ULL__ROLE_PARAMETER, "p", ULL_FLOAT32, false, NET_DIMS(4, 8));
  const ull__value_id q =
      net_source(graph, ULL__ROLE_PARAMETER, "q", ULL_FLOAT32, false, NET_DIMS(4, 8));
  const ull__value_id t = net_source(graph, ULL__ROLE_INPUT, "t", ULL_INT64, false, NET_DIMS(4));
  const ull__value_id sum = net_node(graph, "add", "sum", NET_INPUTS(p, q), NULL, 0);
  const ull__value_id loss = net_node(graph, "cross_entropy", "loss", NET_INPUTS(sum, t), NULL, 0);
  assert_int_equal(ull__graph_add_output(graph, "loss", loss), ULL_OK);
  assert_int_equal(ull__graph_differentiate(graph, &joint), ULL_OK);
  const ull__value_id dp = ull__graph_find_value(joint, "p.grad");
  const ull__value_id dq = ull__graph_find_value(joint, "q.grad");
  assert_int_not_equal(dp, ULL__NONE);
  assert_int_not_equal(dq, ULL__NONE);
  assert_int_not_equal(dp, dq);
  assert_int_equal(net_count_op(joint, "copy"), 2);
  ull__graph_destroy(graph);
  ull__graph_destroy(joint);
}

static ull_status loss_of(const char *op, bool with_parameter) {
  ull__graph *graph, *joint;
  assert_int_equal(ull__graph_create("refused", &graph), ULL_OK);
  const ull__role role = with_parameter ? ULL__ROLE_PARAMETER : ULL__ROLE_STATE;
  const ull__value_id p = net_source(graph, role, "p", ULL_FLOAT32, false, NET_DIMS(4, 8));
  const ull__value_id t = net_source(graph, ULL__ROLE_INPUT, "t", ULL_INT64, false, NET_DIMS(4));
  const ull__value_id loss = net_node(graph, op, "loss", NET_INPUTS(p, t), NULL, 0);
  assert_int_equal(ull__graph_add_output(graph, "loss", loss), ULL_OK);
  const ull_status status = ull__graph_differentiate(graph, &joint);
  ull__graph_destroy(graph);
  ull__graph_destroy(joint);
  return status;
}

static void what_has_no_gradient_is_refused(void **state) {
  (void)state;
  ull__graph *graph, *joint;
  assert_int_equal(loss_of("cross_entropy", true), ULL_OK);
  assert_int_equal(loss_of("cross_entropy", false), ULL_ERROR_INVALID);
  assert_non_null(strstr(ull_error_last()->message, "depends on no parameter"));
  assert_int_equal(loss_of("count_correct", true), ULL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(ull_error_last()->message, "count_correct `loss` has no gradient"));
  assert_int_equal(ull__graph_create("empty", &graph), ULL_OK);
  assert_int_equal(ull__graph_differentiate(graph, &joint), ULL_ERROR_INVALID);
  assert_null(joint);
  ull__graph_destroy(graph);
}

/* ---- the optimizer ---- */

static ull__graph *optimize(ull__graph *joint, const ull__recipe *recipe) {
  ull__graph *full;
  if (ull__graph_add_optimizer(joint, recipe, &full) != ULL_OK) {
    fail_msg("%s", ull_error_last()->message);
  }
  ull__graph_destroy(joint);
  return full;
}

/* No node behind the one that writes over a parameter reads that parameter. */
static void check_updates_come_last(const ull__graph *graph) {
  for (ull__node_id n = 0; n < ull__graph_node_count(graph); n++) {
    const ull__node *node = ull__graph_node(graph, n);
    if (node->phase != ULL__PHASE_OPTIMIZER) continue;
    for (ull__node_id later = n + 1; later < ull__graph_node_count(graph); later++) {
      const ull__node *reader = ull__graph_node(graph, later);
      for (uint32_t i = 0; i < reader->input_count; i++) {
        if (reader->inputs[i] == node->inputs[0]) fail_msg("%s is late", reader->name);
      }
    }
  }
}

static void steps_follow_the_last_reader(void **state) {
  (void)state;
  const ull__recipe recipe = {.optimizer = ULL__SGD, .momentum = 0.9, .weight_decay = 0.1};
  ull__graph *graph = optimize(differentiate(net_residual(ULL_FLOAT32)), &recipe);
  check_updates_come_last(graph);
  assert_int_equal(position(graph, "fc.bias.step"), position(graph, "fc.grad_bias") + 1);
  assert_int_equal(position(graph, "fc.weight.step"), position(graph, "fc.grad_input") + 1);
  assert_int_equal(position(graph, "conv1.weight.step"), position(graph, "conv1.grad_weight") + 1);
  const ull__node *step = net_find_node(graph, "conv1.weight.step");
  const ull__value *momentum = ull__graph_value(graph, step->inputs[2]);
  assert_string_equal(momentum->name, "conv1.weight.momentum");
  assert_int_equal(momentum->role, ULL__ROLE_OPTIMIZER_STATE);
  assert_int_equal(momentum->subject, ull__graph_find_value(graph, "conv1.weight"));
  assert_true(ull__node_real(step, "weight_decay") == 0.1);
  assert_true(ull__node_real(net_find_node(graph, "bn1.bias.step"), "weight_decay") == 0);
  ull__graph_destroy(graph);
}

static void recipes_choose_the_row(void **state) {
  (void)state;
  const ull__recipe plain = {.optimizer = ULL__SGD};
  ull__graph *graph = optimize(differentiate(net_mlp(ULL_FLOAT64)), &plain);
  assert_int_equal(net_count_op(graph, "sgd_step"), 4);
  assert_int_equal(named(graph, "hyper")->dtype, ULL_FLOAT64);
  ull__graph_destroy(graph);
  const ull__recipe adamw = {.optimizer = ULL__ADAMW,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8,
                             .weight_decay = 0.1,
                             .decay_all = true};
  graph = optimize(differentiate(net_transformer(ULL_FLOAT32)), &adamw);
  check_updates_come_last(graph);
  const ull__node *step = net_find_node(graph, "ln_f.bias.step");
  assert_string_equal(step->op->name, "adam_step");
  assert_int_equal(ull__node_int(step, "decoupled"), 1);
  assert_true(ull__node_real(step, "beta2") == 0.95);
  assert_true(ull__node_real(step, "weight_decay") == 0.1);
  assert_non_null(named(graph, "wte.weight.v"));
  ull__graph_destroy(graph);
}

static void accumulation_ends_in_an_update_program(void **state) {
  (void)state;
  const ull__recipe recipe = {.optimizer = ULL__SGD, .momentum = 0.9};
  ull__graph *joint = differentiate(net_transformer(ULL_FLOAT32)), *sums, *update;
  assert_int_equal(ull__graph_add_accumulation(joint, &sums), ULL_OK);
  const ull__value *total = named(sums, "wte.weight.grad_total");
  assert_int_equal(total->role, ULL__ROLE_GRADIENT);
  assert_int_equal(total->producer, ULL__NONE);
  assert_int_equal(total->subject, ull__graph_find_value(sums, "wte.weight"));
  assert_int_equal(position(sums, "wte.weight.accumulate"), position(sums, "wte.grad_weight") + 1);
  assert_int_equal(ull__graph_make_update(sums, &recipe, &update), ULL_OK);
  assert_int_equal(ull__graph_node_count(update), net_count_op(sums, "accumulate"));
  assert_int_equal(net_count_op(update, "sgd_momentum_step"), ull__graph_node_count(update));
  const ull__node *step = net_find_node(update, "wte.weight.step");
  assert_string_equal(ull__graph_value(update, step->inputs[1])->name, "wte.weight.grad_total");
  assert_int_equal(ull__graph_find_value(update, "input_ids"), ULL__NONE);
  ull__graph_destroy(update);
  assert_int_equal(ull__graph_make_update(joint, &recipe, &update), ULL_ERROR_INVALID);
  ull__graph_destroy(joint);
  ull__graph_destroy(sums);
}

static void an_update_is_a_graph_of_its_own(void **state) {
  (void)state;
  const ull__recipe recipe = {.optimizer = ULL__ADAM, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
  ull__graph *joint = differentiate(net_mlp(ULL_FLOAT32)), *sums, *update, *bound;
  assert_int_equal(ull__graph_add_accumulation(joint, &sums), ULL_OK);
  assert_int_equal(ull__graph_make_update(sums, &recipe, &update), ULL_OK);
  ull__graph_destroy(joint);
  ull__graph_destroy(sums);
  assert_int_equal(ull__graph_bind(update, 7, &bound), ULL_OK);
  assert_int_equal(ull__graph_node_count(bound), 4);
  ull__graph_destroy(update);
  ull__graph_destroy(bound);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_parameter_gets_a_gradient_of_its_shape),
      cmocka_unit_test(loss_weight_has_the_type_of_the_loss),
      cmocka_unit_test(weights_come_before_inputs),
      cmocka_unit_test(branches_add_up_in_the_order_they_arise),
      cmocka_unit_test(relu_offers_a_dormant_saved_form),
      cmocka_unit_test(tied_logits_are_computed_once),
      cmocka_unit_test(backward_dropout_draws_the_same_mask),
      cmocka_unit_test(gradients_of_parameters_are_values_of_their_own),
      cmocka_unit_test(what_has_no_gradient_is_refused),
      cmocka_unit_test(steps_follow_the_last_reader),
      cmocka_unit_test(recipes_choose_the_row),
      cmocka_unit_test(accumulation_ends_in_an_update_program),
      cmocka_unit_test(an_update_is_a_graph_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
