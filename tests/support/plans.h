/* Plans of zoo models for tests: training and evaluation, on a machine of text whose convolutions
 * and matrix products take a workspace. */
#ifndef ULL_TESTS_SUPPORT_PLANS_H
#define ULL_TESTS_SUPPORT_PLANS_H

#include "plan/plan.h"

typedef struct plan_case {
  ull__provider *provider;
  ull__graph *train, *evaluate;
  ull__plan *plan;
  uint64_t budget_bytes[ULL__TIER_COUNT];
} plan_case;

/* Plans MODEL at `batch` in a budget between the smallest (room 0) and keep-all (room 1); below 0:
 * one byte less than the smallest. With `shared`, all is one tier and copies run on the compute
 * lane. Fails the test when anything fails. */
void plan_case_make(const char *model, int64_t batch, bool shared, double room, plan_case *out);
void plan_case_free(plan_case *c);

#endif
