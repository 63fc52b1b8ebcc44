/* UTF-8 as the Unicode standard's table 3-7 has it: which second byte may follow which first. */
#include "data/text/unicode.h"

#include <string.h>

/* Bytes of the character that `text` begins with; where there is none, 0, and *bad is the length of
 * the part to be replaced. */
static size_t measure(const uint8_t *text, size_t bytes, size_t *bad) {
  uint8_t first = text[0], low = 0x80, high = 0xbf;
  size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  *bad = 1;
  if (length <= 1) return length;
  if (first > 0xf4) return 0;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  for (size_t i = 1; i < length; i++) {
    if (i >= bytes || text[i] < low || text[i] > high) return 0;
    low = 0x80;
    high = 0xbf;
    *bad = i + 1;
  }
  return length;
}

/* Most texts are ASCII for long: eight bytes at a time. */
static size_t skip_ascii(const uint8_t *text, size_t at, size_t bytes) {
  uint64_t word;
  while (bytes - at >= sizeof word) {
    memcpy(&word, text + at, sizeof word);
    if (word & UINT64_C(0x8080808080808080)) break;
    at += sizeof word;
  }
  while (at < bytes && text[at] < 0x80) at++;
  return at;
}

size_t ull__unicode_valid_prefix(const uint8_t *text, size_t bytes) {
  size_t at = 0, bad;
  for (;;) {
    at = skip_ascii(text, at, bytes);
    if (at == bytes) return at;
    size_t length = measure(text + at, bytes - at, &bad);
    if (length == 0) return at;
    at += length;
  }
}

size_t ull__unicode_repair(const uint8_t *text, size_t bytes, uint8_t *to) {
  static const uint8_t replacement[] = {0xef, 0xbf, 0xbd};
  size_t written = 0, bad;
  for (size_t at = 0; at < bytes;) {
    size_t length = measure(text + at, bytes - at, &bad);
    memcpy(to + written, length > 0 ? text + at : replacement, length > 0 ? length : 3);
    written += length > 0 ? length : 3;
    at += length > 0 ? length : bad;
  }
  return written;
}
