/* Finding rows and reading attributes. The rows themselves are in ops/. */
#include "graph/operator.h"

#include <string.h>

#include "graph/graph.h"
#include "graph/ops/ops.h"

uint32_t ull__operator_count(void) {
  uint32_t count = 0;
  for (uint32_t f = 0; f < ull__op_family_count; f++) count += *ull__op_families[f].count;
  return count;
}

const ull__operator *ull__operator_at(uint32_t index) {
  for (uint32_t f = 0; f < ull__op_family_count; f++) {
    if (index < *ull__op_families[f].count) return &ull__op_families[f].rows[index];
    index -= *ull__op_families[f].count;
  }
  return NULL;
}

const ull__operator *ull__operator_find(const char *name) {
  for (uint32_t f = 0; f < ull__op_family_count; f++) {
    const ull__op_family *family = &ull__op_families[f];
    for (uint32_t i = 0; i < *family->count; i++) {
      if (strcmp(family->rows[i].name, name) == 0) return &family->rows[i];
    }
  }
  return NULL;
}

int ull__operator_attribute(const ull__operator *op, const char *name) {
  for (int i = 0; op->attributes && op->attributes[i].name; i++) {
    if (strcmp(op->attributes[i].name, name) == 0) return i;
  }
  return -1;
}

static const ull__attribute *find_attribute(const ull__node *node, const char *name) {
  const int index = ull__operator_attribute(node->op, name);
  if (index >= 0) return &node->attributes[index];
  ULL__FAIL(ULL_ERROR_INTERNAL, "%s has no attribute %s", node->op->name, name);
  return NULL;
}

int64_t ull__node_int(const ull__node *node, const char *name) {
  const ull__attribute *attribute = find_attribute(node, name);
  return attribute ? attribute->i : 0;
}

double ull__node_real(const ull__node *node, const char *name) {
  const ull__attribute *attribute = find_attribute(node, name);
  return attribute ? attribute->f : 0;
}
