/* Subjects: random numbers, sources, nodes. */
#include "support/operator_subject.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/ops/ops.h"

static void check(ull_status status) {
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
}

/* ---- numbers ---- */

static uint64_t next_random(subject *s) {
  s->random ^= s->random << 13;
  s->random ^= s->random >> 7;
  s->random ^= s->random << 17;
  return s->random * UINT64_C(2685821657736338717);
}

double subject_uniform(subject *s, double low, double high) {
  return low + (high - low) * (double)(next_random(s) >> 11) * 0x1p-53;
}

int64_t subject_pick(subject *s, int64_t low, int64_t high) {
  return low + (int64_t)(next_random(s) >> 16) % (high - low + 1);
}

int64_t subject_channels(subject *s) {
  static const int64_t choices[] = {1, 3, 5, 8, 16, 17, 24};
  if (s->large) return 64;
  return choices[subject_pick(s, 0, s->gradient ? 4 : 6)];
}

int64_t subject_spatial(subject *s, int64_t least) {
  return s->large ? 28 : subject_pick(s, least, least > 9 ? least : 9);
}

int64_t subject_batch(subject *s) {
  return s->large ? 8 : subject_pick(s, 1, 3);
}

double fill_positive(subject *s, int64_t index, int64_t count) {
  (void)index, (void)count;
  return subject_uniform(s, 0.5, 2);
}

