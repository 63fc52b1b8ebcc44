/* The lowering pass with a provider made for the test, whose wishes are written in the node's name:
 * "NAME<ab>c" wants its inputs in layouts a and b and gives its output in c; p = plain, x and y are
 * two others, . = as it lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernels/layout.h"
#include "kernels/lowering.h"

static const ull__layout layout_x = {.kind = ULL__LAYOUT_BLOCKED, .block = 8, .name = "x"};
static const ull__layout layout_y = {.kind = ULL__LAYOUT_CHANNELS_LAST, .block = 1, .name = "y"};

static const ull__layout *letter(char c, const ull__layout *now) {
  return c == 'x' ? &layout_x : c == 'y' ? &layout_y : c == '.' ? now : &ull__layout_plain;
}

static const ull__library_kernel library = {.name = "a kernel", .allowed = {1000, 10, 7, 1}};

static ull_status choose(ull__provider *provider, const ull__lowering_query *query,
                         ull__lowering_choice *choice) {
  (void)provider;
  const char *wishes = strchr(query->node->name, '<');
  if (wishes == NULL) return ULL__FAIL(ULL_ERROR_UNSUPPORTED, "no wishes");
  for (uint32_t i = 0; i < query->node->input_count; i++) {
    choice->input_layouts[i] = letter(wishes[1 + i], query->input_layouts[i]);
  }
  const char output = strchr(wishes, '>')[1];
  for (uint32_t o = 0; o < query->node->output_count; o++) {
    const ull__layout *wanted = query->wanted_output_layouts[o];
    choice->output_layouts[o] = letter(output, wanted != NULL ? wanted : &ull__layout_plain);
    choice->may_overwrite[o] = UINT16_MAX;
  }
  choice->kernel.library = &library;
  choice->stores_inputs = strstr(query->node->name, "stores") != NULL ? UINT32_MAX : 0;
  return ULL_OK;
}

static ull_status reorder(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                          const ull__layout *from, const ull__layout *to, ull__kernel *kernel) {
  (void)provider, (void)dtype, (void)shape;
  assert_ptr_not_equal(from, to);
  kernel->seconds = 0.5;
  return ULL_OK;
}

static ull__provider provider = {
    .name = "test", .choose = choose, .reorder = reorder, .fingerprint = "test 1"};

/* ---- building ---- */

static const int64_t dims[] = {2, 8, 4, 4};

static ull__value_id source(ull__graph *graph, ull__role role, const char *name) {
  ull__value_id id;
  const ull__shape shape = ull__shape_of(4, dims);
  assert_int_equal(ull__graph_add_source(graph, role, name, ULL_FLOAT32, &shape, &id), ULL_OK);
  return id;
}

static ull__value_id node(ull__graph *graph, const char *op, const char *name, ull__value_id a,
                          ull__value_id b) {
  ull__value_id output;
  const ull__value_id inputs[] = {a, b};
  assert_int_equal(
      ull__graph_add_node(graph, op, name, inputs, b == ULL__NONE ? 1 : 2, NULL, 0, &output),
      ULL_OK);
  return output;
}

static ull__graph *new_graph(void) {
  ull__graph *graph;
  assert_int_equal(ull__graph_create("test", &graph), ULL_OK);
  return graph;
}

static ull__lowered *lower(const ull__graph *graph, ull__stored_layouts *stored) {
  ull__lowered *lowered;
  ull_status status = ull__lower(graph, &provider, stored, &lowered);
  if (status != ULL_OK) print_error("%s\n", ull_error_last()->message);
  assert_int_equal(status, ULL_OK);
  return lowered;
}

static ull__stored_layouts *new_stored(void) {
  ull__stored_layouts *stored;
  assert_int_equal(ull__stored_layouts_create(&stored), ULL_OK);
  return stored;
}

/* "add<xx>x reorder relu<.>. ..." */
static void assert_nodes(const ull__lowered *lowered, const char *expected) {
  char text[512] = "";
  for (ull__node_id id = 0; id < ull__graph_node_count(lowered->graph); id++) {
    const ull__node *n = ull__graph_node(lowered->graph, id);
    if (id > 0) strcat(text, " ");
    strcat(text, strcmp(n->op->name, "reorder") == 0 ? "reorder" : n->name);
  }
  assert_string_equal(text, expected);
}

