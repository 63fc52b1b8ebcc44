/* The heap, counted.
 *
 * Live bytes are what malloc_usable_size reports, so that no header is needed in front of a block
 * and ull__free works on what any of the functions here returned. A failing allocation leaves the
 * counters as they were. */
#include "base/alloc.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"

static atomic_uint_fast64_t call_count;
static atomic_uint_fast64_t live_bytes;
static atomic_uint_fast64_t peak_bytes;
static atomic_uint_fast64_t calls_until_failure;

void ull__alloc_fail_at(uint64_t n) {
  atomic_store(&calls_until_failure, n);
}

/* True for exactly the n-th call after ull__alloc_fail_at(n). */
static bool must_fail(void) {
  uint64_t left = atomic_load_explicit(&calls_until_failure, memory_order_relaxed);
  while (left != 0) {
    if (atomic_compare_exchange_weak(&calls_until_failure, &left, left - 1)) return left == 1;
  }
  return false;
}

static void count_change(uint64_t taken_bytes, uint64_t returned_bytes) {
  uint64_t change_bytes = taken_bytes - returned_bytes;
  uint64_t live =
      atomic_fetch_add_explicit(&live_bytes, change_bytes, memory_order_relaxed) + change_bytes;
  uint64_t peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
  while (live > peak && !atomic_compare_exchange_weak_explicit(
                            &peak_bytes, &peak, live, memory_order_relaxed, memory_order_relaxed)) {
  }
}

static ull_status refuse(uint64_t bytes) {
  ull__fail(ULL_ERROR_OUT_OF_MEMORY, "cannot allocate %llu bytes", (unsigned long long)bytes);
  return ull__error_bytes(bytes, 0);
}

static bool compute_bytes(size_t count, size_t size, uint64_t *bytes) {
  return ull__size_mul(count, size, "an allocation", bytes) == ULL_OK;
}

/* Books a fresh block; a NULL block becomes a refusal. */
static void *book(void *block, uint64_t bytes) {
  if (block == NULL) {
    refuse(bytes);
    return NULL;
  }
  count_change(malloc_usable_size(block), 0);
  return block;
}

void *ull__alloc(size_t count, size_t size) {
  uint64_t bytes;
  if (!compute_bytes(count, size, &bytes)) return NULL;
  atomic_fetch_add_explicit(&call_count, 1, memory_order_relaxed);
  return book(must_fail() ? NULL : calloc(1, bytes > 0 ? bytes : 1), bytes);
}

void *ull__alloc_aligned(size_t alignment, size_t bytes) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || bytes > ULL__SIZE_MAX) {
    ull__fail(ULL_ERROR_INVALID, "%zu bytes aligned to %zu", bytes, alignment);
    return NULL;
  }
  void *block = NULL;
  size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
  atomic_fetch_add_explicit(&call_count, 1, memory_order_relaxed);
  if (must_fail() || posix_memalign(&block, least, bytes > 0 ? bytes : 1) != 0) block = NULL;
  return book(block, bytes);
}

void *ull__realloc(void *pointer, size_t count, size_t size) {
  uint64_t bytes;
  if (!compute_bytes(count, size, &bytes)) return NULL;
  atomic_fetch_add_explicit(&call_count, 1, memory_order_relaxed);
  uint64_t old_bytes = malloc_usable_size(pointer);
  void *block = must_fail() ? NULL : realloc(pointer, bytes > 0 ? bytes : 1);
  if (block == NULL) {
    refuse(bytes);
    return NULL;
  }
  count_change(malloc_usable_size(block), old_bytes);
  return block;
}

char *ull__strndup(const char *text, size_t length) {
  size_t used = strnlen(text, length);
  char *copy = ull__alloc(used + 1, 1);
  if (copy != NULL) memcpy(copy, text, used);
  return copy;
}

char *ull__strdup(const char *text) {
  return ull__strndup(text, strlen(text));
}

char *ull__format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = NULL;
  if (length < 0) ull__fail(ULL_ERROR_INVALID, "a text that cannot be formatted: %s", format);
  if (length >= 0) text = ull__alloc((size_t)length + 1, 1);
  if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

void ull__free(void *pointer) {
  if (pointer == NULL) return;
  count_change(0, malloc_usable_size(pointer));
  free(pointer);
}

ull__alloc_counts ull__alloc_count(void) {
  return (ull__alloc_counts){
      .calls = atomic_load_explicit(&call_count, memory_order_relaxed),
      .live_bytes = atomic_load_explicit(&live_bytes, memory_order_relaxed),
      .peak_bytes = atomic_load_explicit(&peak_bytes, memory_order_relaxed),
  };
}
