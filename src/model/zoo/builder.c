/* Layers as sources and nodes. Names of values in the graph are the state_dict's names, so a name
 * is made in one place: `full_name`. */
#include "model/zoo/builder.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/checked.h"

enum { NAME_BYTES = 160 };

static bool failed(const ull__zoo_builder *builder) {
  return builder->status != ULL_OK;
}

static bool keep(ull__zoo_builder *builder, ull_status status) {
  if (builder->status == ULL_OK) builder->status = status;
  return status == ULL_OK;
}

/* ---- keys ---- */

/* The networks ask for keys of their own row only. */
static int key_index(ull__zoo_builder *builder, const char *key) {
  const int index = ull__zoo_key_index(builder->choice.row, key);
  if (index < 0 && !failed(builder)) {
    keep(builder,
         ULL__FAIL(ULL_ERROR_INTERNAL, "zoo:%s has no key %s", builder->choice.row->name, key));
  }
  return index < 0 ? 0 : index;
}

double ull__zoo_real(ull__zoo_builder *builder, const char *key) {
  return builder->choice.values[key_index(builder, key)];
}

int64_t ull__zoo_int(ull__zoo_builder *builder, const char *key) {
  return (int64_t)ull__zoo_real(builder, key);
}

bool ull__zoo_is_given(ull__zoo_builder *builder, const char *key) {
  return builder->choice.is_given[key_index(builder, key)];
}

void ull__zoo_set(ull__zoo_builder *builder, const char *key, double value) {
  builder->choice.values[key_index(builder, key)] = value;
}

void ull__zoo_refuse(ull__zoo_builder *builder, const char *key, const char *format, ...) {
  char reason[256];
  va_list arguments;
  if (failed(builder)) return;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  keep(builder,
       ULL__FAIL(ULL_ERROR_INVALID, "%s=%.15g: %s", key, ull__zoo_real(builder, key), reason));
  ull__error_holder("%s", key);
}

/* ---- names ---- */

void ull__zoo_enter(ull__zoo_builder *builder, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(builder->scope, sizeof builder->scope, format, arguments);
  va_end(arguments);
}

static void full_name(const ull__zoo_builder *builder, const char *name, char text[NAME_BYTES]) {
  const char *point = builder->scope[0] != '\0' && name[0] != '\0' ? "." : "";
  snprintf(text, NAME_BYTES, "%s%s%s", builder->scope, point, name);
}

/* ---- sources ---- */

ull__value_id ull__zoo_input(ull__zoo_builder *builder, const ull__model_input *input) {
  ull__value_id id = ULL__NONE;
  if (failed(builder)) return ULL__NONE;
  keep(builder, ull__graph_set_origin(builder->graph, "", ""));
  if (failed(builder) ||
      !keep(builder, ull__graph_add_source(builder->graph, ULL__ROLE_INPUT, input->name,
                                           input->dtype, &input->shape, &id))) {
    return ULL__NONE;
  }
  ull__model_input own = *input;
  own.name = ull__graph_value(builder->graph, id)->name;
  keep(builder, ull__vector_push(&builder->inputs, own));
  return id;
}

ull__value_id ull__zoo_image(ull__zoo_builder *builder) {
  const int64_t side = ull__zoo_int(builder, "image");
  const int64_t dims[] = {ull__zoo_int(builder, "channels"), side, side};
  const ull__model_input input = {.name = "image",
                                  .dtype = ULL_FLOAT32,
                                  .shape = ull__shape_batched(3, dims),
                                  .is_image = true};
  return ull__zoo_input(builder, &input);
}

ull__value_id ull__zoo_tensor(ull__zoo_builder *builder, ull__role role, const char *module,
                              const char *suffix, const ull__shape *shape, ull__initial_kind kind,
                              double scale) {
  char path[NAME_BYTES], name[NAME_BYTES + 32];
  ull__value_id id = ULL__NONE;
  if (failed(builder)) return ULL__NONE;
  full_name(builder, module, path);
  snprintf(name, sizeof name, "%s.%s", path, suffix);
  keep(builder, ull__graph_set_origin(builder->graph, path, ""));
  if (failed(builder) ||
      !keep(builder, ull__graph_add_source(builder->graph, role, name, ULL_FLOAT32, shape, &id))) {
    return ULL__NONE;
  }
  keep(builder,
       ull__vector_push(&builder->initials,
                        (ull__initial){ull__graph_value(builder->graph, id)->name, kind, scale}));
  return id;
}

static ull__value_id add_vector(ull__zoo_builder *builder, ull__role role, const char *module,
                                const char *suffix, int64_t length, ull__initial_kind kind,
                                double scale) {
  const ull__shape shape = ull__shape_of(1, &length);
  return ull__zoo_tensor(builder, role, module, suffix, &shape, kind, scale);
}

/* ---- nodes ---- */

