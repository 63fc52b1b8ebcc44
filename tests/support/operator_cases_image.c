/* Cases of operators on [N, C, H, W]: convolution, pooling, batch normalisation. */
#include "support/operator_cases.h"

typedef struct image {
  int64_t n, c, h, w;
} image;

static image pick_image(subject *s, int64_t least) {
  return (image){subject_batch(s), subject_channels(s), subject_spatial(s, least),
                 subject_spatial(s, least)};
}

static ull__value_id image_argument(subject *s, argument_kind kind, const char *name,
                                    subject_fill fill, const image *i) {
  return subject_argument(s, kind, name, fill, DIMS(i->n, i->c, i->h, i->w));
}

/* ---- convolution ---- */

typedef struct convolution {
  image x, y;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
} convolution;

static int64_t output_size(int64_t size, int64_t kernel, int64_t stride, int64_t pad,
                           int64_t dilation) {
  return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

static void pick_windows(subject *s, convolution *k) {
  static const int64_t kernels[] = {1, 3, 3, 2, 5};
  k->kernel_h = s->large ? 3 : kernels[subject_pick(s, 0, 4)];
  k->kernel_w = s->large ? 3 : kernels[subject_pick(s, 0, 4)];
  k->stride_h = s->large ? 1 : subject_pick(s, 1, 2);
  k->stride_w = s->large ? 1 : subject_pick(s, 1, 3);
  k->dilation_h = s->large ? 1 : subject_pick(s, 1, 2);
  k->dilation_w = s->large ? 1 : subject_pick(s, 1, 2);
  k->pad_h = s->large ? 1 : subject_pick(s, 0, k->kernel_h / 2);
  k->pad_w = s->large ? 1 : subject_pick(s, 0, k->kernel_w / 2);
}

static convolution pick_convolution(subject *s) {
  convolution k = {.groups = 1, .x = {.n = subject_batch(s)}};
  pick_windows(s, &k);
  k.x.h = subject_spatial(s, k.dilation_h * (k.kernel_h - 1) + 1);
  k.x.w = subject_spatial(s, k.dilation_w * (k.kernel_w - 1) + 1);
  k.x.c = subject_channels(s);
  k.y.c = subject_channels(s);
  if (!s->large && s->case_index % 4 == 3) { /* grouped; every other one depthwise */
    k.groups = s->case_index % 8 == 3 ? k.x.c : subject_pick(s, 2, 3);
    if (k.groups < k.x.c || k.x.c == 1) k.x.c = k.groups * subject_pick(s, 1, 3);
    k.y.c = k.groups * subject_pick(s, 1, 2);
  }
  k.y.n = k.x.n;
  k.y.h = output_size(k.x.h, k.kernel_h, k.stride_h, k.pad_h, k.dilation_h);
  k.y.w = output_size(k.x.w, k.kernel_w, k.stride_w, k.pad_w, k.dilation_w);
  return k;
}

#define CONVOLUTION(k)                                                                \
  ULL__INT("stride_h", (k).stride_h), ULL__INT("stride_w", (k).stride_w),             \
      ULL__INT("pad_h", (k).pad_h), ULL__INT("pad_w", (k).pad_w),                     \
      ULL__INT("dilation_h", (k).dilation_h), ULL__INT("dilation_w", (k).dilation_w), \
      ULL__INT("groups", (k).groups)

static ull__value_id filter(subject *s, const convolution *k) {
  return subject_argument(s, ARGUMENT_WEIGHT, "w", NULL,
                          DIMS(k->y.c, k->x.c / k->groups, k->kernel_h, k->kernel_w));
}

static void build_conv2d(subject *s) {
  const convolution k = pick_convolution(s);
  const ull__value_id x = image_argument(s, ARGUMENT_DATA, "x", NULL, &k.x), w = filter(s, &k);
  ull__value_id b = ULL__NONE;
  const bool biased = s->case_index % 2 == 0;
  if (biased) b = subject_argument(s, ARGUMENT_WEIGHT, "b", NULL, DIMS(k.y.c));
  const ull__value_id inputs[] = {x, w, b};
  const ull__value_id y =
      subject_node(s, "conv2d", inputs, biased ? 3 : 2, SETTINGS(CONVOLUTION(k)), NULL);
  subject_compare(s, y, NEAR_NORM, 3e-6);
}

static void build_conv2d_backward_input(subject *s) {
  const convolution k = pick_convolution(s);
  const ull__value_id dy = image_argument(s, ARGUMENT_DATA, "dy", NULL, &k.y), w = filter(s, &k);
  const ull__value_id dx = subject_node(
      s, "conv2d_backward_input", INPUTS(dy, w),
      SETTINGS(CONVOLUTION(k), ULL__INT("input_h", k.x.h), ULL__INT("input_w", k.x.w)), NULL);
  subject_compare(s, dx, NEAR_NORM, 3e-6);
}

static void build_conv2d_backward_weight(subject *s) {
  const convolution k = pick_convolution(s);
  const ull__value_id x = image_argument(s, ARGUMENT_DATA, "x", NULL, &k.x);
  const ull__value_id dy = image_argument(s, ARGUMENT_DATA, "dy", NULL, &k.y);
  const ull__value_id dw = subject_node(
      s, "conv2d_backward_weight", INPUTS(x, dy),
      SETTINGS(CONVOLUTION(k), ULL__INT("kernel_h", k.kernel_h), ULL__INT("kernel_w", k.kernel_w)),
      NULL);
  subject_compare(s, dw, NEAR_NORM, 3e-6);
}

/* ---- pooling ---- */

typedef struct pooling {
  image x, y;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, mode;
} pooling;

static int64_t pooled_size(int64_t size, int64_t kernel, int64_t stride, int64_t pad, bool ceil) {
  const int64_t span = size + 2 * pad - kernel;
  int64_t count = span / stride + 1;
  /* The last window begins inside the image or its left padding. */
  if (ceil && span % stride != 0 && count * stride < size + pad) count++;
  return count;
}

static pooling pick_pooling(subject *s, bool max) {
  pooling p = {.kernel_h = subject_pick(s, 2, 3), .kernel_w = subject_pick(s, 1, 3)};
  p.stride_h = subject_pick(s, 1, 3);
  p.stride_w = subject_pick(s, 1, 3);
  p.pad_h = subject_pick(s, 0, p.kernel_h / 2);
  p.pad_w = subject_pick(s, 0, p.kernel_w / 2);
  p.x = pick_image(s, 3);
  p.mode = subject_pick(s, 0, 1);
  const bool ceil = max && p.mode;
  p.y = (image){p.x.n, p.x.c, pooled_size(p.x.h, p.kernel_h, p.stride_h, p.pad_h, ceil),
                pooled_size(p.x.w, p.kernel_w, p.stride_w, p.pad_w, ceil)};
  return p;
}

#define WINDOW(p)                                                             \
  ULL__INT("kernel_h", (p).kernel_h), ULL__INT("kernel_w", (p).kernel_w),     \
      ULL__INT("stride_h", (p).stride_h), ULL__INT("stride_w", (p).stride_w), \
      ULL__INT("pad_h", (p).pad_h), ULL__INT("pad_w", (p).pad_w)

/* Without gradients every third image has equal elements: the first of a window wins. */
static double fill_ties(subject *s, int64_t index, int64_t count) {
  (void)index, (void)count;
  return (double)subject_pick(s, -2, 2);
}

static ull__value_id pooled(subject *s, const pooling *p, ull__value_id *index) {
  const bool ties = !s->gradient && s->case_index % 3 == 0;
  const ull__value_id x =
      image_argument(s, ARGUMENT_DATA, "x", ties ? fill_ties : fill_distinct, &p->x);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "max_pool2d", INPUTS(x), SETTINGS(WINDOW(*p), ULL__INT("ceil_mode", p->mode)),
               outputs);
  *index = outputs[1];
  return outputs[0];
}

