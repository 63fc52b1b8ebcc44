/* The plan made executable: a family of programs over one persistent region and one arena.
 *
 * A program is a flat list of instructions and the buffers they use. A buffer is a range in one
 * slab, alive from instruction `first` to instruction `last`, both inclusive. Values that share
 * storage in place are one buffer; a recomputed value is a second buffer with the same `value`.
 * Addresses are {slab, offset}, never pointers.
 *
 *     slabs[0] persistent region: parameters, states, optimizer state, and whatever outlives a step
 *     slabs[1] arena: shared by all programs, as large as the largest needs
 *     slabs[2] loader: the ring of batch slots
 *     slabs[3] runtime: an allowance for the process and its libraries; never allocated by us
 *
 * A family is immutable once made, owns everything it points to except the lowered graphs'
 * provider, and may be read from any thread. */
#ifndef ULL_PLAN_PROGRAM_H
#define ULL_PLAN_PROGRAM_H

#include "kernels/lowering.h"
#include "memory/arena.h"
#include "memory/tag.h"

typedef enum ull__action {
  ULL__ACTION_LAUNCH,
  ULL__ACTION_COPY_IN,  /* into the device tier: an input of the step, or a value moved back */
  ULL__ACTION_COPY_OUT, /* out of the device tier */
  ULL__ACTION_DISK_READ,
  ULL__ACTION_DISK_WRITE,
  ULL__ACTION_COLLECTIVE, /* on the network lane */
  ULL__ACTION_MARK,       /* a point in the program for recordings; does nothing */
} ull__action;

typedef enum ull__slab_kind {
  ULL__SLAB_PERSISTENT,
  ULL__SLAB_ARENA,
  ULL__SLAB_LOADER,
  ULL__SLAB_RUNTIME,
  ULL__SLAB_KINDS
} ull__slab_kind;

typedef struct ull__program_slab {
  ull__slab_kind kind;
  ull__tier tier;
  uint64_t bytes; /* committed: a multiple of the page size, 0 when unused */
} ull__program_slab;

typedef struct ull__buffer {
  ull__value_id
      value; /* the first value that lived here; ULL__NONE for workspace, loader and runtime */
  const char *name; /* the value's; "NODE.workspace", "loader", "runtime" */
  ull__tag tag;
  ull__tier tier;
  uint32_t slab; /* index into the family's slabs */
  uint64_t offset_bytes;
  uint64_t size_bytes;
  uint32_t first, last;
  bool persistent;
} ull__buffer;

/* Operand order of a launch: inputs, outputs, workspace. ULL__NONE = absent. A COPY_IN has one
 * output, a COPY_OUT one input. */
typedef struct ull__instruction {
  ull__action action;
  ull__lane lane;
  ull__node_id node;   /* LAUNCH: in the program's lowered graph; else ULL__NONE */
  ull__value_id value; /* COPY_IN, COPY_OUT: what is copied; else ULL__NONE */
  bool recomputed;     /* this node has run before in this step */
  uint32_t input_count;
  uint32_t output_count;
  bool has_workspace;
  const uint32_t *operands; /* buffer indices: input_count + output_count + has_workspace of them */
  const uint64_t *bytes;    /* of each operand: the value's, which may be less than its buffer's */
  uint32_t wait_count;
  const uint32_t *waits; /* earlier instructions, on other lanes, that must have finished */
  double seconds;        /* predicted */
} ull__instruction;

typedef struct ull__program_output {
  const char *name; /* "loss", "correct" */
  uint32_t buffer;
  ull__value_id value;
} ull__program_output;

typedef struct ull__program {
  const char *name; /* "train", "tail", "eval", "update" */
  int64_t batch;    /* samples a run of it takes */
  ull__lowered *lowered;
  uint32_t buffer_count;
  ull__buffer *buffers;
  uint32_t instruction_count;
  ull__instruction *instructions;
  uint32_t output_count;
  ull__program_output *outputs;
  uint64_t arena_bytes;       /* what this program needs of the arena, unrounded */
  uint64_t lower_bound_bytes; /* largest sum of live arena bytes */
  double seconds;             /* predicted for one run */
  uint64_t tag_peaks[ULL__TAG_COUNT][ULL__TIER_COUNT]; /* each tag's largest live sum, persistent
                                                          buffers included */
} ull__program;

/* A value that lives from step to step, in the persistent region. */
typedef struct ull__persistent {
  const char *name;
  ull__role role;
  ull_dtype dtype;
  ull__shape shape;
  const ull__layout *layout;
  uint64_t offset_bytes;
  uint64_t size_bytes;
} ull__persistent;

/* Tag of the bytes of values with that role. */
ull__tag ull__role_tag(ull__role role);

typedef struct ull__family {
  ull__program_slab slabs[ULL__SLAB_KINDS];
  uint32_t program_count;
  ull__program *programs;
  uint32_t persistent_count;
  ull__persistent *persistents;
  const char *fingerprint;
  ull__arena memory; /* names and tables of the family */
} ull__family;

void ull__family_destroy(ull__family *family); /* NULL is allowed */
/* NULL where the family has no program of that name. */
const ull__program *ull__family_find(const ull__family *family, const char *name);

/* Independent checker (plan/check.c): replays a program symbolically. Inputs present and written
 * before they are read, live ranges inside one slab do not overlap, nothing dead is read, waits
 * complete, in-place allowed by the rows, state updated once and not read afterwards, every extent
 * inside its slab, slabs within `budget_bytes` per tier. The record names instruction and value. */
ull_status ull__family_check(const ull__family *family,
                             const uint64_t budget_bytes[ULL__TIER_COUNT]);

/* Writes the file of --save (schema in docs/plan-file.md); atomic. `header` is a JSON object text
 * whose keys are put first; NULL = none. */
ull_status ull__family_save(const ull__family *family, const char *path, const char *header);

#endif
