/* From decisions to a schedule, exactly: which node runs when, what lives from where to where, what
 * the step costs.
 *
 * Decisions say, for each value of the forward pass, whether it is kept for backward; what is not
 * kept is computed again when backward asks for it, by running the missing ancestors in their old
 * order. What such a replay makes stays for later readers when it is held up to the segment of what
 * was asked for, usually because both are in the same, and goes after the asking node otherwise:
 * one segment over all recomputes everything once at most, a segment for each node keeps least.
 * Values of a fleeting node do not even stay for a second reader inside a replay; a fleeting node
 * of backward takes what replays made for it along. A backward node may have another saved form,
 * such as one bit for each element, made in forward and kept instead of what it reads otherwise.
 * Backward and optimizer may run in any order that their inputs and updates allow. The executor
 * runs this very list, so predicted bytes are measured bytes. */
#ifndef ULL_PLAN_SCHEDULE_H
#define ULL_PLAN_SCHEDULE_H

#include "plan/program.h"

/* What never changes between schedules of one lowered graph. Immutable; borrows the graph. */
typedef struct ull__schedule_model {
  const ull__lowered *lowered;
  uint32_t value_count, node_count;
  ull__value_id *root; /* whose storage a value shares through views and updates */
  bool *resident;      /* by root: lives in the persistent region */
  uint64_t *bytes;     /* by root: aligned bytes in the arena */
  bool *read;          /* by root: some node that may run reads it */
  bool *skipped;       /* by node: views and dormant alternatives never run */
  bool *recomputable;  /* by node */
  bool *droppable; /* by root: made by a recomputable node and read by backward or by a replay */
  ull__node_id *producer; /* by root: the node that makes it; ULL__NONE for sources */
  uint32_t forward_end;   /* nodes before this id are forward */
  /* By primary backward node: the node that computes the same from another saved form, and the
   * forward node that makes that form; ULL__NONE where there is none. */
  ull__node_id *alternative, *encoder;
  /* By root: backward nodes that read it, and those among them that have another form. */
  uint32_t *readers, *form_readers;
} ull__schedule_model;

ull_status ull__schedule_model_create(const ull__lowered *lowered, ull__schedule_model **out);
void ull__schedule_model_destroy(ull__schedule_model *model);

typedef struct ull__decisions {
  bool *keep;        /* by root */
  uint32_t *segment; /* by node */
  uint32_t *hold;    /* by node: its values stay behind replays of segments up to this one */
  bool *fleeting;    /* by node: what a replay makes of it goes after its first reader; in backward:
                      * what replays made for it goes with it */
  bool *other_form;  /* by node: runs its alternative, which reads another saved form */
  ull__node_id *order; /* nodes from forward_end on, in the order in which they run */
} ull__decisions;

/* keep-all in one segment, in the graph's order. */
ull_status ull__decisions_create(const ull__schedule_model *model, ull__decisions *out);
void ull__decisions_reset(const ull__schedule_model *model, ull__decisions *decisions);
ull_status ull__decisions_copy(const ull__schedule_model *model, const ull__decisions *from,
                               ull__decisions *to);
/* The same into decisions that exist. */
void ull__decisions_assign(const ull__schedule_model *model, const ull__decisions *from,
                           ull__decisions *to);
void ull__decisions_free(ull__decisions *decisions);

/* An operand of an execution: an instance, a value of the persistent region, or nothing. */
typedef enum ull__operand_kind {
  ULL__OPERAND_ABSENT,
  ULL__OPERAND_INSTANCE,
  ULL__OPERAND_RESIDENT
} ull__operand_kind;

typedef struct ull__operand {
  ull__operand_kind kind;
  uint32_t index; /* instance, or the root's value id */
  uint64_t bytes; /* of the value, unaligned */
} ull__operand;

typedef struct ull__execution {
  ull__node_id node;    /* ULL__NONE: the copy of an input */
  ull__value_id copied; /* the input; else ULL__NONE */
  bool recomputed;
  uint32_t segment;       /* whose values stay behind the replay that this is part of */
  uint32_t first_operand; /* inputs, outputs, workspace */
  uint32_t input_count, output_count;
  bool has_workspace;
} ull__execution;

typedef struct ull__instance {
  ull__value_id value; /* root; ULL__NONE for workspace */
  ull__node_id node;   /* workspace: whose */
  uint64_t bytes;
  uint32_t first, last; /* executions, inclusive */
  uint32_t buffer;      /* storage after sharing in place */
} ull__instance;

typedef struct ull__stored {
  uint64_t bytes;      /* aligned */
  uint64_t size_bytes; /* of the largest value that lives here */
  uint32_t first, last;
  uint32_t instance; /* the first that lived here */
} ull__stored;

typedef struct ull__schedule {
  ull__execution *executions;
  size_t execution_count, execution_capacity;
  ull__operand *operands;
  size_t operand_count, operand_capacity;
  ull__instance *instances;
  size_t instance_count, instance_capacity;
  ull__stored *buffers;
  size_t buffer_count, buffer_capacity;
  uint64_t *live; /* bytes at each execution */
  size_t live_capacity;
  uint64_t peak_bytes;
  uint32_t peak_execution; /* the first that reaches it */
  uint32_t peak_count;     /* executions that reach it */
  double seconds;
  double recomputed_seconds;
  uint64_t recomputed_bytes;
} ull__schedule;

/* Overwrites `schedule` (zeroed before its first use; its memory is reused). */
ull_status ull__schedule_generate(const ull__schedule_model *model, const ull__decisions *decisions,
                                  ull__schedule *schedule);
void ull__schedule_free(ull__schedule *schedule);

/* The launch that needs most arena bytes by itself, in-place sharing granted: no schedule is
 * smaller. */
uint64_t ull__schedule_largest_launch(const ull__schedule_model *model, ull__node_id *node);

#endif
