/* The certificate of the smallest budget, for scripts. */
#ifndef ULL_TRAIN_RESULT_CERTIFICATE_H
#define ULL_TRAIN_RESULT_CERTIFICATE_H

#include "base/json.h"
#include "plan/plan.h"

/* Adds "certificate" to `object` where the smallest budget is more than 1.05 x the lower bound. */
ull_status ull__put_certificate(const ull__plan *plan, json_t *object);

#endif
