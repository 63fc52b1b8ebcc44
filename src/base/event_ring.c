/* The writer publishes in two steps: `claimed` moves before it overwrites a slot, `recorded` after.
 * A reader copies words, then looks at `claimed`: a slot whose number is at least claimed -
 * capacity was not touched while it was copied. Slots are relaxed atomic words, so a torn copy is
 * only ever thrown away. */
#include "base/event_ring.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/error.h"

enum { WORDS = 3 };

typedef struct slot {
  atomic_uint_fast64_t word[WORDS];
} slot;

struct ull__event_ring {
  atomic_uint_fast64_t claimed, recorded;
  size_t capacity;
  slot *slots;
};

ull_status ull__event_ring_create(size_t capacity, ull__event_ring **out) {
  size_t rounded = 8;
  if (capacity > ((size_t)1 << 40)) return ULL__FAIL(ULL_ERROR_INVALID, "a ring of 2^40 events");
  while (rounded < capacity) rounded *= 2;
  ull__event_ring *ring = ull__alloc(1, sizeof *ring);
  if (ring == NULL) return ull_error_last()->status;
  ring->capacity = rounded;
  ring->slots = ull__alloc(rounded, sizeof *ring->slots);
  if (ring->slots == NULL) {
    ull__free(ring);
    return ull_error_last()->status;
  }
  *out = ring;
  return ULL_OK;
}

void ull__event_ring_free(ull__event_ring *ring) {
  if (ring == NULL) return;
  ull__free(ring->slots);
  ull__free(ring);
}

void ull__event_ring_record(ull__event_ring *ring, ull__event event) {
  uint64_t number = atomic_load_explicit(&ring->recorded, memory_order_relaxed);
  slot *slot = &ring->slots[number & (ring->capacity - 1)];
  uint64_t packed = (uint64_t)event.id << 32 | (uint64_t)event.kind << 16 | event.lane;
  atomic_store_explicit(&ring->claimed, number + 1, memory_order_relaxed);
  /* Released words pull the claim along to whoever sees one of them. */
  atomic_store_explicit(&slot->word[0], event.time_ns, memory_order_release);
  atomic_store_explicit(&slot->word[1], event.bytes, memory_order_release);
  atomic_store_explicit(&slot->word[2], packed, memory_order_release);
  atomic_store_explicit(&ring->recorded, number + 1, memory_order_release);
}

uint64_t ull__event_ring_recorded(const ull__event_ring *ring) {
  return atomic_load_explicit(&ring->recorded, memory_order_acquire);
}

static ull__event copy_slot(const slot *slot) {
  uint64_t time_ns = atomic_load_explicit(&slot->word[0], memory_order_acquire);
  uint64_t bytes = atomic_load_explicit(&slot->word[1], memory_order_acquire);
  uint64_t packed = atomic_load_explicit(&slot->word[2], memory_order_acquire);
  return (ull__event){.time_ns = time_ns,
                      .bytes = bytes,
                      .id = (uint32_t)(packed >> 32),
                      .kind = (uint16_t)(packed >> 16),
                      .lane = (uint16_t)packed};
}

static uint64_t oldest_whole(const ull__event_ring *ring) {
  uint64_t claimed = atomic_load_explicit(&ring->claimed, memory_order_relaxed);
  return claimed > ring->capacity ? claimed - ring->capacity : 0;
}

size_t ull__event_ring_read(const ull__event_ring *ring, uint64_t *cursor, ull__event *out,
                            size_t most, uint64_t *lost) {
  size_t copied = 0;
  uint64_t recorded = ull__event_ring_recorded(ring);
  while (copied < most && *cursor < recorded) {
    ull__event event = copy_slot(&ring->slots[*cursor & (ring->capacity - 1)]);
    uint64_t oldest = oldest_whole(ring);
    if (*cursor < oldest) {
      *lost += oldest - *cursor;
      *cursor = oldest;
      continue;
    }
    out[copied++] = event;
    (*cursor)++;
  }
  return copied;
}
