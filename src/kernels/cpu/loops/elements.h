/* The one definition of every element-wise operator and of exp, tanh and erf, in float32 with a
 * rounding after every operation written here. Everything that computes an element uses these, so
 * that fused and unfused, tail and body, and all instruction sets give the same bits.
 *
 * The polynomials are minimax fits (Lawson's iteration on Chebyshev nodes, 40 digits). */
#ifndef ULL_KERNELS_CPU_LOOPS_ELEMENTS_H
#define ULL_KERNELS_CPU_LOOPS_ELEMENTS_H

#include "kernels/cpu/loops/vector.h"

INLINE vfloat absolute(vfloat x) {
  return (vfloat)((vint)x & 0x7fffffff);
}

INLINE vfloat with_sign_of(vfloat magnitude, vfloat sign) {
  return (vfloat)((vint)magnitude | ((vint)sign & (vint)splat(-0.0f)));
}

/* 2^n for n in [-126, 127]. */
INLINE vfloat power_of_two(vint n) {
  return (vfloat)((n + 127) << 23);
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; |x| <= 200. ln 2 in two parts, the first with few bits. */
INLINE vint reduce_exponent(vfloat x, vfloat *r) {
  vfloat shifted = fused(x, splat(0x1.715476p+0f), splat(0x1.8p23f));
  vfloat n = shifted - 0x1.8p23f;
  *r = fused(n, splat(-0x1.62e4p-1f), x);
  *r = fused(n, splat(-0x1.7f7d1cp-20f), *r);
  return (vint)shifted - (vint)splat(0x1.8p23f);
}

/* exp(r) - 1 for |r| <= ln 2 / 2: r + r^2 P(r). */
INLINE vfloat exponential_minus_one_reduced(vfloat r) {
  vfloat p = splat(0x1.a032f0p-13f);
  p = fused(p, r, splat(0x1.6d73fcp-10f));
  p = fused(p, r, splat(0x1.11118ap-7f));
  p = fused(p, r, splat(0x1.5554b0p-5f));
  p = fused(p, r, splat(0x1.555554p-3f));
  p = fused(p, r, splat(0.5f));
  return fused(r * r, p, r);
}

INLINE vfloat element_exp(vfloat x) {
  vfloat inside = vector_min(vector_max(x, splat(-105.0f)), splat(89.0f));
  vfloat r;
  vint n = reduce_exponent(inside, &r);
  vfloat y = exponential_minus_one_reduced(r) + 1.0f;
  vint half = n >> 1;
  y = y * power_of_two(half) * power_of_two(n - half);
  return choose(x == x, y, x);
}

/* With t = exp(2|x|) - 1: tanh |x| = t / (t + 2). */
INLINE vfloat element_tanh(vfloat x) {
  vfloat inside = vector_min(absolute(x), splat(10.0f));
  vfloat r;
  vint n = reduce_exponent(inside + inside, &r);
  vfloat scale = power_of_two(n);
  vfloat t = fused(exponential_minus_one_reduced(r), scale, scale - 1.0f);
  vfloat y = with_sign_of(t / (t + 2.0f), x);
  return choose(x == x, y, x);
}

/* Near zero x + x P(x^2), beyond it 1 - exp(|x| Q(|x|)). */
INLINE vfloat element_erf(vfloat x) {
  vfloat square = x * x;
  vfloat p = splat(0x1.603aacp-14f);
  p = fused(p, square, splat(-0x1.ab48dap-11f));
  p = fused(p, square, splat(0x1.54e650p-8f));
  p = fused(p, square, splat(-0x1.b811c2p-6f));
  p = fused(p, square, splat(0x1.ce2e30p-4f));
  p = fused(p, square, splat(-0x1.812744p-2f));
  p = fused(p, square, splat(0x1.06eba8p-3f));
  vfloat near = fused(p, x, x);

  vfloat a = vector_min(absolute(x), splat(4.0f));
  vfloat q = splat(-0x1.84f336p-17f);
  q = fused(q, a, splat(0x1.5633b8p-12f));
  q = fused(q, a, splat(-0x1.df4768p-9f));
  q = fused(q, a, splat(0x1.85cc50p-6f));
  q = fused(q, a, splat(-0x1.b3485ep-4f));
  q = fused(q, a, splat(-0x1.452ffap-1f));
  q = fused(q, a, splat(-0x1.20ef6ap+0f));
  vfloat far = with_sign_of(1.0f - element_exp(q * a), x);
  vfloat y = choose(absolute(x) <= 0.921875f, near, far);
  return choose(x == x, y, x);
}

INLINE vfloat element_relu(vfloat x) {
  return (vfloat)((vint)x & ~(vint)(x <= 0.0f));
}

INLINE vfloat element_relu_backward(vfloat dy, vfloat y) {
  return (vfloat)((vint)dy & (vint)(y > 0.0f));
}

INLINE vfloat element_normalize(vfloat x, vfloat mean, vfloat invstd, vfloat weight, vfloat bias) {
  return fused((x - mean) * invstd, weight, bias);
}

INLINE vfloat element_tanh_backward(vfloat dy, vfloat y) {
  return dy * (1.0f - y * y);
}

INLINE vfloat element_sigmoid(vfloat x) {
  return 1.0f / (1.0f + element_exp(-x));
}

INLINE vfloat element_sigmoid_backward(vfloat dy, vfloat y) {
  return dy * (y * (1.0f - y));
}

#define SQRT_2_OVER_PI 0x1.988454p-1f

INLINE vfloat gelu_tanh_inner(vfloat x) {
  vfloat cube = x * x * x;
  return SQRT_2_OVER_PI * (x + 0.044715f * cube);
}

INLINE vfloat element_gelu_tanh(vfloat x) {
  return 0.5f * x * (1.0f + element_tanh(gelu_tanh_inner(x)));
}

INLINE vfloat element_gelu_tanh_backward(vfloat dy, vfloat x) {
  vfloat t = element_tanh(gelu_tanh_inner(x));
  vfloat inner_slope = SQRT_2_OVER_PI * (1.0f + (3.0f * 0.044715f) * (x * x));
  vfloat left = 0.5f * (1.0f + t);
  vfloat right = 0.5f * x * ((1.0f - t * t) * inner_slope);
  return dy * (left + right);
}

INLINE vfloat element_gelu_erf(vfloat x) {
  return 0.5f * x * (1.0f + element_erf(x * 0x1.6a09e6p-1f));
}

INLINE vfloat element_gelu_erf_backward(vfloat dy, vfloat x) {
  vfloat cdf = 0.5f * (1.0f + element_erf(x * 0x1.6a09e6p-1f));
  vfloat pdf = 0x1.988454p-2f * element_exp(-0.5f * x * x);
  return dy * (cdf + x * pdf);
}

#endif
