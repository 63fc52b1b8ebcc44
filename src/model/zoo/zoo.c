/* The list of networks, and how a row becomes a model. */
#include "model/zoo/zoo.h"

#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "model/zoo/builder.h"

static const ull__zoo_row *const rows[] = {
    &ull__zoo_mlp,      &ull__zoo_lenet,     &ull__zoo_resnet8,      &ull__zoo_resnet14,
    &ull__zoo_resnet20, &ull__zoo_resnet18,  &ull__zoo_resnet34,     &ull__zoo_resnet50,
    &ull__zoo_gpt2,     &ull__zoo_gpt2_tiny, &ull__zoo_small_resnet,
};

const ull__zoo_row *ull__zoo_row_at(uint32_t index) {
  return index < sizeof rows / sizeof *rows ? rows[index] : NULL;
}

static ull_status count_parameters(const ull__graph *graph, uint64_t *out) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < ull__graph_value_count(graph); i++) {
    const ull__value *value = ull__graph_value(graph, i);
    uint64_t elements;
    if (value->role != ULL__ROLE_PARAMETER) continue;
    ULL__TRY(ull__shape_count(&value->shape, &elements));
    ULL__TRY(ull__size_add(total, elements, "number of parameters", &total));
  }
  *out = total;
  return ULL_OK;
}

/* Moves what the builder made into the model. */
static void take(ull__zoo_builder *builder, ull__model *model) {
  model->graph = builder->graph;
  model->initials = builder->initials.items;
  model->initial_count = (uint32_t)builder->initials.count;
  model->inputs = builder->inputs.items;
  model->input_count = (uint32_t)builder->inputs.count;
  model->classes = builder->classes;
}

/* A failure inside a network, with all its keys as holder where nothing better is known. */
static ull_status explain(const ull__zoo_builder *builder) {
  ull__error_context("zoo:%s", builder->choice.row->name);
  if (builder->status == ULL_ERROR_OUT_OF_MEMORY || ull_error_last()->holder[0] != '\0') {
    return builder->status;
  }
  char *text = ull__zoo_choice_text(&builder->choice);
  if (text == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull__error_holder("%s", text);
  ull__free(text);
  return builder->status;
}

static ull_status build(ull__zoo_builder *builder, ull__model *model) {
  builder->status = ull__graph_create(builder->choice.row->name, &builder->graph);
  if (builder->status == ULL_OK) builder->choice.row->build(builder);
  take(builder, model);
  if (builder->status != ULL_OK) return explain(builder);
  model->name = ull__zoo_choice_text(&builder->choice);
  if (model->name == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  return count_parameters(model->graph, &model->parameters);
}

/* Options that only a classifier has. */
static ull_status check_classifier(const ull__zoo_builder *builder) {
  const ull__zoo_row *row = builder->choice.row;
  if (ull__zoo_key_index(row, "classes") >= 0) return ULL_OK;
  if (builder->label_smoothing != 0) {
    ull__fail(ULL_ERROR_USAGE,
              "--label-smoothing says nothing about zoo:%s, which is no classifier", row->name);
    return ull__error_holder("--label-smoothing");
  }
  if (builder->target_shares) {
    ull__fail(ULL_ERROR_USAGE, "mixup and cutmix mix classes; zoo:%s is no classifier", row->name);
    ull__error_holder("--augment");
    return ull__error_change("leave mixup and cutmix out");
  }
  return ULL_OK;
}

ull_status ull__zoo_open(const char *text, const ull__model_options *options, ull__model **out) {
  ull__zoo_builder builder = {0};
  if (options != NULL) builder.label_smoothing = options->label_smoothing;
  if (options != NULL) builder.target_shares = options->target_shares;
  ULL__TRY(ull__zoo_choose(text, options, &builder.choice));
  ULL__TRY(check_classifier(&builder));
  ull__model *model = ull__alloc(1, sizeof *model);
  if (model == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  const ull_status status = build(&builder, model);
  if (status != ULL_OK) {
    ull__model_destroy(model);
    return status;
  }
  *out = model;
  return ULL_OK;
}
