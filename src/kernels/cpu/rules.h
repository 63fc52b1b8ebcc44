/* What the rule files of our own loops share. */
#ifndef ULL_KERNELS_CPU_RULES_H
#define ULL_KERNELS_CPU_RULES_H

#include "base/error.h"
#include "kernels/cpu/family.h"
#include "kernels/cpu/loops/channels.h"

/* Declares the entries of one loop and `static const ull__entry NAME_entries[]`. */
#define ULL__LOOP(name)         \
  ULL__ISA_DECLARE(ull__##name) \
  static const ull__entry name##_entries[] = ULL__ISA_TABLE(ull__##name);

/* Our loops compute in float32: false where an operand has another floating-point type. */
bool ull__rules_float32(const ull__lowering_query *query);

/* Size of dimension `i` of a bound shape; -1 is the last. */
int64_t ull__rules_dim(const ull__shape *shape, int i);

/* Product of the dimensions [from, to). */
int64_t ull__rules_product(const ull__shape *shape, uint32_t from, uint32_t to);

/* Input or output shape of the query's node; NULL for an absent input. */
const ull__shape *ull__rules_input(const ull__lowering_query *query, uint32_t i);
const ull__shape *ull__rules_output(const ull__lowering_query *query, uint32_t o);

/* Elements in memory of a value in a layout. */
ull_status ull__rules_elements(const ull__layout *layout, const ull__shape *shape, int64_t *out);

/* Rows of channels of a value [N, C, ...] in a layout with a geometry. */
ull_status ull__rules_channel_rows(const ull__layout *layout, const ull__shape *shape,
                                   ull__channel_rows *out);
/* The same of plain [outer, channels, inner]. */
ull__channel_rows ull__rules_plain_rows(int64_t outer, int64_t channels, int64_t inner);

/* Everything plain, constants of `bytes` bytes and one loop: fills the choice. */
ull_status ull__rules_plain_loop(ull__cpu *cpu, const ull__lowering_query *query,
                                 ull__lowering_choice *choice, const char *name,
                                 const ull__entry *entries, const void *constants, size_t bytes);

/* ull__cpu_finish with a copy of the constants. */
ull_status ull__rules_finish(ull__cpu *cpu, const ull__lowering_query *query,
                             ull__lowering_choice *choice, const char *name,
                             const ull__entry *entries, const void *constants, size_t bytes);

/* Whether the layout is one our loops over channels know. */
static inline bool ull__rules_has_geometry(const ull__layout *layout) {
  return layout->kind != ULL__LAYOUT_OPAQUE;
}

#endif
