/* Every operator row, four ways:
 *
 *     test_operators [test|grad|perf|support] [OPERATOR or FAMILY, ...]
 *
 * test     the cpu provider against the reference in float32, through the lowering pass, under
 * every instruction set this processor has: plain and blocked inputs, in place where that is
 *          allowed, memory poisoned and watched
 * grad     the gradient rules against finite differences in float64 on the reference
 * perf     GB/s and GFLOP/s of the cpu kernels
 * support  which implementations serve each operator
 *
 * Without arguments: test and grad. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#ifdef ULL__OPENMP
#include <omp.h>
#endif

#include "kernels/cpu/family.h"
#include "support/operator_run.h"

enum { SHAPES = 24, COORDINATES = 6, MOST_TESTS = 160 };

enum { TEAM_SIZE = 2 };

static const ull__rates rates = {1e11, 2e10, 1e-6};

static void check(ull_status status) {
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
}

/* ---- the provider under test: cpu, with nodes named `feed.` blocking their input ---- */

typedef struct feeding_provider {
  ull__provider provider; /* first */
  ull__provider *cpu;
  uint32_t block;
} feeding_provider;

static ull_status feeding_choose(ull__provider *provider, const ull__lowering_query *query,
                                 ull__lowering_choice *choice) {
  feeding_provider *feeding = (feeding_provider *)provider;
  if (strncmp(query->node->name, "feed.", 5) != 0) {
    return feeding->cpu->choose(feeding->cpu, query, choice);
  }
  const ull__value *value = ull__graph_value(query->graph, query->node->outputs[0]);
  choice->input_layouts[0] = &ull__layout_plain;
  choice->output_layouts[0] = ull__cpu_layout_blocked((ull__cpu *)feeding->cpu, feeding->block);
  return feeding->cpu->reorder(feeding->cpu, value->dtype, &value->shape, &ull__layout_plain,
                               choice->output_layouts[0], &choice->kernel);
}

static ull_status feeding_reorder(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                                  const ull__layout *from, const ull__layout *to,
                                  ull__kernel *kernel) {
  feeding_provider *feeding = (feeding_provider *)provider;
  return feeding->cpu->reorder(feeding->cpu, dtype, shape, from, to, kernel);
}

static void feeding_create(feeding_provider *feeding) {
  *feeding = (feeding_provider){.provider = {.name = "cpu",
                                             .choose = feeding_choose,
                                             .reorder = feeding_reorder,
                                             .fingerprint = "test"}};
#ifdef ULL__OPENMP
  omp_set_num_threads(TEAM_SIZE);
#endif
  check(ull__cpu_provider_create(TEAM_SIZE, &rates, &feeding->cpu));
}

/* ---- comparing ---- */

static double mean_square(const double *numbers, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; i++) sum += numbers[i] * numbers[i];
  return count > 0 ? sum / (double)count : 0;
}

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

/* Index of an element that is too far off, or `count`. */
static uint64_t find_difference(const subject_output *output, const double *a, const double *b,
                                uint64_t count) {
  const double rms = sqrt(mean_square(b, count));
  double distance = 0;
  uint64_t worst = 0;
  for (uint64_t i = 0; i < count; i++) {
    const double difference = fabs(a[i] - b[i]);
    if (output->nearness == NEAR_EQUAL && !same(a[i], b[i])) return i;
    if (output->nearness == NEAR_ELEMENT &&
        !(difference <= output->tolerance * (fabs(b[i]) + rms))) {
      return i;
    }
    if (isnan(difference) && !same(a[i], b[i])) return i;
    distance += isnan(difference) ? 0 : difference * difference;
    if (difference > fabs(a[worst] - b[worst])) worst = i;
  }
  const bool near =
      output->nearness != NEAR_NORM || count == 0 ||
      sqrt(distance / (double)count) <= output->tolerance * (rms > 1e-20 ? rms : 1e-20);
  return near ? count : worst;
}

typedef struct results {
  double *numbers[8];
  uint64_t counts[8];
} results;

static results read_results(operator_run *run, const subject *s) {
  results r = {0};
  for (uint32_t o = 0; o < s->output_count; o++) {
    r.numbers[o] = operator_run_get(run, s->outputs[o].name);
    r.counts[o] = operator_run_count(run, s->outputs[o].name);
  }
  return r;
}

static void free_results(results *r) {
  for (uint32_t o = 0; o < 8; o++) free(r->numbers[o]);
}

