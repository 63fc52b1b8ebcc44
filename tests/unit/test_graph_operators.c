/* Operator rows: every shape rule on inputs it takes and inputs it must refuse, by table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "graph/elementwise.h"
#include "support/graph_nets.h"

/* "f[B,3,8]" float32, "d" float64, "i" int64, "u" uint8; "-" = absent. `expected` lists the outputs
 * the same way; NULL = the node must be refused, with this reason in the message. */
typedef struct rule_case {
  const char *op, *inputs, *attributes, *expected, *reason;
} rule_case;

static const rule_case cases[] = {
    {"add", "f[B,4] f[B,4]", "", "f[B,4]", NULL},
    {"add", "f[B,4] f[B,5]", "", NULL, "differ in shape"},
    {"add", "f[B,4] d[B,4]", "", NULL, "float64 beside float32"},
    {"add", "i[4] i[4]", "", NULL, "not a floating-point type"},
    {"add", "f[4]", "", NULL, "1 inputs where 2 to 2"},
    {"mul", "d[2,3] d[2,3]", "", "d[2,3]", NULL},
    {"scale", "f[B]", "factor=0.5", "f[B]", NULL},
    {"bias_add", "f[B,3,5,5] f[3]", "", "f[B,3,5,5]", NULL},
    {"bias_add", "f[B,3,5] f[5]", "", "f[B,3,5]", NULL},
    {"bias_add", "f[B,3,5,5] f[5]", "", NULL, "not a vector of 3"},
    {"relu", "f[]", "", "f[]", NULL},
    {"relu_mask", "f[B,3,8]", "", "u[3B]", NULL},
    {"relu_mask", "f[5,3]", "", "u[2]", NULL},
    {"relu_mask", "f[B,3]", "", NULL, "no multiple of 8"},
    {"relu_backward_mask", "f[B,8] u[1B]", "", "f[B,8]", NULL},
    {"relu_backward_mask", "f[B,8] u[2B]", "", NULL, "not a vector"},
    {"gelu", "f[B,8]", "approximate=1", "f[B,8]", NULL},
    {"gelu", "f[B,8]", "approximate=2", NULL, "approximate is 2, not in [0, 1]"},
    {"dropout", "f[B,8] i[4]", "p=0.1", "f[B,8]", NULL},
    {"dropout", "f[B,8] i[4]", "p=1", NULL, "p is 1"},
    {"dropout", "f[B,8] i[5]", "", NULL, "not a vector of 4"},
    {"reshape", "f[B,3,4]", "rank=2,d0=1,d1=12,batched=1", "f[B,12]", NULL},
    {"reshape", "f[B,3,4]", "rank=2,d0=3,d1=4,batched=1", "f[3B,4]", NULL},
    {"reshape", "f[B,3,4]", "rank=1,d0=13,batched=1", NULL, "do not fill [13B]"},
    {"reshape", "f[B,3,4]", "rank=9", NULL, "rank is 9"},
    {"reshape", "f[4]", "rank=2,d0=0,d1=4", NULL, "d0 is 0"},
    {"copy", "i[B,2]", "", "i[B,2]", NULL},
    {"linear", "f[B,6] f[8,6] f[8]", "", "f[B,8]", NULL},
    {"linear", "f[B,5,6] f[8,6]", "", "f[B,5,8]", NULL},
    {"linear", "f[B,6] f[6,8] f[8]", "transposed=1", "f[B,8]", NULL},
    {"linear", "f[B,6] f[8,7] f[8]", "", NULL, "rows of 6 where the weight takes 7"},
    {"linear", "f[B,6] f[8,6] f[6]", "", NULL, "not a vector of 8"},
    {"linear", "f[B,6] f[8,6,1]", "", NULL, "3 dimensions, not 2"},
    {"linear_backward_input", "f[B,8] f[8,6]", "", "f[B,6]", NULL},
    {"linear_backward_weight", "f[B,2,6] f[B,2,8]", "", "f[8,6]", NULL},
    {"linear_backward_weight", "f[B,6] f[B,8]", "transposed=1", "f[6,8]", NULL},
    {"linear_backward_weight", "f[B,6] f[4,8]", "", NULL, "different rows"},
    {"sum_to_axis", "f[B,3,4,4]", "axis=1", "f[3]", NULL},
    {"sum_to_axis", "f[B,3,4]", "", "f[4]", NULL},
    {"sum_to_axis", "f[B,3]", "axis=2", NULL, "axis is 2, not in [-2, 1]"},
    {"matmul", "f[B,2,3] f[B,3,4]", "", "f[B,2,4]", NULL},
    {"matmul", "f[B,3,2] f[B,4,3]", "transpose_a=1,transpose_b=1", "f[B,2,4]", NULL},
    {"matmul", "f[B,2,3] f[B,4,5]", "", NULL, "inner dimensions differ"},
    {"matmul", "f[B,2,3] f[7,3,4]", "", NULL, "leading dimensions differ"},
    {"conv2d", "f[B,3,9,7] f[4,3,3,3] f[4]", "", "f[B,4,7,5]", NULL},
    {"conv2d", "f[B,4,9,7] f[6,2,3,1]", "stride_h=2,pad_h=1,dilation_h=2,groups=2", "f[B,6,4,7]",
     NULL},
    {"conv2d", "f[B,3,9,7] f[4,3,3,3]", "stride_h=0", NULL, "stride_h is 0"},
    {"conv2d", "f[B,3,9,7] f[4,3,3,3]", "groups=2", NULL, "2 groups divide neither 3"},
    {"conv2d", "f[B,3,9,7] f[4,2,3,3]", "", NULL, "3 channels in 1 groups for a weight of 2"},
    {"conv2d", "f[B,3,2,7] f[4,3,3,3]", "", NULL, "a window of 3 over 2 padded elements"},
    {"conv2d", "f[B,3,9] f[4,3,3,3]", "", NULL, "3 dimensions, not 4"},
    {"conv2d", "f[B,3,9,7] f[4,3,3,3] f[5]", "", NULL, "not a vector of 4"},
    {"conv2d_backward_input", "f[B,4,7,5] f[4,3,3,3]", "input_h=9,input_w=7", "f[B,3,9,7]", NULL},
    {"conv2d_backward_input", "f[B,4,7,5] f[4,3,3,3]", "input_h=8,input_w=7", NULL,
     "no gradient of this convolution"},
    {"conv2d_backward_weight", "f[B,3,9,7] f[B,4,7,5]", "kernel_h=3,kernel_w=3", "f[4,3,3,3]",
     NULL},
    {"max_pool2d", "f[B,3,9,8]", "kernel_h=3,kernel_w=2,stride_h=2,stride_w=2,pad_h=1",
     "f[B,3,5,4] u[B,3,5,4]", NULL},
    {"max_pool2d", "f[B,1,6,6]", "kernel_h=3,kernel_w=3,stride_h=2,stride_w=2,ceil_mode=1",
     "f[B,1,3,3] u[B,1,3,3]", NULL},
    {"max_pool2d", "f[B,1,5,5]",
     "kernel_h=2,kernel_w=2,stride_h=3,stride_w=3,pad_h=1,pad_w=1,ceil_mode=1",
     "f[B,1,2,2] u[B,1,2,2]", NULL},
    {"max_pool2d", "f[B,3,9,8]", "kernel_h=3,kernel_w=2,pad_h=2", NULL, "pad_h is 2"},
    {"max_pool2d", "f[B,3,90,80]", "kernel_h=17,kernel_w=16", NULL, "at most 256"},
    {"max_pool2d", "f[B,3,9,8]", "", NULL, "kernel_h is 0"},
    {"max_pool2d_backward", "f[B,3,5,4] u[B,3,5,4]",
     "kernel_h=3,kernel_w=2,stride_h=2,stride_w=2,pad_h=1,input_h=9,input_w=8", "f[B,3,9,8]", NULL},
    {"max_pool2d_backward", "f[B,3,5,4] u[B,3,5,4]",
     "kernel_h=3,kernel_w=2,stride_h=2,stride_w=2,pad_h=1,input_h=19,input_w=8", NULL,
     "no gradient of this pooling"},
    {"avg_pool2d", "f[B,3,8,8]", "kernel_h=2,kernel_w=2,stride_h=2,stride_w=2", "f[B,3,4,4]", NULL},
    {"avg_pool2d_backward", "f[B,3,4,4]",
     "kernel_h=2,kernel_w=2,stride_h=2,stride_w=2,input_h=8,input_w=8", "f[B,3,8,8]", NULL},
    {"global_avg_pool", "f[B,3,8,8]", "", "f[B,3,1,1]", NULL},
    {"global_avg_pool_backward", "f[B,3,1,1]", "input_h=8,input_w=6", "f[B,3,8,6]", NULL},
    {"adaptive_avg_pool2d", "f[B,3,8,7]", "output_h=3,output_w=9", "f[B,3,3,9]", NULL},
    {"adaptive_avg_pool2d", "f[B,3,8,7]", "output_h=0,output_w=2", NULL, "output_h is 0"},
    {"adaptive_avg_pool2d", "f[3,3,B,7]", "output_h=3,output_w=2", NULL, "a mean over the batch"},
    {"adaptive_avg_pool2d_backward", "f[B,3,3,2]", "output_h=3,output_w=2,input_h=8,input_w=7",
     "f[B,3,8,7]", NULL},
    {"adaptive_avg_pool2d_backward", "f[B,3,3,2]", "output_h=2,output_w=3,input_h=8,input_w=7",
     NULL, "no gradient of this pooling"},
    {"batch_norm_statistics", "f[B,3,8,8]", "", "f[3] f[3] f[3]", NULL},
    {"batch_norm_statistics", "f[B,3]", "", "f[3] f[3] f[3]", NULL},
    {"batch_norm_statistics", "f[B,3,8]", "", NULL, "3 dimensions, not 2 or 4"},
    {"batch_norm_statistics", "f[B,3]", "eps=-1", NULL, "eps is -1"},
    {"batch_norm_normalize", "f[B,3,8,8] f[3] f[3] f[3] f[3]", "", "f[B,3,8,8]", NULL},
    {"batch_norm_normalize", "f[B,3,8,8] f[3] f[3] f[4] f[3]", "", NULL, "input 3"},
    {"batch_norm_update", "f[3] f[3] f[3] f[3]", "", "f[3] f[3]", NULL},
    {"batch_norm_update", "f[3] f[3] f[3] f[3]", "momentum=2", NULL, "momentum is 2"},
    {"batch_norm_invstd", "f[3]", "", "f[3]", NULL},
    {"batch_norm_backward", "f[B,3] f[B,3] f[3] f[3] f[3]", "", "f[B,3] f[3] f[3]", NULL},
    {"batch_norm_backward", "f[B,3] f[B,3] f[3] f[3] f[3] f[3]", "relu=1", "f[B,3] f[3] f[3]",
     NULL},
    {"batch_norm_backward", "f[B,3] f[B,3] f[3] f[3] f[3]", "relu=1", NULL, "come together"},
    {"layer_norm", "f[B,5,8] f[8] f[8]", "", "f[B,5,8] f[B,5] f[B,5]", NULL},
    {"layer_norm", "f[B,5,8] f[5] f[8]", "", NULL, "not a vector of 8"},
    {"layer_norm_backward", "f[B,5,8] f[B,5,8] f[B,5] f[B,5] f[8]", "", "f[B,5,8] f[8] f[8]", NULL},
    {"layer_norm_backward", "f[B,5,8] f[B,5,8] f[B,4] f[B,5] f[8]", "", NULL, "input 2"},
    {"embedding", "i[B,5] f[12,8]", "", "f[B,5,8]", NULL},
    {"embedding", "f[B,5] f[12,8]", "", NULL, "float32, not int64"},
    {"embedding_backward", "i[B,5] f[B,5,8]", "rows=12", "f[12,8]", NULL},
    {"embedding_backward", "i[B,5] f[B,5,8] f[12,8]", "rows=12", "f[12,8]", NULL},
    {"embedding_backward", "i[B,5] f[B,5,8] f[13,8]", "rows=12", NULL, "no gradient of this table"},
    {"shift_left", "i[B,5]", "", "i[B,5]", NULL},
    {"add_positions", "f[B,5,8] f[9,8]", "", "f[B,5,8]", NULL},
    {"add_positions", "f[B,10,8] f[9,8]", "", NULL, "10 positions in a table of 9"},
    {"positions_backward", "f[B,5,8]", "rows=9", "f[9,8]", NULL},
    {"positions_backward", "f[B,5,8]", "rows=4", NULL, "rows is 4"},
    {"attention", "f[B,5,24]", "heads=2", "f[B,5,8] f[B,2,5]", NULL},
    {"attention", "f[B,5,24]", "heads=3", NULL, "rows of 24"},
    {"attention", "f[B,5,24] i[B,5]", "heads=2", "f[B,5,8] f[B,2,5]", NULL},
    {"attention", "f[B,5,24] i[B,4]", "heads=2", NULL, "not one document number for each row"},
    {"attention", "f[B,5,24] f[B,5]", "heads=2", NULL, "int64"},
    {"attention_backward", "f[B,5,24] f[B,5,8] f[B,2,5] f[B,5,8]", "heads=2", "f[B,5,24]", NULL},
    {"attention_backward", "f[B,5,24] f[B,5,8] f[B,3,5] f[B,5,8]", "heads=2", NULL,
     "not of one attention"},
    {"attention_backward", "f[B,5,24] f[B,5,8] f[B,2,5] f[B,5,8] i[B,5]", "heads=2", "f[B,5,24]",
     NULL},
    {"attention_backward", "f[B,5,24] f[B,5,8] f[B,2,5] f[B,5,8] i[5]", "heads=2", NULL,
     "not one document number for each row"},
    {"softmax", "f[B,5]", "", "f[B,5]", NULL},
    {"softmax_backward", "f[B,5] f[B,5]", "", "f[B,5]", NULL},
    {"cross_entropy", "f[B,5] i[B]", "", "f[] f[B]", NULL},
    {"cross_entropy", "f[B,5,2,3] i[B,2,3]", "label_smoothing=0.1", "f[] f[B,2,3]", NULL},
    {"cross_entropy", "f[B,5] i[B,5]", "", NULL, "input 1 is not [B]"},
    {"cross_entropy", "f[B,5] i[B]", "label_smoothing=2", NULL, "label_smoothing is 2"},
    {"cross_entropy_backward", "f[B,5] i[B] f[B] f[]", "", "f[B,5]", NULL},
    {"soft_cross_entropy", "f[B,5] f[B,5]", "", "f[] f[B]", NULL},
    {"soft_cross_entropy", "d[B,5,2,3] d[B,5,2,3]", "label_smoothing=0.1", "d[] d[B,2,3]", NULL},
    {"soft_cross_entropy", "f[B,5] f[B,4]", "", NULL, "differ in shape"},
    {"soft_cross_entropy", "f[B,5] i[B,5]", "", NULL, "floating-point"},
    {"soft_cross_entropy", "f[B] f[B]", "", NULL, "1 dimension"},
    {"soft_cross_entropy", "f[B,5] f[B,5]", "label_smoothing=2", NULL, "label_smoothing is 2"},
    {"soft_cross_entropy_backward", "f[B,5,2] f[B,5,2] f[B,2] f[]", "", "f[B,5,2]", NULL},
    {"soft_cross_entropy_backward", "f[B,5] f[B,5] f[5] f[]", "", NULL, "input 2 is not [B]"},
    {"soft_cross_entropy_backward", "f[B,5] f[B,5] f[B] f[B]", "", NULL, "1 dimension"},
    {"linear_cross_entropy", "f[B,6,8] f[12,8] i[B,6]", "", "f[] f[B,6]", NULL},
    {"linear_cross_entropy", "f[B,6,8] f[12,7] i[B,6]", "", NULL, "rows of 8"},
    {"linear_cross_entropy_joint", "f[B,6,8] f[12,8] i[B,6] f[]", "", "f[] f[B,6,8] f[12,8]", NULL},
    {"count_correct", "d[B,5] i[B]", "", "f[]", NULL},
    {"count_correct", "f[B,5,2] i[B,2]", "", NULL, "3 dimensions, not 2"},
    {"sgd_step", "f[4,3] f[4,3] f[8]", "", "f[4,3]", NULL},
    {"sgd_momentum_step", "f[4,3] f[4,3] f[4,3] f[8]", "nesterov=1", "f[4,3] f[4,3]", NULL},
    {"sgd_momentum_step", "f[4,3] f[3,4] f[4,3] f[8]", "", NULL, "differ in shape"},
    {"sgd_momentum_step", "f[4,3] f[4,3] f[4,3] f[7]", "", NULL, "not a vector of 8"},
    {"adam_step", "f[4] f[4] f[4] f[4] f[8]", "", "f[4] f[4] f[4]", NULL},
    {"adam_step", "f[4] f[4] f[4] f[4] f[8]", "eps=-1", NULL, "eps is -1"},
    {"accumulate", "f[4] f[4]", "", "f[4]", NULL},
    {"reorder", "f[B,4]", "", "f[B,4]", NULL},
};