static void assert_layout(const ull__lowered *lowered, const char *value,
                          const ull__layout *layout) {
  const ull__value_id id = ull__graph_find_value(lowered->graph, value);
  assert_int_not_equal(id, ULL__NONE);
  assert_ptr_equal(lowered->values[id].layout, layout);
}

static void finish(ull__lowered *lowered, ull__stored_layouts *stored, ull__graph *graph) {
  ull__lowered_destroy(lowered);
  ull__stored_layouts_destroy(stored);
  ull__graph_destroy(graph);
}

/* ---- tests ---- */

static void test_reorders_are_shared_within_a_phase(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  const ull__value_id in = source(graph, ULL__ROLE_INPUT, "in");
  const ull__value_id a = node(graph, "relu", "a<x>x", in, ULL__NONE);
  const ull__value_id b = node(graph, "add", "b<xx>x", in, a);
  ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
  node(graph, "add", "c<xx>x", in, b);
  ull__stored_layouts *stored = new_stored();
  ull__lowered *lowered = lower(graph, stored);
  assert_nodes(lowered, "reorder a<x>x b<xx>x reorder c<xx>x");
  assert_int_equal(ull__graph_node(lowered->graph, 0)->phase, ULL__PHASE_FORWARD);
  assert_int_equal(ull__graph_node(lowered->graph, 3)->phase, ULL__PHASE_BACKWARD);
  assert_layout(lowered, "in", &ull__layout_plain);
  assert_layout(lowered, "b<xx>x", &layout_x);
  assert_int_equal(lowered->nodes[0].kernel.seconds * 2, 1);
  uint64_t bytes;
  const ull__lowered *both[] = {lowered, lowered};
  assert_int_equal(ull__lowered_library_bytes(both, 1, &bytes), ULL_OK);
  assert_int_equal(bytes, 1000 + 2 * 10 + 7); /* one prepared first, two more, one launch */
  assert_int_equal(ull__lowered_library_bytes(both, 2, &bytes), ULL_OK);
  assert_int_equal(bytes, 1000 + 5 * 10 + 7);
  assert_string_equal(lowered->fingerprint, "test 1");
  finish(lowered, stored, graph);
}

static void test_outputs_are_plain(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  const ull__value_id in = source(graph, ULL__ROLE_INPUT, "in");
  const ull__value_id a = node(graph, "relu", "a<p>x", in, ULL__NONE);
  node(graph, "relu", "b<x>x", a, ULL__NONE);
  assert_int_equal(ull__graph_add_output(graph, "logits", a), ULL_OK);
  ull__stored_layouts *stored = new_stored();
  ull__lowered *lowered = lower(graph, stored);
  assert_nodes(lowered, "a<p>x reorder b<x>x");
  const ull__value_id output = ull__graph_find_output(lowered->graph, "logits");
  assert_ptr_equal(lowered->values[output].layout, &ull__layout_plain);
  finish(lowered, stored, graph);
}

static void test_parameters_are_stored_as_wanted(void **state) {
  (void)state;
  ull__stored_layouts *stored = new_stored();
  for (int round = 0; round < 2; round++) {
    ull__graph *graph = new_graph();
    const ull__value_id w = source(graph, ULL__ROLE_PARAMETER, "w");
    const ull__value_id v = source(graph, ULL__ROLE_PARAMETER, "v");
    const ull__value_id u = source(graph, ULL__ROLE_PARAMETER, "unused");
    (void)u;
    node(graph, "relu", round == 0 ? "stores<x>p" : "stores<y>p", w, ULL__NONE);
    node(graph, "relu", "borrows<x>p", v, ULL__NONE);
    ull__lowered *lowered = lower(graph, stored);
    assert_nodes(lowered, round == 0 ? "stores<x>p reorder borrows<x>p"
                                     : "reorder stores<y>p reorder borrows<x>p");
    assert_layout(lowered, "w", &layout_x);
    assert_layout(lowered, "v", &ull__layout_plain);
    assert_layout(lowered, "unused", &ull__layout_plain);
    ull__lowered_destroy(lowered);
    ull__graph_destroy(graph);
  }
  assert_ptr_equal(ull__stored_layouts_find(stored, "w"), &layout_x);
  assert_ptr_equal(ull__stored_layouts_find(stored, "v"), &ull__layout_plain);
  assert_null(ull__stored_layouts_find(stored, "nothing"));
  ull__stored_layouts_destroy(stored);
}

