/* The step's scalars, which change without a new plan: input `hyper`, float32 [8]. Filled by the
 * trainer before each step from numbers kept in double. */
#ifndef ULL_GRAPH_HYPER_H
#define ULL_GRAPH_HYPER_H

enum {
  ULL__HYPER_LR,         /* learning rate of this step */
  ULL__HYPER_BIAS1,      /* Adam: 1 / (1 - beta1^t) */
  ULL__HYPER_BIAS2,      /* Adam: 1 / sqrt(1 - beta2^t) */
  ULL__HYPER_FIRST_STEP, /* 1 in step 1, where SGD's momentum buffer starts as the gradient; else 0
                          */
  ULL__HYPER_CLIP,       /* factor on every gradient; 1 without clipping */
  ULL__HYPER_COUNT = 8
};

/* Input `rng`, int64 [4], read by random operators. */
enum { ULL__RNG_SEED, ULL__RNG_STEP, ULL__RNG_FIRST_SAMPLE, ULL__RNG_UNUSED, ULL__RNG_COUNT };

#endif
