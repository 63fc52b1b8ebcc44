/* Blocks of 16 KiB, or of one large item; items are cut from the newest block only. */
#include "memory/arena.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

struct ull__arena_block {
  ull__arena_block *next;
  size_t used_bytes, capacity_bytes;
  max_align_t items[];
};

enum { BLOCK_BYTES = 16384 };

static ull_status add_block(ull__arena *arena, uint64_t least_bytes) {
  uint64_t capacity = least_bytes > BLOCK_BYTES ? least_bytes : BLOCK_BYTES, bytes;
  ULL__TRY(ull__size_add(capacity, sizeof(ull__arena_block), "an arena block", &bytes));
  ull__arena_block *block = ull__alloc(bytes, 1);
  if (block == NULL) return ull_error_last()->status;
  block->next = arena->blocks;
  block->capacity_bytes = capacity;
  arena->blocks = block;
  return ULL_OK;
}

void *ull__arena_alloc(ull__arena *arena, size_t count, size_t size) {
  uint64_t bytes, taken;
  if (ull__size_mul(count, size, "an arena item", &bytes) != ULL_OK) return NULL;
  if (ull__size_align(bytes, _Alignof(max_align_t), "an arena item", &taken) != ULL_OK) return NULL;
  ull__arena_block *block = arena->blocks;
  if (block == NULL || block->capacity_bytes - block->used_bytes < taken) {
    if (add_block(arena, taken) != ULL_OK) return NULL;
    block = arena->blocks;
  }
  void *item = (unsigned char *)block->items + block->used_bytes;
  block->used_bytes += taken;
  arena->used_bytes += taken;
  return item;
}

char *ull__arena_strdup(ull__arena *arena, const char *text) {
  size_t length = strlen(text);
  char *copy = ull__arena_alloc(arena, length + 1, 1);
  if (copy != NULL) memcpy(copy, text, length);
  return copy;
}

char *ull__arena_format(ull__arena *arena, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = NULL;
  if (length < 0) ull__fail(ULL_ERROR_INVALID, "a text that cannot be formatted: %s", format);
  if (length >= 0) text = ull__arena_alloc(arena, (size_t)length + 1, 1);
  if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

void ull__arena_free(ull__arena *arena) {
  while (arena->blocks != NULL) {
    ull__arena_block *block = arena->blocks;
    arena->blocks = block->next;
    ull__free(block);
  }
  *arena = (ull__arena){0};
}