static void test_gradients_follow_their_parameter(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  const ull__value_id w = source(graph, ULL__ROLE_PARAMETER, "w");
  const ull__value_id total = source(graph, ULL__ROLE_GRADIENT, "w.total");
  assert_int_equal(ull__graph_set_role(graph, total, ULL__ROLE_GRADIENT, w), ULL_OK);
  const ull__value_id y = node(graph, "relu", "stores<x>p", w, ULL__NONE);
  ull__graph_set_phase(graph, ULL__PHASE_BACKWARD);
  const ull__value_id dw = node(graph, "relu", "gradient<p>.", y, ULL__NONE);
  assert_int_equal(ull__graph_set_role(graph, dw, ULL__ROLE_GRADIENT, w), ULL_OK);
  node(graph, "accumulate", "sum<..>.", total, dw);
  ull__stored_layouts *stored = new_stored();
  ull__lowered *lowered = lower(graph, stored);
  assert_nodes(lowered, "stores<x>p gradient<p>. sum<..>.");
  assert_layout(lowered, "w.total", &layout_x);
  assert_layout(lowered, "gradient<p>.", &layout_x);
  const ull__value_id copy = ull__graph_find_value(lowered->graph, "gradient<p>.");
  const ull__value *gradient = ull__graph_value(lowered->graph, copy);
  assert_int_equal(gradient->role, ULL__ROLE_GRADIENT);
  assert_string_equal(ull__graph_value(lowered->graph, gradient->subject)->name, "w");
  finish(lowered, stored, graph);
}

static void test_overwriting_needs_equal_layouts(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  const ull__value_id in = source(graph, ULL__ROLE_INPUT, "in");
  const ull__value_id a = node(graph, "add", "a<px>x", in, in);
  node(graph, "add", "b<xx>x", a, a);
  ull__stored_layouts *stored = new_stored();
  ull__lowered *lowered = lower(graph, stored);
  assert_nodes(lowered, "reorder a<px>x b<xx>x");
  assert_int_equal(lowered->nodes[0].may_overwrite[0], 0);
  assert_int_equal(lowered->nodes[1].may_overwrite[0], 2);
  assert_int_equal(lowered->nodes[2].may_overwrite[0], 3);
  finish(lowered, stored, graph);
}

static void test_updates_stay_where_they_are(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  const ull__value_id total = source(graph, ULL__ROLE_GRADIENT, "total");
  const ull__value_id in = source(graph, ULL__ROLE_INPUT, "in");
  node(graph, "accumulate", "sum<xx>x", total, in);
  ull__stored_layouts *stored = new_stored();
  ull__lowered *lowered;
  assert_int_equal(ull__lower(graph, &provider, stored, &lowered), ULL_ERROR_INTERNAL);
  assert_null(lowered);
  finish(NULL, stored, graph);
}

static void test_failure_names_the_node(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  const ull__value_id in = source(graph, ULL__ROLE_INPUT, "in");
  node(graph, "relu", "layer.relu", in, ULL__NONE);
  ull__stored_layouts *stored = new_stored();
  ull__lowered *lowered;
  assert_int_equal(ull__lower(graph, &provider, stored, &lowered), ULL_ERROR_UNSUPPORTED);
  assert_non_null(strstr(ull_error_last()->message, "layer.relu"));
  finish(NULL, stored, graph);
}

