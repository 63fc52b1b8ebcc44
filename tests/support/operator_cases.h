/* The tables of operator cases, one for each kind of operand. Each ends with an empty row. */
#ifndef ULL_TESTS_SUPPORT_OPERATOR_CASES_H
#define ULL_TESTS_SUPPORT_OPERATOR_CASES_H

#include <stdio.h>

#include "support/operator_subject.h"

#define OPERATOR_CASE_TABLES(XX) \
  XX(elementwise)                \
  XX(matrix)                     \
  XX(image)                      \
  XX(language)                   \
  XX(training)

#define XX(table) extern const operator_case operator_cases_##table[];
OPERATOR_CASE_TABLES(XX)
#undef XX

#endif
