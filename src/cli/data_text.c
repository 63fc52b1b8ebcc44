/* Names in JSON, whatever their bytes. */
#include "cli/data_text.h"

#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at `at`, 0 where there is none. */
static size_t sequence_length(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  size_t length = *at < 0x80 ? 1 : *at >= 0xC2 && *at < 0xE0 ? 2 : (*at & 0xF0) == 0xE0 ? 3 : 0;
  if (*at >= 0xF0 && *at <= 0xF4) length = 4;
  for (size_t i = 1; i < length; i++)
    if ((at[i] & 0xC0) != 0x80) return 0;
  if (*at == 0xE0 && at[1] < 0xA0) return 0;
  if (*at == 0xED && at[1] > 0x9F) return 0;
  if (*at == 0xF0 && at[1] < 0x90) return 0;
  if (*at == 0xF4 && at[1] > 0x8F) return 0;
  return length;
}

void cli_data_put_text(FILE *file, const char *text) {
  fputc('"', file);
  for (size_t length; *text != '\0'; text += length) {
    unsigned char byte = (unsigned char)*text;
    length = sequence_length(text);
    if (length == 0) {
      fprintf(file, "\\udc%02x", byte);
      length = 1;
    } else if (byte < 0x20 || byte == '"' || byte == '\\') {
      fprintf(file, "\\u%04x", byte);
    } else {
      fwrite(text, 1, length, file);
    }
  }
  fputc('"', file);
}

json_t *cli_data_text(const char *text) {
  char *told = malloc(4 * strlen(text) + 1), *to = told;
  if (told == NULL) return NULL;
  while (*text != '\0') {
    size_t length = sequence_length(text);
    if (length == 0) {
      to += sprintf(to, "\\x%02x", (unsigned char)*text++);
      continue;
    }
    memcpy(to, text, length);
    to += length;
    text += length;
  }
  json_t *string = json_stringn(told, (size_t)(to - told));
  free(told);
  return string;
}
