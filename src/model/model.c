/* MODEL as typed: which reader opens it. */
#include "model/model.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "model/zoo/zoo.h"

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static ull_status refuse_exported(const char *path) {
  ull__fail(ULL_ERROR_UNSUPPORTED,
            "%.256s: this version trains the models of its zoo; exported model files cannot be "
            "opened",
            path);
  ull__error_holder("%.200s", path);
  return ull__error_change("name a model of the zoo, for example zoo:resnet18");
}

static ull_status refuse_unknown(const char *text) {
  ull__fail(ULL_ERROR_USAGE,
            "%.256s is no model: expected zoo:NAME?key=value&..., FILE.pt2 or "
            "FILE.onnx",
            text);
  ull__error_holder("%.200s", text);
  const ull__zoo_row *row;
  for (uint32_t i = 0; (row = ull__zoo_row_at(i)) != NULL; i++) {
    if (strncmp(text, row->name, strcspn(text, "?")) != 0) continue;
    if (strlen(row->name) == strcspn(text, "?")) {
      return ull__error_change("did you mean zoo:%.200s?", text);
    }
  }
  return ULL_ERROR_USAGE;
}

ull_status ull__model_open(const char *text, const ull__model_options *options, ull__model **out) {
  *out = NULL;
  if (strncmp(text, "zoo:", 4) == 0) return ull__zoo_open(text + 4, options, out);
  if (ends_with(text, ".pt2") || ends_with(text, ".onnx")) return refuse_exported(text);
  return refuse_unknown(text);
}

void ull__model_destroy(ull__model *model) {
  if (model == NULL) return;
  ull__graph_destroy(model->graph);
  ull__free(model->initials);
  ull__free(model->inputs);
  ull__free((char *)model->name);
  ull__free(model);
}