static void build_max_pool2d(subject *s) {
  const pooling p = pick_pooling(s, true);
  ull__value_id index;
  subject_compare(s, pooled(s, &p, &index), NEAR_EQUAL, 0);
  if (!s->gradient) subject_compare(s, index, NEAR_EQUAL, 0);
}

static void build_max_pool2d_backward(subject *s) {
  const pooling p = pick_pooling(s, true);
  ull__value_id index;
  pooled(s, &p, &index);
  const ull__value_id dy = image_argument(s, ARGUMENT_FIXED, "dy", NULL, &p.y);
  const ull__value_id dx =
      subject_node(s, "max_pool2d_backward", INPUTS(dy, index),
                   SETTINGS(WINDOW(p), ULL__INT("ceil_mode", p.mode), ULL__INT("input_h", p.x.h),
                            ULL__INT("input_w", p.x.w)),
                   NULL);
  subject_compare(s, dx, NEAR_ELEMENT, 1e-6);
}

static void build_avg_pool2d(subject *s) {
  const pooling p = pick_pooling(s, false);
  const ull__value_id x = image_argument(s, ARGUMENT_DATA, "x", NULL, &p.x);
  const ull__value_id y = subject_node(
      s, "avg_pool2d", INPUTS(x), SETTINGS(WINDOW(p), ULL__INT("count_include_pad", p.mode)), NULL);
  subject_compare(s, y, NEAR_ELEMENT, 1e-6);
}

