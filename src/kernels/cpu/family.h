/* How families of CPU kernels plug into the cpu provider.
 *
 * A family is a file that exports one table of rules {operator, choose function}, ended by an empty
 * row, and has one line in families.h. A choose function answers a lowering query: the layouts it
 * wants, and the kernel. Where several rules know an operator, all are asked and the answer with
 * the least predicted seconds, reorders included, is taken (the first among equals); a rule
 * declines by returning ULL_OK with choice->kernel.entry == NULL.
 *
 *     static ull_status choose_softmax(ull__cpu *cpu, const ull__lowering_query *query,
 *                                      ull__lowering_choice *choice) {
 *       ull__cpu_choose_plain(query, choice);
 *       softmax_constants *constants = ull__cpu_constants(cpu, sizeof *constants);
 *       if (constants == NULL) return ULL_ERROR_OUT_OF_MEMORY;
 *       ... sizes from ull__cpu_shape(query->graph, query->node->inputs[0]) ...
 *       return ull__cpu_finish(cpu, query, choice, "softmax", entries[cpu->isa], constants,
 *                              ULL__CPU_LOOP_EFFICIENCY);
 *     }
 *     const ull__cpu_rule ull__cpu_rules_softmax[] = {{"softmax", choose_softmax}, {NULL, NULL}};
 *
 * A choice arrives zeroed. Choices must be a function of the query, the instruction set and the
 * thread count alone: they decide bits. */
#ifndef ULL_KERNELS_CPU_FAMILY_H
#define ULL_KERNELS_CPU_FAMILY_H

#include "base/isa.h"
#include "kernels/layout.h"

typedef struct ull__cpu_memory ull__cpu_memory; /* provider.c: constants and layouts */
typedef struct ull__onednn ull__onednn;         /* onednn.h; NULL until first used */

typedef struct ull__cpu {
  ull__provider provider; /* first: a ull__provider * is a ull__cpu * */
  uint32_t threads;       /* the compute team's size at which launches run */
  ull__isa isa;
  ull__rates rates;
  const ull__allowances *allowances; /* borrowed; NULL = nothing */
  bool watches;                      /* counts what libraries take behind our back */
  ull__cpu_memory *memory;
  ull__onednn *onednn;
} ull__cpu;

typedef ull_status (*ull__cpu_choose)(ull__cpu *cpu, const ull__lowering_query *query,
                                      ull__lowering_choice *choice);

typedef struct ull__cpu_rule {
  const char *op;
  ull__cpu_choose choose;
} ull__cpu_rule;

/* ---- memory that lives as long as the provider ---- */

/* Zeroed, aligned to 64 bytes; NULL with a record when memory is out. */
void *ull__cpu_constants(ull__cpu *cpu, size_t bytes);

/* ---- layouts, interned: equal ones are the same pointer; NULL with a record when memory is out.
 * Plain is &ull__layout_plain. ---- */

const ull__layout *ull__cpu_layout_blocked(ull__cpu *cpu, uint32_t block);
const ull__layout *ull__cpu_layout_channels_last(ull__cpu *cpu);

/* One bit for each element of a value, in that value's memory order, padding included: saved
 * masks. OPAQUE, named "bits:BASE"; `descriptor` is the base layout. */
const ull__layout *ull__cpu_layout_bits(ull__cpu *cpu, const ull__layout *base, ull_dtype dtype,
                                        const ull__shape *shape);
/* The base of a layout of bits. Any other layout is its own base. */
const ull__layout *ull__cpu_layout_bits_base(const ull__layout *layout);

/* A vendor's layout, with a descriptor that lives as long as the provider. Names must differ where
 * layouts do. */
const ull__layout *ull__cpu_layout_opaque(ull__cpu *cpu, const char *name, const void *descriptor,
                                          uint64_t bytes);

/* ---- helpers for choose functions ---- */

const ull__shape *ull__cpu_shape(const ull__graph *graph, ull__value_id value);
ull_dtype ull__cpu_dtype(const ull__graph *graph, ull__value_id value);

/* All operands plain; every overwrite of the row allowed. */
void ull__cpu_choose_plain(const ull__lowering_query *query, ull__lowering_choice *choice);

/* The rule of element-wise nodes: the first operand of the output's shape decides; operands of that
 * shape and all outputs of that shape take its layout, the rest are plain. Where that layout is
 * padded, everything is plain unless the row keeps zeros or `writes_zero_padding` says that the
 * kernel itself leaves zeros in padding. Every overwrite of the row allowed. */
void ull__cpu_choose_elementwise(const ull__lowering_query *query, bool writes_zero_padding,
                                 ull__lowering_choice *choice);

/* All operands with the shape of input `index` in the layout which that input has now, the rest
 * plain: optimizer steps, which run over a parameter's stored layout, padding and all. */
void ull__cpu_choose_like_input(const ull__lowering_query *query, uint32_t index,
                                ull__lowering_choice *choice);

/* Fraction of the roofline that a kind of kernel reaches. */
#define ULL__CPU_LOOP_EFFICIENCY 0.8 /* streaming loops */

/* Fills choice->kernel: implementation "cpu:NAME:ISA", seconds from the operator's cost and the
 * bytes of the chosen layouts, numeric class. Set workspace_bytes yourself before or after.
 * `entry`'s launch gets operands as ull__kernel says. */
ull_status ull__cpu_finish(ull__cpu *cpu, const ull__lowering_query *query,
                           ull__lowering_choice *choice, const char *name, ull__entry entry,
                           const void *constants, double efficiency);

/* max(flops / rate, bytes / bandwidth) / efficiency + the launch. */
double ull__cpu_seconds(const ull__cpu *cpu, double flops, double bytes, double efficiency);

/* Time of the reorders that a choice asks for: inputs that do not lie as it wants. */
double ull__cpu_reorder_seconds(const ull__cpu *cpu, const ull__lowering_query *query,
                                const ull__lowering_choice *choice);

/* Hash of a kernel's name, its layouts and the thread count: what decides its bits. */
uint32_t ull__cpu_numeric_class(const ull__cpu *cpu, const ull__lowering_query *query,
                                const ull__lowering_choice *choice, const char *implementation);

/* Declares the three entries of one kernel. */
#define ULL__ISA_DECLARE(name)                           \
  ull_status name##_portable(const ull__launch_frame *); \
  ull_status name##_avx2(const ull__launch_frame *);     \
  ull_status name##_avx512(const ull__launch_frame *);

#endif