static ull__dim parse_dim(const char **text) {
  int64_t number = 0;
  bool digits = false;
  for (; **text >= '0' && **text <= '9'; (*text)++) {
    number = number * 10 + **text - '0';
    digits = true;
  }
  if (**text != 'B') return ull__dim_of(number);
  (*text)++;
  return ull__dim_batch(digits ? number : 1);
}

static ull_dtype dtype_of(char letter) {
  return letter == 'f'   ? ULL_FLOAT32
         : letter == 'd' ? ULL_FLOAT64
         : letter == 'i' ? ULL_INT64
                         : ULL_UINT8;
}

/* One "f[B,3]"; moves behind it and the space after. */
static void parse_value(const char **text, ull_dtype *dtype, ull__shape *shape) {
  *dtype = dtype_of(**text);
  *shape = (ull__shape){0};
  for (*text += 2; **text != ']';) {
    shape->dims[shape->rank++] = parse_dim(text);
    if (**text == ',') (*text)++;
  }
  *text += (*text)[1] == ' ' ? 2 : 1;
}

static uint32_t add_inputs(ull__graph *graph, const char *text, ull__value_id *inputs) {
  uint32_t count = 0;
  while (*text) {
    ull_dtype dtype;
    ull__shape shape;
    char name[16];
    snprintf(name, sizeof name, "in%u", count);
    parse_value(&text, &dtype, &shape);
    assert_int_equal(
        ull__graph_add_source(graph, ULL__ROLE_INPUT, name, dtype, &shape, &inputs[count++]),
        ULL_OK);
  }
  return count;
}

