/* Building graphs: names, arity, sources, refusals, failing memory; and the text of a small net. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "support/graph_nets.h"

static ull__graph *new_graph(void) {
  ull__graph *graph;
  assert_int_equal(ull__graph_create("test", &graph), ULL_OK);
  return graph;
}

static void fixed_names_are_unique_and_others_get_numbers(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  ull__value_id value;
  const ull__shape shape = ull__shape_of(1, (int64_t[]){8});
  const float bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  assert_int_equal(
      ull__graph_add_source(graph, ULL__ROLE_PARAMETER, "w", ULL_FLOAT32, &shape, &value), ULL_OK);
  assert_int_equal(ull__graph_add_source(graph, ULL__ROLE_STATE, "w", ULL_FLOAT32, &shape, &value),
                   ULL_ERROR_INVALID);
  assert_non_null(strstr(ull_error_last()->message, "two values named w"));
  assert_int_equal(ull__graph_add_constant(graph, "w", ULL_FLOAT32, &shape, bytes, &value), ULL_OK);
  assert_string_equal(ull__graph_value(graph, value)->name, "w.2");
  assert_memory_equal(ull__graph_value(graph, value)->constant, bytes, sizeof bytes);
  const ull__value_id first = net_node(graph, "relu", "r", NET_INPUTS(value), NULL, 0);
  const ull__value_id second = net_node(graph, "relu", "r", NET_INPUTS(first), NULL, 0);
  assert_string_equal(ull__graph_node(graph, 1)->name, "r.2");
  assert_string_equal(ull__graph_value(graph, second)->name, "r.2");
  assert_int_equal(ull__graph_find_value(graph, "r.2"), second);
  assert_int_equal(ull__graph_find_value(graph, "nothing"), ULL__NONE);
  assert_true(ull__graph_node(graph, 0)->identity != ull__graph_node(graph, 1)->identity);
  ull__graph_destroy(graph);
}

static void broken_nodes_are_refused(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  ull__value_id out[ULL__MAX_OUTPUTS];
  const ull__value_id x = net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(8));
  const ull__value_id absent = ULL__NONE, beyond = 99;
  const ull__attribute_setting unknown = ULL__INT("no_such", 1);
  assert_int_equal(ull__graph_add_node(graph, "no_such", "n", &x, 1, NULL, 0, out),
                   ULL_ERROR_UNSUPPORTED);
  assert_int_equal(ull__graph_add_node(graph, "relu", "", &x, 1, NULL, 0, out), ULL_ERROR_INVALID);
  assert_int_equal(ull__graph_add_node(graph, "relu", "n", &absent, 1, NULL, 0, out),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__graph_add_node(graph, "relu", "n", &beyond, 1, NULL, 0, out),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__graph_add_node(graph, "relu", "n", &x, 1, &unknown, 1, out),
                   ULL_ERROR_INVALID);
  assert_non_null(strstr(ull_error_last()->message, "no attribute no_such"));
  assert_int_equal(ull__graph_node_count(graph), 0);
  assert_int_equal(ull__graph_add_output(graph, "loss", 99), ULL_ERROR_INVALID);
  assert_int_equal(ull__graph_add_output(graph, "loss", x), ULL_OK);
  assert_int_equal(ull__graph_add_output(graph, "loss", x), ULL_ERROR_INVALID);
  ull__graph_destroy(graph);
}

static void impossible_shapes_are_refused(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  ull__value_id value;
  const ull__shape empty = ull__shape_of(2, (int64_t[]){3, 0});
  const ull__shape huge = ull__shape_of(2, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 22});
  ull__shape deep = {.rank = 9};
  assert_int_equal(ull__graph_add_source(graph, ULL__ROLE_INPUT, "a", ULL_FLOAT32, &empty, &value),
                   ULL_ERROR_INVALID);
  assert_int_equal(ull__graph_add_source(graph, ULL__ROLE_INPUT, "a", ULL_FLOAT32, &huge, &value),
                   ULL_ERROR_OVERFLOW);
  assert_non_null(strstr(ull_error_last()->message, "a: "));
  assert_int_equal(ull__graph_add_source(graph, ULL__ROLE_INPUT, "a", ULL_FLOAT32, &deep, &value),
                   ULL_ERROR_INVALID);
  ull__graph_destroy(graph);
}

/* A product that overflows only in a node's output, and one that overflows only when bound. */
static void sizes_that_overflow_are_found_in_time(void **state) {
  (void)state;
  ull__graph *graph = new_graph(), *bound;
  const ull__value_id x =
      net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(INT64_C(1) << 31, 1));
  const ull__value_id w = net_source(graph, ULL__ROLE_PARAMETER, "w", ULL_FLOAT32, false,
                                     NET_DIMS(INT64_C(1) << 28, 1));
  assert_int_not_equal(net_node(graph, "linear", "fc", NET_INPUTS(x, w), NULL, 0), ULL__NONE);
  assert_int_equal(ull__graph_bind(graph, 4, &bound), ULL_ERROR_OVERFLOW);
  assert_non_null(strstr(ull_error_last()->message, "fc"));
  assert_null(bound);
  const ull__value_id v = net_source(graph, ULL__ROLE_PARAMETER, "v", ULL_FLOAT32, false,
                                     NET_DIMS(INT64_C(1) << 33, 1));
  assert_int_equal(net_node(graph, "linear", "fc2", NET_INPUTS(x, v), NULL, 0), ULL__NONE);
  assert_int_equal(ull_error_last()->status, ULL_ERROR_OVERFLOW);
  ull__graph_destroy(graph);
}

