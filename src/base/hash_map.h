/* Hash maps from texts and from numbers to 64-bit values.
 *
 * Entries keep the order in which they were put, and can be walked in it, so that nothing depends
 * on hashes or addresses. Zero-initialise; free when done. */
#ifndef ULL_BASE_HASH_MAP_H
#define ULL_BASE_HASH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

typedef struct ull__text_entry {
  char *key; /* owned by the map */
  uint64_t value;
  uint64_t hash;
} ull__text_entry;

typedef struct ull__text_map {
  ull__text_entry *items;
  size_t count, capacity;
  uint32_t *slots; /* index into items + 1; 0 = free */
  size_t slot_count;
} ull__text_map;

/* Sets the value under a copy of `key`, replacing one that is there. */
ull_status ull__text_map_put(ull__text_map *map, const char *key, uint64_t value);
/* Where the key's value lies, until the next put; NULL where the key is absent. */
uint64_t *ull__text_map_find(const ull__text_map *map, const char *key);
void ull__text_map_free(ull__text_map *map);

typedef struct ull__id_entry {
  uint64_t key;
  uint64_t value;
} ull__id_entry;

typedef struct ull__id_map {
  ull__id_entry *items;
  size_t count, capacity;
  uint32_t *slots;
  size_t slot_count;
} ull__id_map;

ull_status ull__id_map_put(ull__id_map *map, uint64_t key, uint64_t value);
uint64_t *ull__id_map_find(const ull__id_map *map, uint64_t key);
void ull__id_map_free(ull__id_map *map);

#endif
