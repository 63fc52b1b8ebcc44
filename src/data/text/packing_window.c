/* Best fit decreasing, in time n log n + n * length / 64: bins hang in lists by the room they have
 * left, and a bit for each room says whether its list is empty. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/text/sequences.h"

#define NONE UINT32_MAX

typedef struct window {
  uint64_t *order;  /* of pieces: what is left to the whole length, and the piece */
  uint64_t *taken;  /* a bit for each room from 0 to length */
  uint32_t *heads;  /* the first bin with that room */
  uint32_t *follow; /* the next bin with the same room; later: the new number of a bin */
  size_t words;
} window;

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void hang(window *w, uint32_t bin, uint64_t room) {
  w->follow[bin] = w->heads[room];
  w->heads[room] = bin;
  w->taken[room / 64] |= UINT64_C(1) << room % 64;
}

/* The least room of at least so much; w->words * 64 where there is none. */
static uint64_t find_room(const window *w, uint64_t least) {
  size_t word = least / 64;
  uint64_t bits = w->taken[word] & ~UINT64_C(0) << least % 64;
  while (bits == 0) {
    if (++word == w->words) return w->words * 64;
    bits = w->taken[word];
  }
  return word * 64 + (uint64_t)__builtin_ctzll(bits);
}

static uint32_t take(window *w, uint64_t room) {
  uint32_t bin = w->heads[room];
  w->heads[room] = w->follow[bin];
  if (w->heads[room] == NONE) w->taken[room / 64] &= ~(UINT64_C(1) << room % 64);
  return bin;
}

static size_t fit(window *w, const ull__piece *pieces, size_t count, int64_t length,
                  uint32_t *bin) {
  uint32_t bins = 0;
  for (size_t i = 0; i < count; i++) {
    size_t piece = (size_t)(w->order[i] & UINT32_MAX);
    uint64_t need = pieces[piece].length, room = find_room(w, need);
    if (room > (uint64_t)length) {
      bin[piece] = bins++;
      room = (uint64_t)length;
    } else {
      bin[piece] = take(w, room);
    }
    hang(w, bin[piece], room - need);
  }
  return bins;
}

/* Bins get their numbers as their first pieces come. */
static void renumber(window *w, size_t count, size_t bins, uint32_t *bin) {
  uint32_t next = 0;
  for (size_t i = 0; i < bins; i++) w->follow[i] = NONE;
  for (size_t i = 0; i < count; i++) {
    if (w->follow[bin[i]] == NONE) w->follow[bin[i]] = next++;
    bin[i] = w->follow[bin[i]];
  }
}

ull_status ull__pack_pieces(const ull__piece *pieces, size_t count, int64_t length, uint32_t *bin,
                            size_t *bins) {
  window w = {.words = (size_t)length / 64 + 1};
  w.order = ull__alloc(count, sizeof *w.order);
  w.taken = ull__alloc(w.words, sizeof *w.taken);
  w.heads = ull__alloc((size_t)length + 1, sizeof *w.heads);
  w.follow = ull__alloc(count, sizeof *w.follow);
  bool has_memory = w.order && w.taken && w.heads && w.follow;
  if (has_memory) {
    memset(w.heads, 0xff, ((size_t)length + 1) * sizeof *w.heads);
    for (size_t i = 0; i < count; i++) w.order[i] = ((uint64_t)length - pieces[i].length) << 32 | i;
    qsort(w.order, count, sizeof *w.order, compare);
    *bins = fit(&w, pieces, count, length, bin);
    renumber(&w, count, *bins, bin);
  }
  ull__free(w.order);
  ull__free(w.taken);
  ull__free(w.heads);
  ull__free(w.follow);
  return has_memory ? ULL_OK : ULL_ERROR_OUT_OF_MEMORY;
}
