/* LeNet-5 with ReLU and max pooling: two 5x5 convolutions of 6 and 16 channels, then 120, 84 and
 * the classes. LeCun, Bottou, Bengio, Haffner: "Gradient-based learning applied to document
 * recognition", 1998. */
#include "model/zoo/builder.h"

static void build_lenet(ull__zoo_builder *builder) {
  ull__value_id x = ull__zoo_image(builder);
  x = ull__zoo_conv2d(
      builder, x, "conv1",
      &(ull__zoo_conv){.out = 6, .kernel = 5, .stride = 1, .pad = 2, .has_bias = true});
  x = ull__zoo_relu(builder, x, "relu1");
  x = ull__zoo_max_pool(builder, x, "pool1", 2, 2, 0);
  x = ull__zoo_conv2d(builder, x, "conv2",
                      &(ull__zoo_conv){.out = 16, .kernel = 5, .stride = 1, .has_bias = true});
  x = ull__zoo_relu(builder, x, "relu2");
  x = ull__zoo_max_pool(builder, x, "pool2", 2, 2, 0);
  x = ull__zoo_flatten(builder, x, "flatten");
  x = ull__zoo_relu(builder, ull__zoo_linear(builder, x, "fc1", 120), "relu3");
  x = ull__zoo_relu(builder, ull__zoo_linear(builder, x, "fc2", 84), "relu4");
  ull__zoo_classify(builder, ull__zoo_linear(builder, x, "fc3", ull__zoo_int(builder, "classes")));
}

const ull__zoo_row ull__zoo_lenet = {
    .name = "lenet",
    .keys = {{"classes", 10, 1, 1e9, false},
             {"image", 28, 12, 16384, false},
             {"channels", 1, 1, 4096, false}},
    .build = build_lenet,
};