/* `outputs` has room for all of the row's. */
static ull__value_id add_node(ull__zoo_builder *builder, const char *module, const char *op,
                              const char *name, const ull__value_id *inputs, uint32_t input_count,
                              const ull__attribute_setting *settings, uint32_t setting_count,
                              ull__value_id *outputs) {
  char path[NAME_BYTES], module_path[NAME_BYTES];
  outputs[0] = ULL__NONE;
  if (failed(builder)) return ULL__NONE;
  full_name(builder, name, path);
  full_name(builder, module, module_path);
  keep(builder, ull__graph_set_origin(builder->graph, module_path, ""));
  if (failed(builder) ||
      !keep(builder, ull__graph_add_node(builder->graph, op, path, inputs, input_count, settings,
                                         setting_count, outputs))) {
    return ULL__NONE;
  }
  return outputs[0];
}

ull__value_id ull__zoo_node(ull__zoo_builder *builder, const char *op, const char *name,
                            const ull__value_id *inputs, uint32_t input_count,
                            const ull__attribute_setting *settings, uint32_t setting_count) {
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  return add_node(builder, name, op, name, inputs, input_count, settings, setting_count, outputs);
}

static const ull__shape *shape_of(ull__zoo_builder *builder, ull__value_id id) {
  static const ull__shape none = {.rank = 4, .dims = {{1, 0}, {1, 0}, {1, 0}, {1, 0}}};
  return failed(builder) ? &none : &ull__graph_value(builder->graph, id)->shape;
}

ull__value_id ull__zoo_conv2d(ull__zoo_builder *builder, ull__value_id x, const char *name,
                              const ull__zoo_conv *conv) {
  const int64_t in = shape_of(builder, x)->dims[1].constant;
  const double window = (double)conv->kernel * (double)conv->kernel;
  const double uniform = 1 / sqrt((double)in * window);
  const double normal = sqrt(2 / ((double)conv->out * window));
  const int64_t dims[] = {conv->out, in, conv->kernel, conv->kernel};
  const ull__shape shape = ull__shape_of(4, dims);
  const ull__attribute_setting settings[] = {
      ULL__INT("stride_h", conv->stride), ULL__INT("stride_w", conv->stride),
      ULL__INT("pad_h", conv->pad), ULL__INT("pad_w", conv->pad)};
  ull__value_id inputs[3] = {x, ULL__NONE, ULL__NONE};
  inputs[1] = ull__zoo_tensor(builder, ULL__ROLE_PARAMETER, name, "weight", &shape,
                              conv->is_fan_out ? ULL__INITIAL_NORMAL : ULL__INITIAL_UNIFORM,
                              conv->is_fan_out ? normal : uniform);
  if (conv->has_bias) {
    inputs[2] = add_vector(builder, ULL__ROLE_PARAMETER, name, "bias", conv->out,
                           ULL__INITIAL_UNIFORM, uniform);
  }
  return ull__zoo_node(builder, "conv2d", name, inputs, conv->has_bias ? 3 : 2, settings, 4);
}

ull__value_id ull__zoo_batch_norm(ull__zoo_builder *builder, ull__value_id x, const char *name) {
  const int64_t channels = shape_of(builder, x)->dims[1].constant;
  const ull__attribute_setting eps = ULL__REAL("eps", 1e-5), momentum = ULL__REAL("momentum", 0.1);
  char statistics_name[NAME_BYTES], update_name[NAME_BYTES];
  ull__value_id statistics[ULL__MAX_OUTPUTS] = {0}, updated[ULL__MAX_OUTPUTS];
  snprintf(statistics_name, sizeof statistics_name, "%s.statistics", name);
  snprintf(update_name, sizeof update_name, "%s.update", name);
  const ull__value_id weight =
      add_vector(builder, ULL__ROLE_PARAMETER, name, "weight", channels, ULL__INITIAL_ONES, 0);
  const ull__value_id bias =
      add_vector(builder, ULL__ROLE_PARAMETER, name, "bias", channels, ULL__INITIAL_ZEROS, 0);
  const ull__value_id running_mean =
      add_vector(builder, ULL__ROLE_STATE, name, "running_mean", channels, ULL__INITIAL_ZEROS, 0);
  const ull__value_id running_var =
      add_vector(builder, ULL__ROLE_STATE, name, "running_var", channels, ULL__INITIAL_ONES, 0);
  add_node(builder, name, "batch_norm_statistics", statistics_name, &x, 1, &eps, 1, statistics);
  const ull__value_id to_update[] = {running_mean, running_var, statistics[0], statistics[2]};
  add_node(builder, name, "batch_norm_update", update_name, to_update, 4, &momentum, 1, updated);
  const ull__value_id to_normalize[] = {x, statistics[0], statistics[1], weight, bias};
  return ull__zoo_node(builder, "batch_norm_normalize", name, to_normalize, 5, NULL, 0);
}

static int64_t last_dim(ull__zoo_builder *builder, ull__value_id x) {
  const ull__shape *shape = shape_of(builder, x);
  return shape->dims[shape->rank - 1].constant;
}

