/* Which instruction set this process runs: the processor's, capped by
 * ULLAGE_ISA=portable|avx2|avx512.
 *
 * Sources under loops/ are compiled once per instruction set with ULL__ISA set to its name; they
 * export functions through ULL__ISA_NAME, and choose functions pick one with ULL__ISA_TABLE:
 *
 *     loops/relu.c:   ull_status ULL__ISA_NAME(ull__relu)(const ull__launch_frame *frame) { ... }
 *     activation.c:   ULL__ISA_DECLARE(ull__relu)
 *                     static const ull__entry relu[] = ULL__ISA_TABLE(ull__relu);
 *                     ... entry = relu[cpu->isa] */
#ifndef ULL_BASE_ISA_H
#define ULL_BASE_ISA_H

#include <stdbool.h>

#include "ullage/status.h"

typedef enum ull__isa {
  ULL__ISA_PORTABLE,
  ULL__ISA_AVX2,
  ULL__ISA_AVX512,
  ULL__ISA_COUNT
} ull__isa;

/* ULL_ERROR_USAGE where ULLAGE_ISA is set to something else. */
ull_status ull__cpu_isa_check(void);

/* Detected once; an unknown value of ULLAGE_ISA caps nothing. AVX2 includes FMA and F16C; AVX-512
 * means F, BW, VL and DQ. */
ull__isa ull__cpu_isa(void);

/* "portable", "avx2", "avx512". */
const char *ull__isa_name(ull__isa isa);

#define ULL__ISA_JOIN_(name, isa) name##_##isa
#define ULL__ISA_JOIN(name, isa) ULL__ISA_JOIN_(name, isa)
#define ULL__ISA_NAME(name) ULL__ISA_JOIN(name, ULL__ISA)

#if defined(__x86_64__)
#define ULL__ISA_TABLE(name) \
  { name##_portable, name##_avx2, name##_avx512 }
#else
#define ULL__ISA_TABLE(name) \
  { name##_portable, name##_portable, name##_portable }
#endif

#endif
