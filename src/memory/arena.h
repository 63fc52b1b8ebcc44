/* A bump allocator for metadata that dies together: graphs' names, a program's tables. */
#ifndef ULL_MEMORY_ARENA_H
#define ULL_MEMORY_ARENA_H

#include <stddef.h>

#include "ullage/status.h"

typedef struct ull__arena_block ull__arena_block;

/* Zero-initialise; the first allocation takes the first block. */
typedef struct ull__arena {
  ull__arena_block *blocks; /* newest first */
  size_t used_bytes;        /* handed out, with padding */
} ull__arena;

/* Zeroed memory aligned for any type, valid until the arena is freed; NULL with a record when
 * memory is out or the product overflows. */
void *ull__arena_alloc(ull__arena *arena, size_t count, size_t size);
char *ull__arena_strdup(ull__arena *arena, const char *text);

/* printf into the arena. */
char *ull__arena_format(ull__arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void ull__arena_free(ull__arena *arena);

#endif
