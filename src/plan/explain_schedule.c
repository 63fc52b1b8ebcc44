/* --show schedule: one line an instruction, with the bytes of the arena that are live at it. */
#include "base/alloc.h"
#include "base/byte_size.h"
#include "plan/explain_internal.h"

#define BAR_CHARACTERS 20u

static const char *const lane_names[ULL__LANE_COUNT] = {
    [ULL__LANE_COMPUTE] = "compute", [ULL__LANE_HOST_COMPUTE] = "host",
    [ULL__LANE_COPY_IN] = "copy in", [ULL__LANE_COPY_OUT] = "copy out",
    [ULL__LANE_DISK] = "disk",       [ULL__LANE_NETWORK] = "network"};

/* live[i] = bytes of the arena in use while instruction i runs. */
static uint64_t sum_live(const ull__program *program, uint64_t *live) {
  uint64_t largest = 0;
  for (uint32_t b = 0; b < program->buffer_count; b++) {
    const ull__buffer *buffer = &program->buffers[b];
    if (buffer->slab != ULL__SLAB_ARENA) continue;
    live[buffer->first] += buffer->size_bytes;
    live[buffer->last + 1] -= buffer->size_bytes; /* modulo 2^64, undone by the sum */
  }
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    if (i > 0) live[i] += live[i - 1];
    if (live[i] > largest) largest = live[i];
  }
  return largest;
}

static void add_instruction(ull__page *page, const ull__program *program, uint32_t index,
                            uint64_t live, uint64_t largest) {
  const ull__instruction *i = &program->instructions[index];
  const ull__graph *graph = program->lowered->graph;
  char size[ULL__BYTE_SIZE_TEXT];
  ull__page_add(page, "%5u %-8s %s ", index, lane_names[i->lane], i->recomputed ? "↻" : " ");
  ull__page_add_bar(page, live, largest, BAR_CHARACTERS);
  ull__page_add(page, "%10s %9.3f ms  ", ull__byte_size_format(live, size), 1e3 * i->seconds);
  if (i->node != ULL__NONE) {
    const ull__node *node = ull__graph_node(graph, i->node);
    ull__page_add(page, "%s (%s)", node->name, node->op->name);
  } else if (i->value != ULL__NONE) {
    ull__page_add(page, "copy of %s", ull__graph_value(graph, i->value)->name);
  }
  for (uint32_t w = 0; w < i->wait_count; w++)
    ull__page_add(page, "%s%u", w == 0 ? ", waits for " : " ", i->waits[w]);
  ull__page_add(page, "\n");
}

static void add_program(ull__page *page, const ull__program *program) {
  char arena[ULL__BYTE_SIZE_TEXT];
  uint64_t *live = ull__alloc((size_t)program->instruction_count + 1, sizeof *live);
  if (!live) {
    page->status = ULL_ERROR_OUT_OF_MEMORY;
    return;
  }
  uint64_t largest = sum_live(program, live);
  ull__page_add(page, "program %s, batch %lld: %u instructions, %.3f ms, arena %s\n", program->name,
                (long long)program->batch, program->instruction_count, 1e3 * program->seconds,
                ull__byte_size_format(program->arena_bytes, arena));
  for (uint32_t i = 0; i < program->instruction_count; i++)
    add_instruction(page, program, i, live[i], largest);
  ull__page_add(page, "\n");
  ull__free(live);
}

ull_status ull__plan_schedule_text(const ull__plan *plan, char **out) {
  ull__page page = {.status = ULL_OK};
  char size[ULL__BYTE_SIZE_TEXT];
  if (!plan->family)
    ull__page_add(&page, "no schedule fits: %s of %s are missing\n",
                  ull__byte_size_format(plan->shortfall_bytes, size),
                  ull__tier_name(plan->short_tier));
  for (uint32_t p = 0; plan->family && p < plan->family->program_count; p++)
    add_program(&page, &plan->family->programs[p]);
  return ull__page_take(&page, out);
}
