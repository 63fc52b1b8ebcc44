/* Optimizer steps after PyTorch's SGD, Adam and AdamW, and gradient accumulation. Padding holds
 * zeros everywhere and stays zero: its gradient and its state are zero. Outputs take the storage of
 * the inputs they update; every element is read before it is written. */
#include "kernels/cpu/loops/optimizer.h"

#include "graph/hyper.h"
#include "kernels/cpu/loops/vector.h"

/* One piece of the storage: pieces are shared by the team. */
enum { PIECE = 16384 };

#define PIECES(elements) divide_up(elements, PIECE)

typedef struct piece {
  int64_t begin, end;
} piece;

INLINE piece piece_at(int64_t index, int64_t elements) {
  return (piece){index * PIECE, smaller((index + 1) * PIECE, elements)};
}

/* clip * grad + weight_decay * param */
INLINE vfloat decayed_gradient(const float *grad, vfloat param, vfloat clip, vfloat decay,
                               int64_t left) {
  return clip * load_some(grad, left) + decay * param;
}

ull_status ULL__ISA_NAME(ull__sgd_step)(const ull__launch_frame *launch) {
  const ull__optimizer_step *step = launch->constants;
  const float *param = launch->operands[0], *grad = launch->operands[1];
  const float *hyper = launch->operands[2];
  float *out = launch->operands[3];
  vfloat rate = splat(hyper[ULL__HYPER_LR]), clip = splat(hyper[ULL__HYPER_CLIP]);
  vfloat decay = splat((float)step->weight_decay);
  PARALLEL_FOR(step->elements >= ENOUGH_ELEMENTS)
  for (int64_t index = 0; index < PIECES(step->elements); index++) {
    piece p = piece_at(index, step->elements);
    for (int64_t i = p.begin; i < p.end; i += LANES) {
      vfloat value = load_some(param + i, p.end - i);
      vfloat g = decayed_gradient(grad + i, value, clip, decay, p.end - i);
      store_some(out + i, value - rate * g, p.end - i);
    }
  }
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__sgd_momentum_step)(const ull__launch_frame *launch) {
  const ull__optimizer_step *step = launch->constants;
  const float *param = launch->operands[0], *grad = launch->operands[1];
  const float *momentum = launch->operands[2], *hyper = launch->operands[3];
  float *new_param = launch->operands[4], *new_momentum = launch->operands[5];
  vfloat rate = splat(hyper[ULL__HYPER_LR]), clip = splat(hyper[ULL__HYPER_CLIP]);
  vfloat decay = splat((float)step->weight_decay), factor = splat((float)step->momentum);
  vint first = (vint){0} - (int32_t)(hyper[ULL__HYPER_FIRST_STEP] != 0);
  vint look_ahead = (vint){0} - (int32_t)step->nesterov;
  PARALLEL_FOR(step->elements >= ENOUGH_ELEMENTS)
  for (int64_t index = 0; index < PIECES(step->elements); index++) {
    piece p = piece_at(index, step->elements);
    for (int64_t i = p.begin; i < p.end; i += LANES) {
      vfloat value = load_some(param + i, p.end - i);
      vfloat g = decayed_gradient(grad + i, value, clip, decay, p.end - i);
      vfloat buffer = choose(first, g, factor * load_some(momentum + i, p.end - i) + g);
      vfloat direction = choose(look_ahead, g + factor * buffer, buffer);
      store_some(new_momentum + i, buffer, p.end - i);
      store_some(new_param + i, value - rate * direction, p.end - i);
    }
  }
  return ULL_OK;
}

INLINE vfloat square_root(vfloat x) {
#if defined(__AVX512F__)
  return (vfloat)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (vfloat)_mm256_sqrt_ps((__m256)x);
#else
  for (int lane = 0; lane < LANES; lane++) x[lane] = sqrtf(x[lane]);
  return x;
#endif
}

/* Scalars of an Adam step, spread over lanes. */
typedef struct adam_factors {
  vfloat clip, coupled_decay, shrink, beta1, beta2, rest1, rest2, step_size, root_scale, eps;
} adam_factors;

static adam_factors spread_factors(const ull__optimizer_step *step, const float *hyper) {
  double decay = step->weight_decay, rate = (double)hyper[ULL__HYPER_LR];
  return (adam_factors){
      .clip = splat(hyper[ULL__HYPER_CLIP]),
      .coupled_decay = splat(step->decoupled ? 0 : (float)decay),
      .shrink = splat(step->decoupled ? (float)(1.0 - rate * decay) : 1.0f),
      .beta1 = splat((float)step->beta1),
      .beta2 = splat((float)step->beta2),
      .rest1 = splat((float)(1.0 - step->beta1)),
      .rest2 = splat((float)(1.0 - step->beta2)),
      .step_size = splat((float)(rate * (double)hyper[ULL__HYPER_BIAS1])),
      .root_scale = splat(hyper[ULL__HYPER_BIAS2]),
      .eps = splat((float)step->eps),
  };
}

ull_status ULL__ISA_NAME(ull__adam_step)(const ull__launch_frame *launch) {
  const ull__optimizer_step *step = launch->constants;
  const float *param = launch->operands[0], *grad = launch->operands[1];
  const float *mean = launch->operands[2], *square = launch->operands[3];
  float *new_param = launch->operands[5], *new_mean = launch->operands[6];
  float *new_square = launch->operands[7];
  adam_factors f = spread_factors(step, launch->operands[4]);
  PARALLEL_FOR(step->elements >= ENOUGH_ELEMENTS)
  for (int64_t index = 0; index < PIECES(step->elements); index++) {
    piece p = piece_at(index, step->elements);
    for (int64_t i = p.begin; i < p.end; i += LANES) {
      int64_t left = p.end - i;
      vfloat value = load_some(param + i, left);
      vfloat g = decayed_gradient(grad + i, value, f.clip, f.coupled_decay, left);
      vfloat m = f.beta1 * load_some(mean + i, left) + f.rest1 * g;
      vfloat v = f.beta2 * load_some(square + i, left) + f.rest2 * (g * g);
      vfloat denominator = square_root(v) * f.root_scale + f.eps;
      store_some(new_mean + i, m, left);
      store_some(new_square + i, v, left);
      store_some(new_param + i, value * f.shrink - f.step_size * (m / denominator), left);
    }
  }
  return ULL_OK;
}

ull_status ULL__ISA_NAME(ull__accumulate)(const ull__launch_frame *launch) {
  const ull__optimizer_step *step = launch->constants;
  const float *total = launch->operands[0], *grad = launch->operands[1];
  float *out = launch->operands[2];
  PARALLEL_FOR(step->elements >= ENOUGH_ELEMENTS)
  for (int64_t index = 0; index < PIECES(step->elements); index++) {
    piece p = piece_at(index, step->elements);
    for (int64_t i = p.begin; i < p.end; i += LANES) {
      int64_t left = p.end - i;
      store_some(out + i, load_some(total + i, left) + load_some(grad + i, left), left);
    }
  }
  return ULL_OK;
}