static uint32_t parse_attributes(const char *op, const char *text, char names[][32],
                                 ull__attribute_setting *settings) {
  uint32_t count = 0;
  const ull__operator *row = ull__operator_find(op);
  while (*text) {
    double number = 0;
    int length = 0;
    assert_int_equal(sscanf(text, "%31[^=]=%lf%n", names[count], &number, &length), 2);
    const int index = ull__operator_attribute(row, names[count]);
    assert_true(index >= 0);
    settings[count].name = names[count];
    if (row->attributes[index].is_real) {
      settings[count].value.f = number;
    } else {
      settings[count].value.i = (int64_t)number;
    }
    count++;
    text += length;
    if (*text == ',') text++;
  }
  return count;
}

static void expect_outputs(const ull__graph *graph, const rule_case *c,
                           const ull__value_id *outputs) {
  const char *text = c->expected;
  uint32_t count = 0;
  for (; *text; count++) {
    ull_dtype dtype;
    ull__shape shape;
    char got[512], wanted[512];
    parse_value(&text, &dtype, &shape);
    const ull__value *value = ull__graph_value(graph, outputs[count]);
    ull__shape_text(&value->shape, got, sizeof got);
    ull__shape_text(&shape, wanted, sizeof wanted);
    if (strcmp(got, wanted) != 0 || value->dtype != dtype) {
      fail_msg("%s(%s): output %u is %s, not %s", c->op, c->inputs, count, got, wanted);
    }
  }
  assert_int_equal(count, ull__operator_find(c->op)->outputs);
}

