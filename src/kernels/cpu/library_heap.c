/* Redirected imports: an object's relocations say where it keeps the address of each function it
 * imports; those of the malloc family are replaced, once, by the counters below.
 *
 * A block counts with what the heap gave, so that its release, which knows no size, counts the
 * same. Mappings (code made at run time) are listed between begin and end, and count at the end
 * with their resident pages; those that do not fit into the list count whole. */
#include "kernels/cpu/library_heap.h"

#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_MAPPINGS = 256, MOST_PAGES = 1024 };

static atomic_ullong calls;
static atomic_llong live, most;

static struct {
  pthread_mutex_t lock;
  bool open;
  struct {
    void *where;
    size_t bytes;
  } items[MOST_MAPPINGS];
  size_t count;
} mappings = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- counters ---- */

static void add(int64_t bytes) {
  long long now = atomic_fetch_add_explicit(&live, bytes, memory_order_relaxed) + bytes;
  long long seen = atomic_load_explicit(&most, memory_order_relaxed);
  while (now > seen && !atomic_compare_exchange_weak_explicit(
                           &most, &seen, now, memory_order_relaxed, memory_order_relaxed)) {
  }
}

static void *took(void *block) {
  atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
  if (block) add((int64_t)malloc_usable_size(block));
  return block;
}

static void *counted_malloc(size_t bytes) {
  return took(malloc(bytes));
}

static void *counted_calloc(size_t count, size_t bytes) {
  return took(calloc(count, bytes));
}

static void *counted_aligned_alloc(size_t alignment, size_t bytes) {
  return took(aligned_alloc(alignment, bytes));
}

static void *counted_realloc(void *block, size_t bytes) {
  int64_t before = block ? (int64_t)malloc_usable_size(block) : 0;
  void *moved = realloc(block, bytes);
  if (!moved && bytes > 0) return NULL;
  add(-before);
  return took(moved);
}

static int counted_posix_memalign(void **out, size_t alignment, size_t bytes) {
  int failed = posix_memalign(out, alignment, bytes);
  took(failed ? NULL : *out);
  return failed;
}

static void counted_free(void *block) {
  if (block) add(-(int64_t)malloc_usable_size(block));
  free(block);
}

static void *counted_mmap(void *where, size_t bytes, int protection, int flags, int file,
                          off_t offset) {
  void *mapped = mmap(where, bytes, protection, flags, file, offset);
  if (mapped == MAP_FAILED) return mapped;
  atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
  pthread_mutex_lock(&mappings.lock);
  bool listed = mappings.open && mappings.count < MOST_MAPPINGS;
  if (listed) {
    mappings.items[mappings.count].where = mapped;
    mappings.items[mappings.count++].bytes = bytes;
  }
  pthread_mutex_unlock(&mappings.lock);
  if (!listed) add((int64_t)bytes);
  return mapped;
}

static int counted_munmap(void *where, size_t bytes) {
  pthread_mutex_lock(&mappings.lock);
  size_t at = 0;
  while (at < mappings.count && mappings.items[at].where != where) at++;
  bool listed = at < mappings.count;
  if (listed) mappings.items[at] = mappings.items[--mappings.count];
  pthread_mutex_unlock(&mappings.lock);
  if (!listed) add(-(int64_t)bytes);
  return munmap(where, bytes);
}

/* ---- redirection ---- */

static const struct {
  const char *name;
  void *counter;
} counters[] = {{"malloc", (void *)counted_malloc},
                {"calloc", (void *)counted_calloc},
                {"realloc", (void *)counted_realloc},
                {"aligned_alloc", (void *)counted_aligned_alloc},
                {"posix_memalign", (void *)counted_posix_memalign},
                {"free", (void *)counted_free},
                {"mmap", (void *)counted_mmap},
                {"mmap64", (void *)counted_mmap},
                {"munmap", (void *)counted_munmap}};

#if defined(__x86_64__)
#define IS_IMPORT(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_IMPORT(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

#if defined(IS_IMPORT) && defined(__LP64__)

typedef struct object {
  const ElfW(Rela) * tables[2];
  size_t counts[2];
  const ElfW(Sym) * symbols;
  const char *names;
  ElfW(Addr) base;
} object;

/* glibc has made these addresses absolute when an object is loaded; others have not. */
static ElfW(Addr) absolute(ElfW(Addr) base, ElfW(Addr) address) {
  return address < base ? base + address : address;
}

