/* Hash maps, arenas, the event ring. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/event_ring.h"
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

static void a_ring_keeps_the_newest(void **state) {
  (void)state;
  ull__event_ring *ring;
  ull__event out[32];
  uint64_t cursor = 0, lost = 0;
  assert_int_equal(ull__event_ring_create(10, &ring), ULL_OK);
  assert_int_equal(ull__event_ring_read(ring, &cursor, out, 32, &lost), 0);
  for (uint32_t i = 0; i < 5; i++) {
    ull__event_ring_record(ring, (ull__event){i, i * 10ull, i, (uint16_t)i, 3});
  }
  assert_int_equal(ull__event_ring_read(ring, &cursor, out, 3, &lost), 3);
  assert_int_equal(out[2].bytes, 20);
  assert_int_equal(out[2].kind, 2);
  assert_int_equal(out[2].lane, 3);
  uint64_t calls = ull__alloc_count().calls;
  for (uint32_t i = 5; i < 40; i++) ull__event_ring_record(ring, (ull__event){.id = i});
  assert_int_equal(ull__alloc_count().calls, calls);
  size_t count = ull__event_ring_read(ring, &cursor, out, 32, &lost);
  assert_int_equal(count, 16);
  assert_int_equal(out[0].id, 24);
  assert_int_equal(out[15].id, 39);
  assert_int_equal(lost, 21);
  assert_int_equal(ull__event_ring_recorded(ring), 40);
  ull__event_ring_free(ring);
  ull__event_ring_free(NULL);
}

enum { EVENTS = 200000 };

static void *record_many(void *ring) {
  for (uint32_t i = 0; i < EVENTS; i++) {
    ull__event_ring_record(ring, (ull__event){i, ~(uint64_t)i, i, (uint16_t)i, (uint16_t)(i >> 3)});
  }
  return NULL;
}

/* Every event read while the writer runs is whole, and read + lost = recorded. */
static void a_reader_sees_whole_events(void **state) {
  (void)state;
  ull__event_ring *ring;
  pthread_t writer;
  ull__event out[64];
  uint64_t cursor = 0, lost = 0, read = 0;
  assert_int_equal(ull__event_ring_create(256, &ring), ULL_OK);
  assert_int_equal(pthread_create(&writer, NULL, record_many, ring), 0);
  while (cursor < EVENTS) {
    size_t count = ull__event_ring_read(ring, &cursor, out, 64, &lost);
    for (size_t i = 0; i < count; i++) {
      assert_int_equal(out[i].time_ns, out[i].id);
      assert_int_equal(out[i].bytes, ~(uint64_t)out[i].id);
      assert_int_equal(out[i].kind, (uint16_t)out[i].id);
      assert_int_equal(out[i].lane, (uint16_t)(out[i].id >> 3));
    }
    read += count;
  }
  pthread_join(writer, NULL);
  assert_int_equal(read + lost, EVENTS);
  ull__event_ring_free(ring);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_found_in_order_of_insertion),
      cmocka_unit_test(numbers_are_found),
      cmocka_unit_test(maps_survive_every_failing_allocation),
      cmocka_unit_test(arenas_hold_items_until_freed),
      cmocka_unit_test(a_ring_keeps_the_newest),
      cmocka_unit_test(a_reader_sees_whole_events),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
