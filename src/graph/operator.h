/* The operator row: everything Ullage knows about an operator apart from how to run it.
 *
 * Rows live in src/graph/ops/, one file for each family; adding an operator is adding a row there
 * and kernels under src/kernels. The tables make docs/operators.md and the operator tests. */
#ifndef ULL_GRAPH_OPERATOR_H
#define ULL_GRAPH_OPERATOR_H

#include "graph/shape.h"

struct ull__node;
struct ull__graph;
typedef struct ull__operator ull__operator;

#define ULL__MAX_ATTRIBUTES 12
#define ULL__MAX_INPUTS 16
#define ULL__MAX_OUTPUTS 4

typedef union ull__attribute {
  int64_t i;
  double f;
} ull__attribute;

typedef struct ull__attribute_spec {
  const char *name;
  bool is_real; /* .f, else .i */
  ull__attribute standard;
} ull__attribute_spec;

/* How an operator treats the samples of a batch: what decides whether a batch may be split. */
typedef enum ull__batch_rule {
  ULL__BATCH_PER_SAMPLE, /* each sample of the output depends on that sample of the inputs alone */
  ULL__BATCH_FREE,       /* does not see the batch: parameters, scalars */
  ULL__BATCH_SUM,        /* sums over the batch: gradients of parameters */
  ULL__BATCH_MEAN,       /* averages over the batch: losses */
  ULL__BATCH_MIXED,      /* anything else: batch statistics. Never split. */
} ull__batch_rule;

enum {
  ULL__OP_ELEMENTWISE =
      1u << 0,            /* output i depends on input i alone, broadcasting aside; may be fused */
  ULL__OP_ONCE = 1u << 1, /* changes state: runs once a step, is never recomputed */
  ULL__OP_RANDOM = 1u << 2,     /* reads the counter-based RNG by the node's identity */
  ULL__OP_KEEPS_ZERO = 1u << 3, /* zero in, zero out: runs on padded layouts as it is */
  ULL__OP_VIEW = 1u << 4,       /* output 0 is input 0's bytes under another shape: costs nothing */
};

/* Shape and type rule: reads node->inputs through the graph, fills shapes and dtypes of all
 * outputs. */
typedef struct ull__inference {
  const struct ull__graph *graph;
  const struct ull__node *node; /* inputs and attributes are set, outputs not yet */
  ull__shape shapes[ULL__MAX_OUTPUTS];
  ull_dtype dtypes[ULL__MAX_OUTPUTS];
} ull__inference;

/* What a node costs, for rooflines: floating-point operations and bytes moved. Only for bound
 * graphs. */
typedef struct ull__cost {
  double flops;
  double bytes;
} ull__cost;

struct ull__gradients; /* graph/autodiff.h */

struct ull__operator {
  const char *name;
  uint8_t min_inputs, max_inputs, outputs;
  uint32_t flags;
  ull__batch_rule batch_rule;
  const ull__attribute_spec *attributes; /* ends with a NULL name; NULL = none */
  /* overwrites[o]: bit i set = output o may take the storage of input i when that input is dead
   * afterwards. */
  uint16_t overwrites[ULL__MAX_OUTPUTS];
  /* updates[o] = i + 1: output o always takes the storage of input i (parameters, state, optimizer
   * state); 0 = never. */
  uint8_t updates[ULL__MAX_OUTPUTS];
  uint8_t element_code; /* graph/elementwise.h, for ULL__OP_ELEMENTWISE */
  ull_status (*infer)(ull__inference *inference);
  /* Emits backward nodes; NULL = not differentiable (an error only where a gradient is wanted). */
  ull_status (*gradient)(struct ull__gradients *gradients, const struct ull__node *node);
  /* Value rule: computes constant outputs from constant inputs, plain layout. NULL = is never
   * folded. */
  ull_status (*fold)(const struct ull__graph *graph, const struct ull__node *node,
                     const void *const *inputs, void *const *outputs);
  ull__cost (*cost)(const struct ull__graph *graph,
                    const struct ull__node *node); /* NULL: bytes of operands */
};

/* NULL where there is no such row. */
const ull__operator *ull__operator_find(const char *name);

/* All rows, for tests and docs. */
uint32_t ull__operator_count(void);
const ull__operator *ull__operator_at(uint32_t index);

/* Index of an attribute in the row, or -1. */
int ull__operator_attribute(const ull__operator *op, const char *name);

/* Attribute of a node by name; the row must have it (a missing one is an internal error and gives
 * 0). */
int64_t ull__node_int(const struct ull__node *node, const char *name);
double ull__node_real(const struct ull__node *node, const char *name);

#endif
