/* Names of files in JSON lines. */
#include "cli/data_bench.h"

/* Length of the UTF-8 sequence at `at`, 0 where there is none. */
static int sequence_length(const unsigned char *at) {
  int length = *at < 0x80 ? 1 : *at >= 0xC2 && *at < 0xE0 ? 2 : (*at & 0xF0) == 0xE0 ? 3 : 0;
  if (*at >= 0xF0 && *at <= 0xF4) length = 4;
  for (int i = 1; i < length; i++)
    if ((at[i] & 0xC0) != 0x80) return 0;
  if (*at == 0xE0 && at[1] < 0xA0) return 0;
  if (*at == 0xED && at[1] > 0x9F) return 0;
  if (*at == 0xF0 && at[1] < 0x90) return 0;
  if (*at == 0xF4 && at[1] > 0x8F) return 0;
  return length;
}

void cli_data_put_text(FILE *file, const char *text) {
  fputc('"', file);
  for (const unsigned char *at = (const unsigned char *)text; *at != 0;) {
    int length = sequence_length(at);
    if (length == 0) {
      fprintf(file, "\\udc%02x", *at++);
    } else if (length == 1 && (*at < 0x20 || *at == '"' || *at == '\\')) {
      fprintf(file, "\\u%04x", *at++);
    } else {
      fwrite(at, 1, (size_t)length, file);
      at += length;
    }
  }
  fputc('"', file);
}