static void build_avg_pool2d_backward(subject *s) {
  const pooling p = pick_pooling(s, false);
  const ull__value_id dy = image_argument(s, ARGUMENT_FIXED, "dy", NULL, &p.y);
  const ull__value_id dx =
      subject_node(s, "avg_pool2d_backward", INPUTS(dy),
                   SETTINGS(WINDOW(p), ULL__INT("count_include_pad", p.mode),
                            ULL__INT("input_h", p.x.h), ULL__INT("input_w", p.x.w)),
                   NULL);
  subject_compare(s, dx, NEAR_ELEMENT, 1e-6);
}

static void build_global_avg_pool(subject *s) {
  const image i = pick_image(s, 1);
  const ull__value_id x = image_argument(s, ARGUMENT_DATA, "x", NULL, &i);
  subject_compare(s, subject_node(s, "global_avg_pool", &x, 1, NULL, 0, NULL), NEAR_ELEMENT, 2e-6);
}

static void build_global_avg_pool_backward(subject *s) {
  const image i = pick_image(s, 1);
  const ull__value_id dy = subject_argument(s, ARGUMENT_FIXED, "dy", NULL, DIMS(i.n, i.c, 1, 1));
  const ull__value_id dx =
      subject_node(s, "global_avg_pool_backward", INPUTS(dy),
                   SETTINGS(ULL__INT("input_h", i.h), ULL__INT("input_w", i.w)), NULL);
  subject_compare(s, dx, NEAR_ELEMENT, 1e-6);
}

/* From one window to more windows than elements, most of them uneven. */
static image pick_divided(subject *s, image x) {
  return (image){x.n, x.c, subject_pick(s, 1, x.h + 2), subject_pick(s, 1, x.w + 2)};
}

static void build_adaptive_avg_pool2d(subject *s) {
  const image i = pick_image(s, 1), o = pick_divided(s, i);
  const ull__value_id x = image_argument(s, ARGUMENT_DATA, "x", NULL, &i);
  const ull__value_id y =
      subject_node(s, "adaptive_avg_pool2d", INPUTS(x),
                   SETTINGS(ULL__INT("output_h", o.h), ULL__INT("output_w", o.w)), NULL);
  subject_compare(s, y, NEAR_ELEMENT, 1e-6);
}

static void build_adaptive_avg_pool2d_backward(subject *s) {
  const image i = pick_image(s, 1), o = pick_divided(s, i);
  const ull__value_id dy = image_argument(s, ARGUMENT_FIXED, "dy", NULL, &o);
  const ull__value_id dx =
      subject_node(s, "adaptive_avg_pool2d_backward", INPUTS(dy),
                   SETTINGS(ULL__INT("output_h", o.h), ULL__INT("output_w", o.w),
                            ULL__INT("input_h", i.h), ULL__INT("input_w", i.w)),
                   NULL);
  subject_compare(s, dx, NEAR_ELEMENT, 1e-6);
}

/* ---- batch normalisation ---- */

/* [N, C, H, W], or every fourth time [N, C], with at least two elements a channel. */
static ull__value_id batch_input(subject *s, argument_kind kind, const char *name, const image *i) {
  if (s->case_index % 4 != 1) return image_argument(s, kind, name, NULL, i);
  return subject_argument(s, kind, name, NULL, DIMS(i->n, i->c));
}

static image pick_batch(subject *s) {
  image i = pick_image(s, 2);
  if (s->case_index % 4 == 1) i.n += 2;
  return i;
}

static void statistics(subject *s, ull__value_id x, ull__value_id *outputs) {
  const double eps = s->case_index % 2 ? 1e-5 : 1e-3;
  subject_node(s, "batch_norm_statistics", INPUTS(x), SETTINGS(ULL__REAL("eps", eps)), outputs);
}

