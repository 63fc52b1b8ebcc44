/* Residual networks for images. He, Zhang, Ren, Sun: "Deep residual learning for image
 * recognition", 2015.
 *
 * resnet18, resnet34 and resnet50 have torchvision's architecture, parameter names and initial
 * values (the stride of a bottleneck is in its 3x3 convolution). resnet8, resnet14 and resnet20 are
 * built as the paper's for small images (6n + 2 layers): a 3x3 stem, no pooling, three stages of n
 * blocks, but wider and with 1x1 convolutions as shortcuts. small_resnet is the network of
 * tools/make_reference.py. */
#include "model/zoo/builder.h"

typedef struct block {
  int64_t width, out, stride;
  bool is_bottleneck;
  bool is_fan_out;
} block;

static ull__value_id add_conv_norm(ull__zoo_builder *builder, ull__value_id x, const char *conv,
                                   const char *norm, const ull__zoo_conv *shape) {
  return ull__zoo_batch_norm(builder, ull__zoo_conv2d(builder, x, conv, shape), norm);
}

static ull__value_id add_shortcut(ull__zoo_builder *builder, ull__value_id x, int64_t channels,
                                  const block *b) {
  if (b->stride == 1 && channels == b->out) return x;
  const ull__zoo_conv conv = {
      .out = b->out, .kernel = 1, .stride = b->stride, .is_fan_out = b->is_fan_out};
  return add_conv_norm(builder, x, "downsample.0", "downsample.1", &conv);
}

static ull__value_id add_basic(ull__zoo_builder *builder, ull__value_id x, const block *b) {
  ull__zoo_conv conv = {
      .out = b->width, .kernel = 3, .stride = b->stride, .pad = 1, .is_fan_out = b->is_fan_out};
  x = ull__zoo_relu(builder, add_conv_norm(builder, x, "conv1", "bn1", &conv), "relu1");
  conv.stride = 1;
  return add_conv_norm(builder, x, "conv2", "bn2", &conv);
}

static ull__value_id add_bottleneck(ull__zoo_builder *builder, ull__value_id x, const block *b) {
  const ull__zoo_conv reduce = {.out = b->width, .kernel = 1, .stride = 1, .is_fan_out = true};
  const ull__zoo_conv middle = {
      .out = b->width, .kernel = 3, .stride = b->stride, .pad = 1, .is_fan_out = true};
  const ull__zoo_conv expand = {.out = b->out, .kernel = 1, .stride = 1, .is_fan_out = true};
  x = ull__zoo_relu(builder, add_conv_norm(builder, x, "conv1", "bn1", &reduce), "relu1");
  x = ull__zoo_relu(builder, add_conv_norm(builder, x, "conv2", "bn2", &middle), "relu2");
  return add_conv_norm(builder, x, "conv3", "bn3", &expand);
}

/* `channels` are those of x. */
static ull__value_id add_block(ull__zoo_builder *builder, ull__value_id x, int64_t channels,
                               const block *b) {
  const ull__value_id main =
      b->is_bottleneck ? add_bottleneck(builder, x, b) : add_basic(builder, x, b);
  const ull__value_id sum =
      ull__zoo_add(builder, main, add_shortcut(builder, x, channels, b), "add");
  return ull__zoo_relu(builder, sum, "relu");
}

static void add_head(ull__zoo_builder *builder, ull__value_id x) {
  ull__zoo_enter(builder, "%s", "");
  x = ull__zoo_global_pool(builder, x, "avgpool");
  x = ull__zoo_flatten(builder, x, "flatten");
  ull__zoo_classify(builder, ull__zoo_linear(builder, x, "fc", ull__zoo_int(builder, "classes")));
}

/* ---- torchvision's ---- */

static void build_torchvision(ull__zoo_builder *builder, const int blocks[4], bool is_bottleneck) {
  const ull__zoo_conv stem = {.out = 64, .kernel = 7, .stride = 2, .pad = 3, .is_fan_out = true};
  int64_t channels = 64;
  ull__value_id x = add_conv_norm(builder, ull__zoo_image(builder), "conv1", "bn1", &stem);
  x = ull__zoo_max_pool(builder, ull__zoo_relu(builder, x, "relu"), "maxpool", 3, 2, 1);
  for (int stage = 0; stage < 4; stage++) {
    block b = {.width = 64 << stage,
               .out = (is_bottleneck ? 256 : 64) << stage,
               .stride = stage == 0 ? 1 : 2,
               .is_bottleneck = is_bottleneck,
               .is_fan_out = true};
    for (int i = 0; i < blocks[stage]; i++) {
      ull__zoo_enter(builder, "layer%d.%d", stage + 1, i);
      x = add_block(builder, x, channels, &b);
      channels = b.out;
      b.stride = 1;
    }
  }
  add_head(builder, x);
}

