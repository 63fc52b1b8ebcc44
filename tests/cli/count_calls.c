/* A library to preload: counts calls that take memory, files or threads, by the object whose code
 * made them, and writes the counts to the file that COUNT_CALLS names when the process exits.
 *
 *     cc -shared -fPIC -O1 -o count_calls.so count_calls.c -ldl
 *     COUNT_CALLS=counts.txt LD_PRELOAD=./count_calls.so ullage train ...
 *
 * A line is "OBJECT FUNCTION COUNT". A call that the libraries of C or C++ make on
 * behalf of somebody else (strdup, operator new) counts for the nearest caller outside of them.
 * Nothing here allocates after the constructor. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FUNCTIONS(XX) \
  XX(malloc)          \
  XX(calloc)          \
  XX(realloc)         \
  XX(reallocarray)    \
  XX(posix_memalign)  \
  XX(aligned_alloc)   \
  XX(memalign)        \
  XX(mmap)            \
  XX(mmap64)          \
  XX(open) XX(open64) XX(openat) XX(openat64) XX(fopen) XX(fopen64) XX(clone) XX(pthread_create)

enum {
#define XX(name) CALL_##name,
  FUNCTIONS(XX)
#undef XX
      CALL_COUNT
};

static const char *const call_names[] = {
#define XX(name) #name,
    FUNCTIONS(XX)
#undef XX
};

enum { MOST_OBJECTS = 128, MOST_FRAMES = 32 };

static struct {
  _Atomic(void *) base;
  char name[256];
  atomic_ulong counts[CALL_COUNT];
} objects[MOST_OBJECTS];

static atomic_bool is_ready;
static void *libc_base;
static __thread bool is_inside;

/* ---- who called ---- */

static int find_object(void *address) {
  Dl_info about;
  if (!dladdr(address, &about)) return -1;
  for (int i = 0; i < MOST_OBJECTS; i++) {
    void *none = NULL;
    if (atomic_load(&objects[i].base) == about.dli_fbase) return i;
    if (!atomic_compare_exchange_strong(&objects[i].base, &none, about.dli_fbase)) {
      if (none == about.dli_fbase) return i;
      continue;
    }
    snprintf(objects[i].name, sizeof objects[i].name, "%s", about.dli_fname);
    return i;
  }
  return -1;
}

static bool is_language(int object) {
  return object >= 0 && (atomic_load(&objects[object].base) == libc_base ||
                         strstr(objects[object].name, "/libstdc++.so"));
}

/* The nearest frame outside of the languages' libraries and of this one. */
static int find_caller(void *address) {
  static void *own_base;
  int object = find_object(address);
  if (!is_language(object)) return object;
  void *frames[MOST_FRAMES];
  int depth = backtrace(frames, MOST_FRAMES);
  if (!own_base) {
    Dl_info about;
    if (dladdr((void *)find_caller, &about)) own_base = about.dli_fbase;
  }
  for (int f = 0; f < depth; f++) {
    int other = find_object(frames[f]);
    if (other >= 0 && !is_language(other) && atomic_load(&objects[other].base) != own_base)
      return other;
  }
  return object;
}

static void count(int call, void *address) {
  if (!atomic_load(&is_ready) || is_inside) return;
  is_inside = true;
  int object = find_caller(address);
  if (object >= 0) atomic_fetch_add(&objects[object].counts[call], 1);
  is_inside = false;
}

/* ---- before and after ---- */

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) abort();
  return found;
}

__attribute__((constructor)) static void begin(void) {
  Dl_info about;
  void *frames[2];
  backtrace(frames, 2); /* loads the unwinder */
  if (dladdr(next("strlen"), &about)) libc_base = about.dli_fbase;
  atomic_store(&is_ready, true);
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("COUNT_CALLS");
  atomic_store(&is_ready, false);
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  for (int i = 0; i < MOST_OBJECTS && atomic_load(&objects[i].base); i++)
    for (int call = 0; call < CALL_COUNT; call++) {
      unsigned long calls = atomic_load(&objects[i].counts[call]);
      if (calls) fprintf(file, "%s %s %lu\n", objects[i].name, call_names[call], calls);
    }
  fclose(file);
}