ull__value_id ull__zoo_layer_norm(ull__zoo_builder *builder, ull__value_id x, const char *name) {
  const int64_t width = last_dim(builder, x);
  const ull__attribute_setting eps = ULL__REAL("eps", 1e-5);
  const ull__value_id weight =
      add_vector(builder, ULL__ROLE_PARAMETER, name, "weight", width, ULL__INITIAL_ONES, 0);
  const ull__value_id bias =
      add_vector(builder, ULL__ROLE_PARAMETER, name, "bias", width, ULL__INITIAL_ZEROS, 0);
  const ull__value_id inputs[] = {x, weight, bias};
  return ull__zoo_node(builder, "layer_norm", name, inputs, 3, &eps, 1);
}

ull__value_id ull__zoo_relu(ull__zoo_builder *builder, ull__value_id x, const char *name) {
  return ull__zoo_node(builder, "relu", name, &x, 1, NULL, 0);
}

ull__value_id ull__zoo_add(ull__zoo_builder *builder, ull__value_id a, ull__value_id b,
                           const char *name) {
  const ull__value_id inputs[] = {a, b};
  return ull__zoo_node(builder, "add", name, inputs, 2, NULL, 0);
}

ull__value_id ull__zoo_max_pool(ull__zoo_builder *builder, ull__value_id x, const char *name,
                                int64_t kernel, int64_t stride, int64_t pad) {
  const ull__attribute_setting settings[] = {
      ULL__INT("kernel_h", kernel), ULL__INT("kernel_w", kernel), ULL__INT("stride_h", stride),
      ULL__INT("stride_w", stride), ULL__INT("pad_h", pad),       ULL__INT("pad_w", pad)};
  return ull__zoo_node(builder, "max_pool2d", name, &x, 1, settings, 6);
}

ull__value_id ull__zoo_global_pool(ull__zoo_builder *builder, ull__value_id x, const char *name) {
  return ull__zoo_node(builder, "global_avg_pool", name, &x, 1, NULL, 0);
}

ull__value_id ull__zoo_flatten(ull__zoo_builder *builder, ull__value_id x, const char *name) {
  const ull__shape *shape = shape_of(builder, x);
  uint64_t features = 1;
  for (uint32_t i = 1; i < shape->rank && !failed(builder); i++) {
    keep(builder,
         ull__size_mul(features, (uint64_t)shape->dims[i].constant, "features", &features));
  }
  const ull__attribute_setting settings[] = {ULL__INT("rank", 2), ULL__INT("d0", 1),
                                             ULL__INT("d1", (int64_t)features),
                                             ULL__INT("batched", 1)};
  return ull__zoo_node(builder, "reshape", name, &x, 1, settings, 4);
}

ull__value_id ull__zoo_linear(ull__zoo_builder *builder, ull__value_id x, const char *name,
                              int64_t out) {
  const int64_t in = last_dim(builder, x);
  const double scale = 1 / sqrt((double)in);
  const int64_t dims[] = {out, in};
  const ull__shape shape = ull__shape_of(2, dims);
  ull__value_id inputs[3] = {x, ULL__NONE, ULL__NONE};
  inputs[1] = ull__zoo_tensor(builder, ULL__ROLE_PARAMETER, name, "weight", &shape,
                              ULL__INITIAL_UNIFORM, scale);
  inputs[2] =
      add_vector(builder, ULL__ROLE_PARAMETER, name, "bias", out, ULL__INITIAL_UNIFORM, scale);
  return ull__zoo_node(builder, "linear", name, inputs, 3, NULL, 0);
}

static void add_output(ull__zoo_builder *builder, const char *name, ull__value_id value) {
  if (!failed(builder)) keep(builder, ull__graph_add_output(builder->graph, name, value));
}

void ull__zoo_classify(ull__zoo_builder *builder, ull__value_id logits) {
  const ull__attribute_setting smoothing = ULL__REAL("label_smoothing", builder->label_smoothing);
  const bool shares = builder->target_shares;
  builder->classes = ull__zoo_int(builder, "classes");
  const ull__model_input input = {.name = "target",
                                  .dtype = shares ? ULL_FLOAT32 : ULL_INT64,
                                  .shape = ull__shape_batched(shares ? 1 : 0, &builder->classes),
                                  .upper = builder->classes,
                                  .is_target = true,
                                  .is_shares = shares};
  ull__zoo_enter(builder, "%s", "");
  const ull__value_id target = ull__zoo_input(builder, &input);
  const ull__value_id inputs[] = {logits, target};
  const char *loss = shares ? "soft_cross_entropy" : "cross_entropy";
  add_output(builder, "loss", ull__zoo_node(builder, loss, "loss", inputs, 2, &smoothing, 1));
  if (shares) return;
  add_output(builder, "correct",
             ull__zoo_node(builder, "count_correct", "correct", inputs, 2, NULL, 0));
}
