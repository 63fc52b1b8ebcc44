/* Text from outside may be any bytes; what is printed or written as JSON must be UTF-8. */
#ifndef ULL_BASE_UTF8_H
#define ULL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 character that `text` begins with: 1 to 4; 0 where it begins with none, and
 * for the end of the text. No surrogates, no longer forms than needed. */
size_t ull__utf8_length(const char *text);

bool ull__utf8_is_valid(const char *text);

/* Puts '?' in the place of control characters (they would reach a terminal) and of every byte that
 * is part of no character, such as the first half of one that was cut. */
void ull__utf8_clean(char *text);

/* A clean copy in `buffer`, cut where it is longer: what a name of a file becomes among other
 * words. Returns `buffer`. */
const char *ull__utf8_told(const char *text, char *buffer, size_t bytes);

#endif
