/* All tables of cases as one list. */
#include "support/operator_cases.h"

static const operator_case *const tables[] = {
#define XX(table) operator_cases_##table,
    OPERATOR_CASE_TABLES(XX)
#undef XX
};

const operator_case *operator_case_at(uint32_t index) {
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
    for (const operator_case *c = tables[t]; c->op != NULL; c++) {
      if (index-- == 0) return c;
    }
  }
  return NULL;
}

uint32_t operator_case_count(void) {
  uint32_t count = 0;
  while (operator_case_at(count) != NULL) count++;
  return count;
}
