/* A picture that commands draw into: rectangles of pixels, and small text. */
#ifndef ULL_CLI_CANVAS_H
#define ULL_CLI_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

#include "ullage/image_encode.h"

typedef struct canvas {
  int width, height;
  uint8_t *pixels; /* [height, width, 3] */
} canvas;

typedef struct colour {
  uint8_t red, green, blue;
} colour;

/* All of one colour. False when memory is out. */
bool canvas_create(canvas *to, int width, int height, colour all);
void canvas_free(canvas *c);

/* Outside the canvas nothing is drawn. */
void canvas_fill(canvas *to, int x, int y, int width, int height, colour with);

enum { CANVAS_GLYPH_WIDTH = 6, CANVAS_GLYPH_HEIGHT = 8 }; /* with what lies between them */

/* UTF-8; what is not ASCII is drawn as one '?' a character. Cut to `width` pixels, where ".." says
 * so; every dot of the letters is `scale` pixels wide and high. */
void canvas_text(canvas *to, int x, int y, int width, int scale, colour with, const char *text);

/* As PNG; freed with ull_encoded_free. False with the error record where there is no memory. */
bool canvas_encode(const canvas *from, bool jpeg, ull_encoded *out);

#endif
