/* Figures come in as they were measured and are rounded here, once. */
#include "kernels/allowance.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define PAGE_BYTES 4096u

/* Whole pages and one more: the heap hands out blocks that are somewhat larger than asked for, and
 * not always by the same. */
static uint64_t allow(uint64_t bytes) {
  return bytes == 0 ? 0 : (bytes + 2 * PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

ull_status ull__allowances_put(ull__allowances *allowances, const char *name,
                               const ull__library_use *took) {
  const uint64_t *known = ull__text_map_find(&allowances->index, name);
  uint32_t at = known ? (uint32_t)*known : allowances->count;
  if (!known) {
    ull__library_use *grown = ull__realloc(allowances->uses, at + 1, sizeof *grown);
    if (!grown) return ULL_ERROR_OUT_OF_MEMORY;
    allowances->uses = grown;
    ULL__TRY(ull__text_map_put(&allowances->index, name, at));
    allowances->count++;
  }
  allowances->uses[at] = (ull__library_use){allow(took->prepared_bytes), allow(took->again_bytes),
                                            allow(took->launch_bytes), took->launch_calls};
  return ULL_OK;
}

void ull__allowances_free(ull__allowances *allowances) {
  ull__text_map_free(&allowances->index);
  ull__free(allowances->uses);
  *allowances = (ull__allowances){0};
}

ull__library_use ull__allowances_find(const ull__allowances *allowances, const char *fingerprint,
                                      const char *name, bool *measured) {
  const uint64_t *at = NULL;
  if (strcmp(allowances->fingerprint, fingerprint) == 0)
    at = ull__text_map_find(&allowances->index, name);
  *measured = at != NULL;
  if (at) return allowances->uses[*at];
  return (ull__library_use){allowances->kernel_bytes, allowances->kernel_bytes,
                            allowances->launch_bytes, 0};
}

static ull_status check(const ull__library_kernel *kernel, const char *when, uint64_t took,
                        uint64_t allowed) {
  if (took <= allowed) return ULL_OK;
  ULL__FAIL(ULL_ERROR_OUT_OF_MEMORY,
            "%.160s took %llu bytes of the heap %s; its machine file allows %llu", kernel->name,
            (unsigned long long)took, when, (unsigned long long)allowed);
  ull__error_holder("%.160s", kernel->name);
  ull__error_bytes(took, allowed);
  return ull__error_change("measure again: ullage probe MODEL --json > FILE, or plan without "
                           "--machine");
}

ull_status ull__library_kernel_check(const ull__library_kernel *kernel) {
  const ull__library_use *allowed = &kernel->allowed, *took = &kernel->took;
  if (!kernel->measured) return ULL_OK;
  ULL__TRY(check(kernel, "when it was prepared", took->prepared_bytes, allowed->prepared_bytes));
  return check(kernel, "in a launch", took->launch_bytes, allowed->launch_bytes);
}
