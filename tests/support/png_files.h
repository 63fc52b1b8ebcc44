/* PNG files made for tests, chunk by chunk, without a library that the decoder uses too. */
#ifndef TESTS_SUPPORT_PNG_FILES_H
#define TESTS_SUPPORT_PNG_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/data_files.h"

enum { PNG_GREY = 0, PNG_RGB = 2, PNG_PALETTE = 3, PNG_GREY_ALPHA = 4, PNG_RGB_ALPHA = 6 };

typedef struct png_form {
  int width, height, colour, depth;
  bool interlaced;
  size_t piece; /* most bytes of coded data in a chunk; 0 = all in one */
} png_form;

int png_channels(int colour);

/* Channel c of a pixel as stored, below 2^depth; indices stay within the palette of 2^depth. */
unsigned png_sample(const png_form *form, int x, int y, int c);

/* Entry of the palette: red, green, blue. */
void png_entry(unsigned index, uint8_t rgb[3]);

void append_png_begin(byte_buffer *buffer, const png_form *form); /* signature, header, palette */
void append_png_chunk(byte_buffer *buffer, const char type[4], const void *content, size_t count);
void append_png_pixels(byte_buffer *buffer, const png_form *form); /* IDAT, filters in turn */
void append_png_end(byte_buffer *buffer);

/* All of it. The caller frees buffer. */
byte_buffer make_png(const png_form *form);

#endif
