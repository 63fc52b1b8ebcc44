/* Hash maps and arenas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/hash_map.h"
#include "memory/arena.h"

static void texts_are_found_in_order_of_insertion(void **state) {
  (void)state;
  uint64_t live = ull__alloc_count().live_bytes;
  ull__text_map map = {0};
  char key[32];
  assert_null(ull__text_map_find(&map, "x"));
  for (uint64_t i = 0; i < 5000; i++) {
    snprintf(key, sizeof key, "layer.%llu", (unsigned long long)i);
    assert_int_equal(ull__text_map_put(&map, key, i * i), ULL_OK);
  }
  assert_int_equal(ull__text_map_put(&map, "layer.7", 1), ULL_OK);
  assert_int_equal(map.count, 5000);
  assert_int_equal(*ull__text_map_find(&map, "layer.7"), 1);
  assert_int_equal(*ull__text_map_find(&map, "layer.4999"), 4999 * 4999);
  assert_null(ull__text_map_find(&map, "layer.5000"));
  assert_null(ull__text_map_find(&map, ""));
  assert_string_equal(map.items[123].key, "layer.123");
  ull__text_map_free(&map);
  assert_int_equal(ull__alloc_count().live_bytes, live);
}

static void numbers_are_found(void **state) {
  (void)state;
  ull__id_map map = {0};
  assert_null(ull__id_map_find(&map, 0));
  for (uint64_t i = 0; i < 5000; i++) {
    assert_int_equal(ull__id_map_put(&map, i << 40, i), ULL_OK);
  }
  for (uint64_t i = 0; i < 5000; i++) assert_int_equal(*ull__id_map_find(&map, i << 40), i);
  assert_null(ull__id_map_find(&map, 1));
  ull__id_map_put(&map, 0, 99);
  assert_int_equal(*ull__id_map_find(&map, 0), 99);
  assert_int_equal(map.count, 5000);
  ull__id_map_free(&map);
}

/* Whichever allocation fails: a status, no leak, and what was in the map still is. */
static void maps_survive_every_failing_allocation(void **state) {
  (void)state;
  uint64_t live = ull__alloc_count().live_bytes;
  for (uint64_t n = 1; n < 60; n++) {
    ull__text_map texts = {0};
    ull__id_map ids = {0};
    uint64_t stored = 0, refused = 0;
    char key[32];
    ull__alloc_fail_at(n);
    for (uint64_t i = 0; i < 20; i++) {
      snprintf(key, sizeof key, "%llu", (unsigned long long)i);
      ull_status status = ull__text_map_put(&texts, key, i);
      if (status == ULL_OK) status = ull__id_map_put(&ids, i, i);
      stored += status == ULL_OK;
      refused += status == ULL_ERROR_OUT_OF_MEMORY;
    }
    ull__alloc_fail_at(0);
    assert_int_equal(stored + refused, 20);
    assert_true(refused <= 1);
    assert_int_equal(ids.count, stored);
    for (size_t i = 0; i < texts.count; i++) {
      assert_int_equal(*ull__text_map_find(&texts, texts.items[i].key), texts.items[i].value);
    }
    ull__text_map_free(&texts);
    ull__id_map_free(&ids);
    assert_int_equal(ull__alloc_count().live_bytes, live);
  }
}

static void arenas_hold_items_until_freed(void **state) {
  (void)state;
  uint64_t live = ull__alloc_count().live_bytes;
  ull__arena arena = {0};
  char *texts[3000];
  for (int i = 0; i < 3000; i++) {
    texts[i] = ull__arena_format(&arena, "item %d", i);
    assert_int_equal((uintptr_t)texts[i] % _Alignof(max_align_t), 0);
  }
  char *large = ull__arena_alloc(&arena, 100000, 1);
  for (int i = 0; i < 100000; i++) assert_int_equal(large[i], 0);
  assert_string_equal(texts[0], "item 0");
  assert_string_equal(texts[2999], "item 2999");
  assert_string_equal(ull__arena_strdup(&arena, "copy"), "copy");
  assert_null(ull__arena_alloc(&arena, SIZE_MAX, 2));
  assert_true(arena.used_bytes >= 3000 * 16 + 100000);
  ull__arena_free(&arena);
  assert_int_equal(ull__alloc_count().live_bytes, live);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_found_in_order_of_insertion),
      cmocka_unit_test(numbers_are_found),
      cmocka_unit_test(maps_survive_every_failing_allocation),
      cmocka_unit_test(arenas_hold_items_until_freed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
