/* Slabs by mmap.
 *
 * Layout of a mapping: slack up to alignment, guard page, usable pages, guard page, slack. All of
 * it is PROT_NONE until committed. Committing populates: MADV_POPULATE_WRITE reports a lack of
 * memory as an error; where the kernel lacks it (before 5.14) the pages are touched one by one.
 * Memory limits of a cgroup kill instead of refusing, so a plan's budget, not this file, keeps a
 * process below them. */
#include "memory/slab.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static atomic_uint_fast64_t committed_bytes;

uint64_t ull__page_bytes(void) {
  return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t read_huge_page_bytes(void) {
  unsigned long long bytes = 0;
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "re");
  if (file == NULL) return ull__page_bytes();
  int found = fscanf(file, "%llu", &bytes);
  fclose(file);
  bool usable = found == 1 && bytes >= ull__page_bytes() && (bytes & (bytes - 1)) == 0;
  return usable ? bytes : ull__page_bytes();
}

uint64_t ull__huge_page_bytes(void) {
  static atomic_uint_fast64_t known;
  uint64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
  if (bytes == 0) {
    bytes = read_huge_page_bytes();
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
  }
  return bytes;
}

static ull_status refuse(const char *action, uint64_t wanted_bytes, uint64_t available_bytes) {
  int reason = errno;
  char text[128];
  ull__fail(ULL_ERROR_OUT_OF_MEMORY, "cannot %s %llu bytes of memory: %s", action,
            (unsigned long long)wanted_bytes, strerror_r(reason, text, sizeof text));
  return ull__error_bytes(wanted_bytes, available_bytes);
}

static uint64_t read_free_bytes(void) {
  long pages = sysconf(_SC_AVPHYS_PAGES);
  return pages > 0 ? (uint64_t)pages * ull__page_bytes() : 0;
}

ull_status ull__slab_reserve(ull__slab *slab, uint64_t bytes) {
  uint64_t page = ull__page_bytes(), usable, mapping_bytes;
  if (bytes == 0) return ULL__FAIL(ULL_ERROR_INVALID, "a slab of 0 bytes");
  ULL__TRY(ull__size_align(bytes, page, "a slab", &usable));
  uint64_t alignment = usable >= ull__huge_page_bytes() ? ull__huge_page_bytes() : page;
  ULL__TRY(ull__size_add(usable, alignment + 2 * page, "a slab", &mapping_bytes));
  void *mapping =
      mmap(NULL, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return refuse("reserve", usable, 0);
  uintptr_t first = ull__align_up((uintptr_t)mapping + page, alignment);
  *slab = (ull__slab){.base = (unsigned char *)mapping + (first - (uintptr_t)mapping),
                      .bytes = usable,
                      .mapping = mapping,
                      .mapping_bytes = mapping_bytes};
  return ULL_OK;
}

static void touch(unsigned char *from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += ull__page_bytes()) {
    ((volatile unsigned char *)from)[at] = 0;
  }
}

/* Makes fresh pages resident; on failure they are unmapped memory again. */
static ull_status populate(unsigned char *from, uint64_t bytes) {
  if (bytes == 0) return ULL_OK;
  if (mprotect(from, bytes, PROT_READ | PROT_WRITE) != 0) {
    return refuse("commit", bytes, read_free_bytes());
  }
  if (madvise(from, bytes, MADV_POPULATE_WRITE) == 0) return ULL_OK;
  if (errno == EINVAL) {
    touch(from, bytes);
    return ULL_OK;
  }
  ull_status status = refuse("commit", bytes, read_free_bytes());
  madvise(from, bytes, MADV_DONTNEED);
  mprotect(from, bytes, PROT_NONE);
  return status;
}

static void withdraw(unsigned char *from, uint64_t bytes) {
  if (bytes == 0) return;
  madvise(from, bytes, MADV_DONTNEED);
  mprotect(from, bytes, PROT_NONE);
}

ull_status ull__slab_commit(ull__slab *slab, uint64_t offset, uint64_t bytes) {
  uint64_t page = ull__page_bytes();
  if (offset > slab->bytes || bytes > slab->bytes - offset) {
    return ULL__FAIL(ULL_ERROR_INVALID, "commit of %llu bytes at %llu of a slab of %llu",
                     (unsigned long long)bytes, (unsigned long long)offset,
                     (unsigned long long)slab->bytes);
  }
  uint64_t from = offset - offset % page, to = ull__align_up(offset + bytes, page);
  bool empty = slab->committed_bytes == 0;
  if (bytes == 0) return ULL_OK;
  if (!empty && (from > slab->committed_to || to < slab->committed_from)) {
    return ULL__FAIL(ULL_ERROR_INVALID, "a commit that leaves a hole in a slab");
  }
  uint64_t old_from = empty ? to : slab->committed_from, old_to = empty ? to : slab->committed_to;
  if (from > old_from) from = old_from;
  if (to < old_to) to = old_to;
  ULL__TRY(populate(slab->base + from, old_from - from));
  ull_status status = populate(slab->base + old_to, to - old_to);
  if (status != ULL_OK) {
    withdraw(slab->base + from, old_from - from);
    return status;
  }
  atomic_fetch_add(&committed_bytes, (to - from) - slab->committed_bytes);
  slab->committed_from = from;
  slab->committed_to = to;
  slab->committed_bytes = to - from;
  return ULL_OK;
}

void ull__slab_release(ull__slab *slab) {
  if (slab->mapping == NULL) return;
  munmap(slab->mapping, slab->mapping_bytes);
  atomic_fetch_sub(&committed_bytes, slab->committed_bytes);
  *slab = (ull__slab){0};
}

uint64_t ull__slab_committed_bytes(void) {
  return atomic_load(&committed_bytes);
}
