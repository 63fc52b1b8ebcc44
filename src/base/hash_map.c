/* Open addressing with linear probing over a table of entry numbers, at most half full. */
#include "base/hash_map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vector.h"

static uint64_t hash_text(const char *text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001B3u;
  return hash ^ (hash >> 29);
}

static uint64_t hash_id(uint64_t key) {
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
  return key ^ (key >> 31);
}

/* Puts entry `number` into the first free slot of its probe sequence. */
static void occupy(uint32_t *slots, size_t slot_count, uint64_t hash, size_t number) {
  size_t slot = hash & (slot_count - 1);
  while (slots[slot] != 0) slot = (slot + 1) & (slot_count - 1);
  slots[slot] = (uint32_t)(number + 1);
}

/* A larger table, empty, where one more entry would fill the present one by more than half; else
 * NULL in *out. */
static ull_status widen(size_t slot_count, size_t count, uint32_t **out, size_t *out_count) {
  *out = NULL;
  if (2 * (count + 1) <= slot_count) return ULL_OK;
  if (count >= UINT32_MAX / 4) return ULL__FAIL(ULL_ERROR_OVERFLOW, "a map with 2^30 entries");
  *out_count = slot_count == 0 ? 16 : 2 * slot_count;
  *out = ull__alloc(*out_count, sizeof **out);
  return *out != NULL ? ULL_OK : ull_error_last()->status;
}

static ull_status text_map_widen(ull__text_map *map) {
  uint32_t *slots;
  size_t slot_count;
  ULL__TRY(widen(map->slot_count, map->count, &slots, &slot_count));
  if (slots == NULL) return ULL_OK;
  for (size_t i = 0; i < map->count; i++) occupy(slots, slot_count, map->items[i].hash, i);
  ull__free(map->slots);
  map->slots = slots;
  map->slot_count = slot_count;
  return ULL_OK;
}

uint64_t *ull__text_map_find(const ull__text_map *map, const char *key) {
  if (map->slot_count == 0) return NULL;
  uint64_t hash = hash_text(key);
  size_t slot = hash & (map->slot_count - 1);
  for (; map->slots[slot] != 0; slot = (slot + 1) & (map->slot_count - 1)) {
    ull__text_entry *entry = &map->items[map->slots[slot] - 1];
    if (entry->hash == hash && strcmp(entry->key, key) == 0) return &entry->value;
  }
  return NULL;
}

ull_status ull__text_map_put(ull__text_map *map, const char *key, uint64_t value) {
  uint64_t *found = ull__text_map_find(map, key);
  if (found != NULL) {
    *found = value;
    return ULL_OK;
  }
  ULL__TRY(text_map_widen(map));
  char *copy = ull__strdup(key);
  if (copy == NULL) return ull_error_last()->status;
  ull__text_entry entry = {copy, value, hash_text(key)};
  ull_status status = ull__vector_push(map, entry);
  if (status != ULL_OK) {
    ull__free(copy);
    return status;
  }
  occupy(map->slots, map->slot_count, entry.hash, map->count - 1);
  return ULL_OK;
}

void ull__text_map_free(ull__text_map *map) {
  for (size_t i = 0; i < map->count; i++) ull__free(map->items[i].key);
  ull__free(map->items);
  ull__free(map->slots);
  *map = (ull__text_map){0};
}

static ull_status id_map_widen(ull__id_map *map) {
  uint32_t *slots;
  size_t slot_count;
  ULL__TRY(widen(map->slot_count, map->count, &slots, &slot_count));
  if (slots == NULL) return ULL_OK;
  for (size_t i = 0; i < map->count; i++) {
    occupy(slots, slot_count, hash_id(map->items[i].key), i);
  }
  ull__free(map->slots);
  map->slots = slots;
  map->slot_count = slot_count;
  return ULL_OK;
}

uint64_t *ull__id_map_find(const ull__id_map *map, uint64_t key) {
  if (map->slot_count == 0) return NULL;
  size_t slot = hash_id(key) & (map->slot_count - 1);
  for (; map->slots[slot] != 0; slot = (slot + 1) & (map->slot_count - 1)) {
    ull__id_entry *entry = &map->items[map->slots[slot] - 1];
    if (entry->key == key) return &entry->value;
  }
  return NULL;
}

ull_status ull__id_map_put(ull__id_map *map, uint64_t key, uint64_t value) {
  uint64_t *found = ull__id_map_find(map, key);
  if (found != NULL) {
    *found = value;
    return ULL_OK;
  }
  ULL__TRY(id_map_widen(map));
  ULL__TRY(ull__vector_push(map, ((ull__id_entry){key, value})));
  occupy(map->slots, map->slot_count, hash_id(key), map->count - 1);
  return ULL_OK;
}

void ull__id_map_free(ull__id_map *map) {
  ull__free(map->items);
  ull__free(map->slots);
  *map = (ull__id_map){0};
}
