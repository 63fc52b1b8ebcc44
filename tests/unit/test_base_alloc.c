/* Counted allocation, injected failures, checked sizes, vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/vector.h"

static void blocks_are_zeroed_and_counted(void **state) {
  (void)state;
  ull__alloc_counts before = ull__alloc_count();
  unsigned char *block = ull__alloc(100, 7);
  assert_non_null(block);
  for (int i = 0; i < 700; i++) assert_int_equal(block[i], 0);
  ull__alloc_counts during = ull__alloc_count();
  assert_int_equal(during.calls, before.calls + 1);
  assert_true(during.live_bytes >= before.live_bytes + 700);
  assert_true(during.peak_bytes >= during.live_bytes);
  ull__free(block);
  assert_int_equal(ull__alloc_count().live_bytes, before.live_bytes);
  ull__free(NULL);
}

static void nothing_is_a_valid_block(void **state) {
  (void)state;
  void *none = ull__alloc(0, 8);
  assert_non_null(none);
  none = ull__realloc(none, 0, 8);
  assert_non_null(none);
  ull__free(none);
}

static void products_that_wrap_are_refused(void **state) {
  (void)state;
  assert_null(ull__alloc(SIZE_MAX / 2, 4));
  assert_int_equal(ull_error_last()->status, ULL_ERROR_OVERFLOW);
  assert_null(ull__realloc(NULL, SIZE_MAX, SIZE_MAX));
  assert_int_equal(ull_error_last()->status, ULL_ERROR_OVERFLOW);
  assert_null(ull__alloc_aligned(24, 8));
  assert_int_equal(ull_error_last()->status, ULL_ERROR_INVALID);
}

static void aligned_blocks_are_aligned(void **state) {
  (void)state;
  uint64_t live = ull__alloc_count().live_bytes;
  for (size_t alignment = 1; alignment <= 65536; alignment *= 2) {
    void *block = ull__alloc_aligned(alignment, 100);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % alignment, 0);
    ull__free(block);
  }
  assert_int_equal(ull__alloc_count().live_bytes, live);
}

static void the_nth_allocation_fails_once(void **state) {
  (void)state;
  uint64_t live = ull__alloc_count().live_bytes;
  ull__alloc_fail_at(3);
  void *a = ull__alloc(1, 1);
  void *b = ull__alloc_aligned(64, 1);
  assert_non_null(a);
  assert_non_null(b);
  assert_null(ull__realloc(a, 50, 2));
  assert_int_equal(ull_error_last()->status, ULL_ERROR_OUT_OF_MEMORY);
  assert_int_equal(ull_error_last()->wanted_bytes, 100);
  a = ull__realloc(a, 50, 2);
  assert_non_null(a);
  ull__alloc_fail_at(1);
  ull__alloc_fail_at(0);
  void *c = ull__alloc(1, 1);
  assert_non_null(c);
  ull__free(a);
  ull__free(b);
  ull__free(c);
  assert_int_equal(ull__alloc_count().live_bytes, live);
}

static void texts_are_copied(void **state) {
  (void)state;
  char *copy = ull__strdup("ullage");
  char *part = ull__strndup("ullage", 3);
  char *made = ull__format("%s-%d", "x", 42);
  assert_string_equal(copy, "ullage");
  assert_string_equal(part, "ull");
  assert_string_equal(made, "x-42");
  ull__free(copy);
  ull__free(part);
  ull__free(made);
  ull__alloc_fail_at(1);
  assert_null(ull__format("%d", 1));
  assert_int_equal(ull_error_last()->status, ULL_ERROR_OUT_OF_MEMORY);
}

static void sizes_are_exact_or_refused(void **state) {
  (void)state;
  uint64_t out = 77;
  assert_int_equal(ull__size_add(ULL__SIZE_MAX, 1, "a batch", &out), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__size_add(UINT64_MAX, 1, "a batch", &out), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__size_mul(1ull << 32, 1ull << 31, "a batch", &out), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__size_mul(UINT64_MAX, UINT64_MAX, "a batch", &out), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__size_align(ULL__SIZE_MAX - 10, 64, "a batch", &out), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__size_align(8, 3, "a batch", &out), ULL_ERROR_INVALID);
  assert_int_equal(ull__size_align(8, 0, "a batch", &out), ULL_ERROR_INVALID);
  assert_int_equal(out, 77);
  assert_int_equal(ull__size_add(ULL__SIZE_MAX, 0, "a batch", &out), ULL_OK);
  assert_true(out == ULL__SIZE_MAX);
  assert_int_equal(ull__size_mul(ULL__SIZE_MAX, 1, "a batch", &out), ULL_OK);
  assert_int_equal(ull__size_mul(0, UINT64_MAX, "a batch", &out), ULL_OK);
  assert_int_equal(out, 0);
  assert_int_equal(ull__size_align(65, 64, "a batch", &out), ULL_OK);
  assert_int_equal(out, 128);
  assert_int_equal(ull__size_align(0, 64, "a batch", &out), ULL_OK);
  assert_int_equal(out, 0);
}

static void vectors_grow_and_survive_failure(void **state) {
  (void)state;
  uint64_t live = ull__alloc_count().live_bytes;
  typedef struct pair {
    int a, b;
  } pair;
  ULL__VECTOR(pair) pairs = {0};
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(ull__vector_push(&pairs, (pair){i, -i}), ULL_OK);
  }
  assert_int_equal(pairs.count, 1000);
  assert_int_equal(pairs.items[999].b, -999);
  while (pairs.count < pairs.capacity) {
    assert_int_equal(ull__vector_push(&pairs, (pair){0, 0}), ULL_OK);
  }
  size_t count = pairs.count;
  ull__alloc_fail_at(1);
  assert_int_equal(ull__vector_push(&pairs, (pair){1, 1}), ULL_ERROR_OUT_OF_MEMORY);
  assert_int_equal(pairs.count, count);
  assert_int_equal(pairs.items[999].a, 999);
  assert_int_not_equal(ull__vector_reserve(&pairs, SIZE_MAX), ULL_OK);
  assert_int_not_equal(ull__vector_reserve(&pairs, SIZE_MAX / 8), ULL_OK);
  ull__vector_free(&pairs);
  assert_null(pairs.items);
  assert_int_equal(ull__alloc_count().live_bytes, live);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_are_zeroed_and_counted),
      cmocka_unit_test(nothing_is_a_valid_block),
      cmocka_unit_test(products_that_wrap_are_refused),
      cmocka_unit_test(aligned_blocks_are_aligned),
      cmocka_unit_test(the_nth_allocation_fails_once),
      cmocka_unit_test(texts_are_copied),
      cmocka_unit_test(sizes_are_exact_or_refused),
      cmocka_unit_test(vectors_grow_and_survive_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
