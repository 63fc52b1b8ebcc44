/* Philox against the known answers of its authors' library, its distributions, and keyed
 * permutations. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/permutation.h"
#include "base/philox.h"

static void blocks_are_the_known_answers(void **state) {
  (void)state;
  static const struct {
    uint64_t key, high, low;
    uint32_t word[4];
  } answers[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822,
       0x0370734413198a2e,
       0x85a308d3243f6a88,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    ull__philox_block block = ull__philox(answers[i].key, answers[i].high, answers[i].low);
    assert_memory_equal(block.word, answers[i].word, sizeof block.word);
  }
}

static void streams_are_blocks_in_order(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 40; i++) {
    assert_int_equal(ull__philox_u32(7, 9, i), ull__philox(7, 9, i / 4).word[i % 4]);
  }
}

static void uniform_numbers_stay_below_one(void **state) {
  (void)state;
  assert_true(ull__philox_unit_float(0) == 0.0f);
  assert_true(ull__philox_unit_float(UINT32_MAX) < 1.0f);
  assert_true(ull__philox_unit_double(UINT32_MAX, UINT32_MAX) < 1.0);
  double sum = 0;
  for (uint64_t i = 0; i < 100000; i++) {
    sum += (double)ull__philox_unit_float(ull__philox_u32(1, 2, i));
  }
  assert_true(fabs(sum / 100000 - 0.5) < 0.004);
}

static void bounded_numbers_are_even(void **state) {
  (void)state;
  int counts[10] = {0};
  for (uint64_t i = 0; i < 100000; i++) {
    ull__philox_block block = ull__philox(3, 0, i);
    uint64_t value = ull__philox_bounded(block.word[0], block.word[1], 10);
    assert_true(value < 10);
    counts[value]++;
  }
  for (int i = 0; i < 10; i++) assert_true(abs(counts[i] - 10000) < 500);
  assert_int_equal(ull__philox_bounded(5, 5, 0), 0);
  assert_int_equal(ull__philox_bounded(UINT32_MAX, UINT32_MAX, UINT64_MAX), UINT64_MAX - 1);
}

static void normal_numbers_have_the_right_moments(void **state) {
  (void)state;
  double sum = 0, squares = 0, fourth = 0;
  enum { PAIRS = 100000 };
  for (uint64_t i = 0; i < PAIRS; i++) {
    double pair[2];
    ull__philox_normal(ull__philox(11, 0, i), pair);
    for (int j = 0; j < 2; j++) {
      assert_true(isfinite(pair[j]));
      sum += pair[j];
      squares += pair[j] * pair[j];
      fourth += pow(pair[j], 4);
    }
  }
  assert_true(fabs(sum / (2 * PAIRS)) < 0.01);
  assert_true(fabs(squares / (2 * PAIRS) - 1) < 0.02);
  assert_true(fabs(fourth / (2 * PAIRS) - 3) < 0.1);
  double worst[2];
  ull__philox_normal((ull__philox_block){{UINT32_MAX, UINT32_MAX, 0, 0}}, worst);
  assert_true(isfinite(worst[0]) && isfinite(worst[1]));
  ull__philox_normal((ull__philox_block){{0, 0, 0, 0}}, worst);
  assert_true(worst[0] == 0);
}

static void purposes_give_other_keys(void **state) {
  (void)state;
  assert_true(ull__philox_key(1, "order") != ull__philox_key(1, "augment"));
  assert_true(ull__philox_key(1, "order") != ull__philox_key(2, "order"));
  assert_true(ull__philox_key(1, "order") == ull__philox_key(1, "order"));
}

static void permutations_hit_every_value_once(void **state) {
  (void)state;
  static const uint64_t counts[] = {1, 2, 3, 5, 63, 64, 65, 100, 1000, 4096, 60000};
  static unsigned char seen[60000];
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    ull__permutation permutation = ull__permutation_create(counts[c], 42 + c);
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < counts[c]; i++) {
      uint64_t value = ull__permutation_at(&permutation, i);
      assert_true(value < counts[c]);
      assert_int_equal(seen[value]++, 0);
      assert_int_equal(ull__permutation_find(&permutation, value), i);
    }
  }
}

static void huge_permutations_need_no_memory(void **state) {
  (void)state;
  ull__permutation permutation = ull__permutation_create(1ull << 61, 5);
  for (uint64_t i = 0; i < 100; i++) {
    uint64_t value = ull__permutation_at(&permutation, i * 12345678901ull);
    assert_true(value < 1ull << 61);
    assert_int_equal(ull__permutation_find(&permutation, value), i * 12345678901ull);
  }
}

static void keys_give_other_orders(void **state) {
  (void)state;
  ull__permutation a = ull__permutation_create(1000, 1), b = ull__permutation_create(1000, 2);
  int fixed = 0, equal = 0;
  for (uint64_t i = 0; i < 1000; i++) {
    fixed += ull__permutation_at(&a, i) == i;
    equal += ull__permutation_at(&a, i) == ull__permutation_at(&b, i);
  }
  assert_true(fixed < 10);
  assert_true(equal < 10);
}

/* All 24 orders of four items come up about equally often over keys: chi-square with 23 degrees of
 * freedom stays below its 99.99 % point. */
static void small_orders_are_even(void **state) {
  (void)state;
  int counts[256] = {0};
  enum { KEYS = 24000 };
  for (uint64_t key = 0; key < KEYS; key++) {
    ull__permutation permutation = ull__permutation_create(4, key);
    unsigned code = 0;
    for (uint64_t i = 0; i < 4; i++) {
      code = code * 4 + (unsigned)ull__permutation_at(&permutation, i);
    }
    counts[code]++;
  }
  double chi = 0;
  int orders = 0;
  for (int i = 0; i < 256; i++) {
    if (counts[i] == 0) continue;
    orders++;
    chi += pow(counts[i] - KEYS / 24.0, 2) / (KEYS / 24.0);
  }
  assert_int_equal(orders, 24);
  assert_true(chi < 56);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_are_the_known_answers),
      cmocka_unit_test(streams_are_blocks_in_order),
      cmocka_unit_test(uniform_numbers_stay_below_one),
      cmocka_unit_test(bounded_numbers_are_even),
      cmocka_unit_test(normal_numbers_have_the_right_moments),
      cmocka_unit_test(purposes_give_other_keys),
      cmocka_unit_test(permutations_hit_every_value_once),
      cmocka_unit_test(huge_permutations_need_no_memory),
      cmocka_unit_test(keys_give_other_orders),
      cmocka_unit_test(small_orders_are_even),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
