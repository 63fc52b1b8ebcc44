/* Cases of losses and optimizer steps. */
#include "support/operator_cases.h"

#include "graph/hyper.h"

/* ---- losses ---- */

/* [N, C], or every third time [N, C, d]. */
typedef struct classes {
  uint32_t rank;
  int64_t dims[3];
} classes;

static classes pick_classes(subject *s) {
  classes k = {.rank = s->case_index % 3 == 2 ? 3 : 2};
  k.dims[0] = s->large ? 256 : subject_pick(s, 1, 9);
  k.dims[1] = s->large ? 1000 : subject_channels(s) + subject_pick(s, 1, s->gradient ? 4 : 40);
  k.dims[2] = subject_spatial(s, 1);
  return k;
}

static double fill_logits(subject *s, int64_t index, int64_t count) {
  (void)index, (void)count;
  return subject_uniform(s, -5, 5);
}

/* Some targets are ignored, never the first. */
static ull__value_id targets(subject *s, int64_t class_count, int64_t ignored, uint32_t rank,
                             const int64_t *dims) {
  const ull__value_id value = subject_integers(s, "target", 0, class_count - 1, rank, dims);
  subject_source *source = &s->sources[s->source_count - 1];
  for (uint64_t i = 1; i < source->count; i++) {
    if (subject_pick(s, 0, 3) == 0) source->numbers[i] = (double)ignored;
  }
  return value;
}

static ull__value_id class_targets(subject *s, const classes *k, int64_t ignored) {
  return targets(s, k->dims[1], ignored, k->rank - 1, (int64_t[]){k->dims[0], k->dims[2]});
}

static double pick_smoothing(const subject *s) {
  return s->case_index % 2 ? 0.1 : 0;
}

static void cross_entropy(subject *s, const classes *k, int64_t ignored, ull__value_id *logits,
                          ull__value_id *target, ull__value_id *outputs) {
  *logits = subject_argument(s, ARGUMENT_DATA, "logits", fill_logits, k->rank, k->dims);
  *target = class_targets(s, k, ignored);
  subject_node(
      s, "cross_entropy", INPUTS(*logits, *target),
      SETTINGS(ULL__INT("ignore_index", ignored), ULL__REAL("label_smoothing", pick_smoothing(s))),
      outputs);
}

static int64_t pick_ignored(const subject *s) {
  return s->case_index % 4 == 3 ? -1 : -100;
}

static void build_cross_entropy(subject *s) {
  const classes k = pick_classes(s);
  ull__value_id logits, target, outputs[ULL__MAX_OUTPUTS];
  cross_entropy(s, &k, pick_ignored(s), &logits, &target, outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 1e-6);
  if (!s->gradient) subject_compare(s, outputs[1], NEAR_ELEMENT, 1e-6);
}

static ull__value_id loss_gradient(subject *s) {
  return subject_argument(s, ARGUMENT_FIXED, "dloss", fill_positive, 0, NULL);
}

static void build_cross_entropy_backward(subject *s) {
  const classes k = pick_classes(s);
  const int64_t ignored = pick_ignored(s);
  ull__value_id logits, target, outputs[ULL__MAX_OUTPUTS];
  cross_entropy(s, &k, ignored, &logits, &target, outputs);
  const ull__value_id dlogits = subject_node(
      s, "cross_entropy_backward", INPUTS(logits, target, outputs[1], loss_gradient(s)),
      SETTINGS(ULL__INT("ignore_index", ignored), ULL__REAL("label_smoothing", pick_smoothing(s))),
      NULL);
  subject_compare(s, dlogits, NEAR_NORM, 1e-5);
}

/* Shares of a row, some of them none; they need not add up to 1. */
static double fill_share(subject *s, int64_t index, int64_t count) {
  (void)index, (void)count;
  return subject_pick(s, 0, 2) == 0 ? 0 : subject_uniform(s, 0, 1);
}

