/* Lowering: which kernel runs each node, on which layouts, with how much workspace, at what cost.
 *
 *     bound graph ── ull__lower(provider) ──▶ lowered graph: layouts, reorders, kernels
 *
 * A provider answers for one kind of machine: `cpu` (oneDNN and our loops), `reference` (plain
 * loops, float32 and float64), `text` (machines nobody here owns: plain layouts, no kernels,
 * roofline costs). Implementations are chosen here, once, before any search: what the planner does
 * afterwards cannot change bits. */
#ifndef ULL_KERNELS_LOWERING_H
#define ULL_KERNELS_LOWERING_H

#include "device/device.h"
#include "graph/graph.h"
#include "kernels/allowance.h"

/* How a value lies in memory. Interned by a provider: equal layouts are the same pointer. */
typedef enum ull__layout_kind {
  ULL__LAYOUT_PLAIN,         /* row-major */
  ULL__LAYOUT_CHANNELS_LAST, /* N H W C */
  ULL__LAYOUT_BLOCKED,       /* N C/b H W b, channels padded with zeros to a multiple of b */
  ULL__LAYOUT_OPAQUE,        /* a vendor's descriptor, e.g. blocked weights */
} ull__layout_kind;

typedef struct ull__layout {
  ull__layout_kind kind;
  uint32_t block;         /* b of BLOCKED */
  char name[64];          /* "nChw16c", "plain", the vendor's tag */
  const void *descriptor; /* the vendor's, owned by the provider; NULL for others */
  uint64_t opaque_bytes;  /* OPAQUE: size in bytes */
} ull__layout;

extern const ull__layout ull__layout_plain;

/* Bytes of a value of this shape (bound) in a layout; checked. */
ull_status ull__layout_bytes(const ull__layout *layout, ull_dtype dtype, const ull__shape *shape,
                             uint64_t *out);

/* What runs one node. `constants` belong to the provider. Operand order of a launch: inputs (absent
 * ones have 0 bytes), outputs, then the workspace when workspace_bytes > 0. */
typedef struct ull__kernel {
  ull__entry entry; /* NULL for a text machine */
  const void *constants;
  ull_status (*prepare)(const void *constants); /* creates primitives; once, before step 1, on the
                                                   compute thread; NULL = nothing */
  uint64_t workspace_bytes;           /* planned, handed over at launch, undefined at entry */
  const ull__library_kernel *library; /* what a library takes behind our back for it, and may; NULL
                                         for kernels of our own. The provider's */
  double seconds;                     /* predicted */
  char implementation[64];            /* "onednn:jit:avx512_core", "cpu:elementwise:avx512" */
  uint32_t numeric_class;             /* hash of whatever changes bits */
} ull__kernel;

/* A question: this node, its inputs lying like this. */
typedef struct ull__lowering_query {
  const ull__graph *graph; /* bound */
  const ull__node *node;
  const ull__layout *const *input_layouts; /* as they are now; index = input */
  const ull__layout *const
      *wanted_output_layouts; /* stored layout of the parameter a gradient belongs to; else NULL */
} ull__lowering_query;

/* The answer: the layouts the kernel wants its inputs in (a reorder is inserted where they differ)
 * and gives its outputs in. `may_overwrite` masks operator->overwrites where the implementation
 * cannot. */
typedef struct ull__lowering_choice {
  const ull__layout *input_layouts[ULL__MAX_INPUTS];
  const ull__layout *output_layouts[ULL__MAX_OUTPUTS];
  /* A parameter input that is not yet tied to a layout may be stored in input_layouts[i] for good:
   * bit i. */
  uint32_t stores_inputs;
  uint16_t may_overwrite[ULL__MAX_OUTPUTS];
  ull__kernel kernel;
} ull__lowering_choice;

typedef struct ull__provider ull__provider;
struct ull__provider {
  const char *name;
  ull_status (*choose)(ull__provider *provider, const ull__lowering_query *query,
                       ull__lowering_choice *choice);
  /* Converts one value between two layouts. */
  ull_status (*reorder)(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                        const ull__layout *from, const ull__layout *to, ull__kernel *kernel);
  void (*destroy)(ull__provider *provider);
  const char
      *fingerprint; /* library, version, instruction set, threads: what decides bits and bytes */
};

/* Machine rates that kernels' predicted seconds are made of. */
typedef struct ull__rates {
  double flops_per_second; /* matrix products, whole team */
  double bytes_per_second; /* streaming copy, read + write counted */
  double launch_seconds;   /* fixed cost of a launch */
} ull__rates;

/* `threads` = the compute team's size, at which launches will run. */
ull_status ull__cpu_provider_create(uint32_t threads, const ull__rates *rates, ull__provider **out);
/* What libraries may take: before the first node is lowered; borrowed until the provider is
 * destroyed. Without it nothing is allowed, planned or enforced. */
void ull__cpu_provider_allow(ull__provider *provider, const ull__allowances *allowances);
/* Counts from now on what libraries take in `took`; false where that is not possible. */
bool ull__cpu_provider_watch(ull__provider *provider);
ull_status ull__reference_provider_create(ull__provider **out);
ull_status ull__text_provider_create(const ull__rates *rates, ull__provider **out);
void ull__provider_destroy(ull__provider *provider); /* NULL is allowed */

/* Stored layouts of parameters, states and optimizer states by value name: decided by the first
 * program of a family, taken over by the others. */
typedef struct ull__stored_layouts ull__stored_layouts;
ull_status ull__stored_layouts_create(ull__stored_layouts **out);
void ull__stored_layouts_destroy(ull__stored_layouts *layouts);
/* NULL where the name is not there. */
const ull__layout *ull__stored_layouts_find(const ull__stored_layouts *layouts, const char *name);

typedef struct ull__lowered_value {
  const ull__layout *layout;
  uint64_t bytes; /* in that layout */
} ull__lowered_value;

typedef struct ull__lowered_node {
  ull__kernel kernel;
  uint16_t may_overwrite[ULL__MAX_OUTPUTS]; /* bit i: output may take input i's storage, bytes and
                                               layouts being equal */
} ull__lowered_node;

/* The lowered graph: `graph` holds the same nodes and the reorders (op `reorder`, one input, one
 * output, recomputable), with lists indexed by value and node id beside it. */
typedef struct ull__lowered {
  ull__graph *graph;
  ull__lowered_value *values;
  ull__lowered_node *nodes;
  const char *fingerprint; /* borrowed from the provider */
} ull__lowered;

/* `stored` is read and, where a name is not in it yet, extended. */
ull_status ull__lower(const ull__graph *bound, ull__provider *provider, ull__stored_layouts *stored,
                      ull__lowered **out);
void ull__lowered_destroy(ull__lowered *lowered);

/* What libraries may take behind our back in a process that prepares all kernels of these graphs
 * and launches them one at a time. */
ull_status ull__lowered_library_bytes(const ull__lowered *const *lowered, uint32_t count,
                                      uint64_t *out);

/* For --show lowered; freed with ull__free. */
ull_status ull__lowered_text(const ull__lowered *lowered, char **out);

/* Copies between a value's layout and plain order on the host: weights in files and hashes use the
 * logical view. */
ull_status ull__layout_to_plain(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                                const ull__layout *layout, const void *from, void *to);
ull_status ull__layout_from_plain(ull__provider *provider, ull_dtype dtype, const ull__shape *shape,
                                  const ull__layout *layout, const void *from, void *to);

#endif
