/* Shapes with a free batch: products, binding, overflow, broadcasting, text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/shape.h"

static ull__shape shape_of(uint32_t rank, const ull__dim *dims) {
  ull__shape shape = {.rank = rank};
  memcpy(shape.dims, dims, rank * sizeof *dims);
  return shape;
}
#define SHAPE(...) \
  shape_of(sizeof((ull__dim[]){__VA_ARGS__}) / sizeof(ull__dim), (ull__dim[]){__VA_ARGS__})

static void products_keep_the_symbol(void **state) {
  (void)state;
  const ull__shape image = ull__shape_batched(3, (int64_t[]){3, 32, 32});
  ull__dim elements;
  assert_int_equal(ull__shape_elements(&image, &elements), ULL_OK);
  assert_int_equal(elements.constant, 0);
  assert_int_equal(elements.batch, 3072);
  const ull__shape shifted = SHAPE({2, 3}, {5, 0});
  assert_int_equal(ull__shape_elements(&shifted, &elements), ULL_OK);
  assert_int_equal(elements.constant, 10);
  assert_int_equal(elements.batch, 15);
  const ull__shape scalar = {0};
  assert_int_equal(ull__shape_elements(&scalar, &elements), ULL_OK);
  assert_int_equal(elements.constant, 1);
}

static void a_power_of_the_symbol_is_refused(void **state) {
  (void)state;
  const ull__shape square = SHAPE({0, 1}, {0, 1});
  ull__dim elements;
  assert_int_equal(ull__shape_elements(&square, &elements), ULL_ERROR_INVALID);
}

static void products_and_binding_do_not_wrap(void **state) {
  (void)state;
  ull__dim elements;
  uint64_t bytes = 0;
  const ull__shape huge = SHAPE({INT64_C(1) << 32, 0}, {INT64_C(1) << 31, 0});
  assert_int_equal(ull__shape_elements(&huge, &elements), ULL_ERROR_OVERFLOW);
  const ull__shape large = SHAPE({INT64_C(1) << 31, 0}, {INT64_C(1) << 30, 0});
  assert_int_equal(ull__shape_elements(&large, &elements), ULL_OK);
  assert_int_equal(ull__shape_bytes(&large, ULL_FLOAT64, &bytes), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__shape_bytes(&large, ULL_UINT8, &bytes), ULL_OK);
  ull__shape bound;
  const ull__shape growing = SHAPE({1, INT64_C(1) << 40});
  assert_int_equal(ull__shape_bind(&growing, INT64_C(1) << 23, &bound), ULL_ERROR_OVERFLOW);
  assert_int_equal(ull__shape_bind(&growing, 2, &bound), ULL_OK);
  assert_int_equal(bound.dims[0].constant, (INT64_C(1) << 41) + 1);
  assert_int_equal(ull__shape_bind(&growing, -1, &bound), ULL_ERROR_INVALID);
  const ull__shape negative = SHAPE({-1, 0});
  assert_int_equal(ull__shape_bind(&negative, 1, &bound), ULL_ERROR_INVALID);
}

static void a_free_batch_has_no_count(void **state) {
  (void)state;
  uint64_t count = 0;
  const ull__shape free_batch = ull__shape_batched(1, (int64_t[]){4});
  assert_int_equal(ull__shape_count(&free_batch, &count), ULL_ERROR_INVALID);
  assert_false(ull__shape_is_bound(&free_batch));
  const ull__shape bound = ull__shape_of(2, (int64_t[]){3, 4});
  assert_true(ull__shape_is_bound(&bound));
  assert_int_equal(ull__shape_count(&bound, &count), ULL_OK);
  assert_int_equal(count, 12);
}

static void expect_text(ull__shape shape, const char *expected) {
  char text[512];
  assert_string_equal(ull__shape_text(&shape, text, sizeof text), expected);
}

static void texts_read_as_formulas(void **state) {
  (void)state;
  expect_text((ull__shape){0}, "[]");
  expect_text(ull__shape_of(1, (int64_t[]){7}), "[7]");
  expect_text(ull__shape_batched(3, (int64_t[]){3, 32, 32}), "[B, 3, 32, 32]");
  expect_text(SHAPE({0, 16}, {64, 0}), "[16B, 64]");
  expect_text(SHAPE({1, 2}), "[1+2B]");
  char small[6];
  const ull__shape image = ull__shape_of(2, (int64_t[]){1234, 5678});
  assert_string_equal(ull__shape_text(&image, small, sizeof small), "[1234");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_keep_the_symbol),
      cmocka_unit_test(a_power_of_the_symbol_is_refused),
      cmocka_unit_test(products_and_binding_do_not_wrap),
      cmocka_unit_test(a_free_batch_has_no_count),
      cmocka_unit_test(texts_read_as_formulas),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
