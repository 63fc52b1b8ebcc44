/* Open addressing over entries that are never removed. */
#include "data/text/vocabulary.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/vector.h"

static ull__vocabulary_entry *find(const ull__vocabulary *v, const void *text, size_t length,
                                   uint64_t hash) {
  if (v->slot_count == 0) return NULL;
  for (size_t slot = hash & (v->slot_count - 1); v->slots[slot] != 0;
       slot = (slot + 1) & (v->slot_count - 1)) {
    ull__vocabulary_entry *entry = &v->entries[v->slots[slot] - 1];
    if (entry->hash != hash || entry->length != length) continue;
    if (memcmp(v->bytes + entry->at, text, length) == 0) return entry;
  }
  return NULL;
}

static void place(ull__vocabulary *v, size_t index) {
  size_t slot = v->entries[index].hash & (v->slot_count - 1);
  while (v->slots[slot] != 0) slot = (slot + 1) & (v->slot_count - 1);
  v->slots[slot] = (uint32_t)index + 1;
}

/* At most half of the slots are taken. */
static ull_status grow_slots(ull__vocabulary *v) {
  if ((v->count + 1) * 2 <= v->slot_count) return ULL_OK;
  size_t count = v->slot_count ? v->slot_count * 2 : 256;
  uint32_t *slots = ull__alloc(count, sizeof *slots);
  if (slots == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  ull__free(v->slots);
  v->slots = slots;
  v->slot_count = count;
  for (size_t i = 0; i < v->count; i++) place(v, i);
  return ULL_OK;
}

static ull_status grow_ids(ull__vocabulary *v, uint32_t id) {
  size_t capacity = v->id_capacity ? v->id_capacity : 256;
  while (capacity <= id) capacity *= 2;
  if (capacity == v->id_capacity) return ULL_OK;
  uint32_t *by_id = ull__realloc(v->by_id, capacity, sizeof *by_id);
  if (by_id == NULL) return ULL_ERROR_OUT_OF_MEMORY;
  memset(by_id + v->id_capacity, 0, (capacity - v->id_capacity) * sizeof *by_id);
  v->by_id = by_id;
  v->id_capacity = capacity;
  return ULL_OK;
}

static ull_status refuse(const void *text, size_t length, uint32_t id, const char *why) {
  return ULL__FAIL(ULL_ERROR_DATA, "token '%.*s' with number %u: %s",
                   (int)(length < 64 ? length : 64), (const char *)text, id, why);
}

ull_status ull__vocabulary_put(ull__vocabulary *v, const void *text, size_t length, uint32_t id) {
  uint64_t hash = ull__hash_bytes(text, length);
  if (id >= ULL__VOCABULARY_MOST || v->count >= ULL__VOCABULARY_MOST || length > INT32_MAX)
    return refuse(text, length, id, "the vocabulary is too large");
  if (find(v, text, length, hash) != NULL) return refuse(text, length, id, "is there twice");
  if (id < v->id_limit && v->by_id[id] != 0) return refuse(text, length, id, "shares its number");
  ULL__TRY(grow_ids(v, id));
  ULL__TRY(ull__vector_grow((void **)&v->entries, &v->capacity, v->count, 1, sizeof *v->entries));
  ULL__TRY(ull__vector_grow((void **)&v->bytes, &v->byte_capacity, v->byte_count, length + 1, 1));
  ULL__TRY(grow_slots(v));
  memcpy(v->bytes + v->byte_count, text, length);
  v->entries[v->count] = (ull__vocabulary_entry){hash, v->byte_count, (uint32_t)length, id};
  v->byte_count += length;
  place(v, v->count++);
  v->by_id[id] = (uint32_t)v->count;
  if (id >= v->id_limit) v->id_limit = id + 1;
  return ULL_OK;
}

bool ull__vocabulary_find(const ull__vocabulary *v, const void *text, size_t length, uint32_t *id) {
  const ull__vocabulary_entry *entry = find(v, text, length, ull__hash_bytes(text, length));
  if (entry != NULL) *id = entry->id;
  return entry != NULL;
}

const uint8_t *ull__vocabulary_text(const ull__vocabulary *v, uint32_t id, size_t *length) {
  if (id >= v->id_limit || v->by_id[id] == 0) return NULL;
  const ull__vocabulary_entry *entry = &v->entries[v->by_id[id] - 1];
  *length = entry->length;
  return v->bytes + entry->at;
}

void ull__vocabulary_free(ull__vocabulary *v) {
  ull__free(v->entries);
  ull__free(v->bytes);
  ull__free(v->slots);
  ull__free(v->by_id);
  *v = (ull__vocabulary){0};
}