static const char mlp_text[] =
    "graph mlp\n"
    "  input x: float32[B, 6]\n"
    "  input target: int64[B]\n"
    "  parameter fc1.weight: float32[8, 6]\n"
    "  parameter fc1.bias: float32[8]\n"
    "  parameter fc2.weight: float32[4, 8]\n"
    "  parameter fc2.bias: float32[4]\n"
    "  input loss_weight: float32[]\n"
    "  input hyper: float32[8]\n"
    "  optimizer_state fc2.bias.momentum: float32[4]\n"
    "  optimizer_state fc2.weight.momentum: float32[4, 8]\n"
    "  optimizer_state fc1.weight.momentum: float32[8, 6]\n"
    "  optimizer_state fc1.bias.momentum: float32[8]\n"
    " forward\n"
    "  fc1: float32[B, 8] = linear(x, fc1.weight, fc1.bias)  # fc1\n"
    "  relu: float32[B, 8] = relu(fc1)  # fc1\n"
    "  relu.mask: uint8[B] = relu_mask(relu) dormant  # fc1\n"
    "  fc2: float32[B, 4] = linear(relu, fc2.weight, fc2.bias)  # fc2\n"
    "  loss: float32[], loss.1: float32[B] = cross_entropy(fc2, target)\n"
    "  correct: float32[] = count_correct(fc2, target)\n"
    " backward\n"
    "  loss.grad_input: float32[B, 4] = cross_entropy_backward(fc2, target, loss.1, loss_weight)\n"
    "  fc2.weight.grad: float32[4, 8] = linear_backward_weight(relu, loss.grad_input)  # fc2\n"
    "  fc2.bias.grad: float32[4] = sum_to_axis(loss.grad_input)  # fc2\n"
    " optimizer\n"
    "  fc2.bias.step: float32[4], fc2.bias.step.1: float32[4] = sgd_momentum_step(fc2.bias, "
    "fc2.bias.grad, fc2.bias.momentum, hyper)  # fc2\n"
    " backward\n"
    "  fc2.grad_input: float32[B, 8] = linear_backward_input(loss.grad_input, fc2.weight)  # fc2\n"
    " optimizer\n"
    "  fc2.weight.step: float32[4, 8], fc2.weight.step.1: float32[4, 8] = "
    "sgd_momentum_step(fc2.weight, fc2.weight.grad, fc2.weight.momentum, hyper, "
    "weight_decay=0.0001)  # fc2\n"
    " backward\n"
    "  relu.grad_input: float32[B, 8] = relu_backward(fc2.grad_input, relu)  # fc1\n"
    "  relu.grad_input_mask: float32[B, 8] = relu_backward_mask(fc2.grad_input, relu.mask) instead "
    "of relu.grad_input  # fc1\n"
    "  fc1.weight.grad: float32[8, 6] = linear_backward_weight(x, relu.grad_input)  # fc1\n"
    " optimizer\n"
    "  fc1.weight.step: float32[8, 6], fc1.weight.step.1: float32[8, 6] = "
    "sgd_momentum_step(fc1.weight, fc1.weight.grad, fc1.weight.momentum, hyper, "
    "weight_decay=0.0001)  # fc1\n"
    " backward\n"
    "  fc1.bias.grad: float32[8] = sum_to_axis(relu.grad_input)  # fc1\n"
    " optimizer\n"
    "  fc1.bias.step: float32[8], fc1.bias.step.1: float32[8] = sgd_momentum_step(fc1.bias, "
    "fc1.bias.grad, fc1.bias.momentum, hyper)  # fc1\n"
    "  output loss = loss\n"
    "  output correct = correct\n";

