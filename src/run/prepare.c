/* Creating primitives, once for each kernel whatever the number of nodes and programs that run it,
 * on the compute thread, where the one OpenMP team is. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/executor_internal.h"

typedef struct prepared {
  const ull__kernel *kernel;
  const char *node;
} prepared;

typedef struct work {
  prepared *items;
  size_t count;
} work;

static int compare(const void *left, const void *right) {
  const ull__kernel *a = ((const prepared *)left)->kernel, *b = ((const prepared *)right)->kernel;
  if (a->constants != b->constants) {
    return (uintptr_t)a->constants < (uintptr_t)b->constants ? -1 : 1;
  }
  uintptr_t a_function = (uintptr_t)a->prepare, b_function = (uintptr_t)b->prepare;
  return (a_function > b_function) - (a_function < b_function);
}

static void collect(const ull__program *program, work *found) {
  for (uint32_t i = 0; i < program->instruction_count; i++) {
    const ull__instruction *instruction = &program->instructions[i];
    if (instruction->action != ULL__ACTION_LAUNCH) continue;
    const ull__kernel *kernel = &program->lowered->nodes[instruction->node].kernel;
    if (kernel->prepare == NULL) continue;
    found->items[found->count++] =
        (prepared){.kernel = kernel, .node = ull__instruction_name(program, i)};
  }
}

static ull_status prepare_all(void *argument) {
  const work *found = argument;
  for (size_t i = 0; i < found->count; i++) {
    if (i > 0 && compare(&found->items[i - 1], &found->items[i]) == 0) continue;
    const ull__kernel *kernel = found->items[i].kernel;
    if (kernel->prepare(kernel->constants) != ULL_OK) {
      return ull__error_context("preparing %s (%s)", found->items[i].node, kernel->implementation);
    }
  }
  return ULL_OK;
}

ull_status ull__executor_prepare(ull__executor *executor) {
  size_t most = 0;
  for (uint32_t p = 0; p < executor->family->program_count; p++) {
    most += executor->family->programs[p].instruction_count;
  }
  work found = {.items = ull__alloc(most, sizeof(prepared))};
  if (found.items == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  for (uint32_t p = 0; p < executor->family->program_count; p++) {
    collect(&executor->family->programs[p], &found);
  }
  qsort(found.items, found.count, sizeof *found.items, compare);
  ull_status status = ull__device_run(executor->device, prepare_all, &found);
  ull__free(found.items);
  return status;
}
