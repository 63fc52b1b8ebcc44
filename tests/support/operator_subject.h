/* What an operator test runs: a small graph with one operator in it, the numbers of its sources,
 * and what of it is compared.
 *
 * A case fills a subject out of its random numbers; the same seed and settings give the same
 * subject, so that one can be built again for another type or provider. */
#ifndef ULL_TESTS_SUPPORT_OPERATOR_SUBJECT_H
#define ULL_TESTS_SUPPORT_OPERATOR_SUBJECT_H

#include "graph/graph.h"

typedef enum argument_kind {
  ARGUMENT_DATA,   /* differentiable; an input, or a parameter where gradients are checked */
  ARGUMENT_WEIGHT, /* differentiable, always a parameter: may be stored in a layout of its own */
  ARGUMENT_FIXED,  /* never differentiated */
} argument_kind;

/* How near two results must be. */
typedef enum nearness {
  NEAR_EQUAL,   /* every bit of the number */
  NEAR_ELEMENT, /* |a - b| <= tolerance (|b| + root mean square of b) */
  NEAR_NORM,    /* |a - b| <= tolerance |b| as vectors */
} nearness;

typedef struct subject_source {
  char name[32];
  ull_dtype dtype;
  bool differentiable;
  uint64_t count;
  double *numbers;
} subject_source;

typedef struct subject_output {
  char name[32];
  nearness nearness;
  double tolerance;
} subject_output;

typedef struct subject {
  /* settings */
  ull_dtype dtype;     /* of all floats */
  bool gradient;       /* built for gradient checks: smooth points only, small */
  bool feed;           /* values of four dimensions pass through a node `feed.NAME` */
  bool large;          /* built to be timed */
  uint32_t case_index; /* 0..: odd and even ones may differ in attributes */
  uint64_t random;
  /* made by the case */
  ull__graph *graph;
  uint32_t node_count; /* without feeds: names, and with them random identities, stay the same */
  int64_t batch;       /* bound to this when built; 0: the case has no batch symbol */
  bool fuse;           /* the chain is fused before it is run on a provider under test */
  subject_source sources[20];
  uint32_t source_count;
  subject_output outputs[8];
  uint32_t output_count;
  ull__value_id smooth; /* the output that gradient checks weigh and sum; ULL__NONE: none */
} subject;

typedef struct operator_case {
  const char *op;
  void (*build)(subject *s);
  bool differentiable;
} operator_case;

/* All tables in one row. */
uint32_t operator_case_count(void);
const operator_case *operator_case_at(uint32_t index);
const char *operator_case_family(const operator_case *c);

/* Builds and binds; fails the running test where the graph cannot be built. */
subject *subject_create(const operator_case *c, const subject *settings);
void subject_destroy(subject *s);

/* ---- for cases ---- */

double subject_uniform(subject *s, double low, double high);
int64_t subject_pick(subject *s, int64_t low, int64_t high); /* both inclusive */
int64_t subject_channels(subject *s);
int64_t subject_spatial(subject *s, int64_t least);
int64_t subject_batch(subject *s);

/* A source of floats in [-1, 1], or by `fill` called once for each element in order. A first
 * dimension of DATA or FIXED that equals s->batch becomes the symbol. */
typedef double (*subject_fill)(subject *s, int64_t index, int64_t count);
ull__value_id subject_argument(subject *s, argument_kind kind, const char *name, subject_fill fill,
                               uint32_t rank, const int64_t *dims);
ull__value_id subject_integers(subject *s, const char *name, int64_t low, int64_t high,
                               uint32_t rank, const int64_t *dims);

double fill_positive(subject *s, int64_t index, int64_t count);
double fill_apart_from_zero(subject *s, int64_t index, int64_t count);
/* All different, neighbours at least 0.01 apart, in random order. */
double fill_distinct(subject *s, int64_t index, int64_t count);

#define DIMS(...)                                                               \
  (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { \
    __VA_ARGS__                                                                 \
  }
#define INPUTS(...)                     \
  (const ull__value_id[]){__VA_ARGS__}, \
      (uint32_t)(sizeof((ull__value_id[]){__VA_ARGS__}) / sizeof(ull__value_id))
#define SETTINGS(...)                            \
  (const ull__attribute_setting[]){__VA_ARGS__}, \
      (uint32_t)(sizeof((ull__attribute_setting[]){__VA_ARGS__}) / sizeof(ull__attribute_setting))

/* Adds a node; returns its first output and, where `outputs` is not NULL, writes all of them. */
ull__value_id subject_node(subject *s, const char *op, const ull__value_id *inputs,
                           uint32_t input_count, const ull__attribute_setting *settings,
                           uint32_t setting_count, ull__value_id *outputs);

/* What is compared; the first one is what gradient checks sum, unless s->smooth is set. */
void subject_compare(subject *s, ull__value_id value, nearness nearness, double tolerance);

#endif
