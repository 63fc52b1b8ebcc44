/* The processor is asked once; the environment can only lower the answer. */
#include "kernels/cpu/isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

ull__isa ull__cpu_isa(void) {
  pthread_once(&detected, detect);
  return current;
}

const char *ull__isa_name(ull__isa isa) {
  return isa < ULL__ISA_COUNT ? isa_names[isa] : "?";
}