static void compare_results(const operator_case *c, const subject *s, const char *variant,
                            const results *a, const results *expected) {
  for (uint32_t o = 0; o < s->output_count; o++) {
    assert_int_equal(a->counts[o], expected->counts[o]);
    const uint64_t at =
        find_difference(&s->outputs[o], a->numbers[o], expected->numbers[o], a->counts[o]);
    if (at == a->counts[o]) continue;
    char *text = NULL;
    ull__graph_text(s->graph, &text);
    print_error("%s\n", text ? text : "");
    fail_msg("%s, shape %u, %s: output %u[%llu] is %.9g, not %.9g", c->op, s->case_index, variant,
             o, (unsigned long long)at, a->numbers[o][at], expected->numbers[o][at]);
  }
}

/* ---- test ---- */

static subject settings_of(ull_dtype dtype, uint32_t case_index) {
  return (subject){.dtype = dtype, .case_index = case_index, .random = 7};
}

/* Runs a subject's graph, fused where the case asks for that. In-place runs
 * that no node takes part in are left out: false. */
static bool run_variant(const operator_case *c, subject *s, const run_options *options,
                        const char *variant, const results *expected, bool fuse) {
  ull__graph *fused = NULL;
  if (fuse) check(ull__graph_fuse(s->graph, &fused));
  operator_run *run = operator_run_create(fused ? fused : s->graph, options);
  if (run == NULL) {
    fail_msg("%s, shape %u, %s: %s", c->op, s->case_index, variant, ull_error_last()->message);
  }
  const bool takes_part = options->in_place_op == NULL || operator_run_is_in_place(run);
  if (takes_part) {
    operator_run_set_sources(run, s);
    operator_run_execute(run);
    results actual = read_results(run, s);
    compare_results(c, s, variant, &actual, expected);
    free_results(&actual);
  }
  operator_run_destroy(run);
  ull__graph_destroy(fused);
  return takes_part;
}

/* The reference's numbers, which are the same in place. */
static results run_reference(const operator_case *c, subject *s) {
  run_options options = {.poison = true};
  check(ull__reference_provider_create(&options.provider));
  operator_run *run = operator_run_create(s->graph, &options);
  if (run == NULL) fail_msg("%s", ull_error_last()->message);
  operator_run_set_sources(run, s);
  operator_run_execute(run);
  results r = read_results(run, s);
  operator_run_destroy(run);
  options.in_place_op = c->op;
  for (uint32_t i = 0; i < 6; i++) {
    options.in_place_input = i;
    run_variant(c, s, &options, "the reference in place", &r, false);
  }
  ull__provider_destroy(options.provider);
  return r;
}

static bool has_images(const subject *s) {
  for (uint32_t v = 0; v < ull__graph_value_count(s->graph); v++) {
    if (ull__graph_value(s->graph, v)->shape.rank == 4) return true;
  }
  return false;
}

/* Fused chains give the bits of single nodes. */
static void test_fusion(const operator_case *c, subject *s, const run_options *options) {
  operator_run *run = operator_run_create(s->graph, options);
  assert_non_null(run);
  operator_run_set_sources(run, s);
  operator_run_execute(run);
  results single = read_results(run, s);
  subject exact = *s;
  exact.outputs[0].nearness = NEAR_EQUAL;
  run_variant(c, &exact, options, "fused against single nodes", &single, true);
  free_results(&single);
  operator_run_destroy(run);
}

/* Returns how many runs were in place. */
static uint32_t test_variants(const operator_case *c, uint32_t shape, feeding_provider *feeding,
                              bool feed, const results *expected) {
  uint32_t in_place = 0;
  subject settings = settings_of(ULL_FLOAT32, shape);
  settings.feed = feed;
  subject *s = subject_create(c, &settings);
  const char *layout = !feed ? "plain" : feeding->block == 8 ? "in blocks of 8" : "in blocks of 16";
  run_options options = {.provider = &feeding->provider, .poison = true};
  run_variant(c, s, &options, layout, expected, false);
  if (s->fuse) test_fusion(c, s, &options);
  for (uint32_t i = 0; i < 6; i++) {
    char variant[64];
    snprintf(variant, sizeof variant, "%s, over input %u", layout, i);
    options.in_place_op = c->op;
    options.in_place_input = i;
    in_place += run_variant(c, s, &options, variant, expected, s->fuse);
  }
  subject_destroy(s);
  return in_place;
}

