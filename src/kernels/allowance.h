/* What libraries take behind our back, and what is allowed for it.
 *
 * Scratch memory that a library asks for is planned like any other. What it takes from the heap
 * without asking is an allowance for each kernel of its: for an implementation on operands of one
 * shape and layout, known by name. `ullage probe MODEL` measures allowances by running each kernel
 * on buffers of its own; a machine file keeps them. Without them a machine has one constant for
 * each prepared kernel and one for a launch, and a machine text that has neither allows 0. */
#ifndef ULL_KERNELS_ALLOWANCE_H
#define ULL_KERNELS_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_map.h"
#include "ullage/status.h"

typedef struct ull__library_use {
  uint64_t prepared_bytes; /* kept when it was prepared: code made at run time, objects */
  uint64_t again_bytes;    /* the same for a second one of that name: code is shared */
  uint64_t launch_bytes;   /* the most at once during a launch; given back at its end */
  uint64_t launch_calls;   /* of the malloc family in a launch */
} ull__library_use;

/* One for each name and provider: kernels of the same name share it. */
typedef struct ull__library_kernel {
  const char *name; /* "onednn:brgconv:avx512_core 16x64x56x56:nhwc 64x64x1x1:... ..." */
  ull__library_use allowed;
  bool measured;               /* of this kernel, and enforced: taking more is an error */
  ull__library_use took;       /* where watched: the most so far, of the last launch for the calls.
                                  Written       on the compute thread */
  uint64_t prepared, launched; /* how often, where watched */
  uint64_t calls;              /* in all launches */
} ull__library_kernel;

/* What a machine allows. Zero-initialise; 0 for everything. */
typedef struct ull__allowances {
  uint64_t kernel_bytes; /* for each prepared kernel that is not listed */
  uint64_t launch_bytes; /* during a launch of one that is not listed */
  char fingerprint[128]; /* of the provider that the list was measured with: no other takes it */
  ull__text_map index;   /* name to place in `uses` */
  ull__library_use *uses;
  uint32_t count;
} ull__allowances;

/* `took` is as measured; allowed is up to two pages more. A name that is there is replaced. */
ull_status ull__allowances_put(ull__allowances *allowances, const char *name,
                               const ull__library_use *took);
void ull__allowances_free(ull__allowances *allowances);

/* What is allowed for a kernel of this name under a provider of this fingerprint; `*measured` says
 * whether it is from the list. */
ull__library_use ull__allowances_find(const ull__allowances *allowances, const char *fingerprint,
                                      const char *name, bool *measured);

/* Fails, naming the kernel and both sizes, where it took more than it is allowed. */
ull_status ull__library_kernel_check(const ull__library_kernel *kernel);

#endif
