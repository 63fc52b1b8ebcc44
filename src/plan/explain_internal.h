/* What the texts of plan/explain.h are made of. */
#ifndef ULL_PLAN_EXPLAIN_INTERNAL_H
#define ULL_PLAN_EXPLAIN_INTERNAL_H

#include "base/vector.h"
#include "plan/explain.h"

/* A text that grows. The first failure stays; what follows it adds nothing. Zero-initialise. */
typedef struct ull__page {
  ULL__VECTOR(char) text;
  ull_status status;
} ull__page;

void ull__page_add(ull__page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `part` of `whole` as a bar of at most `width` characters, ending with a blank. */
void ull__page_add_bar(ull__page *page, uint64_t part, uint64_t whole, uint32_t width);
/* Hands the text over, or frees it and gives the first failure. */
ull_status ull__page_take(ull__page *page, char **out);

/* The schedule that a program runs, or its smallest where the plan does not fit. The caller frees
 * it with ull__schedule_free. */
ull_status ull__explained_schedule(const ull__plan *plan, uint32_t program,
                                   ull__schedule *schedule);
/* The schedule of a program's smallest packed arena. */
ull_status ull__smallest_schedule(const ull__program_plan *program, ull__schedule *schedule);

/* What is live at one execution, each storage once, largest first. */
typedef struct ull__live_list {
  const ull__instance **items; /* freed with ull__free */
  size_t count;
} ull__live_list;
ull_status ull__list_live(const ull__schedule *schedule, uint32_t execution, ull__live_list *out);

/* Why an instance is live at an execution, in words. Returns `text`. */
char *ull__explain_instance(const ull__schedule_model *model, const ull__schedule *schedule,
                            const ull__instance *instance, uint32_t execution, char *text,
                            size_t size);
/* "conv1" or "conv1.workspace". Returns `text`. */
char *ull__instance_name(const ull__schedule_model *model, const ull__instance *instance,
                         char *text, size_t size);
/* Name of what an execution runs or copies. */
const char *ull__execution_name(const ull__schedule_model *model, const ull__execution *execution);

/* The certificate: why no smaller schedule was found. Adds nothing where smallest <= 1.05 x lower
 * bound. */
void ull__page_add_certificate(ull__page *page, const ull__plan *plan);

/* Memory against time: what each rung of the training program costs. */
void ull__page_add_curve(ull__page *page, const ull__plan *plan);

#endif