static void build_resnet18(ull__zoo_builder *builder) {
  build_torchvision(builder, (const int[]){2, 2, 2, 2}, false);
}

static void build_resnet34(ull__zoo_builder *builder) {
  build_torchvision(builder, (const int[]){3, 4, 6, 3}, false);
}

static void build_resnet50(ull__zoo_builder *builder) {
  build_torchvision(builder, (const int[]){3, 4, 6, 3}, true);
}

/* clang-format off */
#define TORCHVISION_KEYS            \
  {{"classes", 1000, 1, 1e9, false}, \
   {"image", 224, 8, 16384, false}, \
   {"channels", 3, 1, 4096, false}}
/* clang-format on */

const ull__zoo_row ull__zoo_resnet18 = {
    .name = "resnet18", .keys = TORCHVISION_KEYS, .build = build_resnet18};
const ull__zoo_row ull__zoo_resnet34 = {
    .name = "resnet34", .keys = TORCHVISION_KEYS, .build = build_resnet34};
const ull__zoo_row ull__zoo_resnet50 = {
    .name = "resnet50", .keys = TORCHVISION_KEYS, .build = build_resnet50};

/* ---- small ones ---- */

/* Three stages of basic blocks with width, 2 width and 4 width channels, strides 1, 2, 2. `scope`
 * takes the stage, counted from `first`, and the block. */
static ull__value_id add_small_stages(ull__zoo_builder *builder, ull__value_id x, const char *scope,
                                      int first, int blocks, bool is_fan_out) {
  int64_t channels = ull__zoo_int(builder, "width");
  for (int stage = 0; stage < 3; stage++) {
    const int64_t width = ull__zoo_int(builder, "width") << stage;
    block b = {
        .width = width, .out = width, .stride = stage == 0 ? 1 : 2, .is_fan_out = is_fan_out};
    for (int i = 0; i < blocks; i++) {
      ull__zoo_enter(builder, scope, first + stage, i);
      x = add_block(builder, x, channels, &b);
      channels = width;
      b.stride = 1;
    }
  }
  return x;
}

static void build_paper(ull__zoo_builder *builder, int blocks) {
  const ull__zoo_conv stem = {.out = ull__zoo_int(builder, "width"),
                              .kernel = 3,
                              .stride = 1,
                              .pad = 1,
                              .is_fan_out = true};
  ull__value_id x = add_conv_norm(builder, ull__zoo_image(builder), "conv1", "bn1", &stem);
  x = ull__zoo_relu(builder, x, "relu");
  add_head(builder, add_small_stages(builder, x, "layer%d.%d", 1, blocks, true));
}

static void build_resnet8(ull__zoo_builder *builder) {
  build_paper(builder, 1);
}
static void build_resnet14(ull__zoo_builder *builder) {
  build_paper(builder, 2);
}
static void build_resnet20(ull__zoo_builder *builder) {
  build_paper(builder, 3);
}

static void build_small_resnet(ull__zoo_builder *builder) {
  const ull__zoo_conv stem = {
      .out = ull__zoo_int(builder, "width"), .kernel = 3, .stride = 1, .pad = 1};
  ull__value_id x = add_conv_norm(builder, ull__zoo_image(builder), "stem.0", "stem.1", &stem);
  x = ull__zoo_max_pool(builder, ull__zoo_relu(builder, x, "stem.2"), "stem.3", 2, 2, 0);
  add_head(builder, add_small_stages(builder, x, "layers.%d", 0, 1, false));
}

/* clang-format off */
#define PAPER_KEYS                 \
  {{"classes", 10, 1, 1e9, false},  \
   {"image", 28, 4, 16384, false},  \
   {"channels", 1, 1, 4096, false}, \
   {"width", 32, 1, 16384, false}}
/* clang-format on */

const ull__zoo_row ull__zoo_resnet8 = {
    .name = "resnet8", .keys = PAPER_KEYS, .build = build_resnet8};
const ull__zoo_row ull__zoo_resnet14 = {
    .name = "resnet14", .keys = PAPER_KEYS, .build = build_resnet14};
const ull__zoo_row ull__zoo_resnet20 = {
    .name = "resnet20", .keys = PAPER_KEYS, .build = build_resnet20};

const ull__zoo_row ull__zoo_small_resnet = {
    .name = "small_resnet",
    .keys = {{"classes", 10, 1, 1e9, false},
             {"image", 32, 8, 16384, false},
             {"channels", 3, 1, 4096, false},
             {"width", 8, 1, 16384, false}},
    .build = build_small_resnet,
};
