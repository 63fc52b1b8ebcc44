/* EXIF is a TIFF file: a byte order, the place of a directory, and entries of twelve bytes. Only
 * the first directory is read, and nothing that points elsewhere. */
#include "data/image/exif.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

typedef struct tiff {
  const uint8_t *bytes;
  size_t count;
  bool big;
} tiff;

static uint32_t read16(const tiff *t, size_t at) {
  const uint8_t *b = t->bytes + at;
  return t->big ? (uint32_t)b[0] << 8 | b[1] : (uint32_t)b[1] << 8 | b[0];
}

static uint32_t read32(const tiff *t, size_t at) {
  uint32_t first = read16(t, at), second = read16(t, at + 2);
  return t->big ? first << 16 | second : second << 16 | first;
}

enum { HEADER = 8, ENTRY = 12, TAG_ORIENTATION = 0x112, TYPE_SHORT = 3, TYPE_LONG = 4 };

static int orientation_in(const tiff *t, size_t at) {
  uint32_t type = read16(t, at + 2);
  uint32_t value = type == TYPE_SHORT  ? read16(t, at + 8)
                   : type == TYPE_LONG ? read32(t, at + 8)
                                       : 0;
  return value >= 1 && value <= 8 ? (int)value : 0;
}

static int search(const tiff *t) {
  size_t at = read32(t, 4);
  if (at < HEADER || at > t->count || t->count - at < 2) return 0;
  size_t entries = read16(t, at);
  for (at += 2; entries > 0 && t->count - at >= ENTRY; entries--, at += ENTRY)
    if (read16(t, at) == TAG_ORIENTATION) return orientation_in(t, at);
  return 0;
}

int ull__exif_orientation(const uint8_t *bytes, size_t count) {
  if (count >= 6 && memcmp(bytes, "Exif\0", 5) == 0) bytes += 6, count -= 6;
  if (count < HEADER) return 0;
  tiff t = {.bytes = bytes, .count = count, .big = bytes[0] == 'M'};
  bool marked = (bytes[0] == 'I' || bytes[0] == 'M') && bytes[1] == bytes[0];
  return marked && read16(&t, 2) == 42 ? search(&t) : 0;
}

int ull__xmp_orientation(const uint8_t *bytes, size_t count) {
  static const char name[] = "tiff:Orientation";
  const size_t length = sizeof name - 1;
  const uint8_t *end = bytes + count;
  for (const uint8_t *at = bytes; (at = memmem(at, (size_t)(end - at), name, length)) != NULL;) {
    at += length;
    size_t left = (size_t)(end - at);
    size_t lead = left >= 3 && at[0] == '=' && (at[1] == '"' || at[1] == '\'') ? 2
                  : left >= 2 && at[0] == '>'                                  ? 1
                                                                               : 0;
    if (lead > 0 && at[lead] >= '1' && at[lead] <= '8') return at[lead] - '0';
  }
  return 0;
}

static int hex_digit(uint8_t c) {
  return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

/* Digits to bytes, white space left out; ends at anything else. */
static size_t read_hex(const uint8_t *text, size_t count, uint8_t *to, size_t most) {
  size_t digits = 0;
  for (size_t i = 0; i < count && digits / 2 < most; i++) {
    int digit = hex_digit(text[i]);
    if (digit < 0 && !isspace(text[i])) break;
    if (digit < 0) continue;
    to[digits / 2] = (uint8_t)(digits & 1 ? to[digits / 2] << 4 | digit : digit);
    digits++;
  }
  return digits / 2;
}

/* "\nexif\n      94\n45786966..." */
int ull__hex_profile_orientation(const uint8_t *text, size_t count) {
  uint8_t exif[4096];
  const uint8_t *digits = text, *end = text + count;
  for (int line = 0; line < 3; line++) {
    digits = memchr(digits, '\n', (size_t)(end - digits));
    if (digits == NULL) return 0;
    digits++;
  }
  return ull__exif_orientation(exif, read_hex(digits, (size_t)(end - digits), exif, sizeof exif));
}
