/* Code points and their classes, as regular expressions of tokenizers ask for them. */
#ifndef ULL_DATA_TEXT_UNICODE_H
#define ULL_DATA_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "ullage/status.h"

typedef enum ull__unicode_class {
  ULL__UNICODE_OTHER,
  ULL__UNICODE_LETTER, /* \p{L} */
  ULL__UNICODE_NUMBER, /* \p{N} */
  ULL__UNICODE_SPACE,  /* \s */
} ull__unicode_class;

/* Any number: what is beyond Unicode is OTHER. */
ull__unicode_class ull__unicode_class_of(uint32_t code);

/* Reads the code point that valid UTF-8 begins with and says how many bytes it has. */
static inline uint32_t ull__unicode_read(const uint8_t *text, size_t *bytes) {
  if (text[0] < 0x80) return *bytes = 1, text[0];
  if (text[0] < 0xe0) return *bytes = 2, (uint32_t)(text[0] & 31) << 6 | (text[1] & 63);
  if (text[0] < 0xf0) {
    *bytes = 3;
    return (uint32_t)(text[0] & 15) << 12 | (uint32_t)(text[1] & 63) << 6 | (text[2] & 63);
  }
  *bytes = 4;
  return (uint32_t)(text[0] & 7) << 18 | (uint32_t)(text[1] & 63) << 12 |
         (uint32_t)(text[2] & 63) << 6 | (text[3] & 63);
}

/* Where valid UTF-8 ends: `bytes` where all of it is. */
size_t ull__unicode_valid_prefix(const uint8_t *text, size_t bytes);

/* Writes the text with U+FFFD in the place of each maximal part that is no UTF-8, as Unicode
 * recommends and Python's errors="replace" does; at most 3 * bytes. Returns the bytes written. */
size_t ull__unicode_repair(const uint8_t *text, size_t bytes, uint8_t *to);

#endif