static void soft_cross_entropy(subject *s, ull__value_id *logits, ull__value_id *shares,
                               ull__value_id *outputs) {
  const classes k = pick_classes(s);
  *logits = subject_argument(s, ARGUMENT_DATA, "logits", fill_logits, k.rank, k.dims);
  *shares = subject_argument(s, ARGUMENT_FIXED, "shares", fill_share, k.rank, k.dims);
  subject_node(s, "soft_cross_entropy", INPUTS(*logits, *shares),
               SETTINGS(ULL__REAL("label_smoothing", pick_smoothing(s))), outputs);
}

static void build_soft_cross_entropy(subject *s) {
  ull__value_id logits, shares, outputs[ULL__MAX_OUTPUTS];
  soft_cross_entropy(s, &logits, &shares, outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 1e-6);
  if (!s->gradient) subject_compare(s, outputs[1], NEAR_ELEMENT, 1e-6);
}

static void build_soft_cross_entropy_backward(subject *s) {
  ull__value_id logits, shares, outputs[ULL__MAX_OUTPUTS];
  soft_cross_entropy(s, &logits, &shares, outputs);
  const ull__value_id dlogits = subject_node(
      s, "soft_cross_entropy_backward", INPUTS(logits, shares, outputs[1], loss_gradient(s)),
      SETTINGS(ULL__REAL("label_smoothing", pick_smoothing(s))), NULL);
  subject_compare(s, dlogits, NEAR_NORM, 1e-5);
}

typedef struct classifier {
  ull__value_id x, w, target;
  int64_t ignored;
} classifier;

static classifier pick_classifier(subject *s) {
  const int64_t n = subject_batch(s), t = s->large ? 256 : subject_pick(s, 1, s->gradient ? 5 : 60);
  const int64_t k = s->large ? 256 : subject_channels(s);
  const int64_t v = s->large ? 4096 : subject_pick(s, 2, s->gradient ? 9 : 200);
  classifier c = {.ignored = pick_ignored(s)};
  c.x = subject_argument(s, ARGUMENT_DATA, "x", NULL, DIMS(n, t, k));
  c.w = subject_argument(s, ARGUMENT_WEIGHT, "w", NULL, DIMS(v, k));
  c.target = targets(s, v, c.ignored, DIMS(n, t));
  return c;
}

static void build_linear_cross_entropy(subject *s) {
  const classifier c = pick_classifier(s);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "linear_cross_entropy", INPUTS(c.x, c.w, c.target),
               SETTINGS(ULL__INT("ignore_index", c.ignored)), outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 2e-6);
  if (!s->gradient) subject_compare(s, outputs[1], NEAR_ELEMENT, 2e-6);
}

static void build_joint(subject *s) {
  const classifier c = pick_classifier(s);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "linear_cross_entropy_joint", INPUTS(c.x, c.w, c.target, loss_gradient(s)),
               SETTINGS(ULL__INT("ignore_index", c.ignored)), outputs);
  subject_compare(s, outputs[0], NEAR_ELEMENT, 2e-6);
  subject_compare(s, outputs[1], NEAR_NORM, 1e-5);
  subject_compare(s, outputs[2], NEAR_NORM, 1e-5);
}

static double fill_hits(subject *s, int64_t index, int64_t count) {
  (void)index, (void)count;
  return (double)subject_pick(s, 0, 9);
}

static void build_count_correct(subject *s) {
  const int64_t n = subject_pick(s, 1, 60), c = subject_pick(s, 1, 20);
  const ull__value_id logits = subject_argument(s, ARGUMENT_FIXED, "logits", fill_hits, DIMS(n, c));
  const ull__value_id target = targets(s, c, -100, DIMS(n));
  subject_compare(s, subject_node(s, "count_correct", INPUTS(logits, target), NULL, 0, NULL),
                  NEAR_EQUAL, 0);
}

/* ---- optimizer ---- */

