#include "support/png_files.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

int png_channels(int colour) {
  static const int channels[] = {1, 0, 3, 1, 2, 0, 4};
  return channels[colour];
}

unsigned png_sample(const png_form *form, int x, int y, int c) {
  unsigned mixed = (unsigned)(x * 2654435761u) ^ (unsigned)(y * 40503u + 17u) * 97u ^
                   (unsigned)(c + 1) * 2246822519u;
  mixed ^= mixed >> 15;
  return mixed >> 3 & ((1u << form->depth) - 1);
}

void png_entry(unsigned index, uint8_t rgb[3]) {
  rgb[0] = (uint8_t)(index * 7 + 3);
  rgb[1] = (uint8_t)(255 - index);
  rgb[2] = (uint8_t)(index * 29);
}

void append_png_chunk(byte_buffer *buffer, const char type[4], const void *content, size_t count) {
  append_big32(buffer, (uint32_t)count);
  append_bytes(buffer, type, 4);
  if (count > 0) append_bytes(buffer, content, count);
  uLong checksum = crc32(crc32(0, NULL, 0), (const Bytef *)type, 4);
  if (count > 0) checksum = crc32(checksum, content, (uInt)count);
  append_big32(buffer, (uint32_t)checksum);
}

void append_png_begin(byte_buffer *buffer, const png_form *form) {
  uint8_t header[13] = {0,
                        0,
                        (uint8_t)(form->width >> 8),
                        (uint8_t)form->width,
                        0,
                        0,
                        (uint8_t)(form->height >> 8),
                        (uint8_t)form->height,
                        (uint8_t)form->depth,
                        (uint8_t)form->colour,
                        0,
                        0,
                        form->interlaced};
  append_bytes(buffer, "\x89PNG\r\n\x1a\n", 8);
  append_png_chunk(buffer, "IHDR", header, sizeof header);
  if (form->colour != PNG_PALETTE) return;
  uint8_t palette[256][3];
  for (unsigned i = 0; i < 256; i++) png_entry(i, palette[i]);
  append_png_chunk(buffer, "PLTE", palette, 3u << form->depth);
}

void append_png_end(byte_buffer *buffer) {
  append_png_chunk(buffer, "IEND", NULL, 0);
}

/* Samples of one row of one pass: columns x0, x0 + dx, ... Returns its bytes. */
static size_t fill_row(const png_form *form, int y, int x0, int dx, uint8_t *row) {
  size_t bit = 0;
  for (int x = x0; x < form->width; x += dx)
    for (int c = 0; c < png_channels(form->colour); c++, bit += (size_t)form->depth) {
      unsigned value = png_sample(form, x, y, c);
      if (form->depth == 16) {
        row[bit / 8] = (uint8_t)(value >> 8);
        row[bit / 8 + 1] = (uint8_t)value;
      } else {
        if (bit % 8 == 0) row[bit / 8] = 0;
        row[bit / 8] |= (uint8_t)(value << (8 - (unsigned)form->depth - bit % 8));
      }
    }
  return (bit + 7) / 8;
}

static uint8_t paeth(int a, int b, int c) {
  int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
  return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

static void append_filtered(byte_buffer *raw, int filter, const uint8_t *row, const uint8_t *above,
                            size_t count, size_t back) {
  uint8_t kind = (uint8_t)filter;
  append_bytes(raw, &kind, 1);
  for (size_t i = 0; i < count; i++) {
    int a = i >= back ? row[i - back] : 0, b = above[i], c = i >= back ? above[i - back] : 0;
    const int guesses[] = {0, a, b, (a + b) / 2, paeth(a, b, c)};
    uint8_t byte = (uint8_t)(row[i] - guesses[filter]);
    append_bytes(raw, &byte, 1);
  }
}

static void append_pass(byte_buffer *raw, const png_form *form, int x0, int y0, int dx, int dy) {
  size_t most = (size_t)form->width * 8 + 8;
  uint8_t *row = calloc(1, most), *above = calloc(1, most);
  size_t bits = (size_t)png_channels(form->colour) * (size_t)form->depth;
  for (int y = y0, n = 0; y < form->height && x0 < form->width; y += dy, n++) {
    size_t count = fill_row(form, y, x0, dx, row);
    append_filtered(raw, n % 5, row, above, count, bits < 8 ? 1 : bits / 8);
    memcpy(above, row, count);
  }
  free(row);
  free(above);
}

void append_png_pixels(byte_buffer *buffer, const png_form *form) {
  static const int passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                   {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  byte_buffer raw = {0};
  if (!form->interlaced) append_pass(&raw, form, 0, 0, 1, 1);
  for (int p = 0; p < 7 && form->interlaced; p++)
    append_pass(&raw, form, passes[p][0], passes[p][1], passes[p][2], passes[p][3]);
  uLongf length = compressBound((uLong)raw.count);
  uint8_t *packed = malloc(length);
  compress(packed, &length, raw.bytes, (uLong)raw.count);
  size_t piece = form->piece > 0 ? form->piece : length;
  for (size_t at = 0; at < length; at += piece)
    append_png_chunk(buffer, "IDAT", packed + at, length - at < piece ? length - at : piece);
  free(packed);
  free_buffer(&raw);
}

byte_buffer make_png(const png_form *form) {
  byte_buffer buffer = {0};
  append_png_begin(&buffer, form);
  append_png_pixels(&buffer, form);
  append_png_end(&buffer);
  return buffer;
}