/* ---- the calls ---- */

#define REAL(name)                                  \
  static __typeof__(&name) real;                    \
  if (!real) real = (__typeof__(&name))next(#name); \
  count(CALL_##name, __builtin_return_address(0))

/* dlsym itself may ask for memory before it has found anything. */
static char early[1 << 16];
static size_t early_used;
static __thread bool is_looking;

static void *take_early(size_t bytes) {
  size_t place = (early_used + 15) & ~(size_t)15;
  if (place + bytes > sizeof early) return NULL;
  early_used = place + bytes;
  return early + place;
}

static bool is_early(const void *p) {
  return (const char *)p >= early && (const char *)p < early + sizeof early;
}

#define REAL_MEMORY(name, size)              \
  static __typeof__(&name) real;             \
  if (!real) {                               \
    if (is_looking) return take_early(size); \
    is_looking = true;                       \
    real = (__typeof__(&name))next(#name);   \
    is_looking = false;                      \
  }                                          \
  count(CALL_##name, __builtin_return_address(0))

void *malloc(size_t size) {
  REAL_MEMORY(malloc, size);
  return real(size);
}

void *calloc(size_t number, size_t size) {
  REAL_MEMORY(calloc, number * size);
  return real(number, size);
}

void *realloc(void *p, size_t size) {
  REAL_MEMORY(realloc, size);
  if (!is_early(p)) return real(p, size);
  void *moved = malloc(size);
  if (moved)
    memcpy(moved, p,
           size < (size_t)(early + sizeof early - (char *)p)
               ? size
               : (size_t)(early + sizeof early - (char *)p));
  return moved;
}

void free(void *p) {
  static __typeof__(&free) real;
  if (is_early(p)) return;
  if (!real) real = (__typeof__(&free))next("free");
  real(p);
}

void *reallocarray(void *p, size_t number, size_t size) {
  REAL(reallocarray);
  return real(p, number, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  REAL(posix_memalign);
  return real(out, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  REAL(aligned_alloc);
  return real(alignment, size);
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size) {
  REAL(memalign);
  return real(alignment, size);
}

void *mmap(void *where, size_t size, int protection, int flags, int file, off_t offset) {
  REAL(mmap);
  return real(where, size, protection, flags, file, offset);
}

void *mmap64(void *where, size_t size, int protection, int flags, int file, off64_t offset) {
  REAL(mmap64);
  return real(where, size, protection, flags, file, offset);
}

static int read_mode(int flags, va_list arguments) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
}

#define OPEN(name)                             \
  int name(const char *path, int flags, ...) { \
    REAL(name);                                \
    va_list arguments;                         \
    va_start(arguments, flags);                \
    int mode = read_mode(flags, arguments);    \
    va_end(arguments);                         \
    return real(path, flags, mode);            \
  }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                      \
  int name(int folder, const char *path, int flags, ...) { \
    REAL(name);                                            \
    va_list arguments;                                     \
    va_start(arguments, flags);                            \
    int mode = read_mode(flags, arguments);                \
    va_end(arguments);                                     \
    return real(folder, path, flags, mode);                \
  }
OPEN_AT(openat)
OPEN_AT(openat64)

FILE *fopen(const char *path, const char *mode) {
  REAL(fopen);
  return real(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
  REAL(fopen64);
  return real(path, mode);
}

int clone(int (*function)(void *), void *stack, int flags, void *argument, ...);
int clone(int (*function)(void *), void *stack, int flags, void *argument, ...) {
  REAL(clone);
  va_list arguments;
  va_start(arguments, argument);
  void *parent = va_arg(arguments, void *), *tls = va_arg(arguments, void *);
  void *child = va_arg(arguments, void *);
  va_end(arguments);
  return real(function, stack, flags, argument, parent, tls, child);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
  REAL(pthread_create);
  return real(thread, attributes, start, argument);
}
