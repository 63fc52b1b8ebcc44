/* Drawing, pixel by pixel. */
#include "cli/canvas.h"

#include <stdlib.h>
#include <string.h>

#include "cli/font.h"

enum { JPEG_QUALITY = 95 };

bool canvas_create(canvas *to, int width, int height, colour all) {
  *to = (canvas){.width = width, .height = height};
  to->pixels = malloc((size_t)width * (size_t)height * 3);
  if (to->pixels != NULL) canvas_fill(to, 0, 0, width, height, all);
  return to->pixels != NULL;
}

void canvas_free(canvas *c) {
  free(c->pixels);
  c->pixels = NULL;
}

static int clamp(int value, int most) {
  return value < 0 ? 0 : value > most ? most : value;
}

void canvas_fill(canvas *to, int x, int y, int width, int height, colour with) {
  int right = clamp(x + width, to->width), bottom = clamp(y + height, to->height);
  for (int row = clamp(y, to->height); row < bottom; row++)
    for (int column = clamp(x, to->width); column < right; column++)
      memcpy(to->pixels + ((size_t)row * (size_t)to->width + (size_t)column) * 3, &with, 3);
}

static void draw_glyph(canvas *to, int x, int y, int scale, colour with, char letter) {
  const uint8_t *rows = font[letter - FONT_FIRST];
  for (int row = 0; row < FONT_HEIGHT; row++)
    for (int column = 0; column < FONT_WIDTH; column++)
      if (rows[row] >> (FONT_WIDTH - 1 - column) & 1)
        canvas_fill(to, x + column * scale, y + row * scale, scale, scale, with);
}

/* Letters to draw, one a character of the text. */
static void simplify(const char *text, char *letters, size_t room) {
  size_t used = 0;
  for (; *text != '\0' && used + 1 < room; text++) {
    unsigned char c = (unsigned char)*text;
    if ((c & 0xC0) == 0x80) continue; /* the rest of a character */
    letters[used++] = c >= FONT_FIRST && c <= FONT_LAST ? (char)c : '?';
  }
  letters[used] = '\0';
}

void canvas_text(canvas *to, int x, int y, int width, int scale, colour with, const char *text) {
  char letters[512];
  int step = CANVAS_GLYPH_WIDTH * scale, room = width / step;
  simplify(text, letters, sizeof letters);
  if ((int)strlen(letters) > room && room >= 2 && room < (int)sizeof letters) {
    letters[room - 2] = letters[room - 1] = '.';
    letters[room] = '\0';
  }
  for (int i = 0; letters[i] != '\0' && i < room; i++)
    draw_glyph(to, x + i * step, y, scale, with, letters[i]);
}

bool canvas_encode(const canvas *from, bool jpeg, ull_encoded *out) {
  ull_pixels pixels = {from->pixels, from->width, from->height, 3};
  return (jpeg ? ull_image_encode_jpeg(&pixels, JPEG_QUALITY, out)
               : ull_image_encode_png(&pixels, out)) == ULL_OK;
}
