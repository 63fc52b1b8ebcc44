/* What networks are written with: layers under PyTorch's names.
 *
 * A builder holds the first failure; from then on every call does nothing and gives ULL__NONE, so
 * that a network reads as its forward pass. A layer's node has the name of its module, its
 * parameters are MODULE.weight and MODULE.bias, as in a state_dict. */
#ifndef ULL_MODEL_ZOO_BUILDER_H
#define ULL_MODEL_ZOO_BUILDER_H

#include "base/vector.h"
#include "model/zoo/zoo.h"

struct ull__zoo_builder {
  ull_status status; /* of the first failure; its record is the thread's */
  ull__zoo_choice choice;
  double label_smoothing;
  bool target_shares;
  ull__graph *graph;
  char scope[96]; /* "layer1.0", put before the names of layers; "" = none */
  ULL__VECTOR(ull__initial) initials;
  ULL__VECTOR(ull__model_input) inputs;
  int64_t classes;
};

/* The value of a key of the row. */
int64_t ull__zoo_int(ull__zoo_builder *builder, const char *key);
double ull__zoo_real(ull__zoo_builder *builder, const char *key);
bool ull__zoo_is_given(ull__zoo_builder *builder, const char *key);
void ull__zoo_set(ull__zoo_builder *builder, const char *key, double value);

/* Records a failure that concerns a key. */
void ull__zoo_refuse(ull__zoo_builder *builder, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Where the next layers stand: "layer1.0"; "" = at the top. */
void ull__zoo_enter(ull__zoo_builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- sources ---- */

/* "image", float32 [B, channels, side, side], from the keys `channels` and `image`. */
ull__value_id ull__zoo_image(ull__zoo_builder *builder);
ull__value_id ull__zoo_input(ull__zoo_builder *builder, const ull__model_input *input);

/* A parameter or state MODULE.`suffix`. */
ull__value_id ull__zoo_tensor(ull__zoo_builder *builder, ull__role role, const char *module,
                              const char *suffix, const ull__shape *shape, ull__initial_kind kind,
                              double scale);

/* ---- nodes ---- */

/* A node and module of one name; gives its first output. */
ull__value_id ull__zoo_node(ull__zoo_builder *builder, const char *op, const char *name,
                            const ull__value_id *inputs, uint32_t input_count,
                            const ull__attribute_setting *settings, uint32_t setting_count);

typedef struct ull__zoo_conv {
  int64_t out, kernel, stride, pad;
  bool has_bias;
  bool is_fan_out; /* starts as torchvision's ResNets do (normal, fan out), else as nn.Conv2d */
} ull__zoo_conv;

ull__value_id ull__zoo_conv2d(ull__zoo_builder *builder, ull__value_id x, const char *name,
                              const ull__zoo_conv *conv);

/* Statistics, the update of running_mean and running_var, and the normalisation. */
ull__value_id ull__zoo_batch_norm(ull__zoo_builder *builder, ull__value_id x, const char *name);
ull__value_id ull__zoo_layer_norm(ull__zoo_builder *builder, ull__value_id x, const char *name);
ull__value_id ull__zoo_relu(ull__zoo_builder *builder, ull__value_id x, const char *name);
ull__value_id ull__zoo_add(ull__zoo_builder *builder, ull__value_id a, ull__value_id b,
                           const char *name);
ull__value_id ull__zoo_max_pool(ull__zoo_builder *builder, ull__value_id x, const char *name,
                                int64_t kernel, int64_t stride, int64_t pad);
ull__value_id ull__zoo_global_pool(ull__zoo_builder *builder, ull__value_id x, const char *name);

/* [B, a, b, ...] to [B, a * b * ...]. */
ull__value_id ull__zoo_flatten(ull__zoo_builder *builder, ull__value_id x, const char *name);

/* As nn.Linear, its start included. */
ull__value_id ull__zoo_linear(ull__zoo_builder *builder, ull__value_id x, const char *name,
                              int64_t out);

/* The input `target` and the outputs `loss` and, of class numbers, `correct` of logits
 * [B, classes]. */
void ull__zoo_classify(ull__zoo_builder *builder, ull__value_id logits);

#endif
