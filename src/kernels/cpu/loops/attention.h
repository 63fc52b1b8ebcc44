/* Constants of attention launches and their scratch memory. */
#ifndef ULL_KERNELS_CPU_LOOPS_ATTENTION_H
#define ULL_KERNELS_CPU_LOOPS_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ull__attention {
  int64_t batch, time, heads, size; /* size of a head; rows of qkv are 3 * heads * size */
  bool causal;
  float scale;
  bool has_documents; /* an operand of int64 [batch, time] follows the other inputs */
} ull__attention;

/* Tiles: keys of one softmax step, keys and queries of one backward step. */
enum { ULL__ATTENTION_KEYS = 512, ULL__ATTENTION_BACKWARD_KEYS = 128 };
enum { ULL__ATTENTION_BACKWARD_QUERIES = 192 };

/* Floats of one thread; bounds for all instruction sets, whose panels are at most 8 x 48. */
static inline int64_t ull__attention_run_floats(const ull__attention *a) {
  return a->has_documents ? 2 * (a->time + 48) : 0;
}

static inline int64_t ull__attention_scratch_floats(const ull__attention *a) {
  int64_t keys = a->time + 8, size = a->size + 48;
  int64_t tiles = 48 * (ULL__ATTENTION_KEYS + 2 * size + 8);
  return (2 * keys * size + tiles + ull__attention_run_floats(a) + 15) / 16 * 16;
}

static inline int64_t ull__attention_backward_scratch_floats(const ull__attention *a) {
  int64_t keys = a->time + 8, size = a->size + 48, queries = ULL__ATTENTION_BACKWARD_QUERIES;
  int64_t tiles = queries * (2 * ULL__ATTENTION_BACKWARD_KEYS + 5 * size + 2);
  return (3 * keys * size + tiles + ull__attention_run_floats(a) + 15) / 16 * 16;
}

#endif
