/* Random arenas from seeds: whatever the shape, alignment and effort, packings are valid, never
 * below the load, and the reported bound is the load counted the slow way. ULLAGE_FUZZ_SEEDS sets
 * how many seeds are tried (400). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/packing.h"

enum { LARGEST_COUNT = 200, TIME = 300 };

static uint64_t random_state;

static uint32_t draw(uint32_t bound) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((random_state >> 33) % bound);
}

static size_t make_instance(ull__packing_buffer *b) {
  size_t count = draw(LARGEST_COUNT + 1);
  uint32_t time = 1 + draw(TIME - 1), longest = 1 + draw(time), shift = draw(30), shape = draw(3);
  for (size_t i = 0; i < count; i++) {
    uint32_t first = draw(time), last = first + draw(longest);
    if (shape == 1) last = time - 1 - first > first ? time - 1 - first : first;
    if (last >= time) last = time - 1;
    uint64_t size = draw(8) == 0 ? 0 : 1 + ((uint64_t)draw(1 << 16) << draw(shift + 1));
    b[i] = (ull__packing_buffer){size, first, last, draw(1000)};
  }
  return count;
}

static uint64_t count_load(const ull__packing_buffer *b, size_t count, uint64_t alignment) {
  uint64_t largest = 0;
  for (uint32_t t = 0; t < TIME; t++) {
    uint64_t load = 0;
    for (size_t i = 0; i < count; i++)
      if (b[i].first <= t && t <= b[i].last)
        load += (b[i].size_bytes + alignment - 1) / alignment * alignment;
    largest = load > largest ? load : largest;
  }
  return largest;
}

static void assert_disjoint(const ull__packing_buffer *b, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t j = i + 1; j < count; j++) {
      bool together = b[i].first <= b[j].last && b[j].first <= b[i].last;
      bool touch = b[i].offset_bytes < b[j].offset_bytes + b[j].size_bytes &&
                   b[j].offset_bytes < b[i].offset_bytes + b[i].size_bytes;
      if (together && touch && b[i].size_bytes > 0 && b[j].size_bytes > 0)
        fail_msg("buffers %zu and %zu overlap", i, j);
    }
}

static void try_seed(uint64_t seed) {
  static ull__packing_buffer b[LARGEST_COUNT], again[LARGEST_COUNT];
  random_state = seed;
  size_t count = make_instance(b);
  uint64_t alignment = (uint64_t)1 << draw(13);
  ull__packing_options options = {
      .strategies = draw(14), .orders = draw(30), .visits = draw(60000), .seed = seed};
  memcpy(again, b, count * sizeof *b);
  ull__packing_result result, same;
  assert_int_equal(ull__pack(b, count, alignment, &options, &result), ULL_OK);
  assert_int_equal(ull__packing_check(b, count, alignment, result.height_bytes), ULL_OK);
  assert_int_equal(result.lower_bound_bytes, count_load(b, count, alignment));
  assert_true(result.height_bytes >= result.lower_bound_bytes);
  assert_true(result.height_bytes % alignment == 0);
  assert_disjoint(b, count);
  if (result.height_bytes > 0)
    assert_int_not_equal(ull__packing_check(b, count, alignment, result.height_bytes - alignment),
                         ULL_OK);
  assert_int_equal(ull__pack(again, count, alignment, &options, &same), ULL_OK);
  for (size_t i = 0; i < count; i++) assert_int_equal(b[i].offset_bytes, again[i].offset_bytes);
}

static void random_arenas_are_packed_without_overlap(void **state) {
  (void)state;
  const char *text = getenv("ULLAGE_FUZZ_SEEDS");
  uint64_t seeds = text ? strtoull(text, NULL, 10) : 400;
  for (uint64_t seed = 0; seed < seeds; seed++) try_seed(seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_arenas_are_packed_without_overlap)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
