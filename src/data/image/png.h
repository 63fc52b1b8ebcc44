/* What the files of the PNG decoder share. */
#ifndef ULL_DATA_IMAGE_PNG_H
#define ULL_DATA_IMAGE_PNG_H

#include <spng.h>

#include "data/image/codec.h"

/* libspng's context and its reading buffer (12,672 bytes in 0.7.3), or, before them, zlib's state
 * for metadata. */
enum { ULL__PNG_SMALL_BYTES = 64 << 10 };

/* What libspng takes to decode, beside rows: zlib's state and window, 39,992 bytes. */
enum { ULL__PNG_INFLATE_BYTES = 44 << 10 };

/* The chunks of a file, and those of them that libspng gets to see: the critical ones. The others
 * are never inflated and never kept. */
typedef struct ull__png_feed {
  ull__input *input;
  ull__image_info *info;
  uint64_t at;     /* in the record: the next byte to give */
  uint64_t done;   /* bytes given of the chunk, its length, type and checksum included */
  uint64_t length; /* of the chunk's content; done == length + 12: another chunk is next */
  uint8_t type[4];
  uint32_t checksum;
  bool ended;         /* the record ended before the last chunk */
  bool complete;      /* the last chunk has been seen */
  ull_status stopped; /* a failure of reading */
  uint8_t *working;   /* ULL__PNG_SMALL_BYTES for the survey */
} ull__png_feed;

typedef struct ull__png {
  spng_ctx *context;
  struct spng_ihdr header;
  ull__png_feed feed;
  uint8_t *small, *large; /* the first lasts as long as the picture, the second is a decode's */
  uint64_t small_used, large_bytes, large_used;
  bool decoding; /* what libspng takes now is a decode's */
} ull__png;

/* Looks at the chunks before the pixels: checksums, orientation. ULL_ERROR_IO. */
ull_status ull__png_survey(ull__png_feed *feed);

/* The orientation that a chunk of metadata says, 0 where it is none or does not say. `working` is
 * ULL__PNG_SMALL_BYTES that are free meanwhile. */
int ull__png_metadata_orientation(const uint8_t type[4], const uint8_t *content, size_t count,
                                  uint8_t *working);

/* From the beginning, for libspng. */
void ull__png_feed_begin(ull__png_feed *feed);
int ull__png_feed_read(spng_ctx *context, void *feed, void *to, size_t count);

/* Behind the last row: checks what is left of the file. */
ull_status ull__png_feed_finish(ull__png_feed *feed);

/* The rest need not be decoded: whether the file has its last chunk. Does not move the feed. */
ull_status ull__png_find_end(ull__png_feed *feed, bool *found);

/* libspng's allocator, on the memory of the PNG that this thread works on. */
extern struct spng_alloc ull__png_allocator;
void ull__png_work_on(ull__png *png);

/* How stored samples become pixels. */
typedef struct ull__png_layout {
  int colour; /* spng_color_type */
  int depth;
  bool grey, class_numbers;            /* delivered: one byte a pixel */
  struct spng_plte_entry palette[256]; /* red, green, blue */
  uint8_t palette_grey[256];
  const char *problem; /* set where class numbers cannot be had */
} ull__png_layout;

/* Pixels first to first + count of a row as libspng gives it (SPNG_FMT_PNG). */
void ull__png_convert(ull__png_layout *layout, const uint8_t *row, int first, int count,
                      uint8_t *to);

#endif
