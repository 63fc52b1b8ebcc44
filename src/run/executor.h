/* The executor of a family of programs: it walks flat lists of instructions and takes no decision.
 *
 *     family + device ──▶ create: slabs committed, kernels prepared, every launch built
 *                    ──▶ write values, set inputs ──▶ run a program, again and again
 *
 * Nothing is allocated by a run. What a run really used is counted here from the operands that
 * instructions touch, apart from the plan's own figures, so that the two can be compared.
 *
 * With `poison` (or ULLAGE_POISON=1 in the environment), in any build, every range is filled with
 * NaN bytes at its birth and at its death, and the bytes next to every operand that belong to
 * nobody (64 on each side at most) must still be so after each launch. Results keep their bits.
 *
 * Thread safety: one thread at a time. */
#ifndef ULL_RUN_EXECUTOR_H
#define ULL_RUN_EXECUTOR_H

#include "plan/program.h"

typedef struct ull__executor ull__executor;

typedef struct ull__executor_options {
  bool poison;
  bool record_times; /* see ull__executor_times */
} ull__executor_options;

/* Commits the family's slabs on the device, prepares each kernel once, writes constants, and zeroes
 * optimizer states and gradients that live from step to step. Parameters and states are undefined
 * until they are written.
 *
 * `family`, `provider` and `device` are borrowed until destroy; `options` may be NULL.
 * ULL_ERROR_OUT_OF_MEMORY names the slab that could not be had; ULL_ERROR_INTERNAL a program that
 * contradicts itself. */
ull_status ull__executor_create(const ull__family *family, ull__provider *provider,
                                ull__device *device, const ull__executor_options *options,
                                ull__executor **out);
void ull__executor_destroy(ull__executor *executor); /* NULL is allowed */

/* ---- inputs and results; `program` is an index into the family's programs ---- */

/* Index of the input of that name, or -1. */
int ull__executor_find_input(const ull__executor *executor, uint32_t program, const char *name);

/* Where the input's bytes (row-major) are read from in every later run. Borrowed until it is set
 * again. */
void ull__executor_set_input(ull__executor *executor, uint32_t program, uint32_t input,
                             const void *bytes);

/* Runs one program and waits for it. Refused with ULL_ERROR_INVALID where an input was never set;
 * a failure of a kernel names the program, the instruction and its node. */
ull_status ull__executor_run(ull__executor *executor, uint32_t program);

/* Zeroes the gradients that live from step to step (totals of micro-batches): after the program
 * that has used them up. */
ull_status ull__executor_zero_gradients(ull__executor *executor);

/* An output ("loss") of the program that ran last, in row-major order. `bytes` must be the value's.
 */
ull_status ull__executor_read_output(ull__executor *executor, uint32_t program, const char *name,
                                     void *to, uint64_t bytes);

/* Values that live from step to step, by name, in logical row-major order: for weights,
 * checkpoints, hashes. `bytes` must be what the dtype and shape say. ULL_ERROR_INVALID where there
 * is no such value. Not in a step: values in blocked layouts on a device with a memory of its own
 * need host memory for the call. */
ull_status ull__executor_read_value(ull__executor *executor, const char *name, void *plain,
                                    uint64_t bytes);
ull_status ull__executor_write_value(ull__executor *executor, const char *name, const void *plain,
                                     uint64_t bytes);

/* Host address of a slab that the host can touch (the loader's; on a cpu all), and its bytes; NULL
 * for others and for slabs of 0 bytes. The arena may be written between runs: outputs of the last
 * run are lost then. */
void *ull__executor_slab(ull__executor *executor, ull__slab_kind slab, uint64_t *bytes);

/* ---- measuring ---- */

typedef struct ull__measurement {
  /* Committed by the executor, as the device counted it, and the allowance for the process. */
  uint64_t peak_bytes[ULL__TIER_COUNT];
  /* The most bytes of each tag that were alive at once in a run of the program. */
  uint64_t tag_peaks[ULL__TAG_COUNT][ULL__TIER_COUNT];
  /* One past the highest byte that any instruction of any program run so far touched. */
  uint64_t extent_bytes[ULL__SLAB_KINDS];
} ull__measurement;

/* Counts of the runs of one program so far; all 0 in `tag_peaks` where it has not run. */
void ull__executor_measure(const ull__executor *executor, uint32_t program, ull__measurement *out);

/* What each instruction took; copies and launches only. */
typedef struct ull__instruction_times {
  uint64_t runs;
  uint64_t total_ns;
  uint64_t last_begin_ns, last_end_ns; /* in the last run; on the device's clock */
} ull__instruction_times;

/* One entry for each instruction of the program; NULL unless created with `record_times`. Borrowed
 * until destroy; not while a program runs. */
const ull__instruction_times *ull__executor_times(const ull__executor *executor, uint32_t program);

#endif
