/* Running a bound graph on a provider, kernel by kernel, with every range watched: values and
 * workspaces are NaN before they are written, red zones surround them, sources must be unchanged
 * afterwards, padding must be zero. */
#ifndef ULL_TESTS_SUPPORT_OPERATOR_RUN_H
#define ULL_TESTS_SUPPORT_OPERATOR_RUN_H

#include "kernels/lowering.h"
#include "support/operator_subject.h"

typedef struct operator_run operator_run;

typedef struct run_options {
  ull__provider *provider;
  bool poison;             /* off while timing and differentiating */
  const char *in_place_op; /* nodes of this operator write output 0 over input `in_place_input`,
                              where they may; NULL: only what always does */
  uint32_t in_place_input;
} run_options;

/* Lowers, allocates, creates primitives. NULL with an error record where the provider cannot. */
operator_run *operator_run_create(const ull__graph *graph, const run_options *options);
void operator_run_destroy(operator_run *run);

/* Whether in_place_op found a node that may. */
bool operator_run_is_in_place(const operator_run *run);
const ull__lowered *operator_run_lowered(const operator_run *run);

/* By name; elements in plain order. Fails the test where there is no such value. */
void operator_run_set(operator_run *run, const char *name, const double *numbers);
void operator_run_set_sources(operator_run *run, const subject *s);
uint64_t operator_run_count(const operator_run *run, const char *name);
/* Returns fresh memory (free). `name` is an output's, else a value's. */
double *operator_run_get(operator_run *run, const char *name);

/* All nodes once; fails the test on any fault. Sources that were overwritten must be set again. */
void operator_run_execute(operator_run *run);

/* Nodes of `op`, over and over; seconds of the quickest time through. */
double operator_run_time(operator_run *run, const char *op);

#endif