static void test_case(void **state) {
  const operator_case *c = *state;
  feeding_provider feeding;
  uint32_t in_place = 0;
  feeding_create(&feeding);
  for (uint32_t shape = 0; shape < SHAPES; shape++) {
    const subject settings = settings_of(ULL_FLOAT32, shape);
    subject *s = subject_create(c, &settings);
    results expected = run_reference(c, s);
    feeding.block = shape % 2 ? 8 : 16;
    in_place += test_variants(c, shape, &feeding, false, &expected);
    if (has_images(s)) {
      in_place += test_variants(c, shape, &feeding, true, &expected);
      feeding.block = 24 - feeding.block;
      in_place += test_variants(c, shape, &feeding, true, &expected);
    }
    free_results(&expected);
    subject_destroy(s);
  }
  const bool elementwise = (ull__operator_find(c->op)->flags & ULL__OP_ELEMENTWISE) != 0;
  if (elementwise && in_place == 0) fail_msg("%s never ran in place", c->op);
  ull__provider_destroy(feeding.cpu);
}

/* ---- grad ---- */

#define STEP 2e-4
#define LOSS_WEIGHT 0.7

typedef struct slope_check {
  const operator_case *c;
  subject *s;
  operator_run *forward;
  double *moved; /* numbers of the source, along the direction */
} slope_check;

static double loss_at(slope_check *k, const subject_source *source, const double *direction,
                      double step) {
  for (uint64_t i = 0; i < source->count; i++) {
    k->moved[i] = source->numbers[i] + step * direction[i];
  }
  operator_run_set(k->forward, source->name, k->moved);
  operator_run_execute(k->forward);
  double *loss = operator_run_get(k->forward, "loss");
  const double value = *loss;
  free(loss);
  return value;
}

/* Five points, so that the error goes with the fourth power of the step. */
static void check_slope(slope_check *k, const subject_source *source, const double *direction,
                        const double *gradient, const char *what) {
  const double near = loss_at(k, source, direction, STEP) - loss_at(k, source, direction, -STEP);
  const double far =
      loss_at(k, source, direction, 2 * STEP) - loss_at(k, source, direction, -2 * STEP);
  const double expected = LOSS_WEIGHT * (8 * near - far) / (12 * STEP);
  double slope = 0;
  for (uint64_t i = 0; i < source->count; i++) slope += gradient[i] * direction[i];
  const double size = sqrt(mean_square(gradient, source->count) * (double)source->count *
                           mean_square(direction, source->count));
  if (!(fabs(slope - expected) <= 1e-6 * (fabs(slope) + size) + 1e-9)) {
    char *text = NULL;
    ull__graph_text(k->s->graph, &text);
    print_error("%s\n", text ? text : "");
    fail_msg("%s, shape %u: gradient of %s along %s is %.12g, not %.12g", k->c->op,
             k->s->case_index, source->name, what, slope, expected);
  }
  operator_run_set(k->forward, source->name, source->numbers);
}

static void check_source(slope_check *k, const subject_source *source, const double *gradient) {
  double *direction = calloc(source->count + 1, sizeof *direction);
  k->moved = malloc((source->count + 1) * sizeof *k->moved);
  for (uint32_t i = 0; i < COORDINATES; i++) {
    const uint64_t at = (uint64_t)subject_pick(k->s, 0, (int64_t)source->count - 1);
    direction[at] = 1;
    check_slope(k, source, direction, gradient, "one element");
    direction[at] = 0;
  }
  for (uint64_t i = 0; i < source->count; i++) direction[i] = subject_uniform(k->s, -1, 1);
  check_slope(k, source, direction, gradient, "all elements");
  free(direction);
  free(k->moved);
}

/* Dormant alternatives compute what their primaries do. */
static void check_alternatives(operator_run *run) {
  const ull__graph *graph = operator_run_lowered(run)->graph;
  for (uint32_t n = 0; n < ull__graph_node_count(graph); n++) {
    const ull__node *node = ull__graph_node(graph, n);
    if (node->alternative_of == ULL__NONE) continue;
    const char *twin = ull__graph_value(graph, node->outputs[0])->name;
    const ull__node *primary = ull__graph_node(graph, node->alternative_of);
    const char *name = ull__graph_value(graph, primary->outputs[0])->name;
    double *a = operator_run_get(run, twin), *b = operator_run_get(run, name);
    for (uint64_t i = 0; i < operator_run_count(run, name); i++) {
      if (a[i] != b[i]) fail_msg("%s differs from %s", twin, name);
    }
    free(a);
    free(b);
  }
}

static operator_run *run_backward(const subject *s, const ull__graph *graph,
                                  ull__provider *provider) {
  const run_options options = {.provider = provider, .poison = true};
  const double weight = LOSS_WEIGHT;
  operator_run *run = operator_run_create(graph, &options);
  if (run == NULL) fail_msg("%s", ull_error_last()->message);
  operator_run_set_sources(run, s);
  operator_run_set(run, "loss_weight", &weight);
  operator_run_execute(run);
  return run;
}