static void build_statistics(subject *s) {
  const image i = pick_batch(s);
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  statistics(s, batch_input(s, ARGUMENT_DATA, "x", &i), outputs);
  for (uint32_t o = 0; o < 3; o++) subject_compare(s, outputs[o], NEAR_NORM, 3e-6);
}

static void build_normalize(subject *s) {
  const image i = pick_batch(s);
  const ull__value_id x = batch_input(s, ARGUMENT_DATA, "x", &i);
  const ull__value_id weight =
      subject_argument(s, ARGUMENT_WEIGHT, "weight", fill_positive, DIMS(i.c));
  const ull__value_id bias = subject_argument(s, ARGUMENT_WEIGHT, "bias", NULL, DIMS(i.c));
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  statistics(s, x, outputs);
  const ull__value_id y = subject_node(
      s, "batch_norm_normalize", INPUTS(x, outputs[0], outputs[1], weight, bias), NULL, 0, NULL);
  subject_compare(s, y, NEAR_NORM, 1e-5);
}

static void build_batch_backward(subject *s) {
  const image i = pick_batch(s);
  const ull__value_id x = batch_input(s, ARGUMENT_DATA, "x", &i);
  const ull__value_id dy = batch_input(s, ARGUMENT_FIXED, "dy", &i);
  const ull__value_id weight =
      subject_argument(s, ARGUMENT_WEIGHT, "weight", fill_positive, DIMS(i.c));
  const ull__value_id bias = subject_argument(s, ARGUMENT_WEIGHT, "bias", NULL, DIMS(i.c));
  const int64_t relu = s->case_index / 2 % 2;
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  statistics(s, x, outputs);
  const ull__value_id inputs[] = {x, dy, outputs[0], outputs[1], weight, bias};
  ull__value_id gradients[ULL__MAX_OUTPUTS];
  subject_node(s, "batch_norm_backward", inputs, relu ? 6 : 5, SETTINGS(ULL__INT("relu", relu)),
               gradients);
  for (uint32_t o = 0; o < 3; o++) subject_compare(s, gradients[o], NEAR_NORM, 1e-5);
}

static void build_update(subject *s) {
  const int64_t c = subject_channels(s);
  const ull__value_id running_mean = subject_argument(s, ARGUMENT_FIXED, "rm", NULL, DIMS(c));
  const ull__value_id running_var =
      subject_argument(s, ARGUMENT_FIXED, "rv", fill_positive, DIMS(c));
  const ull__value_id mean = subject_argument(s, ARGUMENT_FIXED, "mean", NULL, DIMS(c));
  const ull__value_id var = subject_argument(s, ARGUMENT_FIXED, "var", fill_positive, DIMS(c));
  ull__value_id outputs[ULL__MAX_OUTPUTS];
  subject_node(s, "batch_norm_update", INPUTS(running_mean, running_var, mean, var),
               SETTINGS(ULL__REAL("momentum", subject_uniform(s, 0, 1))), outputs);
  for (uint32_t o = 0; o < 2; o++) subject_compare(s, outputs[o], NEAR_ELEMENT, 2e-5);
}

static void build_invstd(subject *s) {
  const int64_t c = subject_channels(s);
  const ull__value_id var = subject_argument(s, ARGUMENT_FIXED, "var", fill_positive, DIMS(c));
  subject_compare(s, subject_node(s, "batch_norm_invstd", &var, 1, NULL, 0, NULL), NEAR_ELEMENT,
                  1e-6);
}

const operator_case operator_cases_image[] = {
    {"conv2d", build_conv2d, true},
    {"conv2d_backward_input", build_conv2d_backward_input, false},
    {"conv2d_backward_weight", build_conv2d_backward_weight, false},
    {"max_pool2d", build_max_pool2d, true},
    {"max_pool2d_backward", build_max_pool2d_backward, false},
    {"avg_pool2d", build_avg_pool2d, true},
    {"avg_pool2d_backward", build_avg_pool2d_backward, false},
    {"global_avg_pool", build_global_avg_pool, true},
    {"global_avg_pool_backward", build_global_avg_pool_backward, false},
    {"adaptive_avg_pool2d", build_adaptive_avg_pool2d, true},
    {"adaptive_avg_pool2d_backward", build_adaptive_avg_pool2d_backward, false},
    {"batch_norm_statistics", build_statistics, false},
    {"batch_norm_normalize", build_normalize, true},
    {"batch_norm_update", build_update, false},
    {"batch_norm_invstd", build_invstd, false},
    {"batch_norm_backward", build_batch_backward, false},
    {NULL, NULL, false},
};
