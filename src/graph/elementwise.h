/* Codes of element-wise operators: the alphabet of fused chains.
 *
 * One scalar definition each, in float32 arithmetic with a rounding after every operation written
 * here (no contraction unless fma() is written), so that fused and unfused give the same bits. `c`
 * marks an operand that has one number for each channel: dimension 1 of values with four
 * dimensions, the last dimension otherwise. */
#ifndef ULL_GRAPH_ELEMENTWISE_H
#define ULL_GRAPH_ELEMENTWISE_H

typedef enum ull__element_code {
  ULL__ELEMENT_NONE,
  ULL__ELEMENT_COPY,               /* x */
  ULL__ELEMENT_ADD,                /* a + b */
  ULL__ELEMENT_MUL,                /* a * b */
  ULL__ELEMENT_SCALE,              /* x * immediate */
  ULL__ELEMENT_BIAS,               /* x + c */
  ULL__ELEMENT_NORMALIZE,          /* fma((x - mean_c) * invstd_c, weight_c, bias_c) */
  ULL__ELEMENT_RELU,               /* x > 0 ? x : 0   (NaN gives NaN: x <= 0 ? 0 : x) */
  ULL__ELEMENT_RELU_BACKWARD,      /* (dy, y): y > 0 ? dy : 0 */
  ULL__ELEMENT_TANH,               /* tanh(x) */
  ULL__ELEMENT_TANH_BACKWARD,      /* (dy, y): dy * (1 - y * y) */
  ULL__ELEMENT_SIGMOID,            /* 1 / (1 + exp(-x)) */
  ULL__ELEMENT_SIGMOID_BACKWARD,   /* (dy, y): dy * (y * (1 - y)) */
  ULL__ELEMENT_GELU_TANH,          /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  ULL__ELEMENT_GELU_TANH_BACKWARD, /* (dy, x) */
  ULL__ELEMENT_GELU_ERF,           /* x/2 (1 + erf(x / sqrt 2)) */
  ULL__ELEMENT_GELU_ERF_BACKWARD,  /* (dy, x) */
  ULL__ELEMENT_DROPOUT, /* (x, rng): keep(identity, sample, element) ? x / (1 - immediate) : 0 */
  ULL__ELEMENT_CODES
} ull__element_code;

/* Operand k of this code has one number a channel. */
static inline int ull__element_operand_is_channel(ull__element_code code, unsigned operand) {
  return (code == ULL__ELEMENT_NORMALIZE && operand >= 1) ||
         (code == ULL__ELEMENT_BIAS && operand == 1);
}

struct ull__node;

/* The code of an element-wise node, its attributes considered (gelu has two); NONE for a fused
 * chain. */
ull__element_code ull__node_element_code(const struct ull__node *node);

#endif
