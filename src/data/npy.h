/* The header of an NPY file (format versions 1 to 3), read from anything that gives bytes in order.
 */
#ifndef ULL_DATA_NPY_H
#define ULL_DATA_NPY_H

#include <stdbool.h>

#include "ullage/data.h"

/* rank <= ULL_DATA_MAX_RANK + 1: the first dimension counts samples. */
typedef struct ull__npy_header {
  ull_dtype dtype;
  int rank;
  int64_t shape[ULL_DATA_MAX_RANK + 1];
  uint64_t header_bytes; /* the elements begin here */
  uint64_t data_bytes;
} ull__npy_header;

/* Copies the next `count` bytes, or fails. */
typedef ull_status (*ull__read_bytes)(void *context, void *to, uint64_t count);

/* `what` names the file and the array in messages. Refuses Fortran order, other byte orders and
 * dtypes by name. */
ull_status ull__npy_read_header(ull__read_bytes read, void *context, const char *what,
                                ull__npy_header *header);

/* The same of an array [n] of integers without regard to what the loader computes with: '|u1',
 * '<u2',
 * '<i4', '<u4', '<i8', '<u8'. `*width` is the bytes of an element, *is_signed whether some may be
 * negative; header->dtype is not set. */
ull_status ull__npy_read_integers(ull__read_bytes read, void *context, const char *what,
                                  ull__npy_header *header, int *width, bool *is_signed);

#endif
