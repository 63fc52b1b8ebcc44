/* Columns of a table as Apache Arrow's C data interface and C stream interface lay them out (Arrow
 * columnar format, "The Arrow C data interface"): the border between C and a library in C++.
 *
 * Whoever gets a structure calls its `release`, once; a released one has NULL there. Children and
 * the dictionary belong to their parent. */
#ifndef ULL_DATA_PARQUET_ARROW_C_H
#define ULL_DATA_PARQUET_ARROW_C_H

#include <stdint.h>

/* The names and the guards are the specification's, so that Arrow's own header may come as well. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

struct ArrowSchema {
  const char *format; /* the type: "l" is int64, "u" is text, "+s" a struct */
  const char *name;   /* may be NULL */
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary; /* of the values, where `format` is that of indices */
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count; /* -1: not known */
  int64_t offset;     /* of the first element in every buffer */
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers; /* first the bits of validity, or NULL: nothing is missing */
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

/* Each returns 0 or an errno; then get_last_error has a text until the next call. */
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out); /* released: the end */
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

#endif

#endif
