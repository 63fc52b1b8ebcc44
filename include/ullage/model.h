/* Questions about a model without training it. */
#ifndef ULLAGE_MODEL_H
#define ULLAGE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "ullage/config.h"
#include "ullage/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ull_model_report {
  bool trainable;      /* a gradient rule for every node on the way from the loss to a parameter */
  uint64_t parameters; /* elements trained */
  double flops_per_sample; /* of the forward pass, multiply and add counted as two */
  bool splittable;         /* whether a batch may be split into micro-batches */
  char problem[512];       /* what is in the way; empty where nothing is */
  char *text;              /* for people, several lines; the report's */
  char *json;              /* the keys of `check`, one line; the report's */
} ull_model_report;

/* Opens the model that the config names ("model", "classes", "seq") and looks at it. A model that
 * cannot be trained is a result; a model that cannot be read is a failure. Free with
 * ull_model_report_free. */
ull_status ull_model_check(const ull_config *config, ull_model_report *out);
void ull_model_report_free(ull_model_report *report);

#ifdef __cplusplus
}
#endif
#endif
