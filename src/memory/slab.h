/* A slab: one contiguous range of address space, reserved first, committed before use.
 *
 *     ull__slab slab = {0};
 *     ULL__TRY(ull__slab_reserve(&slab, bytes));
 *     ULL__TRY(ull__slab_commit(&slab, 0, bytes));
 *     ...
 *     ull__slab_release(&slab);
 *
 * A reservation costs no memory and has a guard page on each side, so that a stray access past
 * either end faults. Committing makes pages readable, writable and resident; it fails instead of
 * leaving a page for later. Committed bytes are counted exactly, per process.
 *
 * Thread safety: one thread at a time for each slab; the counters are atomic. */
#ifndef ULL_MEMORY_SLAB_H
#define ULL_MEMORY_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

typedef struct ull__slab {
  unsigned char *base;      /* first usable byte; NULL for a slab that was not reserved */
  uint64_t bytes;           /* usable bytes: as asked for, rounded up to a page */
  uint64_t committed_bytes; /* resident bytes, a multiple of the page size */
  void *mapping;            /* with guards and room for alignment */
  uint64_t mapping_bytes;
  uint64_t committed_from, committed_to; /* one committed range, relative to base */
} ull__slab;

/* Bytes of a page, and of a huge page where the kernel has them (else of a page). */
uint64_t ull__page_bytes(void);
uint64_t ull__huge_page_bytes(void);

/* Reserves at least `bytes` > 0. `base` is aligned to a huge page where the slab is at least one
 * long, otherwise to a page. ULL_ERROR_OUT_OF_MEMORY, with the bytes, where the address space is
 * limited; ULL_ERROR_OVERFLOW. */
ull_status ull__slab_reserve(ull__slab *slab, uint64_t bytes);

/* Makes [offset, offset + bytes) resident, widened to whole pages. The committed range of a slab is
 * one piece: each call must touch or overlap it. ULL_ERROR_OUT_OF_MEMORY with wanted and available
 * bytes where the kernel refuses; then the slab is as it was. */
ull_status ull__slab_commit(ull__slab *slab, uint64_t offset, uint64_t bytes);

/* Returns everything. A slab of zeroes and a released slab are allowed. */
void ull__slab_release(ull__slab *slab);

/* Committed bytes of all slabs of the process. */
uint64_t ull__slab_committed_bytes(void);

#endif