static void check_case(const rule_case *c) {
  ull__graph *graph;
  ull__value_id inputs[ULL__MAX_INPUTS], outputs[ULL__MAX_OUTPUTS];
  ull__attribute_setting settings[ULL__MAX_ATTRIBUTES];
  char names[ULL__MAX_ATTRIBUTES][32];
  assert_int_equal(ull__graph_create("case", &graph), ULL_OK);
  const uint32_t input_count = add_inputs(graph, c->inputs, inputs);
  const uint32_t count = parse_attributes(c->op, c->attributes, names, settings);
  const ull_status status =
      ull__graph_add_node(graph, c->op, "node", inputs, input_count, settings, count, outputs);
  if (c->expected) {
    if (status != ULL_OK) fail_msg("%s(%s): %s", c->op, c->inputs, ull_error_last()->message);
    expect_outputs(graph, c, outputs);
  } else {
    const char *message = ull_error_last()->message;
    if (status != ULL_ERROR_INVALID) fail_msg("%s(%s) was taken", c->op, c->inputs);
    if (!strstr(message, c->reason) || !strstr(message, "`node`")) {
      fail_msg("%s(%s) says \"%s\", not \"%s\"", c->op, c->inputs, message, c->reason);
    }
  }
  ull__graph_destroy(graph);
}

