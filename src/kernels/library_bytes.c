/* Allowances of all kernels added up: every prepared one stays, one launch runs at a time. A name
 * that comes again shares the code that was made for the first. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/lowering.h"

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
  return (x > y) - (x < y);
}

static size_t collect(const ull__lowered *const *lowered, uint32_t count,
                      const ull__library_kernel **out) {
  size_t found = 0;
  for (uint32_t l = 0; l < count; l++)
    for (uint32_t n = 0; n < ull__graph_node_count(lowered[l]->graph); n++) {
      const ull__library_kernel *library = lowered[l]->nodes[n].kernel.library;
      if (!library) continue;
      if (out) out[found] = library;
      found++;
    }
  return found;
}

static ull_status add_up(const ull__library_kernel *const *kernels, size_t count, uint64_t *out) {
  uint64_t launch = 0;
  *out = 0;
  for (size_t i = 0; i < count; i++) {
    const ull__library_use *allowed = &kernels[i]->allowed;
    bool first = i == 0 || kernels[i] != kernels[i - 1];
    ULL__TRY(ull__size_add(*out, first ? allowed->prepared_bytes : allowed->again_bytes,
                           "libraries", out));
    if (allowed->launch_bytes > launch) launch = allowed->launch_bytes;
  }
  return ull__size_add(*out, launch, "libraries", out);
}

ull_status ull__lowered_library_bytes(const ull__lowered *const *lowered, uint32_t count,
                                      uint64_t *out) {
  size_t found = collect(lowered, count, NULL);
  const ull__library_kernel **kernels = ull__alloc(found, sizeof *kernels);
  if (!kernels) return ULL_ERROR_OUT_OF_MEMORY;
  collect(lowered, count, kernels);
  qsort(kernels, found, sizeof *kernels, by_address);
  ull_status status = add_up(kernels, found, out);
  ull__free(kernels);
  return status;
}
