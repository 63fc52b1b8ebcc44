/* The recorder's ring: the newest events stay, losses are counted, a reader beside the writer sees
 * whole events. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/event_ring.h"

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
      cmocka_unit_test(a_ring_keeps_the_newest),
      cmocka_unit_test(a_reader_sees_whole_events),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