static void check_gradients(const operator_case *c, subject *s, ull__provider *provider) {
  ull__graph *joint = NULL;
  uint32_t checked = 0;
  check(ull__graph_differentiate(s->graph, &joint));
  const run_options options = {.provider = provider};
  slope_check k = {.c = c, .s = s, .forward = operator_run_create(s->graph, &options)};
  if (k.forward == NULL) fail_msg("%s", ull_error_last()->message);
  operator_run_set_sources(k.forward, s);
  operator_run *backward = run_backward(s, joint, provider);
  check_alternatives(backward);
  for (uint32_t i = 0; i < s->source_count; i++) {
    char name[64];
    if (!s->sources[i].differentiable) continue;
    snprintf(name, sizeof name, "%s.grad", s->sources[i].name);
    double *gradient = operator_run_get(backward, name);
    check_source(&k, &s->sources[i], gradient);
    free(gradient);
    checked++;
  }
  assert_true(checked > 0);
  operator_run_destroy(k.forward);
  operator_run_destroy(backward);
  ull__graph_destroy(joint);
}

static void grad_case(void **state) {
  const operator_case *c = *state;
  for (uint32_t shape = 0; shape < SHAPES; shape++) {
    ull__provider *provider;
    check(ull__reference_provider_create(&provider));
    subject settings = settings_of(ULL_FLOAT64, shape);
    settings.gradient = true;
    subject *s = subject_create(c, &settings);
    check_gradients(c, s, provider);
    subject_destroy(s);
    ull__provider_destroy(provider);
  }
}

/* ---- perf and support ---- */

static double flops_of(const ull__lowered *lowered, const char *op, double *bytes) {
  double flops = 0;
  *bytes = 0;
  for (uint32_t n = 0; n < ull__graph_node_count(lowered->graph); n++) {
    const ull__node *node = ull__graph_node(lowered->graph, n);
    if (strcmp(node->op->name, op) != 0) continue;
    const ull__cost cost = ull__node_cost(lowered->graph, node);
    flops += cost.flops;
    *bytes += cost.bytes;
  }
  return flops;
}

static const char *implementation_of(const ull__lowered *lowered, const char *op) {
  for (uint32_t n = ull__graph_node_count(lowered->graph); n-- > 0;) {
    if (strcmp(ull__graph_node(lowered->graph, n)->op->name, op) == 0) {
      return lowered->nodes[n].kernel.implementation;
    }
  }
  return "";
}

static operator_run *lower_subject(const operator_case *c, subject *s, feeding_provider *feeding) {
  const run_options options = {.provider = &feeding->provider};
  ull__graph *fused = NULL;
  if (s->fuse) check(ull__graph_fuse(s->graph, &fused));
  operator_run *run = operator_run_create(fused ? fused : s->graph, &options);
  if (run == NULL) fail_msg("%s: %s", c->op, ull_error_last()->message);
  ull__graph_destroy(fused);
  return run;
}

static void perf_case(void **state) {
  const operator_case *c = *state;
  feeding_provider feeding;
  feeding_create(&feeding);
  feeding.block = 16;
  subject settings = settings_of(ULL_FLOAT32, 0);
  settings.large = true;
  subject *s = subject_create(c, &settings);
  operator_run *run = lower_subject(c, s, &feeding);
  operator_run_set_sources(run, s);
  operator_run_execute(run);
  double bytes;
  const double flops = flops_of(operator_run_lowered(run), c->op, &bytes);
  const double seconds = operator_run_time(run, c->op);
  printf("%-28s %-34s %10.1f us %8.2f GB/s %9.2f GFLOP/s\n", c->op,
         implementation_of(operator_run_lowered(run), c->op), seconds * 1e6, bytes / seconds * 1e-9,
         flops / seconds * 1e-9);
  operator_run_destroy(run);
  subject_destroy(s);
  ull__provider_destroy(feeding.cpu);
}

static void support_case(void **state) {
  const operator_case *c = *state;
  char seen[2048] = "";
  feeding_provider feeding;
  feeding_create(&feeding);
  feeding.block = 16;
  for (uint32_t shape = 0; shape < SHAPES; shape++) {
    const subject settings = settings_of(ULL_FLOAT32, shape);
    subject *s = subject_create(c, &settings);
    operator_run *run = lower_subject(c, s, &feeding);
    const char *implementation = implementation_of(operator_run_lowered(run), c->op);
    if (strstr(seen, implementation) == NULL) {
      snprintf(seen + strlen(seen), sizeof seen - strlen(seen), " %s", implementation);
    }
    operator_run_destroy(run);
    subject_destroy(s);
  }
  printf("%-28s%s\n", c->op, seen);
  ull__provider_destroy(feeding.cpu);
}