double fill_apart_from_zero(subject *s, int64_t index, int64_t count) {
  (void)index, (void)count;
  const double size = subject_uniform(s, 0.05, 1);
  return subject_pick(s, 0, 1) ? size : -size;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

/* Steps of a full cycle through 0..count-1: a stride without a common divisor. */
double fill_distinct(subject *s, int64_t index, int64_t count) {
  int64_t stride = count * 5 / 8 | 1;
  while (common_divisor(stride, count) != 1) stride += 2;
  const double place = (double)(index * stride % count) - (double)count / 2;
  return (place + subject_uniform(s, -0.2, 0.2)) * 0.02;
}

/* ---- sources ---- */

static void shape_of(const subject *s, argument_kind kind, uint32_t rank, const int64_t *dims,
                     ull__shape *out) {
  *out = ull__shape_of(rank, dims);
  if (s->batch > 0 && kind != ARGUMENT_WEIGHT && rank > 0 && dims[0] == s->batch) {
    out->dims[0] = ull__dim_batch(1);
  }
}

static subject_source *add_source(subject *s, const char *name, ull_dtype dtype, uint32_t rank,
                                  const int64_t *dims) {
  assert_true(s->source_count < sizeof s->sources / sizeof *s->sources);
  subject_source *source = &s->sources[s->source_count++];
  *source = (subject_source){.dtype = dtype, .count = 1};
  snprintf(source->name, sizeof source->name, "%s", name);
  for (uint32_t i = 0; i < rank; i++) source->count *= (uint64_t)dims[i];
  source->numbers = malloc((source->count + 1) * sizeof *source->numbers);
  assert_non_null(source->numbers);
  return source;
}

static ull__value_id feed(subject *s, const char *name, ull__value_id value) {
  char node[48];
  snprintf(node, sizeof node, "feed.%s", name);
  ull__value_id out = ULL__NONE;
  check(ull__graph_add_node(s->graph, "copy", node, &value, 1, NULL, 0, &out));
  return out;
}

ull__value_id subject_argument(subject *s, argument_kind kind, const char *name, subject_fill fill,
                               uint32_t rank, const int64_t *dims) {
  const bool parameter = kind == ARGUMENT_WEIGHT || (kind == ARGUMENT_DATA && s->gradient);
  ull__shape shape;
  ull__value_id value = ULL__NONE;
  shape_of(s, kind, rank, dims, &shape);
  check(ull__graph_add_source(s->graph, parameter ? ULL__ROLE_PARAMETER : ULL__ROLE_INPUT, name,
                              s->dtype, &shape, &value));
  subject_source *source = add_source(s, name, s->dtype, rank, dims);
  source->differentiable = kind != ARGUMENT_FIXED;
  for (uint64_t i = 0; i < source->count; i++) {
    source->numbers[i] =
        fill ? fill(s, (int64_t)i, (int64_t)source->count) : subject_uniform(s, -1, 1);
    if (s->dtype == ULL_FLOAT32) source->numbers[i] = (double)(float)source->numbers[i];
  }
  return s->feed && rank == 4 && kind != ARGUMENT_WEIGHT ? feed(s, name, value) : value;
}

ull__value_id subject_integers(subject *s, const char *name, int64_t low, int64_t high,
                               uint32_t rank, const int64_t *dims) {
  ull__shape shape;
  ull__value_id value = ULL__NONE;
  shape_of(s, ARGUMENT_FIXED, rank, dims, &shape);
  check(ull__graph_add_source(s->graph, ULL__ROLE_INPUT, name, ULL_INT64, &shape, &value));
  subject_source *source = add_source(s, name, ULL_INT64, rank, dims);
  for (uint64_t i = 0; i < source->count; i++) {
    source->numbers[i] = (double)subject_pick(s, low, high);
  }
  return value;
}

/* ---- nodes ---- */

ull__value_id subject_node(subject *s, const char *op, const ull__value_id *inputs,
                           uint32_t input_count, const ull__attribute_setting *settings,
                           uint32_t setting_count, ull__value_id *outputs) {
  ull__value_id made[ULL__MAX_OUTPUTS] = {ULL__NONE};
  char name[64];
  snprintf(name, sizeof name, "%s.%u", op, s->node_count++);
  check(ull__graph_add_node(s->graph, op, name, inputs, input_count, settings, setting_count,
                            outputs ? outputs : made));
  return outputs ? outputs[0] : made[0];
}

void subject_compare(subject *s, ull__value_id value, nearness nearness, double tolerance) {
  subject_output *output = &s->outputs[s->output_count];
  *output = (subject_output){.nearness = nearness, .tolerance = tolerance};
  snprintf(output->name, sizeof output->name, "out%u", s->output_count++);
  check(ull__graph_add_output(s->graph, output->name, value));
  if (s->smooth == ULL__NONE) s->smooth = value;
}

/* loss = sum of constant random weights times the value. */
static void add_loss(subject *s) {
  const ull__shape shape = ull__graph_value(s->graph, s->smooth)->shape;
  ull__value_id loss = s->smooth;
  if (shape.rank > 0) {
    const ull__shape scalar = {.rank = 0};
    ull__attribute_setting settings[ULL__RESHAPE_SETTINGS];
    ull__dim elements;
    check(ull__shape_elements(&shape, &elements));
    const int64_t count = elements.constant + elements.batch * s->batch;
    const ull__value_id weights =
        subject_argument(s, ARGUMENT_FIXED, "loss.weights", NULL, DIMS(1, count));
    const ull__shape row = ull__shape_of(1, (int64_t[]){count});
    check(ull__reshape_settings(&row, settings));
    loss = subject_node(s, "reshape", &loss, 1, settings, ULL__RESHAPE_SETTINGS, NULL);
    loss = subject_node(s, "linear", INPUTS(loss, weights), NULL, 0, NULL);
    check(ull__reshape_settings(&scalar, settings));
    loss = subject_node(s, "reshape", &loss, 1, settings, ULL__RESHAPE_SETTINGS, NULL);
  }
  check(ull__graph_add_output(s->graph, "loss", loss));
}

static void bind_batch(subject *s) {
  ull__graph *bound = NULL;
  if (s->batch <= 0) return;
  check(ull__graph_bind(s->graph, s->batch, &bound));
  ull__graph_destroy(s->graph);
  s->graph = bound;
}

subject *subject_create(const operator_case *c, const subject *settings) {
  subject *s = malloc(sizeof *s);
  assert_non_null(s);
  *s = *settings;
  s->random = (s->random + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)s->case_index << 20;
  for (int i = 0; i < 8; i++) next_random(s);
  s->smooth = ULL__NONE;
  check(ull__graph_create(c->op, &s->graph));
  c->build(s);
  if (s->gradient && c->differentiable) add_loss(s);
  bind_batch(s);
  return s;
}

void subject_destroy(subject *s) {
  for (uint32_t i = 0; i < s->source_count; i++) free(s->sources[i].numbers);
  ull__graph_destroy(s->graph);
  free(s);
}

const char *operator_case_family(const operator_case *c) {
  for (uint32_t f = 0; f < ull__op_family_count; f++) {
    for (uint32_t i = 0; i < *ull__op_families[f].count; i++) {
      if (strcmp(ull__op_families[f].rows[i].name, c->op) == 0) return ull__op_families[f].name;
    }
  }
  return "";
}
