/* Multilayer perceptron: `layers` linear layers fc1, fc2, ... with ReLU between them.
 *
 * `in` is what image and channels make of it. Another `in` alone stands for plain features [B, in];
 * image=0 says the same. */
#include <stdio.h>

#include "model/zoo/builder.h"

static const int64_t MOST_FEATURES = INT64_C(1) << 31;

static void settle_input(ull__zoo_builder *builder) {
  const int64_t side = ull__zoo_int(builder, "image");
  const int64_t pixels = ull__zoo_int(builder, "channels") * side * side; /* below 2^40 */
  if (side == 0 || ull__zoo_int(builder, "in") == pixels) return;
  if (pixels > MOST_FEATURES) {
    ull__zoo_refuse(builder, "image", "an image of %lld values; at most %lld are possible",
                    (long long)pixels, (long long)MOST_FEATURES);
  } else if (!ull__zoo_is_given(builder, "in")) {
    ull__zoo_set(builder, "in", (double)pixels);
  } else if (ull__zoo_is_given(builder, "image")) {
    ull__zoo_refuse(builder, "in", "an image of %lld pixels a side has %lld values; leave one out",
                    (long long)side, (long long)pixels);
  } else {
    ull__zoo_set(builder, "image", 0);
  }
}

static ull__value_id add_features(ull__zoo_builder *builder) {
  const int64_t in = ull__zoo_int(builder, "in");
  const ull__model_input input = {
      .name = "features", .dtype = ULL_FLOAT32, .shape = ull__shape_batched(1, &in)};
  if (ull__zoo_int(builder, "image") == 0) return ull__zoo_input(builder, &input);
  return ull__zoo_flatten(builder, ull__zoo_image(builder), "flatten");
}

static void build_mlp(ull__zoo_builder *builder) {
  const int64_t layers = ull__zoo_int(builder, "layers");
  settle_input(builder);
  ull__value_id x = add_features(builder);
  for (int64_t i = 1; i <= layers; i++) {
    char linear[32], relu[32];
    snprintf(linear, sizeof linear, "fc%lld", (long long)i);
    snprintf(relu, sizeof relu, "relu%lld", (long long)i);
    x = ull__zoo_linear(builder, x, linear,
                        ull__zoo_int(builder, i < layers ? "hidden" : "classes"));
    if (i < layers) x = ull__zoo_relu(builder, x, relu);
  }
  ull__zoo_classify(builder, x);
}

const ull__zoo_row ull__zoo_mlp = {
    .name = "mlp",
    .keys = {{"in", 784, 1, 0x1p31, false},
             {"hidden", 256, 1, 0x1p31, false},
             {"layers", 2, 1, 1024, false},
             {"classes", 10, 1, 1e9, false},
             {"image", 28, 0, 16384, false},
             {"channels", 1, 1, 4096, false}},
    .build = build_mlp,
};
