/* The processor is asked once; the environment can only lower the answer. */
#include "base/isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *const isa_names[ULL__ISA_COUNT] = {"portable", "avx2", "avx512"};
static pthread_once_t detected = PTHREAD_ONCE_INIT;
static ull__isa current = ULL__ISA_PORTABLE;

static ull__isa detect_processor(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return ULL__ISA_AVX512;
  }
  if (avx2) return ULL__ISA_AVX2;
#endif
  return ULL__ISA_PORTABLE;
}

static void detect(void) {
  current = detect_processor();
  const char *cap = getenv("ULLAGE_ISA");
  for (ull__isa isa = ULL__ISA_PORTABLE; cap != NULL && isa < current; isa++) {
    if (strcmp(cap, isa_names[isa]) == 0) current = isa;
  }
}

ull_status ull__cpu_isa_check(void) {
  const char *cap = getenv("ULLAGE_ISA");
  if (cap == NULL || *cap == '\0') return ULL_OK;
  for (ull__isa isa = ULL__ISA_PORTABLE; isa < ULL__ISA_COUNT; isa++) {
    if (strcmp(cap, isa_names[isa]) == 0) return ULL_OK;
  }
  ULL__FAIL(ULL_ERROR_USAGE, "ULLAGE_ISA=%.64s is no instruction set", cap);
  ull__error_holder("ULLAGE_ISA");
  return ull__error_change("ULLAGE_ISA=portable, avx2 or avx512, or leave it unset");
}

ull__isa ull__cpu_isa(void) {
  pthread_once(&detected, detect);
  return current;
}

const char *ull__isa_name(ull__isa isa) {
  return isa < ULL__ISA_COUNT ? isa_names[isa] : "?";
}
