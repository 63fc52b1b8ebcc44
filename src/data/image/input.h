/* A window on a record: decoders see the encoded bytes a piece at a time. Records in memory are
 * seen whole and never copied. */
#ifndef ULL_DATA_IMAGE_INPUT_H
#define ULL_DATA_IMAGE_INPUT_H

#include "data/record.h"

/* Two windows cover a marker segment of any JPEG; most files of a training set fit into one. */
enum { ULL__INPUT_BYTES = 256 << 10 };

typedef struct ull__input {
  const ull__record *record;
  uint8_t *buffer; /* ULL__INPUT_BYTES; borrowed */
  uint64_t at;     /* where in the record the window begins */
  const uint8_t *bytes;
  size_t count; /* 0 behind the end */
} ull__input;

/* Opens a window at the beginning. */
ull_status ull__input_begin(ull__input *input, const ull__record *record, uint8_t *buffer);

/* Moves the window so that it begins at `at`. */
ull_status ull__input_move(ull__input *input, uint64_t at);

/* Makes `count` bytes from `at` on part of the window, fewer at the end of the record; moves it
 * only when they are not. count <= ULL__INPUT_BYTES. *bytes is borrowed until the window moves. */
ull_status ull__input_see(ull__input *input, uint64_t at, size_t count, const uint8_t **bytes,
                          size_t *got);

/* Looks backwards from the record's end for `pair` of bytes, not before `from`; moves the window.
 */
ull_status ull__input_find_last(ull__input *input, const uint8_t pair[2], uint64_t from,
                                bool *found);

#endif
