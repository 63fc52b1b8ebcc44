/* Huffman decoding for baseline JPEG, in the place of libjpeg's: the same coefficients, faster.
 *
 * Two thirds of the time that libjpeg-turbo spends on a photo go into its entropy decoder, symbol
 * by symbol. Here one look into a table gives run, size and, where they fit, the coefficient's own
 * bits as well; the bits come 8 bytes at a time where no 0xff is among them. Everything behind the
 * coefficients (inverse DCT, upsampling, colour) stays the library's. */
#ifndef ULL_DATA_IMAGE_JPEG_HUFFMAN_H
#define ULL_DATA_IMAGE_JPEG_HUFFMAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

enum { ULL__HUFFMAN_LOOK = 9, ULL__HUFFMAN_TABLES = 2 };

/* One Huffman table of a file, ready for use. Kept from picture to picture: most files of a camera
 * or an encoder share theirs. */
typedef struct ull__huffman_table {
  bool built;
  uint8_t bits[17], symbols[256]; /* as the file has them */
  int32_t most[18], offset[18];   /* by length: the largest code, and where its symbols begin */
  uint32_t look[1 << ULL__HUFFMAN_LOOK];
} ull__huffman_table;

typedef struct ull__huffman {
  uint64_t bits; /* the next bit is the highest */
  int count;     /* of valid bits */
  int last_dc[MAX_COMPS_IN_SCAN];
  unsigned restarts_to_go;
  ull__huffman_table dc[ULL__HUFFMAN_TABLES], ac[ULL__HUFFMAN_TABLES];
} ull__huffman;

#endif
