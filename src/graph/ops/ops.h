/* The families of operator rows, and what their rules are written with. */
#ifndef ULL_GRAPH_OPS_OPS_H
#define ULL_GRAPH_OPS_OPS_H

#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/elementwise.h"
#include "graph/graph_internal.h"

#define ULL__OP_FAMILIES(XX) \
  XX(elementwise)            \
  XX(fused)                  \
  XX(shape)                  \
  XX(linear)                 \
  XX(convolution)            \
  XX(pooling)                \
  XX(normalization)          \
  XX(embedding)              \
  XX(attention)              \
  XX(loss)                   \
  XX(optimizer)

#define XX(family)                                \
  extern const ull__operator ull__ops_##family[]; \
  extern const uint32_t ull__ops_##family##_count;
ULL__OP_FAMILIES(XX)
#undef XX

typedef struct ull__op_family {
  const char *name;
  const ull__operator *rows;
  const uint32_t *count;
} ull__op_family;

extern const ull__op_family ull__op_families[];
extern const uint32_t ull__op_family_count;

/* After a family's table. */
#define ULL__OP_COUNT(family) \
  const uint32_t ull__ops_##family##_count = sizeof ull__ops_##family / sizeof *ull__ops_##family

/* ---- rows ---- */

#define ULL__ATTRIBUTE_INT(name_, standard_)         \
  {                                                  \
    .name = (name_), .standard = {.i = (standard_) } \
  }
#define ULL__ATTRIBUTE_REAL(name_, standard_)                         \
  {                                                                   \
    .name = (name_), .is_real = true, .standard = {.f = (standard_) } \
  }
#define ULL__INPUT(i) ((uint16_t)(1u << (i)))

/* ---- shape rules; `i` is an input, `o` an output ---- */

ull_status ull__infer_invalid(const ull__inference *inference, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* NULL where the optional input is absent. */
const ull__value *ull__infer_input(const ull__inference *inference, uint32_t i);
const ull__shape *ull__infer_shape(const ull__inference *inference, uint32_t i);

ull_status ull__infer_rank(const ull__inference *inference, uint32_t i, uint32_t rank);
ull_status ull__infer_rank_between(const ull__inference *inference, uint32_t i, uint32_t low,
                                   uint32_t high);
ull_status ull__infer_same_shape(const ull__inference *inference, uint32_t i, uint32_t j);
ull_status ull__infer_dtype(const ull__inference *inference, uint32_t i, ull_dtype dtype);

/* Absent inputs pass. A vector [length]. */
ull_status ull__infer_vector(const ull__inference *inference, uint32_t i, ull__dim length);
ull_status ull__infer_unbatched(const ull__inference *inference, uint32_t i);

/* The inputs of the mask (those present) have one floating-point type, which all outputs get. */
ull_status ull__infer_floats(ull__inference *inference, uint32_t mask);

/* Input i is an integer tensor of ids: int64. */
ull_status ull__infer_ids(const ull__inference *inference, uint32_t i);

void ull__infer_like(ull__inference *inference, uint32_t o, uint32_t i);

/* An attribute that must lie in [low, high]. */
ull_status ull__infer_int_between(const ull__inference *inference, const char *name, int64_t low,
                                  int64_t high, int64_t *out);

/* Positions of a window of `kernel` elements, `dilation` apart, over an axis of `size` padded by
 * `pad` on both sides. */
typedef struct ull__window {
  int64_t kernel, stride, pad, dilation;
  bool ceil_mode;
} ull__window;
ull_status ull__infer_window(const ull__inference *inference, ull__dim size,
                             const ull__window *window, ull__dim *out);

/* Shape rules that several rows share. */
ull_status ull__infer_like_first(ull__inference *inference);     /* one float input */
ull_status ull__infer_like_first_two(ull__inference *inference); /* two floats of one shape */

/* The axis of an element-wise channel operand: 1 of four dimensions, else the last. */
uint32_t ull__channel_axis(const ull__shape *shape);

/* The dimensions but those from `rank` on: [N, T] of [N, T, C] at rank 2. */
ull__shape ull__leading_shape(const ull__shape *shape, uint32_t rank);

/* Bytes of relu_mask's bits for a value of this shape; 0 where a sample does not fill whole bytes.
 */
ull_status ull__mask_length(const ull__shape *shape, ull__dim *out);

/* ---- costs ---- */

/* Elements of a bound value; 0 for an absent one. */
double ull__value_elements(const ull__graph *graph, ull__value_id value);
ull__cost ull__cost_flops(const ull__graph *graph, const ull__node *node, double flops);

/* ---- gradient rules ---- */

/* All attributes of a node as settings of another row with the same names. Returns how many;
 * `settings` has room for ULL__MAX_ATTRIBUTES. */
uint32_t ull__node_settings(const ull__node *node, ull__attribute_setting *settings);

/* The same, and behind them input_h and input_w of the node's input 0, [N, C, H, W]. */
uint32_t ull__node_settings_sized(const ull__graph *graph, const ull__node *node,
                                  ull__attribute_setting *settings);

/* Attributes that make `reshape` give this shape. */
ull_status ull__reshape_settings(const ull__shape *shape,
                                 ull__attribute_setting settings[2 + ULL__MAX_RANK]);
enum { ULL__RESHAPE_SETTINGS = 2 + ULL__MAX_RANK };

/* Puts a number in the place of the symbol in a `reshape` node's attributes. */
ull_status ull__reshape_bind(ull__attribute *attributes, int64_t batch);

/* The saved-form value (relu_mask's bits) made for a forward value, or ULL__NONE. */
ull__value_id ull__gradients_mask(ull__gradients *gradients, ull__value_id value);

#endif
