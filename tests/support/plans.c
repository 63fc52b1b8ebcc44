#include "support/plans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "model/model.h"

#define WORKSPACE_BYTES 5000u
#define EFFORT 60u

/* The text provider's answers, with workspaces. */
typedef struct working_provider {
  ull__provider provider; /* first */
  ull__provider *inner;
} working_provider;

static ull_status choose(ull__provider *provider, const ull__lowering_query *query,
                         ull__lowering_choice *choice) {
  ull__provider *inner = ((working_provider *)provider)->inner;
  const char *op = query->node->op->name;
  ULL__TRY(inner->choose(inner, query, choice));
  if (strstr(op, "conv") || strstr(op, "linear")) choice->kernel.workspace_bytes = WORKSPACE_BYTES;
  return ULL_OK;
}

static ull_status reorder(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                          const ull__layout *from, const ull__layout *to, ull__kernel *kernel) {
  ull__provider *inner = ((working_provider *)provider)->inner;
  return inner->reorder(inner, dtype, shape, from, to, kernel);
}

static void destroy(ull__provider *provider) {
  ull__provider_destroy(((working_provider *)provider)->inner);
  ull__free(provider);
}

static void require(ull_status status) {
  if (status != ULL_OK) fail_msg("%s", ull_error_last()->message);
}

static ull__provider *make_provider(void) {
  const ull__rates rates = {100e9, 20e9, 5e-6};
  working_provider *p = ull__alloc(1, sizeof *p);
  assert_non_null(p);
  require(ull__text_provider_create(&rates, &p->inner));
  p->provider = *p->inner;
  p->provider.choose = choose;
  p->provider.reorder = reorder;
  p->provider.destroy = destroy;
  return &p->provider;
}

static void make_graphs(const ull__graph *forward, plan_case *c) {
  const ull__recipe recipe = {.optimizer = ULL__ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  ull__graph *backward, *step, *folded;
  require(ull__graph_differentiate(forward, &backward));
  require(ull__graph_add_optimizer(backward, &recipe, &step));
  require(ull__graph_fold(step, &folded));
  require(ull__graph_fuse(folded, &c->train));
  ull__graph_destroy(backward);
  ull__graph_destroy(step);
  ull__graph_destroy(folded);
  require(ull__graph_derive_evaluation(forward, &step));
  require(ull__graph_fold(step, &c->evaluate));
  ull__graph_destroy(step);
}

void plan_case_make(const char *model, int64_t batch, bool shared, double room, plan_case *c) {
  ull__model_options options = {0};
  ull__model *opened;
  *c = (plan_case){.budget_bytes = {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
  require(ull__model_open(model, &options, &opened));
  make_graphs(opened->graph, c);
  ull__model_destroy(opened);
  c->provider = make_provider();
  ull__plan_request request = {
      .programs = {{"train", c->train, batch}, {"eval", c->evaluate, batch}},
      .program_count = 2,
      .provider = c->provider,
      .shared = shared,
      .loader_bytes = 10000,
      .process_bytes = 1 << 20,
      .effort = EFFORT};
  memcpy(request.budget_bytes, c->budget_bytes, sizeof c->budget_bytes);
  require(ull__plan_create(&request, &c->plan));
  if (room >= 1) return;
  uint64_t smallest = c->plan->smallest_bytes[ULL__TIER_DEVICE];
  uint64_t span = c->plan->keep_all_peak_bytes[ULL__TIER_DEVICE] - smallest;
  ull__plan_destroy(c->plan);
  c->budget_bytes[ULL__TIER_DEVICE] =
      room < 0 ? smallest - 1 : smallest + (uint64_t)(room * (double)span);
  request.budget_bytes[ULL__TIER_DEVICE] = c->budget_bytes[ULL__TIER_DEVICE];
  require(ull__plan_create(&request, &c->plan));
}

void plan_case_free(plan_case *c) {
  ull__plan_destroy(c->plan);
  ull__provider_destroy(c->provider);
  ull__graph_destroy(c->train);
  ull__graph_destroy(c->evaluate);
}
