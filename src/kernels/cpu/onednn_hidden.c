/* Names for oneDNN's kernels, and what they take behind our back.
 *
 * A name says implementation, shape and layout of every operand, and what else decides the code:
 * equal names are equal primitives, of which the library makes the code once. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kernels/cpu/library_heap.h"
#include "kernels/cpu/onednn_internal.h"

void ull__onednn_add_name(const ull__onednn_md *md, char *text, size_t size) {
  int64_t dims[DNNL_MAX_NDIMS];
  uint32_t rank = ull__onednn_md_dims(md, dims);
  size_t used = strlen(text);
  for (uint32_t i = 0; i < rank && used + 1 < size; i++) {
    int length = snprintf(text + used, size - used, "%c%lld", i ? 'x' : ' ', (long long)dims[i]);
    used += (size_t)length;
  }
  if (used + 1 >= size) return;
  text[used++] = ':';
  text[used] = 0;
  ull__onednn_md_name(md, text + used, size - used);
}

static ull_status add(ull__cpu *cpu, ull__library_kernels *kernels, const char *name,
                      ull__library_kernel **out) {
  static const ull__allowances nothing;
  const ull__allowances *allowances = cpu->allowances ? cpu->allowances : &nothing;
  ULL__TRY(ull__vector_reserve(&kernels->items, 1));
  ull__library_kernel *kernel = ull__alloc(1, sizeof *kernel);
  char *copy = kernel ? ull__strdup(name) : NULL;
  if (!copy) {
    ull__free(kernel);
    return ULL_ERROR_OUT_OF_MEMORY;
  }
  kernel->name = copy;
  kernel->allowed =
      ull__allowances_find(allowances, cpu->provider.fingerprint, name, &kernel->measured);
  kernels->items.items[kernels->items.count++] = kernel;
  *out = kernel;
  return ull__text_map_put(&kernels->index, name, kernels->items.count - 1);
}

ull_status ull__library_kernel_intern(ull__cpu *cpu, ull__library_kernels *kernels,
                                      const char *name, ull__library_kernel **out) {
  const uint64_t *at = ull__text_map_find(&kernels->index, name);
  if (!at) return add(cpu, kernels, name, out);
  *out = kernels->items.items[*at];
  return ULL_OK;
}

void ull__library_kernels_free(ull__library_kernels *kernels) {
  for (size_t i = 0; i < kernels->items.count; i++) {
    ull__free((char *)(uintptr_t)kernels->items.items[i]->name);
    ull__free(kernels->items.items[i]);
  }
  ull__vector_free(&kernels->items);
  ull__text_map_free(&kernels->index);
}

ull_status ull__library_kernel_prepared(ull__library_kernel *kernel) {
  ull__library_heap heap = ull__library_heap_end();
  ull__library_use *took = &kernel->took;
  uint64_t *kept = kernel->prepared++ == 0 ? &took->prepared_bytes : &took->again_bytes;
  if (heap.kept_bytes > *kept) *kept = heap.kept_bytes;
  return ull__library_kernel_check(kernel);
}

ull_status ull__library_kernel_launched(ull__library_kernel *kernel) {
  ull__library_heap heap = ull__library_heap_end();
  ull__library_use *took = &kernel->took;
  kernel->launched++;
  kernel->calls += heap.calls;
  took->launch_calls = heap.calls;
  if (heap.most_bytes > took->launch_bytes) took->launch_bytes = heap.most_bytes;
  return ull__library_kernel_check(kernel);
}