static void shape_rules_take_and_refuse(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

/* Gradients of activations are built from backward rows, which the table above must know too. */
static void every_row_has_a_case(void **state) {
  (void)state;
  for (uint32_t r = 0; r < ull__operator_count(); r++) {
    const char *name = ull__operator_at(r)->name;
    bool found = strcmp(name, "fused_elementwise") == 0 || strstr(name, "tanh") ||
                 strstr(name, "sigmoid") || strcmp(name, "gelu_backward") == 0 ||
                 strcmp(name, "relu_backward") == 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      found |= strcmp(cases[i].op, name) == 0 && cases[i].expected;
    }
    if (!found) fail_msg("%s has no case", name);
  }
}

static void check_row(const ull__operator *row) {
  assert_ptr_equal(ull__operator_find(row->name), row);
  assert_non_null(row->infer);
  assert_true(row->outputs >= 1 && row->outputs <= ULL__MAX_OUTPUTS);
  assert_true(row->min_inputs <= row->max_inputs && row->max_inputs <= ULL__MAX_INPUTS);
  uint32_t attributes = 0;
  while (row->attributes && row->attributes[attributes].name) attributes++;
  assert_true(attributes <= ULL__MAX_ATTRIBUTES);
  for (uint32_t o = 0; o < ULL__MAX_OUTPUTS; o++) {
    if (o >= row->outputs) assert_int_equal(row->overwrites[o] | row->updates[o], 0);
    assert_int_equal(row->overwrites[o] >> row->max_inputs, 0);
    assert_true(row->updates[o] <= row->min_inputs);
    if (row->updates[o]) assert_true(row->flags & ULL__OP_ONCE);
  }
  if (strcmp(row->name, "fused_elementwise") == 0) return;
  assert_int_equal((row->flags & ULL__OP_ELEMENTWISE) != 0, row->element_code != ULL__ELEMENT_NONE);
}

