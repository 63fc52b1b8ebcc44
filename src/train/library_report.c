/* How often libraries' kernels ran and asked the heap, by implementation, where that was watched.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash_map.h"
#include "base/json.h"
#include "train/trainer.h"

static ull_status add(json_t *row, const char *key, uint64_t number) {
  json_int_t before = json_integer_value(json_object_get(row, key));
  return ull__json_put(row, key, json_integer(before + (json_int_t)number));
}

/* An implementation is the first word of a kernel's name. */
static ull_status add_kernel(json_t *map, const ull__library_kernel *kernel) {
  char implementation[64];
  snprintf(implementation, sizeof implementation, "%.*s", (int)strcspn(kernel->name, " "),
           kernel->name);
  json_t *row = json_object_get(map, implementation);
  if (!row) {
    row = json_object();
    ULL__TRY(ull__json_put(map, implementation, row));
  }
  ULL__TRY(add(row, "launches", kernel->launched));
  return add(row, "calls", kernel->calls);
}

static ull_status add_graph(json_t *map, const ull__lowered *lowered, ull__text_map *seen) {
  for (uint32_t n = 0; n < ull__graph_node_count(lowered->graph); n++) {
    const ull__library_kernel *kernel = lowered->nodes[n].kernel.library;
    if (!kernel || kernel->launched == 0 || ull__text_map_find(seen, kernel->name)) continue;
    ULL__TRY(ull__text_map_put(seen, kernel->name, 0));
    ULL__TRY(add_kernel(map, kernel));
  }
  return ULL_OK;
}

ull_status ull__report_libraries(const ull__family *family, json_t *object) {
  json_t *map = json_object();
  ull__text_map seen = {0};
  ULL__TRY(ull__json_put(object, "library_calls", map));
  ull_status status = ULL_OK;
  for (uint32_t p = 0; family && p < family->program_count && status == ULL_OK; p++)
    status = add_graph(map, family->programs[p].lowered, &seen);
  ull__text_map_free(&seen);
  return status;
}
