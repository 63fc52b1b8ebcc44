/* libspng's allocator has no argument for a context, so the PNG in work is the thread's own. Blocks
 * carry their size and are never given back one by one. */
#include <string.h>

#include "data/image/png.h"

enum { HEAD = 32 };

static _Thread_local ull__png *in_work;

void ull__png_work_on(ull__png *png) {
  in_work = png;
}

static void *take(size_t bytes) {
  ull__png *png = in_work;
  uint64_t whole = HEAD + (((uint64_t)bytes + (HEAD - 1)) & ~(uint64_t)(HEAD - 1));
  uint64_t *used = png->decoding ? &png->large_used : &png->small_used;
  uint64_t most = png->decoding ? png->large_bytes : ULL__PNG_SMALL_BYTES;
  uint8_t *from = png->decoding ? png->large : png->small;
  if (bytes > most || whole > most - *used) return NULL;
  uint8_t *block = from + *used;
  *used += whole;
  memcpy(block, &bytes, sizeof bytes);
  return block + HEAD;
}

static void *take_zeroed(size_t count, size_t size) {
  if (size != 0 && count > SIZE_MAX / size) return NULL;
  void *block = take(count * size);
  return block != NULL ? memset(block, 0, count * size) : NULL;
}

static void *take_again(void *old, size_t bytes) {
  size_t before = 0;
  if (old != NULL) memcpy(&before, (uint8_t *)old - HEAD, sizeof before);
  if (old != NULL && bytes <= before) return old;
  void *block = take(bytes);
  if (block != NULL && before > 0) memcpy(block, old, before);
  return block;
}

static void give_back(void *block) {
  (void)block;
}

struct spng_alloc ull__png_allocator = {take, take_again, take_zeroed, give_back};
