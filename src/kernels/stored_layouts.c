/* A few hundred names, sorted, found by bisection. */
#include "kernels/stored_layouts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"

typedef struct entry {
  char *name;
  const ull__layout *layout;
} entry;

struct ull__stored_layouts {
  ULL__VECTOR(entry) entries;
};

ull_status ull__stored_layouts_create(ull__stored_layouts **out) {
  *out = ull__alloc(1, sizeof **out);
  return *out != NULL ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}

void ull__stored_layouts_destroy(ull__stored_layouts *layouts) {
  if (layouts == NULL) return;
  for (size_t i = 0; i < layouts->entries.count; i++) ull__free(layouts->entries.items[i].name);
  ull__vector_free(&layouts->entries);
  ull__free(layouts);
}

/* Index of the first entry whose name is not below `name`. */
static size_t lower_bound(const ull__stored_layouts *layouts, const char *name) {
  size_t low = 0, high = layouts->entries.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(layouts->entries.items[middle].name, name) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

const ull__layout *ull__stored_layouts_find(const ull__stored_layouts *layouts, const char *name) {
  size_t at = lower_bound(layouts, name);
  if (at == layouts->entries.count) return NULL;
  const entry *found = &layouts->entries.items[at];
  return strcmp(found->name, name) == 0 ? found->layout : NULL;
}

ull_status ull__stored_layouts_add(ull__stored_layouts *layouts, const char *name,
                                   const ull__layout *layout) {
  size_t at = lower_bound(layouts, name);
  ULL__TRY(ull__vector_reserve(&layouts->entries, 1));
  char *copy = ull__strdup(name);
  if (copy == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  entry *items = layouts->entries.items;
  memmove(items + at + 1, items + at, (layouts->entries.count - at) * sizeof *items);
  items[at] = (entry){copy, layout};
  layouts->entries.count++;
  return ULL_OK;
}
