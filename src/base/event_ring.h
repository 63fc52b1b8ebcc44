/* The recorder: a ring of fixed-size events written by one thread without locks or allocation, read
 * by another while it is written. When the reader is slow the oldest events are lost, and counted:
 * recording never waits. */
#ifndef ULL_BASE_EVENT_RING_H
#define ULL_BASE_EVENT_RING_H

#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

typedef struct ull__event {
  uint64_t time_ns;
  uint64_t bytes;
  uint32_t id;   /* instruction, sample, file: as the kind says */
  uint16_t kind; /* of the module that records */
  uint16_t lane;
} ull__event;

typedef struct ull__event_ring ull__event_ring;

/* Room for `capacity` events, rounded up to a power of two. Freed with ull__event_ring_free. */
ull_status ull__event_ring_create(size_t capacity, ull__event_ring **out);
void ull__event_ring_free(ull__event_ring *ring); /* NULL is allowed */

/* One thread at a time. */
void ull__event_ring_record(ull__event_ring *ring, ull__event event);

/* Events recorded since the ring was made. Any thread. */
uint64_t ull__event_ring_recorded(const ull__event_ring *ring);

/* Copies up to `most` events from number *cursor on, oldest first, moves the cursor behind them and
 * adds the number of overwritten events it had to skip to *lost. Returns how many it copied. Any
 * thread, any number of cursors. */
size_t ull__event_ring_read(const ull__event_ring *ring, uint64_t *cursor, ull__event *out,
                            size_t most, uint64_t *lost);

#endif
