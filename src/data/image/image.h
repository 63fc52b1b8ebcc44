/* Pictures: from encoded bytes to rows of pixels, with a verdict.
 *
 * A reader is one thread's set of decoders. Work on a picture has three steps:
 *
 *     ull__image_open       looks at the content (never at the name) and reads the header
 *     ull__image_prepare    says what a region would take, before anything is taken
 *     ull__image_decode     pushes the region's rows, top to bottom, into a sink
 *
 * Rows below the region are not decoded, rows above it are skipped as cheaply as the format allows,
 * and columns outside are left out of the inverse transform where that is possible. All memory but
 * libwebp's comes from the scratch that the caller hands over; JPEG and PNG never touch the heap
 * once the reader exists. Coordinates are stored pixels: orientation is the caller's to apply. */
#ifndef ULL_DATA_IMAGE_IMAGE_H
#define ULL_DATA_IMAGE_IMAGE_H

#include "data/record.h"
#include "data/scratch.h"
#include "ullage/data.h"

typedef enum ull__image_format {
  ULL__IMAGE_UNKNOWN,
  ULL__IMAGE_JPEG,
  ULL__IMAGE_PNG,
  ULL__IMAGE_WEBP,
} ull__image_format;

typedef struct ull__rect {
  int x, y, width, height;
} ull__rect;

/* What the header says, and what has been found out so far. */
typedef struct ull__image_info {
  ull__image_format format;
  int width, height; /* stored, before orientation */
  int orientation;   /* EXIF's 1 to 8; 1 where the file says nothing sensible */
  int channels;      /* as coded: 1, 2 (grey and alpha), 3, 4 */
  int bits;          /* of a coded channel */
  bool palette;
  bool progressive; /* a progressive JPEG or an interlaced PNG: all of it is decoded before a row */
  ull_verdict verdict;
  const char *reason; /* in a few words, such as "premature end of file"; static, "" where there is
                         nothing to say */
} ull__image_info;

typedef struct ull__image_reader ull__image_reader;

/* Limits that make a picture ULL_VERDICT_TOO_BIG. */
typedef struct ull__image_limits {
  uint64_t pixels; /* width * height; 0 = 2^28 */
  uint64_t
      memory_bytes; /* scratch for one picture; what needs more is refused before it is taken */
} ull__image_limits;

/* Scratch that every picture needs whatever its size: for reading and headers. */
uint64_t ull__image_fixed_bytes(void);

/* Heap that a reader holds from create to destroy; at most, with what the libraries keep. */
uint64_t ull__image_reader_bytes(void);

ull_status ull__image_reader_create(const ull__image_limits *limits, ull__image_reader **out);
void ull__image_reader_destroy(ull__image_reader *reader); /* NULL is allowed */

/* Reads the header of `record`, which stays open until the decode is over. Uses at most
 * ull__image_fixed_bytes of `scratch` and keeps them until ull__image_close. ULL_ERROR_DATA with
 * info->verdict where there is no usable picture. */
ull_status ull__image_open(ull__image_reader *reader, const ull__record *record,
                           ull__scratch *scratch, ull__image_info *info);

/* A sink for rows. `pixels` is `width` pixels of the delivered region, `channels` bytes each,
 * borrowed for the call. A failure ends the decode with that status. */
typedef struct ull__image_sink {
  ull_status (*row)(void *context, int y, const uint8_t *pixels);
  void *context;
} ull__image_sink;

typedef struct ull__image_request {
  ull__rect region;   /* within the picture */
  int max_reduction;  /* 1, 2, 4 or 8: how much smaller than stored the caller can use; formats that
                         cannot reduce deliver full size */
  int channels;       /* 1: grey, 4: red, green, blue and a byte to ignore */
  bool class_numbers; /* a mask: palette indices or grey values as stored (8 bits), unconverted;
                         channels must be 1 */
} ull__image_request;

/* What a decode delivers and takes. */
typedef struct ull__image_delivery {
  int reduction;          /* 1, 2, 4 or 8 */
  ull__rect region;       /* in pixels of the reduced picture; covers what was asked for */
  uint64_t scratch_bytes; /* beyond what ull__image_open took */
  uint64_t whole_bytes; /* scratch_bytes of the region of this picture that takes most; 0: all take
                           about the same */
  uint64_t library_bytes; /* libwebp's own heap while it decodes, at most but for tables of hostile
                             files; 0 for the others */
  uint64_t least_bytes; /* the limit with which no region of this picture is refused, where that is
                           less than all of it takes; 0: it is not */
} ull__image_delivery;

/* ULL_ERROR_DATA with verdict TOO_BIG in *info where limits.memory_bytes is passed: the record says
 * "needs N bytes". */
ull_status ull__image_prepare(ull__image_reader *reader, const ull__image_request *request,
                              ull__image_info *info, ull__image_delivery *delivery);

/* Pushes delivery->region.height rows. With a status other than OK fewer came. info->verdict and
 * reason are final afterwards: OK and REPAIRED mean every bit that was decoded was sound;
 * DAMAGED and TRUNCATED pictures deliver all rows where the decoder can go on. */
ull_status ull__image_decode(ull__image_reader *reader, const ull__image_request *request,
                             const ull__image_delivery *delivery, ull__scratch *scratch,
                             const ull__image_sink *sink, ull__image_info *info);

/* Whoever turned the pixels upright says so: an otherwise sound picture becomes REPAIRED. */
void ull__image_note_turned(ull__image_info *info, bool ignored);

/* Ends work on the picture, whatever its state, and rewinds the scratch to where open found it. */
void ull__image_close(ull__image_reader *reader);

#endif