static void rows_are_consistent(void **state) {
  (void)state;
  for (uint32_t r = 0; r < ull__operator_count(); r++) check_row(ull__operator_at(r));
  assert_null(ull__operator_at(ull__operator_count()));
  assert_null(ull__operator_find("no_such_operator"));
}

static void gelu_has_two_codes(void **state) {
  (void)state;
  ull__graph *graph;
  assert_int_equal(ull__graph_create("codes", &graph), ULL_OK);
  const ull__value_id x = net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(8));
  net_node(graph, "gelu", "erf", NET_INPUTS(x), NULL, 0);
  net_node(graph, "gelu", "tanh", NET_INPUTS(x), NET_SETTINGS(ULL__INT("approximate", 1)));
  assert_int_equal(ull__node_element_code(net_find_node(graph, "erf")), ULL__ELEMENT_GELU_ERF);
  assert_int_equal(ull__node_element_code(net_find_node(graph, "tanh")), ULL__ELEMENT_GELU_TANH);
  ull__graph_destroy(graph);
}

static void costs_count_multiply_adds_twice(void **state) {
  (void)state;
  ull__graph *graph, *bound;
  assert_int_equal(ull__graph_create("cost", &graph), ULL_OK);
  const ull__value_id x =
      net_source(graph, ULL__ROLE_INPUT, "x", ULL_FLOAT32, true, NET_DIMS(3, 9, 7));
  const ull__value_id w =
      net_source(graph, ULL__ROLE_PARAMETER, "w", ULL_FLOAT32, false, NET_DIMS(4, 3, 3, 3));
  net_node(graph, "conv2d", "conv", NET_INPUTS(x, w), NULL, 0);
  assert_int_equal(ull__graph_bind(graph, 2, &bound), ULL_OK);
  const ull__cost cost = ull__node_cost(bound, net_find_node(bound, "conv"));
  assert_true(cost.flops == 2.0 * (2 * 4 * 7 * 5) * (3 * 3 * 3));
  assert_true(cost.bytes == 4.0 * (2 * 3 * 9 * 7 + 4 * 27 + 2 * 4 * 7 * 5));
  ull__graph_destroy(graph);
  ull__graph_destroy(bound);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shape_rules_take_and_refuse),
      cmocka_unit_test(every_row_has_a_case),
      cmocka_unit_test(rows_are_consistent),
      cmocka_unit_test(gelu_has_two_codes),
      cmocka_unit_test(costs_count_multiply_adds_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