static void test_out_of_memory_leaks_nothing(void **state) {
  (void)state;
  ull__graph *graph = new_graph();
  const ull__value_id in = source(graph, ULL__ROLE_INPUT, "in");
  const ull__value_id w = source(graph, ULL__ROLE_PARAMETER, "w");
  const ull__value_id a = node(graph, "add", "stores<px>x", in, w);
  node(graph, "relu", "b<p>p", a, ULL__NONE);
  ull_status status = ULL_ERROR_OUT_OF_MEMORY;
  for (uint64_t n = 1; status != ULL_OK && n < 200; n++) {
    const uint64_t before = ull__alloc_count().live_bytes;
    ull__stored_layouts *stored = new_stored();
    ull__lowered *lowered = NULL;
    ull__alloc_fail_at(n);
    status = ull__lower(graph, &provider, stored, &lowered);
    ull__alloc_fail_at(0);
    if (status != ULL_OK) {
      assert_int_equal(status, ULL_ERROR_OUT_OF_MEMORY);
      assert_null(lowered);
    }
    ull__lowered_destroy(lowered);
    ull__stored_layouts_destroy(stored);
    assert_int_equal(ull__alloc_count().live_bytes, before);
  }
  assert_int_equal(status, ULL_OK);
  ull__graph_destroy(graph);
}

static void test_text_machine(void **state) {
  (void)state;
  const ull__rates rates = {1e9, 1e9, 1e-3};
  ull__provider *text;
  ull__graph *graph = new_graph();
  const ull__value_id in = source(graph, ULL__ROLE_INPUT, "in");
  node(graph, "relu", "a", in, ULL__NONE);
  ull__stored_layouts *stored = new_stored();
  ull__lowered *lowered;
  char *lines;
  assert_int_equal(ull__text_provider_create(&rates, &text), ULL_OK);
  assert_int_equal(ull__lower(graph, text, stored, &lowered), ULL_OK);
  assert_null(lowered->nodes[0].kernel.entry);
  assert_true(lowered->nodes[0].kernel.seconds > 1e-3);
  assert_int_equal(lowered->nodes[0].may_overwrite[0], 1);
  assert_int_equal(ull__lowered_text(lowered, &lines), ULL_OK);
  assert_non_null(strstr(lines, "a = relu -> [2, 8, 4, 4] plain 1024"));
  ull__free(lines);
  finish(lowered, stored, graph);
  ull__provider_destroy(text);
}

static void test_padded_layouts_round_trip(void **state) {
  (void)state;
  const int64_t odd[] = {2, 5, 3, 2};
  const ull__shape shape = ull__shape_of(4, odd);
  float plain[60], back[60], blocked[96];
  uint64_t bytes;
  for (int i = 0; i < 60; i++) plain[i] = (float)(i + 1);
  memset(blocked, 0xFF, sizeof blocked);
  assert_int_equal(ull__layout_bytes(&layout_x, ULL_FLOAT32, &shape, &bytes), ULL_OK);
  assert_int_equal(bytes, sizeof blocked);
  assert_true(ull__layout_is_padded(&layout_x, ULL_FLOAT32, &shape));
  assert_false(ull__layout_is_padded(&layout_y, ULL_FLOAT32, &shape));
  assert_int_equal(
      ull__layout_from_plain(&provider, ULL_FLOAT32, &shape, &layout_x, plain, blocked), ULL_OK);
  assert_true(blocked[0] == 1 && blocked[1] == 7 && blocked[8] == 2 && blocked[5] == 0);
  assert_int_equal(ull__layout_to_plain(&provider, ULL_FLOAT32, &shape, &layout_x, blocked, back),
                   ULL_OK);
  assert_memory_equal(plain, back, sizeof plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reorders_are_shared_within_a_phase),
      cmocka_unit_test(test_outputs_are_plain),
      cmocka_unit_test(test_parameters_are_stored_as_wanted),
      cmocka_unit_test(test_gradients_follow_their_parameter),
      cmocka_unit_test(test_overwriting_needs_equal_layouts),
      cmocka_unit_test(test_updates_stay_where_they_are),
      cmocka_unit_test(test_failure_names_the_node),
      cmocka_unit_test(test_out_of_memory_leaks_nothing),
      cmocka_unit_test(test_text_machine),
      cmocka_unit_test(test_padded_layouts_round_trip),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
