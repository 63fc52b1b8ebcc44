/* Huffman decoding for baseline JPEG, in the place of libjpeg's: the same coefficients, faster.
 *
 * Two thirds of the time that libjpeg-turbo spends on a photo go into its entropy decoder, symbol
 * by symbol. Here one look into a table gives a symbol, or two with the second coefficient; the
 * bits come 8 bytes at a time where no 0xff is among them. Everything behind the coefficients
 * (inverse DCT, upsampling, colour) stays the library's. */
#ifndef ULL_DATA_IMAGE_JPEG_HUFFMAN_H
#define ULL_DATA_IMAGE_JPEG_HUFFMAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

enum {
  ULL__HUFFMAN_LOOK = 9,
  ULL__HUFFMAN_PAIR_LOOK = 10,
  ULL__HUFFMAN_LONGEST = 16, /* bits of a code */
  ULL__HUFFMAN_TABLES = 2,
  ULL__HUFFMAN_END = 63 /* "no more coefficients" as a run */
};

/* An entry of a look-up: the symbol that the next LOOK bits begin with; 0 where its code is longer,
 * or there is none. */
enum {
  ULL__ENTRY_TOTAL = 0,   /* 6 bits: the code and the coefficient's own bits */
  ULL__ENTRY_RUN = 6,     /* 6 bits: zeros before the coefficient */
  ULL__ENTRY_LENGTH = 12, /* 6 bits: of the code */
  ULL__ENTRY_REST = 18    /* 6 bits: 63 less the coefficient's own bits */
};

/* A pair's entry: that of its first symbol, but TOTAL is of both, and what follows the first within
 * the next PAIR_LOOK bits. TOTAL is lowest because the next look waits for it. */
enum {
  ULL__PAIR_STEP = 24, /* 7 bits: from the first coefficient to the second; 0: no second symbol */
  ULL__PAIR_VALUE = 32 /* 16 bits: the second coefficient */
};

/* One Huffman table of a file, ready for use. Kept from picture to picture: most files of a camera
 * or an encoder share theirs. */
typedef struct ull__huffman_table {
  bool built;
  uint8_t bits[17], symbols[256]; /* as the file has them */
  int32_t most[18], offset[18];   /* by length: the largest code, and where its symbols begin */
  uint32_t look[1 << ULL__HUFFMAN_LOOK];
} ull__huffman_table;

/* A table of coefficients behind the first: two at a time. */
typedef struct ull__huffman_ac {
  ull__huffman_table table;
  uint64_t pairs[1 << ULL__HUFFMAN_PAIR_LOOK];
} ull__huffman_ac;

typedef struct ull__huffman {
  uint64_t bits; /* the next bit is the highest */
  int count;     /* of valid bits */
  int last_dc[MAX_COMPS_IN_SCAN];
  unsigned restarts_to_go;
  const uint8_t *clean_from; /* source bytes without 0xff, up to clean_to; NULL: unknown */
  const uint8_t *clean_to;
  ull__huffman_table dc[ULL__HUFFMAN_TABLES];
  ull__huffman_ac ac[ULL__HUFFMAN_TABLES];
} ull__huffman;

/* Make a table ready, unless it is. The library has checked it: lengths and symbols fit. */
void ull__huffman_prepare_dc(ull__huffman_table *table, const JHUFF_TBL *from);
void ull__huffman_prepare_ac(ull__huffman_ac *ac, const JHUFF_TBL *from);

/* The entry of a symbol whose code has `length` bits. */
static inline uint32_t ull__huffman_entry(int length, int symbol, bool is_dc) {
  int run = is_dc ? 0 : symbol >> 4, size = symbol & 15;
  if (size == 0 && run != 15 && !is_dc) run = ULL__HUFFMAN_END;
  return (uint32_t)(length + size) << ULL__ENTRY_TOTAL | (uint32_t)run << ULL__ENTRY_RUN |
         (uint32_t)length << ULL__ENTRY_LENGTH | (uint32_t)(63 - size) << ULL__ENTRY_REST;
}

#endif
