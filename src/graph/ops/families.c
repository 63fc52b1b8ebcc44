/* The list of families. A new family is one file here and one line in ops.h. */
#include "graph/ops/ops.h"

const ull__op_family ull__op_families[] = {
#define XX(family) {#family, ull__ops_##family, &ull__ops_##family##_count},
    ULL__OP_FAMILIES(XX)
#undef XX
};

const uint32_t ull__op_family_count = sizeof ull__op_families / sizeof *ull__op_families;
