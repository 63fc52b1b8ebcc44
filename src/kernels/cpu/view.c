/* Views: the bytes stay where they are, so they are plain; the entry copies, for when a planner
 * gives the output a place of its own. */
#include <string.h>

#include "base/error.h"
#include "kernels/cpu/families.h"

typedef struct view_constants {
  uint64_t bytes;
} view_constants;

static ull_status run_view(const ull__launch_frame *frame) {
  const view_constants *c = frame->constants;
  if (frame->operands[0] != frame->operands[1]) {
    memmove(frame->operands[1], frame->operands[0], c->bytes);
  }
  return ULL_OK;
}

static ull_status choose_view(ull__cpu *cpu, const ull__lowering_query *query,
                              ull__lowering_choice *choice) {
  const ull__value *output = ull__graph_value(query->graph, query->node->outputs[0]);
  view_constants *c = ull__cpu_constants(cpu, sizeof *c);
  if (c == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ULL__TRY(ull__shape_bytes(&output->shape, output->dtype, &c->bytes));
  ull__cpu_choose_plain(query, choice);
  return ull__cpu_finish(cpu, query, choice, "view", run_view, c, ULL__CPU_LOOP_EFFICIENCY);
}

const ull__cpu_rule ull__cpu_rules_view[] = {{"reshape", choose_view}, {NULL, NULL}};