static double fill_hyper(subject *s, int64_t index, int64_t count) {
  (void)count;
  switch (index) {
  case ULL__HYPER_LR:
    return 0.05;
  case ULL__HYPER_BIAS1:
    return subject_uniform(s, 1, 10);
  case ULL__HYPER_BIAS2:
    return subject_uniform(s, 1, 30);
  case ULL__HYPER_FIRST_STEP:
    return s->case_index % 3 == 0;
  case ULL__HYPER_CLIP:
    return s->case_index % 2 ? 1 : 0.3;
  default:
    return 0;
  }
}

static ull__value_id state(subject *s, const char *name, subject_fill fill) {
  int64_t dims[2] = {s->large ? 1024 : 1 + s->case_index % 5, 3 + 7 * (s->case_index % 6)};
  if (s->large) dims[1] = 1024;
  return subject_argument(s, ARGUMENT_FIXED, name, fill, 2, dims);
}

static ull__value_id hyper(subject *s) {
  return subject_argument(s, ARGUMENT_FIXED, "hyper", fill_hyper, DIMS(ULL__HYPER_COUNT));
}

static double pick_decay(const subject *s) {
  return s->case_index % 4 < 2 ? 0 : 0.1;
}

static void build_sgd(subject *s) {
  const ull__value_id p = state(s, "p", NULL), g = state(s, "g", NULL), h = hyper(s);
  subject_compare(s,
                  subject_node(s, "sgd_step", INPUTS(p, g, h),
                               SETTINGS(ULL__REAL("weight_decay", pick_decay(s))), NULL),
                  NEAR_ELEMENT, 1e-6);
}

static void build_sgd_momentum(subject *s) {
  const ull__value_id p = state(s, "p", NULL), g = state(s, "g", NULL), m = state(s, "m", NULL);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "sgd_momentum_step", INPUTS(p, g, m, hyper(s)),
               SETTINGS(ULL__REAL("momentum", 0.9), ULL__REAL("weight_decay", pick_decay(s)),
                        ULL__INT("nesterov", s->case_index % 2)),
               outputs);
  for (uint32_t o = 0; o < 2; o++) subject_compare(s, outputs[o], NEAR_ELEMENT, 1e-6);
}

static void build_adam(subject *s) {
  const ull__value_id p = state(s, "p", NULL), g = state(s, "g", NULL), m = state(s, "m", NULL);
  const ull__value_id v = state(s, "v", fill_positive), h = hyper(s);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "adam_step", INPUTS(p, g, m, v, h),
               SETTINGS(ULL__REAL("beta1", 0.8), ULL__REAL("beta2", 0.99), ULL__REAL("eps", 1e-6),
                        ULL__REAL("weight_decay", pick_decay(s)),
                        ULL__INT("decoupled", s->case_index % 2)),
               outputs);
  for (uint32_t o = 0; o < 3; o++) subject_compare(s, outputs[o], NEAR_ELEMENT, 2e-6);
}

static void build_accumulate(subject *s) {
  const ull__value_id total = state(s, "total", NULL), g = state(s, "g", NULL);
  subject_compare(s, subject_node(s, "accumulate", INPUTS(total, g), NULL, 0, NULL), NEAR_EQUAL, 0);
}

const operator_case operator_cases_training[] = {
    {"cross_entropy", build_cross_entropy, true},
    {"cross_entropy_backward", build_cross_entropy_backward, false},
    {"soft_cross_entropy", build_soft_cross_entropy, true},
    {"soft_cross_entropy_backward", build_soft_cross_entropy_backward, false},
    {"linear_cross_entropy", build_linear_cross_entropy, true},
    {"linear_cross_entropy_joint", build_joint, false},
    {"count_correct", build_count_correct, false},
    {"sgd_step", build_sgd, false},
    {"sgd_momentum_step", build_sgd_momentum, false},
    {"adam_step", build_adam, false},
    {"accumulate", build_accumulate, false},
    {NULL, NULL, false},
};
