/* Looking at a model: differentiate it, count it, say what is in the way. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "train/job.h"
#include "ullage/model.h"

static ull_status count_flops(const ull__graph *graph, double *out) {
  ull__graph *bound = NULL;
  ULL__TRY(ull__graph_bind(graph, 1, &bound));
  *out = 0;
  for (ull__node_id n = 0; n < ull__graph_node_count(bound); n++) {
    const ull__node *node = ull__graph_node(bound, n);
    if (node->op->cost) *out += node->op->cost(bound, node).flops;
  }
  ull__graph_destroy(bound);
  return ULL_OK;
}

static ull_status put_problem(const ull_model_report *report, const ull_error *error,
                              json_t *object) {
  json_t *problems = json_array();
  ULL__TRY(ull__json_put(object, "problems", problems));
  if (!report->problem[0]) return ULL_OK;
  json_t *problem = json_object();
  ULL__TRY(ull__json_append(problems, problem));
  ULL__TRY(ull__json_put(problem, "node", json_string(error->holder)));
  ULL__TRY(ull__json_put(problem, "module", json_string("")));
  ULL__TRY(ull__json_put(problem, "source", json_string("")));
  ULL__TRY(ull__json_put(problem, "what", json_string(error->message)));
  return ull__json_put(problem, "hint", json_string(error->change));
}

static ull_status put_inputs(const ull__model *model, json_t *object) {
  json_t *inputs = json_array();
  ULL__TRY(ull__json_put(object, "inputs", inputs));
  for (uint32_t i = 0; i < model->input_count; i++) {
    char shape[128];
    json_t *input = json_object();
    ULL__TRY(ull__json_append(inputs, input));
    ULL__TRY(ull__json_put(input, "name", json_string(model->inputs[i].name)));
    ULL__TRY(ull__json_put(input, "dtype", json_string(ull_dtype_name(model->inputs[i].dtype))));
    ULL__TRY(
        ull__json_put(input, "shape",
                      json_string(ull__shape_text(&model->inputs[i].shape, shape, sizeof shape))));
  }
  return ull__json_put(object, "batch_symbol", json_string("B"));
}

static ull_status write_json(const ull__model *model, ull_model_report *report,
                             const ull_error *error) {
  ull__json_start();
  json_t *object = json_object();
  ull_status status = ull__json_put(object, "schema", json_integer(1));
  if (status == ULL_OK) status = ull__json_put(object, "model", json_string(model->name));
  if (status == ULL_OK)
    status = ull__json_put(object, "trainable", json_boolean(report->trainable));
  if (status == ULL_OK) status = put_problem(report, error, object);
  if (status == ULL_OK)
    status = ull__json_put(object, "parameters", json_integer((json_int_t)report->parameters));
  if (status == ULL_OK)
    status = ull__json_put(object, "flops_per_sample", json_real(report->flops_per_sample));
  if (status == ULL_OK) status = put_inputs(model, object);
  if (status == ULL_OK)
    status = ull__json_put(object, "splittable", json_boolean(report->splittable));
  if (status == ULL_OK) status = ull__json_line(object, &report->json);
  json_decref(object);
  return status;
}

static ull_status write_text(const ull__model *model, ull_model_report *report) {
  report->text = ull__format(
      "model       %s\ntrainable   %s%s%s\nparameters  %llu\nforward     %.3g GFLOP a sample\n"
      "batches     %s\n",
      model->name, report->trainable ? "yes" : "no", report->problem[0] ? ": " : "",
      report->problem, (unsigned long long)report->parameters, report->flops_per_sample * 1e-9,
      report->splittable ? "may be split into micro-batches"
                         : "are never split: a layer mixes the samples of a batch");
  return report->text ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

static ull_status look_at(const ull__model *model, ull_model_report *report) {
  ull__graph *backward = NULL;
  ull_error error = {0};
  ULL__TRY(count_flops(model->graph, &report->flops_per_sample));
  report->parameters = model->parameters;
  report->trainable = ull__graph_differentiate(model->graph, &backward) == ULL_OK;
  ull__graph_destroy(backward);
  if (!report->trainable) {
    error = *ull_error_last();
    snprintf(report->problem, sizeof report->problem, "%s", error.message);
  }
  report->splittable = ull__graph_check_splittable(model->graph) == ULL_OK;
  ULL__TRY(write_text(model, report));
  return write_json(model, report, &error);
}

ull_status ull_model_check(const ull_config *config, ull_model_report *out) {
  ull__model *model = NULL;
  const ull_error before = *ull_error_last();
  *out = (ull_model_report){0};
  ULL__TRY(ull__job_open_model(config, &model));
  ull_status status = look_at(model, out);
  ull__model_destroy(model);
  if (status != ULL_OK) ull_model_report_free(out);
  return ull__error_unless(status, &before);
}

void ull_model_report_free(ull_model_report *report) {
  ull__free(report->text);
  ull__free(report->json);
  report->text = report->json = NULL;
}