/* ---- coverage ---- */

static const operator_case *find_case(const char *op) {
  for (uint32_t i = 0; i < operator_case_count(); i++) {
    if (strcmp(operator_case_at(i)->op, op) == 0) return operator_case_at(i);
  }
  return NULL;
}

/* Only made by other rules or differentiated through another row's case. */
static bool has_case_elsewhere(const char *op) {
  return strcmp(op, "linear_cross_entropy_joint") == 0;
}

static void test_coverage(void **state) {
  (void)state;
  for (uint32_t i = 0; i < ull__operator_count(); i++) {
    const ull__operator *op = ull__operator_at(i);
    const operator_case *c = find_case(op->name);
    if (c == NULL) fail_msg("operator %s has no case", op->name);
    if (op->gradient != NULL && !c->differentiable && !has_case_elsewhere(op->name)) {
      fail_msg("the gradient rule of %s is not tested", op->name);
    }
  }
}

/* ---- programs ---- */

static bool is_wanted(const operator_case *c, int count, char **filters) {
  for (int i = 0; i < count; i++) {
    if (strcmp(filters[i], c->op) == 0) return true;
    if (strcmp(filters[i], operator_case_family(c)) == 0) return true;
  }
  return count == 0;
}

static int run_cases(const char *mode, CMUnitTestFunction function, bool only_differentiable,
                     int filter_count, char **filters) {
  struct CMUnitTest tests[MOST_TESTS];
  size_t count = 0;
  if (filter_count == 0 && function == test_case) {
    tests[count++] = (struct CMUnitTest){.name = "coverage", .test_func = test_coverage};
  }
  for (uint32_t i = 0; i < operator_case_count() && count < MOST_TESTS; i++) {
    const operator_case *c = operator_case_at(i);
    if (only_differentiable && !c->differentiable) continue;
    if (!is_wanted(c, filter_count, filters)) continue;
    tests[count++] = (struct CMUnitTest){
        .name = c->op, .test_func = function, .initial_state = (void *)(uintptr_t)c};
  }
  return _cmocka_run_group_tests(mode, tests, count, NULL, NULL);
}

/* This program again, for one instruction set: the cap is read once in a process. */
static int run_capped(const char *isa, const char *mode, int filter_count, char **filters) {
  char *arguments[MOST_TESTS + 3] = {"test_operators", (char *)(uintptr_t)mode};
  for (int i = 0; i < filter_count && i < MOST_TESTS; i++) arguments[2 + i] = filters[i];
  const pid_t child = fork();
  int status = 1;
  if (child == 0) {
    setenv("ULLAGE_ISA", isa, 1);
    /* The team waits asleep: tests run beside each other. */
    if (strcmp(mode, "perf") != 0) setenv("OMP_WAIT_POLICY", "passive", 0);
    execv("/proc/self/exe", arguments);
    _exit(127);
  }
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  return status == 0 ? 0 : 1;
}

static int run_every_isa(const char *mode, CMUnitTestFunction function, int filter_count,
                         char **filters) {
  int failures = 0;
  if (getenv("ULLAGE_ISA") != NULL) {
    return run_cases(getenv("ULLAGE_ISA"), function, false, filter_count, filters);
  }
  for (int isa = 0; isa < ULL__ISA_COUNT; isa++) {
    if (isa > (int)ull__cpu_isa()) {
      printf("skipped: %s, which this processor does not have\n", ull__isa_name((ull__isa)isa));
      continue;
    }
    printf("==== %s: %s\n", mode, ull__isa_name((ull__isa)isa));
    fflush(stdout);
    failures += run_capped(ull__isa_name((ull__isa)isa), mode, filter_count, filters);
  }
  return failures;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  const int filter_count = argc > 2 ? argc - 2 : 0;
  char **filters = argv + 2;
  if (strcmp(mode, "test") == 0) return run_every_isa(mode, test_case, filter_count, filters);
  if (strcmp(mode, "perf") == 0) return run_every_isa(mode, perf_case, filter_count, filters);
  if (strcmp(mode, "support") == 0) return run_every_isa(mode, support_case, filter_count, filters);
  if (strcmp(mode, "grad") == 0) return run_cases(mode, grad_case, true, filter_count, filters);
  if (mode[0] != 0) {
    fprintf(stderr, "test_operators [test|grad|perf|support] [OPERATOR or FAMILY, ...]\n");
    return 2;
  }
  const int failures = run_every_isa("test", test_case, 0, NULL);
  return run_cases("grad", grad_case, true, 0, NULL) + failures;
}
