/* Constants of the element-wise launches. */
#ifndef ULL_KERNELS_CPU_LOOPS_ELEMENTWISE_H
#define ULL_KERNELS_CPU_LOOPS_ELEMENTWISE_H

#include <stdint.h>

#include "graph/elementwise.h"
#include "graph/graph.h"

typedef enum ull__chain_operand {
  ULL__CHAIN_FULL,    /* one number an element, in the output's layout */
  ULL__CHAIN_CHANNEL, /* one number a channel, plain */
  ULL__CHAIN_RANDOM,  /* the step's rng input */
} ull__chain_operand;

/* Memory is `groups` spans of `span` elements. The channel of element i of group g is
 * (g % group_cycle) * lanes + i % lanes; lanes beyond `channels` are padding. */
typedef struct ull__chain {
  uint32_t input_count, step_count;
  uint8_t operand_kinds[ULL__MAX_INPUTS];
  ull__element_step steps[ULL__MAX_ELEMENT_STEPS];
  int64_t groups, span, group_cycle, lanes, channels;
  /* For random masks: elements of one sample without and with padding, positions of a channel (0:
   * memory order is plain), channels of a block. */
  int64_t sample_elements, sample_memory, spatial, block;
} ull__chain;

typedef struct ull__flat {
  int64_t elements;
} ull__flat;

typedef struct ull__positions {
  int64_t batch, time, channels, rows;
} ull__positions;

#endif