static void a_training_graph_reads_as_text(void **state) {
  (void)state;
  const ull__recipe recipe = {.optimizer = ULL__SGD, .momentum = 0.9, .weight_decay = 1e-4};
  ull__graph *forward = net_mlp(ULL_FLOAT32), *joint, *full;
  char *text;
  assert_non_null(forward);
  assert_int_equal(ull__graph_differentiate(forward, &joint), ULL_OK);
  assert_int_equal(ull__graph_add_optimizer(joint, &recipe, &full), ULL_OK);
  assert_int_equal(ull__graph_text(full, &text), ULL_OK);
  assert_string_equal(text, mlp_text);
  ull__free(text);
  ull__graph_destroy(forward);
  ull__graph_destroy(joint);
  ull__graph_destroy(full);
}

static ull_status run_all_stages(const ull__graph *forward) {
  const ull__recipe recipe = {.optimizer = ULL__SGD, .momentum = 0.9};
  ull__graph *graphs[6] = {0};
  ull_status status = ull__graph_differentiate(forward, &graphs[0]);
  if (status == ULL_OK) status = ull__graph_add_optimizer(graphs[0], &recipe, &graphs[1]);
  if (status == ULL_OK) status = ull__graph_fold(graphs[1], &graphs[2]);
  if (status == ULL_OK) status = ull__graph_fuse(graphs[2], &graphs[3]);
  if (status == ULL_OK) status = ull__graph_bind(graphs[3], 4, &graphs[4]);
  if (status == ULL_OK) status = ull__graph_derive_evaluation(forward, &graphs[5]);
  for (int i = 0; i < 6; i++) ull__graph_destroy(graphs[i]);
  return status;
}

/* Every single allocation fails once; nothing leaks, nothing is half done. */
static void running_out_of_memory_is_a_status(void **state) {
  (void)state;
  ull__graph *forward = net_mlp(ULL_FLOAT32);
  const uint64_t before = ull__alloc_count().live_bytes;
  ull_status status = ULL_ERROR_OUT_OF_MEMORY;
  uint64_t n = 1;
  for (; status != ULL_OK && n < 20000; n++) {
    ull__alloc_fail_at(n);
    status = run_all_stages(forward);
    if (status != ULL_OK) assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
    assert_int_equal(ull__alloc_count().live_bytes, before);
  }
  ull__alloc_fail_at(0);
  assert_int_equal(status, ULL_OK);
  assert_true(n > 100);
  ull__graph_destroy(forward);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fixed_names_are_unique_and_others_get_numbers),
      cmocka_unit_test(broken_nodes_are_refused),
      cmocka_unit_test(impossible_shapes_are_refused),
      cmocka_unit_test(sizes_that_overflow_are_found_in_time),
      cmocka_unit_test(a_training_graph_reads_as_text),
      cmocka_unit_test(running_out_of_memory_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
