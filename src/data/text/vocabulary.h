/* Texts of tokens and their numbers, both ways. */
#ifndef ULL_DATA_TEXT_VOCABULARY_H
#define ULL_DATA_TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

/* More tokens than any tokenizer has; what passes it is refused before memory is taken for it. */
enum { ULL__VOCABULARY_MOST = 1 << 24 };

typedef struct ull__vocabulary_entry {
  uint64_t hash;
  uint64_t at; /* in bytes */
  uint32_t length, id;
} ull__vocabulary_entry;

/* Zero-initialise. Read by any number of threads once it is complete. */
typedef struct ull__vocabulary {
  ull__vocabulary_entry *entries; /* in the order in which they were put */
  size_t count, capacity;
  uint8_t *bytes;
  size_t byte_count, byte_capacity;
  uint32_t *slots; /* index into entries + 1; 0 = free */
  size_t slot_count;
  uint32_t *by_id; /* index into entries + 1 */
  size_t id_capacity;
  uint32_t id_limit; /* the largest number + 1 */
} ull__vocabulary;

/* Text may hold any bytes. ULL_ERROR_DATA: the text or the number is there already, or the number
 * is too large. */
ull_status ull__vocabulary_put(ull__vocabulary *vocabulary, const void *text, size_t length,
                               uint32_t id);
bool ull__vocabulary_find(const ull__vocabulary *vocabulary, const void *text, size_t length,
                          uint32_t *id);
/* NULL where no token has the number. */
const uint8_t *ull__vocabulary_text(const ull__vocabulary *vocabulary, uint32_t id, size_t *length);
void ull__vocabulary_free(ull__vocabulary *vocabulary);

#endif