static bool read_object(const struct dl_phdr_info *info, object *out) {
  const ElfW(Dyn) *entry = NULL;
  *out = (object){.base = info->dlpi_addr};
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  for (; entry && entry->d_tag != DT_NULL; entry++) {
    const void *at = (const void *)absolute(info->dlpi_addr, entry->d_un.d_ptr);
    if (entry->d_tag == DT_RELA) out->tables[0] = at;
    if (entry->d_tag == DT_RELASZ) out->counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_JMPREL) out->tables[1] = at;
    if (entry->d_tag == DT_PLTRELSZ) out->counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_SYMTAB) out->symbols = at;
    if (entry->d_tag == DT_STRTAB) out->names = at;
  }
  return out->symbols && out->names;
}

static void *find_counter(const char *name) {
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
    if (strcmp(name, counters[i].name) == 0) return counters[i].counter;
  return NULL;
}

/* The page may have been made read-only after loading; it is left as it is meant to be then. */
static bool replace(const struct dl_phdr_info *info, void **slot, void *counter) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uintptr_t start = (uintptr_t)slot & ~(page - 1);
  bool guarded = false; /* whole pages alone are */
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
    guarded = guarded || (part->p_type == PT_GNU_RELRO && start >= (from & ~(page - 1)) &&
                          start < (to & ~(page - 1)));
  }
  if (guarded && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(slot, counter, __ATOMIC_RELEASE);
  return !guarded || mprotect((void *)start, page, PROT_READ) == 0;
}

static bool is_watched(const char *path) {
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  return strncmp(name, "libdnnl.", 8) == 0 || strncmp(name, "libstdc++.", 10) == 0;
}

/* Counts replaced imports of the library itself: without them nothing is known. */
static int redirect(struct dl_phdr_info *info, size_t size, void *replaced) {
  object o;
  (void)size;
  if (!is_watched(info->dlpi_name) || !read_object(info, &o)) return 0;
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; o.tables[t] && i < o.counts[t]; i++) {
      const ElfW(Rela) *r = &o.tables[t][i];
      if (!IS_IMPORT(ELF64_R_TYPE(r->r_info))) continue;
      void *counter = find_counter(o.names + o.symbols[ELF64_R_SYM(r->r_info)].st_name);
      if (!counter) continue;
      if (!replace(info, (void **)(o.base + r->r_offset), counter)) return 1;
      if (strstr(info->dlpi_name, "libdnnl.")) ++*(size_t *)replaced;
    }
  return 0;
}

static bool redirect_all(void) {
  size_t replaced = 0;
  return dl_iterate_phdr(redirect, &replaced) == 0 && replaced > 0;
}

#else

static bool redirect_all(void) {
  return false;
}

#endif

static bool is_watching;

static void start(void) {
  is_watching = redirect_all();
}

bool ull__library_heap_watch(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  return pthread_once(&once, start) == 0 && is_watching;
}

/* ---- between begin and end ---- */

static _Thread_local struct {
  unsigned long long calls;
  long long live;
} before;

void ull__library_heap_begin(void) {
  pthread_mutex_lock(&mappings.lock);
  mappings.open = true;
  mappings.count = 0;
  pthread_mutex_unlock(&mappings.lock);
  before.calls = atomic_load(&calls);
  before.live = atomic_load(&live);
  atomic_store(&most, before.live);
}

static uint64_t resident(char *where, size_t bytes) {
  unsigned char pages[MOST_PAGES];
  size_t page = (size_t)sysconf(_SC_PAGESIZE), most_bytes = MOST_PAGES * page, found = 0;
  for (size_t at = 0; at < bytes; at += most_bytes) {
    size_t length = bytes - at < most_bytes ? bytes - at : most_bytes;
    if (mincore(where + at, length, pages) != 0) return bytes;
    for (size_t p = 0; p < (length + page - 1) / page; p++) found += pages[p] & 1;
  }
  return (uint64_t)found * page;
}

ull__library_heap ull__library_heap_end(void) {
  uint64_t mapped = 0;
  long long kept = atomic_load(&live) - before.live;
  pthread_mutex_lock(&mappings.lock);
  for (size_t i = 0; i < mappings.count; i++)
    mapped += resident(mappings.items[i].where, mappings.items[i].bytes);
  mappings.open = false;
  mappings.count = 0;
  pthread_mutex_unlock(&mappings.lock);
  return (ull__library_heap){.calls = atomic_load(&calls) - before.calls,
                             .most_bytes = (uint64_t)(atomic_load(&most) - before.live) + mapped,
                             .kept_bytes = (kept > 0 ? (uint64_t)kept : 0) + mapped};
}
