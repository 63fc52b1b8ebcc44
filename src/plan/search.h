/* The search that fills a ladder. */
#ifndef ULL_PLAN_SEARCH_H
#define ULL_PLAN_SEARCH_H

#include "plan/ladder.h"

/* Appends rungs to `ladder` (unsorted, dominated ones among them), evaluating at most `effort`
 * schedules; keep-all is always there, and so is the schedule that keeps nothing. */
ull_status ull__search(const ull__schedule_model *model, uint32_t effort, ull__ladder *ladder);

#endif
