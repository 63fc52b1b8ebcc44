/* What bytes are for: every counted byte carries one tag. */
#ifndef ULL_MEMORY_TAG_H
#define ULL_MEMORY_TAG_H

#include "memory/tier.h"

/* name in C, name in JSON and tables */
#define ULL__TAG_MAP(XX)                                                                 \
  XX(PARAMETER, "parameter")                                                             \
  XX(GRADIENT, "gradient") /* of parameters; gradients of activations are activations */ \
  XX(OPTIMIZER, "optimizer")                                                             \
  XX(ACTIVATION, "activation")                                                           \
  XX(WORKSPACE, "workspace")                                                             \
  XX(STAGING, "staging")                                                                 \
  XX(LOADER, "loader")                                                                   \
  XX(RUNTIME, "runtime") /* the process' own base and what libraries hide */             \
  XX(OTHER, "other")

typedef enum ull__tag {
#define XX(name, text) ULL__TAG_##name,
  ULL__TAG_MAP(XX)
#undef XX
      ULL__TAG_COUNT
} ull__tag;

/* Never NULL. */
const char *ull__tag_name(ull__tag tag);

#endif
