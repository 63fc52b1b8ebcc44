/* Well-formed UTF-8 by the table of RFC 3629: the first byte gives the length and bounds the second
 * one. */
#include "base/utf8.h"

#include <stdio.h>

static bool continues(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

/* Whether a second byte can follow this first one. */
static bool can_follow(unsigned char first, unsigned char second) {
  if (!continues(second)) return false;
  if (first == 0xE0) return second >= 0xA0;
  if (first == 0xED) return second < 0xA0;
  if (first == 0xF0) return second >= 0x90;
  if (first == 0xF4) return second < 0x90;
  return true;
}

size_t ull__utf8_length(const char *text) {
  const unsigned char *byte = (const unsigned char *)text;
  if (byte[0] < 0x80) return byte[0] != 0;
  if (byte[0] < 0xC2 || byte[0] > 0xF4) return 0;
  size_t length = byte[0] < 0xE0 ? 2 : byte[0] < 0xF0 ? 3 : 4;
  if (!can_follow(byte[0], byte[1])) return 0;
  for (size_t i = 2; i < length; i++)
    if (!continues(byte[i])) return 0;
  return length;
}

bool ull__utf8_is_valid(const char *text) {
  while (*text) {
    size_t length = ull__utf8_length(text);
    if (length == 0) return false;
    text += length;
  }
  return true;
}

void ull__utf8_clean(char *text) {
  while (*text) {
    size_t length = ull__utf8_length(text);
    bool control = (unsigned char)*text < 0x20 || *text == 0x7F;
    if (length == 0 || control) *text = '?';
    text += length > 0 ? length : 1;
  }
}

const char *ull__utf8_told(const char *text, char *buffer, size_t bytes) {
  snprintf(buffer, bytes, "%s", text);
  ull__utf8_clean(buffer);
  return buffer;
}
